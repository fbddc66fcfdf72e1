"""A file read in full, by every reader there is. Each gives a value or raises a FormatError.

`read` is the careful reader: whatever can be checked in the file alone is checked. `read_in_full`
asks all readers, checksums or not, and holds them against each other; it raises nothing but an
AssertionError.
"""

import functools
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from kafka_format.checkpoint_file import decode_offset_checkpoint, encode_offset_checkpoint
from kafka_format.clean_shutdown_file import (
    CleanShutdownContent,
    decode_clean_shutdown_file,
    encode_clean_shutdown_file,
)
from kafka_format.control import decode_control_record, encode_control_record
from kafka_format.coordinator_records import (
    CoordinatorTopic,
    decode_coordinator_record,
    encode_coordinator_record,
    group_members,
)
from kafka_format.errors import FormatError
from kafka_format.index_end import Stop
from kafka_format.leader_epoch_file import (
    decode_leader_epoch_checkpoint,
    encode_leader_epoch_checkpoint,
)
from kafka_format.log_file import AnyBatch, LogFile
from kafka_format.metadata_records import decode_metadata_record, encode_metadata_record
from kafka_format.offset_index import decode_offset_index, encode_offset_index
from kafka_format.partition_metadata import decode_partition_metadata, encode_partition_metadata
from kafka_format.producer_snapshot import decode_producer_snapshot, encode_producer_snapshot
from kafka_format.properties_file import (
    decode_meta_properties,
    decode_properties,
    encode_meta_properties,
)
from kafka_format.quorum_state import decode_quorum_state, encode_quorum_state
from kafka_format.record import Record
from kafka_format.remote_log_metadata import decode_remote_log_metadata, encode_remote_log_metadata
from kafka_format.time_index import decode_time_index, encode_time_index
from kafka_format.transaction_index import decode_transaction_index, encode_transaction_index
from kafka_log.dump import DumpOptions, Output, Report, dump
from kafka_log.inventory.directory import find_files
from kafka_log.names import FileKind, parse_directory_name, parse_file_name
from tests.kafka_format.columnar.agreement import assert_agreement

LIMIT = 1 << 20
"""To which batches of these directories may grow."""

LOGS = (FileKind.LOG, FileKind.METADATA_SNAPSHOT, FileKind.BOOTSTRAP_CHECKPOINT)
CHECKPOINTS = (
    FileKind.RECOVERY_POINT_CHECKPOINT,
    FileKind.LOG_START_OFFSET_CHECKPOINT,
    FileKind.CLEANER_OFFSET_CHECKPOINT,
    FileKind.REPLICATION_OFFSET_CHECKPOINT,
)
COORDINATORS = {topic.value: topic for topic in CoordinatorTopic}


@functools.cache
def kind_of(path: str) -> FileKind:
    return parse_file_name(Path(path).name).kind


def assert_coordinate(error: FormatError, size: int, path: str | None = None) -> None:
    """Where, what was found, what was expected."""
    assert 0 <= error.location.position <= size, error
    assert path is None or error.location.path == path, error
    assert error.found, error
    assert error.expected, error
    where = f"{error.location.path}@{error.location.position}"
    assert str(error) == f"{where}: found {error.found}, expected {error.expected}"


def value_or_error(size: int, decode: Callable[..., Any], *arguments: Any, **options: Any) -> Any:
    try:
        return decode(*arguments, **options)
    except FormatError as error:
        assert_coordinate(error, size, options.get("path"))
        return error


# The careful reader: a file is well, or a FormatError or a Stop says why not.


def read(path: str, data: bytes, *, start: int = 0) -> Any:
    kind = kind_of(path)
    if kind in LOGS:
        return read_log(path, data, start=start)
    return _side_reader(kind)(data, path)


def read_checked(path: str, data: bytes, *, start: int = 0) -> Any:
    """What the careful reader finds; its error is checked to be a coordinate in this file."""
    try:
        return read(path, data, start=start)
    except FormatError as error:
        assert_coordinate(error, len(data), path)
        return error


def write_again(path: str, data: bytes) -> bytes:
    """Bytes decoded and encoded: those that Kafka would have written."""
    kind = kind_of(path)
    if kind in LOGS:
        return b"".join(batch.encode(limit=LIMIT) for batch in LogFile(data).batches())
    return _ENCODERS[kind](data)


def read_log(path: str, data: bytes, *, start: int = 0) -> list[Any]:
    """From a batch on: who damaged that one need not read those before it."""
    log = LogFile(data, path=path, start=start)
    found: list[Any] = []
    for batch in log.batches():
        batch.ensure_valid()
        found.append(batch.header)
        for record in batch.records(limit=LIMIT):
            found += [record, *_messages(path, batch, record)]
    if log.end.error is not None:
        raise log.end.error
    return found


def _messages(path: str, batch: AnyBatch, record: Record) -> Iterator[Any]:
    """What brokers mean by a record, if it is one of theirs."""
    topic = parse_directory_name(Path(path).parent.name).topic
    where: dict[str, Any] = {"path": path, "strict": True}
    both = where | {"key_position": batch.position, "value_position": batch.position}
    if batch.magic >= 2 and batch.header.is_control:
        yield decode_control_record(record.key, record.value, **both)
    elif topic in COORDINATORS:
        yield decode_coordinator_record(COORDINATORS[topic], record.key, record.value, **both)
    elif topic == "__cluster_metadata" or kind_of(path) in LOGS[1:]:
        yield decode_metadata_record(record.value, position=batch.position, **where)


def _index(data: bytes, path: str, decode: Callable[[bytes], Any]) -> Any:
    """Entries, or the stop that ends them before the file does (zeros behind them are well)."""
    file = decode(data)
    return file.stop if file.trailing else (file.entries.tolist(), file.padding_bytes)


def _clean_shutdown(data: bytes, path: str) -> Any:
    file = decode_clean_shutdown_file(data)
    return file.content if file.broker_epoch is None else file.broker_epoch


def _snapshot(data: bytes, path: str) -> Any:
    file = decode_producer_snapshot(data, path=path)
    return file.entries.tolist(), file.trailing


_SIDE_READERS: dict[FileKind, Callable[[bytes, str], Any]] = {
    FileKind.OFFSET_INDEX: functools.partial(
        _index, decode=lambda data: decode_offset_index(data, 0)
    ),
    FileKind.TIME_INDEX: functools.partial(_index, decode=lambda data: decode_time_index(data, 0)),
    FileKind.TRANSACTION_INDEX: functools.partial(_index, decode=decode_transaction_index),
    FileKind.PRODUCER_SNAPSHOT: _snapshot,
    FileKind.LEADER_EPOCH_CHECKPOINT: lambda data, path: decode_leader_epoch_checkpoint(
        data, path=path
    ),
    FileKind.PARTITION_METADATA: lambda data, path: decode_partition_metadata(data, path=path),
    FileKind.META_PROPERTIES: lambda data, path: decode_meta_properties(data, path=path),
    FileKind.CLEAN_SHUTDOWN: _clean_shutdown,
    FileKind.QUORUM_STATE: lambda data, path: decode_quorum_state(data, path=path),
}


def _side_reader(kind: FileKind) -> Callable[[bytes, str], Any]:
    if kind in CHECKPOINTS:
        return lambda data, path: decode_offset_checkpoint(data, path=path)
    return _SIDE_READERS[kind]


def _meta_again(data: bytes) -> bytes:
    """With the date that is in the second line, as in every file that Java wrote."""
    meta = decode_meta_properties(data)
    second = [line.raw for line in decode_properties(data).lines[1:2]]
    return encode_meta_properties(meta, date=b"".join(second).decode("latin-1")[1:-1])


_ENCODERS: dict[FileKind, Callable[[bytes], bytes]] = {
    **dict.fromkeys(
        CHECKPOINTS, lambda data: encode_offset_checkpoint(decode_offset_checkpoint(data))
    ),
    FileKind.OFFSET_INDEX: lambda data: encode_offset_index(decode_offset_index(data, 0)),
    FileKind.TIME_INDEX: lambda data: encode_time_index(decode_time_index(data, 0)),
    FileKind.TRANSACTION_INDEX: lambda data: encode_transaction_index(
        decode_transaction_index(data)
    ),
    FileKind.PRODUCER_SNAPSHOT: lambda data: encode_producer_snapshot(
        decode_producer_snapshot(data, verify_crc=False)
    ),
    FileKind.LEADER_EPOCH_CHECKPOINT: lambda data: encode_leader_epoch_checkpoint(
        decode_leader_epoch_checkpoint(data)
    ),
    FileKind.PARTITION_METADATA: lambda data: encode_partition_metadata(
        decode_partition_metadata(data)
    ),
    FileKind.META_PROPERTIES: _meta_again,
    FileKind.CLEAN_SHUTDOWN: lambda data: encode_clean_shutdown_file(
        decode_clean_shutdown_file(data)
    ),
    FileKind.QUORUM_STATE: lambda data: encode_quorum_state(decode_quorum_state(data)),
}


# All readers.


def read_in_full(path: str, data: bytes, *, agreement: bool = True) -> Any:
    """The careful reader's value or error, after every other reader had its look."""
    found = read_checked(path, data)
    if kind_of(path) in LOGS:
        _read_log_in_full(path, data, agreement=agreement)
    else:
        value_or_error(len(data), write_again, path, data)
    return found


def _read_log_in_full(path: str, data: bytes, *, agreement: bool) -> None:
    if agreement:
        assert_agreement(data, compiled=True)
        assert_agreement(data, compiled=True, verify=False)
    log = LogFile(data, path=path)
    for batch in log.batches():
        records = value_or_error(len(data), batch.records, limit=LIMIT)
        value_or_error(len(data), batch.encode, limit=LIMIT)
        if not isinstance(records, FormatError):
            for record in records:
                read_messages(record.key, record.value)
    assert log.end is not None
    if log.end.error is not None:
        assert_coordinate(log.end.error, len(data), path)


def read_messages(key: bytes | None, value: bytes | None) -> None:
    """A record by every decoder of records; what one decodes must encode."""
    size = len(key or b"") + len(value or b"")
    for strict in (False, True):
        found = value_or_error(size, decode_control_record, key, value, strict=strict)
        _written(found, encode_control_record, (key, value), strict=strict)
        for topic in CoordinatorTopic:
            found = value_or_error(
                size, decode_coordinator_record, topic, key, value, strict=strict
            )
            _written(found, encode_coordinator_record, (key, value), strict=strict)
            if getattr(found, "name", None) == "GroupMetadata" and hasattr(found.value, "members"):
                group_members(found.value)
        found = value_or_error(size, decode_metadata_record, value, strict=strict)
        _written(found, encode_metadata_record, value, strict=strict)
        found = value_or_error(size, decode_remote_log_metadata, value, strict=strict)
        _written(found, encode_remote_log_metadata, value, strict=strict)


def _written(found: Any, encode: Callable[[Any], Any], expected: Any, *, strict: bool) -> None:
    if isinstance(found, FormatError):
        return
    written = encode(found)
    if strict:
        assert written == expected


# kafka-forensics dump.


def dump_options(output_format: Any, engine: Any = "auto") -> DumpOptions:
    return DumpOptions(
        format=output_format,
        deep=True,
        contents=True,
        auto_decoder=True,
        verify_index=True,
        engine=engine,
    )


def dump_paths(options: DumpOptions, *paths: Path) -> tuple[bool, bytes, str]:
    """(whether something was found to be damaged, stdout, stderr)"""
    stdout, stderr = io.BytesIO(), io.StringIO()
    output = Output(stdout)
    report = Report(output, stderr, json_rows=options.format == "json")
    dump((file for path in paths for file in find_files(path)), options, output, report)
    assert not report.is_unreadable
    return report.is_damaged, stdout.getvalue(), stderr.getvalue()


def is_noticed(found: Any) -> bool:
    return isinstance(found, FormatError | Stop) or found is CleanShutdownContent.UNREADABLE
