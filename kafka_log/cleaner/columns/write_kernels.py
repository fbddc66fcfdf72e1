"""Writes what filtered batches retain into one buffer: copied, or built as Kafka builds it.

    BatchSource one piece: batches and records as kafka_format.columnar has them
    Decisions   the decision on each of its batches and records, by reason codes
    Sink        the target, and the state that is carried from call to call

A record that is encoded as Kafka would encode it keeps its bytes, except for its timestamp delta.
Whatever a kernel cannot write (`why`), the caller writes, batch by batch.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_format.attributes import DELETE_HORIZON, TRANSACTIONAL
from kafka_format.batch_layout import (
    ATTRIBUTES_AT,
    BASE_TIMESTAMP_AT,
    CRC_AT,
    LENGTH_AT,
    LENGTH_END,
    MAX_TIMESTAMP_AT,
    RECORD_COUNT_AT,
)
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
from kafka_log.cleaner import decision
from kafka_log.cleaner.decision import (
    BATCH_DROPPED,
    NULL_VALUES_KEPT,
    RECORDS_KEPT,
    WITHOUT_KEY,
    needs_horizon,
)
from kafka_log.cleaner.reasons import REMOVED_FROM

if TYPE_CHECKING:
    from types import SimpleNamespace

lz4_pack: Any = None  # bound by `load`, if linked
zstd_pack: Any = None

# Why `write_batches` stopped.
ALL_WRITTEN = 0
FOR_ROWS = 1  # the caller must write the batch
TO_BE_EMPTIED = 2  # the batch keeps only its header, which the caller writes
NO_ROOM = 3
CHUNK_FULL = 4  # more was written than a chunk may hold: another begins

# Rows of `state`.
CHUNK = 0
CHUNK_START = 1  # in the buffer
CHUNK_MAX_OFFSET = 2
MESSAGES_READ = 3
MESSAGES_RETAINED = 4
INVALID_MESSAGES_READ = 5
WRITTEN = 6  # batches
STATE_FIELDS = 7

# Rows of `chunks`: the number of batches before its end; its end in the buffer; its offset.
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

_KEPT_ATTRIBUTES = CODEC_MASK | LOG_APPEND_TIME | TRANSACTIONAL
_PER_RECORD = 24  # bytes that a record may grow by: its length and its timestamp delta
_NOT_FOR_US = -1
_INT32_MAX = 2**31 - 1
_INT32_MIN = -(2**31)


class BatchSource(NamedTuple):
    """One piece of a block."""

    data: Any
    """The bytes of its batches."""
    base: int
    """Their position in the file."""
    table: Any
    plain: Any
    """The bytes of its records."""
    starts: Any
    """Per batch: where its records begin in `plain`."""
    longs: Any
    ints: Any
    edges: Any


class Decisions(NamedTuple):
    reasons: Any
    """Per row."""
    counts: Any
    """Per batch: RECORDS_KEPT, NULL_VALUES_KEPT, WITHOUT_KEY."""
    batch_reasons: Any
    """Per batch of the block; `first_batch` is the first one of the piece."""
    first_batch: int
    new_horizon: int


class Sink(NamedTuple):
    packs: int
    """The bits of the codecs that kernels can write."""
    capacity: int
    """The size of a chunk."""
    codecs: Any
    """The state of codecs, carried from call to call."""
    chunks: Any
    """int64[field, chunk] of the block: CHUNK_FIELDS."""
    state: Any
    """int64[field], carried from call to call: STATE_FIELDS."""
    written: Any
    """int64[field, batch] of what was written: WRITTEN_FIELDS."""
    scratch: Any
    out: Any


kernel = Kernels()


@cache
def load() -> SimpleNamespace:
    """Return compiled kernels: batches are written by columns only if numba is there."""
    loaded = k.load(compiled=True)
    records = rewrite.load(compiled=True)
    names = {name: getattr(loaded, name) for name in ("byte", "varint", "wrap")}
    names |= {name: getattr(records, name) for name in ("put_varlong", "varlong_size")}
    names["needs_horizon"] = decision.load().needs_horizon
    names["crc32c_range"] = native.compiled_functions()["crc32c_range"]
    linked = native_codecs.linked()
    names["copy_range"] = linked["copy_range"]
    names["lz4_pack"] = linked.get("lz4_pack", loaded.wrap)
    names["zstd_pack"] = linked.get("zstd_pack", loaded.wrap)
    return kernel.compiled(globals() | names)


@kernel
def put_int(out: Any, at: int, value: int, size: int) -> None:
    """Write a big-endian number."""
    for i in range(size):
        out[at + i] = (value >> (8 * (size - 1 - i))) & 0xFF


@kernel
def has_plain_headers(data: Any, at: int, end: int, count: int) -> bool:
    """Return whether Kafka would write these headers unchanged; `at` is where their count is.

    Keys pass through a Java String, so only ASCII keys are certain to stay the same.
    """
    after = varint(data, at, end)[1]
    if after - at != varlong_size(count):
        return False
    at = after
    for _ in range(count):
        length, after = varint(data, at, end)
        if after - at != varlong_size(length) or after - at > 4:
            return False
        at = after
        for i in range(length):
            if byte(data, at + i) >= 0x80:
                return False
        at += length
        length, after = varint(data, at, end)
        if length < -1 or after - at != varlong_size(length) or after - at > 4:
            return False
        at = after + max(length, 0)
    return at == end


@kernel
def put_record(  # many parameters: kernels take arrays
    plain: Any, at: int, end: int, longs: Any, ints: Any, row: int, delta: int, out: Any, to: int
) -> int:
    """Write a record with another timestamp delta; return -1 if Kafka would change more.

    Its body is from `at` to `end`.
    """
    key_length = ints[KEY_LENGTH, row] + 0
    value_length = ints[VALUE_LENGTH, row] + 0
    headers = ints[HEADERS_COUNT, row] + 0
    if byte(plain, at) != 0:
        return _NOT_FOR_US
    at += 1
    while byte(plain, at) >= 0x80:
        at += 1
    at += 1  # after the timestamp
    key_at = longs[KEY_POSITION, row]
    value_at = longs[VALUE_POSITION, row]
    # Varints must be as short as possible, as Kafka writes them; null is one byte, 1.
    after = at
    while byte(plain, after) >= 0x80:
        after += 1
    if after - at > 3 or (after > at and byte(plain, after) == 0):
        return _NOT_FOR_US
    if key_at - after - 1 != varlong_size(key_length):
        return _NOT_FOR_US
    if key_length < 0 and byte(plain, key_at - 1) != 1:
        return _NOT_FOR_US
    if value_length < 0 and byte(plain, value_at - 1) != 1:
        return _NOT_FOR_US
    if value_at - key_at - max(key_length, 0) != varlong_size(value_length):
        return _NOT_FOR_US
    after = value_at + max(value_length, 0)
    if end - after != 1 and not has_plain_headers(plain, after, end, headers):
        return _NOT_FOR_US
    to = put_varlong(out, to, 1 + varlong_size(delta) + end - at)
    out[to] = 0
    to = put_varlong(out, to + 1, delta)
    return copy_range(plain, at, end, out, to)


@kernel
def put_records(  # many parameters: kernels take arrays
    plain: Any,
    start: int,
    longs: Any,
    ints: Any,
    reasons: Any,
    first: int,
    last: int,
    base_offset: int,
    base_timestamp: int,
    out: Any,
    to: int,
) -> int:
    """Write the kept rows of a batch; return their end, or -1."""
    at = start
    end = len(plain)
    previous = 0
    is_first = True
    for row in range(first, last):
        length, at = varint(plain, at, end)
        if reasons[row] < REMOVED_FROM:
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
    """Write a frame as Kafka writes it; return its end."""
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
def put_header(  # many parameters: kernels take arrays
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
    """Write the header of a batch that ends at `end`: the old one with these fields changed."""
    copy_range(source, at, at + RECORD_BATCH_OVERHEAD, out, to)
    put_int(out, to + LENGTH_AT, end - to - LENGTH_END, 4)
    put_int(out, to + ATTRIBUTES_AT, attributes, 2)
    put_int(out, to + BASE_TIMESTAMP_AT, base_timestamp, 8)
    put_int(out, to + MAX_TIMESTAMP_AT, max_timestamp, 8)
    put_int(out, to + RECORD_COUNT_AT, count, 4)
    put_int(out, to + CRC_AT, crc32c_range(out, to + ATTRIBUTES_AT, end), 4)


@kernel
def is_writable(table: Any, batch: int) -> bool:
    """Return whether Kafka's builder accepts these fields; else the row encoder raises."""
    if table[PRODUCER_ID, batch] == -1:
        return (table[ATTRIBUTES, batch] & TRANSACTIONAL) == 0  # type: ignore[no-any-return]
    return table[PRODUCER_EPOCH, batch] != -1 and table[BASE_SEQUENCE, batch] >= 0  # type: ignore[no-any-return]


@kernel
def end_of_headers(data: Any, at: int, count: int) -> int:
    """Return the end of the headers of a sound record, whose count is at `at`."""
    end = len(data)
    at = varint(data, at, end)[1]
    for _ in range(count):
        length, at = varint(data, at, end)
        length, at = varint(data, at + length, end)
        at += max(length, 0)
    return at


@kernel
def largest_size(source: Any, batch: int) -> int:
    """Return the largest size that the rows of a batch can get, compressed or not."""
    first = source.edges[batch]
    last = source.edges[batch + 1] - 1
    at = source.longs[VALUE_POSITION, last] + max(source.ints[VALUE_LENGTH, last], 0)
    end = end_of_headers(source.plain, at, source.ints[HEADERS_COUNT, last] + 0)
    size = end - source.starts[batch] + _PER_RECORD * (last + 1 - first) + RECORD_BATCH_OVERHEAD
    return size + size // 128 + (size // LZ4_BLOCK + 1) * 2048  # type: ignore[no-any-return]


@kernel
def reach_of(source: Any, batch: int, reasons: Any) -> tuple[int, int, int]:
    """Return the largest offset, the first and the largest timestamp of the kept rows."""
    largest = -1
    earliest = -1
    latest = -1
    is_first = True
    for row in range(source.edges[batch], source.edges[batch + 1]):
        if reasons[row] < REMOVED_FROM:
            timestamp = source.longs[TIMESTAMP, row]
            largest = max(largest, source.longs[OFFSET, row])
            if is_first:
                earliest = timestamp
                latest = timestamp
                is_first = False
            latest = max(latest, timestamp)
    return largest, earliest, latest


@kernel
def put_body(source: Any, batch: int, reasons: Any, base_timestamp: int, sink: Any, to: int) -> int:
    """Write the kept rows of a batch, compressed as before; return their end, or -1."""
    codec = source.table[ATTRIBUTES, batch] & CODEC_MASK
    plain = codec == 0
    target = sink.out if plain else sink.scratch
    end = put_records(
        source.plain,
        source.starts[batch] + 0,
        source.longs,
        source.ints,
        reasons,
        source.edges[batch] + 0,
        source.edges[batch + 1] + 0,
        source.table[BASE_OFFSET, batch] + 0,
        base_timestamp,
        target,
        to if plain else 0,
    )
    if plain or end < 0:
        return end
    if codec == LZ4:
        return put_lz4(target, end, sink.out, to)
    room = len(sink.out) - to
    packed = zstd_pack(sink.codecs[0], target, 0, end, sink.out, to, room, sink.codecs[1:]) + 0
    return to + packed if packed >= 0 else _NOT_FOR_US


@kernel
def rebuild(
    source: Any, decisions: Any, sink: Any, batch: int, kept: int, has_new_horizon: bool, to: int
) -> tuple[int, int, int]:
    """Build a batch of its kept rows; return its end (or -1), largest offset and timestamp."""
    attributes = source.table[ATTRIBUTES, batch]
    horizon = decisions.new_horizon if has_new_horizon else source.table[BASE_TIMESTAMP, batch]
    has_horizon = (has_new_horizon or (attributes & DELETE_HORIZON) != 0) and horizon >= 0
    largest, base_timestamp, latest = reach_of(source, batch, decisions.reasons)
    if has_horizon:
        base_timestamp = horizon
    if attributes & LOG_APPEND_TIME:
        latest = source.table[MAX_TIMESTAMP, batch]
    body = to + RECORD_BATCH_OVERHEAD
    end = put_body(source, batch, decisions.reasons, base_timestamp, sink, body)
    if end >= 0:
        attributes = (attributes & _KEPT_ATTRIBUTES) | (DELETE_HORIZON if has_horizon else 0)
        at = source.table[POSITION, batch] - source.base
        put_header(source.data, at, end, attributes, base_timestamp, latest, kept, sink.out, to)
    return end, largest, latest


@kernel
def note_written(
    state: Any, written: Any, at: int, last_offset: int, max_timestamp: int, max_offset: int
) -> None:
    """Note a written batch; `max_offset` counts for its chunk."""
    count = state[WRITTEN]
    written[WRITTEN_POSITION, count] = at
    written[WRITTEN_LAST_OFFSET, count] = last_offset
    written[WRITTEN_MAX_TIMESTAMP, count] = max_timestamp
    written[WRITTEN_IS_VALID, count] = 1
    state[WRITTEN] = count + 1
    state[CHUNK_MAX_OFFSET] = max(state[CHUNK_MAX_OFFSET], max_offset)


@kernel
def end_chunks(state: Any, chunks: Any, batch: int, at: int) -> None:
    """End the chunks that are complete before this batch of the block."""
    while state[CHUNK] < chunks.shape[1] and chunks[LAST_BATCH, state[CHUNK]] <= batch:
        chunks[END, state[CHUNK]] = at
        chunks[LARGEST_OFFSET, state[CHUNK]] = state[CHUNK_MAX_OFFSET]
        state[CHUNK] += 1
        state[CHUNK_START] = at
        state[CHUNK_MAX_OFFSET] = -1


@kernel
def copy_whole(source: Any, sink: Any, batch: int, last_offset: int, to: int) -> tuple[int, int]:
    """Copy a batch; return as write_kept does."""
    at = source.table[POSITION, batch] - source.base
    size = source.table[SIZE_IN_BYTES, batch]
    if to + size > len(sink.out):
        return to, NO_ROOM
    timestamp = source.table[MAX_TIMESTAMP, batch]
    note_written(sink.state, sink.written, to, last_offset, timestamp, last_offset)
    return copy_range(source.data, at, at + size, sink.out, to), ALL_WRITTEN


@kernel
def write_kept(
    source: Any, decisions: Any, sink: Any, batch: int, kept: int, to: int
) -> tuple[int, int]:
    """Write a batch that keeps records; return the new end, and why it was not written."""
    attributes = source.table[ATTRIBUTES, batch]
    has_horizon = (attributes & DELETE_HORIZON) != 0
    gets_horizon = needs_horizon(has_horizon, decisions.counts[batch, NULL_VALUES_KEPT])
    last_offset = wrap(source.table[BASE_OFFSET, batch] + source.table[LAST_OFFSET_DELTA, batch])
    if kept == source.edges[batch + 1] - source.edges[batch] and not gets_horizon:
        return copy_whole(source, sink, batch, last_offset, to)
    is_packed_here = (sink.packs >> (attributes & CODEC_MASK)) & 1 != 0
    if not is_packed_here or not is_writable(source.table, batch):
        return to, FOR_ROWS
    room = largest_size(source, batch)
    if to + room > len(sink.out) or room > len(sink.scratch):
        return to, NO_ROOM
    end, largest, timestamp = rebuild(source, decisions, sink, batch, kept, gets_horizon, to)
    if end < 0:
        return to, FOR_ROWS
    note_written(sink.state, sink.written, to, last_offset, timestamp, largest)
    return end, ALL_WRITTEN


@kernel
def write_batches(
    source: Any, decisions: Any, sink: Any, begin: int, stop: int, to: int
) -> tuple[int, int, int]:
    """Write the batches [begin, stop) of a piece; return the next one, the end, and why."""
    state = sink.state
    for batch in range(begin, stop):
        number = decisions.first_batch + batch
        end_chunks(state, sink.chunks, number, to)
        if to - state[CHUNK_START] > sink.capacity:
            return batch, to, CHUNK_FULL
        if decisions.batch_reasons[number] == BATCH_DROPPED:
            continue
        kept = decisions.counts[batch, RECORDS_KEPT]
        if kept > 0:
            to, why = write_kept(source, decisions, sink, batch, kept, to)
            if why != ALL_WRITTEN:
                return batch, to, why
        elif decisions.batch_reasons[number] < REMOVED_FROM:
            return batch, to, TO_BE_EMPTIED
        state[MESSAGES_READ] += source.edges[batch + 1] - source.edges[batch]
        state[MESSAGES_RETAINED] += kept
        state[INVALID_MESSAGES_READ] += decisions.counts[batch, WITHOUT_KEY]
    return stop, to, ALL_WRITTEN
