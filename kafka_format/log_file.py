"""Read the batches of a `.log` file (or of similar bytes) in order, and find where they end.

    segment = batch*  then: nothing | zeros (preallocated) | part of a batch (a torn write)

Every batch has its length; nothing marks where one begins. So the first invalid header ends the
walk, and `LogFile.end` says where and why.

Mirrors org.apache.kafka.common.record.FileLogInputStream: up to 17 bytes at the end, or a batch
longer than the rest of the file, end a log silently in Kafka; a length below 14 is corrupt;
everything of magic 2 and above is read as magic 2 (the checksum does not cover the magic). Where
the length is too small for a header of magic 2, Kafka reads on into the next batch; here that is
corrupt as well.
"""

import io
from collections.abc import Iterator
from typing import BinaryIO, Literal, NamedTuple, TypeAlias

from kafka_format.batch import HEADER_SIZE, MAGIC, BatchHeader, RecordBatch
from kafka_format.batch_layout import LENGTH_END, PREFIX
from kafka_format.errors import MEMORY, CorruptError, FormatError, Location, TruncatedError
from kafka_format.legacy import SMALLEST_MESSAGE, LegacyBatch, decode_legacy_header
from kafka_format.primitives import Buffer

_CHUNK = 1024 * 1024
_ZEROS = bytes(_CHUNK)
_MAX_READ = 64 * 1024 * 1024
_MIN_AHEAD = 4 * 1024
_MAX_AHEAD = 64 * 1024  # a batch that a caller keeps keeps this much in memory

AnyBatch: TypeAlias = RecordBatch | LegacyBatch


class SegmentEnd(NamedTuple):
    """Where the batches of a file end, and why; `error` has details unless the file simply ends."""

    position: int
    reason: Literal["end_of_file", "zeroed_tail", "truncated_batch", "corrupt_batch"]
    error: FormatError | None = None


class LogFile:
    """The batches of a buffer or of an open binary file, held in memory one at a time.

    Small batches are read ahead, several at once. They share that memory (64 KiB), which is freed
    when the last of them is.

    >>> log = LogFile(segment_bytes)
    >>> for batch in log.batches(): ...
    >>> log.end
    SegmentEnd(position=4711, reason='end_of_file', error=None)
    """

    def __init__(
        self,
        source: Buffer | BinaryIO,
        *,
        path: str = MEMORY,
        start: int = 0,
        end: int | None = None,
    ) -> None:
        """Read the bytes from `start`, where a batch must begin, up to `end`."""
        self._source = _source_of(source)
        self.path = path
        self.start = start
        self.limit = self._source.size if end is None else min(end, self._source.size)
        self.end: SegmentEnd | None = None  # set when `batches` is exhausted

    def batches(self) -> Iterator[AnyBatch]:
        position = self.start
        self.end = None
        while True:
            try:
                batch = self._next_batch(position)
            except FormatError as error:
                self.end = self._end_at(position, error)
                return
            if batch is None:
                self.end = SegmentEnd(position, "end_of_file")
                return
            yield batch
            position += len(batch.raw)

    def _next_batch(self, position: int) -> AnyBatch | None:
        left = self.limit - position
        if left <= 0:
            return None
        prefix = self._source.read(position, PREFIX.size)
        if left <= PREFIX.size or len(prefix) < PREFIX.size:
            raise self._truncated(position, "a batch header")
        _, length, _, magic = PREFIX.unpack(prefix)
        smallest = HEADER_SIZE - LENGTH_END if magic >= MAGIC else SMALLEST_MESSAGE
        if length < smallest:
            raise CorruptError(
                Location(self.path, position), f"batch length {length}", f"{smallest} or more"
            )
        size = LENGTH_END + length
        if size > left:
            raise self._truncated(position, f"a batch of {size}")
        raw = self._source.read(position, size)
        if len(raw) < size:
            raise self._truncated(position, f"a batch of {size}")
        return batch_of(raw, magic, self.path, position)

    def _end_at(self, position: int, error: FormatError) -> SegmentEnd:
        if self._is_zero_from(position):
            return SegmentEnd(position, "zeroed_tail", error)
        if isinstance(error, TruncatedError):
            return SegmentEnd(position, "truncated_batch", error)
        return SegmentEnd(position, "corrupt_batch", error)

    def _is_zero_from(self, position: int) -> bool:
        size = PREFIX.size  # small at first: a damaged log may be checked in many places
        while position < self.limit:
            chunk = bytes(self._source.read(position, min(size, self.limit - position)))
            if not chunk or not _ZEROS.startswith(chunk):  # ten times as fast as counting zeros
                return False
            position += len(chunk)
            size = min(size * 8, _CHUNK)
        return True

    def _truncated(self, position: int, expected: str) -> TruncatedError:
        found = f"{self.limit - position} bytes up to the end"
        return TruncatedError(Location(self.path, position), found, expected)


def batch_of(raw: memoryview, magic: int, path: str, position: int) -> AnyBatch:
    """Return the batch with these bytes, whose length is right, by its magic."""
    if magic >= MAGIC:
        return RecordBatch(BatchHeader.unpack(raw), path, position, raw)
    try:
        header = decode_legacy_header(raw)
    except FormatError as error:
        raise error.moved(path, position) from None
    return LegacyBatch(header, path, position, raw)


def iter_batches(
    source: Buffer | BinaryIO, *, path: str = MEMORY, start: int = 0, end: int | None = None
) -> Iterator[AnyBatch]:
    """Yield all whole batches. Damage before the end is raised; a torn or zeroed tail is not.

    This is Kafka's own rule for reading a log. To find out how the log ended, use LogFile.
    """
    log = LogFile(source, path=path, start=start, end=end)
    yield from log.batches()
    if log.end is not None and log.end.reason == "corrupt_batch" and log.end.error is not None:
        raise log.end.error


class _BufferSource:
    def __init__(self, buffer: Buffer) -> None:
        self._view = memoryview(buffer)
        self.size = len(self._view)

    def read(self, position: int, size: int) -> memoryview:
        return self._view[position : position + size]


class _FileSource:
    """Reads a file with a read-ahead that grows while the reads are sequential."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = file.seek(0, io.SEEK_END)
        self._ahead = memoryview(b"")
        self._start = self.size  # position of the read-ahead bytes

    def read(self, position: int, size: int) -> memoryview:
        """Return `size` bytes, or fewer if the file shrank since it was opened."""
        at = position - self._start
        if at < 0 or at + size > len(self._ahead):
            in_order = 0 <= at <= len(self._ahead)
            more = min(4 * len(self._ahead), _MAX_AHEAD) if in_order else 0
            self._fill(position, max(size, more, _MIN_AHEAD))
            at = 0
        return self._ahead[at : at + size]

    def _fill(self, position: int, size: int) -> None:
        self._ahead = memoryview(b"")  # free the old bytes before reading the new ones
        self._file.seek(position)
        self._start, self._ahead = position, memoryview(self._bytes(self.size - position, size))

    def _bytes(self, left: int, size: int) -> bytes | bytearray:
        """Read until `size` bytes are there: one read of an unbuffered file may return fewer."""
        size = max(0, min(size, left))
        data = self._file.read(min(size, _MAX_READ))
        if len(data) == size:
            return data
        filled, got = bytearray(size), 0
        while data:
            filled[got : got + len(data)] = data
            got += len(data)
            data = self._file.read(min(size - got, _MAX_READ))
        del filled[got:]
        return filled


def _source_of(source: Buffer | BinaryIO) -> _BufferSource | _FileSource:
    if isinstance(source, bytes | bytearray | memoryview):
        return _BufferSource(source)
    return _FileSource(source)
