"""Tables for people, JSON lines for programs."""

import json
import os
import pty
import shutil
import struct
import subprocess
import sys
from fcntl import ioctl
from pathlib import Path
from termios import TIOCSWINSZ

import pytest

from jobs.table import human_duration, human_size, json_line, table
from tests import golden

ROOT = Path(__file__).parents[2]
SECOND, MINUTE, HOUR, DAY = 1000, 60_000, 3_600_000, 86_400_000


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (10_137, "9.9 KiB"),
        (10_200, "10 KiB"),
        (1_048_575, "1.0 MiB"),
        (10 * 2**20, "10 MiB"),
        (3 * 2**40, "3.0 TiB"),
        (2**63, "8192 PiB"),
        (None, None),
    ],
)
def test_sizes_are_for_people(size, text):
    assert human_size(size) == text


def test_columns_are_aligned_and_numbers_end_under_each_other():
    rows = [("a", 5, None), ("längër", 12345, True), ("表", 0, "x")]
    assert [*table(("name", "count", "note"), rows, right=["count"])] == [
        "NAME    COUNT  NOTE",
        "a           5  -",
        "längër  12345  yes",
        "表          0  x",
    ]


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (12, "12 ms"),
        (999, "999 ms"),
        (1_000, "1 s"),
        (1_200, "1.2 s"),
        (9_999, "9.9 s"),
        (45_000, "45 s"),
        (59_999, "59 s"),
        (MINUTE, "1 min"),
        (90 * SECOND, "1 min 30 s"),
        (HOUR, "1 h"),
        (3 * HOUR + 12 * MINUTE + 59 * SECOND, "3 h 12 min"),
        (HOUR + 59 * SECOND, "1 h"),
        (172_314_671, "1 d 23 h"),
        (2 * DAY + 4 * HOUR, "2 d 4 h"),
        (94_830_400_000, "3 y 2 d"),
        (30 * 365 * DAY + 4 * DAY, "30 y 4 d"),
        (9_223_370_242_024_375_807, "292,471,151 y"),
        (-HOUR, "-1 h"),
    ],
)
def test_durations_are_for_people(milliseconds, text):
    assert human_duration(milliseconds) == text


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("\x1b[31mred\n\udcff", "\\x1b[31mred\\x0a\\xff"),
        ("\u202egnp.log", "\\u202egnp.log"),
        ("a\x9b31mb", "a\\x9b31mb"),
        ("emoji \U0001f600", "emoji \U0001f600"),
    ],
)
def test_a_name_cannot_act_on_a_terminal(name, shown):
    (_, line) = table(("name",), [(name,)])
    assert line == shown


def test_names_that_are_not_utf_8_are_replaced_and_given_as_base64():
    assert json_line({"path": "ä"}) == '{"path": "ä"}'
    assert json_line({"path": "a\udcff", "n": 1}) == (
        '{"path": "a\ufffd", "path_base64": "Yf8=", "n": 1}'
    )


def test_json_is_the_same_to_a_parser_and_harmless_to_a_terminal():
    row = {"path": "a\x9b31m\u202e", "names": ["\u2028"]}
    line = json_line(row)
    assert json.loads(line) == row
    assert line.isascii()


def test_marks_without_a_width_take_no_column():
    rows = [("e\u0301te\u0301", 1), ("\u200bzero", 2), ("hwan", 3)]
    assert [*table(("name", "n"), rows, right=["n"])] == [
        "NAME  N",
        "e\u0301te\u0301   1",
        "\u200bzero  2",
        "hwan  3",
    ]


# ------------------------------------------------------------------------------- on a terminal


@pytest.fixture
def terminal(monkeypatch):
    """Stdout as a terminal of some columns."""

    def of(columns):
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)

    return of


HEADER = ("partition", "end", "reason")
ROWS = [("orders-with-a-long-name-0", 9_223_372_036_854_775_807, "x" * 60), ("t-1", 1, "short")]


def test_the_widest_text_is_shortened_until_the_table_fits(terminal):
    terminal(90)
    lines = [*table(HEADER, ROWS, right=["end"])]
    assert max(map(len, lines)) == 90
    assert lines[1] == f"orders-with-a-long-name-0  9223372036854775807  {'x' * 41}…"
    assert lines[2].endswith("  short")


def test_then_the_next_widest_and_never_a_number(terminal):
    terminal(60)
    lines = [*table(HEADER, ROWS, right=["end"])]
    assert max(map(len, lines)) == 60
    assert lines[1] == "orders-with-a-lon…  9223372036854775807  xxxxxxxxxxxxxxxxxx…"


def test_columns_stay_readable_on_a_terminal_too_narrow_for_them(terminal):
    terminal(5)
    assert [*table(HEADER, ROWS, right=["end"])][1] == (
        "orders-wi…  9223372036854775807  xxxxxxxxx…"
    )


def test_numbers_are_known_by_their_look_too(terminal):
    terminal(20)
    lines = [*table(("a", "b"), [("12345678901234567890", "text" * 9)])]
    assert lines[1] == "12345678901234567890  texttextt…"


def test_wide_characters_are_cut_whole(terminal):
    terminal(12)
    (_, line) = table(("name",), [("表" * 9,)])
    assert line == "表表表表表…"  # eleven columns: half a character is none


def test_all_of_it_in_a_pipe_and_with_wide(terminal, monkeypatch):
    terminal(40)
    whole = f"orders-with-a-long-name-0  9223372036854775807  {'x' * 60}"
    assert [*table(HEADER, ROWS, right=["end"], wide=True)][1] == whole
    monkeypatch.setattr(sys.stdout, "isatty", lambda: False)
    assert [*table(HEADER, ROWS, right=["end"])][1] == whole


def on_a_terminal(columns, *words, **environment):
    """What the command prints on a terminal of so many columns."""
    ours, theirs = pty.openpty()
    ioctl(theirs, TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    (log_dir,) = golden.log_dirs(golden.shared("unclean-4.3.1"))
    process = subprocess.Popen(
        [sys.executable, "-m", "jobs.cli", *words],
        cwd=log_dir,
        env={"PYTHONPATH": str(ROOT), "PYTHONUTF8": "1", **environment},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    said = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        said += piece
    os.close(ours)
    assert process.wait() == 0
    return said.decode().split("\r\n")


@pytest.mark.parametrize(
    ("words", "environment", "most"),
    [
        ((), {}, 100),
        ((), {"COLUMNS": "120"}, 120),
        (("--wide",), {}, None),
    ],
)
def test_a_verb_fits_a_real_terminal(words, environment, most):
    lines = on_a_terminal(100, "offsets", ".", "--topic", "transactions", *words, **environment)
    longest = max(map(len, lines))
    assert longest > 130 if most is None else longest == most
    assert ("…" in "".join(lines)) == (most is not None)


def test_a_terminal_of_unknown_size_has_80_columns():
    assert shutil.get_terminal_size((80, 24)).columns >= 1
    lines = on_a_terminal(0, "retain", "far-timestamps-0", "--now", "1794830400000")
    assert max(map(len, lines)) <= 95
