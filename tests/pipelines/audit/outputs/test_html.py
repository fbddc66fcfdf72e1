"""The page: complete, escaped, and without script or network, also in a real browser."""

import io
import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest

from kafka_log.checks.finding import About, Finding
from pipelines.audit.outputs.html import fragment, write_html
from pipelines.audit.report import AuditReport
from tests.pipelines.audit.damaged import damaged, log_dir, report_of

CHROMIUM = next(
    (
        found
        for name in ("chromium", "chromium-browser", "google-chrome")
        if (found := shutil.which(name))
    ),
    None,
)
HOSTILE = "<script>alert(1)</script>\"'&\x1b\u202e{{ 7*7 }}"


class _Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.tags, self.attributes, self.text, self.open = set(), [], "", []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes += attrs

    def handle_data(self, data):
        self.text += data


def page(report):
    file = io.StringIO()
    write_html(file, report)
    return file.getvalue()


def test_the_page_has_verdict_findings_advice_and_what_was_not_checked(tmp_path):
    report = report_of(damaged(tmp_path / "data"))
    found = _Page(page(report))
    for text in (
        report.verdict,
        f"{0:020d}.log@2153, offset 10",
        "a batch has a wrong checksum",
        "After an unclean shutdown the log is truncated before this batch",
        "files of the log dir",
        "no other replicas were given",
    ):
        assert text in found.text
    assert "svg" in found.tags
    ids = {value for name, value in found.attributes if name == "id"}
    links = {value for name, value in found.attributes if name == "href"}
    assert {each[1:] for each in links if each.startswith("#")} <= ids
    assert "LOG001" in ids


def test_the_page_needs_no_script_and_no_network(tmp_path):
    found = _Page(page(report_of(damaged(tmp_path / "data"))))
    assert "script" not in found.tags
    places = [value for name, value in found.attributes if name in ("src", "href")]
    assert {each for each in places if not each.startswith("#")} == {"data:,"}
    assert not [name for name, _ in found.attributes if name.startswith("on")]
    assert ("content", "default-src 'none'; style-src 'unsafe-inline'; img-src data:") in (
        found.attributes
    )


def hostile_report():
    report = AuditReport(paths=(HOSTILE,))
    about = About(f"/data/{HOSTILE}-0/0.log", HOSTILE, 0)
    report.add(Finding.of("LOG001", about, HOSTILE, HOSTILE, position=1))
    return report


def test_text_from_the_evidence_is_escaped():
    for text in (page(hostile_report()), fragment(hostile_report())):
        found = _Page(text)
        assert "script" not in found.tags
        assert "{{ 7*7 }}" in found.text
        assert "<script>alert(1)</script>" in found.text
        assert not set("\x1b\u202e") & set(text)


def test_a_healthy_page_and_keys_only_on_request(tmp_path):
    assert "healthy: nothing found" in page(report_of(log_dir(tmp_path / "sound")))
    data = damaged(tmp_path / "data")
    assert "key-000" not in page(report_of(data))
    assert "key key-000, value value 000 of a record" in page(report_of(data, show_data=True))


def test_many_findings_make_a_page_of_bounded_size():
    report = AuditReport()
    for partition in range(300):
        for offset in range(100):
            about = About(f"/data/t-{partition}/0.log", "t", partition)
            report.add(Finding.of("LOG001", about, "found", "expected", offset=offset))
    text = page(report)
    assert len(text) < 2_000_000
    assert "200 more partitions have findings" in text
    assert "and 50 more" in text


def test_a_notebook_gets_a_fragment(tmp_path):
    report = report_of(damaged(tmp_path / "data"))
    text = report._repr_html_()
    assert "<html" not in text
    assert report.verdict in _Page(text).text


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_a_browser_shows_it_without_errors_or_requests(tmp_path):
    path = tmp_path / "audit.html"
    path.write_text(page(report_of(damaged(tmp_path / "data"))))
    netlog = tmp_path / "net.json"
    done = subprocess.run(
        [
            *(CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"),
            *("--enable-logging=stderr", "--v=0", f"--log-net-log={netlog}", "--dump-dom"),
            *("--disable-background-networking", "--disable-component-update"),
            *("--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={tmp_path / 'profile'}"),
            path.as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    dom = _Page(done.stdout)
    assert "a batch has a wrong checksum" in dom.text
    assert "svg" in dom.tags
    assert ":CONSOLE" not in done.stderr
    from_page = re.findall(r'"initiator":"([^"]*)"', netlog.read_text())
    assert [each for each in from_page if each not in ("", "not an origin")] == []
