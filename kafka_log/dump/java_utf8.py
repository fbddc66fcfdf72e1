"""Bytes to text as Java's `new String(bytes, UTF_8)` does it.

Java and Python replace malformed bytes by U+FFFD in the same portions, with one exception: of an
encoded surrogate (ED A0..BF, and a third byte if it fits) Java makes one U+FFFD, Python two or
three.
"""

import re

_SURROGATE = re.compile(rb"\xed[\xa0-\xbf][\x80-\xbf]?")
_REPLACEMENT = "\ufffd".encode()


def decode_utf8(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _SURROGATE.sub(_REPLACEMENT, data).decode("utf-8", "replace")


def utf8_or_none(data: bytes) -> str | None:
    """The text, if these bytes are one."""
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None
