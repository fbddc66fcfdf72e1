"""Parse text as Java does: lines, splitting, integers, UTF-8, and Kafka's notation of a UUID.

Brokers read their text files with java.io.BufferedReader, java.util.regex and Integer.parseInt,
which accept more than Kafka ever writes. To judge a file as a broker would, accept the same:

    line end    LF, CR LF or a lone CR; the last line needs none
    split       empty strings at the end are dropped, at the beginning they are kept
    integer     an optional + or -, then decimal digits of any script (U+0663 is 3), no spaces, no
                underscores; leading zeros without limit; then the range is checked
    UUID        22 characters of URL-safe base64, with or without `==`; the four surplus bits of
                the last character are ignored
    UTF-8       malformed bytes become U+FFFD in the same portions as in Python, except that Java
                makes one U+FFFD of an encoded surrogate (ED A0..BF, and a third byte if it fits)

Digits of any script do occur: java.text.NumberFormat writes file names in the digits of the
broker's locale. Java looks at UTF-16 units, so it rejects digits beyond the first plane (U+1D7D3).
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
_FILE_NAME_DIGITS = 20
_INT64_DIGITS = 19

ZERO_UUID = uuid.UUID(int=0)


_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\ufffd".encode()


def decode_utf8(data: bytes) -> str:
    """Decode as `new String(bytes, UTF_8)` does: any bytes are a text."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, data).decode("utf-8", "replace")


class Line(NamedTuple):
    """A line without its end, and the position of its first byte."""

    position: int
    text: str


def iter_lines(buffer: Buffer, *, path: str = MEMORY) -> Iterator[Line]:
    """Yield lines as BufferedReader.readLine does. Raises CorruptError if they are not UTF-8."""
    data = bytes(buffer)
    try:
        data.decode()
    except UnicodeDecodeError as error:
        location = Location(path, error.start)
        raise CorruptError(location, f"byte {data[error.start]:#04x}", "UTF-8 text") from None
    for match in _LINE.finditer(data):
        if match.start() < len(data):  # no line follows the last line end
            yield Line(match.start(), match[1].decode())


def split(pattern: re.Pattern[str], text: str) -> list[str]:
    """Split as java.util.regex.Pattern does, for a pattern that never matches the empty text."""
    parts = pattern.split(text)
    if len(parts) == 1:
        return parts  # the empty text has one part, not none
    while parts and not parts[-1]:
        parts.pop()
    return parts


def parse_int(text: str) -> int | None:
    """Parse as Integer.parseInt does; None where Java throws."""
    return _parse(text, bits=32)


def parse_long(text: str) -> int | None:
    """Parse as Long.parseLong does; None where Java throws."""
    return _parse(text, bits=64)


def _parse(text: str, *, bits: int) -> int | None:
    if len(text) <= _FILE_NAME_DIGITS and text.isascii() and text.isdigit():  # nearly always
        value = int(text)
        return value if value < 1 << (bits - 1) else None
    negative = text[:1] == "-"
    digits = text[1:] if text[:1] in ("-", "+") else text
    # isdecimal is Unicode's category Nd, as is Java's Character.isDigit.
    if not digits.isdecimal() or max(digits) > _LAST_OF_FIRST_PLANE:
        return None
    if len(digits) > _INT64_DIGITS:  # before int(), which rejects thousands of digits
        if not digits.isascii():
            digits = "".join(str(unicodedata.decimal(digit)) for digit in digits)
        digits = digits.lstrip("0") or "0"
        if len(digits) > _INT64_DIGITS:
            return None
    value = -int(digits) if negative else int(digits)
    return value if -(1 << (bits - 1)) <= value < 1 << (bits - 1) else None


def parse_uuid(text: str) -> uuid.UUID | None:
    """Parse as org.apache.kafka.common.Uuid.fromString does; None where it throws."""
    if not _UUID.fullmatch(text):
        return None
    return uuid.UUID(bytes=base64.urlsafe_b64decode(text[:22] + "=="))


def uuid_text(value: uuid.UUID) -> str:
    """Return a UUID in Kafka's notation: 22 characters of URL-safe base64, not hex with dashes."""
    return base64.urlsafe_b64encode(value.bytes)[:22].decode()


def excerpt(text: str, limit: int = 80) -> str:
    """Return text for an error message: quoted, on one line, and shortened to `limit`."""
    return repr(text) if len(text) <= limit else f"{text[:limit]!r}… ({len(text)} characters)"
