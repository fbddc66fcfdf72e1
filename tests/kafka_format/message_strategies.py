"""hypothesis strategies drawn from the schema tables: every value that a field can have."""

import uuid
from typing import Any

from hypothesis import strategies as st

import kafka_format.schemas  # noqa: F401 - fills the registry
from kafka_format.message import REGISTRY, Field, Layout, Message, Schema

# Any bytes can stand where a string is expected; what is not UTF-8 is kept as lone surrogates.
texts = st.text(st.characters(codec="utf-8"), max_size=12) | st.binary(max_size=12).map(
    lambda raw: raw.decode("utf-8", "surrogateescape")
)
SCALARS: dict[str, st.SearchStrategy[Any]] = {
    "int8": st.integers(-(2**7), 2**7 - 1),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "float64": st.floats(allow_nan=False),
    "bool": st.booleans(),
    "string": texts | st.integers(120, 140).map(lambda size: "é" * size),
    "bytes": st.binary(max_size=20) | st.just(b"\0" * 200),
    "uuid": st.binary(min_size=16, max_size=16).map(lambda raw: uuid.UUID(bytes=raw)),
}

EVERY_VERSION = [
    (schema, version)
    for schema in REGISTRY.values()
    for version in range(schema.lowest, schema.highest + 1)
]


def messages(schema: Schema, version: int) -> st.SearchStrategy[Message]:
    layout = schema.layout(version)
    drawn = _structs(layout)
    if not layout.flexible:
        return drawn
    unknown = st.dictionaries(st.integers(50, 2**31 - 1), st.binary(max_size=5), max_size=2)
    return st.builds(_with_tags, drawn, unknown)


def _with_tags(message: Message, tags: dict[int, bytes]) -> Message:
    message.unknown_tags = tuple(sorted(tags.items()))
    return message


def _structs(layout: Layout) -> st.SearchStrategy[Message]:
    fields = {each.attribute: _field(layout, each) for each in layout.fields}
    return st.fixed_dictionaries(fields).map(layout.build)


def _field(layout: Layout, field: Field) -> st.SearchStrategy[Any]:
    if field.struct is None:
        values = SCALARS[field.type]
    else:
        inner = next(each for each in layout.walk() if each.name == field.struct.name)
        values = _structs(inner)
    if field.array:
        values = st.lists(values, max_size=3)
    return st.none() | values if field.nullable else values
