"""Find the first record of a batch with a given timestamp: the last step of a lookup by time.

    first_match(records, at_or_after(timestamp, offset))     in columns
    search_batch(raw, exactly_at(timestamp), ...)            in the bytes of a batch, as Kafka does

Kafka may find the record before it reaches damage in the same batch: it decodes uncompressed
records one by one, and also compressed ones where it streams them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kafka_format.batch import RecordBatch
from kafka_format.columnar.records import RecordScan
from kafka_format.errors import FormatError
from kafka_format.log_file import LogFile
from kafka_format.record import TimestampType, iter_record_slices

if TYPE_CHECKING:
    from kafka_format.columnar.record_columns import RecordColumns

Matches = Callable[[Any, Any], Any]
"""Tests timestamps and offsets, of columns or of one record."""

# Loading numba takes as long as decoding this many bytes of records without it.
_NUMBA_FROM_BYTES = 256 * 1024


class Match(NamedTuple):
    timestamp: int
    offset: int


def at_or_after(timestamp: int, first_offset: int) -> Matches:
    """Match records with at least this timestamp and at least this offset."""
    return lambda timestamps, offsets: (timestamps >= timestamp) & (offsets >= first_offset)


def exactly_at(timestamp: int) -> Matches:
    return lambda timestamps, _: timestamps == timestamp


def first_match(records: RecordColumns, matches: Matches) -> Match | None:
    fits = matches(records.timestamp, records.offset)
    if not fits.any():
        return None
    row = int(np.argmax(fits))
    return Match(int(records.timestamp[row]), int(records.offset[row]))


def search_batch(raw: bytes, matches: Matches, *, streams: bool) -> Match | None:
    """Search the records of one batch. Raises the FormatError that Kafka would find first.

    `streams`: compressed records are decoded one by one as well (RecordBatch.streamingIterator).
    """
    uses_numba = "numba" in sys.modules or len(raw) >= _NUMBA_FROM_BYTES
    scan = RecordScan(raw, verify=False, compiled=None if uses_numba else False)
    for records in scan:
        found = first_match(records, matches)
        if found is None and records.damage:
            found = _search_before_damage(raw, matches, streams=streams)
            if found is None:
                raise records.damage[0].error
        if found is not None:
            return found
    if scan.end is not None and scan.end.error is not None:
        raise scan.end.error
    return None


def _search_before_damage(raw: bytes, matches: Matches, *, streams: bool) -> Match | None:
    batch = next(LogFile(raw).batches(), None)
    if not isinstance(batch, RecordBatch) or (batch.header.codec_id and not streams):
        return None
    header = batch.header
    is_append_time = header.timestamp_type is TimestampType.LOG_APPEND_TIME
    with contextlib.suppress(FormatError):
        for (record,) in iter_record_slices(
            batch.decompressed_payload(),
            header.record_count,
            base_offset=header.base_offset,
            base_timestamp=header.base_timestamp,
            log_append_time=header.max_timestamp if is_append_time else None,
            size=1,
        ):
            if matches(record.timestamp, record.offset):
                return Match(record.timestamp, record.offset)
    return None
