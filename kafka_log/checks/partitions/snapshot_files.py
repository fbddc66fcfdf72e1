"""The producer snapshots of a partition, each checked when the replay reaches its offset.

Kafka takes one when it starts a segment, and one at the log end when it stops. A segment may lack
its snapshot after the recovery of an earlier one, and before Kafka 2.8, which kept the last few.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kafka_log.checks.finding import Finding
from kafka_log.checks.partitions.producer_snapshots import Interval, snapshot_findings
from kafka_log.checks.segments.side_files import check_producer_snapshot
from kafka_log.names import DirectoryKind, FileKind, FileState, segment_file_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka_log.checks.facts import AuditedPartition
    from kafka_log.checks.finding import About
    from kafka_log.checks.partitions.producer_replay import PartitionReplay
    from kafka_log.checks.partitions.producer_snapshots import Difference
    from kafka_log.inventory.inventory import InventoryFile

    ReadFile = Callable[[InventoryFile], bytes | None]

_LOADED = (DirectoryKind.PARTITION, DirectoryKind.FUTURE)
_LONG_MAX = 2**63 - 1


def is_compared_snapshot(file: InventoryFile) -> bool:
    """Whether a file is a snapshot that Kafka would load."""
    name = file.name
    return (
        name.kind is FileKind.PRODUCER_SNAPSHOT
        and name.state is FileState.LIVE
        and name.is_canonical
        and offset_of(file) >= 0
    )


def offset_of(file: InventoryFile) -> int:
    return -1 if file.name.offset is None else file.name.offset


class SnapshotFiles:
    """The snapshots of a partition, in the order of their offsets."""

    def __init__(self, audited: AuditedPartition, replay: PartitionReplay, read: ReadFile) -> None:
        """`read` returns the bytes of a file, or None if it cannot be read."""
        self._audited = audited
        self._replay = replay
        self._read = read
        found = [file for file in audited.partition.files if is_compared_snapshot(file)]
        self._pending = sorted(found, key=offset_of, reverse=True)
        self._offsets = {offset_of(file) for file in found}
        self._held: tuple[About, list[Difference]] | None = None
        bases = [each.base_offset for each in audited.partition.segments]
        self._bases = bases
        self.log_start_offset = audited.partition.log_start_offset or 0
        self._last_loaded = _LONG_MAX
        if audited.is_clean is False:  # a recovery begins with the segment of the recovery point
            recovery_point = audited.partition.recovery_point or 0
            below = [base for base in bases if base <= recovery_point]
            self._last_loaded = below[-1] if below else 0

    def pending(self) -> list[int]:
        """Return the offsets that the replay has not reached, in ascending order."""
        return [offset_of(file) for file in reversed(self._pending)]

    def reach(self, offset: int) -> Iterator[Finding]:
        """Check the snapshots up to an offset: everything before it has been replayed."""
        while self._pending and offset_of(self._pending[-1]) <= offset:
            yield from self._check(self._pending.pop())

    def finish(self, log_end_offset: int, *, checks_missing: bool) -> Iterator[Finding]:
        """Check what is left at the log end; `checks_missing` looks for missing ones as well."""
        yield from self._release(is_loaded=True)
        while self._pending:
            yield from self._beyond_end(self._pending.pop(), log_end_offset)
        if checks_missing and self._audited.partition.state in _LOADED:
            yield from self._missing(log_end_offset)

    def finish_without_segments(self) -> Iterator[Finding]:
        """Check only the form of the files."""
        while self._pending:
            file = self._pending.pop()
            if (data := self._read(file)) is not None:
                yield from check_producer_snapshot(data, self._about(file)).findings

    # ------------------------------------------------------------------------- one file

    def _about(self, file: InventoryFile) -> About:
        return self._audited.about(file.path)

    def _check(self, file: InventoryFile) -> Iterator[Finding]:
        offset, replay = offset_of(file), self._replay
        about = self._about(file)
        data = self._read(file)
        if data is None:
            return
        slots = check_producer_snapshot(data, about)
        yield from slots.findings
        first_base = self._bases[0]
        if not slots.is_valid or offset < first_base:
            return
        if offset == first_base or replay.is_lost:
            replay.producers.replace_by(slots.entries)
        else:
            differences = replay.producers.compare(slots.entries, self._interval(file, offset))
            yield from self._release(is_loaded=False)
            self._held = about, differences
            if offset > self._last_loaded:
                yield from self._release(is_loaded=False)
        replay.know_from(offset)

    def _interval(self, file: InventoryFile, offset: int) -> Interval:
        replay, start = self._replay, self._replay.known_from
        is_at_batch = replay.continuity.next_offset == offset
        return Interval(
            start_offset=start,
            is_exact=replay.is_exact and is_at_batch and start >= self.log_start_offset,
            log_start_offset=self.log_start_offset,
            with_data=replay.open_here,
            expired_timestamp=self._written_by(file)
            - self._audited.config.producer_id_expiration_ms,
        )

    def _written_by(self, file: InventoryFile) -> int:
        """Return the latest time at which the snapshot may have been written.

        A copy is newer than its file. A time before the records is not that of the file.
        """
        now_ms = self._audited.now_ms
        return (
            now_ms
            if file.modified_ms < self._replay.largest_timestamp
            else min(now_ms, file.modified_ms)
        )

    def _release(self, *, is_loaded: bool) -> Iterator[Finding]:
        """Yield the findings of the last compared snapshot: now it is known who reads it."""
        if self._held is not None:
            about, differences = self._held
            self._held = None
            yield from snapshot_findings(about, differences, is_loaded=is_loaded)

    # ------------------------------------------------------------------------- all files

    def _beyond_end(self, file: InventoryFile, log_end_offset: int) -> Iterator[Finding]:
        about = self._about(file)
        if (data := self._read(file)) is not None:
            yield from check_producer_snapshot(data, about).findings
        expected = f"at most {log_end_offset}, the log end"
        found = f"a snapshot at {offset_of(file)}"
        yield Finding.of("SNP009", about, found, expected, offset=offset_of(file))

    def _missing(self, log_end_offset: int) -> Iterator[Finding]:
        audited, replay = self._audited, self._replay
        is_whole = replay.continuity.since <= self._bases[0] and not replay.is_damaged
        if is_whole and self._offsets:
            missing = [
                base
                for base in self._bases[1:]
                if base > self.log_start_offset and base not in self._offsets
            ]
            if missing:
                found = f"no snapshot at {len(missing)} of {len(self._bases)} segments"
                yield self._missing_at("SNP007", missing[0], f"one at {missing[0]}", found)
        is_stopped = audited.is_clean is True and log_end_offset > self.log_start_offset
        if is_stopped and log_end_offset not in self._offsets and not replay.is_damaged:
            newest = max((each for each in self._offsets if each <= log_end_offset), default=None)
            found = "no snapshot" if newest is None else f"the newest at {newest}"
            yield self._missing_at("SNP008", log_end_offset, f"one at {log_end_offset}", found)

    def _missing_at(self, rule: str, offset: int, expected: str, found: str) -> Finding:
        name = str(segment_file_name(offset, FileKind.PRODUCER_SNAPSHOT))
        path = os.path.join(self._audited.path, name)  # noqa: PTH118  # keeps a leading `./`
        about = self._audited.about(path)
        return Finding.of(rule, about, found, expected, offset=offset)
