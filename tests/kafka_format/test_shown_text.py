r"""Text from the evidence for people: whatever stands in it, a terminal sees no command."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_format.shown_text import escaped, is_clean, json_escaped, name_base64, name_text

# C0, DEL, C1, the bidirectional controls, the line and paragraph separators
UNSAFE = [
    *range(0x20),
    *range(0x7F, 0xA0),
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
    0x2028,
    0x2029,
]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("orders-0", "orders-0"),
        ("größe 大 🙂", "größe 大 🙂"),
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("a\r\nisvalid: true", r"a\x0d\x0aisvalid: true"),
        ("\x9b2J", r"\x9b2J"),
        ("\u202egol.0", r"\u202egol.0"),
        ("\udcff", r"\xff"),  # a byte of a file name that is not UTF-8
        ("\ud800", r"\ud800"),
    ],
)
def test_examples(text, shown):
    assert escaped(text) == shown


@given(st.text(st.characters(codec=None), max_size=50))
def test_nothing_unsafe_stays_and_the_rest_is_as_it_was(text):
    shown = escaped(text)
    assert not {*map(ord, shown)} & {*UNSAFE}
    shown.encode()  # no half of a character either
    safe = not {*map(ord, text)} & {*UNSAFE} and not any(0xD800 <= ord(c) < 0xE000 for c in text)
    assert is_clean(text) == safe
    assert (shown == text) == safe


@given(st.text(max_size=50))
def test_json_is_the_same_value_for_a_parser(text):
    line = json_escaped(json.dumps({"a": text}, ensure_ascii=False))
    assert json.loads(line) == {"a": text}
    assert not {*map(ord, line)} & {*UNSAFE}


@given(st.binary(max_size=30))
def test_a_name_that_is_not_utf8_has_its_bytes_beside_it(name):
    text = name.decode("utf-8", "surrogateescape")
    shown, beside = name_text(text), name_base64(text)
    assert shown == name.decode("utf-8", "replace")
    is_utf8 = "\ufffd" not in shown or name == shown.encode()
    assert (beside is None) == is_utf8
