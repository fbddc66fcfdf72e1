"""Processes that die at a change, and disks that lose what was not synced."""

import random
from pathlib import Path

import pytest

from kafka_log.disk.crash_points import Crash, CrashingFiles, PowerLossFiles
from kafka_log.disk.files import DiskFiles, Files


def _work(files: Files) -> None:
    """Ten changes."""
    file = files.open("b", create=True)
    file.write_at(0, b"bbbb")
    file.sync()
    file.truncate(2)
    file.close()
    files.rename("b", "c")
    files.set_modified_ms("c", 5)
    files.replace("a", b"new")
    files.delete("c")
    files.sync_directory()


@pytest.mark.parametrize(
    ("crash_at", "left"),
    [
        (1, {"a": b"old"}),
        (2, {"a": b"old", "b": b""}),
        (3, {"a": b"old", "b": b"bbbb"}),
        (4, {"a": b"old", "b": b"bb"}),
        (5, {"a": b"old", "c": b"bb"}),
        (6, {"a": b"old", "c": b"bb"}),
        (7, {"a": b"old", "a.tmp": b"", "c": b"bb"}),
        (8, {"a": b"old", "a.tmp": b"", "c": b"bb"}),
        (9, {"a": b"old", "a.tmp": b"new", "c": b"bb"}),
        (10, {"a": b"new", "c": b"bb"}),
        (11, {"a": b"new"}),
    ],
)
def test_a_process_may_die_at_every_change(
    tmp_path: Path, crash_at: int, left: dict[str, bytes]
) -> None:
    (tmp_path / "a").write_bytes(b"old")
    files = CrashingFiles(DiskFiles(tmp_path), crash_at)
    if crash_at <= 10:
        with pytest.raises(Crash):
            _work(files)
        with pytest.raises(Crash):  # the dead do nothing
            files.delete("a")
    else:
        _work(files)
        assert files.changes == 10
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == left


def test_a_torn_write_leaves_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"old")
    with pytest.raises(Crash):
        _work(CrashingFiles(DiskFiles(tmp_path), 2, torn=3))
    assert (tmp_path / "b").read_bytes() == b"bbb"


def test_a_crash_can_be_armed_later(tmp_path: Path) -> None:
    files = CrashingFiles(DiskFiles(tmp_path))
    files.write("a", b"x")
    files.arm(files.changes + 1)
    with pytest.raises(Crash):
        files.delete("a")


def test_power_loss_keeps_what_was_synced(tmp_path: Path) -> None:
    for seed in range(20):
        files = PowerLossFiles(DiskFiles(tmp_path))
        file = files.open(f"a{seed}", create=True)
        file.write_at(0, b"synced")
        file.sync()
        file.write_at(6, b"and not")
        files.rename(f"a{seed}", f"b{seed}")
        file.close()
        files.lose_power(random.Random(seed))
        left = (tmp_path / f"b{seed}").read_bytes()
        assert left.startswith(b"synced")
        assert b"synced" + b"and not"[: len(left.rstrip(b"\0")) - 6] == left.rstrip(b"\0")
