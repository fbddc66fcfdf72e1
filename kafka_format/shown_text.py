r"""Text from the evidence as people may see it: nothing in it can act on a terminal.

    escaped(text)     on one line, with every control as `\x1b`, `\u202e`
    is_clean(text)    whether that would change nothing
    say(*lines)       to stderr, escaped: the only function that writes there
    shortened(text)   its beginning and its length, if it is longer than an id or a value should be
    name_text(name)   a file name that is not UTF-8, with U+FFFD for each byte that does not fit
    name_base64(name) its bytes, where `name_text` does not show them all; else None

Escaped are C0 and C1 controls, DEL, the bidirectional controls (U+202A to 202E, U+2066 to 2069),
the line and paragraph separators U+2028 and U+2029, and the halves of characters that Python keeps
for bytes that are not UTF-8.
"""

from __future__ import annotations

import base64
import re
import sys

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")
_LONGEST_SHOWN = 100
_UNDECODED = range(0xDC80, 0xDD00)
"""Where os.fsdecode keeps bytes that are not UTF-8."""


def escaped(text: str) -> str:
    """On one line, and without anything that a terminal would obey."""
    return _UNSAFE.sub(_escape, text)


def say(*lines: str) -> None:
    """Write lines to stderr, each escaped: a path in one cannot act on a terminal."""
    sys.stderr.write("".join(f"{escaped(line)}\n" for line in lines))


def shortened(text: str) -> str:
    """Return the beginning of a text that would fill the screen, and how long it is."""
    if len(text) <= _LONGEST_SHOWN:
        return text
    return f"{text[:_LONGEST_SHOWN]}… ({len(text):,} characters)"


def is_clean(text: str) -> bool:
    return _UNSAFE.search(text) is None


def _escape(match: re.Match[str]) -> str:
    number = ord(match[0])
    if number in _UNDECODED:  # a byte, not a character
        number -= 0xDC00
    return f"\\x{number:02x}" if number < 0x100 else f"\\u{number:04x}"


def json_escaped(line: str) -> str:
    """A line of JSON, equal for a parser, that a terminal does not obey.

    Its C0 controls are escaped by JSON itself, except for the newline at its end.
    """
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", line)


_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")


def name_text(name: str) -> str:
    """As UTF-8 can hold it: rows and JSON take no halves of characters."""
    return name_bytes(name).decode("utf-8", "replace")


def name_base64(name: str) -> str | None:
    """The bytes of a name that is not UTF-8; None for one that is."""
    return None if name_text(name) == name else base64.b64encode(name_bytes(name)).decode()


def name_bytes(name: str) -> bytes:
    """As they are on the disk; half a character that is no byte becomes "?", as in Java."""
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return name.encode("utf-8", "replace")
