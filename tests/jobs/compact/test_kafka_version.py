"""`--kafka-version`: the rules of releases that a verb does not know are refused, not guessed."""

import pytest

from jobs import compact, offsets, recover, retain
from jobs.options import CLEAN, USAGE
from tests.jobs.compact.compacting import run
from tests.jobs.verbs import run_verb


@pytest.mark.parametrize(
    "version",
    [
        "3.9",  # its releases do not clean alike
        "3.9.0",  # index entries once a chunk
        "3.9.2",  # keeps the last batch of a round
        "3.9.10",
    ],
)
def test_of_3_9_one_release_is_known_and_must_be_named(capsys, data, version):
    status, _, said = run(capsys, data, "--dry-run", "--kafka-version", version)
    assert status == USAGE
    assert said.splitlines()[0] == (
        f"kafka-forensics compact: argument --kafka-version: '{version}': expected 3.9.1 or 4.3"
        " (the 3.9 releases differ: give 3.9.1)"
    )


@pytest.mark.parametrize(
    "version",
    [
        "3.8.1",
        "4.0",  # index entries once a chunk
        "4.4",  # the last batch is kept at the high watermark
        "",
    ],
)
def test_releases_with_other_last_batches_or_index_entries_are_refused(capsys, data, version):
    status, _, said = run(capsys, data, "--dry-run", "--kafka-version", version)
    assert status == USAGE
    assert said.splitlines()[0].endswith(f"--kafka-version: '{version}': expected 3.9.1 or 4.3")


@pytest.mark.parametrize("version", ["3.9.1", "4.3", "4.3.1"])
def test_a_release_that_is_known_may_be_named(capsys, data, version):
    status, *_ = run(capsys, data, "--dry-run", "--kafka-version", version)
    assert status == CLEAN


@pytest.mark.parametrize("verb", [retain, recover, offsets], ids=lambda verb: verb.__name__)
def test_verbs_without_the_rules_of_3_9_1_refuse_them(capsys, data, verb):
    status, _, said = run_verb(verb.main, capsys, data, "--kafka-version", "3.9.1")
    assert status == USAGE
    assert said.splitlines()[0].endswith("argument --kafka-version: '3.9.1': expected 4.3")


def test_help_tells_which_releases_are_known(capsys):
    compact.main(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "follow the rules of this Kafka version: 3.9.1 (only that release) or 4.3 (default)" in said
    )
