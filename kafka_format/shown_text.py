r"""Escape text from the evidence, so that it cannot control a terminal.

    escaped(text)     on one line, with every control character as `\x1b`, `\u202e`
    is_clean(text)    whether `escaped` would change nothing
    say(*lines)       to stderr, escaped: the only function that writes there
    shortened(text)   the beginning and the length of a text that is too long to show
    name_text(name)   a file name that is not UTF-8, with U+FFFD for each byte that does not fit
    name_base64(name) its bytes, where `name_text` does not show them all; else None

Escaped are C0 and C1 controls, DEL, the bidirectional controls (U+202A to 202E, U+2066 to 2069),
the line and paragraph separators U+2028 and U+2029, and the lone surrogates that Python uses for
bytes that are not UTF-8.
"""

from __future__ import annotations

import base64
import re
import sys

_UNSAFE = re.compile("[\x00-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")
_LONGEST_SHOWN = 100
_UNDECODED = range(0xDC80, 0xDD00)
"""The surrogates that os.fsdecode uses for bytes that are not UTF-8."""


def escaped(text: str) -> str:
    """Return text on one line, without characters that control a terminal."""
    return _UNSAFE.sub(_escape, text)


def say(*lines: str) -> None:
    """Write lines to stderr, each escaped: a path in one cannot control a terminal."""
    sys.stderr.write("".join(f"{escaped(line)}\n" for line in lines))


def shortened(text: str) -> str:
    """Return the beginning of a text that is too long to show, and its length."""
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
    """Return an equal line of JSON without characters that control a terminal.

    JSON itself escapes C0 controls, except for the newline at the end.
    """
    return _UNSAFE_IN_JSON.sub(lambda match: f"\\u{ord(match[0]):04x}", line)


_UNSAFE_IN_JSON = re.compile("[\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]")


def name_text(name: str) -> str:
    """Return a name as valid UTF-8: rows and JSON cannot hold lone surrogates."""
    return name_bytes(name).decode("utf-8", "replace")


def name_base64(name: str) -> str | None:
    """Return the bytes of a name that is not UTF-8 in base64; None if it is UTF-8."""
    return None if name_text(name) == name else base64.b64encode(name_bytes(name)).decode()


def name_bytes(name: str) -> bytes:
    """Return the bytes on disk. Like Java, write a surrogate that stands for no byte as "?"."""
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return name.encode("utf-8", "replace")
