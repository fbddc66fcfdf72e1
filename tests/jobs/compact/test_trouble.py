"""`compact` where it cannot work: a line that says why, and nothing half done."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from jobs import cli
from jobs.options import CLEAN, COULD_NOT_RUN, INTERRUPTED
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.disk.watched_files import WatchedDiskFiles
from pipelines.compaction import compaction
from tests.jobs.compact.compacting import (
    COMPACT,
    NOW,
    damage,
    run,
    values,
    write_log,
)
from tests.jobs.trees import contents, tree
from tests.kafka_log.disk.test_output import small_disk

# -------------------------------------------------------------------------------------- trouble


def test_a_disk_that_is_too_small_is_left_empty(capsys, log_dir, tmp_path):
    before = tree(log_dir)
    with small_disk(tmp_path / "disk", "16k"):
        out = tmp_path / "disk" / "out"
        code, _, err = run(capsys, log_dir, COMPACT, "--now", NOW, "--output", out)
        assert code == COULD_NOT_RUN
        assert "No space left on device where the copy is written" in err
        assert list((tmp_path / "disk").iterdir()) == []
    assert tree(log_dir) == before


def test_a_dry_run_of_several_passes_tells_which_disk_is_full(
    capsys, log_dir, tmp_path, monkeypatch
):
    with small_disk(tmp_path / "disk", "8k"):
        (tmp_path / "disk" / "filler").write_bytes(bytes(8192))
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "disk"))
        code, _, err = run(capsys, log_dir, COMPACT, "--now", NOW, "--passes", 2)
        monkeypatch.undo()
        assert code == COULD_NOT_RUN
        assert f"No space left on device in {tmp_path / 'disk'}, needed between rounds" in err
        assert [each.name for each in (tmp_path / "disk").iterdir()] == ["filler"]


def test_a_full_disk_in_place_leaves_a_log_that_loads(capsys, tmp_path, oracle):
    source = write_log(tmp_path / "source", 60, roll_each=6)
    expected = values(source / "orders-0")
    with small_disk(tmp_path / "disk", "512k"):
        log_dir = Path(shutil.copytree(source, tmp_path / "disk" / "data"))
        free = os.statvfs(log_dir)
        filler = log_dir.parent / "filler"
        filler.write_bytes(bytes(free.f_bavail * free.f_frsize))
        code, _, err = run(
            capsys, log_dir, COMPACT, "--now", NOW, "--in-place",
            "--set=internal.segment.bytes=200",
        )  # fmt: skip
        assert code == COULD_NOT_RUN
        assert "No space left on device" in err
        filler.unlink()
        assert not list((log_dir / "orders-0").glob("*.cleaned"))
        left_over = Path(shutil.copytree(log_dir, tmp_path / "left-over"))
    answer = oracle.call("start_log_manager", paths=[left_over], config={}, time=NOW)
    assert answer["logs"]["orders-0"]["log_end_offset"] == 60
    left = values(left_over / "orders-0")
    assert set(left) <= set(expected)
    assert left[-3:] == expected[-3:]


def test_ctrl_c_leaves_nothing(capsys, log_dir, tmp_path, monkeypatch):
    def interrupt(self, directory):
        raise KeyboardInterrupt

    monkeypatch.setattr(OverlayFiles, "write_to", interrupt)
    code, _, _ = run(capsys, log_dir, COMPACT, "--output", tmp_path / "out")
    assert code == INTERRUPTED
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data"]


def test_a_partition_that_cannot_be_compacted_keeps_the_copy_from_being_written(
    capsys, data, tmp_path
):
    log = min((data / "tiny-indexed-0").glob("*.log"))
    damage(log, 80)
    code, out, err = run(
        capsys, data, "--topic", "tiny*", COMPACT, "--now", NOW, "--output", tmp_path / "out"
    )
    assert code == COULD_NOT_RUN
    assert "would be incomplete" in err
    assert "tiny.segments-0" in out
    assert not (tmp_path / "out").exists()


def test_in_place_does_not_write_in_a_partition_that_lies_elsewhere(capsys, log_dir, tmp_path):
    partition = log_dir / "orders-0"
    elsewhere = Path(shutil.move(partition, tmp_path / "elsewhere"))
    partition.symlink_to(elsewhere)
    before = tree(elsewhere)
    code, _, err = run(capsys, log_dir, COMPACT, "--now", NOW, "--in-place")
    assert (code, tree(elsewhere)) == (COULD_NOT_RUN, before)
    assert f"orders-0 -> {elsewhere}: a link out of the given paths, not followed" in err
    code, _, err = run(capsys, log_dir, COMPACT, "--now", NOW, "--in-place", "--follow-links")
    assert (code, tree(elsewhere)) == (COULD_NOT_RUN, before)
    assert f"{partition}: found a symbolic link" in err


def test_tiered_storage_is_refused(capsys, log_dir):
    code, _, err = run(capsys, log_dir, COMPACT, "--set=remote.storage.enable=true")
    assert code == COULD_NOT_RUN
    assert "remote.storage.enable=true" in err


def test_the_verb_is_known(capsys):
    assert cli.main(["compact", "--help"]) == CLEAN
    out = capsys.readouterr().out
    for option in ("--first-dirty", "--passes", "--when-due", "--skip-damaged", "--exact-keys"):
        assert option in out


# ------------------------------------------------------------------------- killed while it works


class Killed(BaseException):
    """The end of a process: nothing is tidied up after it."""


class KilledAtRename(WatchedDiskFiles):
    """Files of a process that dies before its n-th rename."""

    left = 0

    def rename(self, old, new):
        KilledAtRename.left -= 1
        if KilledAtRename.left <= 0:
            raise Killed
        super().rename(old, new)

    def delete_if_exists(self, name):
        if KilledAtRename.left <= 0:
            raise Killed  # who is dead deletes nothing
        return super().delete_if_exists(name)


def logs_of_several_epochs(directory):
    """Logs without indexes and epochs: a start must take the epochs from the batches."""
    write_log(directory, 10, epochs=[0, 0, 0, 1, 1, 1, 1, 3, 3, 3])
    for path in (directory / "orders-0").iterdir():
        if path.suffix != ".log" and path.name != "partition.metadata":
            path.unlink()
    return directory


@pytest.mark.parametrize("kill_at", [1, 2, 3, 4, 9, 20])
def test_a_kill_at_a_rename_loses_no_leader_epoch(capsys, tmp_path, oracle, monkeypatch, kill_at):
    """The right file is what Apache Kafka's start makes of the directory as it was."""
    log_dir = logs_of_several_epochs(tmp_path / "data")
    undisturbed, kafkas, killed = (
        Path(shutil.copytree(log_dir, tmp_path / name)) for name in ("whole", "kafka", "killed")
    )
    answer = oracle.call("start_log_manager", paths=[kafkas], config={}, time=NOW)
    assert "error" not in answer, answer
    words = [COMPACT, "--now", NOW, "--in-place"]
    assert run(capsys, undisturbed, *words)[0] == CLEAN
    monkeypatch.setattr(compaction, "WatchedDiskFiles", KilledAtRename)
    KilledAtRename.left = kill_at
    with pytest.raises(Killed):
        run(capsys, killed, *words)
    monkeypatch.undo()
    assert not (killed / ".kafka_cleanshutdown").exists()  # so that Kafka's start checks the log
    after_kafka = Path(shutil.copytree(killed, tmp_path / "killed-kafka"))
    oracle.call("start_log_manager", paths=[after_kafka], config={}, time=NOW)
    capsys.readouterr()
    assert run(capsys, killed, *words)[0] == CLEAN
    epochs = "orders-0/leader-epoch-checkpoint"
    expected = "0\n3\n0 0\n1 3\n3 7\n"
    assert (kafkas / epochs).read_text() == expected
    assert (after_kafka / epochs).read_text() == expected
    before, after = contents(undisturbed), contents(killed)
    assert {name for name in before | after if before.get(name) != after.get(name)} <= {
        ".kafka_cleanshutdown",  # nobody knows how the first run would have ended
        ".lock",  # it was the killed one's to remove
    }


def test_the_marker_of_a_clean_stop_is_back_in_the_end(capsys, log_dir):
    marker = log_dir / ".kafka_cleanshutdown"
    marker.write_bytes(b'{"version":0,"brokerEpoch":7}')
    assert run(capsys, log_dir, COMPACT, "--now", NOW, "--in-place")[0] == CLEAN
    assert marker.read_bytes() == b'{"version":0,"brokerEpoch":7}'
