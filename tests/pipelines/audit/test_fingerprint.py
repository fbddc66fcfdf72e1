"""A fingerprint survives another mount and compaction, and tells findings apart."""

import shutil

import pytest

from kafka_log.checks.finding import About, Finding
from kafka_log.inventory.scan import scan
from pipelines.audit.fingerprint import Place, Places, fingerprint
from tests import golden
from tests.pipelines.audit.damaged import damaged, report_of

PLACE = Place("/data", "cluster", 1, "directory", "topic-id")
PATH = "/data/t-0/00000000000000000100.log"


def made(rule="LOG001", path=PATH, topic="t", partition=0, place=PLACE, **options):
    finding = Finding.of(rule, About(path, topic, partition), "found", "expected", **options)
    return fingerprint(finding, place)


def test_another_mount_and_another_name_of_the_topic_change_nothing(tmp_path):
    data = damaged(tmp_path / "data")
    before = [row["fingerprint"] for row in report_of(data)]
    moved = tmp_path / "elsewhere" / "disk1"
    moved.parent.mkdir()
    shutil.move(data, moved)
    assert [row["fingerprint"] for row in report_of(moved)] == before
    assert len(set(before)) == 3
    assert made() == made(path="/mnt/x/t-0/00000000000000000100.log", position=7)
    assert made(topic="t") == made(topic="renamed")


def test_compaction_that_moves_a_batch_into_another_segment_changes_nothing():
    merged = "/data/t-0/00000000000000000000.log"
    assert made(offset=120, position=5000) == made(path=merged, offset=120, position=61)


@pytest.mark.parametrize(
    "other",
    [
        {"rule": "LOG002"},
        {"partition": 1},
        {"path": "/data/t-0/00000000000000000200.log"},
        {"path": "/data/t-0/00000000000000000100.index"},
        {"path": "/data/t-0/00000000000000000100.log.deleted"},
        {"offset": 100_000},
        {"entry": "producer 7"},
        {"place": PLACE._replace(cluster_id="other")},
        {"place": PLACE._replace(node_id=2)},
        {"place": PLACE._replace(topic_id="other")},
    ],
)
def test_what_differs_has_another_fingerprint(other):
    assert made(**other) != made()


def test_paths_with_and_without_a_dot_are_the_same_place(tmp_path, monkeypatch):
    (log_dir,) = golden.log_dirs(golden.shared("groups-4.3.1"))
    monkeypatch.chdir(log_dir)
    places = Places(scan(["."]))
    place = places.of("./counts-0/00000000000000000000.log")
    assert place == places.of("counts-0/00000000000000000000.log")
    assert place.topic_id is not None
    assert place.node_id == 1
    assert places.of("") == Place()


def test_without_a_topic_id_the_name_counts():
    bare = PLACE._replace(topic_id=None)
    assert made(place=bare) != made(place=bare, topic="other")


def test_two_log_dirs_of_a_node_are_told_apart_for_their_own_files():
    path = "/data/meta.properties"
    one = made("MET002", path, None, None)
    assert one != made("MET002", path, None, None, PLACE._replace(directory_id="other"))
    assert made() == made(place=PLACE._replace(directory_id="other"))


def test_a_file_that_is_not_kafkas_counts_by_its_name():
    assert made(path="/data/t-0/notes.txt") != made(path="/data/t-0/other.txt")


def test_a_fingerprint_is_the_same_in_every_release():
    assert made(offset=120) == "f647abeaef4b51a161d15237aaee62ad"
