"""Our ProducerStateManager, driven by the operations of the oracle's `producer_states`.

Answers and states have the oracle's shape; `ERRORS` says which of our errors is which of Kafka's.
"""

import copy
from pathlib import Path
from typing import Any

import pytest

from kafka_format.batch import RecordBatch, decode_batch
from kafka_format.columnar.headers import BatchScan
from kafka_format.columnar.record_columns import DamagedBatch
from kafka_format.errors import FormatError
from kafka_format.log_file import LogFile
from kafka_log.appends.origin import AppendOrigin
from kafka_log.clock import FixedClock
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles
from kafka_log.errors import LogError
from kafka_log.producers.producer_state import (
    CompletedTxn,
    ProducerReplay,
    ProducerStateEntry,
    ProducerStateManager,
)
from kafka_log.producers.validation import update_producers
from tests.kafka_log import producer_operations as operations

# What Kafka throws, and what we raise: the nearest of our classes.
ERRORS = {
    "org.apache.kafka.common.errors.InvalidProducerEpochException": "InvalidProducerEpochError",
    "org.apache.kafka.common.errors.OutOfOrderSequenceException": "OutOfOrderSequenceError",
    "org.apache.kafka.common.errors.InvalidTxnStateException": "InvalidTransactionStateError",
    "org.apache.kafka.common.errors.TransactionCoordinatorFencedException": (
        "TransactionCoordinatorFencedError"
    ),
    "org.apache.kafka.common.InvalidRecordException": "FormatError",
    "org.apache.kafka.common.errors.CorruptRecordException": "FormatError",
    "java.lang.IllegalArgumentException": "IllegalArgumentError",
    "java.lang.NullPointerException": "IllegalArgumentError",
    "java.nio.BufferUnderflowException": "IllegalArgumentError",
    "org.apache.kafka.common.KafkaException": "IllegalArgumentError",
    "java.lang.NumberFormatException": "LogLoadError",
    "java.nio.file.NoSuchFileException": "FileNotFoundError",
}


class Driver:
    """Applies operations to our manager: row by row, or over columns where possible."""

    def __init__(self, run: operations.ProducerRun, *, columnar: bool) -> None:
        self.files = DiskFiles(run.path)
        run.path.mkdir(parents=True, exist_ok=True)
        self.clock = FixedClock(run.time)
        self.columnar = columnar
        self.manager = self._open()

    def _open(self) -> ProducerStateManager:
        return ProducerStateManager(self.files, LogConfig(), self.clock, topic_partition="orders-0")

    def attempt(self, operation: operations.Operation) -> dict[str, Any]:
        outcome: dict[str, Any] = {}
        self.clock.now_ms = getattr(operation, "time", self.clock.now_ms)
        try:
            outcome["answer"] = getattr(self, f"_{operation.name()}")(operation)
        except (FormatError, LogError, OSError) as error:
            outcome["error"] = error
        return outcome | {"state": self.state()}

    # ------------------------------------------------------------------ batches

    def _append(self, append: operations.Append) -> Any:
        data, end = append.data, self.manager.map_end_offset
        batches = list(LogFile(data).batches())
        completed_rows: list[Any] = []
        if self.columnar and append.origin == "REPLICATION":
            replay = ProducerReplay(self.manager)
            for piece in BatchScan(data).pieces():
                replay.add(piece.batches, _reader(data))
            replay.finish(lambda completed, offset: completed_rows.append([*completed, offset]))
        else:
            self._append_rows(batches, append, completed_rows)
        for batch in batches:
            header = batch.header
            end = (header.last_offset if isinstance(batch, RecordBatch) else header.offset) + 1
        self.manager.update_map_end_offset(end)
        return completed_rows

    def _append_rows(
        self, batches: list[Any], append: operations.Append, completed_rows: list[Any]
    ) -> None:
        producers: dict[int, Any] = {}
        completed: list[CompletedTxn] = []
        for batch in batches:
            if isinstance(batch, RecordBatch) and batch.header.producer_id >= 0:
                found = update_producers(
                    self.manager,
                    batch,
                    producers,
                    AppendOrigin[append.origin],
                    append.transaction_version,
                )
                completed += [found] if found else []
        for info in producers.values():
            self.manager.update(info)
        for each in completed:
            self._complete_one(each, completed_rows)

    def _recover(self, recover: operations.Recover) -> Any:
        if not self.columnar:
            return self._recover_rows(recover.data)
        tried = copy.deepcopy(self.manager, {id(self.clock): self.clock})
        try:
            answer = _recover_columns(tried, recover.data)
        except LogError as error:
            # A broker dies of it. Columns are not applied row by row, so what is left is not the
            # same; but the error is.
            with pytest.raises(type(error)) as raised:
                self._recover_rows(recover.data)
            raise raised.value from None
        self.manager = tried
        if isinstance(answer, DamagedBatch):
            raise answer.error
        return answer

    def _recover_rows(self, data: bytes) -> list[Any]:
        completed_rows: list[Any] = []
        for batch in LogFile(data).batches():
            if not isinstance(batch, RecordBatch):
                continue
            if batch.header.producer_id >= 0:
                info = self.manager.prepare_update(
                    batch.header.producer_id, AppendOrigin.REPLICATION
                )
                completed = info.append(batch)
                self.manager.update(info)
                if completed:
                    self._complete_one(completed, completed_rows)
            self.manager.update_map_end_offset(batch.header.last_offset + 1)
        return completed_rows

    def _complete_one(self, completed: CompletedTxn, completed_rows: list[Any]) -> None:
        completed_rows.append([*completed, self.manager.last_stable_offset(completed)])
        self.manager.complete_txn(completed)

    def _duplicate(self, duplicate: operations.Duplicate) -> Any:
        header = decode_batch(duplicate.data).header
        entry = self.manager.last_entry(header.producer_id)
        found = entry.find_duplicate_batch(header) if entry else None
        return {"last_offset": found.last_offset if found else None}

    # ------------------------------------------------------------------ calls

    def _complete(self, ended: operations.Complete) -> None:
        self.manager.complete_txn(
            CompletedTxn(ended.producer_id, ended.offset, ended.last_offset, is_aborted=False)
        )

    def _verify(self, verify: operations.Verify) -> None:
        self.manager.maybe_create_verification_state_entry(
            verify.producer_id,
            verify.sequence,
            verify.epoch,
            supports_epoch_bump=verify.supports_epoch_bump,
        )

    def _clear_verification(self, clear: operations.ClearVerification) -> None:
        self.manager.clear_verification_state_entry(clear.producer_id)

    def _high_watermark(self, moved: operations.HighWatermark) -> None:
        self.manager.on_high_watermark_updated(moved.offset)

    def _log_start_offset(self, moved: operations.LogStartOffset) -> None:
        self.manager.on_log_start_offset_incremented(moved.offset)

    def _map_end_offset(self, moved: operations.MapEndOffset) -> None:
        self.manager.update_map_end_offset(moved.offset)

    def _expire(self, _: operations.Expire) -> None:
        self.manager.remove_expired_producers(self.clock())

    def _late(self, _: operations.Late) -> Any:
        return {"late": self.manager.has_late_transaction(self.clock())}

    # ------------------------------------------------------------------ files

    def _snapshot(self, _: operations.Snapshot) -> Any:
        return {"name": self.manager.take_snapshot()}

    def _truncate(self, cut: operations.Truncate) -> None:
        self.manager.truncate_and_reload(cut.start, cut.end, self.clock())

    def _truncate_fully(self, cut: operations.TruncateFully) -> None:
        self.manager.truncate_fully_and_start_at(cut.offset)

    def _truncate_fully_and_reload(self, _: operations.TruncateFullyAndReload) -> None:
        self.manager.truncate_fully_and_reload_snapshots()

    def _remove_strays(self, remove: operations.RemoveStrays) -> None:
        self.manager.remove_stray_snapshots(remove.bases)

    def _delete_before(self, delete: operations.DeleteBefore) -> None:
        self.manager.delete_snapshots_before(delete.offset)

    def _mark(self, mark: operations.Mark) -> Any:
        marked = self.manager.remove_and_mark_snapshot_for_deletion(mark.offset)
        return {"name": marked.name if marked else None}

    def _reopen(self, _: operations.Reopen) -> None:
        self.manager = self._open()

    def _write(self, write: operations.Write) -> None:
        Path(self.files.path(write.file)).write_bytes(write.data)

    def _unlink(self, unlink: operations.Unlink) -> None:
        Path(self.files.path(unlink.file)).unlink(missing_ok=True)

    # ------------------------------------------------------------------ state

    def state(self) -> dict[str, Any]:
        manager = self.manager
        return {
            "map_end_offset": manager.map_end_offset,
            "last_snap_offset": manager._last_snap_offset,
            "oldest_txn_last_timestamp": manager._oldest_txn_last_timestamp,
            "is_empty": manager.is_empty,
            "first_unstable_offset": manager.first_unstable_offset(),
            "producers": [
                described(entry) for _, entry in sorted(manager.active_producers.items())
            ],
            "ongoing": [
                [txn.producer_id, txn.first_offset, txn.last_offset] for txn in manager.ongoing_txns
            ],
            "unreplicated": [
                [txn.producer_id, txn.first_offset, txn.last_offset]
                for txn in manager.unreplicated_txns
            ],
            "verifications": [
                [
                    producer_id,
                    entry.timestamp,
                    entry.lowest_sequence,
                    entry.epoch,
                    entry.supports_epoch_bump,
                ]
                for producer_id, entry in sorted(manager._verification_states.items())
            ],
            "files": [[name, self.files.size(name)] for name in self.files.names()],
            "snapshots": [list(snapshot) for snapshot in manager.snapshots],
        }


def described(entry: ProducerStateEntry) -> dict[str, Any]:
    """Describe a producer as the oracle does."""
    first_offset = entry.current_txn_first_offset
    return {
        "producer_id": entry.producer_id,
        "producer_epoch": entry.producer_epoch,
        "last_sequence": entry.last_seq,
        "last_offset": entry.last_data_offset,
        "offset_delta": entry.last_offset_delta,
        "timestamp": entry.last_timestamp,
        "coordinator_epoch": entry.coordinator_epoch,
        "current_txn_first_offset": -1 if first_offset is None else first_offset,
        "batches": [
            {
                "first_sequence": batch.first_seq,
                "last_sequence": batch.last_seq,
                "first_offset": batch.first_offset,
                "last_offset": batch.last_offset,
                "offset_delta": batch.offset_delta,
                "timestamp": batch.timestamp,
            }
            for batch in entry.batch_metadata
        ],
    }


def _recover_columns(manager: ProducerStateManager, data: bytes) -> list[Any] | DamagedBatch:
    completed_rows: list[Any] = []
    for batches in BatchScan(data):
        damage = manager.replay_batches(
            batches,
            _reader(data),
            on_completed=lambda completed, offset: completed_rows.append([*completed, offset]),
        )
        if damage is not None:
            return damage
    return completed_rows


def _reader(data: bytes) -> Any:
    return lambda position, size: data[position : position + size]
