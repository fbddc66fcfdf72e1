"""Print what kafka-dump-log prints for every kind of file, as text or as JSON.

columns        dump large logs from columns, with kernels
decoders       the decoders of kafka-dump-log for internal topics
file_pieces    read a large side file in pieces
gaps           pairs of offsets that are not consecutive
index_slots    the slots of an index, in pieces
indexes        `.index` and `.timeindex`, checked against the log
kernels        fill templates from columns, compiled
lines          the lines of a log, as text and as JSON
logs           `.log` and `.checkpoint` files
options        options and filters of a dump
output         write lines to a stream in large pieces
report         report findings while a dump runs, and a summary
rows           dump small logs and rare cases, batch by batch
side_files     dump the other files, one entry per line
template       a line with placeholders
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_format.access import ChangedError, ensure_regular, open_evidence
from kafka_format.errors import FormatError
from kafka_format.file_kinds import (
    BATCH_FILE_KINDS,
    OFFSET_INDEX_KINDS,
    SEGMENT_KINDS,
    TIME_INDEX_KINDS,
)
from kafka_log.dump.options import BytesDecoder, DumpOptions, Filters, RecordDecoder
from kafka_log.dump.output import Output, file_fields, json_line
from kafka_log.dump.report import Report
from kafka_log.inventory.file_limits import largest_size
from kafka_log.names import FileKind, FileName, FileState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafka_format.access import EvidenceFile
    from kafka_log.inventory.directory import FoundFile

__all__ = [
    "BytesDecoder",
    "DumpOptions",
    "Filters",
    "Output",
    "RecordDecoder",
    "Report",
    "dump",
    "dump_file",
    "is_kafka_file",
]

_BY_ENDING = {kind.value: kind for kind in (*SEGMENT_KINDS, FileKind.PRODUCER_SNAPSHOT)}
_SLASHES = re.compile("/+")


def dump(
    files: Iterable[FoundFile],
    options: DumpOptions,
    output: Output,
    report: Report,
    *,
    on_progress: Callable[[int], None] | None = None,
) -> None:
    """Dump all files, then print the reports. `on_progress` gets the bytes processed so far."""
    finished_bytes = 0
    files = list(files)
    total_bytes = sum(file.size for file in files if file.name.kind in BATCH_FILE_KINDS)

    def add_finished(position: int) -> None:
        if on_progress is not None:
            on_progress(finished_bytes + position)

    for file in files:
        try:
            dump_file(
                file, options, output, report, total_bytes=total_bytes, on_progress=add_finished
            )
        except FormatError as error:
            report.found(error)
        except MemoryError:
            report.unreadable(file.path, "not enough memory")
        except ChangedError as error:
            report.changed(error.filename, error.how)
        except FileNotFoundError as error:  # it was there when its directory was listed
            report.changed(error.filename or file.path, "it vanished")
        except OSError as error:
            if output.failure is not None or isinstance(error, InterruptedError):
                raise
            report.unreadable(error.filename or file.path, error.strerror or str(error))
        finished_bytes += file.size
    output.flush()
    report.summarize()


def dump_file(
    file: FoundFile,
    options: DumpOptions,
    output: Output,
    report: Report,
    *,
    total_bytes: int = 0,
    on_progress: Callable[[int], None] | None = None,
) -> None:
    """Dump one file. `total_bytes` is the size of all logs of this dump."""
    file = file._replace(path=_java_path(file.path), name=_name_of(file))
    kind = file.name.kind
    report.begin(file)
    if kind is FileKind.UNKNOWN:
        _announce(file, options, output)
        report.ignored(file.path)
        return
    limit = largest_size(kind)
    status = Path(file.path).stat()
    ensure_regular(file.path, status, limit=limit)
    file = file._replace(size=status.st_size)
    _announce(file, options, output)
    with open_evidence(file.path, limit=limit) as opened:
        file = file._replace(size=opened.size)
        if kind is FileKind.LOCK:  # it is empty
            return
        _dump_opened(file, opened, options, output, report, total_bytes, on_progress)


def _dump_opened(
    file: FoundFile,
    opened: EvidenceFile,
    options: DumpOptions,
    output: Output,
    report: Report,
    total_bytes: int,
    on_progress: Callable[[int], None] | None,
) -> None:
    kind = file.name.kind
    if kind in BATCH_FILE_KINDS:
        from kafka_log.dump.logs import dump_log

        dump_log(
            file, opened, options, output, report, total_bytes=total_bytes, on_progress=on_progress
        )
    elif kind in OFFSET_INDEX_KINDS or kind in TIME_INDEX_KINDS:
        from kafka_log.dump import indexes

        dump_index = (
            indexes.dump_offset_index if kind in OFFSET_INDEX_KINDS else indexes.dump_time_index
        )
        dump_index(file, opened, options, output, report)
    else:
        from kafka_log.dump.side_files import dump_side_file

        dump_side_file(file, opened, options, output, report)


def _announce(file: FoundFile, options: DumpOptions, output: Output) -> None:
    if options.format == "text":
        output.line(f"Dumping {file.path}")
        return
    row = {
        "kind": "file",
        **file_fields(file),
        "file_kind": file.name.kind.name.lower(),
        "state": file.name.state.name.lower(),
        "offset": file.name.offset,
        "size_in_bytes": file.size,
    }
    output.text(json_line(row))


def is_kafka_file(file: FoundFile) -> bool:
    """Return whether the name is that of a Kafka file."""
    return _name_of(file).kind is not FileKind.UNKNOWN


def _name_of(file: FoundFile) -> FileName:
    """Return the parsed name; a renamed file is recognised by its suffix."""
    if file.name.kind is not FileKind.UNKNOWN:
        return file.name
    path = Path(file.name.stem)
    kind = _BY_ENDING.get(path.suffix)
    return file.name if kind is None else FileName(kind, path.stem, FileState.LIVE)


def _java_path(path: str) -> str:
    """Normalise a path as java.io.File does."""
    return _SLASHES.sub("/", path).rstrip("/") or "/"
