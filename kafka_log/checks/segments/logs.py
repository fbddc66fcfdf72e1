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
from kafka_format.columnar.headers import HeaderWalk
from kafka_format.columnar.records import RecordScan
from kafka_format.errors import Location, OverLimitError
from kafka_log.checks.facts import Depth
from kafka_log.checks.finding import Finding
from kafka_log.checks.segments.batch_headers import HeaderCheck
from kafka_log.checks.segments.control_batches import ControlCheck
from kafka_log.checks.segments.log_pieces import LogPieces
from kafka_log.checks.segments.offsets_in_log import (
    MaxTimestamps,
    OffsetRange,
    RecordOffsets,
    SnapshotOffsets,
)
from kafka_log.checks.segments.records import record_check
from kafka_log.damage.findings import NOT_A_BATCH, OVER_LIMIT, batch_finding_id, gap_finding_id
from kafka_log.damage.resync import BatchSearch
from kafka_log.damage.walk import BatchWalk, Gap

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from kafka_format.columnar.headers import BatchColumns
    from kafka_format.columnar.record_columns import RecordColumns
    from kafka_log.checks.finding import About
    from kafka_log.checks.segments.log_pieces import PieceCheck
    from kafka_log.checks.segments.records import RecordCheck


def check_log(
    log: BinaryIO,
    about: About,
    *,
    base_offset: int | None = None,
    next_base: int | None = None,
    verify: bool = True,
    depth: Depth = Depth.FULL,
    more: Sequence[PieceCheck] = (),
) -> Iterator[Finding]:
    """Check a whole `.log` file. At most one batch is in memory.

    A log has a `base_offset` (its name), and perhaps a `next_base`, that of the next segment.
    Without `verify`, a wrong checksum is not a finding. `more` checks see the same pieces.
    """
    check_record = record_check(about.topic)
    pieces = LogPieces(base_offset)
    search = BatchSearch(log, base_offset=base_offset)
    checks = (*_piece_checks(about, base_offset, next_base), *more)

    def scan_from(start: int) -> RecordScan | HeaderWalk:
        if depth is Depth.HEADERS:
            return HeaderWalk(log, path=about.path, start=start)
        return RecordScan(log, path=about.path, start=start, verify=verify)

    next_offset: int | None = None
    walk: BatchWalk[RecordColumns | BatchColumns] = BatchWalk(scan_from, search.resume)
    for part in walk:
        if isinstance(part, Gap):
            if not part.is_reported:
                is_at_end = part.resumes_at is None and not search.has_given_up
                finding_id = gap_finding_id(part, is_at_end=is_at_end)
                yield Finding.of_error(finding_id, about, part.error, offset=next_offset)
            next_offset = None
            continue
        piece = pieces.piece(part)
        if piece.records is not None:
            yield from _damage_findings(piece.records, about)
            yield from _size_findings(piece.records, about)
        for check in checks:
            yield from check.findings(piece)
        if check_record is not None and piece.records is not None:
            yield from _record_findings(piece.records, check_record, about)
        if len(piece.batches):
            next_offset = int(piece.batches.last_offset[-1]) + 1
    if (unread := search.unread(about.path)) is not None:
        yield Finding.of_error(NOT_A_BATCH, about, unread)


def check_snapshot(log: BinaryIO, about: About) -> Iterator[Finding]:
    """Check a metadata snapshot: batches like those of a log, with offsets from 0."""
    yield from check_log(log, about, more=(SnapshotOffsets(about),))


def _piece_checks(
    about: About, base_offset: int | None, next_base: int | None
) -> Iterator[PieceCheck]:
    """Yield the checks of a log; one that is not a segment may have any offsets."""
    yield ControlCheck(about)
    if base_offset is not None:
        yield OffsetRange(about, base_offset, next_base)
    yield HeaderCheck(about)
    yield RecordOffsets(about, is_segment=base_offset is not None)
    yield MaxTimestamps(about)


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
