"""Dump the other files of a log dir, one entry per line: `name: value name: value`.

`.txnindex` and `.snapshot` are printed as kafka-dump-log prints them. It ignores the others, which
are printed in the same style.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_format.errors import (
    CorruptError,
    FormatError,
    Location,
    TruncatedError,
    UnsupportedError,
)
from kafka_format.java_text import decode_utf8, uuid_text
from kafka_format.shown_text import name_text
from kafka_log.dump.file_pieces import end_before_zeros, iter_pieces
from kafka_log.dump.output import Output, file_fields, json_line
from kafka_log.dump.report import Report
from kafka_log.names import FileKind

if TYPE_CHECKING:
    from kafka_format.access import EvidenceFile
    from kafka_log.dump.options import DumpOptions
    from kafka_log.inventory.directory import FoundFile

_PIECE_ENTRIES = 16 * 1024


class Row(NamedTuple):
    """An entry as text, as JSON, and the values for filters."""

    text: str
    fields: dict[str, Any]
    offsets: tuple[int, int] | None = None
    timestamp: int | None = None
    producer_id: int | None = None


def dump_side_file(
    file: FoundFile, opened: EvidenceFile, options: DumpOptions, output: Output, report: Report
) -> None:
    kind, rows = _READERS[file.name.kind]
    first_fields = {"kind": kind, **file_fields(file)}
    for row in rows(file, opened, report):
        if options.filters and not options.filters.pass_entry(
            offsets=row.offsets, timestamp=row.timestamp, producer_id=row.producer_id
        ):
            continue
        if options.format == "text":
            output.line(row.text)
        else:
            output.text(json_line(first_fields | row.fields))


def _transaction_index(file: FoundFile, opened: EvidenceFile, report: Report) -> Iterator[Row]:
    from kafka_format import transaction_index

    size = transaction_index.ENTRY_SIZE
    position, end = 0, _end_of_entries(opened, size, report)
    for data in iter_pieces(opened, 0, end, _PIECE_ENTRIES * size):
        slots = transaction_index.decode_transaction_index_columns(data).tolist()
        for slot, entry in enumerate(map(transaction_index.AbortedTransaction._make, slots)):
            if entry.version != transaction_index.VERSION:
                location = Location(file.path, position + slot * size)
                report.found(UnsupportedError(location, f"version {entry.version}", "version 0"))
            yield Row(
                f"version: {entry.version >> 8} producerId: {entry.producer_id}"  # a byte, as Kafka
                f" firstOffset: {entry.first_offset} lastOffset: {entry.last_offset}"
                f" lastStableOffset: {entry.last_stable_offset}",
                entry._asdict(),
                offsets=(entry.first_offset, entry.last_offset),
                producer_id=entry.producer_id,
            )
        position += len(data)
    if left := position % size:
        location = Location(file.path, position - left)
        report.found(TruncatedError(location, f"{left} bytes", f"an entry of {size}"))


def _end_of_entries(opened: EvidenceFile, size: int, report: Report) -> int:
    """Return where the entries end, if only zeros follow: slots that cannot be entries.

    Kafka writes none, but file systems do, in any number. As in kafka-dump-log, the first one
    counts as an entry.
    """
    end = -(-end_before_zeros(opened) // size) * size + size
    if end >= opened.size:
        return opened.size
    found = f"{opened.size - end} bytes of zeros up to the end"
    report.found(CorruptError(Location(opened.path, end), found, "entries"))
    return end


def _producer_snapshot(file: FoundFile, *_: object) -> Iterator[Row]:
    from kafka_format.producer_snapshot import iter_read_producer_snapshot

    for entry in iter_read_producer_snapshot(file.path):
        open_transaction = entry.current_txn_first_offset
        first = (
            "OptionalLong.empty" if open_transaction < 0 else f"OptionalLong[{open_transaction}]"
        )
        text = (
            f"producerId: {entry.producer_id} producerEpoch: {entry.producer_epoch}"
            f" coordinatorEpoch: {entry.coordinator_epoch} currentTxnFirstOffset: {first}"
            f" lastTimestamp: {entry.timestamp}"
        )
        if entry.last_offset >= 0:
            first_sequence = _first_sequence(entry.last_sequence, entry.offset_delta)
            text += (
                f" firstSequence: {first_sequence} lastSequence: {entry.last_sequence}"
                f" lastOffset: {entry.last_offset} offsetDelta: {entry.offset_delta}"
                f" timestamp: {entry.timestamp}"
            )
        yield Row(
            text,
            entry._asdict(),
            offsets=(entry.last_offset - entry.offset_delta, entry.last_offset),
            timestamp=entry.timestamp,
            producer_id=entry.producer_id,
        )


def _first_sequence(last_sequence: int, offset_delta: int) -> int:
    """Compute DefaultRecordBatch.decrementSequence, with the overflow of Java's int."""
    if last_sequence < offset_delta:
        return _int32(0x7FFF_FFFF - (offset_delta - last_sequence) + 1)
    return _int32(last_sequence - offset_delta)


def _int32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def _offset_checkpoint(file: FoundFile, *_: object) -> Iterator[Row]:
    from kafka_format.checkpoint_file import read_offset_checkpoint

    for entry in read_offset_checkpoint(file.path).entries:
        yield Row(
            f"topic: {entry.topic} partition: {entry.partition} offset: {entry.offset}",
            {
                "checkpoint": file.name.kind.value,
                **entry._asdict(),
                "topic": name_text(entry.topic),
            },
            offsets=(entry.offset, entry.offset),
        )


def _leader_epochs(file: FoundFile, *_: object) -> Iterator[Row]:
    from kafka_format.leader_epoch_file import read_leader_epoch_checkpoint

    for entry in read_leader_epoch_checkpoint(file.path).entries:
        yield Row(
            f"epoch: {entry.epoch} startOffset: {entry.start_offset}",
            entry._asdict(),
            offsets=(entry.start_offset, entry.start_offset),
        )


def _partition_metadata(file: FoundFile, *_: object) -> Iterator[Row]:
    from kafka_format.partition_metadata import read_partition_metadata

    metadata = read_partition_metadata(file.path)
    topic_id = uuid_text(metadata.topic_id)
    yield Row(
        f"version: {metadata.version} topicId: {topic_id}",
        {"version": metadata.version, "topic_id": topic_id},
    )


def _meta_properties(file: FoundFile, _: EvidenceFile, report: Report) -> Iterator[Row]:
    from kafka_format.properties_file import meta_properties, read_properties

    properties = read_properties(file.path)
    for found in properties.properties():
        yield Row(f"{found.key}: {found.value}", {"name": found.key, "value": found.value})
    try:
        meta_properties(properties, path=file.path)
    except FormatError as error:
        report.found(error)


def _clean_shutdown(file: FoundFile, *_: object) -> Iterator[Row]:
    from kafka_format.clean_shutdown_file import CleanShutdownContent, read_clean_shutdown_file

    marker = read_clean_shutdown_file(file.path)
    fields = {"version": marker.version, "broker_epoch": marker.broker_epoch}
    if marker.content is CleanShutdownContent.EMPTY:
        yield Row(f"{file.path} is empty.", fields)
    elif marker.content is CleanShutdownContent.BROKER_EPOCH:
        yield Row(f"version: {marker.version} brokerEpoch: {marker.broker_epoch}", fields)
    else:  # Kafka ignores the content as well
        raw = base64.b64encode(marker.raw).decode()
        yield Row(f"unreadable: {decode_utf8(marker.raw)}", fields | {"unreadable_base64": raw})


def _quorum_state(file: FoundFile, _: EvidenceFile, report: Report) -> Iterator[Row]:
    from kafka_format.quorum_state import read_quorum_state

    state = read_quorum_state(file.path)
    directory_id = uuid_text(state.voted_directory_id)
    fields = state._asdict() | {"voted_directory_id": directory_id}
    del fields["trailing"]
    text = (
        f"leaderId: {state.leader_id} leaderEpoch: {state.leader_epoch} votedId: {state.voted_id}"
    )
    if state.data_version == 0:
        voters = "null" if state.current_voters is None else list(state.current_voters)
        text = f"clusterId: {state.cluster_id} {text} appliedOffset: {state.applied_offset}"
        text += f" currentVoters: {voters}"
    else:
        text += f" votedDirectoryId: {directory_id}"
    yield Row(f"{text} dataVersion: {state.data_version}", fields)
    if state.trailing:
        location = Location(file.path, file.size - len(state.trailing))
        report.found(CorruptError(location, f"{len(state.trailing)} bytes after it", "none"))


_Reader = Callable[["FoundFile", "EvidenceFile", Report], Iterator[Row]]
_READERS: dict[FileKind, tuple[str, _Reader]] = {
    FileKind.TRANSACTION_INDEX: ("transaction_index", _transaction_index),
    FileKind.REMOTE_TRANSACTION_INDEX: ("transaction_index", _transaction_index),
    FileKind.PRODUCER_SNAPSHOT: ("producer_snapshot", _producer_snapshot),
    FileKind.RECOVERY_POINT_CHECKPOINT: ("checkpoint", _offset_checkpoint),
    FileKind.LOG_START_OFFSET_CHECKPOINT: ("checkpoint", _offset_checkpoint),
    FileKind.CLEANER_OFFSET_CHECKPOINT: ("checkpoint", _offset_checkpoint),
    FileKind.REPLICATION_OFFSET_CHECKPOINT: ("checkpoint", _offset_checkpoint),
    FileKind.LEADER_EPOCH_CHECKPOINT: ("leader_epoch", _leader_epochs),
    FileKind.PARTITION_METADATA: ("partition_metadata", _partition_metadata),
    FileKind.META_PROPERTIES: ("meta_property", _meta_properties),
    FileKind.CLEAN_SHUTDOWN: ("clean_shutdown", _clean_shutdown),
    FileKind.QUORUM_STATE: ("quorum_state", _quorum_state),
}
