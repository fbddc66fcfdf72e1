"""Decode and encode the messages that Kafka describes by schemas: one table per message.

Coordinator records, KRaft metadata records, control records and the consumer protocol are all
described by schemas: an ordered list of fields, each present in some versions of the message.

               plain version              flexible version
    string     int16 length, UTF-8        uvarint length + 1, UTF-8
    bytes      int32 length               uvarint length + 1
    []T        int32 count                uvarint count + 1
    null       length -1                  uvarint 0
    struct?    int8: negative null, else the struct follows (inside a tag: uvarint 0 or 1)
    struct     its fields; then, in a flexible version, its tagged fields:
               uvarint count, then for each: uvarint tag, uvarint size, value, ascending by tag

A tagged field equal to its default is not written. Tags not in the table are kept as bytes.

A table is a text with one field per line; a struct's fields are indented below its first use:

    name  type[?]  [versions]  [tagN]  [=default]

`?` is nullable, versions are `3+` or `1-2` (default: all), and a field without a `=default` has
zero, empty, false, the zero uuid or a struct of these as its default; never null.

Decoding mirrors the readers that Kafka generates (org.apache.kafka.common.protocol.Message): the
size of a known tag is ignored, any negative length is null, the last of two equal tags wins, bytes
after the message are kept as `trailing`. So a value is what a broker would have read.
`check_canonical` checks whether the bytes are also those that a broker would have written.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kafka_format.errors import MEMORY, CorruptError, Location
from kafka_format.field_codecs import (
    FieldCodec,
    Label,
    array_codec,
    bool_codec,
    bytes_codec,
    nullable_struct_codec,
    number_codec,
    read_array,
    read_uvarint,
    string_codec,
    unexpected,
    uuid_codec,
    with_kafka_text,
)
from kafka_format.java_text import ZERO_UUID, uuid_text
from kafka_format.primitives import Buffer, write_unsigned_varint

_LAST_VERSION = 0x7FFF
_ZEROS: Final[dict[str, Any]] = {
    "float64": 0.0,
    "bool": False,
    "string": "",
    "bytes": b"",
    "uuid": ZERO_UUID,
}


class Message:
    """A decoded message or a struct inside one: Kafka's fields as attributes in snake_case.

    A field that this version does not have reads as its default, as in Kafka. The message's own
    properties have longer names, because Kafka has fields called `name` and `version`.
    """

    __slots__ = ("_layout", "_values", "schema_version", "trailing", "unknown_tags")

    def __init__(
        self,
        layout: Layout,
        schema_version: int,
        values: dict[str, Any],
        unknown_tags: tuple[tuple[int, bytes], ...] = (),
        trailing: bytes = b"",
    ) -> None:
        self._layout = layout
        self._values = values
        self.schema_version = schema_version  # as found, even if newer than the schema
        self.unknown_tags = unknown_tags
        self.trailing = trailing  # bytes after the message, which Kafka ignores

    @property
    def schema_name(self) -> str:
        return self._layout.name

    @property
    def schema(self) -> Schema:
        return self._layout.schema

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of this version in the schema's order, tagged ones among them."""
        return {field.attribute: self._values[field.attribute] for field in self._layout.fields}

    def replace(self, **changes: Any) -> Message:
        """Return a copy with other values in some fields."""
        built = self._layout.build({**self._values, **changes})
        built.schema_version = self.schema_version
        built.unknown_tags = self.unknown_tags
        built.trailing = self.trailing
        return built

    def to_json(self) -> dict[str, Any]:
        """Return what Kafka's generated JsonConverter makes of the message, as Python values.

        Names are Kafka's camelCase names, bytes are base64. A tagged field that has its default,
        unknown tags and trailing bytes are left out.
        """
        return self._layout.to_json(self)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # copy and pickle ask for these before `_layout` is set
            raise AttributeError(name)
        try:
            return self._values[name]
        except KeyError:
            return self._layout.absent(name)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Message):
            return NotImplemented
        return self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash((self.schema_name, tuple(self._values[name] for name in sorted(self._values))))

    def _identity(self) -> tuple[Any, ...]:
        return (
            self._layout.qualified_name,
            self.schema_version,
            self._values,
            self.unknown_tags,
            self.trailing,
        )

    def __repr__(self) -> str:
        parts = [f"v{self.schema_version}"] if self._layout.is_root else []
        parts += [f"{name}={_value_text(value)}" for name, value in self.fields.items()]
        if self.unknown_tags:
            parts.append(f"unknown_tags={self.unknown_tags!r}")
        if self.trailing:
            parts.append(f"trailing={self.trailing!r}")
        return f"{self.schema_name}({', '.join(parts)})"

    def __reduce__(self) -> tuple[Any, ...]:
        layout = self._layout
        names = (layout.schema.name, layout.name, layout.version)
        state = (self.schema_version, self._values, self.unknown_tags, self.trailing)
        return _restore, (*names, *state)


def _value_text(value: Any) -> str:
    if isinstance(value, uuid.UUID):
        return uuid_text(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_value_text, value))}]"
    return repr(value)


def _restore(schema: str, name: str, layout_version: int, *state: Any) -> Message:
    import kafka_format.schemas  # noqa: F401 - fills the registry in a new process

    layouts = REGISTRY[schema].layout(layout_version).walk()
    return Message(next(each for each in layouts if each.name == name), *state)


class UnknownMessage(NamedTuple):
    """A record of a type or version that no table describes, with all of its bytes."""

    type_id: int
    version: int | None
    data: bytes

    def __repr__(self) -> str:
        version = "" if self.version is None else f", version {self.version}"
        return f"UnknownMessage(type {self.type_id}{version}, {len(self.data)} bytes {self.data!r})"


# --- tables -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Field:
    """A line of a table."""

    name: str
    attribute: str  # the snake_case name that Kafka's own protocol documentation uses
    type: str  # of the elements, if it is an array
    struct: Struct | None
    array: bool
    nullable: bool
    first: int
    last: int
    tag: int | None
    default: str | None


@dataclass(slots=True)
class Struct:
    name: str
    fields: list[Field] = field(default_factory=list)


REGISTRY: dict[str, Schema] = {}

_LINE = re.compile(
    r"(?P<indent> *)(?P<name>\w+) +(?P<array>\[\])?(?P<type>\w+)(?P<nullable>\?)?"
    r"(?: +(?P<first>\d+)(?P<open>\+)?(?:-(?P<last>\d+))?)?"
    r"(?: +tag(?P<tag>\d+))?(?: +=(?P<default>\S+))?"
)


class Schema:
    """A message's table and its versions; `layout(version)` decodes and encodes one of them."""

    def __init__(self, name: str, versions: str, flexible: str, table: str) -> None:
        lowest, _, highest = versions.partition("-")
        self.name = name
        self.lowest = int(lowest)
        self.highest = int(highest or lowest)
        self.flexible_from = int(flexible[:-1]) if flexible != "none" else self.highest + 1
        self.struct = _parse(name, table)
        self._layouts: dict[int, Layout] = {}
        REGISTRY[name] = self

    def __repr__(self) -> str:
        return f"Schema({self.name}, versions {self.lowest} to {self.highest})"

    def knows(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def layout(self, version: int) -> Layout:
        """Return the layout of a version. Like Kafka's readers, use the nearest known version."""
        version = min(max(version, self.lowest), self.highest)
        if version not in self._layouts:
            self._layouts[version] = Layout(self, self.struct, version, is_root=True)
        return self._layouts[version]

    def new(self, schema_version: int | None = None, /, **fields: Any) -> Message:
        """Return a message of a version (default: the newest); missing fields get their defaults.

        A struct may be passed as a mapping, an array as any iterable.
        """
        version = self.highest if schema_version is None else schema_version
        if not self.knows(version):
            raise ValueError(f"{self.name} has no version {version}")
        return self.layout(version).build(fields)

    def from_json(self, node: Any, version: int) -> Message:
        """Return the inverse of `Message.to_json`; a missing tagged field gets its default."""
        return self.layout(version).from_json(node)


def _parse(name: str, table: str) -> Struct:
    """Parse a table: an indented line belongs to the struct of the line above it."""
    root = Struct(name)
    known: dict[str, Struct] = {}
    open_structs = [(-1, root)]
    for line in filter(str.strip, table.splitlines()):
        match = _LINE.fullmatch(line.rstrip())
        if match is None:
            raise SyntaxError(f"{name}: not a line of a schema table: {line!r}")
        indent = len(match["indent"])
        while open_structs[-1][0] >= indent:
            open_structs.pop()
        inner = None
        if match["type"][0].isupper():
            inner = known.setdefault(match["type"], Struct(match["type"]))
        open_structs[-1][1].fields.append(_parse_field(match, inner))
        if inner is not None:
            open_structs.append((indent, inner))
    return root


def _parse_field(match: re.Match[str], inner: Struct | None) -> Field:
    first = int(match["first"] or 0)
    last = int(match["last"] or first) if match["first"] and not match["open"] else _LAST_VERSION
    return Field(
        name=match["name"],
        attribute=re.sub(r"(?<!^)([A-Z])", r"_\1", match["name"]).lower(),
        type=match["type"],
        struct=inner,
        array=match["array"] is not None,
        nullable=match["nullable"] is not None,
        first=first,
        last=last,
        tag=int(match["tag"]) if match["tag"] else None,
        default=match["default"],
    )


# --- the engine ---------------------------------------------------------------------------------


class Layout:
    """A struct at one version."""

    def __init__(self, schema: Schema, struct_: Struct, version: int, *, is_root: bool) -> None:
        self.schema = schema
        self.name = struct_.name
        self.version = version
        self.is_root = is_root
        self.flexible = version >= schema.flexible_from
        self.qualified_name = schema.name if is_root else f"{schema.name}.{self.name}"
        self.fields = [each for each in struct_.fields if each.first <= version <= each.last]
        self._all_fields = struct_.fields
        self._inner: dict[str, Layout] = {}
        self._codecs = {each.attribute: self._codec(each) for each in self.fields}
        self._plain = [
            (each.attribute, *self._codecs[each.attribute][:2])
            for each in self.fields
            if each.tag is None
        ]
        tagged = sorted((each.tag, each.attribute) for each in self.fields if each.tag is not None)
        self._tagged = {tag: (name, *self._codecs[name][:2]) for tag, name in tagged}
        self._later_tags = {each.tag for each in struct_.fields} - {None} - self._tagged.keys()
        self._defaults = {each.attribute: self._default(each) for each in self.fields}
        self._tag_defaults = {name: self._defaults[name] for _, name in tagged}
        self._json = [
            (each.name, each.attribute, self._codecs[each.attribute].to_json)
            for each in self.fields
        ]

    def walk(self) -> Iterator[Layout]:
        """Yield this layout and those of all structs inside."""
        yield self
        for inner in self._inner.values():
            yield from inner.walk()

    def read(self, data: bytes, position: int) -> tuple[Message, int]:
        values: dict[str, Any] = {}
        for attribute, read, _ in self._plain:
            values[attribute], position = read(data, position)
        unknown: tuple[tuple[int, bytes], ...] = ()
        if self.flexible:
            values.update(self._tag_defaults)
            unknown, position = self._read_tags(data, position, values)
        return Message(self, self.version, values, unknown), position

    def _read_tags(
        self, data: bytes, position: int, values: dict[str, Any]
    ) -> tuple[tuple[tuple[int, bytes], ...], int]:
        label = f"{self.qualified_name}, its tagged fields"
        count, position = read_uvarint(data, position, label)
        unknown = []
        for _ in range(count):  # ends with the bytes at the latest: each tag takes two or more
            tag, position = read_uvarint(data, position, label)
            size, position = read_uvarint(data, position, label)
            if tag in self._tagged:
                attribute, read, _ = self._tagged[tag]
                values[attribute], position = read(data, position)
            elif tag in self._later_tags:
                raise with_kafka_text(
                    CorruptError(
                        Location(MEMORY, position),
                        f"tag {tag} in {self.qualified_name} version {self.version}",
                        "no tag that only other versions have",
                    ),
                    f"Tag {tag} is not valid for version {self.version}",
                )
            else:
                payload, position = read_array(data, position, size, f"{label}, tag {tag}")
                unknown.append((tag, payload))
        return tuple(unknown), position

    def write(self, out: bytearray, message: Message) -> None:
        if not isinstance(message, Message) or message._layout.name != self.name:  # noqa: SLF001
            raise ValueError(f"{self.qualified_name}: {message!r} is not such a struct")
        values = message._values  # noqa: SLF001 - a layout owns the values of its messages
        for attribute, _, write in self._plain:
            write(out, values[attribute])
        if self.flexible:
            self._write_tags(out, values, message.unknown_tags)
        elif message.unknown_tags:
            raise ValueError(f"{self.qualified_name}: version {self.version} has no tagged fields")

    def _write_tags(
        self, out: bytearray, values: dict[str, Any], unknown: tuple[tuple[int, bytes], ...]
    ) -> None:
        tags = list(unknown)
        for tag, (attribute, _, write) in self._tagged.items():
            if values[attribute] != self._tag_defaults[attribute]:
                payload = bytearray()
                write(payload, values[attribute])
                tags.append((tag, bytes(payload)))
        tags.sort(key=lambda each: each[0])
        write_unsigned_varint(out, len(tags))
        for tag, content in tags:
            write_unsigned_varint(out, tag)
            write_unsigned_varint(out, len(content))
            out += content

    def build(self, fields: Mapping[str, Any]) -> Message:
        unknown = fields.keys() - self._codecs.keys()
        if unknown:
            raise ValueError(
                f"{self.qualified_name} version {self.version} has no field {min(unknown)}"
            )
        values = dict(self._defaults)
        for name, value in fields.items():
            values[name] = self._codecs[name].build(value)
        return Message(self, self.version, values)

    def to_json(self, message: Message) -> dict[str, Any]:
        values = message._values  # noqa: SLF001
        node = {}
        for name, attribute, to_json in self._json:
            value = values[attribute]
            if attribute not in self._tag_defaults or value != self._tag_defaults[attribute]:
                node[name] = to_json(value)
        return node

    def from_json(self, node: Any) -> Message:
        if not isinstance(node, Mapping):
            raise unexpected(self.qualified_name, node, "a JSON object")
        values = {}
        for each in self.fields:
            if each.name in node:
                values[each.attribute] = self._codecs[each.attribute].from_json(node[each.name])
            elif each.tag is None:
                raise ValueError(f"{self.qualified_name}: no field {each.name}")
            else:
                values[each.attribute] = self._defaults[each.attribute]
        return Message(self, self.version, values)

    def absent(self, attribute: str) -> Any:
        """Return the value of a field that only other versions have: its default."""
        for each in self._all_fields:
            if each.attribute == attribute:
                return self._default(each)
        raise AttributeError(f"{self.qualified_name} has no field {attribute}")

    def _default(self, each: Field) -> Any:
        if each.default == "null":
            return None
        if each.array:
            return ()
        if each.struct is not None:
            return self._layout_of(each.struct).build({})
        if each.default in ("true", "false"):
            return each.default == "true"
        return int(each.default) if each.default is not None else _ZEROS.get(each.type, 0)

    def _layout_of(self, struct_: Struct) -> Layout:
        if struct_.name not in self._inner:
            inner = Layout(self.schema, struct_, self.version, is_root=False)
            self._inner[struct_.name] = inner
        return self._inner[struct_.name]

    def _codec(self, each: Field) -> FieldCodec:
        label = Label(self.qualified_name, each.name)
        if each.array:
            element = self._element_codec(each, label.element(), nullable=False)
            return array_codec(
                label, element, each.type, nullable=each.nullable, flexible=self.flexible
            )
        if each.struct is not None and each.nullable:
            return nullable_struct_codec(
                label, self._struct_codec(each.struct), tagged=each.tag is not None
            )
        return self._element_codec(each, label, nullable=each.nullable)

    def _element_codec(self, each: Field, label: Label, *, nullable: bool) -> FieldCodec:
        if each.struct is not None:
            return self._struct_codec(each.struct)
        if each.type == "string":
            return string_codec(label, flexible=self.flexible, nullable=nullable)
        if each.type == "bytes":
            return bytes_codec(label, flexible=self.flexible, nullable=nullable)
        if each.type == "uuid":
            return uuid_codec(label)
        if each.type == "bool":
            return bool_codec(label)
        return number_codec(label, each.type)

    def _struct_codec(self, struct_: Struct) -> FieldCodec:
        inner = self._layout_of(struct_)

        def build(value: Any) -> Any:
            return inner.build(value) if isinstance(value, Mapping) else value

        return FieldCodec(inner.read, inner.write, inner.to_json, inner.from_json, build)


# --- whole messages -----------------------------------------------------------------------------


def decode_message(schema: Schema, version: int, buffer: Buffer, start: int = 0) -> Message:
    """Decode the message that begins at `start`; bytes after it become its `trailing`.

    A version that the schema does not know is read as the nearest one that it knows. A caller that
    does not want this checks `schema.knows` first.
    """
    data = bytes(buffer)
    message, end = schema.layout(version).read(data, start)
    message.schema_version = version
    message.trailing = data[end:]
    return message


def encode_message(message: Message) -> bytes:
    """Encode a message without its frame. Raises ValueError if a value does not fit."""
    out = bytearray()
    message._layout.write(out, message)  # noqa: SLF001
    return bytes(out) + message.trailing


def check_canonical(
    value: Message, found: Buffer, written: bytes, *, path: str = MEMORY, position: int = 0
) -> None:
    """Raise CorruptError unless the bytes found are those that a broker writes for the value.

    This rejects what Kafka reads but never writes: bytes after the message, an over-long varint,
    a wrong size of a tag, tags out of order, a tag that repeats the default.
    """
    found = bytes(found)
    if value.trailing:
        raise CorruptError(
            Location(path, position + len(found) - len(value.trailing)),
            f"{len(value.trailing)} bytes after a {value.schema_name}",
            "none",
        )
    if found == written:
        return
    both = range(min(len(found), len(written)))
    at = next((i for i in both if found[i] != written[i]), len(both))
    raise CorruptError(
        Location(path, position + at),
        f"bytes that continue with {found[at : at + 8].hex() or 'nothing'}",
        f"{written[at : at + 8].hex() or 'nothing'}, as Kafka writes this {value.schema_name}",
    )
