import re
import uuid

import pytest

from kafka_format.errors import CorruptError
from kafka_format.java_text import iter_lines, parse_int, parse_long, parse_uuid, split, uuid_text

SPACES = re.compile(r"\s+", re.ASCII)

# Each worked out from the JDK's documentation, and asked of a JVM in test_side_files_oracle.
INTEGERS = {
    "0": 0,
    "-0": 0,
    "+5": 5,
    "007": 7,
    "2147483647": 2147483647,
    "-2147483648": -2147483648,
    "0" * 5000 + "9": 9,
    "\u0661\u0662": 12,  # Arabic-Indic digits
    "\uff15": 5,  # full-width
    "": None,
    "+": None,
    "-": None,
    "+-5": None,
    " 5": None,
    "5 ": None,
    "1_0": None,
    "0x5": None,
    "5.0": None,
    "\u00b2": None,  # a superscript is no decimal digit
    "\U0001d7d3": None,  # a digit, but of two UTF-16 units
    "2147483648": None,
    "-2147483649": None,
    "9" * 5000: None,
    "\ufeff5": None,
}


@pytest.mark.parametrize(("text", "value"), INTEGERS.items(), ids=range(len(INTEGERS)))
def test_integers_are_read_as_java_reads_them(text, value):
    assert parse_int(text) == value


def test_longs_have_their_own_range():
    assert parse_long("9223372036854775807") == 2**63 - 1
    assert parse_long("-9223372036854775808") == -(2**63)
    assert parse_long("9223372036854775808") is None
    assert parse_long("-9223372036854775809") is None
    assert parse_long("+00000000000000000000000000000012") == 12


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"", []),
        (b"a", [(0, "a")]),
        (b"a\n", [(0, "a")]),
        (b"\n", [(0, "")]),
        (b"a\nb", [(0, "a"), (2, "b")]),
        (b"a\r\nb\rc\n\nd", [(0, "a"), (3, "b"), (5, "c"), (7, ""), (8, "d")]),
        (b"a\n\r", [(0, "a"), (2, "")]),
        (b"a\x0b\x0c\xc2\x85b\n", [(0, "a\x0b\x0c\x85b")]),  # line ends elsewhere, not in Java
        ("ü\nx".encode(), [(0, "ü"), (3, "x")]),  # positions count bytes
    ],
)
def test_lines_end_as_in_java(data, lines):
    assert list(iter_lines(data)) == lines


def test_bytes_that_are_not_utf8_are_located():
    with pytest.raises(CorruptError) as caught:
        list(iter_lines(b"0\n1\n\xff\n", path="x"))
    assert str(caught.value) == "x@4: found byte 0xff, expected UTF-8 text"


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("", [""]),
        ("a", ["a"]),
        ("a b", ["a", "b"]),
        ("a \t b", ["a", "b"]),
        (" a b", ["", "a", "b"]),
        ("a b ", ["a", "b"]),
        (" ", []),
        ("a\u00a0b", ["a\u00a0b"]),  # a space of Unicode is none of \s
    ],
)
def test_splitting_drops_empty_parts_at_the_end_only(text, parts):
    assert split(SPACES, text) == parts


def test_a_uuid_is_22_characters_of_base64():
    value = uuid.UUID("0aca0b53-1bcf-4f87-aaa9-9a05d2709f1b")
    assert uuid_text(value) == "CsoLUxvPT4eqqZoF0nCfGw"
    assert parse_uuid("CsoLUxvPT4eqqZoF0nCfGw") == value
    assert parse_uuid("CsoLUxvPT4eqqZoF0nCfGw==") == value


def test_bits_beyond_the_uuid_are_ignored():
    assert parse_uuid("CsoLUxvPT4eqqZoF0nCfGx") == parse_uuid("CsoLUxvPT4eqqZoF0nCfGw")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "CsoLUxvPT4eqqZoF0nCfG",
        "CsoLUxvPT4eqqZoF0nCfGwA",
        "CsoLUxvPT4eqqZoF0nCfGw=",
        "CsoLUxvPT4eqqZoF0nCfG+",
        "0aca0b53-1bcf-4f87-aaa9-9a05d2709f1b",
        "CsoLUxvPT4eqqZoF0nCfGw\n",
    ],
)
def test_other_text_is_no_uuid(text):
    assert parse_uuid(text) is None
