"""What a finding says of a restart, Kafka does: its own loader is started on the damage."""

from pathlib import Path
from typing import Any

import pytest

from kafka_log.checks.rules import RULES
from tests.oracle.client import Oracle, OracleError
from tests.pipelines.source.tables.test_findings import (
    CASES,
    DIRECTORIES,
    SEGMENT,
    TIME,
    log_dir,
    write,
)

REFUSED = "refused"
GONE = "gone"
TOPIC_ID = b"version: 0\ntopic_id: urUFdIL6SZaNNnV3XDNt5w"

# After an unclean and after a clean stop: the log end offset, and the size of the damaged file.
LOGS: dict[str, tuple[Any, Any]] = {
    "LOG001": ((1, 70), (3, 210)),
    "LOG002": ((1, 70), (3, 210)),
    "LOG003": ((3, 210), (3, 210)),
    "LOG004": ((2, 140), (0, 200)),  # an index entry points at the torn batch
    "LOG005": ((3, 210), REFUSED),
    "TXN001": (REFUSED, REFUSED),
    "TXN002": ((3, 0), (3, 68)),
    "TXN003": ((3, 0), (3, 37)),
    "SNP001": ((3, GONE), (3, GONE)),
    "SNP002": ((3, GONE), (3, GONE)),
    "SNP003": ((3, GONE), (3, GONE)),
    "LEP001": (REFUSED, REFUSED),
    "MET001": (REFUSED, REFUSED),
}


@pytest.mark.parametrize("rule", LOGS)
@pytest.mark.parametrize("is_clean", [False, True])
def test_a_partition_loads_as_its_finding_says(oracle, tmp_path, rule, is_clean):
    case, root = CASES[rule], log_dir(tmp_path)
    path = write(root, case.name, case.data)
    into = tmp_path / "kafka"
    expected = LOGS[rule][is_clean]
    try:
        answer = oracle.open_log(root / "orders-0", into, clean_shutdown=is_clean, close="crash")
    except OracleError:
        assert expected == REFUSED
        return
    left = into / "orders-0" / path.name
    size = left.stat().st_size if left.exists() else GONE
    assert (answer["state"]["log_end_offset"], size) == expected


@pytest.mark.parametrize("rule", ["IDX001", "IDX002", "IDX003", "TIX001", "TIX002", "TIX003"])
def test_an_index_is_rebuilt_after_an_unclean_stop_and_kept_after_a_clean_one(
    oracle, tmp_path, rule
):
    case, root = CASES[rule], log_dir(tmp_path)
    path = write(root, case.name, case.data)
    first = case.data[: case.position]
    for is_clean in (False, True):
        into = tmp_path / f"kafka-{is_clean}"
        oracle.open_log(root / "orders-0", into, clean_shutdown=is_clean, close="crash")
        with (into / "orders-0" / path.name).open("rb") as file:
            assert file.read(len(first)).startswith(first) == is_clean


def start(oracle: Oracle, root: Path) -> dict[str, Any]:
    """LogManager on all log dirs below; their partition is one that the metadata knows."""
    for partition in root.glob("*/orders-0"):
        if not (partition / "partition.metadata").exists():
            (partition / "partition.metadata").write_bytes(TOPIC_ID)
    paths = sorted(path for path in root.iterdir() if path.is_dir())
    return oracle.call("start_log_manager", paths=paths, config={}, time=TIME, timeout=120)


def test_a_sound_log_dir_starts(oracle, tmp_path):
    log_dir(tmp_path)
    answer = start(oracle, tmp_path)
    assert not answer["offline"]
    assert "error" not in answer
    assert len(answer["logs"]) == 1


@pytest.mark.parametrize(
    "name", ["recovery-point-offset-checkpoint", "log-start-offset-checkpoint"]
)
def test_a_checkpoint_that_cannot_be_read_takes_the_log_dir_offline(oracle, tmp_path, name):
    write(log_dir(tmp_path), name, CASES["CKP001"].data)
    assert start(oracle, tmp_path)["offline"]
    assert "offline" in RULES["CKP001"].on_restart


@pytest.mark.parametrize(
    ("name", "data"),
    [
        (CASES["LEP001"].name, CASES["LEP001"].data),
        (CASES["LEP001"].name, b"0\n5\n0 0\n"),
        (CASES["MET001"].name, CASES["MET001"].data),
        (CASES["MET001"].name, b"version: x\ntopic_id: abc"),
    ],
)
def test_what_does_not_load_stops_the_broker_or_takes_the_log_dir_offline(
    oracle, tmp_path, name, data
):
    write(log_dir(tmp_path), name, data)
    answer = start(oracle, tmp_path)
    assert answer["offline"] or "error" in answer


def test_zeros_in_the_last_segment_stop_a_broker_that_was_stopped_cleanly(oracle, tmp_path):
    root = log_dir(tmp_path)
    write(root, f"orders-0/{SEGMENT}.log", CASES["LOG005"].data)
    write(root, ".kafka_cleanshutdown", b"")
    assert start(oracle, tmp_path)["error"]["class"].endswith("CorruptRecordException")


@pytest.mark.parametrize(
    ("rule", "starts"), [("DIR002", False), ("DIR003", False), ("DIR004", True)]
)
def test_directories_stop_a_broker_or_not_as_their_findings_say(oracle, tmp_path, rule, starts):
    make, _, _ = DIRECTORIES[rule]
    make(log_dir(tmp_path))
    assert ("error" not in start(oracle, tmp_path)) == starts
    assert ("does not start" in RULES[rule].on_restart) == (not starts)


def test_a_clean_shutdown_file_without_an_epoch_is_one_all_the_same(oracle, tmp_path):
    root = log_dir(tmp_path)
    flipped = CASES["LOG001"].data  # cut, if the log were recovered
    write(root, f"orders-0/{SEGMENT}.log", flipped)
    write(root, ".kafka_cleanshutdown", CASES["MET003"].data)
    assert "error" not in start(oracle, tmp_path)
    assert (root / "orders-0" / f"{SEGMENT}.log").read_bytes() == flipped
