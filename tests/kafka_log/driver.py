"""Our log, driven by the sessions that the oracle's `run_sessions` takes; the answers look alike.

Exceptions become Kafka's class names, so that a refusal can be compared like any other answer.
"""

import base64
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kafka_format.errors import FormatError
from kafka_format.java_text import parse_uuid, uuid_text
from kafka_format.transaction_index import AbortedTransaction
from kafka_log import errors
from kafka_log.appends.info import LogAppendInfo
from kafka_log.appends.origin import AppendOrigin
from kafka_log.clock import FixedClock, Scheduler
from kafka_log.config import LogConfig
from kafka_log.disk.files import Files
from kafka_log.fetch_data import FetchDataInfo, LogOffsetMetadata
from kafka_log.log import FetchIsolation, PartitionLog
from kafka_log.producer_state import SENTINEL
from kafka_log.segment import LogSegment
from tests.kafka_log.producer_driver import described

NEVER = 2**31 - 1
_SHIFT = 8  # base offset, then the length

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
    """The classes by which Kafka would refuse the same."""
    for ours in type(problem).__mro__:
        if ours in KAFKA_CLASSES:
            return KAFKA_CLASSES[ours]
    raise problem


class Session:
    """One opening of a directory."""

    def __init__(self, files: Files, arguments: Mapping[str, Any]) -> None:
        self.clock = FixedClock(arguments.get("time", 0))
        self.scheduler = Scheduler(self.clock)
        self.arguments = dict(arguments)
        topic_id = arguments.get("topic_id")
        self.log = PartitionLog.open(
            files,
            log_config(arguments),
            self.clock,
            self.scheduler,
            log_start_offset=arguments["log_start_offset"],
            recovery_point=arguments["recovery_point"],
            clean_shutdown=arguments.get("clean_shutdown", True),
            topic_id=None if topic_id is None else parse_uuid(topic_id),
        )

    def close(self, how: str) -> None:
        if how == "clean":
            self.log.flush()
            self.log.close()
        else:
            self.log.close_handlers()

    def try_step(self, step: Mapping[str, Any]) -> Any:
        try:
            return self.step(step)
        except Exception as problem:
            if not step.get("may_fail"):
                raise
            return {"error": kafka_classes(problem), "problem": problem}

    def step(self, step: Mapping[str, Any]) -> Any:
        if "time" in step:
            self.clock.now_ms = step["time"]
        return getattr(self, f"_{step.get('do', 'nothing')}")(step)

    def _nothing(self, _: Mapping[str, Any]) -> None:
        return None

    def _append(self, step: Mapping[str, Any]) -> dict[str, int]:
        log, data = self.log, step["bytes"]
        if "at_end" in step:
            data = shift(data, log.log_end_offset + step["at_end"])
        origin = AppendOrigin[step.get("origin", "CLIENT")]
        info: LogAppendInfo
        if origin is AppendOrigin.REPLICATION:
            info = log.append_as_follower(data, step["leader_epoch"])
        elif "record_version" in step:
            version = step["record_version"]
            info = log.append_as_leader(data, step["leader_epoch"], record_version=version)
        else:
            guard = SENTINEL
            if "verified" in step:
                guard = log.producer_state_manager.verification_guard(step["verified"])
            info = log.append_as_leader(
                data,
                step["leader_epoch"],
                origin=origin,
                verification_guard=guard,
                transaction_version=step.get("transaction_version", 1),
            )
        return {
            "first_offset": info.first_offset,
            "last_offset": info.last_offset,
            "max_timestamp": info.max_timestamp,
            "log_append_time": info.log_append_time,
            "log_end_offset": log.log_end_offset,
        }

    def _roll(self, _: Mapping[str, Any]) -> dict[str, int]:
        return {"base_offset": self.log.roll().base_offset}

    def _flush(self, _: Mapping[str, Any]) -> None:
        self.log.flush()

    def _high_watermark(self, step: Mapping[str, Any]) -> dict[str, int]:
        return {"high_watermark": self.log.update_high_watermark(self._offset(step))}

    def _maybe_update_high_watermark(self, step: Mapping[str, Any]) -> dict[str, int | None]:
        return {"high_watermark": self.log.maybe_update_high_watermark(self._offset(step))}

    def _maybe_increment_high_watermark(self, step: Mapping[str, Any]) -> dict[str, int | None]:
        old = self.log.maybe_increment_high_watermark(LogOffsetMetadata(self._offset(step)))
        return {"high_watermark": None if old is None else old.message_offset}

    def _log_start_offset(self, step: Mapping[str, Any]) -> dict[str, bool]:
        return {"moved": self.log.maybe_increment_log_start_offset(self._offset(step))}

    def _truncate_to(self, step: Mapping[str, Any]) -> dict[str, bool]:
        return {"truncated": self.log.truncate_to(self._offset(step))}

    def _truncate_fully_and_start_at(self, step: Mapping[str, Any]) -> None:
        self.log.truncate_fully_and_start_at(self._offset(step), step.get("log_start_offset"))

    def _delete_old_segments(self, _: Mapping[str, Any]) -> dict[str, int]:
        return {"deleted": self.log.delete_old_segments()}

    def _remove_expired_producers(self, _: Mapping[str, Any]) -> None:
        self.log.remove_expired_producers(self.clock())

    def _producer_snapshot(self, _: Mapping[str, Any]) -> None:
        self.log.take_producer_snapshot()

    def _run_pending(self, _: Mapping[str, Any]) -> dict[str, int]:
        return {"ran": self.scheduler.run_all()}

    def _late_transaction(self, _: Mapping[str, Any]) -> dict[str, bool]:
        return {"late": self.log.has_late_transaction(self.clock())}

    def _assign_epoch(self, step: Mapping[str, Any]) -> None:
        self.log.assign_epoch_start_offset(step["leader_epoch"], self._offset(step))

    def _start_verification(self, step: Mapping[str, Any]) -> dict[str, bool]:
        guard = self.log.maybe_start_transaction_verification(
            step["producer_id"],
            step.get("sequence", 0),
            step.get("producer_epoch", 0),
            supports_epoch_bump=step.get("supports_epoch_bump", False),
        )
        return {"needed": guard is not SENTINEL}

    def _update_config(self, step: Mapping[str, Any]) -> None:
        self.log.update_config(log_config(self.arguments | {"config": step["config"]}))

    def _read(self, step: Mapping[str, Any]) -> dict[str, Any]:
        found: FetchDataInfo = self.log.read(
            self._offset(step),
            step.get("max_length", NEVER),
            isolation=FetchIsolation[step.get("isolation", "LOG_END")],
            min_one_message=step.get("min_one_message", True),
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

    def _offset_for_timestamp(self, step: Mapping[str, Any]) -> dict[str, Any] | None:
        found = self.log.fetch_offset_by_timestamp(step["timestamp"])
        return None if found is None else found._asdict()

    def _end_offset_for_epoch(self, step: Mapping[str, Any]) -> dict[str, int] | None:
        found = self.log.end_offset_for_epoch(step["leader_epoch"])
        return None if found is None else {"offset": found.end_offset, "leader_epoch": found.epoch}

    def _state(self, _: Mapping[str, Any]) -> dict[str, Any]:
        return full_state(self.log)

    def _offset(self, step: Mapping[str, Any]) -> int:
        log = self.log
        if "offset" in step:
            return step["offset"]
        places = {
            "end": log.log_end_offset,
            "start": log.log_start_offset,
            "high_watermark": log.high_watermark,
            "last_stable": log.last_stable_offset,
            "active": log.active_segment.base_offset,
        }
        return places[step.get("from", "end")] + step.get("delta", 0)


def log_config(arguments: Mapping[str, Any]) -> LogConfig:
    settings: dict[str, Any] = {}
    for name, value in arguments.get("config", {}).items():
        settings[name.replace(".", "_")] = value
    if "cleanup_policy" in settings:
        settings["cleanup_policy"] = frozenset(settings["cleanup_policy"].split(","))
    return LogConfig(
        **settings,
        producer_id_expiration_ms=arguments.get("producer_id_expiration_ms", NEVER),
        max_transaction_timeout_ms=arguments.get("max_transaction_timeout_ms", 15 * 60 * 1000),
        transaction_partition_verification_enable=arguments.get("transaction_verification", False),
    )


def shift(data: bytes, first_offset: int) -> bytes:
    """A chunk of batches moved to an offset, which no checksum covers."""
    moved, position = bytearray(data), 0
    if len(data) < 12:
        return data
    by = first_offset - int.from_bytes(data[:_SHIFT], "big", signed=True)
    while position + 12 <= len(moved):
        offset = int.from_bytes(moved[position : position + _SHIFT], "big", signed=True) + by
        moved[position : position + _SHIFT] = offset.to_bytes(_SHIFT, "big", signed=True)
        position += 12 + int.from_bytes(moved[position + 8 : position + 12], "big", signed=True)
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
    """Each file as the oracle tells it: size and digest; of a snapshot its bytes."""
    told = {}
    for name in os.listdir(directory):  # noqa: PTH208  # after every step: a Path each is too slow
        fd = os.open(f"{directory}/{name}", os.O_RDONLY)
        try:
            told[name] = told_file(name, os.read(fd, os.fstat(fd).st_size))
        finally:
            os.close(fd)
    return told


def told_file(name: str, data: bytes) -> Any:
    return data if ".snapshot" in name else f"{len(data)} {zlib.crc32(data)}"


def told_by_oracle(name: str, told: str) -> Any:
    return base64.b64decode(told) if ".snapshot" in name else told
