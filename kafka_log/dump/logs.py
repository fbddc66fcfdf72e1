"""Dump `.log` and `.checkpoint` files: batches, their records, and how the file ends.

Batches are read as FileLogInputStream reads them. If it throws at a batch whose length is still
plausible, the batch is a finding, and the walk continues after it
(kafka_log.damage.walk.resume_by_length).
"""

from __future__ import annotations

import dataclasses
import sys
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, BinaryIO, cast

from kafka_format.access import access
from kafka_format.batch import HEADER_SIZE, MAGIC, BatchHeader, RecordBatch
from kafka_format.batch_layout import BATCH, LENGTH_END
from kafka_format.errors import CorruptError, Location
from kafka_format.legacy import LegacyBatch
from kafka_format.log_file import LogFile, SegmentEnd
from kafka_log.damage.walk import BatchWalk, Gap, P, Scan, resume_by_length
from kafka_log.dump.options import BytesDecoder, DumpOptions, RecordDecoder
from kafka_log.dump.output import Output, file_fields, json_line
from kafka_log.dump.rows import RowWriter
from kafka_log.names import CLUSTER_METADATA_TOPIC, FileKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka_format.access import EvidenceFile
    from kafka_format.log_file import AnyBatch
    from kafka_log.dump.report import Report
    from kafka_log.inventory.directory import FoundFile

# How long a dump takes row by row, and how long compiled code takes to load: seconds, estimated.
_BATCH_SECONDS = 10e-6
_RECORD_SECONDS = 5e-6
_BYTE_SECONDS = {"text": 3e-9, "json": 10e-9}
_LOAD_SECONDS = 1.2
_SAMPLE = 128 * 1024
_MIN_RECORD_BYTES = 7
_PIECE = 1024 * 1024
_WALKED = 1000

_LENGTH = BATCH.reader("batch_length")
_JAVA_MAX = 2**31 - 1
_TOPIC_DECODERS = {
    "__consumer_offsets": RecordDecoder.OFFSETS,
    "__transaction_state": RecordDecoder.TRANSACTION_LOG,
    "__share_group_state": RecordDecoder.SHARE_GROUP_STATE,
    "__remote_log_metadata": RecordDecoder.REMOTE_LOG_METADATA,
    CLUSTER_METADATA_TOPIC: RecordDecoder.CLUSTER_METADATA,
}
_SNAPSHOTS = (FileKind.METADATA_SNAPSHOT, FileKind.BOOTSTRAP_CHECKPOINT)


def dump_log(
    file: FoundFile,
    log: EvidenceFile,
    options: DumpOptions,
    output: Output,
    report: Report,
    *,
    total_bytes: int = 0,
    on_progress: Callable[[int], None] | None = None,
) -> None:
    """Dump a log. `total_bytes`, the size of all logs, decides whether to use compiled code."""
    heading = _heading(file, report)
    if heading and options.format == "text":
        output.line(heading)
    decoder = options.record_decoder or _automatic_decoder(file, options)
    options = _for_file(options, decoder)
    writer = RowWriter(file, options, report, decoder=decoder)
    source = cast("BinaryIO", log)
    if _uses_columns(source, file, options, decoder, max(total_bytes, file.size)):
        from kafka_log.dump.columns import dump_columns

        end = dump_columns(source, file, options, writer, output, report, on_progress)
    else:
        end = _dump_rows(source, file, options, writer, output, report, on_progress)
    log.ensure_unchanged()  # before its end is reported, which may have moved
    if writer.gaps and not options.filters:
        report.non_consecutive(file, writer.gaps)
    _print_end(file, end, options, output, report)


def _heading(file: FoundFile, report: Report) -> str:
    name = file.name
    if name.kind is FileKind.BOOTSTRAP_CHECKPOINT:
        return "KRaft bootstrap snapshot"
    if name.kind is FileKind.METADATA_SNAPSHOT:
        return f"Snapshot end offset: {name.offset}, epoch: {name.epoch}"
    if name.offset is not None:
        return f"Log starting offset: {name.offset}"
    expected = "a name that begins with an offset"
    report.found(CorruptError(Location(file.path, 0), f"name {str(name)!r}", expected))
    return ""


def _automatic_decoder(file: FoundFile, options: DumpOptions) -> RecordDecoder | None:
    is_requested = options.auto_decoder or (options.format == "json" and options.contents)
    if not is_requested:
        return None
    if file.name.kind in _SNAPSHOTS:
        return RecordDecoder.CLUSTER_METADATA
    return _TOPIC_DECODERS.get(file.topic or "")


def _for_file(options: DumpOptions, decoder: RecordDecoder | None) -> DumpOptions:
    """Complete the options: a decoder implies contents; contents and key filters imply records."""
    contents = options.contents or decoder is not None
    deep = options.deep or contents or bool(options.filters.keys)
    return dataclasses.replace(options, contents=contents, deep=deep)


def _uses_columns(
    log: BinaryIO,
    file: FoundFile,
    options: DumpOptions,
    decoder: RecordDecoder | None,
    total_bytes: int,
) -> bool:
    plain = BytesDecoder.STRING
    if decoder is not None or not options.key_decoder is options.value_decoder is plain:
        return False  # every record needs Python anyway
    if options.is_terminal:
        return False  # the lines are escaped one by one
    if options.engine != "auto":
        return options.engine == "columns"
    limit = _JAVA_MAX if options.max_bytes is None else options.max_bytes
    size = min(file.size, limit)
    if "numba" not in sys.modules:  # otherwise loading it costs nothing
        size = max(size, total_bytes) if limit >= file.size else size
        if _row_seconds(log, size, options) < _LOAD_SECONDS:
            return False
    from kafka_format.columnar.compilation import can_compile, warn_if_slow

    warn_if_slow(size)
    return can_compile()


def _row_seconds(log: BinaryIO, size: int, options: DumpOptions) -> float:
    """Estimate how long the row writer would take, from the first batches."""
    log.seek(0)
    head = log.read(LENGTH_END)
    if len(head) == LENGTH_END and _LENGTH.unpack(head)[0] > access().max_decompressed_bytes:
        return 0  # the batch is not decoded
    seconds, position = 0.0, _SAMPLE
    for batch in LogFile(log, end=size).batches():
        seconds += _BATCH_SECONDS
        position = batch.position + len(batch.raw)
        if options.deep:
            seconds += _RECORD_SECONDS * _records_of(batch)
        if options.contents:
            seconds += _BYTE_SECONDS[options.format] * len(batch.raw)
        if position >= _SAMPLE:
            break
    return seconds * size / position


def _records_of(batch: AnyBatch) -> int:
    """Return the record count of a batch, bounded by its size if it is not compressed."""
    if isinstance(batch, LegacyBatch):
        return 1
    count = max(batch.header.record_count, 0)
    return count if batch.header.codec_id else min(count, len(batch.raw) // _MIN_RECORD_BYTES)


def _dump_rows(
    log: BinaryIO,
    file: FoundFile,
    options: DumpOptions,
    writer: RowWriter,
    output: Output,
    report: Report,
    on_progress: Callable[[int], None] | None,
) -> SegmentEnd:
    walk = walk_log(partial(_RowScan, log, file.path), log, file, options)
    for piece in walk:
        if isinstance(piece, Gap):
            report_gap(piece, report)
            continue
        for batch in piece:
            for part in writer.batch(batch):
                output.text(part)
            if on_progress is not None:
                on_progress(batch.position)
    return end_of(walk)


def walk_log(
    scan_from: Callable[[int, int], Scan[P]], log: BinaryIO, file: FoundFile, options: DumpOptions
) -> BatchWalk[P]:
    """Return the walk of a dump. `scan_from` takes a start, and the end of the bytes to dump."""
    limit = file.size if options.max_bytes is None else min(file.size, options.max_bytes)
    return BatchWalk(lambda start: scan_from(start, limit), resume_by_length(log, limit))


def report_gap(gap: Gap, report: Report) -> None:
    """Report a batch that is skipped; damage that ends the file is reported with its end."""
    if gap.resumes_at is not None:
        report.found(gap.error)


def end_of(walk: BatchWalk[P]) -> SegmentEnd:
    if walk.end is None:
        raise AssertionError("a walk that has run out has an end")
    return walk.end


class _RowScan:
    """Batches in file order, in pieces, up to the first that cannot be read.

    Sound batches of magic 2 are sliced from large reads; LogFile reads everything else. A piece is
    an iterator, which must be exhausted before the next one is requested.
    """

    def __init__(self, log: BinaryIO, path: str, start: int, limit: int) -> None:
        self._log = log
        self._path = path
        self._position = start
        self._limit = limit
        self.end: SegmentEnd | None = None

    def __iter__(self) -> Iterator[Iterator[AnyBatch]]:
        while self.end is None:
            yield self._plain()
            yield self._any()

    def _plain(self) -> Iterator[RecordBatch]:
        position = self._position
        self._log.seek(position)
        data = memoryview(self._log.read(min(_PIECE, self._limit - position)))
        at, left = 0, len(data)
        while left >= HEADER_SIZE:
            header = BatchHeader.unpack(data, at)
            size = header.size_in_bytes
            if header.magic != MAGIC or not HEADER_SIZE <= size <= left:
                break
            yield RecordBatch(header, self._path, position + at, data[at : at + size])
            at += size
            left -= size
        self._position = position + at

    def _any(self) -> Iterator[AnyBatch]:
        log = LogFile(self._log, path=self._path, start=self._position, end=self._limit)
        for batch in islice(log.batches(), _WALKED):
            yield batch
            self._position = batch.position + len(batch.raw)
        self.end = log.end


def _print_end(
    file: FoundFile, end: SegmentEnd, options: DumpOptions, output: Output, report: Report
) -> None:
    limited = options.max_bytes is not None and options.max_bytes < _JAVA_MAX
    size = file.size if options.max_bytes is None else min(file.size, options.max_bytes)
    trailing = size - end.position
    if options.format == "json":
        row = {
            "kind": "end",
            **file_fields(file),
            "position": end.position,
            "reason": end.reason,
            "trailing_bytes": trailing,
        }
        output.text(json_line(row))
    elif trailing > 0 and not limited:
        name = str(file.name)
        output.line(f"Found {trailing} invalid bytes at the end of {name}")
    if end.error is not None and not limited:
        report.found(end.error)
