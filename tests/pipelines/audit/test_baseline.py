"""Accepted findings: until a date, with a reason, and only those."""

import io
import json

import pytest

from pipelines.audit.baseline import (
    Baseline,
    BaselineError,
    parse_baseline,
    read_baseline,
    write_baseline,
)
from tests.pipelines.audit.damaged import damaged, report_of

MARK = "0123456789abcdef0123456789abcdef"
DAY_2027 = 1_798_761_600_000
"""2027-01-01T00:00:00Z"""


def parsed(entry, now_ms=0):
    text = json.dumps({"version": 1, "accepted": [entry]})
    return parse_baseline(text, "known.json", now_ms)


def test_an_acceptance_ends_on_its_date():
    entry = {"fingerprint": MARK, "reason": "the power cut", "until": "2027-01-01"}
    before, after = parsed(entry, DAY_2027 - 1), parsed(entry, DAY_2027)
    assert (before.reason(MARK), after.reason(MARK)) == ("the power cut", None)
    assert (before.expired(), [each.until for each in after.expired()]) == ([], ["2027-01-01"])


def test_what_is_not_there_any_more_and_what_has_no_reason_is_listed():
    baseline = parsed({"fingerprint": MARK, "reason": ""})
    assert [each.fingerprint for each in baseline.unused()] == [MARK]
    assert [each.fingerprint for each in baseline.without_reason()] == [MARK]
    assert baseline.reason(MARK) == ""
    assert baseline.reason("f" * 32) is None
    assert baseline.unused() == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
        ("[]", "expected a JSON object"),
        ('{"version": 2, "accepted": []}', '"version": 1'),
        ('{"version": 1}', 'a list "accepted"'),
        ('{"version": 1, "accepted": [1]}', "entry 1: expected an object"),
        ('{"version": 1, "accepted": [{"reason": "x"}]}', "32 hex digits"),
        (f'{{"version": 1, "accepted": [{{"fingerprint": "{MARK}"}}]}}', "no reason"),
        (
            f'{{"version": 1, "accepted": [{{"fingerprint": "{MARK}", "reason": 1}}]}}',
            "reason: expected a text",
        ),
        (
            f'{{"version":1,"accepted":[{{"fingerprint":"{MARK}","reason":"","until":""}}]}}',
            "expected YYYY-MM-DD",
        ),
        (
            f'{{"version": 1, "accepted": [{{"fingerprint": "{MARK}", "why": "x"}}]}}',
            "unknown field 'why'",
        ),
    ],
)
def test_a_malformed_baseline_is_refused(text, message):
    with pytest.raises(BaselineError, match=r"^known\.json: ") as error:
        parse_baseline(text, "known.json", 0)
    assert message in str(error.value)


def test_bytes_that_are_no_text_are_refused(tmp_path):
    path = tmp_path / "known.json"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(BaselineError):
        read_baseline(str(path), 0)


def test_what_is_written_accepts_exactly_these_findings_and_keeps_reasons(tmp_path):
    data = damaged(tmp_path / "data")
    first = io.StringIO()
    write_baseline(first, report_of(data), Baseline())
    entries = json.loads(first.getvalue())["accepted"]
    assert [(each["id"], each["where"], each["reason"]) for each in entries] == [
        ("LOG001", "codecs-0", ""),
        ("LOG001", "codecs-0", ""),
        ("CKP001", "recovery-point-offset-checkpoint", ""),
    ]
    assert str(tmp_path) not in first.getvalue()
    entries[0] |= {"reason": "the power cut", "until": "2027-01-01"}
    path = tmp_path / "known.json"
    path.write_text(json.dumps({"version": 1, "accepted": entries[:2]}))
    report = report_of(data, baseline=path)
    assert [row.get("accepted") for row in report] == ["the power cut", "", None]
    assert (report.counts["error"], report.accepted, report.exit_code()) == (1, 2, 1)
    again = io.StringIO()
    write_baseline(again, report, report.baseline)
    kept = json.loads(again.getvalue())["accepted"]
    assert [(each["reason"], each.get("until")) for each in kept] == [
        ("the power cut", "2027-01-01"),
        ("", None),
        ("", None),
    ]
    path.write_text(again.getvalue())
    assert report_of(data, baseline=path).exit_code("note") == 0
