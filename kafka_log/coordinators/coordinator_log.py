"""Read the records of a coordinator's log, past damage, without decoding keys or values.

    for record in read_records(files):
        if record.marker is not None: ...    it ends the transaction of its producer

A damaged batch, and bytes that are not a batch, are left out, and their errors are passed to
`on_damage`. A coordinator loads to the log end, not to the high watermark (CoordinatorLoaderImpl).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import numpy as np

from kafka_format.attributes import CONTROL
from kafka_format.columnar.records import RecordScan
from kafka_format.control import ControlRecordType, decode_control_record
from kafka_format.errors import FormatError
from kafka_log.damage.resync import BatchSearch
from kafka_log.damage.walk import BatchWalk, Gap
from kafka_log.disk.files import opened
from kafka_log.names import FileKind, live_base_offsets, segment_file_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy.typing as npt

    from kafka_format.columnar.record_columns import RecordColumns
    from kafka_log.disk.files import File, Files


class LogRecord(NamedTuple):
    """A record of a coordinator's log, or the marker that ends a transaction."""

    offset: int
    producer_id: int
    """-1 if it was not written in a transaction."""
    key: bytes | None
    value: bytes | None
    marker: ControlRecordType | None = None
    timestamp: int = -1


def read_records(
    files: Files,
    *,
    log_start_offset: int = 0,
    on_damage: Callable[[FormatError], None] | None = None,
) -> Iterator[LogRecord]:
    """Yield the records from an offset on, in the order of the log. Raises OSError."""
    for columns in read_columns(files, on_damage=on_damage):
        yield from records_of(columns, log_start_offset=log_start_offset)


def read_columns(
    files: Files, *, on_damage: Callable[[FormatError], None] | None = None
) -> Iterator[RecordColumns]:
    """Yield the records as columns, in pieces that are valid until the next. Raises OSError."""
    for base_offset in live_base_offsets(files.names()):
        with opened(files, str(segment_file_name(base_offset, FileKind.LOG))) as file:
            search = BatchSearch(cast("BinaryIO", file.reader()), base_offset=base_offset)
            for part in BatchWalk(partial(_scan, file), search.resume):
                if not isinstance(part, Gap):
                    if on_damage is not None:
                        for damaged in part.damage:
                            on_damage(damaged.error)
                    yield part
                elif on_damage is not None and not part.is_zeros and not part.is_reported:
                    on_damage(part.error)


def _scan(file: File, start: int) -> RecordScan:
    return RecordScan(cast("BinaryIO", file.reader()), path=file.path, start=start)


def records_of(
    columns: RecordColumns,
    *,
    log_start_offset: int = 0,
    left_out: npt.NDArray[np.bool_] | None = None,
) -> Iterator[LogRecord]:
    """Yield the records of a piece, but for some."""
    if not len(columns):
        return
    batches, data = columns.batches, columns.data.data
    is_control = np.asarray((batches.attributes & CONTROL != 0) & (batches.magic >= 2))
    which = slice(None) if left_out is None else np.flatnonzero(~left_out)
    batch = columns.batch[which]
    rows = zip(
        columns.offset[which].tolist(),
        batches.producer_id[batch].tolist(),
        is_control[batch].tolist(),
        columns.key_position[which].tolist(),
        columns.key_length[which].tolist(),
        columns.value_position[which].tolist(),
        columns.value_length[which].tolist(),
        columns.timestamp[which].tolist(),
        strict=True,
    )
    for offset, producer, control, key_at, key_length, value_at, value_length, timestamp in rows:
        if offset < log_start_offset:
            continue
        key = None if key_length < 0 else bytes(data[key_at : key_at + key_length])
        value = None if value_length < 0 else bytes(data[value_at : value_at + value_length])
        if not control:
            yield LogRecord(offset, producer, key, value, None, timestamp)
        elif (marker := _marker(key, value)) is not None:
            yield LogRecord(offset, producer, key, value, marker, timestamp)


def _marker(key: bytes | None, value: bytes | None) -> ControlRecordType | None:
    try:
        found = decode_control_record(key, value).type
    except FormatError:
        return None
    if found == ControlRecordType.COMMIT:
        return ControlRecordType.COMMIT
    return ControlRecordType.ABORT if found == ControlRecordType.ABORT else None
