"""Read the JSON object at the beginning of a file, as Jackson does for Kafka.

Like Jackson by default, ignore what follows the object; the caller gets the position of its end.
"""

import json
import re
from typing import Any, NoReturn

from kafka_format.errors import MEMORY, CorruptError, Location
from kafka_format.java_text import excerpt

_ESCAPED = re.compile(r'["\\\x00-\x1f]')
_SHORT = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}
_WHITESPACE = " \t\r\n"


def decode_object(text: str, *, path: str = MEMORY) -> tuple[dict[str, Any], int]:
    """Return the object at the beginning of a text, and the position after it."""
    start = len(text) - len(text.lstrip(_WHITESPACE))
    try:
        value, end = json.JSONDecoder(parse_constant=_refuse).raw_decode(text, start)
    except json.JSONDecodeError as error:
        position = len(text[: error.pos].encode())
        raise CorruptError(Location(path, position), f"no JSON: {error.msg}", "JSON") from None
    except (ValueError, RecursionError) as error:  # NaN, thousands of digits, thousands of brackets
        raise CorruptError(Location(path, start), f"no JSON: {error}", "JSON") from None
    if not isinstance(value, dict):
        raise CorruptError(Location(path, start), excerpt(json.dumps(value)), "a JSON object")
    return value, len(text[:end].encode())


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)  # Python's json accepts NaN and Infinity, Jackson does not


def is_integer(value: object, *, bits: int) -> bool:
    """Return whether a JSON value is an integer of that many bits; true and false are not."""
    return type(value) is int and -(1 << (bits - 1)) <= value < 1 << (bits - 1)


def quoted(text: str) -> str:
    """Quote a string as Jackson does: hex digits in upper case, other scripts unchanged."""
    return '"' + _ESCAPED.sub(lambda found: _escape(found[0]), text) + '"'


def _escape(character: str) -> str:
    return _SHORT.get(character) or f"\\u{ord(character):04X}"
