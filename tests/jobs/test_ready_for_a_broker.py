"""What `retain` and `recover` write is a log dir that Kafka's LogManager loads without repairs."""

import hashlib
import json
from types import ModuleType

import pytest

from jobs import recover, retain
from tests import golden

NOW = 1_794_820_000_000
RETAIN = (retain, ["--set=retention.bytes=2000", "--set=retention.ms=-1"])
RECOVER: tuple[ModuleType, list[str]] = (recover, [])


def logs_of(directory):
    return {
        str(path.relative_to(directory)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*.log"))
        if "__cluster_metadata" not in str(path)
    }


@pytest.mark.parametrize(
    ("pack", "verb", "options"),
    [
        pytest.param("clean-3.9.1", *RETAIN, id="retain"),
        pytest.param("unclean-4.3.1", *RECOVER, id="recover"),
        pytest.param("clean-3.9.1", *RECOVER, id="recover-clean"),
    ],
)
def test_a_log_manager_starts_on_it(oracle, capsys, tmp_path, pack, verb, options):
    (source,) = golden.log_dirs(golden.shared(pack))
    out = tmp_path / "out"
    arguments = [str(source), *options, f"--now={NOW}", f"--output={out}", "--format=json"]
    assert verb.main(arguments) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    written = logs_of(out)
    answer = oracle.call("start_log_manager", paths=[out], config={}, time=NOW, timeout=120)
    assert "error" not in answer
    assert not answer["offline"]
    compared = 0
    for row in rows:
        name = row["path"].rpartition("/")[2]
        if row["kind"] != "partition" or row.get("log_end_offset") is None:
            continue
        if name == "__cluster_metadata-0" or name not in answer["logs"]:
            continue
        reported = answer["logs"][name]
        start = row.get("new_log_start_offset", row["log_start_offset"])
        assert (reported["log_start_offset"], reported["log_end_offset"]) == (
            start,
            row["log_end_offset"],
        )
        compared += 1
    assert compared >= 15
    assert logs_of(out) == written  # and nothing had to be cut
