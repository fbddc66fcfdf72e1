"""What Java makes of text: lines, splitting, integers, bytes, and Kafka's way to write a UUID.

Brokers read their text files with java.io.BufferedReader, java.util.regex and Integer.parseInt, and
these accept more than Kafka ever writes. To judge a file as a broker would, we accept the same:

    line end    LF, CR LF or a lone CR; the last line needs none
    split       empty strings at the end are dropped, at the beginning they are kept
    integer     an optional + or -, then decimal digits of any script (U+0663 is 3), no spaces, no
                underscores; leading zeros without limit; then the range is checked
    UUID        22 characters of URL-safe base64, with or without `==`; the four bits that the last
                character has too many are ignored
    UTF-8       malformed bytes become U+FFFD in the portions that Python finds too, but of an
                encoded surrogate (ED A0..BF, and a third byte if it fits) Java makes one U+FFFD

Digits of any script are not idle: java.text.NumberFormat writes file names in the digits of the
broker's locale. Java looks at UTF-16 units, so digits beyond the first plane (U+1D7D3) are none.
"""

import base64
import re
import unicodedata
import uuid
from collections.abc import Iterator
from typing import NamedTuple

from kafka_format.errors import MEMORY, CorruptError, Location
from kafka_format.primitives import Buffer

_LINE = re.compile(rb"([^\r\n]*)(?:\r\n|\r|\n|\Z)")
_UUID = re.compile(r"[A-Za-z0-9_-]{22}(==)?")
_LAST_OF_FIRST_PLANE = "\uffff"
_INT64_DIGITS = 19

ZERO_UUID = uuid.UUID(int=0)


_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\ufffd".encode()


def decode_utf8(data: bytes) -> str:
    """As `new String(bytes, UTF_8)`: whatever the bytes, a text."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, data).decode("utf-8", "replace")


class Line(NamedTuple):
    """A line without its end, and the position of its first byte."""

    position: int
    text: str


def iter_lines(buffer: Buffer, *, path: str = MEMORY) -> Iterator[Line]:
    """Lines as BufferedReader.readLine gives them, of bytes that must all be UTF-8."""
    data = bytes(buffer)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        location = Location(path, error.start)
        raise CorruptError(location, f"byte {data[error.start]:#04x}", "UTF-8 text") from None
    for match in _LINE.finditer(data):
        if match.start() < len(data):  # behind the last line end there is no further line
            yield Line(match.start(), match[1].decode())


def split(pattern: re.Pattern[str], text: str) -> list[str]:
    """java.util.regex.Pattern.split for a pattern that never matches nothing."""
    parts = pattern.split(text)
    if len(parts) == 1:
        return parts  # also the empty text: one part, not none
    while parts and not parts[-1]:
        parts.pop()
    return parts


def parse_int(text: str) -> int | None:
    """Integer.parseInt, or None where Java throws."""
    return _parse(text, bits=32)


def parse_long(text: str) -> int | None:
    """Long.parseLong, or None where Java throws."""
    return _parse(text, bits=64)


def _parse(text: str, *, bits: int) -> int | None:
    negative = text[:1] == "-"
    digits = text[1:] if text[:1] in ("-", "+") else text
    # isdecimal is Unicode's category Nd, as is Java's Character.isDigit.
    if not digits.isdecimal() or max(digits) > _LAST_OF_FIRST_PLANE:
        return None
    if len(digits) > _INT64_DIGITS:  # before int(), which refuses thousands of digits
        if not digits.isascii():
            digits = "".join(str(unicodedata.decimal(digit)) for digit in digits)
        digits = digits.lstrip("0") or "0"
        if len(digits) > _INT64_DIGITS:
            return None
    value = -int(digits) if negative else int(digits)
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


def parse_uuid(text: str) -> uuid.UUID | None:
    """org.apache.kafka.common.Uuid.fromString, or None where it throws."""
    if not _UUID.fullmatch(text):
        return None
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text[:22] + "=="))


def uuid_text(value: uuid.UUID) -> str:
    """A UUID in Kafka's words: 22 characters of URL-safe base64 (not the usual hex with dashes)."""
    return base64.urlsafe_b64encode(value.bytes)[:22].decode()


def shown(text: str, limit: int = 80) -> str:
    """Text for an error message: quoted, one line, and short whatever the file holds."""
    return repr(text) if len(text) <= limit else f"{text[:limit]!r}… ({len(text)} characters)"
