"""Dump a large log: the kernels turn whole columns into lines.

The row writer dumps what the kernels cannot, batch by batch: legacy messages, control batches, and
everything that is damaged. So both ways give the same lines.
"""

from __future__ import annotations

import os
from itertools import pairwise
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from kafka_format.access import access
from kafka_format.attributes import CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL
from kafka_format.columnar.headers import BatchColumns, BatchScan, kernel_bytes
from kafka_format.columnar.records import RecordScan
from kafka_format.columnar.window import readonly
from kafka_format.log_file import LogFile, SegmentEnd
from kafka_format.record import TimestampType
from kafka_log.damage.walk import Gap
from kafka_log.dump import kernels as k
from kafka_log.dump.lines import STORED_TIMESTAMP, JsonLines, TextLines
from kafka_log.dump.rows import BOOLEANS, COMPRESSION_NAMES, RowWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    import numpy.typing as npt

    from kafka_format.columnar.record_columns import RecordColumns
    from kafka_log.dump.options import DumpOptions, Filters
    from kafka_log.dump.output import Output
    from kafka_log.dump.report import Report
    from kafka_log.dump.template import Template
    from kafka_log.inventory.directory import FoundFile

    Int64s = npt.NDArray[np.int64]
    Bools = npt.NDArray[np.bool_]
    Bytes = npt.NDArray[np.uint8]

_OUT_BYTES = 1024 * 1024
_LARGE = 4 * 1024 * 1024
_THREADS = min(2, os.cpu_count() or 1)
_INT32_MAX = 2**31 - 1
_FLAGS = {
    "is_transactional": TRANSACTIONAL,
    "is_control": CONTROL,
    "has_delete_horizon": DELETE_HORIZON,
}
_TIMESTAMP_TYPES = (
    TimestampType.CREATE_TIME,
    TimestampType.LOG_APPEND_TIME,
    TimestampType.NO_TIMESTAMP_TYPE,
)
_CHOICES = {
    "compression": COMPRESSION_NAMES,
    "timestamp_type": [str(each) for each in _TIMESTAMP_TYPES],
    "is_transactional": BOOLEANS,
    "is_control": BOOLEANS,
    "is_valid": BOOLEANS,
}
_MEMBERS = ('"%s":null', '"%s":"', '"%s_base64":"')
_RECORD_SPANS = [
    *(form % "key" for form in _MEMBERS),
    *(form % "value" for form in _MEMBERS),
    '"value_size":',
]
_RECORD_FIELDS = (
    "key_position",
    "key_size",
    "value_position",
    "value_size",
    "headers_position",
    "headers_count",
)
_RECORD_NAMES = {"key_size": "key_length", "value_size": "value_length"}


class CompiledTemplate:
    """A template in the form that the kernels take."""

    def __init__(
        self,
        template: Template,
        lines: TextLines | JsonLines,
        *,
        first_fields: Iterable[str] = (),
        first_spans: Iterable[str] = (),
    ) -> None:
        self._spans = [text.encode() for text in first_spans]
        self._ops: list[tuple[int, int, int, int, int]] = []
        self.fields = list(first_fields)
        for literal, field in template.parts:
            if literal:
                self._add(k.LITERAL, self._span(literal))
            if field is not None:
                self._add_field(field, lines)
        sizes = np.array([len(span) for span in self._spans], np.int64)
        ends = sizes.cumsum()
        self.spans = np.ascontiguousarray(np.stack([ends - sizes, ends], axis=1))
        self.literals = np.frombuffer(b"".join(self._spans) or b"\0", np.uint8)
        self.ops = np.array(self._ops, np.int64).reshape(-1, 5)
        numbers = k.LONGEST_NUMBER * len(self._ops)
        self.room = sum(map(len, self._spans)) + numbers

    def _add(self, kind: int, a: int = 0, b: int = 0, c: int = 0, d: int = 0) -> None:
        self._ops.append((kind, a, b, c, d))

    def _span(self, *texts: str) -> int:
        """Add texts as spans; return the number of the first."""
        self._spans += [text.encode("utf-8", "surrogateescape") for text in texts]
        return len(self._spans) - len(texts)

    def _column(self, name: str) -> int:
        if name not in self.fields:
            self.fields.append(name)
        return self.fields.index(name)

    def _add_field(self, name: str, lines: TextLines | JsonLines) -> None:
        if name in _CHOICES:
            self._add(k.CHOICE, self._column(name), self._span(*_CHOICES[name]))
        elif name == "delete_horizon_ms":
            before, after = lines.delete_horizon(0).split("0")
            absent, around = self._span(lines.delete_horizon(None)), self._span(before, after)
            value, flag = self._column("base_timestamp"), self._column("has_delete_horizon")
            self._add(k.OPTIONAL, value, flag, absent, around)
        elif name == "stored_timestamp":
            absent, around = self._span(""), self._span(*STORED_TIMESTAMP.split("%d"))
            value, flag = self._column(name), self._column("is_log_append_time")
            self._add(k.OPTIONAL, value, flag, absent, around)
        elif name == "of_batch":
            self._add(k.OF_BATCH)
        elif name == "contents" and isinstance(lines, TextLines):
            first = lines.first_prefix
            texts = (f"{first}key: ", f"{first}payload: ", " payload: ")
            self._add(k.CONTENTS, 0, self._span(*texts))
        elif name in ("key", "value"):
            span = k.KEY_MEMBERS if name == "key" else k.VALUE_MEMBERS
            self._add(k.MEMBER, self._column(f"{name}_position"), span)
        elif name != "headers":
            self._add(k.NUMBER, self._column(name))
        elif isinstance(lines, JsonLines):
            self._add(k.LITERAL, self._span('"headers":['))
            self._add(k.HEADERS, int(lines.has_contents))
            self._add(k.LITERAL, self._span("]"))
        else:
            self._add(k.KEYS)

    def columns(self, column: Callable[[str], Any], count: int) -> Int64s:
        table = np.empty((len(self.fields), count), np.int64)
        for row, name in enumerate(self.fields):
            table[row] = column(name)
        return table


def dump_columns(
    log: BinaryIO,
    file: FoundFile,
    options: DumpOptions,
    writer: RowWriter,
    output: Output,
    report: Report,
    on_progress: Callable[[int], None] | None,
) -> SegmentEnd:
    from kafka_log.dump.logs import end_of, report_gap, walk_log

    dump = _ColumnDump(log, file.path, options, writer, output, report)
    walk = walk_log(dump.scan_from, log, file, options)
    for batches in walk:
        if isinstance(batches, Gap):
            report_gap(batches, report)
        elif on_progress is not None and len(batches):
            on_progress(int(batches.position[-1]))
    return end_of(walk)


class _DumpScan:
    """Dumps the pieces of a scan while it is iterated over, and yields their batches."""

    def __init__(self, scan: BatchScan | RecordScan, dump: Callable[[Any], BatchColumns]) -> None:
        self._scan = scan
        self._dump = dump

    def __iter__(self) -> Iterator[BatchColumns]:
        for piece in self._scan:
            yield self._dump(piece)

    @property
    def end(self) -> SegmentEnd | None:
        return self._scan.end


class _ColumnDump:
    def __init__(
        self,
        log: BinaryIO,
        path: str,
        options: DumpOptions,
        writer: RowWriter,
        output: Output,
        report: Report,
    ) -> None:
        from kafka_format.columnar.compilation import can_compile

        self._log = log
        self._path = path
        self._options = options
        self._filters = options.filters
        self._writer = writer
        self._output = output
        self._report = report
        self._is_compiled = can_compile()
        self._kernels = k.load(compiled=self._is_compiled)
        lines = writer.lines
        self._batch = CompiledTemplate(lines.batch, lines)
        self._legacy_batch = CompiledTemplate(lines.legacy_batch, lines)
        self._of_batch = CompiledTemplate(lines.of_batch, lines)
        self._record = CompiledTemplate(
            lines.record, lines, first_fields=_RECORD_FIELDS, first_spans=_RECORD_SPANS
        )
        self._out = np.empty(_OUT_BYTES, np.uint8)
        self._has_line = False  # whether the line of a batch that continues was written

    def scan_from(self, position: int, end: int) -> _DumpScan:
        if self._options.deep:
            records = RecordScan(
                self._log, path=self._path, start=position, end=end, threads=_THREADS
            )
            return _DumpScan(records, self._dump_records)
        batches = BatchScan(self._log, path=self._path, start=position, end=end)
        return _DumpScan(batches, self._dump_batches)

    # ------------------------------------------------------------------ only batches

    def _dump_batches(self, batches: BatchColumns) -> BatchColumns:
        shown = self._may_pass(batches)
        for batch in np.flatnonzero(~batches.is_valid).tolist():  # whatever its header says
            self._report_invalid(batches, batch)
        legacy = batches.is_legacy
        cuts = [0, *(np.flatnonzero(legacy[1:] != legacy[:-1]) + 1).tolist(), len(batches)]
        for first, last in pairwise(cuts):
            template = self._legacy_batch if legacy[first] else self._batch
            text, _ = self._render_batches(
                template, _chosen(batches[first:last], shown[first:last])
            )
            self._output.write(text.data)
        return batches

    def _render_batches(
        self, template: CompiledTemplate, batches: BatchColumns
    ) -> tuple[Bytes, Int64s]:
        count = len(batches)
        columns = template.columns(lambda name: _batch_column(batches, name), count)
        out = np.empty(template.room * count, np.uint8)
        starts = np.zeros(count + 1, np.int64)
        end = self._kernels.render_batches(
            template.ops, template.literals, template.spans, columns, out, starts
        )
        return out[:end], starts

    def _report_invalid(self, batches: BatchColumns, batch: int) -> None:
        self._writer.report_invalid(self._row(batches, batch))

    def _row(self, batches: BatchColumns, batch: int) -> Any:
        """Return the batch as the row decoder reads it."""
        position = int(batches.position[batch])
        end = position + int(batches.size_in_bytes[batch])
        return next(LogFile(self._log, path=self._path, start=position, end=end).batches())

    def _may_pass(self, batches: BatchColumns) -> Bools:
        """Apply the rule of `RowWriter._may_pass` to all batches at once."""
        filters = self._filters
        shown = np.ones(len(batches), np.bool_)
        if not filters:
            return shown
        legacy = batches.is_legacy
        last = batches.last_offset
        wrapper = legacy & (batches.codec != 0)
        first = np.where(wrapper, filters.start_offset or 0, batches.base_offset)
        if filters.start_offset is not None:
            shown &= last >= filters.start_offset
        if filters.end_offset is not None:
            shown &= np.minimum(first, last) < filters.end_offset
        if filters.start_time is not None:
            shown &= batches.max_timestamp >= filters.start_time
        if filters.end_time is not None and not self._options.deep:
            attributes = batches.attributes
            create_time = ~legacy & ((attributes & LOG_APPEND_TIME) == 0)
            earliest = np.where(create_time, batches.base_timestamp, batches.max_timestamp)
            unknown = wrapper | (create_time & ((attributes & DELETE_HORIZON) != 0))
            shown &= unknown | (earliest < filters.end_time)
        if filters.producer_ids:
            shown &= ~legacy & np.isin(batches.producer_id, list(filters.producer_ids))
        return shown

    # ------------------------------------------------------------------ with their records

    def _dump_records(self, records: RecordColumns) -> BatchColumns:
        batches = records.batches
        by_row = batches.is_legacy | ((batches.attributes & CONTROL) != 0)
        by_row[[damage.batch for damage in records.damage]] = True
        by_row |= batches.size_in_bytes > access().max_decompressed_bytes
        if records.is_continuation and by_row[0]:
            return batches  # all of it was written with its first piece
        edges = np.searchsorted(records.batch, np.arange(len(batches) + 1)).astype(np.int64)
        by_row |= self._has_large_record(records, edges)
        cuts = np.flatnonzero(by_row).tolist()
        first = 0
        for cut in [*cuts, len(batches)]:
            if cut > first:
                self._dump_run(records, first, cut, edges)
            if cut < len(batches):
                for part in self._writer.batch(self._row(batches, cut)):
                    self._output.text(part)
            first = cut + 1
        return batches

    def _has_large_record(self, records: RecordColumns, edges: Int64s) -> Bools:
        """Return which batches have a line that only the row writer can write in parts.

        Not batches of which this piece has only some rows: other rows may have been written here.
        """
        batches = records.batches
        found = np.zeros(len(batches), np.bool_)
        if self._options.contents:
            sizes = np.maximum(records.key_length, records.value_length)
            found[records.batch[sizes > _LARGE]] = True
            found &= np.diff(edges) == batches.record_count
        return found

    def _dump_run(self, records: RecordColumns, first: int, last: int, edges: Int64s) -> None:
        """Dump the batches from `first` up to `last`, all of which the kernels can render."""
        rows = slice(int(edges[first]), int(edges[last]))
        self._count_offsets(records.offset[rows])
        batches = records.batches[first:last]
        shown = np.ones(rows.stop - rows.start, np.bool_)
        row_edges = edges[first : last + 1] - rows.start
        row_starts, row_ends = row_edges[:-1], row_edges[1:]
        if self._filters:
            shown = self._passes(records, rows)
            passed = np.concatenate([[0], np.cumsum(shown)])
            empty = (row_starts == row_ends) & (not self._filters.keys)
            keep = self._may_pass(batches) & (empty | (passed[row_ends] > passed[row_starts]))
            batches, row_starts, row_ends = _chosen(batches, keep), row_starts[keep], row_ends[keep]
        has_line = records.is_continuation and self._has_line
        self._has_line = has_line or len(batches) > 0
        if not len(batches):
            return
        record = self._record
        arguments = (
            record.ops,
            record.literals,
            record.spans,
            record.columns(lambda name: _record_column(records, rows, name), len(shown)),
            kernel_bytes(readonly(records.data), compiled=self._is_compiled),
            row_starts,
            row_ends,
            shown,
            *self._render_batches(self._batch, batches),
            *self._render_batches(self._of_batch, batches),
            record.room,
        )
        self._render_records(arguments, len(batches), 0 if has_line else -1)

    def _render_records(self, arguments: tuple[Any, ...], count: int, row: int) -> None:
        batch = 0
        while batch < count:
            batch, row, size = self._kernels.render_records(*arguments, self._out, batch, row)
            if size:
                self._output.write(self._out[:size].data)
            elif batch < count:  # a line that is larger than the buffer
                self._out = np.empty(2 * len(self._out), np.uint8)

    def _count_offsets(self, offsets: Int64s) -> None:
        if not len(offsets) or self._filters:
            return
        writer = self._writer
        previous = np.concatenate([[writer.last_offset], offsets[:-1]])
        gaps = np.flatnonzero(offsets != previous + 1)
        writer.gaps.extend(previous[gaps], offsets[gaps])
        writer.last_offset = int(offsets[-1])

    def _passes(self, records: RecordColumns, rows: slice) -> Bools:
        filters: Filters = self._filters
        offset, timestamp = records.offset[rows], records.timestamp[rows]
        shown = np.ones(len(offset), np.bool_)
        if filters.start_offset is not None:
            shown &= offset >= filters.start_offset
        if filters.end_offset is not None:
            shown &= offset < filters.end_offset
        if filters.start_time is not None:
            shown &= timestamp >= filters.start_time
        if filters.end_time is not None:
            shown &= timestamp < filters.end_time
        if filters.keys:
            shown &= self._has_key(records, rows)
        return shown

    def _has_key(self, records: RecordColumns, rows: slice) -> Bools:
        position, size = records.key_position[rows], records.key_length[rows]
        found = np.zeros(len(size), np.bool_)
        for key in self._filters.keys:
            likely = np.flatnonzero(size == len(key))
            bytes_of = records.data[position[likely, None] + np.arange(len(key))]
            found[likely] |= (bytes_of == np.frombuffer(key, np.uint8)).all(axis=1)
        return found


def _batch_column(batches: BatchColumns, name: str) -> Any:
    """Return a column by its name in templates; most have the same name in the table."""
    attributes = batches.attributes
    if name == "compression":
        return batches.codec
    if name == "timestamp_type":
        return np.where(batches.magic == 0, 2, (attributes & LOG_APPEND_TIME) != 0)
    if name == "last_sequence":
        return _last_sequence(batches)
    if name in _FLAGS:  # no field of legacy messages
        return (attributes & _FLAGS[name]) != 0
    return getattr(batches, name)


def _last_sequence(batches: BatchColumns) -> Int64s:
    """Compute BatchHeader.last_sequence, with the arithmetic of Java's int."""
    sequence, delta = batches.base_sequence, batches.last_offset_delta
    wraps = sequence > _int32(_INT32_MAX - delta)
    following = np.where(wraps, delta - (_INT32_MAX - sequence) - 1, sequence + delta)
    return np.where(sequence == -1, -1, _int32(following))


def _int32(values: Int64s) -> Int64s:
    return values.astype(np.int32).astype(np.int64)


def _record_column(records: RecordColumns, rows: slice, name: str) -> Any:
    if name in ("timestamp_type", "is_log_append_time"):
        of_batches = (records.batches.attributes & LOG_APPEND_TIME) != 0
        return of_batches[records.batch[rows]] if of_batches.any() else False
    return getattr(records, _RECORD_NAMES.get(name, name))[rows]


def _chosen(batches: BatchColumns, mask: Bools) -> BatchColumns:
    if mask.all():
        return batches
    crc = batches.computed_crc
    return BatchColumns(
        batches.table[:, mask],
        path=batches.path,
        computed_crc=None if crc is None else crc[mask],
    )
