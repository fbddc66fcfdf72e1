"""The producers of a log, its open transactions, and the snapshots that keep both for a restart.

    producers        the last batches of each producer, its epochs, its open transaction
    ongoing          transactions without a marker, by first offset
    unreplicated     transactions whose marker is not below the high watermark yet
    map end offset   the state is that of the log up to here
    <offset>.snapshot   the producers when the map ended at that offset

The first unstable offset is the first one of `ongoing` or `unreplicated`. A snapshot keeps only the
last batch of each producer, and no unreplicated transactions.

Mirrors ProducerStateManager of 4.3.1. Its files are in snapshots.py, the replay over columns in
replay.py, one producer's appends in append.py, and the checks of an append in validation.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_format.batch import MAGIC, NO_PRODUCER_ID
from kafka_format.errors import FormatError
from kafka_log.appends.origin import AppendOrigin
from kafka_log.errors import IllegalArgumentError, InvalidProducerEpochError
from kafka_log.producers.append import EndTransactionMarker, ProducerAppendInfo
from kafka_log.producers.entry import (
    SENTINEL,
    BatchMetadata,
    CompletedTxn,
    ProducerStateEntry,
    TxnMetadata,
    TxnsByOffset,
    VerificationGuard,
    VerificationStateEntry,
)
from kafka_log.producers.map_order import in_map_order
from kafka_log.producers.replay import ProducerReplay, replay
from kafka_log.producers.snapshots import ProducerSnapshots, SnapshotFile, read_snapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kafka_format.columnar.headers import BatchColumns
    from kafka_format.columnar.record_columns import DamagedBatch
    from kafka_log.clock import Clock
    from kafka_log.config.log_config import LogConfig
    from kafka_log.disk.files import Files
    from kafka_log.producers.append import EndTransactionMarker
    from kafka_log.producers.replay import BatchReader, BatchRun, OnCompleted, OnMarker

__all__ = [
    "SENTINEL",
    "AppendOrigin",
    "BatchMetadata",
    "CompletedTxn",
    "ProducerAppendInfo",
    "ProducerReplay",
    "ProducerStateEntry",
    "ProducerStateManager",
    "SnapshotFile",
    "TxnMetadata",
    "VerificationGuard",
    "VerificationStateEntry",
    "read_snapshot",
]

LATE_TRANSACTION_BUFFER_MS = 5 * 60 * 1000
"""How long after its timeout a coordinator should have aborted a transaction."""


class ProducerStateManager:
    """The producers of one partition."""

    def __init__(
        self,
        files: Files,
        config: LogConfig,
        clock: Clock,
        *,
        topic_partition: str = "",
        snapshots: ProducerSnapshots | None = None,
    ) -> None:
        """`snapshots` are those of the directory, if it was already listed."""
        self.topic_partition = topic_partition
        self.config = config
        self._clock = clock
        self._producers: dict[int, ProducerStateEntry] = {}
        self._most_producers = 0  # at a time
        self._verification_states: dict[int, VerificationStateEntry] = {}
        self._ongoing = TxnsByOffset()
        self._unreplicated = TxnsByOffset()
        self._oldest_txn_last_timestamp = -1
        self._map_end_offset = 0
        self._last_snap_offset = 0
        self._snapshots = ProducerSnapshots(files) if snapshots is None else snapshots

    def __repr__(self) -> str:
        return (
            f"ProducerStateManager({self.topic_partition}: {len(self._producers)} producers, "
            f"{len(self._ongoing)} ongoing and {len(self._unreplicated)} unreplicated "
            f"transactions, up to offset {self._map_end_offset})"
        )

    # ------------------------------------------------------------------------- state

    @property
    def map_end_offset(self) -> int:
        return self._map_end_offset

    @property
    def active_producers(self) -> Mapping[int, ProducerStateEntry]:
        return self._producers

    @property
    def ongoing_txns(self) -> list[TxnMetadata]:
        """Return the transactions without a marker, by first offset."""
        return list(self._ongoing)

    @property
    def unreplicated_txns(self) -> list[TxnMetadata]:
        """Return those with a marker not below the high watermark, by first offset."""
        return list(self._unreplicated)

    @property
    def is_empty(self) -> bool:
        return not self._producers and not len(self._unreplicated)

    def last_entry(self, producer_id: int) -> ProducerStateEntry | None:
        return self._producers.get(producer_id)

    def first_unstable_offset(self) -> int | None:
        """Return the first offset of a transaction that is open or whose end is not replicated."""
        firsts = [
            txn.first_offset
            for txn in (self._ongoing.first(), self._unreplicated.first())
            if txn is not None
        ]
        return min(firsts, default=None)

    def first_undecided_offset(self) -> int | None:
        first = self._ongoing.first()
        return None if first is None else first.first_offset

    def has_late_transaction(self, now_ms: int) -> bool:
        """Whether the oldest open transaction should have been aborted by its coordinator."""
        last = self._oldest_txn_last_timestamp
        limit = self.config.max_transaction_timeout_ms + LATE_TRANSACTION_BUFFER_MS
        return last > 0 and now_ms - last > limit

    # ------------------------------------------------------------------------- verification

    def maybe_create_verification_state_entry(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool
    ) -> VerificationStateEntry:
        entry = self._verification_states.get(producer_id)
        if entry is None:
            entry = VerificationStateEntry(
                self._clock(), sequence, epoch, supports_epoch_bump=supports_epoch_bump
            )
            self._verification_states[producer_id] = entry
        entry.maybe_update_lowest_sequence_and_epoch(sequence, epoch)
        return entry

    def verification_state_entry(self, producer_id: int) -> VerificationStateEntry | None:
        return self._verification_states.get(producer_id)

    def clear_verification_state_entry(self, producer_id: int) -> None:
        self._verification_states.pop(producer_id, None)

    @property
    def has_verifications(self) -> bool:
        return bool(self._verification_states)

    def end_verification(self, producer_id: int, epoch: int, *, is_control: bool) -> None:
        """End a verification after a transactional batch: its transaction has started or ended.

        With transaction version 2, a marker of the epoch that is being verified ends the previous
        transaction, so the verification continues.
        """
        entry = self._verification_states.get(producer_id)
        if entry and not (entry.supports_epoch_bump and is_control and epoch == entry.epoch):
            del self._verification_states[producer_id]

    def has_ongoing_transaction(self, producer_id: int, producer_epoch: int) -> bool:
        """Whether a transaction of exactly this epoch is open (as in UnifiedLog).

        In a newer epoch the transaction may have ended.
        """
        entry = self._producers.get(producer_id)
        return (
            entry is not None
            and entry.current_txn_first_offset is not None
            and entry.producer_epoch == producer_epoch
        )

    def verification_guard(self, producer_id: int) -> VerificationGuard:
        entry = self._verification_states.get(producer_id)
        return SENTINEL if entry is None else entry.verification_guard

    def maybe_start_transaction_verification(
        self, producer_id: int, sequence: int, epoch: int, *, supports_epoch_bump: bool
    ) -> VerificationGuard:
        """Return the guard that a first append must present; SENTINEL if it is already open."""
        self.check_epoch_not_older(producer_id, epoch)
        if self.has_ongoing_transaction(producer_id, epoch):
            return SENTINEL
        return self.maybe_create_verification_state_entry(
            producer_id, sequence, epoch, supports_epoch_bump=supports_epoch_bump
        ).verification_guard

    def check_epoch_not_older(self, producer_id: int, epoch: int) -> None:
        entry = self._producers.get(producer_id)
        if entry is not None and epoch < entry.producer_epoch:
            raise InvalidProducerEpochError(
                f"{self.topic_partition}: epoch {epoch} of producer {producer_id}, expected at "
                f"least {entry.producer_epoch}, the last one seen"
            )

    # ------------------------------------------------------------------------- updates

    def prepare_update(self, producer_id: int, origin: AppendOrigin) -> ProducerAppendInfo:
        entry = self._producers.get(producer_id) or ProducerStateEntry(producer_id)
        verification = self._verification_states.get(producer_id)
        return ProducerAppendInfo(self.topic_partition, entry, origin, verification)

    def update(self, append_info: ProducerAppendInfo) -> None:
        producer_id = append_info.producer_id
        if producer_id == NO_PRODUCER_ID:
            raise IllegalArgumentError(
                f"{self.topic_partition}: producer {producer_id}, expected an id of 0 or more"
            )
        updated = append_info.to_entry()
        current = self._producers.get(producer_id)
        if current is None:
            self._producers[producer_id] = updated
        else:
            current.update(updated)
        for txn in append_info.started_transactions:
            self._ongoing.put(txn)
        self._update_oldest_txn_timestamp()

    def update_map_end_offset(self, offset: int) -> None:
        self._map_end_offset = offset

    def last_stable_offset(self, completed: CompletedTxn) -> int:
        """Return the last stable offset before `complete_txn`, for a transaction index entry."""
        for txn in self._ongoing:
            if txn.producer_id != completed.producer_id:
                return txn.first_offset
        return completed.last_offset + 1

    def complete_txn(self, completed: CompletedTxn) -> None:
        txn = self._ongoing.pop(completed.first_offset)
        if txn is None:
            raise IllegalArgumentError(
                f"{self.topic_partition}: the end of {completed}, expected that it had begun"
            )
        txn.last_offset = completed.last_offset
        self._unreplicated.put(txn)
        self._update_oldest_txn_timestamp()

    def complete_with(self, completed: CompletedTxn, on_completed: OnCompleted | None) -> None:
        """Call `on_completed` with the current last stable offset, then complete."""
        if on_completed is not None:
            on_completed(completed, self.last_stable_offset(completed))
        self.complete_txn(completed)

    def on_high_watermark_updated(self, high_watermark: int) -> None:
        self._remove_unreplicated(high_watermark)

    def on_log_start_offset_incremented(self, log_start_offset: int) -> None:
        """Update the offsets. Producers stay, and so do transactions that started earlier."""
        self._remove_unreplicated(log_start_offset)
        self._map_end_offset = max(self._map_end_offset, log_start_offset)
        latest = self.latest_snapshot_offset
        self._last_snap_offset = log_start_offset if latest is None else latest

    def remove_expired_producers(self, now_ms: int) -> None:
        self._note_size()
        expiration = self.config.producer_id_expiration_ms
        for producer_id in [
            entry.producer_id
            for entry in self._producers.values()
            if self._is_expired(entry, now_ms)
        ]:
            del self._producers[producer_id]
        for producer_id in [
            producer_id
            for producer_id, entry in self._verification_states.items()
            if now_ms - entry.timestamp >= expiration
        ]:
            del self._verification_states[producer_id]

    def _is_expired(self, entry: ProducerStateEntry, now_ms: int) -> bool:
        return entry.is_expired(now_ms, self.config.producer_id_expiration_ms)

    def _remove_unreplicated(self, offset: int) -> None:
        for txn in list(self._unreplicated):
            if txn.last_offset is not None and txn.last_offset < offset:
                self._unreplicated.pop(txn.first_offset)

    def _update_oldest_txn_timestamp(self) -> None:
        txn = self._ongoing.first()
        entry = None if txn is None else self._producers.get(txn.producer_id)
        self._oldest_txn_last_timestamp = -1 if entry is None else entry.last_timestamp

    # ------------------------------------------------------------------------- replay

    def replay_batches(
        self,
        batches: BatchColumns,
        read_batch: BatchReader,
        *,
        on_completed: OnCompleted | None = None,
        on_marker: OnMarker | None = None,
    ) -> DamagedBatch | None:
        """Apply batches in order and complete each transaction at its marker (LogSegment.recover).

        `read_batch(position, size)` returns the bytes of a control batch. `on_completed` is called
        with every transaction and the last stable offset before it is completed
        (LogSegment.update_txn_index), `on_marker` with every marker, also one that ends nothing,
        before it is applied. The map end offset moves after the last batch of magic 2.

        Returns the first batch whose marker cannot be decoded, if any. It and the batches after it
        are not applied (recovery keeps that batch and truncates after it).

        Raises LogError for a log that Kafka does not load: a batch outside its producer's open
        transaction, or a control record that ends none. The state must not be used then.

        rebuildProducerState and appends complete transactions at the end: see ProducerReplay.
        """
        damage = replay(batches, read_batch, _ImmediateCompletion(self, on_completed, on_marker))
        applied = len(batches) if damage is None else damage.batch
        current = np.flatnonzero(batches.magic[:applied] >= MAGIC)
        if len(current):
            self._map_end_offset = int(batches.last_offset[current[-1]]) + 1
        self._update_oldest_txn_timestamp()
        return damage

    def replayed_entry(self, producer_id: int) -> ProducerStateEntry:
        """Return the entry of a producer, created if there is none, for a replay to change."""
        entry = self._producers.get(producer_id)
        if entry is None:
            entry = self._producers[producer_id] = ProducerStateEntry(producer_id)
        return entry

    def start_txn(self, txn: TxnMetadata) -> None:
        self._ongoing.put(txn)

    # ------------------------------------------------------------------------- truncation

    def truncate_and_reload(
        self, log_start_offset: int, log_end_offset: int, now_ms: int
    ) -> list[SnapshotFile]:
        """Keep the snapshots in the range, and load the latest unless the map already ends there.

        Returns the deleted snapshots, by offset: those outside the range and unreadable ones.
        """
        outside = self._snapshots.outside(log_start_offset, log_end_offset)
        for snapshot in outside:
            self._snapshots.delete(snapshot.offset)
        if log_end_offset == self._map_end_offset:
            self.on_log_start_offset_incremented(log_start_offset)
            return outside
        self._clear()
        return sorted(outside + self._load_from_snapshot(log_start_offset, now_ms))

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self._clear()
        for snapshot in self.snapshots:
            self._snapshots.delete(snapshot.offset)
        self._last_snap_offset = 0
        self._map_end_offset = offset

    def truncate_fully_and_reload_snapshots(self) -> None:
        self.truncate_fully_and_start_at(0)
        self._snapshots.load()

    def _note_size(self) -> None:
        """Remember the size before producers are removed: a Java map never shrinks.

        Its capacity decides its order.
        """
        self._most_producers = max(self._most_producers, len(self._producers))

    def _clear(self) -> None:
        self._note_size()
        self._producers.clear()
        self._ongoing.clear()
        self._unreplicated.clear()
        self._update_oldest_txn_timestamp()

    def _load_from_snapshot(self, log_start_offset: int, now_ms: int) -> list[SnapshotFile]:
        """Load the latest readable snapshot; delete and return the unreadable ones."""
        unreadable = []
        while (snapshot := self._snapshots.latest) is not None:
            try:
                entries = read_snapshot(self._snapshots.files, snapshot.name)
            except FormatError:
                self._snapshots.delete(snapshot.offset)
                unreadable.append(snapshot)
                continue
            for entry in entries:
                if not self._is_expired(entry, now_ms):
                    self.load_producer_entry(entry)
            self._last_snap_offset = self._map_end_offset = snapshot.offset
            self._update_oldest_txn_timestamp()
            return unreadable
        self._last_snap_offset = self._map_end_offset = log_start_offset
        return unreadable

    def replace_producer(self, producer_id: int, entry: ProducerStateEntry | None) -> None:
        """Replace a producer and its open transaction by those of a snapshot; None removes it."""
        old = self._producers.pop(producer_id, None)
        if old is not None and old.current_txn_first_offset is not None:
            self._ongoing.pop(old.current_txn_first_offset)
        if entry is not None:
            self.load_producer_entry(entry)

    def load_producer_entry(self, entry: ProducerStateEntry) -> None:
        self._producers[entry.producer_id] = entry
        if entry.current_txn_first_offset is not None:
            self._ongoing.put(TxnMetadata(entry.producer_id, entry.current_txn_first_offset))

    # ------------------------------------------------------------------------- snapshots

    @property
    def snapshots(self) -> list[SnapshotFile]:
        """Return the snapshots, by offset."""
        return list(self._snapshots)

    @property
    def latest_snapshot_offset(self) -> int | None:
        return self._snapshots.latest_offset

    @property
    def oldest_snapshot_offset(self) -> int | None:
        return self._snapshots.oldest_offset

    def fetch_snapshot(self, offset: int) -> str | None:
        """Return the name of the snapshot at exactly this offset."""
        return self._snapshots.name_of(offset)

    def take_snapshot(self, *, sync: bool = True) -> str | None:
        """Write a snapshot at the map's end and return its name; None if there is one."""
        offset = self._map_end_offset
        if offset <= self._last_snap_offset:
            return None
        producers = in_map_order(self._producers, self._most_producers)
        name = self._snapshots.write(offset, producers, sync=sync)
        self._last_snap_offset = offset
        return name

    def delete_snapshots_before(self, offset: int) -> None:
        for snapshot in self.snapshots:
            if 0 <= snapshot.offset < offset:
                self._snapshots.delete(snapshot.offset)

    def remove_and_mark_snapshot_for_deletion(self, offset: int) -> SnapshotFile | None:
        """Rename a snapshot to `.deleted` for the caller to unlink; None if it does not exist."""
        return self._snapshots.mark_for_deletion(offset)

    def remove_stray_snapshots(self, segment_base_offsets: Collection[int]) -> None:
        """List the directory again, and delete snapshots without a segment, except the last."""
        self._snapshots.remove_strays(segment_base_offsets)

    def update_parent_dir(self, files: Files) -> None:
        """Use the files of the renamed directory."""
        self._snapshots.files = files


class _ImmediateCompletion(NamedTuple):
    """A manager whose transactions end as soon as their marker is read."""

    manager: ProducerStateManager
    on_completed: OnCompleted | None
    on_marker: OnMarker | None

    def entry(self, producer_id: int) -> ProducerStateEntry:
        return self.manager.replayed_entry(producer_id)

    def started(self, txn: TxnMetadata) -> None:
        self.manager.start_txn(txn)

    def completed(self, completed: CompletedTxn) -> None:
        self.manager.complete_with(completed, self.on_completed)

    def marked(
        self, run: BatchRun, marker: EndTransactionMarker, entry: ProducerStateEntry
    ) -> None:
        if self.on_marker is not None:
            self.on_marker(run, marker, entry)

    def applied(self, run: BatchRun, marker: EndTransactionMarker | None) -> None:
        """Do nothing: recovery has no verifications."""
