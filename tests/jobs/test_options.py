"""What verbs share: options are typed at the door, and every end has its exit code."""

import argparse
import sys

import pytest

from jobs import options
from jobs.options import Mode, Selection


def parser() -> options.Parser:
    made = options.Parser("retain", description="", epilog="")
    options.add_paths(made)
    options.add_selection(made)
    options.add_settings(made)
    options.add_clock(made)
    options.add_mode(made)
    options.add_format(made)
    options.add_engine(made)
    options.add_kafka_version(made)
    return made


def parsed(*words: str) -> argparse.Namespace:
    arguments = options.parse(parser(), words)
    assert arguments is not None
    return arguments


def test_words_and_paths_may_be_mixed():
    arguments = parsed("a", "--set", "retention.ms=1", "b", "--set", "x=y", "--config", "f", "c")
    assert arguments.paths == ["a", "b", "c"]
    assert (arguments.set, arguments.config) == (["retention.ms=1", "x=y"], "f")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "no PATH given"),
        (("x", ""), "PATH must not be empty"),
        (
            ("x", "--now", str(2**63)),
            "9223372036854775808: expected milliseconds that fit in 64 bits",
        ),
        (("x", "--tpic", "a"), "unknown argument --tpic: did you mean --topic?"),
        (
            ("x", "--set", "a=b", "--kafka"),
            "--kafka: did you mean --kafka-version?",
        ),
        (("x", "--", ""), "PATH must not be empty"),
        (("x", "--partition", "one"), "'one': expected a partition number, 0 or more"),
        (("x", "--partition", "-1"), "'-1': expected a partition number, 0 or more"),
        (
            ("x", "--now", "1700000000"),
            "looks like seconds (2023-11-14T22:13:20Z), expected milliseconds: 1700000000000",
        ),
        (("x", "--now", "noon"), "'noon': expected epoch milliseconds or a time such as"),
        (("x", "--dry-run", "--in-place"), "argument --in-place: not allowed with argument --dry"),
        (("x", "--output", "o", "--in-place"), "not allowed with argument --output"),
        (("x", "--engine", "flink"), "argument --engine: invalid choice: 'flink'"),
        (("x", "--kafka-version", "2.8"), "argument --kafka-version: '2.8': expected 4.3"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_code_2(words, message, capsys):
    assert options.run(parser(), words, lambda _: 0) == 2
    said = capsys.readouterr().err
    assert said.startswith("kafka-forensics retain: ")
    assert message in said.split("\n")[0]
    assert "usage: kafka-forensics retain PATH... [options]" in said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("1794817164457", 1794817164457),
        ("-1", -1),
        ("978307199", 978_307_199),  # not of this century, were it seconds
        ("253402300800", 253_402_300_800),  # nor of a year with four digits
        ("2026-11-16T08:59:24.457Z", 1794819564457),
        ("2026-11-16T10:59:24.457+02:00", 1794819564457),
        ("1970-01-02", 86_400_000),
    ],
)
def test_times_are_milliseconds_or_iso_and_utc_unless_they_say_otherwise(text, expected):
    assert options.clock(parsed("x", f"--now={text}"))() == expected


def test_without_now_the_clock_runs():
    assert options.clock(parsed("x"))() > 1_700_000_000_000


def test_what_may_be_written_is_nothing_unless_it_is_said():
    assert options.mode(parsed("x")) is Mode.DRY_RUN
    assert options.mode(parsed("x", "--dry-run")) is Mode.DRY_RUN
    assert options.mode(parsed("x", "--output", "o")) is Mode.OUTPUT
    assert options.mode(parsed("x", "--in-place")) is Mode.IN_PLACE


def test_topics_are_globs_and_each_option_is_any_of_its_values():
    words = ("--topic", "orders*", "--topic", "?ayments", "--partition", "0", "--partition", "2")
    selection = Selection.of(parsed("x", *words))
    assert selection.includes("orders.eu", 0)
    assert selection.includes("payments", 2)
    assert not selection.includes("payments", 1)
    assert not selection.includes("Orders", 0)
    assert not selection.includes("orders", None)
    assert not selection.is_everything
    assert Selection().is_everything
    assert Selection().includes("anything", None)


def test_help_is_help_and_nothing_is_done(capsys):
    assert options.run(parser(), ["--help"], lambda _: pytest.fail("worked")) == 0
    assert "--topic GLOB" in capsys.readouterr().out


def test_ctrl_c_ends_with_130():
    def interrupted(_: argparse.Namespace) -> int:
        raise KeyboardInterrupt

    assert options.run(parser(), ["x"], interrupted) == 130


def test_the_work_decides_the_rest(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["retain", "x"])
    assert options.run(parser(), None, lambda arguments: len(arguments.paths) + 2) == 3
