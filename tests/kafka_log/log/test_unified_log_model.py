"""A log against a list of records: appended, rolled, cut, deleted from, crashed, recovered.

The model knows nothing of segments or indexes. What must hold: a reader finds exactly the model's
records; a crash of the process loses nothing but the change it died in; a power loss loses nothing
that was flushed.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.log_file import iter_batches
from kafka_format.record import SimpleRecord
from kafka_log.checkpoints import LastRun
from kafka_log.clock import FixedClock, Scheduler
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.crash_points import Crash, CrashingFiles, PowerLossFiles
from kafka_log.disk.files import DiskFiles, Files
from kafka_log.log.unified_log import PartitionLog

FETCH_BYTES = 700  # less than a segment, so that a reader comes back often


class Row(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None


def _read_all(log: PartitionLog) -> list[Row]:
    """As a consumer reads: fetch by fetch, dropping what lies before the offset it asked for."""
    found: list[Row] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        fetched = log.read(offset, FETCH_BYTES).records.read()
        batches = list(iter_batches(fetched))
        rows = [
            Row(record.offset, record.key, record.value)
            for batch in batches
            for record in batch.records()
            if record.offset >= offset
        ]
        found += rows
        following = max((batch.header.next_offset for batch in batches), default=offset)
        if following <= offset:  # nothing here: a truncation left a gap up to the end
            break
        offset = following
    return found


class LogMachine(RuleBasedStateMachine):
    """One partition, one writer."""

    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp()) / "events-0"
        self.directory.mkdir()
        self.clock = FixedClock(1_700_000_000_000)
        self.rows: list[Row] = []
        self.start = self.end = 0
        self.flushed = 0  # everything below was promised to survive
        self.recovery_point = self.start_checkpoint = 0  # what the checkpoint files say
        self.has_gap = False
        self.value = 0

    def teardown(self) -> None:
        shutil.rmtree(self.directory.parent)

    @initialize(
        segment_bytes=st.sampled_from([1200, 2500, 6000]), interval=st.sampled_from([0, 200, 4096])
    )
    def create(self, segment_bytes: int, interval: int) -> None:
        self.config = LogConfig(
            segment_bytes=segment_bytes, index_interval_bytes=interval, segment_index_bytes=240
        )
        self._open(clean=True)

    def _open(self, *, clean: bool) -> None:
        self.files = PowerLossFiles(DiskFiles(self.directory))
        self.log = self._log_on(self.files, clean=clean)
        if self.log.log_end_offset < self.end:
            self._forget_gap()

    def _forget_gap(self) -> None:
        """A truncation inside a batch leaves offsets that nobody has; a load does not know them."""
        last = self.rows[-1].offset + 1 if self.rows else self.start
        assert self.has_gap, "records are gone"
        assert last <= self.log.log_end_offset
        self.end = self.log.log_end_offset
        self.flushed = min(self.flushed, self.end)
        self.has_gap = False

    def _log_on(self, files: Files, *, clean: bool) -> PartitionLog:
        return PartitionLog.open(
            files,
            self.config,
            Scheduler(self.clock),
            LastRun(
                clean_shutdown=clean,
                log_start_offset=self.start_checkpoint,
                recovery_point=self.recovery_point,
            ),
        )

    def _batch(self, count: int, codec: Codec, size: int) -> tuple[bytes, list[Row]]:
        rows = []
        for n in range(count):
            self.value += 1
            key = None if self.value % 7 == 0 else b"%d" % (self.value % 5)
            value = None if self.value % 11 == 0 else b"%d " % self.value + b"x" * size
            rows.append(Row(self.end + n, key, value))
        records = [SimpleRecord(self.clock() + n, row.key, row.value) for n, row in enumerate(rows)]
        return encode_batch(records, codec=codec), rows

    # ------------------------------------------------------------------------------- changes

    @rule(
        count=st.integers(1, 6),
        codec=st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4, Codec.ZSTD]),
        size=st.integers(0, 120),
        passed=st.integers(0, 5000),
    )
    def append(self, count: int, codec: Codec, size: int, passed: int) -> None:
        self.clock.now_ms += passed
        batch, rows = self._batch(count, codec, size)
        info = self.log.append_as_leader(batch, leader_epoch=self.value // 40)
        assert (info.first_offset, info.last_offset) == (rows[0].offset, rows[-1].offset)
        self.rows += rows
        self.end += count

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        self.log.flush()
        self.flushed = self.end

    @rule()
    def checkpoint(self) -> None:
        """What LogManager writes now and then."""
        self.recovery_point = self.log.recovery_point
        self.start_checkpoint = self.log.log_start_offset

    @rule(share=st.floats(0, 1))
    def delete_records(self, share: float) -> None:
        target = self.start + round((self.end - self.start) * share)
        self.log.update_high_watermark(self.end)
        self.log.maybe_increment_log_start_offset(target)
        self.start = self.start_checkpoint = target
        self.rows = [row for row in self.rows if row.offset >= target]

    @precondition(lambda self: self.end > self.start)
    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        target = self.start + round((self.end - self.start) * share)
        self.log.truncate_to(target)
        self._truncated(target)

    def _truncated(self, target: int) -> None:
        """Batches go as a whole: with `target` inside one, records before it are lost as well."""
        kept = [row for row in self.rows if row.offset < target]
        found = _read_all(self.log)
        assert found == kept[: len(found)], "the log is not the model's beginning"
        assert len(kept) - len(found) < 6, "more is gone than one batch"
        self.rows, self.end = found, target
        self.has_gap = True
        self.flushed = min(self.flushed, found[-1].offset + 1 if found else self.start)
        self.recovery_point = min(self.recovery_point, target)

    @rule()
    def run_delayed_deletions(self) -> None:
        self.log.scheduler.run_all()

    # -------------------------------------------------------------------------------- deaths

    @rule()
    def stop_and_start(self) -> None:
        self.log.close()
        self.flushed = self.end
        self.recovery_point, self.start_checkpoint = self.log.recovery_point, self.start
        self._open(clean=True)

    @rule()
    def kill_between_changes(self) -> None:
        self.log.close_handlers()
        self._open(clean=False)

    @rule(
        at=st.integers(1, 12),
        torn=st.integers(0, 90),
        what=st.sampled_from(["append", "append", "roll"]),
    )
    def kill_in_a_change(self, at: int, torn: int, what: str) -> None:
        self.kill_between_changes()
        self.log.close_handlers()
        files = CrashingFiles(DiskFiles(self.directory))
        log = self._log_on(files, clean=False)
        files.arm(files.changes + at, torn=torn)
        batch, rows = self._batch(5, Codec.NONE, 30)
        try:
            if what == "append":
                log.append_as_leader(batch, leader_epoch=self.value // 40)
            else:
                log.roll()
        except Crash:
            pass
        log.close_handlers()
        self._open(clean=False)
        if what == "append" and self.log.log_end_offset > self.end:
            self.rows += rows
            self.end += len(rows)

    @rule(seed=st.integers(0, 2**32))
    def lose_power(self, seed: int) -> None:
        self.log.close_handlers()
        self.files.lose_power(random.Random(seed))
        self.files = PowerLossFiles(DiskFiles(self.directory))
        self.log = self._log_on(self.files, clean=False)
        found = _read_all(self.log)
        assert found == self.rows[: len(found)], "the log is not the model's beginning"
        lost = self.rows[len(found) :]
        assert not lost or lost[0].offset >= self.flushed, "something flushed is lost"
        self.rows, self.end = found, self.log.log_end_offset
        self.flushed = min(self.flushed, self.end)
        self.recovery_point = min(self.recovery_point, self.end)

    # ------------------------------------------------------------------------------ must hold

    @invariant()
    def a_reader_finds_the_records(self) -> None:
        if not hasattr(self, "log"):
            return
        assert self.log.log_start_offset == self.start
        assert self.log.log_end_offset == self.end
        assert _read_all(self.log) == self.rows


class TestLogModel(LogMachine.TestCase):  # type: ignore[valid-type,misc]
    settings = settings(max_examples=40, stateful_step_count=30, deadline=None)


@pytest.mark.soak
class TestLogModelForLong(LogMachine.TestCase):  # type: ignore[valid-type,misc]
    settings = settings(max_examples=2000, stateful_step_count=60, deadline=None)
