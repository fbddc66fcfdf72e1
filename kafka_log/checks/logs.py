"""A log's batches one by one: checksums, records, and how the file ends.

Behind what cannot be a batch the next one is looked for by its checksum, so that damage in the
middle does not hide what follows. Only a file that is torn with no batch behind is torn at its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from kafka_format.batch import Attributes
from kafka_format.columnar.records import RecordScan
from kafka_format.errors import CrcMismatchError
from kafka_log.checks.finding import Finding
from kafka_log.checks.records import judge_of
from kafka_log.resync import BatchSearch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_format.columnar.records import RecordColumns
    from kafka_format.log_file import SegmentEnd
    from kafka_log.checks.finding import About
    from kafka_log.checks.records import Judge

_ENDS = {"corrupt_batch": "LOG002", "truncated_batch": "LOG004", "zeroed_tail": "LOG005"}


def check_log(
    log: BinaryIO, about: About, *, base_offset: int | None = None, verify: bool = True
) -> Iterator[Finding]:
    """Of a `.log` (`base_offset` is its name) or a metadata snapshot, whole; the largest batch is
    all that is in memory.

    Without `verify`, a wrong checksum is no finding.
    """
    judge = judge_of(about.topic)
    search = BatchSearch(log, base_offset=base_offset)
    position: int | None = 0
    while position is not None:
        scan = RecordScan(log, path=about.path, start=position, verify=verify)
        next_offset = suspect = None
        for columns in scan:
            yield from _damaged(columns, about)
            if judge is not None:
                yield from _judged(columns, judge, about)
            if len(columns.batches):
                next_offset = int(columns.batches.last_offset[-1]) + 1
                suspect = _suspect(columns)
        end = scan.end
        if end is None or end.error is None:
            return
        is_zero = end.reason == "zeroed_tail"
        behind = (end.position if suspect is None else suspect) + 1
        position = None if is_zero else search.find(behind)
        if suspect is None or position is None:
            is_last = position is None and search.unread(about.path) is None
            yield _ended(end, about, next_offset, is_last=is_last)
    if (unread := search.unread(about.path)) is not None:
        yield Finding.of_error("LOG002", about, unread)


def _suspect(columns: RecordColumns) -> int | None:
    """Where the last batch begins, if it is damaged: then so may be its length, and what seems to
    be wrong behind it is not.
    """
    last = len(columns.batches) - 1
    is_damaged = any(damage.batch == last for damage in columns.damage)
    return int(columns.batches.position[last]) if is_damaged else None


def _damaged(columns: RecordColumns, about: About) -> Iterator[Finding]:
    if columns.is_continuation:  # the same batch again: told with its first piece
        return
    for damage in columns.damage:
        rule = "LOG001" if isinstance(damage.error, CrcMismatchError) else "LOG003"
        offset = int(columns.batches.base_offset[damage.batch])
        yield Finding.of_error(rule, about, damage.error, offset=offset)


def _judged(columns: RecordColumns, judge: Judge, about: About) -> Iterator[Finding]:
    batches = columns.batches
    is_control = (batches.attributes & Attributes.CONTROL != 0) & (batches.magic >= 2)
    positions = batches.position[columns.batch].tolist()
    controls = np.asarray(is_control)[columns.batch].tolist()
    for row, (position, control) in enumerate(zip(positions, controls, strict=True)):
        complaint = judge(columns.key(row), columns.value(row), control)
        if complaint is not None:
            offset = int(columns.offset[row])
            yield Finding.of(
                complaint.rule, about, *complaint[1:], position=position, offset=offset
            )


def _ended(end: SegmentEnd, about: About, next_offset: int | None, *, is_last: bool) -> Finding:
    """`next_offset`: what the log would go on with, if anything was read before."""
    if end.error is None:
        raise AssertionError("asked for an end in order")
    rule = _ENDS[end.reason] if is_last else "LOG002"
    return Finding.of_error(rule, about, end.error, offset=next_offset)
