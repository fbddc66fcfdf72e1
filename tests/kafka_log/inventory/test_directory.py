"""Files come in the order in which one reads a log directory."""

import os
from pathlib import Path

import pytest

from kafka_log.inventory.directory import find_files
from kafka_log.names import FileKind
from tests.unreadable import open_the_way, unreadable


def touch(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * len(path.name))


def test_a_log_dir_by_topic_partition_and_segment(tmp_path: Path) -> None:
    names = [
        ".lock",
        "meta.properties",
        "a-9/partition.metadata",
        "a-9/00000000000000000000.log",
        "a-9/00000000000000000000.index",
        "a-9/00000000000000000000.timeindex",
        "a-9/00000000000000000010.log",
        "a-9/00000000000000000010.log.deleted",
        "a-9/00000000000000000010.txnindex",
        "a-9/00000000000000000010.snapshot",
        "a-10/00000000000000000000.log",
        "b-0/00000000000000000000.log",
    ]
    touch(tmp_path, *reversed(names))
    found = [*find_files(tmp_path)]
    assert [os.path.relpath(file.path, tmp_path) for file in found] == names
    assert found[3].name.kind is FileKind.LOG
    assert (found[3].topic, found[3].partition) == ("a", 9)
    assert (found[0].topic, found[0].partition) == (None, None)
    assert found[3].size == len("00000000000000000000.log")


def test_a_file_is_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "orders-3/00000000000000000000.log")
    monkeypatch.chdir(tmp_path / "orders-3")
    (file,) = find_files("00000000000000000000.log")
    assert (file.path, file.topic, file.partition) == ("00000000000000000000.log", "orders", 3)


def test_paths_stay_as_they_were_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    touch(tmp_path, "t-0/00000000000000000000.log")
    monkeypatch.chdir(tmp_path)
    (file,) = find_files("./t-0")
    assert file.path == "./t-0/00000000000000000000.log"


def test_a_link_that_leads_back_is_followed_once(tmp_path: Path) -> None:
    touch(tmp_path, "t-0/00000000000000000000.log")
    (tmp_path / "t-0" / "back").symlink_to(tmp_path)
    assert len([*find_files(tmp_path)]) == 1


def test_what_cannot_be_looked_at_is_told_and_the_rest_follows(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    touch(tmp_path, "a-0/00000000000000000000.log", "b-0/00000000000000000000.log", "c-0/x")
    nowhere, round_and_round = tmp_path / "a-0" / "nowhere", tmp_path / "a-0" / "round"
    nowhere.symlink_to(tmp_path / "gone")
    round_and_round.symlink_to(round_and_round)
    problems = []
    open_the_way(tmp_path_factory.getbasetemp(), tmp_path)
    with unreadable(tmp_path / "b-0"):
        found = [*find_files(tmp_path, lambda *problem: problems.append(problem))]
    assert [os.path.relpath(file.path, tmp_path) for file in found] == [
        "a-0/00000000000000000000.log",
        "c-0/x",
    ]
    assert problems == [
        (str(nowhere), f"nowhere -> {tmp_path / 'gone'}: a link to nothing"),
        (str(round_and_round), f"round -> {round_and_round}: a link in a circle"),
        (str(tmp_path / "b-0"), "Permission denied"),
    ]


def test_a_problem_that_nobody_is_told_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    with pytest.raises(OSError, match=r"nowhere -> .*gone: a link to nothing"):
        next(find_files(tmp_path))


def test_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        next(find_files(tmp_path / "gone"))
