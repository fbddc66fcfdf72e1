"""A leader-epoch-checkpoint that was edited, next to batches that Kafka wrote."""

from pathlib import Path

import pytest

from tests.kafka_log.checks.partition_audit import audit_directory, ids
from tests.oracle.client import BuiltLog
from tests.oracle.logs import START

NAME = "leader-epoch-checkpoint"
ROWS = [(0, 0), (2, 114), (4, 235), (6, 376)]


def found(log: Path, rows: list[tuple[int, int]], *, is_clean: bool | None = True) -> list[str]:
    lines = "".join(f"{epoch} {start}\n" for epoch, start in rows)
    (log / NAME).write_text(f"0\n{len(rows)}\n{lines}")
    return ids(audit_directory(log, is_clean=is_clean, now_ms=START)[0])


def test_the_rows_are_as_kafka_wrote_them(built: BuiltLog) -> None:
    lines = (built.path / NAME).read_text().split("\n")
    assert [tuple(map(int, line.split())) for line in lines[2:-1]] == ROWS


@pytest.mark.parametrize("start", [113, 115, 100, 200])
def test_an_epoch_that_starts_elsewhere_is_lep002(log: Path, start: int) -> None:
    assert found(log, [ROWS[0], (2, start), *ROWS[2:]]) == ["LEP002"]


@pytest.mark.parametrize("epoch", [1, 3])
def test_another_epoch_is_lep002(log: Path, epoch: int) -> None:
    assert found(log, [ROWS[0], (epoch, 114), *ROWS[2:]]) == ["LEP002"]


@pytest.mark.parametrize("gone", range(1, len(ROWS)))
def test_an_epoch_that_is_gone_is_lep002(log: Path, gone: int) -> None:
    assert found(log, ROWS[:gone] + ROWS[gone + 1 :]) == ["LEP002"]


def test_the_first_epoch_is_missed_after_a_clean_stop_only(log: Path) -> None:
    """A broker cuts the epochs to a new log start before it writes that to its checkpoint."""
    assert found(log, ROWS[1:]) == ["LEP002"]
    assert found(log, ROWS[1:], is_clean=False) == []


def test_epochs_without_batches_are_normal(log: Path) -> None:
    assert found(log, [*ROWS, (9, 517)]) == []


def test_an_epoch_beyond_the_log_end_is_lep003(log: Path) -> None:
    assert found(log, [*ROWS, (9, 518)]) == ["LEP003"]


def test_rows_in_another_order_are_lep004(log: Path) -> None:
    assert "LEP004" in found(log, [ROWS[1], ROWS[0], *ROWS[2:]])


def test_a_file_without_epochs_is_lep005(log: Path) -> None:
    assert found(log, []) == ["LEP005"]
    (log / NAME).unlink()
    assert ids(audit_directory(log, is_clean=True, now_ms=START)[0]) == ["LEP005"]


def test_a_negative_epoch_is_lep001(log: Path) -> None:
    """Kafka throws an exception when it assigns it, and the partition does not load."""
    assert found(log, [(-1, 0), *ROWS[1:]])[0] == "LEP001"
