"""The four offset checkpoints of a log directory, as text.

    recovery-point-offset-checkpoint   log-start-offset-checkpoint
    cleaner-offset-checkpoint          replication-offset-checkpoint (high watermarks)

    file  = [ version LF [ count LF row* ] ]
    row   = topic SP partition SP offset LF

The version is 0. A broker creates the file empty and fills it some time later, so an empty file,
or one that ends after the version, means "no rows". Rows are in the order of a hash map.

Mirrors org.apache.kafka.server.common.CheckpointFile and OffsetCheckpointFile: accepts what they
accept, including CR LF, a missing last LF, tabs and a `+` (see java_text), and raises where they
throw. `encode_x(decode_x(data)) == data` holds if the bytes are as Kafka writes them.
"""

import os
import re
from collections.abc import Callable, Iterable
from enum import Enum
from typing import NamedTuple, TypeVar

from kafka_format import java_text
from kafka_format.errors import MEMORY, CorruptError, Location, TruncatedError, UnsupportedError
from kafka_format.file_bytes import read_file_bytes
from kafka_format.java_text import Line, excerpt
from kafka_format.primitives import Buffer

VERSION = 0
MAX_SIZE = 64 * 1024 * 1024
"""Room for 230 000 partitions with the longest topic names; a broker has some thousands."""
MAX_ROWS = 1_000_000
"""Ten times the partitions of the largest known clusters; for leader epochs, an election every
minute for two years. A file with more rows is rejected before any row is decoded."""

_WHITESPACE = re.compile(r"\s+", re.ASCII)
_Row = TypeVar("_Row")


class CheckpointHead(Enum):
    """How much of its two head lines a checkpoint has."""

    EMPTY_FILE = "empty file"
    VERSION_ONLY = "version only"
    COMPLETE = "version and count"


class OffsetCheckpointEntry(NamedTuple):
    topic: str
    partition: int
    offset: int


class OffsetCheckpoint(NamedTuple):
    """Rows in the order of the file."""

    entries: tuple[OffsetCheckpointEntry, ...] = ()
    head: CheckpointHead = CheckpointHead.COMPLETE

    def offsets(self) -> dict[tuple[str, int], int]:
        """Return offsets by topic and partition. Like Kafka, use the last row of a partition."""
        return {(entry.topic, entry.partition): entry.offset for entry in self.entries}


def decode_offset_checkpoint(buffer: Buffer, *, path: str = MEMORY) -> OffsetCheckpoint:
    return OffsetCheckpoint(*decode_checkpoint(buffer, _row, "topic partition offset", path=path))


def _row(parts: list[str]) -> OffsetCheckpointEntry | None:
    if len(parts) != 3:
        return None
    partition, offset = java_text.parse_int(parts[1]), java_text.parse_long(parts[2])
    if partition is None or offset is None:
        return None
    return OffsetCheckpointEntry(parts[0], partition, offset)


def encode_offset_checkpoint(checkpoint: OffsetCheckpoint) -> bytes:
    rows = (f"{entry.topic} {entry.partition} {entry.offset}" for entry in checkpoint.entries)
    return encode_checkpoint(rows, checkpoint.head)


def read_offset_checkpoint(path: str | os.PathLike[str]) -> OffsetCheckpoint:
    """Read one of the four offset checkpoints of a log dir. Raises FormatError."""
    data = read_file_bytes(path, limit=MAX_SIZE)
    return decode_offset_checkpoint(data, path=os.fspath(path))


def decode_checkpoint(
    buffer: Buffer,
    decode_row: Callable[[list[str]], _Row | None],
    row_grammar: str,
    *,
    path: str = MEMORY,
) -> tuple[tuple[_Row, ...], CheckpointHead]:
    """Decode any checkpoint. `decode_row` gets the words of a row and returns None to reject it."""
    min_lines = max(map(bytes(buffer).count, (b"\n", b"\r")))  # lines, if all end in CR LF
    if min_lines > MAX_ROWS + 2:
        raise CorruptError(Location(path, 0), f"{min_lines} lines", f"at most {MAX_ROWS} rows")
    lines = java_text.iter_lines(buffer, path=path)
    version_line, count_line = next(lines, None), next(lines, None)
    if version_line is None:
        return (), CheckpointHead.EMPTY_FILE
    if (version := _integer(version_line, "a version", path)) != VERSION:
        location = Location(path, version_line.position)
        raise UnsupportedError(location, f"version {version}", f"version {VERSION}")
    if count_line is None:
        return (), CheckpointHead.VERSION_ONLY
    count = _integer(count_line, "a count of rows", path)
    rows = []
    for line in lines:
        row = decode_row(java_text.split(_WHITESPACE, line.text))
        if row is None:
            raise CorruptError(Location(path, line.position), excerpt(line.text), row_grammar)
        rows.append(row)
        if len(rows) > MAX_ROWS:
            raise CorruptError(
                Location(path, line.position), "a further row", f"at most {MAX_ROWS} rows"
            )
    if len(rows) != count:
        error = TruncatedError if len(rows) < count else CorruptError
        location = Location(path, count_line.position)
        raise error(location, f"a count of {count}", f"{len(rows)}, the rows that follow")
    return tuple(rows), CheckpointHead.COMPLETE


def _integer(line: Line, what: str, path: str) -> int:
    value = java_text.parse_int(line.text)
    if value is None:
        raise CorruptError(Location(path, line.position), excerpt(line.text), what)
    return value


def encode_checkpoint(rows: Iterable[str], head: CheckpointHead) -> bytes:
    lines = list(rows)
    if head is CheckpointHead.COMPLETE:
        lines[:0] = [str(VERSION), str(len(lines))]
    elif lines:
        raise ValueError(f"a checkpoint with {len(lines)} rows has a complete head, not {head}")
    elif head is CheckpointHead.VERSION_ONLY:
        lines = [str(VERSION)]
    return "".join(f"{line}\n" for line in lines).encode()
