r"""Java properties, and the one such file of a log directory: `meta.properties`.

    file     = line*
    line     = blank | comment | property
    comment  = WS* ("#" | "!") ... EOL
    property = WS* key WS* ["=" | ":"] WS* value EOL

EOL is LF, CR LF or CR; WS is space, tab or form feed. A property continues on the next line if its
line ends in an odd number of backslashes; the WS at the beginning of the next line is skipped. In
key and value `\t \n \r \f \uXXXX` have their usual meaning, and before any other character a
backslash is dropped. If a key occurs twice, the last value applies.

Kafka reads with java.util.Properties.load(InputStream), for which bytes are ISO-8859-1. It writes
with a UTF-8 Writer and without \uXXXX: a letter beyond ASCII does not survive, not even in Kafka.

Lines are kept as they were read, including comments, so that decode and encode give the same bytes.
Properties.store writes a `#` line, the date as a second one, and the properties in the order of a
ConcurrentHashMap (sorted by key since JDK 18).

    meta.properties v0   [broker.id] [cluster.id] [directory.id], and version=0 or no version
    meta.properties v1   version=1 cluster.id node.id [directory.id]
"""

import os
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, TypeVar

from kafka_format import java_text
from kafka_format.errors import MEMORY, CorruptError, Location, UnsupportedError
from kafka_format.file_bytes import read_file_bytes
from kafka_format.java_text import excerpt
from kafka_format.primitives import Buffer

MAX_SIZE = 1024 * 1024
"""Kafka writes about 150 bytes; this leaves room for manual edits."""

_NATURAL_LINE = re.compile(r"[ \t\f]*([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_KEY = re.compile(r"(?:\\.|[^\\=: \t\f])*", re.DOTALL)
_SEPARATOR = re.compile(r"[ \t\f]*[=:]?[ \t\f]*")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_MEANINGS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SPELLINGS = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
_TRIMMED = "".join(map(chr, range(0x21)))  # the characters that Java's String.trim removes
_Value = TypeVar("_Value")
_SPECIAL = re.compile(r"[\t\n\r\f=:#!\\]")


class Property(NamedTuple):
    position: int
    key: str
    value: str


class PropertiesLine(NamedTuple):
    """A property with all its lines; or, without a property, a blank line or a comment."""

    raw: bytes
    """Line ends included: all lines joined are the file."""
    property: Property | None = None


class PropertiesFile(NamedTuple):
    lines: tuple[PropertiesLine, ...]

    @classmethod
    def of(cls, properties: Mapping[str, str], *, date: str, comment: str = "") -> "PropertiesFile":
        """Return the file that Properties.store(Writer) writes, with the keys in this order."""
        texts = [f"#{comment}\n", f"#{date}\n"]
        for key, value in properties.items():
            texts.append(f"{_escaped(key, spaces=True)}={_escaped(value, spaces=False)}\n")
        return decode_properties("".join(texts).encode())

    def values(self) -> dict[str, str]:
        return {property_.key: property_.value for property_ in self.properties()}

    def properties(self) -> Iterator["Property"]:
        for line in self.lines:
            if line.property is not None:
                yield line.property

    def find(self, key: str) -> "Property | None":
        """Return the last property with this key, which is the one that applies."""
        return next(
            (found for found in reversed(list(self.properties())) if found.key == key), None
        )


def decode_properties(buffer: Buffer, *, path: str = MEMORY) -> PropertiesFile:
    text = bytes(buffer).decode("latin-1")  # one character per byte: positions agree
    return PropertiesFile(tuple(_iter_lines(text, path)))


def _iter_lines(text: str, path: str) -> Iterator[PropertiesLine]:
    position = 0
    while position < len(text):
        logical, end = _logical_line(text, position)
        raw = text[position:end].encode("latin-1")
        found = None if logical is None else _property(logical, Location(path, position))
        yield PropertiesLine(raw, found)
        position = end


def _logical_line(text: str, position: int) -> tuple[str | None, int]:
    """Return the next property, its lines joined (None: blank or comment), and its end."""
    parts: list[str] = []
    while position < len(text):
        natural = next(_NATURAL_LINE.finditer(text, position))
        position = natural.end()
        part = natural[1]
        if part.startswith(("#", "!")) and not parts:
            return None, position  # like Java, also after a line of only a backslash
        if (len(part) - len(part.rstrip("\\"))) % 2 == 0:
            return "".join((*parts, part)) or None, position
        if len(part) > 1:
            parts.append(part[:-1])
    # The file ends in a backslash, which Java drops. If the line has nothing else, Java takes the
    # empty rest for a property with an empty key, except after CR LF, where it looks for a line.
    return "".join(parts) or (None if text.endswith("\r\n") else ""), position


def _property(logical: str, location: Location) -> Property:
    key_end = _end(_KEY, logical, 0)
    value_start = _end(_SEPARATOR, logical, key_end)
    return Property(
        location.position,
        _unescaped(logical[:key_end], location),
        _unescaped(logical[value_start:], location),
    )


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    return next(pattern.finditer(text, position)).end()


def _unescaped(text: str, location: Location) -> str:
    if "\\" not in text:
        return text
    plain = _ESCAPE.sub(lambda found: _meaning(found[1], text, location), text)
    # Java's \ud83d\ude00 is one character in two surrogates; a lone surrogate is kept.
    return plain.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


def _meaning(escaped: str, text: str, location: Location) -> str:
    if len(escaped) > 1:
        return chr(int(escaped[1:], 16))
    if escaped == "u":
        raise CorruptError(location, excerpt(text), "four hex digits after \\u")
    return _MEANINGS.get(escaped, escaped)


def _escaped(text: str, *, spaces: bool) -> str:
    """Escape a key (every space) or a value (only a space at its beginning) as Java does."""
    escaped = _SPECIAL.sub(lambda found: _SPELLINGS.get(found[0], "\\" + found[0]), text)
    if spaces:
        return escaped.replace(" ", "\\ ")
    return "\\" + escaped if escaped.startswith(" ") else escaped


def encode_properties(file: PropertiesFile) -> bytes:
    return b"".join(line.raw for line in file.lines)


def read_properties(path: str | os.PathLike[str]) -> PropertiesFile:
    return decode_properties(read_file_bytes(path, limit=MAX_SIZE), path=os.fspath(path))


class MetaProperties(NamedTuple):
    """The content of `meta.properties`: the node and the cluster that own the log directory."""

    version: int
    cluster_id: str | None = None
    node_id: int | None = None
    """`broker.id` in version 0, `node.id` in version 1."""
    directory_id: uuid.UUID | None = None


def decode_meta_properties(buffer: Buffer, *, path: str = MEMORY) -> MetaProperties:
    return meta_properties(decode_properties(buffer, path=path), path=path)


def meta_properties(file: PropertiesFile, *, path: str = MEMORY) -> MetaProperties:
    """Parse the values. Raises where org.apache.kafka.metadata.properties.MetaProperties throws."""
    version = _version(file, path)
    node_id = file.find("broker.id" if version == 0 else "node.id")
    cluster_id = file.find("cluster.id")
    directory_id = file.find("directory.id")
    if version != 0:
        for key in ("node.id", "cluster.id"):
            if file.find(key) is None:
                raise CorruptError(Location(path, 0), f"no {key}", f"{key}=… in version 1")
    return MetaProperties(
        version,
        cluster_id.value if cluster_id else None,
        _parsed(node_id, java_text.parse_int, "a 32-bit integer", path) if node_id else None,
        _parsed(directory_id, java_text.parse_uuid, "a UUID in base64", path)
        if directory_id
        else None,
    )


def _version(file: PropertiesFile, path: str) -> int:
    written = file.find("version")
    if written is None:
        return 0
    trimmed = written._replace(value=written.value.strip(_TRIMMED))
    version = _parsed(trimmed, java_text.parse_int, "an integer", path)
    if version not in (0, 1):
        raise UnsupportedError(Location(path, written.position), f"version {version}", "0 or 1")
    return version


def _parsed(
    written: Property, parse: Callable[[str], _Value | None], expected: str, path: str
) -> _Value:
    value = parse(written.value)
    if value is None:
        location = Location(path, written.position)
        raise CorruptError(location, f"{written.key}={excerpt(written.value)}", expected)
    return value


def encode_meta_properties(meta: MetaProperties, *, date: str, sort_keys: bool = False) -> bytes:
    """Encode a new file as Kafka on JDK 11 or 17 does; with `sort_keys` as on JDK 18 and later.

    `date` is java.util.Date's text, such as `Sat Nov 15 08:09:10 UTC 2025`.
    """
    properties = {"version": str(meta.version)}
    if meta.cluster_id is not None:
        properties["cluster.id"] = meta.cluster_id
    if meta.node_id is not None:
        properties["broker.id" if meta.version == 0 else "node.id"] = str(meta.node_id)
    if meta.directory_id is not None:
        properties["directory.id"] = java_text.uuid_text(meta.directory_id)
    keys = sorted(properties, key=str if sort_keys else _hash_bucket)
    ordered = {key: properties[key] for key in keys}
    return encode_properties(PropertiesFile.of(ordered, date=date))


def _hash_bucket(key: str) -> int:
    """Return the place of a key in the iteration order of java.util.Properties with 16 buckets."""
    java_hash = 0
    for character in key:
        java_hash = (java_hash * 31 + ord(character)) & 0xFFFF_FFFF
    return (java_hash ^ java_hash >> 16) & 15


def read_meta_properties(path: str | os.PathLike[str]) -> MetaProperties:
    """Read `meta.properties` of a log dir. Raises FormatError."""
    return meta_properties(read_properties(path), path=os.fspath(path))
