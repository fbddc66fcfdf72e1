"""Check the batches of a log: checksums, records, and the end of the file.

After bytes that cannot be a batch, the next batch is found by its checksum (kafka_log.damage), so
that damage in the middle does not hide what follows. A file is torn at its end only if no batch
follows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from kafka_format.access import access
from kafka_format.attributes import CONTROL
from kafka_format.columnar.records import RecordScan
from kafka_format.control import decode_control_record
from kafka_format.errors import FormatError, Location, OverLimitError
from kafka_log.checks.finding import Finding
from kafka_log.checks.records import record_check
from kafka_log.damage.findings import (
    NOT_A_BATCH,
    NOT_DECODABLE,
    OUT_OF_PLACE,
    OVER_LIMIT,
    batch_finding_id,
    gap_finding_id,
)
from kafka_log.damage.resync import BatchSearch
from kafka_log.damage.walk import BatchWalk, Gap

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kafka_format.columnar.headers import BatchColumns
    from kafka_format.columnar.record_columns import RecordColumns
    from kafka_log.checks.finding import About
    from kafka_log.checks.records import RecordCheck

_MOST_OFFSETS = 2**31 - 1
"""An index stores offsets relative to its segment's base offset, in 31 bits."""


def check_log(
    log: BinaryIO,
    about: About,
    *,
    base_offset: int | None = None,
    next_base: int | None = None,
    verify: bool = True,
) -> Iterator[Finding]:
    """Check a whole `.log` file or metadata snapshot. At most one batch is in memory.

    A log has a `base_offset` (its name), and perhaps a `next_base`, that of the next segment.
    Without `verify`, a wrong checksum is not a finding.
    """
    check_record = record_check(about.topic)
    offset_range = None if base_offset is None else _OffsetRange(base_offset, next_base)
    search = BatchSearch(log, base_offset=base_offset)

    def scan_from(start: int) -> RecordScan:
        return RecordScan(log, path=about.path, start=start, verify=verify)

    next_offset: int | None = None
    for part in BatchWalk(scan_from, search.resume):
        if isinstance(part, Gap):
            if not part.is_reported:
                is_at_end = part.resumes_at is None and not search.has_given_up
                finding_id = gap_finding_id(part, is_at_end=is_at_end)
                yield Finding.of_error(finding_id, about, part.error, offset=next_offset)
            next_offset = None
            continue
        yield from _damage_findings(part, about)
        yield from _size_findings(part, about)
        yield from _control_findings(part, about)
        if offset_range is not None:
            yield from offset_range.findings(part, about)
        if check_record is not None:
            yield from _record_findings(part, check_record, about)
        if len(part.batches):
            next_offset = int(part.batches.last_offset[-1]) + 1
    if (unread := search.unread(about.path)) is not None:
        yield Finding.of_error(NOT_A_BATCH, about, unread)


def _damage_findings(columns: RecordColumns, about: About) -> Iterator[Finding]:
    if columns.is_continuation:  # the same batch again: reported with its first piece
        return
    for damage in columns.damage:
        finding_id = batch_finding_id(damage.error)
        offset = int(columns.batches.base_offset[damage.batch])
        yield Finding.of_error(finding_id, about, damage.error, offset=offset)


def row_sizes(columns: RecordColumns) -> npt.NDArray[np.int64]:
    """Return the size of each record: key, value and headers."""
    sizes = np.maximum(columns.key_length, 0).astype(np.int64)
    sizes += np.maximum(columns.value_length, 0)
    if columns.headers_count.any():
        headers = columns.headers()
        lengths = np.maximum(headers.key_length, 0).astype(np.int64)
        lengths += np.maximum(headers.value_length, 0)
        np.add.at(sizes, headers.record, lengths)
    return sizes


def over_limit(columns: RecordColumns, limit: int) -> npt.NDArray[np.intp]:
    """Return the records larger than the limit, in batches that are themselves larger.

    Records of smaller compressed batches were already limited when they were decompressed.
    """
    if not len(columns) or not (columns.batches.size_in_bytes > limit).any():
        return np.empty(0, np.intp)
    return np.flatnonzero(row_sizes(columns) > limit)


def over_limit_error(columns: RecordColumns, row: int, path: str) -> OverLimitError:
    """Return the error for a record that is larger than the limit."""
    limit = access().max_decompressed_bytes
    position = int(columns.batches.position[columns.batch[row]])
    size, offset = int(row_sizes(columns)[row]), int(columns.offset[row])
    return OverLimitError(
        Location(path, position),
        f"a record of {size} bytes at offset {offset}, not decoded",
        f"at most {limit} bytes (--max-decompressed-bytes)",
    )


def _size_findings(columns: RecordColumns, about: About) -> Iterator[Finding]:
    for row in over_limit(columns, access().max_decompressed_bytes).tolist():
        error = over_limit_error(columns, row, about.path)
        yield Finding.of_error(OVER_LIMIT, about, error, offset=int(columns.offset[row]))


def _control_findings(columns: RecordColumns, about: About) -> Iterator[Finding]:
    """Yield control records that a broker cannot decode. It skips those of an unknown type."""
    batches = columns.batches
    is_control = (batches.attributes & CONTROL != 0) & (batches.magic >= 2)
    if not is_control.any():
        return
    for row in np.flatnonzero(is_control[columns.batch]).tolist():
        try:
            decode_control_record(columns.key(row), columns.value(row))
        except FormatError as error:
            position = int(batches.position[columns.batch[row]])
            offset = int(columns.offset[row])
            found = f"a control record of {error.found}"
            yield Finding.of(
                NOT_DECODABLE, about, found, error.expected, position=position, offset=offset
            )


class _OffsetRange:
    """The offsets that a segment's batches must have: in its range, and in order."""

    def __init__(self, base_offset: int, next_base: int | None) -> None:
        self._base = base_offset
        self._end = base_offset + _MOST_OFFSETS + 1 if next_base is None else next_base
        self._last = base_offset - 1
        """The last offset of the batch before."""

    def findings(self, columns: RecordColumns, about: About) -> Iterator[Finding]:
        """Yield batches out of place. Those with a wrong checksum are already reported."""
        batches = columns.batches
        if not len(batches) or columns.is_continuation:
            return
        # A legacy wrapper stores only its last offset.
        first = np.where(batches.is_legacy, batches.last_offset, batches.base_offset)
        last = batches.last_offset
        valid = np.ones(len(batches), np.bool_)
        valid[
            [batch for batch, error in columns.damage if not isinstance(error, OverLimitError)]
        ] = False
        follows = first[0] > self._last and bool((first[1:] > last[:-1]).all())
        if valid.all() and follows and (last >= first).all() and last[-1] < self._end:
            self._last = int(last[-1])
            return
        for batch in np.flatnonzero(valid).tolist():
            yield from self._check(batches, batch, int(first[batch]), int(last[batch]), about)

    def _check(
        self, batches: BatchColumns, batch: int, first: int, last: int, about: About
    ) -> Iterator[Finding]:
        expected = None
        if first < self._base:
            expected = f"offset {self._base} or more, the base offset of its segment"
        elif last < first:
            expected = "a last offset that is not below its first"
        elif last >= self._end:
            expected = f"offsets below {self._end}, where the next segment begins or an index ends"
        elif first <= self._last:
            expected = f"offset {self._last + 1} or more, after the previous batch"
        if expected is not None:
            found = f"a batch at offset {first}" + (f" to {last}" if last != first else "")
            position = int(batches.position[batch])
            yield Finding.of(OUT_OF_PLACE, about, found, expected, position=position, offset=first)
        if self._base <= first <= last < self._end:
            self._last = max(self._last, last)


def _record_findings(columns: RecordColumns, check: RecordCheck, about: About) -> Iterator[Finding]:
    batches = columns.batches
    is_control = (batches.attributes & CONTROL != 0) & (batches.magic >= 2)
    positions = batches.position[columns.batch].tolist()
    controls = np.asarray(is_control)[columns.batch].tolist()
    for row, (position, control) in enumerate(zip(positions, controls, strict=True)):
        complaint = check(columns.key(row), columns.value(row), control)
        if complaint is not None:
            offset = int(columns.offset[row])
            yield Finding.of(
                complaint.rule, about, *complaint[1:], position=position, offset=offset
            )
