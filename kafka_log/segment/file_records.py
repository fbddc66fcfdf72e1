"""The `.log` of a segment: a file of batches, of which the first `size` bytes are in use.

Mirrors org.apache.kafka.common.record.internal.FileRecords and FileLogInputStream, including how
they walk over damage: a header is checked as late as in Kafka; up to 17 bytes at the end, or a
batch longer than the rest of the file, end the walk silently; a length below 14 is a CorruptError.
A preallocated file is longer than `size` until it is trimmed.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from kafka_format import batch_layout
from kafka_format.attributes import CODEC_MASK
from kafka_format.batch_layout import (
    BATCH,
    HEADER_SIZE,
    MESSAGE_1,
    MESSAGE_ATTRIBUTES_AT,
    MESSAGE_TIMESTAMP_END,
    PREFIX,
)
from kafka_format.errors import MEMORY, CorruptError, FormatError, Location, TruncatedError
from kafka_format.legacy import SMALLEST_MESSAGE
from kafka_format.log_file import LogFile
from kafka_format.record import wrap_int64
from kafka_log.errors import IllegalArgumentError, LogError
from kafka_log.segment.record_search import at_or_after, search_batch

if TYPE_CHECKING:
    import io
    from collections.abc import Iterator
    from struct import Struct

    from kafka_format.primitives import Buffer
    from kafka_log.disk.files import File, Files

INT32_MAX = 2**31 - 1
LOG_OVERHEAD = batch_layout.LENGTH_END
UP_TO_MAGIC = batch_layout.UP_TO_MAGIC
_READ_BYTES = 4096
_NO_EPOCH = -1

_MEMORY_PREFIX = BATCH.reader("base_offset", "batch_length", "magic")
_OFFSETS_AND_TIMESTAMP = BATCH.reader("base_offset", "last_offset_delta", "max_timestamp")
_LAST_OFFSET_DELTA = BATCH.reader("last_offset_delta")
_MAX_TIMESTAMP = BATCH.reader("max_timestamp")
_MESSAGE_TIMESTAMP = MESSAGE_1.reader("timestamp")


class LogOffsetPosition(NamedTuple):
    """A batch: its base offset, its position and its size in bytes."""

    offset: int
    position: int
    size: int


class TimestampAndOffset(NamedTuple):
    """A record (or a batch) with its timestamp."""

    timestamp: int
    offset: int
    leader_epoch: int | None


class FileBatch:
    """A batch in a file. All but `position`, `size_in_bytes` and `magic` is read on access."""

    __slots__ = (
        "_header",
        "_records",
        "leader_epoch_or_crc",
        "magic",
        "offset",
        "position",
        "size_in_bytes",
    )

    def __init__(self, records: FileRecords, position: int, header: bytes) -> None:
        self._records = records
        self._header = header
        self.position = position
        self.offset: int
        self.leader_epoch_or_crc: int
        self.magic: int
        self.offset, size, self.leader_epoch_or_crc, self.magic = PREFIX.unpack_from(header)
        self.size_in_bytes = LOG_OVERHEAD + size

    def __repr__(self) -> str:
        where = Location(self._records.path, self.position)
        return f"FileBatch({where}, magic {self.magic}, {self.size_in_bytes} bytes)"

    @property
    def base_offset(self) -> int:
        """The first offset. That of a compressed legacy message is only in its records."""
        if self.magic >= 2 or not self._bytes(HEADER_SIZE)[MESSAGE_ATTRIBUTES_AT] & CODEC_MASK:
            return self.offset
        end = self.position + self.size_in_bytes
        reader = cast("BinaryIO", self._records.reader())
        log = LogFile(reader, path=self._records.path, start=self.position, end=end)
        for batch in log.batches():
            return next(iter(batch.iter_records())).offset
        raise TruncatedError(Location(self._records.path, self.position), "no batch", "a message")

    @property
    def last_offset(self) -> int:
        """The last offset: the base plus the delta, which compaction keeps."""
        if self.magic < 2:
            return self.offset
        return wrap_int64(self.offset + self._field(_LAST_OFFSET_DELTA))

    @property
    def next_offset(self) -> int:
        return wrap_int64(self.last_offset + 1)

    @property
    def max_timestamp(self) -> int:
        if self.magic >= 2:
            return self._field(_MAX_TIMESTAMP)
        if self.magic < 0:  # the walk does not check it
            where = Location(self._records.path, self.position)
            raise IllegalArgumentError(f"{where}: found magic {self.magic}, expected 0 or more")
        return -1 if self.magic == 0 else self._field(_MESSAGE_TIMESTAMP)

    @property
    def partition_leader_epoch(self) -> int:
        return self.leader_epoch_or_crc if self.magic >= 2 else _NO_EPOCH

    def _field(self, reader: Struct) -> int:
        size = HEADER_SIZE if self.magic >= 2 else reader.size
        value: int = reader.unpack_from(self._bytes(size))[0]
        return value

    def _bytes(self, size: int) -> bytes:
        """Return the header; for a legacy message perhaps fewer bytes than a batch header has."""
        if self.magic < 2:
            size = min(size, self.size_in_bytes)
        if len(self._header) < size:
            self._header = self._records.read_exactly(self.position, size)
        return self._header


class FileSlice(NamedTuple):
    """A range of a file, read on demand (FileRecords.slice)."""

    log: FileRecords | None
    position: int
    size_in_bytes: int

    def read(self) -> bytes:
        return b"" if self.log is None else self.log.read_exactly(*self[1:])

    def batches(self) -> Iterator[FileBatch]:
        """Iterate over the whole batches."""
        if self.log is None:
            return iter(())
        return self.log.batches_from(self.position, self.position + self.size_in_bytes)

    def last_batch(self) -> FileBatch | None:
        last = deque(self.batches(), maxlen=1)
        return last[0] if last else None


class FileRecords:
    """A file of batches, open for appending."""

    def __init__(
        self,
        files: Files,
        name: str,
        *,
        file_already_exists: bool = False,
        init_file_size: int = 0,
        preallocate: bool = False,
    ) -> None:
        self.name = name
        self._files = files
        self.file: File = files.open(name, create=True)
        self.is_open = True
        is_preallocated = preallocate and not file_already_exists
        if is_preallocated:
            self.file.truncate(init_file_size)
        if self.file.size > INT32_MAX:
            raise LogError(
                f"{self.path}: found {self.file.size} bytes, expected {INT32_MAX} at most"
            )
        self.size = 0 if is_preallocated else self.file.size
        """Bytes in use; a preallocated file is longer."""

    def __repr__(self) -> str:
        return f"FileRecords({self.path}, {self.size} of {self.file.size} bytes)"

    @property
    def path(self) -> str:
        return self._files.path(self.name)

    def reader(self) -> io.RawIOBase:
        """Return the file for decoders, which need `size` to know where it ends."""
        return self.file.reader()

    def read_at(self, position: int, size: int) -> bytes:
        """Return up to `size` bytes; fewer at the end of the bytes in use."""
        return self.file.read_at(position, max(0, min(size, self.size - position)))

    def readinto_at(self, position: int, target: memoryview) -> int:
        return self.file.readinto_at(position, target[: max(0, self.size - position)])

    def read_exactly(self, position: int, size: int) -> bytes:
        data = self.file.read_at(position, size)
        if len(data) < size:
            raise TruncatedError(Location(self.path, position), f"{len(data)} bytes", f"{size}")
        return data

    # --------------------------------------------------------------------------------- changes

    def append(self, data: Buffer) -> int:
        size = len(data)
        if size > INT32_MAX - self.size:
            raise IllegalArgumentError(
                f"{self.path}: found {self.size} bytes, expected room for {size} more"
            )
        self.file.write_at(self.size, data)
        self.size += size
        return size

    def truncate_to(self, target_size: int) -> int:
        """Truncate the file; return how many bytes in use were removed."""
        original = self.size
        if not 0 <= target_size <= original:
            raise LogError(f"{self.path}: found {original} bytes, expected {target_size} to keep")
        if target_size < self.file.size:
            self.file.truncate(target_size)
            self.size = target_size
        return original - target_size

    def trim(self) -> None:
        """Truncate the part of a preallocated file that is not in use."""
        self.truncate_to(self.size)

    def flush(self) -> None:
        self.file.sync()

    def start_flush(self, position: int) -> None:
        """Let the disk begin to write the bytes after `position`, which will be flushed later."""
        self.file.start_sync(position, self.size - position)

    def close(self) -> None:
        if self.is_open:
            self.flush()
            self.trim()
            self.close_handlers()

    def close_handlers(self) -> None:
        if self.is_open:
            self.is_open = False
            self.file.close()

    def rename_to(self, name: str) -> None:
        old, self.name = self.name, name
        self._files.rename(old, name)

    def delete_if_exists(self) -> bool:
        self.close_handlers()
        return self._files.delete_if_exists(self.name)

    # ----------------------------------------------------------------------------------- reads

    def batches(self) -> Iterator[FileBatch]:
        return self.batches_from(0)

    def batches_from(self, position: int, end: int | None = None) -> Iterator[FileBatch]:
        """Yield batches from a position where one begins, up to `end` (default: `size`)."""
        end = self.size if end is None else end
        if position < 0:  # from a damaged index
            raise IllegalArgumentError(
                f"{self.path}: found position {position}, expected 0 or more"
            )
        chunk, base = b"", position
        while position < end - UP_TO_MAGIC:
            at = position - base
            if at + HEADER_SIZE > len(chunk):
                chunk, base, at = self.file.read_at(position, _READ_BYTES), position, 0
                if len(chunk) < UP_TO_MAGIC:
                    raise TruncatedError(
                        Location(self.path, position), f"{len(chunk)} bytes", "a batch header"
                    )
            batch = FileBatch(self, position, chunk[at : at + HEADER_SIZE])
            if batch.size_in_bytes < LOG_OVERHEAD + SMALLEST_MESSAGE:
                raise CorruptError(
                    Location(self.path, position),
                    f"batch length {batch.size_in_bytes - LOG_OVERHEAD}",
                    f"{SMALLEST_MESSAGE} or more",
                )
            if batch.size_in_bytes > end - position:
                return
            yield batch
            position += batch.size_in_bytes

    def slice(self, position: int, size: int) -> FileSlice:
        """Return a slice of at most `size` bytes from `position` on."""
        if position > self.size or position < 0 or size < 0:
            raise IllegalArgumentError(
                f"{self.path}: found {self.size} bytes, expected {size} at {position}"
            )
        return FileSlice(self, position, min(size, self.size - position))

    def search_for_offset_from_position(
        self, target_offset: int, position: int
    ) -> LogOffsetPosition | None:
        """Find the first batch whose last offset is at least the target."""
        previous = None
        for batch in self.batches_from(position):
            base_offset = batch.base_offset
            if base_offset >= target_offset:
                if base_offset > target_offset and previous is not None:
                    batch = previous if previous.last_offset >= target_offset else batch  # noqa: PLW2901
                return _offset_position(batch)
            previous = batch
        if previous is not None and previous.last_offset >= target_offset:
            return _offset_position(previous)
        return None

    def search_for_timestamp(
        self, target_timestamp: int, position: int, starting_offset: int
    ) -> TimestampAndOffset | None:
        """Find the first record with at least this timestamp and at least this offset."""
        for batch in self.batches_from(position):
            if batch.max_timestamp >= target_timestamp:
                found = self._search_batch(batch, target_timestamp, starting_offset)
                if found is not None:
                    return found
        return None

    def largest_timestamp_after(self, position: int) -> TimestampAndOffset:
        """Return the largest timestamp of the batches from `position` on; (-1, -1) if none."""
        largest = TimestampAndOffset(-1, -1, None)
        for batch in self.batches_from(position):
            timestamp = batch.max_timestamp
            if timestamp > largest.timestamp:
                epoch = batch.partition_leader_epoch
                largest = TimestampAndOffset(
                    timestamp, batch.last_offset, None if epoch == _NO_EPOCH else epoch
                )
        return largest

    def _search_batch(
        self, batch: FileBatch, target_timestamp: int, starting_offset: int
    ) -> TimestampAndOffset | None:
        raw = self.read_exactly(batch.position, batch.size_in_bytes)
        try:
            found = search_batch(raw, at_or_after(target_timestamp, starting_offset), streams=False)
        except FormatError as error:
            raise error.moved(self.path, batch.position) from None
        if found is None:
            return None
        epoch = batch.partition_leader_epoch
        return TimestampAndOffset(*found, None if epoch == _NO_EPOCH else epoch)


def _offset_position(batch: FileBatch) -> LogOffsetPosition:
    return LogOffsetPosition(batch.base_offset, batch.position, batch.size_in_bytes)


def iter_memory_batches(records: bytes | bytearray | memoryview) -> Iterator[tuple[int, int, int]]:
    """Yield size, last offset and largest timestamp of each batch, as MemoryRecords.batches."""
    position, end = 0, len(records)
    while end - position >= UP_TO_MAGIC:
        offset, length, magic = _MEMORY_PREFIX.unpack_from(records, position)
        size = LOG_OVERHEAD + length
        if length < SMALLEST_MESSAGE or not 0 <= magic <= 2:
            found = f"a batch of {length} bytes and magic {magic}"
            raise CorruptError(Location(MEMORY, position), found, "whole batches of magic 0 to 2")
        if size > end - position:
            return
        if magic == 2 and size >= HEADER_SIZE:
            offset, delta, timestamp = _OFFSETS_AND_TIMESTAMP.unpack_from(records, position)
            yield size, wrap_int64(offset + delta), timestamp
        elif magic == 1 and size >= MESSAGE_TIMESTAMP_END:
            yield size, offset, _MESSAGE_TIMESTAMP.unpack_from(records, position)[0]
        else:
            yield size, offset, -1
        position += size
