"""Side files: literal contents, literal lines."""

import os
from pathlib import Path
from typing import Any

import pytest

from tests.kafka_log.dump.comparison import run

QUORUM_STATE = (
    b'{"leaderId":1,"leaderEpoch":2,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA",'
    b'"data_version":1}'
)
QUORUM_STATE_LINE = (
    "leaderId: 1 leaderEpoch: 2 votedId: -1 votedDirectoryId: AAAAAAAAAAAAAAAAAAAAAA dataVersion: 1"
)
CASES: dict[str, tuple[bytes, list[str], list[dict[str, Any]]]] = {
    "recovery-point-offset-checkpoint": (
        b"0\n2\norders 0 5\nother.topic 11 9223372036854775807\n",
        [
            "topic: orders partition: 0 offset: 5",
            "topic: other.topic partition: 11 offset: 9223372036854775807",
        ],
        [
            {"kind": "checkpoint", "topic": "orders", "partition": 0, "offset": 5},
            {"checkpoint": "recovery-point-offset-checkpoint", "offset": 9223372036854775807},
        ],
    ),
    "leader-epoch-checkpoint": (
        b"0\n1\n7 42\n",
        ["epoch: 7 startOffset: 42"],
        [{"kind": "leader_epoch", "epoch": 7, "start_offset": 42}],
    ),
    "partition.metadata": (
        b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ",
        ["version: 0 topicId: AAAAAAAAAAAAAAAAAAAAAQ"],
        [{"kind": "partition_metadata", "version": 0, "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ"}],
    ),
    "meta.properties": (
        b"#\n#Sat Nov 15 08:09:10 UTC 2025\nnode.id=1\nversion=1\ncluster.id=abc\n",
        ["node.id: 1", "version: 1", "cluster.id: abc"],
        [{"kind": "meta_property", "name": "node.id", "value": "1"}, {}, {"value": "abc"}],
    ),
    ".kafka_cleanshutdown": (
        b'{"version":0,"brokerEpoch":77}',
        ["version: 0 brokerEpoch: 77"],
        [{"kind": "clean_shutdown", "version": 0, "broker_epoch": 77}],
    ),
    "quorum-state": (
        QUORUM_STATE,
        [QUORUM_STATE_LINE],
        [{"kind": "quorum_state", "leader_id": 1, "leader_epoch": 2, "data_version": 1}],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_files_that_the_original_ignores(tmp_path: Path, name: str) -> None:
    content, lines, rows = CASES[name]
    path = tmp_path / name
    path.write_bytes(content)
    assert run(path) == (0, "\n".join([f"Dumping {path}", *lines, ""]), "")
    file, *found = run(path, "--format", "json").rows
    assert (file["kind"], file["path"]) == ("file", str(path))
    assert len(found) == len(rows)
    for row, expected in zip(found, rows, strict=True):
        assert expected.items() <= row.items()


def test_half_a_character_is_escaped_in_json_and_a_question_mark_in_text(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    path.write_bytes(b"version=0\ncluster.id=a\\ud83d\n")
    assert "cluster.id: a?\n" in run(path).stdout
    assert run(path, "--format", "json").of_kind("meta_property")[1]["value"] == "a\ud83d"


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020d}.log"
    os.mkfifo(path)
    dumped = run(path)
    assert (dumped.code, dumped.stdout) == (1, "")
    assert f"{path}: found a named pipe, expected a regular file\n" in dumped.stderr


def test_a_name_that_is_no_utf8_is_dumped(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"t\xff-0")
    path.mkdir()
    (path / "leader-epoch-checkpoint").write_bytes(b"0\n1\n7 42\n")
    assert run(path).code == 0
    assert run(path, "--format", "json").of_kind("leader_epoch")[0]["epoch"] == 7


def test_the_marker_of_old_brokers_is_empty(tmp_path: Path) -> None:
    path = tmp_path / ".kafka_cleanshutdown"
    path.write_bytes(b"")
    assert run(path).stdout == f"Dumping {path}\n{path} is empty.\n"


def test_an_unknown_file_is_ignored_in_the_original_words(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(b"hello")
    known = tmp_path / "leader-epoch-checkpoint"
    known.write_bytes(b"0\n0\n")
    dumped = run(path.parent)
    assert dumped == (
        0,
        f"Dumping {known}\nDumping {path}\n",
        f"Ignoring unknown file {path}\n",
    )
