"""The transactions of a partition directory: open, ended, aborted, and which one blocks readers.

The batch headers and markers of all segments are replayed; nothing is written. If the first segment
has a snapshot at its base offset, the replay starts from that: a transaction may have started in a
segment that retention has deleted.

    open      without a marker
    ended     committed or aborted by a marker; a marker without data before it ends nothing
    last stable offset    first offset of the oldest transaction that is open, or whose marker is
                          not below the high watermark; otherwise the high watermark

Aborted transactions are stored twice: as markers, and in `.txnindex` files, which readers use. A
report has both, and the differences.

Damage does not stop the report. It is listed in `problems`, and the replay continues at the next
segment, because a restart would truncate the log there; or, with `past_damage`, at the next batch
that can be found. A LogError in `problems` is a log that Kafka fails to load; the rest of that
segment is skipped.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import numpy as np

from kafka_format.columnar.headers import HeaderWalk
from kafka_format.errors import FormatError
from kafka_format.file_bytes import JAVA_MAX
from kafka_format.transaction_index import decode_transaction_index, iter_transaction_index
from kafka_log.checkpoints import within_log
from kafka_log.clock import FixedClock
from kafka_log.config.log_config import LogConfig
from kafka_log.damage.resync import BatchSearch
from kafka_log.damage.walk import BatchWalk, Gap, stop_at_damage
from kafka_log.disk.files import DiskFiles, opened
from kafka_log.errors import LogError
from kafka_log.names import FileKind, segment_file_name
from kafka_log.producers.producer_state import LATE_TRANSACTION_BUFFER_MS, ProducerStateManager
from kafka_log.producers.snapshots import read_snapshot
from kafka_log.segment.log_segments import find_base_offsets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafka_format.columnar.headers import BatchColumns
    from kafka_format.log_file import SegmentEnd
    from kafka_format.transaction_index import AbortedTransaction
    from kafka_log.disk.files import File, Files
    from kafka_log.producers.entry import CompletedTxn, ProducerStateEntry, TxnMetadata
    from kafka_log.producers.replay import OnMarker

    Resume = Callable[[SegmentEnd, BatchColumns | None], int | None]


class OpenTransaction(NamedTuple):
    """A transaction without a marker."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    first_offset: int
    last_offset: int
    """The last offset of its producer's last data batch; -1 if a marker has ended that epoch."""
    first_timestamp: int | None
    """The timestamp of its first batch; None if that is no longer in the log."""
    last_timestamp: int
    """The last timestamp of its producer."""

    def idle_ms(self, now_ms: int) -> int:
        return now_ms - self.last_timestamp

    def open_ms(self, now_ms: int) -> int | None:
        return None if self.first_timestamp is None else now_ms - self.first_timestamp


class EndedTransaction(NamedTuple):
    """A transaction with a marker, which is at `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool
    last_stable_offset: int
    """The last stable offset at its marker, as recovery would write it to a `.txnindex`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TransactionReport:
    """The transactions of one partition directory."""

    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    """The given one, clamped to the log; by default the log end."""
    last_stable_offset: int
    held_by: OpenTransaction | EndedTransaction | None
    """The transaction that keeps the last stable offset below the high watermark."""
    open: tuple[OpenTransaction, ...]
    """In the order of first offsets."""
    ended: tuple[EndedTransaction, ...]
    """In the order of markers."""
    indexed: tuple[AbortedTransaction, ...]
    """The entries of all `.txnindex` files."""
    problems: tuple[FormatError | LogError, ...] = ()

    def aborted(
        self, fetch_offset: int = 0, upper_bound: int | None = None
    ) -> list[EndedTransaction]:
        """Return what a reader of [fetch_offset, upper_bound) must skip, according to markers."""
        bound = self.log_end_offset if upper_bound is None else upper_bound
        return [
            txn
            for txn in self.ended
            if txn.is_aborted and txn.last_offset >= fetch_offset and txn.first_offset < bound
        ]

    def not_indexed(self) -> list[EndedTransaction]:
        """Return those aborted by a marker but in no index: readers would return their records."""
        known = {_identity(entry) for entry in self.indexed}
        return [txn for txn in self.ended if txn.is_aborted and _identity(txn) not in known]

    def not_in_log(self) -> list[AbortedTransaction]:
        """Return those in an index without a marker: readers would skip too much, or nothing."""
        known = {_identity(txn) for txn in self.ended if txn.is_aborted}
        return [entry for entry in self.indexed if _identity(entry) not in known]

    def late(self, now_ms: int, max_transaction_timeout_ms: int) -> OpenTransaction | None:
        """Return the oldest open transaction if a broker's metric would count it as late."""
        limit = max_transaction_timeout_ms + LATE_TRANSACTION_BUFFER_MS
        for txn in self.open[:1]:
            if txn.last_timestamp > 0 and txn.idle_ms(now_ms) > limit:
                return txn
        return None


def _identity(txn: EndedTransaction | AbortedTransaction) -> tuple[int, int, int]:
    return txn.producer_id, txn.first_offset, txn.last_offset


def read_transactions(
    files: Files,
    *,
    log_start_offset: int = 0,
    high_watermark: int | None = None,
    past_damage: bool = False,
) -> TransactionReport:
    """Read the transactions of a directory. Raises LogError without a segment, and OSError."""
    replay = TransactionReplay(files, past_damage=past_damage)
    for _ in replay.pieces():
        pass
    return replay.report(log_start_offset, high_watermark)


class NoFiles(DiskFiles):
    """A directory without files, for a manager without snapshots."""

    def names(self) -> list[str]:
        return []


class TransactionReplay:
    """The replay of a directory, piece by piece, and what it has found so far."""

    def __init__(
        self, files: Files, *, past_damage: bool = False, on_marker: OnMarker | None = None
    ) -> None:
        self._files = files
        self._past_damage = past_damage
        self._on_marker = on_marker
        self.bases = find_base_offsets(files)
        self._end = self.bases[-1]
        self.ended: list[EndedTransaction] = []
        """In the order of markers. A caller of `pieces` may remove what it has used."""
        self._indexed: list[AbortedTransaction] = []
        self._problems: list[FormatError | LogError] = []
        self._torn_end: FormatError | None = None
        self._manager = ProducerStateManager(
            NoFiles(files.directory), LogConfig(), FixedClock(), topic_partition=files.directory
        )
        self._load_first_snapshot()

    def _load_first_snapshot(self) -> None:
        name = str(segment_file_name(self.bases[0], FileKind.PRODUCER_SNAPSHOT))
        if not self._files.exists(name):
            return
        try:
            for entry in read_snapshot(self._files, name):
                self._manager.load_producer_entry(entry)
        except FormatError as error:
            self._problems.append(error)

    @property
    def damage(self) -> Sequence[FormatError | LogError]:
        """Return the problems without a torn batch at the end of the log, which a crash leaves."""
        return [each for each in self._problems if each is not self._torn_end]

    @property
    def producers(self) -> Mapping[int, ProducerStateEntry]:
        """Return the producers after the last piece."""
        return self._manager.active_producers

    def pieces(self) -> Iterator[BatchColumns]:
        """Read all segments; yield the batch headers after each replayed piece of a segment."""
        for base_offset in self.bases:
            yield from self._read_segment(base_offset)

    def _read_segment(self, base_offset: int) -> Iterator[BatchColumns]:
        name = str(segment_file_name(base_offset, FileKind.LOG))
        with opened(self._files, name) as file:
            search = BatchSearch(cast("BinaryIO", file.reader()), base_offset=base_offset)
            try:
                yield from self._read_log(
                    base_offset, file, search.resume if self._past_damage else stop_at_damage
                )
            except LogError as error:
                self._problems.append(error)
            if (unread := search.unread(file.path)) is not None:
                self._problems.append(unread)
        index = str(segment_file_name(base_offset, FileKind.TRANSACTION_INDEX))
        if self._files.exists(index):
            data = self._files.read(index, limit=JAVA_MAX)
            self._indexed += iter_transaction_index(decode_transaction_index(data))

    def _read_log(self, base_offset: int, file: File, resume: Resume) -> Iterator[BatchColumns]:
        for part in BatchWalk(partial(_walk, file), resume):
            if not isinstance(part, Gap):
                self._replay(part, file)
                yield part
            elif not part.is_zeros:  # zeros are preallocated
                self._problems.append(part.error)
                if part.reason == "truncated_batch" and part.resumes_at is None:
                    self._torn_end = part.error if base_offset == self.bases[-1] else None

    def _replay(self, batches: BatchColumns, file: File) -> None:
        self._end = max(self._end, int(batches.last_offset.max()) + 1)
        while True:
            damage = self._manager.replay_batches(
                batches,
                file.read_at,
                on_completed=self._on_completed,
                on_marker=self._on_marker,
            )
            if damage is None:
                return
            self._problems.append(damage.error)
            batches = batches[damage.batch + 1 :]

    def _on_completed(self, completed: CompletedTxn, last_stable_offset: int) -> None:
        self.ended.append(EndedTransaction(*completed, last_stable_offset))

    # ------------------------------------------------------------------ the report

    def report(self, log_start_offset: int, high_watermark: int | None) -> TransactionReport:
        start = max(log_start_offset, self.bases[0])
        end = max(self._end, start)
        watermark = end if high_watermark is None else within_log(high_watermark, start, end)
        still_open = open_transactions(self._manager, self._files, self.bases)
        unstable: list[OpenTransaction | EndedTransaction] = list(still_open)
        unstable += (txn for txn in self.ended if txn.last_offset >= watermark)
        holder = min(unstable, key=lambda txn: txn.first_offset, default=None)
        if holder is not None and max(holder.first_offset, start) >= watermark:
            holder = None
        return TransactionReport(
            log_start_offset=start,
            log_end_offset=end,
            high_watermark=watermark,
            last_stable_offset=watermark if holder is None else max(holder.first_offset, start),
            held_by=holder,
            open=still_open,
            ended=tuple(self.ended),
            indexed=tuple(self._indexed),
            problems=tuple(self._problems),
        )


def open_transactions(
    manager: ProducerStateManager, files: Files, bases: Sequence[int]
) -> tuple[OpenTransaction, ...]:
    """Return the open transactions of replayed producers; `bases` are those of all segments."""
    ongoing = manager.ongoing_txns
    timestamps = _first_timestamps(files, bases, [txn.first_offset for txn in ongoing])
    return tuple(
        _open_transaction(txn, manager.active_producers[txn.producer_id], timestamps)
        for txn in ongoing
    )


def _open_transaction(
    txn: TxnMetadata, entry: ProducerStateEntry, timestamps: dict[int, int]
) -> OpenTransaction:
    return OpenTransaction(
        producer_id=txn.producer_id,
        producer_epoch=entry.producer_epoch,
        coordinator_epoch=entry.coordinator_epoch,
        first_offset=txn.first_offset,
        last_offset=entry.last_data_offset,
        first_timestamp=timestamps.get(txn.first_offset),
        last_timestamp=entry.last_timestamp,
    )


def _first_timestamps(
    files: Files, bases: Sequence[int], first_offsets: list[int]
) -> dict[int, int]:
    """Return the maximum timestamps of the batches that start at these offsets."""
    found: dict[int, int] = {}
    holding = {max((b for b in bases if b <= at), default=None) for at in first_offsets}
    for base_offset in sorted(base for base in holding if base is not None):
        with opened(files, str(segment_file_name(base_offset, FileKind.LOG))) as file:
            for batches in _walk(file):
                rows = np.flatnonzero(np.isin(batches.base_offset, first_offsets))
                offsets, times = batches.base_offset[rows], batches.max_timestamp[rows]
                found |= dict(zip(offsets.tolist(), times.tolist(), strict=True))
    return found


def _walk(file: File, start: int = 0) -> HeaderWalk:
    return HeaderWalk(cast("BinaryIO", file.reader()), path=file.path, start=start)
