"""The command without a verb, or with one that is not there."""

import pytest

from jobs import cli


@pytest.mark.parametrize(
    ("word", "verb"),
    [
        ("tail", "dump"),
        ("ls", "list"),
        ("fsck", "audit"),
        ("clean", "compact"),
        ("verify", "audit"),
        ("exprot", "export"),
        ("offset", "offsets"),
        ("compaction", "compact"),
        ("ret", "retain"),
    ],
)
def test_an_unknown_verb_suggests_the_one_that_was_meant(word, verb, capsys):
    assert cli.main([word, "."]) == 2
    first = capsys.readouterr().err.splitlines()[0]
    assert first == f"kafka-forensics: unknown verb {word}: did you mean {verb}?"


@pytest.mark.parametrize("word", ["train", "main", "xyz", "log"])
def test_an_unknown_verb_like_none_suggests_none(word, capsys):
    assert cli.main([word, "."]) == 2
    assert capsys.readouterr().err.splitlines()[0] == f"kafka-forensics: unknown verb {word}"


def test_every_other_word_leads_to_a_verb():
    assert set(cli._OTHER_WORDS.values()) <= set(cli.VERBS)
    assert set(cli._OTHER_WORDS).isdisjoint(cli.VERBS)
