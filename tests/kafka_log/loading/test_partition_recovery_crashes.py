"""A process that dies at any change of its files: what it leaves, Kafka and we repair alike.

Our own log does the work (append, roll, truncate, replace segments, recover, split) on files that
stop taking changes at the n-th; the directory that is left is one more case for both loaders.
"""

import random
import shutil
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_format.batch import encode_batch
from kafka_format.control import ControlRecordType, encode_control_record, end_transaction_marker
from kafka_format.record import SimpleRecord
from kafka_log.appends.origin import AppendOrigin
from kafka_log.checkpoints import LastRun
from kafka_log.clock import FixedClock, Scheduler
from kafka_log.disk.crash_points import Crash, CrashingFiles
from kafka_log.disk.files import DiskFiles, Files
from kafka_log.log.unified_log import PartitionLog
from kafka_log.segment.segment_files import create_new_cleaned_segment
from tests.kafka_log.damaged.cases import Case
from tests.kafka_log.damaged.sources import Source, build_sources
from tests.kafka_log.loading.test_partition_recovery_oracle import config_of, open_and_compare
from tests.oracle.client import Oracle
from tests.oracle.logs import START

POINTS = 16
"""Crash points of each work that `make test` tries, spread over all of them."""
Work = Callable[[Files, Source], None]


@pytest.fixture(scope="module")
def sources(oracle: Oracle, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Source]:
    wanted = {source for _, source in WORKS.values()}
    built = build_sources(oracle, tmp_path_factory.mktemp("sources"), wanted)
    return {source.name: source for source in built}


# ------------------------------------------------------------------------------------------ work


def _open(files: Files, source: Source, last_run: LastRun | None = None) -> PartitionLog:
    clock = FixedClock(START + 3_600_000)
    config = replace(
        config_of({"config": source.settings}), transaction_partition_verification_enable=False
    )
    stopped = LastRun(recovery_point=source.log_end_offset)
    return PartitionLog.open(files, config, Scheduler(clock), last_run or stopped)


def append(files: Files, source: Source) -> None:
    """Plain, idempotent and transactional batches over several segments, then an abort."""
    log = _open(files, source)
    for i in range(14):
        records = [SimpleRecord(START + i, b"k%d" % j, b"v" * 90) for j in range(1 + i % 3)]
        producer: dict[str, Any] = {}
        if i % 3:  # every batch of a producer of its own
            producer = {"producer_id": 7000 + i, "producer_epoch": 0, "base_sequence": 0}
            producer |= {"is_transactional": i % 3 == 2}
        log.append_as_leader(encode_batch(records, **producer), leader_epoch=20 + i // 5)
    for i in (2, 8):
        marker = end_transaction_marker(ControlRecordType.ABORT, 1)
        key, value = encode_control_record(marker)
        batch = encode_batch(
            [SimpleRecord(START + 99, key, value)],
            producer_id=7000 + i,
            producer_epoch=0,
            is_transactional=True,
            is_control=True,
        )
        log.append_as_leader(
            batch, leader_epoch=23, origin=AppendOrigin.COORDINATOR, transaction_version=1
        )
    log.close_handlers()


def roll(files: Files, source: Source) -> None:
    log = _open(files, source)
    log.append_as_leader(encode_batch([SimpleRecord(START, b"k", b"v")]), leader_epoch=20)
    log.roll()
    log.flush()
    log.close()


def truncate(files: Files, source: Source) -> None:
    log = _open(files, source)
    log.truncate_to(source.log_end_offset * 2 // 3 + 1)
    log.truncate_to(source.log_end_offset // 3)
    log.close_handlers()


def truncate_fully(files: Files, source: Source) -> None:
    log = _open(files, source)
    log.truncate_fully_and_start_at(source.log_end_offset + 7)
    log.close_handlers()


def clean_segments(files: Files, source: Source) -> None:
    """Two segments become one, which has every second of their batches."""
    log = _open(files, source)
    old = log.log_segments[1:3]
    new = create_new_cleaned_segment(files, old[0].base_offset, log.config, FixedClock(START))
    batches = [(segment.log, batch) for segment in old for batch in segment.log.batches()]
    for records, batch in batches[::2]:
        new.append(batch.last_offset, records.read_exactly(batch.position, batch.size_in_bytes))
    new.on_become_inactive_segment()
    new.flush()
    log.replace_segments([new], old)
    log.close_handlers()


def recover(files: Files, source: Source) -> None:
    """A first restart after a crash, which crashes too."""
    damaged = max(name for name in files.names() if name.endswith(".log"))
    file = files.open(damaged)
    file.truncate(max(0, file.size - 11))
    file.close()
    log = _open(files, source, LastRun(clean_shutdown=False))
    log.close_handlers()


def load(files: Files, source: Source) -> None:
    _open(files, source, LastRun(clean_shutdown=False)).close_handlers()


WORKS: dict[str, tuple[Work, str]] = {
    "append": (append, "one-segment"),
    "append over segments": (append, "clean"),
    "roll": (roll, "clean"),
    "truncate": (truncate, "transactions"),
    "truncate fully": (truncate_fully, "gaps-clean"),
    "replace segments": (clean_segments, "clean"),
    "recover": (recover, "transactions"),
    "split": (load, "overflow-2"),
    "split in recovery": (load, "overflow-3"),
}


# ---------------------------------------------------------------------------------------- crashes


def crash(work: Work, source: Source, target: Path, crash_at: int | None, torn: int) -> int:
    """Do the work in a copy, up to a change; how many changes there were."""
    shutil.copytree(source.path, target)
    files = CrashingFiles(DiskFiles(target), crash_at, torn=torn)
    with suppress(Crash):
        work(files, source)
    return files.changes


def run_crashes(
    oracle: Oracle, name: str, sources: dict[str, Source], folder: Path, points: int | None
) -> list[str]:
    work, source = WORKS[name][0], sources[WORKS[name][1]]
    changes = crash(work, source, folder / "whole" / "orders-0", None, 0)
    rng = random.Random(name)
    chosen: Sequence[int] = range(1, changes + 1)
    if points is not None and changes > points:
        chosen = sorted(rng.sample(chosen, points))
    cases = []
    for crash_at in chosen:
        torn = rng.choice((0, 0, 1, 13, 60, 100))
        crash(work, source, folder / str(crash_at) / "before" / "orders-0", crash_at, torn)
        arguments = {
            "config": source.settings,
            "time": START + 7_200_000,
            "clean_shutdown": False,
            "recovery_point": rng.choice((0, source.log_end_offset // 2, source.log_end_offset)),
            "log_start_offset": 0,
        }
        what = f"{name} died at change {crash_at} of {changes}, {torn} bytes torn"
        cases.append(
            Case(
                seed=crash_at,
                source=source,
                directory="orders-0",
                arguments=arguments,
                damage=[what],
            )
        )
    return open_and_compare(oracle, cases, folder)


@pytest.mark.parametrize("name", WORKS)
def test_what_a_crash_leaves_is_repaired_as_kafka_repairs_it(
    oracle: Oracle, sources: dict[str, Source], name: str, tmp_path: Path
) -> None:
    assert run_crashes(oracle, name, sources, tmp_path, POINTS) == []


@pytest.mark.soak
@pytest.mark.parametrize("name", WORKS)
def test_what_a_crash_at_any_point_leaves_is_repaired_as_kafka_repairs_it(
    oracle: Oracle, sources: dict[str, Source], name: str, tmp_path: Path
) -> None:
    assert run_crashes(oracle, name, sources, tmp_path, None) == []
