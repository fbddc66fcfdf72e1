"""Segments that somebody removed, in directories of real brokers."""

import shutil

import pytest

from kafka_log.config.settings import read_settings
from kafka_log.inventory.lost_segments import with_lost_segments
from kafka_log.inventory.scan import scan
from tests import golden


def messages(directory, *overrides):
    inventory = scan([directory])
    settings = read_settings(
        metadata=inventory.metadata, node_id=inventory.node_id, overrides=overrides
    )
    found = with_lost_segments(inventory, settings)
    return [f"{each.path}: {each.message}" for each in found.all_problems()]


@pytest.fixture
def data(tmp_path):
    (source,) = golden.log_dirs(golden.shared("unclean-4.3.1"))
    shutil.copytree(source, tmp_path / "data")
    return tmp_path / "data"


@pytest.mark.parametrize("pack", golden.names())
def test_no_broker_leaves_such_a_log(pack):
    for directory in golden.log_dirs(golden.shared(pack)):
        assert messages(directory) == []


def test_a_segment_in_the_middle_is_missed(data):
    for path in data.glob("rolled-by.time-0/00000000000000000009.*"):
        path.unlink()
    (message,) = messages(data)
    assert message == (
        f"{data}/rolled-by.time-0: offsets 9 to 11 are missing: 00000000000000000006.log ends "
        "before 9, the next segment begins at 12, and the topic is not compacted"
    )


def test_a_gap_in_a_compacted_topic_proves_nothing(data):
    for path in data.glob("rolled-by.time-0/00000000000000000009.*"):
        path.unlink()
    assert messages(data, "cleanup.policy=compact") == []


def test_without_cluster_metadata_a_gap_proves_nothing(data):
    shutil.rmtree(data / "__cluster_metadata-0")
    for path in data.glob("rolled-by.time-0/00000000000000000009.*"):
        path.unlink()
    assert messages(data) == []


def test_index_files_without_their_log_are_what_is_left_of_a_segment(data):
    (data / "transactions-0" / "00000000000000000000.log").unlink()
    (message,) = messages(data)
    assert message == (
        f"{data}/transactions-0/00000000000000000000.log: the segment's records are gone: "
        "00000000000000000000.index, 00000000000000000000.timeindex without a .log"
    )


def test_a_deletion_that_a_crash_interrupted_is_kafkas_own(data):
    log = data / "transactions-0" / "00000000000000000000.log"
    log.rename(log.with_suffix(".log.deleted"))
    assert messages(data) == []
