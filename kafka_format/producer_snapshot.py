"""`.snapshot`: a broker's state of each idempotent producer, up to the offset in the name.

    file   = version i16 (1), crc u32, count i32, entry * count
    entry  = producer_id i64, producer_epoch i16, last_sequence i32, last_offset i64,
             offset_delta i32, timestamp i64, coordinator_epoch i32, current_txn_first_offset i64

`crc` is the CRC-32C of everything after it, to the end of the file. The entries are in the order of
a java.util.HashMap, which has no meaning. A producer that wrote only markers has last_sequence and
last_offset -1 and offset_delta 0; without an open transaction current_txn_first_offset is -1.

Mirrors ProducerStateManager.readSnapshot, which deletes the file where this module raises. Brokers
ignore bytes after the last entry, but the checksum covers them; they are kept as `trailing`.
"""

import io
import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kafka_format.access import open_evidence
from kafka_format.checksum import crc32c
from kafka_format.errors import (
    MEMORY,
    CorruptError,
    CrcMismatchError,
    Location,
    TruncatedError,
    UnsupportedError,
)
from kafka_format.file_bytes import JAVA_MAX, read_file_bytes
from kafka_format.primitives import Buffer

VERSION = 1
_HEADER = struct.Struct(
    ">h"  # version: 1
    "I"  # crc: CRC-32C of all that follows
    "i"  # count: of entries
)
HEADER_SIZE = _HEADER.size
_CRC_POSITION = 2
_COUNT_POSITION = 6
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(
    ">q"  # producer_id
    "h"  # producer_epoch
    "i"  # last_sequence: of the last batch
    "q"  # last_offset: of the last batch
    "i"  # offset_delta: last minus first offset of the last batch
    "q"  # timestamp: of the last batch, or of a later marker
    "i"  # coordinator_epoch: of the last marker; -1 before the first
    "q"  # current_txn_first_offset: -1 if no transaction is open
)
ENTRY_SIZE = _ENTRY.size
_PIECE_ENTRIES = 16 * 1024
DTYPE = np.dtype(
    [
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("last_sequence", ">i4"),
        ("last_offset", ">i8"),
        ("offset_delta", ">i4"),
        ("timestamp", ">i8"),
        ("coordinator_epoch", ">i4"),
        ("current_txn_first_offset", ">i8"),
    ]
)


class ProducerSnapshotEntry(NamedTuple):
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class ProducerSnapshotFile:
    entries: NDArray[np.void]
    """An array of DTYPE, in the order of the file: a view of the decoded bytes, not a copy."""
    trailing: bytes = b""
    crc: int | None = None
    """As stored; None lets the encoder compute it."""

    @classmethod
    def of(cls, entries: Iterable[ProducerSnapshotEntry]) -> Self:
        return cls(np.array(list(entries), DTYPE))

    def __repr__(self) -> str:
        crc = "to be computed" if self.crc is None else f"{self.crc:#010x}"
        return (
            f"ProducerSnapshotFile({len(self.entries)} entries, {len(self.trailing)} bytes "
            f"trailing, crc {crc})"
        )


def decode_producer_snapshot(
    buffer: Buffer, *, verify_crc: bool = True, path: str = MEMORY
) -> ProducerSnapshotFile:
    """Decode a snapshot. `verify_crc=False` reads one that a broker would delete as damaged."""
    stored_crc, count = _decode_header(buffer, len(buffer), path)
    if verify_crc:
        _require_crc(stored_crc, crc32c(memoryview(buffer)[_COUNT_POSITION:]), path)
    entries = np.frombuffer(buffer, DTYPE, count=count, offset=_HEADER.size)
    trailing = bytes(buffer[_HEADER.size + count * ENTRY_SIZE :])
    return ProducerSnapshotFile(entries, trailing, stored_crc)


def require_header(head: Buffer, size: int, path: str) -> None:
    """Raise FormatError if a file of `size` bytes with this beginning cannot be a snapshot."""
    _decode_header(head, size, path)


def _decode_header(head: Buffer, size: int, path: str) -> tuple[int, int]:
    """Return the stored checksum and the count of entries, all of which fit in `size` bytes."""
    if len(head) < _HEADER.size:
        location = Location(path, len(head))
        raise TruncatedError(location, "the end of the file", f"{_HEADER.size} bytes of header")
    version, stored_crc, count = _HEADER.unpack_from(head)
    if version != VERSION:
        raise UnsupportedError(Location(path, 0), f"version {version}", f"version {VERSION}")
    _require_entries(size - _HEADER.size, count, path)
    return stored_crc, count


def _require_crc(stored: int, computed: int, path: str) -> None:
    if stored != computed:
        location = Location(path, _CRC_POSITION)
        raise CrcMismatchError(location, f"crc {stored:#010x}", f"{computed:#010x}")


def _require_entries(available: int, count: int, path: str) -> None:
    location = Location(path, _COUNT_POSITION)
    if count < 0:
        raise CorruptError(location, f"{count} entries", "a count of at least 0")
    if count * ENTRY_SIZE > available:
        raise TruncatedError(
            location, f"{count} entries announced, {available} bytes left", f"{ENTRY_SIZE} each"
        )


def iter_producer_snapshot(file: ProducerSnapshotFile) -> Iterator[ProducerSnapshotEntry]:
    return map(ProducerSnapshotEntry._make, _ENTRY.iter_unpack(file.entries.view(np.uint8).data))


def encode_producer_snapshot(file: ProducerSnapshotFile) -> bytes:
    body = _COUNT.pack(len(file.entries)) + file.entries.astype(DTYPE).tobytes() + file.trailing
    crc = crc32c(body) if file.crc is None else file.crc
    return struct.pack(">hI", VERSION, crc) + body


def read_producer_snapshot(
    path: str | os.PathLike[str], *, verify_crc: bool = True
) -> ProducerSnapshotFile:
    """Read a `.snapshot` file of producers. Raises FormatError."""
    data = read_file_bytes(path, limit=JAVA_MAX)
    return decode_producer_snapshot(data, verify_crc=verify_crc, path=os.fspath(path))


def iter_read_producer_snapshot(path: str | os.PathLike[str]) -> Iterator[ProducerSnapshotEntry]:
    """Yield the entries of a file in bounded memory. The whole file is checked first."""
    name = os.fspath(path)
    with open_evidence(path) as raw, io.BufferedReader(raw) as file:
        size = raw.size
        stored_crc, count = _decode_header(file.read(_HEADER.size), size, name)
        file.seek(_COUNT_POSITION)
        computed_crc = 0
        while data := file.read(_PIECE_ENTRIES * ENTRY_SIZE):
            computed_crc = crc32c(data, computed_crc)
        _require_crc(stored_crc, computed_crc, name)
        file.seek(_HEADER.size)
        for first in range(0, count, _PIECE_ENTRIES):
            data = file.read(min(count - first, _PIECE_ENTRIES) * ENTRY_SIZE)
            if len(data) % ENTRY_SIZE:  # the file was truncated meanwhile
                raise TruncatedError(Location(name, file.tell()), "the end of the file", "entries")
            yield from map(ProducerSnapshotEntry._make, _ENTRY.iter_unpack(data))
