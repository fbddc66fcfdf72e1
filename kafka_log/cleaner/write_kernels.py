"""What is left of judged batches, into one buffer: copied, or built anew as Kafka builds it.

    table, longs, ints, edges    as kafka_format.columnar has them, of one piece
    source, base                 the bytes that the batches lie in, and where those begin
    plain, starts                the bytes that the records lie in, and where those of a batch begin
    chunks   int64[field, chunk] of the block: CHUNK_FIELDS
    written  int64[field, batch] of what was written: WRITTEN_FIELDS
    state    int64[field]        carried from call to call: STATE_FIELDS

A record that is as Kafka would write it keeps its bytes, but for the distance from the base
timestamp. Whatever is not for a kernel (`why`) the caller does, batch by batch.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from kafka_format.columnar import kernels as k
from kafka_format.columnar import native, native_codecs, rewrite
from kafka_format.columnar.compilation import Kernels
from kafka_format.columnar.kernels import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    CODEC_MASK,
    HEADERS_COUNT,
    KEY_LENGTH,
    KEY_POSITION,
    LAST_OFFSET_DELTA,
    LOG_APPEND_TIME,
    LZ4,
    LZ4_BLOCK,
    MAX_TIMESTAMP,
    OFFSET,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    RECORD_BATCH_OVERHEAD,
    SIZE_IN_BYTES,
    TIMESTAMP,
    VALUE_LENGTH,
    VALUE_POSITION,
    byte,
    varint,
    wrap,
)
from kafka_format.columnar.native import crc32c_range
from kafka_format.columnar.native_codecs import copy_range
from kafka_format.columnar.rewrite import put_varlong, varlong_size

if TYPE_CHECKING:
    from types import SimpleNamespace

lz4_pack: Any = None  # bound where they are linked
zstd_pack: Any = None

# What becomes of a batch.
DELETE_EMPTY = 0
RETAIN_EMPTY = 1
DELETE = 2

# Why `write_batches` stopped.
ALL_WRITTEN = 0
FOR_ROWS = 1  # the batch is for the caller
TO_BE_EMPTIED = 2  # of the batch only the header stays, which the caller writes
NO_ROOM = 3
CHUNK_FULL = 4  # more was written than a chunk may hold: another begins

# Rows of `state`.
CHUNK = 0
CHUNK_START = 1  # in the buffer
CHUNK_MAX_OFFSET = 2
MESSAGES_READ = 3
MESSAGES_RETAINED = 4
WITHOUT_KEY = 5
WRITTEN = 6  # batches
STATE_FIELDS = 7

# Rows of `chunks`: how many batches lie before its end; then, in the buffer, where it ends.
LAST_BATCH = 0
END = 1
LARGEST_OFFSET = 2
CHUNK_FIELDS = 3

# Rows of `written`, as kafka_log.indexes.kernels takes them.
WRITTEN_POSITION = 0
WRITTEN_LAST_OFFSET = 1
WRITTEN_MAX_TIMESTAMP = 2
WRITTEN_IS_VALID = 3
WRITTEN_FIELDS = 4

_TRANSACTIONAL = 0x10
_DELETE_HORIZON = 0x40
_KEPT_ATTRIBUTES = 0x1F  # codec, timestamp type, transactional
_PER_RECORD = 24  # that a record may grow by: its length and its distance in time
_NOT_FOR_US = -1
_INT32_MAX = 2**31 - 1
_INT32_MIN = -(2**31)

kernel = Kernels()


@cache
def load() -> SimpleNamespace:
    """Compiled: nobody writes batches by columns otherwise."""
    loaded = k.load(compiled=True)
    records = rewrite.load(compiled=True)
    names = {name: getattr(loaded, name) for name in ("byte", "varint", "wrap")}
    names |= {name: getattr(records, name) for name in ("put_varlong", "varlong_size")}
    names["crc32c_range"] = native.compiled_functions()["crc32c_range"]
    linked = native_codecs.linked()
    names["copy_range"] = linked["copy_range"]
    names["lz4_pack"] = linked.get("lz4_pack", loaded.wrap)
    names["zstd_pack"] = linked.get("zstd_pack", loaded.wrap)
    return kernel.compiled(globals() | names)


@kernel
def put_int(out: Any, at: int, value: int, size: int) -> None:
    """Big-endian."""
    for i in range(size):
        out[at + i] = (value >> (8 * (size - 1 - i))) & 0xFF


@kernel
def has_plain_headers(data: Any, at: int, end: int, count: int) -> bool:
    """Whether Kafka would write these headers as they are; `at` is where they are counted.

    Keys go through a Java String, so only those of ASCII are sure to come out as they went in.
    """
    behind = varint(data, at, end)[1]
    if behind - at != varlong_size(count):
        return False
    at = behind
    for _ in range(count):
        length, behind = varint(data, at, end)
        if behind - at != varlong_size(length) or behind - at > 4:
            return False
        at = behind
        for i in range(length):
            if byte(data, at + i) >= 0x80:
                return False
        at += length
        length, behind = varint(data, at, end)
        if length < -1 or behind - at != varlong_size(length) or behind - at > 4:
            return False
        at = behind + max(length, 0)
    return at == end


@kernel
def put_record(
    plain: Any, at: int, end: int, longs: Any, ints: Any, row: int, delta: int, out: Any, to: int
) -> int:
    """One record with another distance from the base timestamp; -1 if Kafka would change more.

    Its body lies from `at` to `end`.
    """
    key_length = ints[KEY_LENGTH, row] + 0
    value_length = ints[VALUE_LENGTH, row] + 0
    headers = ints[HEADERS_COUNT, row] + 0
    if byte(plain, at) != 0:
        return _NOT_FOR_US
    at += 1
    while byte(plain, at) >= 0x80:
        at += 1
    at += 1  # behind the timestamp
    key_at = longs[KEY_POSITION, row]
    value_at = longs[VALUE_POSITION, row]
    # As short as can be, so no field could be written in another way; null is -1, one byte of 1.
    behind = at
    while byte(plain, behind) >= 0x80:
        behind += 1
    if behind - at > 3 or (behind > at and byte(plain, behind) == 0):
        return _NOT_FOR_US
    if key_at - behind - 1 != varlong_size(key_length):
        return _NOT_FOR_US
    if key_length < 0 and byte(plain, key_at - 1) != 1:
        return _NOT_FOR_US
    if value_length < 0 and byte(plain, value_at - 1) != 1:
        return _NOT_FOR_US
    if value_at - key_at - max(key_length, 0) != varlong_size(value_length):
        return _NOT_FOR_US
    behind = value_at + max(value_length, 0)
    if end - behind != 1 and not has_plain_headers(plain, behind, end, headers):
        return _NOT_FOR_US
    to = put_varlong(out, to, 1 + varlong_size(delta) + end - at)
    out[to] = 0
    to = put_varlong(out, to + 1, delta)
    return copy_range(plain, at, end, out, to)


@kernel
def put_records(
    plain: Any,
    start: int,
    longs: Any,
    ints: Any,
    is_kept: Any,
    first: int,
    last: int,
    base_offset: int,
    base_timestamp: int,
    out: Any,
    to: int,
) -> int:
    """Those of a batch's rows that are kept; where they end, or -1."""
    at = start
    end = len(plain)
    previous = 0
    is_first = True
    for row in range(first, last):
        length, at = varint(plain, at, end)
        if is_kept[row] != 0:
            offset = longs[OFFSET, row]
            timestamp = longs[TIMESTAMP, row]
            distance = wrap(offset - base_offset)
            if timestamp < -1 or distance < _INT32_MIN or distance > _INT32_MAX:
                return _NOT_FOR_US
            if not is_first and offset <= previous:
                return _NOT_FOR_US
            is_first = False
            previous = offset
            delta = wrap(timestamp - base_timestamp)
            to = put_record(plain, at, at + length, longs, ints, row, delta, out, to)
            if to < 0:
                return _NOT_FOR_US
        at += length
    return to


@kernel
def put_lz4(data: Any, size: int, out: Any, to: int) -> int:
    """A frame of Kafka's own kind."""
    put_int(out, to, 0x0422_4D18_6040_82, 7)
    to += 7
    at = 0
    while at < size:
        end = min(at + LZ4_BLOCK, size)
        packed = lz4_pack(data, at, end, out, to + 4, LZ4_BLOCK + 1024) + 0
        word = packed
        if packed == 0 or packed >= end - at:
            packed = end - at
            word = packed | 0x8000_0000
            copy_range(data, at, end, out, to + 4)
        for i in range(4):
            out[to + i] = (word >> (8 * i)) & 0xFF
        to += 4 + packed
        at = end
    put_int(out, to, 0, 4)
    return to + 4


@kernel
def put_header(
    source: Any,
    at: int,
    end: int,
    attributes: int,
    base_timestamp: int,
    max_timestamp: int,
    count: int,
    out: Any,
    to: int,
) -> None:
    """Of a batch that ends at `end`: as it was, with these fields and a checksum."""
    copy_range(source, at, at + RECORD_BATCH_OVERHEAD, out, to)
    put_int(out, to + 8, end - to - 12, 4)
    put_int(out, to + 21, attributes, 2)
    put_int(out, to + 27, base_timestamp, 8)
    put_int(out, to + 35, max_timestamp, 8)
    put_int(out, to + 57, count, 4)
    put_int(out, to + 17, crc32c_range(out, to + 21, end), 4)


@kernel
def is_writable(table: Any, batch: int) -> bool:
    """Whether Kafka's builder takes these fields; what it says otherwise the row encoder knows."""
    if table[PRODUCER_ID, batch] == -1:
        return (table[ATTRIBUTES, batch] & _TRANSACTIONAL) == 0  # type: ignore[no-any-return]
    return table[PRODUCER_EPOCH, batch] != -1 and table[BASE_SEQUENCE, batch] >= 0  # type: ignore[no-any-return]


@kernel
def behind_headers(data: Any, at: int, count: int) -> int:
    """Where the headers of a sound record end that are counted at `at`."""
    end = len(data)
    at = varint(data, at, end)[1]
    for _ in range(count):
        length, at = varint(data, at, end)
        length, at = varint(data, at + length, end)
        at += max(length, 0)
    return at


@kernel
def largest_size(plain: Any, longs: Any, ints: Any, first: int, last: int, start: int) -> int:
    """Bytes that the rows of a batch can become, packed or not."""
    at = longs[VALUE_POSITION, last - 1] + max(ints[VALUE_LENGTH, last - 1], 0)
    size = behind_headers(plain, at, ints[HEADERS_COUNT, last - 1] + 0) - start
    size += _PER_RECORD * (last - first) + RECORD_BATCH_OVERHEAD
    return size + size // 128 + (size // LZ4_BLOCK + 1) * 2048


@kernel
def rebuild(
    source: Any,
    base: int,
    table: Any,
    batch: int,
    plain: Any,
    start: int,
    longs: Any,
    ints: Any,
    first: int,
    last: int,
    is_kept: Any,
    kept: int,
    horizon: int,
    has_horizon: bool,
    codecs: Any,
    scratch: Any,
    out: Any,
    to: int,
) -> tuple[int, int, int]:
    """A batch of its kept rows; where it ends (or -1), its largest offset and timestamp."""
    attributes = table[ATTRIBUTES, batch]
    codec = attributes & CODEC_MASK
    base_timestamp = horizon
    largest = -1
    latest = -1
    is_first = True
    for row in range(first, last):
        if is_kept[row] != 0:
            largest = max(largest, longs[OFFSET, row])
            if is_first:
                latest = longs[TIMESTAMP, row]
                base_timestamp = horizon if has_horizon else latest
                is_first = False
            latest = max(latest, longs[TIMESTAMP, row])
    if attributes & LOG_APPEND_TIME:
        latest = table[MAX_TIMESTAMP, batch]
    body = to + RECORD_BATCH_OVERHEAD
    offset = table[BASE_OFFSET, batch] + 0
    if codec == 0:
        end = put_records(
            plain, start, longs, ints, is_kept, first, last, offset, base_timestamp, out, body
        )
    else:
        size = put_records(
            plain, start, longs, ints, is_kept, first, last, offset, base_timestamp, scratch, 0
        )
        end = -1
        if size >= 0 and codec == LZ4:
            end = put_lz4(scratch, size, out, body)
        elif size >= 0:
            room = len(out) - body
            packed = zstd_pack(codecs[0], scratch, 0, size, out, body, room, codecs[1:]) + 0
            end = body + packed if packed >= 0 else -1
    if end >= 0:
        attributes = (attributes & _KEPT_ATTRIBUTES) | (_DELETE_HORIZON if has_horizon else 0)
        at = table[POSITION, batch] - base
        put_header(source, at, end, attributes, base_timestamp, latest, kept, out, to)
    return end, largest, latest


@kernel
def note_written(
    state: Any, written: Any, at: int, last_offset: int, max_timestamp: int, max_offset: int
) -> None:
    """A batch of `last_offset`, which counts as one up to `max_offset`."""
    count = state[WRITTEN]
    written[WRITTEN_POSITION, count] = at
    written[WRITTEN_LAST_OFFSET, count] = last_offset
    written[WRITTEN_MAX_TIMESTAMP, count] = max_timestamp
    written[WRITTEN_IS_VALID, count] = 1
    state[WRITTEN] = count + 1
    state[CHUNK_MAX_OFFSET] = max(state[CHUNK_MAX_OFFSET], max_offset)


@kernel
def end_chunks(state: Any, chunks: Any, batch: int, at: int) -> None:
    """What was written up to this batch of the block belongs to chunks that are complete."""
    while state[CHUNK] < chunks.shape[1] and chunks[LAST_BATCH, state[CHUNK]] <= batch:
        chunks[END, state[CHUNK]] = at
        chunks[LARGEST_OFFSET, state[CHUNK]] = state[CHUNK_MAX_OFFSET]
        state[CHUNK] += 1
        state[CHUNK_START] = at
        state[CHUNK_MAX_OFFSET] = -1


@kernel
def write_batches(
    source: Any,
    base: int,
    table: Any,
    plain: Any,
    starts: Any,
    longs: Any,
    ints: Any,
    edges: Any,
    is_kept: Any,
    counts: Any,
    fates: Any,
    discards: Any,
    first_batch: int,
    begin: int,
    stop: int,
    new_horizon: int,
    packs: int,
    capacity: int,
    codecs: Any,
    chunks: Any,
    state: Any,
    written: Any,
    scratch: Any,
    out: Any,
    to: int,
) -> tuple[int, int, int]:
    """The batches from `begin` to `stop` of a piece; which was next, where it wrote to, and why.

    `packs` has the bit of each codec that can be written here. Fates are those of the block, in
    which `first_batch` is the place of the piece.
    """
    for batch in range(begin, stop):
        end_chunks(state, chunks, first_batch + batch, to)
        if to - state[CHUNK_START] > capacity:
            return batch, to, CHUNK_FULL
        fate = fates[first_batch + batch]
        is_discarded = discards[first_batch + batch] != 0
        if fate == DELETE:
            continue
        first = edges[batch]
        last = edges[batch + 1]
        attributes = table[ATTRIBUTES, batch]
        kept = 0 if is_discarded else counts[batch, 0]
        has_own = (attributes & _DELETE_HORIZON) != 0
        wants_horizon = counts[batch, 1] > 0 and not has_own
        last_offset = wrap(table[BASE_OFFSET, batch] + table[LAST_OFFSET_DELTA, batch])
        if kept > 0 and kept == last - first and not wants_horizon:
            at = table[POSITION, batch] - base
            size = table[SIZE_IN_BYTES, batch]
            if to + size > len(out):
                return batch, to, NO_ROOM
            timestamp = table[MAX_TIMESTAMP, batch]
            note_written(state, written, to, last_offset, timestamp, last_offset)
            to = copy_range(source, at, at + size, out, to)
        elif kept > 0:
            if not is_writable(table, batch) or (packs >> (attributes & CODEC_MASK)) & 1 == 0:
                return batch, to, FOR_ROWS
            room = largest_size(plain, longs, ints, first, last, starts[batch])
            if to + room > len(out) or room > len(scratch):
                return batch, to, NO_ROOM
            horizon = new_horizon if wants_horizon else table[BASE_TIMESTAMP, batch]
            has_horizon = (wants_horizon or has_own) and horizon >= 0
            end, largest, timestamp = rebuild(
                source,
                base,
                table,
                batch,
                plain,
                starts[batch] + 0,
                longs,
                ints,
                first,
                last,
                is_kept,
                kept,
                horizon,
                has_horizon,
                codecs,
                scratch,
                out,
                to,
            )
            if end < 0:
                return batch, to, FOR_ROWS
            note_written(state, written, to, last_offset, timestamp, largest)
            to = end
        elif fate == RETAIN_EMPTY:
            return batch, to, TO_BE_EMPTIED
        state[MESSAGES_READ] += last - first
        state[MESSAGES_RETAINED] += kept
        if not is_discarded:
            state[WITHOUT_KEY] += counts[batch, 2]
    return stop, to, ALL_WRITTEN
