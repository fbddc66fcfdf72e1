"""Fill templates from columns, directly into a buffer of bytes: millions of lines per second.

Plain Python that numba compiles, with the rules of kafka_format.columnar.kernels: bytes are read by
index, output is written into arrays that the caller allocated.

A template is passed as `ops`, one row per op:

    LITERAL   a: span                      its bytes
    NUMBER    a: column                    in decimal
    CHOICE    a: column, b: first span     the span at b plus the column's value
    OPTIONAL  a: column, b: flag column, c: span if absent, d: span before, d + 1: span after
    MEMBER    a: position column, a + 1: size column,
              b: spans `"name":null`, `"name":"`, `"name_base64":"`
    KEYS      the keys of a record's headers, joined by commas
    HEADERS   a: 1 with values; the headers as JSON
    CONTENTS  b: spans `key: `, `payload: ` as the first part of a line, and as a later one
    OF_BATCH  the bytes that were rendered for the record's batch

`spans` are ranges of `literals`. `columns` is int64[field, row].
"""

from functools import cache
from types import SimpleNamespace
from typing import Any

from kafka_format.columnar.compilation import Kernels

LITERAL = 0
NUMBER = 1
CHOICE = 2
OPTIONAL = 3
MEMBER = 4
KEYS = 5
HEADERS = 6
CONTENTS = 7
OF_BATCH = 8

# The first columns of records; the others depend on the template.
KEY_POSITION = 0
KEY_SIZE = 1
VALUE_POSITION = 2
VALUE_SIZE = 3
HEADERS_POSITION = 4
HEADERS_COUNT = 5

LONGEST_NUMBER = 20

# Spans that every record's template has, in this order.
KEY_MEMBERS = 0  # three of MEMBER, for a header's key
VALUE_MEMBERS = 3
VALUE_SIZE_MEMBER = 6
FIRST_OWN_SPAN = 7

PAIRS = "".join(f"{pair:02d}" for pair in range(100)).encode()

kernel = Kernels()


@cache
def load(*, compiled: bool) -> SimpleNamespace:
    """Return all kernels by name, as plain Python or compiled."""
    return kernel.compiled(globals() | _intrinsics()) if compiled else kernel.plain()


def pointer(array: Any) -> Any:
    """Return what kernels index: compiled, an address, since numba counts references to arrays."""
    return array.reshape(-1) if hasattr(array, "reshape") else array


def copy(out: Any, at: int, data: Any, start: int, size: int) -> None:
    out[at : at + size] = data[start : start + size]


def _intrinsics() -> dict[str, Any]:
    """Return `pointer` and `copy` as numba intrinsics."""
    from numba.core import cgutils, types
    from numba.extending import intrinsic
    from numba.np import arrayobj

    make_array: Any = arrayobj.make_array  # numba is typed in part
    raw_memcpy: Any = cgutils.raw_memcpy
    pointer_to: Any = types.CPointer

    def compile_pointer(_: Any, array: Any) -> Any:
        def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
            return make_array(array)(context, builder, arguments[0]).data

        return pointer_to(array.dtype)(array), generate

    def compile_copy(_: Any, out: Any, at: Any, data: Any, start: Any, size: Any) -> Any:
        signature = types.void(out, at, data, start, size)

        def generate(_context: Any, builder: Any, _: Any, arguments: Any) -> None:
            out, at, data, start, size = arguments
            target, source = builder.gep(out, [at]), builder.gep(data, [start])
            raw_memcpy(builder, target, source, size, 1)

        return signature, generate

    return {"pointer": intrinsic(compile_pointer), "copy": intrinsic(compile_copy)}


@kernel
def put_number(out: Any, at: int, value: int) -> int:
    if value < 0:
        out[at] = 45
        at += 1
        if value == -0x8000_0000_0000_0000:  # has no positive counterpart
            out[at] = 57
            at += 1
            value = 223_372_036_854_775_808
        else:
            value = -value
    if value < 10:
        out[at] = 48 + value
        return at + 1
    size = 2
    limit = 100
    while size < 19 and value >= limit:
        size += 1
        limit *= 10
    place = at + size - 2
    while place >= at:
        rest = value // 100
        two = (value - rest * 100) * 2
        out[place] = PAIRS[two]
        out[place + 1] = PAIRS[two + 1]
        value = rest
        place -= 2
    if place == at - 1:
        out[at] = 48 + value
    return at + size


@kernel
def put_span(out: Any, at: int, literals: Any, spans: Any, span: int) -> int:
    start = int(spans[2 * span])
    size = int(spans[2 * span + 1]) - start
    copy(out, at, literals, start, size)
    return at + size


@kernel
def put_range(out: Any, at: int, data: Any, start: int, end: int) -> int:
    copy(out, at, data, start, end - start)
    return at + end - start


@kernel
def character_size(data: Any, at: int, end: int) -> int:
    """Return the size of the UTF-8 character at `at`; if invalid, minus what Java replaces."""
    first = data[at] + 0
    if first < 0x80:
        return 1
    if first < 0xC2 or first > 0xF4:
        return -1
    if at + 1 >= end or data[at + 1] & 0xC0 != 0x80:
        return -1
    second = data[at + 1] + 0
    if first < 0xE0:
        return 2
    if (
        (first == 0xE0 and second < 0xA0)
        or (first == 0xF0 and second < 0x90)
        or (first == 0xF4 and second > 0x8F)
    ):
        return -1
    if at + 2 >= end or data[at + 2] & 0xC0 != 0x80:
        return -2
    if first < 0xF0:
        return -3 if first == 0xED and second > 0x9F else 3
    if at + 3 >= end or data[at + 3] & 0xC0 != 0x80:
        return -3
    return 4


@kernel
def ascii_end(data: Any, at: int, end: int) -> int:
    """Return a position up to which all bytes are below 0x80; only whole blocks are checked."""
    while at + 32 <= end:
        seen = 0
        for i in range(at, at + 32):
            seen |= data[i]
        if seen > 0x7F:
            return at
        at += 32
    return at


@kernel
def put_text(out: Any, at: int, data: Any, start: int, end: int) -> int:
    """Write bytes as text; like Java, replace malformed bytes by U+FFFD."""
    while start < end:
        plain = ascii_end(data, start, end)
        if plain > start:
            at = put_range(out, at, data, start, plain)
            start = plain
            continue
        stop = min(start + 32, end)
        while start < stop:
            first = data[start]
            if first < 0x80:
                out[at] = first
                at += 1
                start += 1
                continue
            size = character_size(data, start, end)
            if size > 0:
                for i in range(size):
                    out[at + i] = data[start + i]
                at += size
                start += size
            else:
                out[at] = 0xEF
                out[at + 1] = 0xBF
                out[at + 2] = 0xBD
                at += 3
                start -= size
    return at


@kernel
def quotable_end(data: Any, at: int, end: int) -> int:
    """Return a position up to which no byte must be escaped in JSON; only whole blocks."""
    while at + 16 <= end:
        special = 0
        for i in range(at, at + 16):
            one = data[i]
            special |= (one < 0x20) | (one > 0x7F) | (one == 0x22) | (one == 0x5C)
        if special:
            return at
        at += 16
    return at


@kernel
def hex_digit(value: int) -> int:
    return value + 48 if value < 10 else value + 87


@kernel
def put_quoted(out: Any, at: int, data: Any, start: int, end: int) -> int:
    """Write the content of a JSON string; return -1 if the bytes are not UTF-8."""
    while start < end:
        plain = quotable_end(data, start, end)
        if plain > start:
            at = put_range(out, at, data, start, plain)
            start = plain
            continue
        stop = min(start + 16, end)
        while start < stop:
            one = data[start] + 0
            if one > 0x7F:
                size = character_size(data, start, end)
                if size < 0:
                    return -1
                for i in range(size):
                    out[at + i] = data[start + i]
                at += size
                start += size
                continue
            start += 1
            if one >= 0x20 and one not in (0x22, 0x5C):
                out[at] = one
                at += 1
                continue
            short = 0
            if one in (0x22, 0x5C):
                short = one
            elif one == 8:
                short = 98
            elif one == 9:
                short = 116
            elif one == 10:
                short = 110
            elif one == 12:
                short = 102
            elif one == 13:
                short = 114
            out[at] = 0x5C
            if short:
                out[at + 1] = short
                at += 2
            else:
                out[at + 1] = 117
                out[at + 2] = 48
                out[at + 3] = 48
                out[at + 4] = hex_digit(one >> 4)
                out[at + 5] = hex_digit(one & 15)
                at += 6
    return at


@kernel
def base64_digit(value: int) -> int:
    if value < 26:
        return value + 65
    if value < 52:
        return value + 71
    if value < 62:
        return value - 4
    return 43 if value == 62 else 47


@kernel
def put_base64(out: Any, at: int, data: Any, start: int, end: int) -> int:
    while start < end:
        left = end - start
        group = (data[start] + 0) << 16
        if left > 1:
            group |= (data[start + 1] + 0) << 8
        if left > 2:
            group |= data[start + 2] + 0
        out[at] = base64_digit(group >> 18)
        out[at + 1] = base64_digit((group >> 12) & 63)
        out[at + 2] = base64_digit((group >> 6) & 63) if left > 1 else 61
        out[at + 3] = base64_digit(group & 63) if left > 2 else 61
        at += 4
        start += 3
    return at


@kernel
def put_member(
    out: Any, at: int, literals: Any, spans: Any, span: int, data: Any, start: int, size: int
) -> int:
    """Write `"name":null`, `"name":"text"` or `"name_base64":"…"`, which begin with three spans."""
    if size < 0:
        return put_span(out, at, literals, spans, span)
    reached = put_span(out, at, literals, spans, span + 1)
    reached = put_quoted(out, reached, data, start, start + size)
    if reached < 0:
        reached = put_span(out, at, literals, spans, span + 2)
        reached = put_base64(out, reached, data, start, start + size)
    out[reached] = 0x22
    return reached + 1


@kernel
def size_at(data: Any, at: int) -> tuple[int, int]:
    """Return a zig-zag varint that is known to be valid, and the position after it."""
    value = 0
    shift = 0
    while data[at] >= 0x80:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
    value |= (data[at] + 0) << shift
    return (value >> 1) ^ -(value & 1), at + 1


@kernel
def headers_end(data: Any, at: int, count: int) -> int:
    for _ in range(count):
        size, at = size_at(data, at)
        at += size
        size, at = size_at(data, at)
        at += max(size, 0)
    return at


@kernel
def put_header_keys(out: Any, at: int, data: Any, position: int, count: int) -> int:
    for index in range(count):
        if index:
            out[at] = 44
            at += 1
        size, position = size_at(data, position)
        at = put_text(out, at, data, position, position + size)
        size, position = size_at(data, position + size)
        position += max(size, 0)
    return at


@kernel
def put_headers(
    out: Any,
    at: int,
    literals: Any,
    spans: Any,
    data: Any,
    position: int,
    count: int,
    with_values: int,
) -> int:
    """Write the headers of a record as JSON objects, separated by commas."""
    for index in range(count):
        if index:
            out[at] = 44
            at += 1
        out[at] = 0x7B
        size, position = size_at(data, position)
        at = put_member(out, at + 1, literals, spans, KEY_MEMBERS, data, position, size)
        out[at] = 44
        size, position = size_at(data, position + size)
        if with_values:
            at = put_member(out, at + 1, literals, spans, VALUE_MEMBERS, data, position, size)
        else:
            at = put_span(out, at + 1, literals, spans, VALUE_SIZE_MEMBER)
            at = put_number(out, at, max(size, -1))
        position += max(size, 0)
        out[at] = 0x7D
        at += 1
    return at


@kernel
def put_contents(
    out: Any,
    at: int,
    literals: Any,
    spans: Any,
    span: int,
    columns: Any,
    rows: int,
    row: int,
    data: Any,
) -> int:
    """Write ` key: … payload: …`; a null part is left out."""
    key_size, value_size = columns[KEY_SIZE * rows + row], columns[VALUE_SIZE * rows + row]
    later = 0
    if key_size >= 0:
        start = columns[KEY_POSITION * rows + row]
        at = put_span(out, at, literals, spans, span)
        at = put_text(out, at, data, start, start + key_size)
        later = 1
    if value_size >= 0:
        start = columns[VALUE_POSITION * rows + row]
        at = put_span(out, at, literals, spans, span + 1 + later)
        at = put_text(out, at, data, start, start + value_size)
    return at


@kernel
def put_common(
    out: Any,
    at: int,
    ops: Any,
    op: int,
    literals: Any,
    spans: Any,
    columns: Any,
    rows: int,
    row: int,
) -> int:
    """Write an op that needs only columns; return -1 for any other op."""
    kind, a, b = ops[5 * op], ops[5 * op + 1], ops[5 * op + 2]
    if kind == LITERAL:
        return put_span(out, at, literals, spans, a)
    if kind == NUMBER:
        return put_number(out, at, columns[a * rows + row] + 0)
    if kind == CHOICE:
        return put_span(out, at, literals, spans, b + columns[a * rows + row])
    if kind == OPTIONAL:
        if columns[b * rows + row] == 0:
            return put_span(out, at, literals, spans, ops[5 * op + 3])
        at = put_span(out, at, literals, spans, ops[5 * op + 4])
        at = put_number(out, at, columns[a * rows + row] + 0)
        return put_span(out, at, literals, spans, ops[5 * op + 4] + 1)
    return -1


@kernel
def render_batches(ops: Any, literals: Any, spans: Any, columns: Any, out: Any, starts: Any) -> int:
    """Write one line per row; `starts` gets where each begins, and where the last one ends."""
    op_count, rows = len(ops), columns.shape[1]
    ops, literals, spans = pointer(ops), pointer(literals), pointer(spans)
    columns, out = pointer(columns), pointer(out)
    at = 0
    for row in range(rows):
        starts[row] = at
        for op in range(op_count):
            at = put_common(out, at, ops, op, literals, spans, columns, rows, row)
    starts[rows] = at
    return at


@kernel
def room_for(columns: Any, rows: int, row: int, data: Any) -> int:
    """Return the largest size of the variable part of a record's line: in JSON, six times."""
    count = columns[HEADERS_COUNT * rows + row] + 0
    size = max(columns[KEY_SIZE * rows + row], 0) + max(columns[VALUE_SIZE * rows + row], 0)
    if count:
        position = columns[HEADERS_POSITION * rows + row]
        size += headers_end(data, position, count) - position + 16 * count
    return int(6 * size)


@kernel
def render_records(
    ops: Any,
    literals: Any,
    spans: Any,
    columns: Any,
    data: Any,
    row_starts: Any,
    row_ends: Any,
    shown: Any,
    lines: Any,
    line_starts: Any,
    of_batches: Any,
    of_batch_starts: Any,
    fixed: int,
    out: Any,
    batch: int,
    row: int,
) -> tuple[int, int, int]:
    """Write the line of every batch, followed by those of its records, from (`batch`, `row`) on.

    Row -1 is before the batch's line. `shown` says which rows to render. `fixed` is the size of a
    record's line without its variable part. Stops when `out` may be too small for the next line,
    and returns where: (batch, row, bytes in `out`).
    """
    op_count, rows, room = len(ops), columns.shape[1], len(out)
    ops, literals, spans = pointer(ops), pointer(literals), pointer(spans)
    columns, out, data = pointer(columns), pointer(out), pointer(data)
    lines, of_batches = pointer(lines), pointer(of_batches)
    at = 0
    while batch < len(row_starts):
        if row < 0:
            start, end = line_starts[batch], line_starts[batch + 1]
            if at + end - start > room:
                return batch, row, at
            at = put_range(out, at, lines, start, end)
            row = row_starts[batch] + 0
        start, end = of_batch_starts[batch], of_batch_starts[batch + 1]
        while row < row_ends[batch]:
            if shown[row]:
                if at + fixed + end - start + room_for(columns, rows, row, data) > room:
                    return batch, row, at
                at = put_record(
                    out,
                    at,
                    ops,
                    op_count,
                    literals,
                    spans,
                    columns,
                    rows,
                    row,
                    data,
                    of_batches,
                    start,
                    end,
                )
            row += 1
        batch += 1
        row = -1
    return batch, row, at


@kernel
def put_record(
    out: Any,
    at: int,
    ops: Any,
    op_count: int,
    literals: Any,
    spans: Any,
    columns: Any,
    rows: int,
    row: int,
    data: Any,
    of_batches: Any,
    start: int,
    end: int,
) -> int:
    for op in range(op_count):
        kind, a, b = ops[5 * op], ops[5 * op + 1], ops[5 * op + 2]
        if kind <= OPTIONAL:
            at = put_common(out, at, ops, op, literals, spans, columns, rows, row)
        elif kind == MEMBER:
            position, size = columns[a * rows + row], columns[(a + 1) * rows + row]
            at = put_member(out, at, literals, spans, b, data, position, size)
        elif kind == CONTENTS:
            at = put_contents(out, at, literals, spans, b, columns, rows, row, data)
        elif kind == OF_BATCH:
            at = put_range(out, at, of_batches, start, end)
        else:
            position = columns[HEADERS_POSITION * rows + row]
            count = columns[HEADERS_COUNT * rows + row]
            if kind == KEYS:
                at = put_header_keys(out, at, data, position, count)
            elif count:
                at = put_headers(out, at, literals, spans, data, position, count, a)
    return at
