"""Convert the values of one message field to and from bytes and JSON, for kafka_format.message.

An error also carries, as a note, the text of the exception that Kafka's own reader throws on the
same bytes, for callers that print what Kafka prints.
"""

from __future__ import annotations

import base64
import struct
import uuid
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafka_format.errors import (
    MEMORY,
    CorruptError,
    FormatError,
    Location,
    MalformedRecordError,
    TruncatedError,
)
from kafka_format.java_text import decode_utf8, parse_uuid, uuid_text
from kafka_format.primitives import read_unsigned_varint, write_unsigned_varint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_MAX_STRING = 0x7FFF
_INT_MAX = 0x7FFF_FFFF
_INT_MIN = -0x8000_0000

NUMBERS: Final = {
    "int8": struct.Struct(">b"),
    "int16": struct.Struct(">h"),
    "uint16": struct.Struct(">H"),
    "int32": struct.Struct(">i"),
    "int64": struct.Struct(">q"),
    "float64": struct.Struct(">d"),
}


class FieldCodec(NamedTuple):
    """Converts the values of one field. `read` also returns the next position."""

    read: Callable[[bytes, int], tuple[Any, int]]
    write: Callable[[bytearray, Any], None]
    to_json: Callable[[Any], Any]
    from_json: Callable[[Any], Any]
    build: Callable[[Any], Any]  # from what a caller of `Schema.new` passes


class Label(NamedTuple):
    """A field in error messages: ours name its struct as well, Kafka's only the field."""

    owner: str
    kafka: str

    def __str__(self) -> str:
        return f"{self.owner}.{self.kafka}"

    def element(self) -> Label:
        return Label(self.owner, f"{self.kafka} element")


def _same(value: Any) -> Any:
    return value


def number_codec(label: Label, type_: str) -> FieldCodec:
    layout = NUMBERS[type_]
    size, unpack_from = layout.size, layout.unpack_from

    def read(data: bytes, position: int) -> tuple[Any, int]:
        try:
            return unpack_from(data, position)[0], position + size
        except struct.error:
            raise _truncated(data, position, size, label) from None

    def write(out: bytearray, value: Any) -> None:
        try:
            out += layout.pack(value)
        except (struct.error, OverflowError):
            raise ValueError(f"{label}: {value!r} is not of type {type_}") from None

    def from_json(node: Any) -> Any:
        types = (int, float) if type_ == "float64" else (int,)
        if isinstance(node, bool) or not isinstance(node, types):
            raise unexpected(label, node, "a number")
        return float(node) if type_ == "float64" else node

    return FieldCodec(read, write, _same, from_json, _same)


def bool_codec(label: Label) -> FieldCodec:
    def read(data: bytes, position: int) -> tuple[bool, int]:
        if position >= len(data):
            raise _truncated(data, position, 1, label)
        return data[position] != 0, position + 1

    def write(out: bytearray, value: Any) -> None:
        out.append(1 if value else 0)

    def from_json(node: Any) -> bool:
        if not isinstance(node, bool):
            raise unexpected(label, node, "true or false")
        return node

    return FieldCodec(read, write, _same, from_json, _same)


def uuid_codec(label: Label) -> FieldCodec:
    def read(data: bytes, position: int) -> tuple[uuid.UUID, int]:
        if len(data) - position < 16:
            raise _truncated(data, position, 16, label)
        return uuid.UUID(bytes=data[position : position + 16]), position + 16

    def write(out: bytearray, value: Any) -> None:
        if not isinstance(value, uuid.UUID):
            raise unexpected(label, value, "a uuid.UUID")
        out += value.bytes

    def from_json(node: Any) -> uuid.UUID:
        value = parse_uuid(node) if isinstance(node, str) else None
        if value is None:
            raise unexpected(label, node, "a uuid in base64url")
        return value

    return FieldCodec(read, write, uuid_text, from_json, _same)


def string_codec(label: Label, *, flexible: bool, nullable: bool) -> FieldCodec:
    read_length, write_length = _lengths(label, flexible=flexible, plain="int16", nullable=nullable)

    def read(data: bytes, position: int) -> tuple[str | None, int]:
        length, position = read_length(data, position)
        if length is None:
            return None, position
        if length > _MAX_STRING:
            raise with_kafka_text(
                CorruptError(
                    Location(MEMORY, position),
                    f"a string of {length} bytes for {label}",
                    f"at most {_MAX_STRING}",
                ),
                f"string field {label.kafka} had invalid length {length}",
            )
        content, position = read_array(data, position, length, str(label))
        return content.decode("utf-8", "surrogateescape"), position

    def write(out: bytearray, value: Any) -> None:
        content = None if value is None else encode_text(value)
        if content is not None and len(content) > _MAX_STRING:
            raise ValueError(f"{label}: a string of {len(content)} bytes, more than {_MAX_STRING}")
        write_length(out, content)
        out += content or b""

    def to_json(value: str | None) -> str | None:
        return value if value is None or value.isascii() else java_string(value)

    def from_json(node: Any) -> str | None:
        if not isinstance(node, str) and not (nullable and node is None):
            raise unexpected(label, node, "a string")
        return node

    return FieldCodec(read, write, to_json, from_json, _same)


def bytes_codec(label: Label, *, flexible: bool, nullable: bool) -> FieldCodec:
    read_length, write_length = _lengths(label, flexible=flexible, plain="int32", nullable=nullable)

    def read(data: bytes, position: int) -> tuple[bytes | None, int]:
        length, position = read_length(data, position)
        if length is None:
            return None, position
        return read_array(data, position, length, str(label))

    def write(out: bytearray, value: Any) -> None:
        write_length(out, value)
        out += value or b""

    def to_json(value: bytes | None) -> str | None:
        return None if value is None else base64.b64encode(value).decode("ascii")

    def from_json(node: Any) -> bytes | None:
        if nullable and node is None:
            return None
        try:
            return base64.b64decode(node, validate=True)
        except (ValueError, TypeError):
            raise unexpected(label, node, "base64") from None

    return FieldCodec(read, write, to_json, from_json, _same)


def array_codec(
    label: Label, element: FieldCodec, type_: str, *, nullable: bool, flexible: bool
) -> FieldCodec:
    read_count, write_count = _lengths(label, flexible=flexible, plain="int32", nullable=nullable)
    number = NUMBERS.get(type_)
    read_element = element.read

    def read(data: bytes, position: int) -> tuple[tuple[Any, ...] | None, int]:
        count, position = read_count(data, position)
        if count is None:
            return None, position
        left = len(data) - position
        if count > left:  # every element takes a byte or more
            raise with_kafka_text(
                CorruptError(
                    Location(MEMORY, position),
                    f"{count} elements of {label} in {left} bytes",
                    "no more than there are bytes",
                ),
                f"Tried to allocate a collection of size {count}, "
                f"but there are only {left} bytes remaining.",
            )
        if number is not None and count * number.size <= left:
            end = position + count * number.size
            return struct.unpack(f">{count}{number.format[1:]}", data[position:end]), end
        values = []
        for _ in range(count):
            value, position = read_element(data, position)
            values.append(value)
        return tuple(values), position

    def write(out: bytearray, values: Any) -> None:
        write_count(out, values)
        for value in values or ():
            element.write(out, value)

    def to_json(values: Any) -> list[Any] | None:
        return None if values is None else [element.to_json(value) for value in values]

    def from_json(node: Any) -> tuple[Any, ...] | None:
        if nullable and node is None:
            return None
        if not isinstance(node, list | tuple):
            raise unexpected(label, node, "a JSON array")
        return tuple(element.from_json(value) for value in node)

    def build(values: Iterable[Any] | None) -> tuple[Any, ...] | None:
        return None if values is None else tuple(element.build(value) for value in values)

    return FieldCodec(read, write, to_json, from_json, build)


def nullable_struct_codec(label: Label, inner: FieldCodec, *, tagged: bool) -> FieldCodec:
    """Return the codec of a struct after a presence mark: an int8, or a uvarint inside a tag."""

    def read(data: bytes, position: int) -> tuple[Any, int]:
        if tagged:
            mark, position = read_uvarint(data, position, str(label))
            present = mark > 0
        else:
            if position >= len(data):
                raise _truncated(data, position, 1, label)
            present = data[position] < 0x80
            position += 1
        return inner.read(data, position) if present else (None, position)

    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out.append(0 if tagged else 0xFF)
        else:
            out.append(1)
            inner.write(out, value)

    def to_json(value: Any) -> Any:
        return None if value is None else inner.to_json(value)

    def from_json(node: Any) -> Any:
        return None if node is None else inner.from_json(node)

    def build(value: Any) -> Any:
        return None if value is None else inner.build(value)

    return FieldCodec(read, write, to_json, from_json, build)


def _lengths(
    label: Label, *, flexible: bool, plain: str, nullable: bool
) -> tuple[Callable[[bytes, int], tuple[int | None, int]], Callable[[bytearray, Any], None]]:
    """Return a reader and a writer of a value's length; None is null, if the field is nullable."""
    fixed = number_codec(label, plain)

    def read(data: bytes, position: int) -> tuple[int | None, int]:
        start = position
        if flexible:
            length, position = read_uvarint(data, position, str(label))
            length = length - 1 if length != _INT_MIN else _INT_MAX  # a Java int wraps around
        else:
            length, position = fixed.read(data, position)
        if length >= 0:
            return length, position
        if nullable:
            return None, position
        raise with_kafka_text(
            CorruptError(Location(MEMORY, start), f"null for {label}", "a value"),
            f"non-nullable field {label.kafka} was serialized as null",
        )

    def write(out: bytearray, value: Any) -> None:
        if value is None and not nullable:
            raise ValueError(f"{label} cannot be null")
        length = -1 if value is None else len(value)
        if flexible:
            write_unsigned_varint(out, length + 1)
        else:
            fixed.write(out, length)

    return read, write


def read_uvarint(data: bytes, position: int, label: str) -> tuple[int, int]:
    """Read an unsigned varint as Kafka holds it: in a signed int of 32 bits."""
    if position < len(data) and data[position] < 0x80:
        return data[position], position + 1
    try:
        value, position = read_unsigned_varint(data, position)
    except MalformedRecordError as error:
        pattern = sum((data[position + i] & 0x7F) << 7 * i for i in range(5)) & 0xFFFF_FFFF
        raise with_kafka_text(
            error,
            "Varint is too long, the most significant bit in the 5th byte is set, "
            f"converted value: {pattern:x}",
        ) from None
    except TruncatedError as error:
        raise TruncatedError(error.location, f"{error.found} for {label}", error.expected) from None
    return value if value <= _INT_MAX else value - (1 << 32), position


def read_array(data: bytes, position: int, size: int, label: str) -> tuple[bytes, int]:
    left = len(data) - position
    if size > left:
        raise with_kafka_text(
            TruncatedError(Location(MEMORY, position), f"{left} bytes left", f"{size} for {label}"),
            f"Error reading byte array of {size} byte(s): only {left} byte(s) available",
        )
    if size < 0:
        raise with_kafka_text(
            CorruptError(Location(MEMORY, position), f"a size of {size} for {label}", "0 or more"),
            str(size),
        )
    return data[position : position + size], position + size


def unexpected(label: object, node: Any, expected: str) -> ValueError:
    return ValueError(f"{label}: found {node!r}, expected {expected}")


def _truncated(data: bytes, position: int, size: int, label: Label) -> TruncatedError:
    left = len(data) - position
    return TruncatedError(
        Location(MEMORY, position), f"{left} bytes left", f"{size} bytes for {label}"
    )


def with_kafka_text(error: FormatError, kafka_text: str) -> FormatError:
    """Return the error with the text of Kafka's exception as a note (see `kafka_text`)."""
    error.add_note(kafka_text)
    return error


def kafka_text(error: FormatError) -> str:
    """Return the text of the exception that Kafka's reader throws on the same bytes.

    A read past the end is a BufferUnderflowException, which has no text: `null`.
    """
    notes: list[str] = getattr(error, "__notes__", [])
    return notes[0] if notes else "null"


# --- texts --------------------------------------------------------------------------------------


def encode_text(text: str) -> bytes:
    """Return the bytes that a decoded string came from, UTF-8 or not."""
    return text.encode("utf-8", "surrogateescape")


def java_string(text: str) -> str:
    """Return the string as Java decodes it, with U+FFFD for bytes that are not UTF-8."""
    return decode_utf8(encode_text(text))
