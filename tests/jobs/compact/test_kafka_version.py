"""`compact --kafka-version`: the rules of releases that are not known are refused, not guessed."""

import pytest

from jobs.options import CLEAN, USAGE
from tests.jobs.compact.compacting import run


@pytest.mark.parametrize(
    "version",
    [
        "3.9",  # no conversion of old magics, last batch of a round dropped: the library knows it
        "3.9.0",  # index entries once a chunk
        "4.0",  # as well
        "4.4",  # the last batch is kept at the high watermark
    ],
)
def test_releases_with_other_last_batches_or_index_entries_are_refused(capsys, data, version):
    status, _, said = run(capsys, data, "--dry-run", "--kafka-version", version)
    assert status == USAGE
    assert f"--kafka-version: '{version}': known here: 4.3" in said


def test_the_newest_release_may_be_named(capsys, data):
    status, *_ = run(capsys, data, "--dry-run", "--kafka-version", "4.3.1")
    assert status == CLEAN
