"""Drives our log with the sessions that the oracle's `run_sessions` takes, with the same answers.

Exceptions become Kafka's class names, so that an error can be compared like any other answer.
"""

import base64
import os
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from kafka_format.errors import FormatError
from kafka_format.java_text import parse_uuid, uuid_text
from kafka_format.transaction_index import AbortedTransaction
from kafka_log import errors
from kafka_log.appends.info import LogAppendInfo
from kafka_log.appends.origin import AppendOrigin
from kafka_log.checkpoints import LastRun
from kafka_log.clock import FixedClock, Scheduler
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import Files
from kafka_log.log.fetch_data import FetchDataInfo, LogOffsetMetadata
from kafka_log.log.unified_log import FetchIsolation, PartitionLog
from kafka_log.producers.producer_state import SENTINEL
from kafka_log.segment.log_segment import LogSegment
from tests.kafka_log import steps
from tests.kafka_log.producer_driver import described
from tests.kafka_log.steps import Opening, Step, opening_of, step_of

_OFFSET_SIZE = 8
_LENGTH_END = 12

KAFKA_CLASSES: dict[type[Exception], tuple[str, ...]] = {
    errors.OffsetOutOfRangeError: ("OffsetOutOfRangeException",),
    errors.CorruptMessageError: ("CorruptRecordException",),
    errors.RecordTooLargeError: ("RecordTooLargeException",),
    errors.RecordBatchTooLargeError: ("RecordBatchTooLargeException",),
    errors.InvalidTimestampError: ("RecordValidationException",),
    errors.InvalidRecordError: ("InvalidRecordException", "RecordValidationException"),
    errors.UnsupportedForMessageFormatError: ("UnsupportedForMessageFormatException",),
    errors.OutOfOrderSequenceError: ("OutOfOrderSequenceException",),
    errors.InvalidProducerEpochError: ("InvalidProducerEpochException",),
    errors.InvalidTransactionStateError: ("InvalidTxnStateException",),
    errors.TransactionCoordinatorFencedError: ("TransactionCoordinatorFencedException",),
    errors.UnexpectedAppendOffsetError: ("UnexpectedAppendOffsetException",),
    errors.OffsetsOutOfOrderError: ("OffsetsOutOfOrderException",),
    errors.InvalidOffsetError: ("InvalidOffsetException",),
    errors.IndexFullError: ("IllegalArgumentException", "BufferOverflowException"),
    errors.IllegalArgumentError: ("IllegalArgumentException",),
    errors.IllegalControlRecordError: ("IllegalArgumentException", "NullPointerException"),
    errors.SegmentOffsetOverflowError: ("LogSegmentOffsetOverflowException",),
    errors.UnknownServerError: (
        "IllegalArgumentException",
        "IndexOutOfBoundsException",
        "KafkaException",
        "UnsupportedOperationException",
        "IllegalStateException",
    ),
    errors.LogError: ("KafkaException",),
    ValueError: ("IllegalArgumentException",),
    FormatError: ("CorruptRecordException", "InvalidRecordException"),
}


def kafka_classes(problem: Exception) -> tuple[str, ...]:
    """Return the classes of Kafka's exceptions that stand for one of our errors."""
    for ours in type(problem).__mro__:
        if ours in KAFKA_CLASSES:
            return KAFKA_CLASSES[ours]
    raise problem


class Session:
    """Our log, open in a directory."""

    def __init__(self, files: Files, opening: Opening | Mapping[str, Any]) -> None:
        self.opening = opening_of(opening)
        self.clock = FixedClock(self.opening.time)
        self.scheduler = Scheduler(self.clock)
        topic_id = self.opening.topic_id
        self.log = PartitionLog.open(
            files,
            log_config(self.opening),
            self.scheduler,
            LastRun(
                clean_shutdown=self.opening.clean_shutdown,
                log_start_offset=self.opening.log_start_offset or 0,
                recovery_point=self.opening.recovery_point or 0,
            ),
            topic_id=None if topic_id is None else parse_uuid(topic_id),
        )

    def close(self, how: str) -> None:
        """Close the log as a broker that stops (`clean`), or leave its files as they are."""
        if how == "clean":
            self.log.flush()
            self.log.close()
        else:
            self.log.close_handlers()

    def try_step(self, step: Step | Mapping[str, Any]) -> Any:
        """Take a step; an error of one that may fail is the answer."""
        typed = step_of(step)
        try:
            return self.step(typed)
        except Exception as problem:
            if not typed.may_fail:
                raise
            return {"error": kafka_classes(problem), "problem": problem}

    def step(self, step: Step | Mapping[str, Any]) -> Any:
        typed = step_of(step)
        if typed.time is not None:
            self.clock.now_ms = typed.time
        return getattr(self, f"_{typed.action.name()}")(typed.action)

    def _nothing(self, _: steps.Nothing) -> None:
        return None

    # ------------------------------------------------------------------------------- appends

    def _append(self, append: steps.Append) -> dict[str, int]:
        info = self._appended(append)
        return {
            "first_offset": info.first_offset,
            "last_offset": info.last_offset,
            "max_timestamp": info.max_timestamp,
            "log_append_time": info.log_append_time,
            "log_end_offset": self.log.log_end_offset,
        }

    def _appended(self, append: steps.Append) -> LogAppendInfo:
        log, data, epoch = self.log, append.data, append.leader_epoch
        if append.at_end is not None:
            data = shift(data, log.log_end_offset + append.at_end)
        origin = AppendOrigin[append.origin or "CLIENT"]
        if origin is AppendOrigin.REPLICATION:
            return log.append_as_follower(data, epoch)
        if append.record_version is not None:
            return log.append_as_leader(data, epoch, record_version=append.record_version)
        guard = SENTINEL
        if append.verified is not None:
            guard = log.producer_state_manager.verification_guard(append.verified)
        version = append.transaction_version
        return log.append_as_leader(
            data,
            epoch,
            origin=origin,
            verification_guard=guard,
            transaction_version=1 if version is None else version,
        )

    def _start_verification(self, verification: steps.StartVerification) -> dict[str, bool]:
        guard = self.log.maybe_start_transaction_verification(
            verification.producer_id,
            verification.sequence,
            verification.producer_epoch,
            supports_epoch_bump=verification.supports_epoch_bump,
        )
        return {"needed": guard is not SENTINEL}

    # ------------------------------------------------------------------------------- changes

    def _roll(self, _: steps.Roll) -> dict[str, int]:
        return {"base_offset": self.log.roll().base_offset}

    def _flush(self, _: steps.Flush) -> None:
        self.log.flush()

    def _high_watermark(self, moved: steps.HighWatermark) -> dict[str, int]:
        return {"high_watermark": self.log.update_high_watermark(self._offset(moved.place))}

    def _maybe_update_high_watermark(
        self, moved: steps.MaybeUpdateHighWatermark
    ) -> dict[str, int | None]:
        return {"high_watermark": self.log.maybe_update_high_watermark(self._offset(moved.place))}

    def _maybe_increment_high_watermark(
        self, moved: steps.MaybeIncrementHighWatermark
    ) -> dict[str, int | None]:
        metadata = LogOffsetMetadata(self._offset(moved.place))
        old = self.log.maybe_increment_high_watermark(metadata)
        return {"high_watermark": None if old is None else old.message_offset}

    def _log_start_offset(self, moved: steps.LogStartOffset) -> dict[str, bool]:
        return {"moved": self.log.maybe_increment_log_start_offset(self._offset(moved.place))}

    def _truncate_to(self, cut: steps.TruncateTo) -> dict[str, bool]:
        return {"truncated": self.log.truncate_to(self._offset(cut.place))}

    def _truncate_fully_and_start_at(self, cut: steps.TruncateFullyAndStartAt) -> None:
        self.log.truncate_fully_and_start_at(self._offset(cut.place), cut.log_start_offset)

    def _delete_old_segments(self, _: steps.DeleteOldSegments) -> dict[str, int]:
        return {"deleted": self.log.delete_old_segments()}

    def _remove_expired_producers(self, _: steps.RemoveExpiredProducers) -> None:
        self.log.remove_expired_producers(self.clock())

    def _producer_snapshot(self, _: steps.ProducerSnapshot) -> None:
        self.log.take_producer_snapshot()

    def _run_pending(self, _: steps.RunPending) -> dict[str, int]:
        return {"ran": self.scheduler.run_all()}

    def _assign_epoch(self, assigned: steps.AssignEpoch) -> None:
        offset = self._offset(assigned.place)
        self.log.assign_epoch_start_offset(assigned.leader_epoch, offset)

    def _update_config(self, update: steps.UpdateConfig) -> None:
        self.log.update_config(log_config(replace(self.opening, config=update.config)))

    # ----------------------------------------------------------------------------- questions

    def _late_transaction(self, _: steps.LateTransaction) -> dict[str, bool]:
        return {"late": self.log.has_late_transaction(self.clock())}

    def _read(self, read: steps.Read) -> dict[str, Any]:
        found: FetchDataInfo = self.log.read(
            self._offset(read.place),
            read.max_length,
            isolation=FetchIsolation[read.isolation],
            min_one_message=read.min_one_message,
        )
        where, data = found.fetch_offset_metadata, found.records.read()
        aborted = found.aborted_transactions
        return {
            "offset": where.message_offset,
            "segment_base_offset": where.segment_base_offset,
            "position": where.relative_position_in_segment,
            "size_in_bytes": len(data),
            "digest": zlib.crc32(data),
            "first_entry_incomplete": found.first_entry_incomplete,
            "aborted_transactions": None
            if aborted is None
            else [[txn.producer_id, txn.first_offset] for txn in aborted],
        }

    def _offset_for_timestamp(self, asked: steps.OffsetForTimestamp) -> dict[str, Any] | None:
        found = self.log.fetch_offset_by_timestamp(asked.timestamp)
        return None if found is None else found._asdict()

    def _end_offset_for_epoch(self, asked: steps.EndOffsetForEpoch) -> dict[str, int] | None:
        found = self.log.end_offset_for_epoch(asked.leader_epoch)
        return None if found is None else {"offset": found.end_offset, "leader_epoch": found.epoch}

    def _state(self, _: steps.State) -> dict[str, Any]:
        return full_state(self.log)

    def _offset(self, place: steps.RelativeOffset) -> int:
        if place.offset is not None:
            return place.offset
        log = self.log
        places = {
            "end": log.log_end_offset,
            "start": log.log_start_offset,
            "high_watermark": log.high_watermark,
            "last_stable": log.last_stable_offset,
            "active": log.active_segment.base_offset,
        }
        return places[place.origin] + place.delta


def log_config(opening: Opening | Mapping[str, Any]) -> LogConfig:
    """Return the settings of a session."""
    opening = opening_of(opening)
    settings = {name.replace(".", "_"): value for name, value in opening.config.items()}
    if "cleanup_policy" in settings:
        settings["cleanup_policy"] = frozenset(settings["cleanup_policy"].split(","))
    return LogConfig(
        **settings,
        producer_id_expiration_ms=opening.producer_id_expiration_ms,
        max_transaction_timeout_ms=opening.max_transaction_timeout_ms,
        transaction_partition_verification_enable=opening.transaction_verification,
    )


def shift(data: bytes, first_offset: int) -> bytes:
    """Move batches to an offset, which no checksum covers."""
    moved, position = bytearray(data), 0
    if len(data) < _LENGTH_END:
        return data
    distance = first_offset - int.from_bytes(data[:_OFFSET_SIZE], "big", signed=True)
    while position + _LENGTH_END <= len(moved):
        length_at, end = position + _OFFSET_SIZE, position + _LENGTH_END
        offset = int.from_bytes(moved[position:length_at], "big", signed=True) + distance
        moved[position:length_at] = offset.to_bytes(_OFFSET_SIZE, "big", signed=True)
        position = end + int.from_bytes(moved[length_at:end], "big", signed=True)
    return bytes(moved)


# -------------------------------------------------------------------------------------- state


def brief_state(log: PartitionLog) -> dict[str, Any]:
    state, end = log.state, log.log_end_offset
    producers = log.producer_state_manager.active_producers
    aborted = log.collect_aborted_transactions(log.log_start_offset, end)
    return {
        "log_start_offset": state.log_start_offset,
        "log_end_offset": state.log_end_offset,
        "high_watermark": state.high_watermark,
        "last_stable_offset": state.last_stable_offset,
        "first_unstable_offset": state.first_unstable_offset,
        "recovery_point": state.recovery_point,
        "size_in_bytes": state.size_in_bytes,
        "topic_id": None if state.topic_id is None else uuid_text(state.topic_id),
        "leader_epochs": [
            {"epoch": entry.epoch, "start_offset": entry.start_offset}
            for entry in log.leader_epoch_cache.epoch_entries
        ],
        "producers": [described(producers[producer_id]) for producer_id in sorted(producers)],
        "aborted_transactions": [AbortedTransaction(*txn)._asdict() for txn in aborted],
    }


def full_state(log: PartitionLog) -> dict[str, Any]:
    return brief_state(log) | {"segments": [_segment(segment) for segment in log.log_segments]}


def _segment(segment: LogSegment) -> dict[str, int]:
    return {
        "base_offset": segment.base_offset,
        "next_offset": segment.read_next_offset(),
        "size_in_bytes": segment.size,
        "offset_index_entries": segment.offset_index.entries,
        "time_index_entries": segment.time_index.entries,
        "largest_timestamp": segment.largest_timestamp(),
    }


# -------------------------------------------------------------------------------------- files


def files_of(directory: Path) -> dict[str, Any]:
    """Describe each file as the oracle does: size and digest, or the bytes of a snapshot."""
    described_files = {}
    for name in os.listdir(directory):  # noqa: PTH208  # after every step: a Path each is too slow
        fd = os.open(f"{directory}/{name}", os.O_RDONLY)
        try:
            described_files[name] = described_file(name, os.read(fd, os.fstat(fd).st_size))
        finally:
            os.close(fd)
    return described_files


def described_file(name: str, data: bytes) -> Any:
    """Describe a file by size and digest; the bytes of a snapshot are kept."""
    return data if ".snapshot" in name else f"{len(data)} {zlib.crc32(data)}"


def file_content(name: str, answer: str) -> Any:
    """Return a file of the oracle's answer as `files_of` describes it."""
    return base64.b64decode(answer) if ".snapshot" in name else answer
