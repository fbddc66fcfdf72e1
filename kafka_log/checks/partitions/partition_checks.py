"""Check a partition: what its files say of each other, and what lies between its segments.

    for each in check_partition(audited, files, summaries):
        Finding, Finding, ..., PartitionFacts      the facts come last, whatever was found

`summaries` are those of check_segment, in the order of base offsets. Batch headers are read again,
because producers, transactions and leader epochs go on from segment to segment. Every live file
that check_segment does not read is read here, once.

    between_segments        lost segments, gaps, overlaps
    producer_replay         sequences, epochs and markers of producers
    transaction_indexes     each `.txnindex` against the markers of its segment
    snapshot_files          each `.snapshot` against the producers at its offset
    leader_epochs           leader-epoch-checkpoint against the batches
    small_files             the form of all others
    compaction_checks       what stops the cleaner, and what it has left
"""

from __future__ import annotations

import os
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np

from kafka_format.columnar.headers import HeaderWalk
from kafka_format.errors import FormatError
from kafka_format.file_kinds import BATCH_FILE_KINDS
from kafka_log.checks.facts import PartitionFacts
from kafka_log.checks.partitions.between_segments import check_between_segments, is_never_compacted
from kafka_log.checks.partitions.compaction_checks import check_compaction
from kafka_log.checks.partitions.leader_epochs import LeaderEpochCheck
from kafka_log.checks.partitions.producer_replay import PartitionReplay
from kafka_log.checks.partitions.small_files import UNCHECKED, check_small_file
from kafka_log.checks.partitions.snapshot_files import SnapshotFiles, is_compared_snapshot
from kafka_log.checks.partitions.transaction_indexes import IndexToCheck, TransactionIndexCheck
from kafka_log.checks.segments.logs import check_snapshot
from kafka_log.checks.segments.side_files import check_leader_epochs, check_transaction_index
from kafka_log.damage.resync import BatchSearch
from kafka_log.damage.walk import BatchWalk, Gap
from kafka_log.disk.files import opened
from kafka_log.inventory.file_limits import largest_size
from kafka_log.names import FileKind, FileState, parse_file_name
from kafka_log.producers.transactions import open_transactions

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafka_format.columnar.headers import BatchColumns
    from kafka_log.checks.facts import AuditedPartition, SegmentSummary
    from kafka_log.checks.finding import Finding
    from kafka_log.disk.files import File, Files
    from kafka_log.inventory.inventory import InventoryFile, Segment

_OF_PARTITION = (FileKind.LOG, FileKind.PRODUCER_SNAPSHOT, FileKind.LEADER_EPOCH_CHECKPOINT)


def check_partition(
    audited: AuditedPartition, files: Files, summaries: Sequence[SegmentSummary]
) -> Iterator[Finding | PartitionFacts]:
    """Yield the findings of a partition, then its facts.

    Raises OSError and FormatError, after the facts if it was a small file that could not be read.
    """
    partition = audited.partition
    yield from check_between_segments(audited, summaries)
    check = _PartitionCheck(audited, files, summaries)
    yield from check.run()
    still_open = open_transactions(check.replay.manager, files, check.bases)
    first_unstable = min((txn.first_offset for txn in still_open), default=None)
    yield from check_compaction(audited, files, summaries, first_unstable_offset=first_unstable)
    yield PartitionFacts(
        path=partition.path,
        topic=partition.topic,
        partition=partition.partition,
        log_start_offset=partition.log_start_offset,
        log_end_offset=check.log_end_offset,
        segments=tuple(summaries),
        producers=check.replay.producers.entries(),
        open_transactions=still_open,
    )
    for error in check.errors:
        raise error


class _PartitionCheck:
    """One walk over the batch headers of a partition, with its small files."""

    def __init__(
        self, audited: AuditedPartition, files: Files, summaries: Sequence[SegmentSummary]
    ) -> None:
        partition = audited.partition
        self._audited = audited
        self._files = files
        self._segments = [each for each in partition.segments if each.log is not None]
        self.bases = [each.base_offset for each in self._segments]
        self._damaged = {each.base_offset for each in summaries if each.is_damaged}
        self._has_only_logs = all(each.name.kind is FileKind.LOG for each in partition.files)
        """Whether these are `.log` files without anything next to them, so nothing is missing."""
        given = {Path(each.path).name for each in partition.files}
        self._is_partial = any(
            parse_file_name(name).kind in _OF_PARTITION and name not in given
            for name in files.names()
        )
        """Whether only some segments were given, and the directory has more files."""
        self._log_start_offset = partition.log_start_offset or 0
        self.log_end_offset = self.bases[-1] if self.bases else None
        self.errors: list[OSError | FormatError] = []
        self.replay = PartitionReplay(
            audited,
            self.bases[0] if self.bases else 0,
            is_never_compacted=is_never_compacted(audited, summaries),
        )
        self._snapshots = SnapshotFiles(audited, self.replay, self._read)
        self._indexes = TransactionIndexCheck()
        self._epochs: LeaderEpochCheck | None = None
        self._has_batches = False

    def run(self) -> Iterator[Finding]:
        yield from self._check_small_files()
        if self.log_end_offset is None:
            yield from self._snapshots.finish_without_segments()
            return
        yield from self._load_epochs()
        for place, segment in enumerate(self._segments):
            following = self.bases[place + 1] if place + 1 < len(self.bases) else None
            yield from self._check_segment(segment, following)
        yield from self._snapshots.reach(self.log_end_offset)
        is_complete = self._has_batches and not self._is_partial
        yield from self._snapshots.finish(self.log_end_offset, checks_missing=is_complete)
        if self._epochs is not None:
            yield from self._epochs.finish(self.log_end_offset)
        yield from self._indexes.finish()

    # ------------------------------------------------------------------------- small files

    def _check_small_files(self) -> Iterator[Finding]:
        """Check the form of files that neither check_segment nor the walk reads."""
        of_segments = {file.path for each in self._segments for file in each.files.values()}
        for file in self._audited.partition.files:
            kind = file.name.kind
            if file.name.state is not FileState.LIVE or file.path in of_segments:
                continue
            if kind in (*UNCHECKED, FileKind.LOG) or self._is_compared(file):
                continue
            if kind in BATCH_FILE_KINDS:
                yield from self._check_batches(file)
            elif (data := self._read(file)) is not None:
                about = self._audited.about(file.path)
                yield from check_small_file(kind, data, file.offset or 0, about)

    def _is_compared(self, file: InventoryFile) -> bool:
        is_epochs = file.name.kind is FileKind.LEADER_EPOCH_CHECKPOINT and bool(self._segments)
        return is_epochs or is_compared_snapshot(file)

    def _check_batches(self, file: InventoryFile) -> Iterator[Finding]:
        about = self._audited.about(file.path)
        try:
            with opened(self._files, Path(file.path).name) as log:
                yield from check_snapshot(cast("BinaryIO", log.reader()), about)
        except (OSError, FormatError) as error:
            self.errors.append(error)

    def _read(self, file: InventoryFile) -> bytes | None:
        """Read a small file; None if that is not possible, which is raised at the end."""
        try:
            return self._files.read(Path(file.path).name, limit=largest_size(file.name.kind))
        except (OSError, FormatError) as error:
            self.errors.append(error)
            return None

    def _load_epochs(self) -> Iterator[Finding]:
        kind, partition = FileKind.LEADER_EPOCH_CHECKPOINT, self._audited.partition
        path = os.path.join(partition.path, kind.value)  # noqa: PTH118  # keeps a leading `./`
        about = self._audited.about(path)
        data: bytes | None = b""
        for file in partition.files:
            if file.name.kind is kind and file.name.state is FileState.LIVE:
                data = self._read(file)
        if data is None:
            return
        rows = check_leader_epochs(data, about)
        yield from rows.findings
        is_given = bool(data) or not (self._is_partial or self._has_only_logs)
        if rows.is_valid and is_given:
            self._epochs = LeaderEpochCheck(
                about,
                rows.entries,
                log_start_offset=self._log_start_offset,
                knows_log_start=self._audited.is_clean is True,
            )
            yield from self._epochs.load()
            # The epochs are cut to a new log start at once, its checkpoint is written later.
            self._log_start_offset = max(self._log_start_offset, self._epochs.start_offset)
            self._snapshots.log_start_offset = self._log_start_offset

    # ------------------------------------------------------------------------- segments

    def _check_segment(self, segment: Segment, next_base: int | None) -> Iterator[Finding]:
        if segment.log is None:
            return
        yield from self._snapshots.reach(segment.base_offset)
        self.log_end_offset = segment.base_offset
        self.replay.begin_segment()
        is_sound = segment.base_offset not in self._damaged
        if not is_sound:
            self.replay.lose()
        with opened(self._files, Path(segment.log.path).name) as file:
            search = BatchSearch(cast("BinaryIO", file.reader()), base_offset=segment.base_offset)
            for part in BatchWalk(partial(_walk, file), search.resume):
                if not isinstance(part, Gap):
                    yield from self._add(part, file, is_sound=is_sound)
                elif not part.is_zeros:
                    self.replay.lose()
        if not is_sound:
            self.replay.lose()
        yield from self._check_transaction_index(segment, segment.log.path, next_base)

    def _add(self, piece: BatchColumns, file: File, *, is_sound: bool) -> Iterator[Finding]:
        about = self._audited.about(file.path)
        for batches in _split(piece, self._snapshots.pending()):
            yield from self._snapshots.reach(int(batches.base_offset[0]))
            yield from self.replay.add(batches, file.read_at, about, is_sound=is_sound)
            if self._epochs is not None:
                yield from self._epochs.add(batches)
        self.log_end_offset = int(piece.last_offset[-1]) + 1
        self._has_batches |= not piece.is_legacy.all()

    def _check_transaction_index(
        self, segment: Segment, log_path: str, next_base: int | None
    ) -> Iterator[Finding]:
        file = segment.files.get(FileKind.TRANSACTION_INDEX)
        path = log_path.removesuffix(FileKind.LOG.value) + FileKind.TRANSACTION_INDEX.value
        about = self._audited.about(path if file is None else file.path)
        data, is_whole = None, True
        if self._has_only_logs:
            return
        if file is not None:
            data = self._read(file)
            if data is None:
                return
            slots = check_transaction_index(data, about)
            yield from slots.findings
            is_whole = not slots.findings
        recovery_point = self._audited.partition.recovery_point or 0
        index = IndexToCheck(
            about=about,
            data=data,
            is_whole=is_whole,
            will_be_rebuilt=self._audited.is_clean is False
            and (next_base is None or next_base > recovery_point),
            log_start_offset=self._log_start_offset,
            next_offset=self.log_end_offset or 0,
        )
        yield from self._indexes.check(index, self.replay.segment)


def _walk(file: File, start: int = 0) -> HeaderWalk:
    return HeaderWalk(cast("BinaryIO", file.reader()), path=file.path, start=start)


def _split(piece: BatchColumns, offsets: list[int]) -> Iterator[BatchColumns]:
    """Split a piece before the first batch at or after each offset."""
    reached = np.maximum.accumulate(piece.base_offset)
    cuts = np.unique(np.searchsorted(reached, np.array(offsets, np.int64)))
    inner = cuts[(cuts > 0) & (cuts < len(piece))].tolist()
    if not inner:
        yield piece
        return
    for start, end in pairwise([0, *inner, len(piece)]):
        yield piece[start:end]
