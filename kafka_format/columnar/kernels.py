"""Loops over bytes: headers, checksums, and the records of magic 2.

Every function marked `@kernel` is plain Python over a memoryview. `load` returns the functions as
they are, or compiled by numba over arrays: the same results, 30 to 50 times faster. Both ways need
these rules:

- bytes are read only by index, which gives an int in both;
- arithmetic that may exceed 64 bits goes through `wrap`, which compiled code does not need;
- output is written into arrays that the caller allocated, sized by the bytes that are present,
  never by a length in the file.

A kernel decides only whether a batch is sound. If it is not, the row decoder reads it again and
raises the error, so that there is one wording for each kind of damage.

    table    int64[field, batch]   the header of each batch (HEADER_FIELDS)
    longs    int64[field, record]  LONG_FIELDS
    ints     int32[field, record]  INT_FIELDS
"""

from functools import cache
from types import SimpleNamespace
from typing import Any

from kafka_format import attributes, batch_layout
from kafka_format.batch_layout import (
    ATTRIBUTES_AT,
    BASE_SEQUENCE_AT,
    BASE_TIMESTAMP_AT,
    CRC_AT,
    LAST_OFFSET_DELTA_AT,
    LENGTH_AT,
    MAGIC_AT,
    MAX_TIMESTAMP_AT,
    MESSAGE_ATTRIBUTES_AT,
    MESSAGE_CRC_AT,
    MESSAGE_TIMESTAMP_AT,
    PARTITION_LEADER_EPOCH_AT,
    PRODUCER_EPOCH_AT,
    PRODUCER_ID_AT,
    RECORD_COUNT_AT,
    UP_TO_MAGIC,
)
from kafka_format.columnar import native, native_codecs
from kafka_format.columnar.compilation import Kernels, njit
from kafka_format.columnar.native import crc32_range, crc32c_range, lz4_block
from kafka_format.columnar.native_codecs import zstd_unpack

# Rows of the header table.
POSITION = 0
BASE_OFFSET = 1  # of a legacy wrapper: the offset of its last record
SIZE_IN_BYTES = 2
PARTITION_LEADER_EPOCH = 3
MAGIC = 4
CRC = 5
ATTRIBUTES = 6
LAST_OFFSET_DELTA = 7
BASE_TIMESTAMP = 8
MAX_TIMESTAMP = 9
PRODUCER_ID = 10
PRODUCER_EPOCH = 11
BASE_SEQUENCE = 12
RECORD_COUNT = 13
HEADER_FIELDS = 14

# Rows of the record columns: what must be parsed. The rest is derived from it on demand.
OFFSET = 0
TIMESTAMP = 1
KEY_POSITION = 2
VALUE_POSITION = 3
LONG_FIELDS = 4
KEY_LENGTH = 0  # -1 is null
VALUE_LENGTH = 1  # -1 is null
HEADERS_COUNT = 2
INT_FIELDS = 3

# Rows of the header columns (those of a record).
HEADER_KEY_POSITION = 0
HEADER_VALUE_POSITION = 1
HEADER_LONG_FIELDS = 2
HEADER_RECORD = 0
HEADER_KEY_LENGTH = 1
HEADER_VALUE_LENGTH = 2
HEADER_INT_FIELDS = 3

# Why `read_headers` stopped.
TABLE_FULL = 0
NEED_BYTES = 1
END_OF_FILE = 2
TORN_BATCH = 3
CORRUPT_BATCH = 4

# Kafka's names of sizes in kafka_format.batch_layout.
LOG_OVERHEAD = batch_layout.LENGTH_END  # offset and size, which size does not count
RECORD_BATCH_OVERHEAD = batch_layout.HEADER_SIZE
RECORD_OVERHEAD_V0 = batch_layout.SMALLEST_LENGTHS[0]
SMALLEST_RECORD = 7  # length, attributes, two deltas, two null lengths, no headers: a byte each

CODEC_MASK = attributes.CODEC_MASK
LOG_APPEND_TIME = attributes.LOG_APPEND_TIME
LZ4 = 3
ZSTD = 4
LZ4_BLOCK = 65536
LZ4_MAGIC = 0x0422_4D18
LZ4_DESCRIPTOR = 0x1860_4082  # the magic's last byte, FLG, BD and header checksum
ZSTD_MAGIC = 0x28B5_2FFD
ZSTD_BLOCK = 128 * 1024

# If lz4 cannot be linked, these run as plain Python with the lz4 package.
_NEED_LZ4 = ("unpack_lz4", "unpack_batches")

kernel = Kernels()


@cache
def load(*, compiled: bool) -> SimpleNamespace:
    """Return all kernels by name, as plain Python or compiled."""
    if not compiled:
        return kernel.plain()
    linked = native.compiled_functions()
    linked["zstd_unpack"] = native_codecs.linked()["zstd_unpack"]
    # Compiled integers wrap by themselves, so `wrap` does nothing there.
    no_wrap = njit(_no_wrap, inline="always")
    left_plain = () if "lz4_block" in linked else _NEED_LZ4
    loaded = kernel.compiled(globals() | linked | {"wrap": no_wrap}, left_plain=left_plain)
    loaded.wrap = no_wrap
    return loaded


def _no_wrap(value: int) -> int:
    return value


def wrap(value: int) -> int:
    """Wrap a sum as Java's long does."""
    return (value + 0x8000_0000_0000_0000) % 0x1_0000_0000_0000_0000 - 0x8000_0000_0000_0000


@kernel
def byte(data: Any, at: int) -> int:
    """Return a byte as a signed integer: numba turns arithmetic of mixed signs into floats."""
    return data[at] + 0  # type: ignore[no-any-return]


@kernel
def int16(data: Any, at: int) -> int:
    value = byte(data, at) << 8 | byte(data, at + 1)
    return value - 0x1_0000 if value >= 0x8000 else value


@kernel
def uint32(data: Any, at: int) -> int:
    return (
        byte(data, at) << 24
        | byte(data, at + 1) << 16
        | byte(data, at + 2) << 8
        | byte(data, at + 3)
    )


@kernel
def int32(data: Any, at: int) -> int:
    value = uint32(data, at)
    return value - 0x1_0000_0000 if value >= 0x8000_0000 else value


@kernel
def int64(data: Any, at: int) -> int:
    return int32(data, at) * 0x1_0000_0000 + uint32(data, at + 4)


@kernel
def varint(data: Any, at: int, end: int) -> tuple[int, int]:
    """Return a zig-zag integer of 32 bits and the position after it, -1 if it is incomplete."""
    if at < end and data[at] < 0x80:
        value = byte(data, at)
        return (value >> 1) ^ -(value & 1), at + 1
    value = 0
    shift = 0
    while at < end and shift < 35:
        group = byte(data, at)
        at += 1
        value |= (group & 0x7F) << shift
        if group < 0x80:
            value &= 0xFFFF_FFFF
            return (value >> 1) ^ -(value & 1), at
        shift += 7
    return 0, -1


@kernel
def varlong(data: Any, at: int, end: int) -> tuple[int, int]:
    """Return a zig-zag integer of 64 bits and the position after it, -1 if it is incomplete."""
    value = 0
    shift = 0
    while at < end and shift < 70:
        group = byte(data, at)
        at += 1
        if shift == 63:
            value |= (group & 1) << 63  # the rest lies beyond 64 bits
        else:
            value |= (group & 0x7F) << shift
        if group < 0x80:
            return ((value >> 1) & 0x7FFF_FFFF_FFFF_FFFF) ^ -(value & 1), at
        shift += 7
    return 0, -1


@kernel
def read_headers(
    data: Any, base: int, at: int, filled: int, end: int, table: Any, count: int
) -> tuple[int, int, int]:
    """Read batch headers from `at` on, as FileLogInputStream does; record bytes are skipped.

    `data` holds the file from position `base`; `filled` bytes of it are present, and the file ends
    at `end`, both relative to `data`. Returns (batches in the table, position reached, reason).
    """
    while True:
        if at >= end - UP_TO_MAGIC:
            return count, at, END_OF_FILE
        if at + UP_TO_MAGIC > filled:
            return count, at, NEED_BYTES
        size = int32(data, at + LENGTH_AT)
        if size < RECORD_OVERHEAD_V0:
            return count, at, CORRUPT_BATCH
        if at > end - LOG_OVERHEAD - size:
            return count, at, TORN_BATCH
        size += LOG_OVERHEAD
        if at + min(size, RECORD_BATCH_OVERHEAD) > filled:
            return count, at, NEED_BYTES
        if count == table.shape[1]:
            return count, at, TABLE_FULL
        table[POSITION, count] = base + at
        table[BASE_OFFSET, count] = int64(data, at)
        table[SIZE_IN_BYTES, count] = size
        magic = byte(data, at + MAGIC_AT)
        if magic >= 0x80:
            magic -= 0x100
        if magic < 0 or (magic >= 2 and size < RECORD_BATCH_OVERHEAD):
            return count, at, CORRUPT_BATCH
        table[MAGIC, count] = magic
        if magic >= 2:
            table[PARTITION_LEADER_EPOCH, count] = int32(data, at + PARTITION_LEADER_EPOCH_AT)
            table[CRC, count] = uint32(data, at + CRC_AT)
            table[ATTRIBUTES, count] = int16(data, at + ATTRIBUTES_AT)
            table[LAST_OFFSET_DELTA, count] = int32(data, at + LAST_OFFSET_DELTA_AT)
            table[BASE_TIMESTAMP, count] = int64(data, at + BASE_TIMESTAMP_AT)
            table[MAX_TIMESTAMP, count] = int64(data, at + MAX_TIMESTAMP_AT)
            table[PRODUCER_ID, count] = int64(data, at + PRODUCER_ID_AT)
            table[PRODUCER_EPOCH, count] = int16(data, at + PRODUCER_EPOCH_AT)
            table[BASE_SEQUENCE, count] = int32(data, at + BASE_SEQUENCE_AT)
            table[RECORD_COUNT, count] = int32(data, at + RECORD_COUNT_AT)
        else:
            read_message_header(data, at, magic, table, count)
        count += 1
        at += size


@kernel
def read_message_header(data: Any, at: int, magic: int, table: Any, count: int) -> None:
    """Read the header of a message of magic 0 or 1; fields that these lack are -1."""
    for field in range(PARTITION_LEADER_EPOCH, HEADER_FIELDS):
        if field != MAGIC:
            table[field, count] = -1
    table[LAST_OFFSET_DELTA, count] = 0
    table[CRC, count] = uint32(data, at + MESSAGE_CRC_AT)
    table[ATTRIBUTES, count] = byte(data, at + MESSAGE_ATTRIBUTES_AT)
    if magic == 1:
        table[BASE_TIMESTAMP, count] = int64(data, at + MESSAGE_TIMESTAMP_AT)
        table[MAX_TIMESTAMP, count] = int64(data, at + MESSAGE_TIMESTAMP_AT)


@kernel
def checksum_batch(data: Any, base: int, table: Any, batch: int) -> int:
    """Compute the checksum of one batch: CRC-32C, or CRC-32 for a legacy message."""
    at = table[POSITION, batch] - base
    end = at + table[SIZE_IN_BYTES, batch]
    if table[MAGIC, batch] < 2:
        return crc32_range(data, at + MAGIC_AT, end)
    return crc32c_range(data, at + ATTRIBUTES_AT, end)


@kernel
def checksum_batches(data: Any, base: int, table: Any, out: Any) -> None:
    for batch in range(table.shape[1]):
        out[batch] = checksum_batch(data, base, table, batch)


@kernel
def survey(
    table: Any, base: int, crc: Any, refuse_invalid: bool, starts: Any, ends: Any
) -> tuple[int, int, int, int]:
    """Find the payload of each batch to be decoded; other batches get a negative start.

    The start is -1 for an empty batch, whatever follows its header, and -2 for a damaged one: of an
    unknown codec or, if `refuse_invalid`, of a wrong checksum. Returns how many are damaged, legacy
    and compressed, and how many records the uncompressed ones of magic 2 can have.
    """
    damaged = legacy = packed = capacity = 0
    for batch in range(table.shape[1]):
        at = table[POSITION, batch] - base
        count = table[RECORD_COUNT, batch]
        codec = table[ATTRIBUTES, batch] & CODEC_MASK
        is_legacy = table[MAGIC, batch] < 2
        largest_codec = LZ4 if is_legacy else ZSTD
        starts[batch] = at if is_legacy else at + RECORD_BATCH_OVERHEAD
        ends[batch] = at + table[SIZE_IN_BYTES, batch]
        legacy += 1 if is_legacy else 0
        if refuse_invalid and crc[batch] != table[CRC, batch]:
            starts[batch] = -2
            damaged += 1
        elif count == 0:
            starts[batch] = -1
        elif codec > largest_codec:
            starts[batch] = -2
            damaged += 1
        elif codec != 0:
            packed += 1
        elif 0 < count <= (ends[batch] - starts[batch]) // SMALLEST_RECORD:
            capacity += count
    return damaged, legacy, packed, capacity


@kernel
def lz4_size(data: Any, at: int) -> int:
    """Return the size of a block: little-endian, without the top bit, which means stored."""
    return (
        byte(data, at)
        | byte(data, at + 1) << 8
        | byte(data, at + 2) << 16
        | (byte(data, at + 3) & 0x7F) << 24
    )


@kernel
def lz4_blocks(data: Any, at: int, end: int) -> int:
    """Return how many blocks a frame has; -1 if it is not of the kind that Kafka writes."""
    if end - at < 11 or uint32(data, at) != LZ4_MAGIC or uint32(data, at + 3) != LZ4_DESCRIPTOR:
        return -1
    at += 7
    blocks = 0
    while end - at >= 4:
        size = lz4_size(data, at)
        at += 4
        if size == 0:
            return blocks if at == end and data[at - 1] == 0 else -1
        if size > LZ4_BLOCK or size > end - at:
            return -1
        at += size
        blocks += 1
    return -1


@kernel
def unpack_lz4(data: Any, at: int, blocks: int, out: Any, start: int) -> int:
    """Decompress a frame that `lz4_blocks` counted; return the position reached in `out`, or -1."""
    at += 7
    for _ in range(blocks):
        size = lz4_size(data, at)
        stored = data[at + 3] >= 0x80
        at += 4
        if stored:
            out[start : start + size] = data[at : at + size]
            written = size
        else:
            written = lz4_block(data, at, at + size, out, start, LZ4_BLOCK) + 0
            if written < 0:
                return -1
        at += size
        start += written
    return start


@kernel
def zstd_room(data: Any, at: int, end: int) -> int:
    """Return the most bytes that a payload of one frame can hold; -1 if it is not one frame."""
    if end - at < 9 or uint32(data, at) != ZSTD_MAGIC:
        return -1
    descriptor = byte(data, at + 4)
    if descriptor & 0xE7 != 0:
        return -1  # stores its size, has a dictionary or a checksum: Kafka writes none of these
    at += 6
    room = 0
    while end - at >= 3:
        header = byte(data, at) | byte(data, at + 1) << 8 | byte(data, at + 2) << 16
        kind = header >> 1 & 3
        size = header >> 3
        if kind == 3 or size > ZSTD_BLOCK:
            return -1
        room += ZSTD_BLOCK if kind == 2 else size
        at += 3 + (1 if kind == 1 else size)
        if header & 1:
            return room if at == end else -1
    return -1


@kernel
def unpack_batches(
    data: Any,
    table: Any,
    base: int,
    first: int,
    last: int,
    sound: Any,
    out: Any,
    at: int,
    starts: Any,
    ends: Any,
    zstd: int,
) -> tuple[int, int, bool]:
    """Copy or decompress payloads of magic-2 batches into `out` from `at` on.

    `zstd` is the context for decompression, 0 if there is none. Batches that are not sound are
    skipped. Stops before the first batch for which there is no room or which needs another reader
    (another codec, a frame of another kind, damage), and leaves it to the caller. Returns (that
    batch, the position reached in `out`, whether it stopped for lack of room).
    """
    room = len(out)
    for batch in range(first, last):
        if not sound[batch]:
            continue
        start = table[POSITION, batch] - base + RECORD_BATCH_OVERHEAD
        end = table[POSITION, batch] - base + table[SIZE_IN_BYTES, batch]
        codec = table[ATTRIBUTES, batch] & CODEC_MASK
        if codec == 0:
            reached = at + end - start
            if reached > room:
                return batch, at, True
            out[at:reached] = data[start:end]
        elif codec == LZ4:
            blocks = lz4_blocks(data, start, end)
            if blocks < 0 or blocks * LZ4_BLOCK > room - at:
                return batch, at, blocks > 0
            reached = unpack_lz4(data, start, blocks, out, at)
            if reached < 0:
                return batch, at, False
        elif codec == ZSTD and zstd != 0:
            needed = zstd_room(data, start, end)
            if needed < 0 or needed > room - at:
                return batch, at, needed > 0
            written = zstd_unpack(zstd, data, start, end, out, at, needed) + 0
            if written < 0:
                return batch, at, False
            reached = at + written
        else:
            return batch, at, False
        starts[batch] = at
        ends[batch] = reached
        at = reached
    return last, at, False


@kernel
def decode_records(
    data: Any,
    base: int,
    table: Any,
    starts: Any,
    ends: Any,
    crc: Any,
    verify: bool,
    refuse_invalid: bool,
    longs: Any,
    ints: Any,
    counts: Any,
) -> tuple[int, int]:
    """Decode the records of magic-2 batches whose uncompressed payloads are in `data`.

    With `verify`, `data` is the file from `base` on, and the checksum of each batch is computed
    into `crc` just before the batch is decoded, so that its bytes are in the cache. `counts[batch]`
    becomes the number of its records, or -1 if the batch is not sound (then it has no rows); with
    `refuse_invalid`, a batch with a wrong checksum is not sound. A batch with a negative start is
    skipped. Returns how many rows there are, and how many batches were not sound.
    """
    row = 0
    damaged = 0
    for batch in range(table.shape[1]):
        reached = row
        if verify:
            crc[batch] = checksum_batch(data, base, table, batch)
        if verify and refuse_invalid and crc[batch] != table[CRC, batch]:
            reached = -1
        elif starts[batch] >= 0:
            reached = decode_batch_records(
                data, table, starts[batch] + 0, ends[batch] + 0, batch, longs, ints, row
            )
        if reached < 0:
            counts[batch] = -1
            damaged += 1
        else:
            counts[batch] = reached - row
            row = reached
    return row, damaged


@kernel
def skip_headers(data: Any, at: int, end: int, count: int) -> int:
    """Return the position after `count` headers of a record, or -1 if they do not fit."""
    for _ in range(count):
        length, at = varint(data, at, end)
        if at < 0 or length < 0 or length > end - at:
            return -1
        length, at = varint(data, at + length, end)
        if at < 0 or length > end - at:
            return -1
        at += max(length, 0)
    return at


@kernel
def decode_next_records(
    data: Any,
    table: Any,
    at: int,
    end: int,
    count: int,
    batch: int,
    longs: Any,
    ints: Any,
    row: int,
) -> int:
    """Decode the next `count` records of a batch into rows; return the position after, or -1."""
    base_offset = int(table[BASE_OFFSET, batch])
    append_time = (table[ATTRIBUTES, batch] & LOG_APPEND_TIME) != 0
    base_timestamp = int(table[BASE_TIMESTAMP, batch])
    max_timestamp = int(table[MAX_TIMESTAMP, batch])
    for _ in range(count):
        length, at = varint(data, at, end)
        if at < 0 or length < 1 or length > end - at:
            return -1
        record_end = at + length
        timestamp_delta, at = varlong(data, at + 1, record_end)
        if at < 0:
            return -1
        offset_delta, at = varint(data, at, record_end)
        if at < 0:
            return -1
        longs[OFFSET, row] = wrap(base_offset + offset_delta)
        if append_time:
            longs[TIMESTAMP, row] = max_timestamp
        else:
            longs[TIMESTAMP, row] = wrap(base_timestamp + timestamp_delta)
        length, at = varint(data, at, record_end)
        if at < 0 or length > record_end - at:
            return -1
        longs[KEY_POSITION, row] = at
        ints[KEY_LENGTH, row] = max(length, -1)
        at += max(length, 0)
        length, at = varint(data, at, record_end)
        if at < 0 or length > record_end - at:
            return -1
        longs[VALUE_POSITION, row] = at
        ints[VALUE_LENGTH, row] = max(length, -1)
        at += max(length, 0)
        headers, at = varint(data, at, record_end)
        if at < 0 or headers < 0 or headers > record_end - at:
            return -1
        ints[HEADERS_COUNT, row] = headers
        if headers > 0:
            at = skip_headers(data, at, record_end, headers)
        if at != record_end:
            return -1
        # The same value, but known since the length was read: the processor can begin the next
        # record before the fields of this one are parsed.
        at = record_end
        row += 1
    return at


@kernel
def decode_batch_records(
    data: Any, table: Any, at: int, end: int, batch: int, longs: Any, ints: Any, row: int
) -> int:
    """Decode the records of one batch from `row` on; return the row after, or -1 if not sound."""
    count = table[RECORD_COUNT, batch] + 0
    if count == 0:
        return row  # like Kafka, ignore what follows
    if count < 0 or count > (end - at) // SMALLEST_RECORD:
        return -1
    at = decode_next_records(data, table, at, end, count, batch, longs, ints, row)
    return row + count if at == end else -1


@kernel
def record_positions(data: Any, table: Any, starts: Any, counts: Any, out: Any) -> None:
    """Find where each decoded record begins: with its length or, in magic 0 and 1, its offset."""
    row = 0
    for batch in range(len(counts)):
        at = starts[batch] + 0
        for _ in range(counts[batch]):
            out[row] = at
            if table[MAGIC, batch] < 2:
                at += LOG_OVERHEAD + int32(data, at + LENGTH_AT)
            else:
                length, at = varint(data, at, len(data))
                at += length
            row += 1


@kernel
def record_attributes(data: Any, positions: Any, legacy: bool, out: Any) -> None:
    for row in range(len(positions)):
        at = positions[row] + 0
        if legacy:
            at += MESSAGE_ATTRIBUTES_AT
        else:
            at = varint(data, at, len(data))[1]
        attributes = byte(data, at)
        out[row] = attributes - 0x100 if attributes > 0x7F else attributes


@kernel
def stored_timestamps(data: Any, table: Any, positions: Any, counts: Any, out: Any) -> None:
    row = 0
    for batch in range(len(counts)):
        base_timestamp = int(table[BASE_TIMESTAMP, batch])
        for _ in range(counts[batch]):
            at = positions[row] + 0
            if table[MAGIC, batch] >= 2:
                at = varint(data, at, len(data))[1]
                out[row] = wrap(base_timestamp + varlong(data, at + 1, len(data))[0])
            else:
                out[row] = -1
                if byte(data, at + MAGIC_AT) > 0:
                    out[row] = int64(data, at + MESSAGE_TIMESTAMP_AT)
            row += 1


@kernel
def headers_position(data: Any, longs: Any, ints: Any, row: int) -> int:
    """Return where the first header of a decoded magic-2 record begins: after the count."""
    at = longs[VALUE_POSITION, row] + max(ints[VALUE_LENGTH, row], 0)
    return varint(data, at, len(data))[1]


@kernel
def headers_positions(data: Any, longs: Any, ints: Any, out: Any) -> None:
    for row in range(len(out)):
        out[row] = headers_position(data, longs, ints, row)


@kernel
def decode_headers(data: Any, longs: Any, ints: Any, header_longs: Any, header_ints: Any) -> None:
    """Decode the headers of records, one row per header; the records are known to be sound."""
    row = 0
    end = len(data)
    for record in range(longs.shape[1]):
        at = headers_position(data, longs, ints, record)
        for _ in range(ints[HEADERS_COUNT, record]):
            length, at = varint(data, at, end)
            header_ints[HEADER_RECORD, row] = record
            header_ints[HEADER_KEY_LENGTH, row] = length
            header_longs[HEADER_KEY_POSITION, row] = at
            length, at = varint(data, at + length, end)
            header_ints[HEADER_VALUE_LENGTH, row] = max(length, -1)
            header_longs[HEADER_VALUE_POSITION, row] = at
            at += max(length, 0)
            row += 1
