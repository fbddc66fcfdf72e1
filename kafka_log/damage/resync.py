"""Search for the next valid batch after damage.

Nothing in a `.log` marks where a batch begins. So the search tests at every byte whether a header
that Kafka could have written begins there, and then checks the checksum. What it finds is certainly
a batch. It may be one that a producer stored in a value; only an impossible offset shows that it
does not belong to this log.

Random bytes contain about one such header in hundreds of megabytes, so few checksums are computed
in vain. But bytes that are made to look like headers could each cost a read of the rest of the
file, so a search may only read a limited amount. `unread` reports a search that was given up.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, BinaryIO

import numpy as np

from kafka_format.attributes import CODEC_MASK, UNUSED_BITS
from kafka_format.batch_layout import (
    BATCH,
    CRC_AT,
    LENGTH_AT,
    LENGTH_END,
    MAGIC_AT,
    MESSAGE_0,
    MESSAGE_1,
    MESSAGE_CRC_AT,
    SMALLEST_LENGTHS,
)
from kafka_format.checksum import crc32, crc32c
from kafka_format.columnar.headers import BatchColumns
from kafka_format.compression import Codec
from kafka_format.errors import CorruptError, Location

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kafka_format.columnar.record_columns import RecordColumns
    from kafka_format.log_file import SegmentEnd

    Bools = npt.NDArray[np.bool_]
    Bytes = npt.NDArray[np.uint8]
    Headers = npt.NDArray[np.void]

_CHUNK = 256 * 1024
_BATCH = np.dtype(BATCH.dtype_fields())
_MESSAGES = np.dtype(MESSAGE_0.dtype_fields()), np.dtype(MESSAGE_1.dtype_fields())
"""By magic."""
_WIDEST = _BATCH.itemsize
_SMALLEST = np.array(SMALLEST_LENGTHS)
_CRC = BATCH.field("crc").struct
_CRC_AT = (MESSAGE_CRC_AT, MESSAGE_CRC_AT, CRC_AT)
"""The position of the checksum, by magic; it covers what follows it."""
_OFFSETS = 2**31
"""The offsets of a segment are less than this far from the one in its name."""
_MOST_READ = 16
"""A search may read this many times the bytes it covers, to check what looks like a header."""
_LEAST_COST = 4096
"""The least that a check counts for, in bytes: it costs a seek and a few calls."""


class BatchSearch:
    """A search for valid batches in the bytes [start, end) of one file."""

    def __init__(
        self,
        source: BinaryIO,
        start: int = 0,
        end: int | None = None,
        *,
        base_offset: int | None = None,
    ) -> None:
        """If the file is a segment, its `base_offset` excludes impossible offsets."""
        size = source.seek(0, io.SEEK_END)
        self._source = source
        self._limit = size if end is None else min(end, size)
        self._base_offset = base_offset
        self._left = _MOST_READ * max(_CHUNK, self._limit - start)
        self._given_up_at: int | None = None

    def find(self, start: int) -> int | None:
        """Return the first position from `start` on where a valid batch begins."""
        if self._given_up_at is not None:
            return None
        for position, end in self._candidates(start):
            if self._left < 0:
                self._given_up_at = position
                return None
            self._left -= _LEAST_COST
            if self.is_valid(position, end):
                return position
        return None

    def resume(self, end: SegmentEnd, last: RecordColumns | BatchColumns | None) -> int | None:
        """Return where a walk that ended at `end` continues, after its `last` piece of batches.

        The length of a batch is only as reliable as its checksum. If the checksum of the last batch
        is wrong, its length may have skipped valid batches, so the search begins inside it. With a
        correct checksum the length is correct, even if the records cannot be decoded.
        """
        if end.reason == "zeroed_tail":
            return None
        batches = last if last is None or isinstance(last, BatchColumns) else last.batches
        if batches is not None and len(batches):
            position = int(batches.position[-1])
            if not is_batch(self._source, position, end.position):
                return self.find(position + 1)
        return self.find(end.position + 1)

    @property
    def has_given_up(self) -> bool:
        """Whether bytes were left unsearched; `unread` says which."""
        return self._given_up_at is not None

    def unread(self, path: str) -> CorruptError | None:
        """Return the error for bytes that were not searched, if the search was given up."""
        if self._given_up_at is None:
            return None
        found = f"{self._limit - self._given_up_at} bytes not searched: too many look like headers"
        return CorruptError(Location(path, self._given_up_at), found, "a batch")

    def _candidates(self, start: int) -> Iterator[tuple[int, int]]:
        """Yield where a header could begin, and where its batch would end."""
        for position in range(start, self._limit, _CHUNK):
            data = _read(self._source, position, min(_CHUNK + _WIDEST, self._limit - position))
            padded = np.frombuffer(data + bytes(_WIDEST), np.uint8)
            places = _places(padded, min(_CHUNK, len(data)))
            rows = np.lib.stride_tricks.sliding_window_view(padded, _WIDEST)[places]
            fits = self._fits(rows, self._limit - position - places)
            lengths = rows[fits, LENGTH_AT:LENGTH_END].copy().view(">i4")[:, 0].tolist()
            for place, length in zip(places[fits].tolist(), lengths, strict=True):
                yield position + place, position + place + LENGTH_END + length

    def _fits(self, rows: Bytes, left: npt.NDArray[np.int64]) -> Bools:
        """Return which of these headers Kafka could have written, given the bytes left for each."""
        header = _as(rows, _BATCH)
        length, offset = header["batch_length"].astype(np.int64), header["base_offset"]
        fits: Bools = (length >= _SMALLEST[header["magic"]]) & (length <= left - LENGTH_END)
        if self._base_offset is not None:
            fits &= (offset >= self._base_offset) & (offset - self._base_offset < _OFFSETS)
        kinds = (_is_message(rows, 0), _is_message(rows, 1), _is_modern(header))
        fits &= np.choose(header["magic"], kinds)
        return fits

    def is_valid(self, start: int, end: int) -> bool:
        """Return whether the checksum is correct; lengths in a legacy message are checked first."""
        head = _read(self._source, start, min(_WIDEST, end - start))
        magic = head[MAGIC_AT] if len(head) > MAGIC_AT else 0
        if magic < 2 and not self._ends_with_its_value(head, magic, start, end):
            return False
        at = _CRC_AT[min(magic, 2)]
        checksum, computed = crc32c if magic >= 2 else crc32, 0
        for position in range(start + at + _CRC.size, end, _CHUNK):
            data = _read(self._source, position, min(_CHUNK, end - position))
            computed = checksum(data, computed)
            self._left -= len(data)
        return len(head) >= at + _CRC.size and _CRC.unpack_from(head, at)[0] == computed

    def _ends_with_its_value(self, head: bytes, magic: int, start: int, end: int) -> bool:
        kind = _MESSAGES[magic]
        if len(head) < kind.itemsize:
            return False
        key_length = int(np.frombuffer(head, kind, 1)["key_length"][0])
        value_at = start + kind.itemsize + max(key_length, 0)
        value_length = int.from_bytes(_read(self._source, value_at, 4), "big", signed=True)
        return value_length >= -1 and value_at + 4 + max(value_length, 0) == end


def find_batch(
    source: BinaryIO, start: int, end: int | None = None, *, base_offset: int | None = None
) -> int | None:
    """Return the first position from `start` on where a batch with a correct checksum begins."""
    return BatchSearch(source, start, end, base_offset=base_offset).find(start)


def is_batch(source: BinaryIO, start: int, end: int) -> bool:
    """Return whether a batch with a correct checksum begins at `start` and ends by `end`."""
    prefix = _read(source, start, min(MAGIC_AT + 1, max(0, end - start)))
    if len(prefix) <= MAGIC_AT or prefix[MAGIC_AT] >= 0x80:
        return False
    length = int.from_bytes(prefix[LENGTH_AT:LENGTH_END], "big", signed=True)
    smallest = int(_SMALLEST[min(prefix[MAGIC_AT], 2)])
    if not smallest <= length <= end - start - LENGTH_END:
        return False
    return BatchSearch(source, start, end).is_valid(start, start + LENGTH_END + length)


def _read(source: BinaryIO, position: int, size: int) -> bytes:
    """Read `size` bytes, fewer only at the end of the file; an unbuffered read may return less."""
    source.seek(position)
    data = source.read(size)
    while len(data) < size and (more := source.read(size - len(data))):
        data += more
    return data


def _places(data: Bytes, count: int) -> npt.NDArray[np.intp]:
    """Return where in the first `count` bytes a header could begin, by its cheapest fields."""

    def byte(at: int) -> Bytes:
        return data[at : at + count]

    has_length = (
        byte(LENGTH_AT) | byte(LENGTH_AT + 1) | byte(LENGTH_AT + 2) | byte(LENGTH_AT + 3)
    ) != 0  # skips zeros quickly
    is_positive = (byte(0) | byte(LENGTH_AT)) < 0x80  # neither an offset nor a length is negative
    return np.flatnonzero((byte(MAGIC_AT) <= 2) & has_length & is_positive)


def _as(rows: Bytes, kind: np.dtype[np.void]) -> Headers:
    """View the first bytes of each row as the fields of a header."""
    headers: Headers = np.ascontiguousarray(rows[:, : kind.itemsize]).view(kind)[:, 0]
    return headers


def _is_modern(header: Headers) -> Bools:
    attributes, delta, count = (
        header[name].astype(np.int64)
        for name in ("attributes", "last_offset_delta", "record_count")
    )
    possible: Bools = (attributes & UNUSED_BITS[2] == 0) & (attributes & CODEC_MASK < len(Codec))
    possible &= (
        (delta >= 0) & (count >= 0) & (count <= delta + 1)
    )  # compaction only lowers the count
    for name in ("producer_id", "producer_epoch", "base_sequence"):
        possible &= header[name] >= -1
    return possible


def _is_message(rows: Bytes, magic: int) -> Bools:
    header = _as(rows, _MESSAGES[magic])
    attributes, key_length = (
        header[name].astype(np.int64) for name in ("attributes", "key_length")
    )
    possible: Bools = attributes & UNUSED_BITS[magic] == 0
    possible &= attributes & CODEC_MASK < Codec.ZSTD
    room = header["size"].astype(np.int64) - _SMALLEST[magic]
    possible &= (key_length >= -1) & (key_length <= room)
    return possible
