"""Output is whole or not at all, evidence is left alone, a live broker's directory is refused."""

import contextlib
import errno
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from kafka_log.disk import output
from kafka_log.disk.files import DiskFiles
from kafka_log.disk.output import (
    OutputError,
    check_output,
    exclusive,
    whole_directory,
    whole_partition,
)
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.names import FileKind
from tests.unreadable import open_the_way, unreadable

ROOT = Path(__file__).parents[3]
RECOVERY_POINTS = FileKind.RECOVERY_POINT_CHECKPOINT.value
LOG_STARTS = FileKind.LOG_START_OFFSET_CHECKPOINT.value


def test_what_was_written_appears_under_its_name_at_the_end(tmp_path):
    evidence, out = tmp_path / "evidence", tmp_path / "out"
    evidence.mkdir()
    with whole_directory(out, [evidence]) as attempt:
        (attempt / "orders-0").mkdir()
        (attempt / "orders-0" / "00000000000000000000.log").write_bytes(b"abc")
        assert not out.exists()
    assert (out / "orders-0" / "00000000000000000000.log").read_bytes() == b"abc"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["evidence", "out"]


def test_an_empty_directory_may_be_filled(tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    with whole_directory(out, []) as attempt:
        (attempt / "file").write_bytes(b"")
    assert [each.name for each in out.iterdir()] == ["file"]


@pytest.mark.parametrize("problem", [OSError(errno.ENOSPC, "full"), KeyboardInterrupt()])
def test_nothing_stays_of_output_that_failed(tmp_path, problem):
    with pytest.raises(type(problem)), whole_directory(tmp_path / "out", []) as attempt:
        (attempt / "orders-0").mkdir()
        (attempt / "orders-0" / "half").write_bytes(b"abc")
        raise problem
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("place", ["evidence", "evidence/out", "evidence/orders-0/out"])
def test_output_inside_the_evidence_is_refused(tmp_path, place):
    (tmp_path / "evidence" / "orders-0").mkdir(parents=True)
    with pytest.raises(OutputError, match="must not be inside the evidence"):
        check_output(tmp_path / place, [tmp_path / "evidence"])


def test_a_link_into_the_evidence_is_inside_it(tmp_path):
    (tmp_path / "evidence").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "evidence")
    with pytest.raises(OutputError, match="must not be inside the evidence"):
        check_output(tmp_path / "link" / "out", [tmp_path / "evidence"])


def test_a_place_that_is_taken_is_refused(tmp_path):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_bytes(b"mine")
    (tmp_path / "file").write_bytes(b"mine")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("full", "file", "dangling", "missing/out"):
        with pytest.raises(OutputError, match="expected"):
            check_output(tmp_path / name, [])
    assert (tmp_path / "full" / "file").read_bytes() == b"mine"


def test_a_place_where_nothing_may_be_made_is_told_by_its_name(tmp_path, tmp_path_factory):
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o555)
    (tmp_path / "secret").touch()
    open_the_way(tmp_path_factory.getbasetemp(), tmp_path)
    with (
        unreadable(tmp_path / "secret"),
        pytest.raises(PermissionError) as caught,
        whole_directory(closed / "out", []),
    ):
        pass
    assert caught.value.filename == str(closed)


def test_of_two_attempts_at_a_partition_the_first_to_end_stays(tmp_path):
    with whole_directory(tmp_path / "out", []) as whole:
        scratch, target = whole.parent, whole / "orders-0"
        with whole_partition(target, scratch) as first, whole_partition(target, scratch) as second:
            (first / "a.log").write_bytes(b"abc")
            (first / "a.index").write_bytes(b"")
            (second / "a.log").write_bytes(b"abc")
            assert list(whole.iterdir()) == []
        inode = target.stat().st_ino  # the inner one, `second`, ended first
        assert [each.name for each in target.iterdir()] == ["a.log"]
        with whole_partition(target, scratch) as third:
            (third / "a.log").write_bytes(b"abc")
        assert target.stat().st_ino == inode
        assert [each.name for each in scratch.iterdir()] == ["whole"]
    assert [each.name for each in (tmp_path / "out").iterdir()] == ["orders-0"]


def test_an_attempt_that_fails_is_not_in_the_way_of_the_next(tmp_path):
    with whole_directory(tmp_path / "out", []) as whole:
        with (
            pytest.raises(OSError, match="full"),
            whole_partition(whole / "orders-0", whole.parent) as attempt,
        ):
            (attempt / "half").write_bytes(b"a")
            raise OSError(errno.ENOSPC, "full")
        with whole_partition(whole / "orders-0", whole.parent) as attempt:
            (attempt / "all").write_bytes(b"abc")
    assert [each.name for each in tmp_path.rglob("*")] == ["out", "orders-0", "all"]


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from kafka_log.disk.output import whole_partition
    with whole_partition(sys.argv[1], sys.argv[2]) as attempt:
        (attempt / "half").write_bytes(b"a")
        os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_of_a_killed_attempt_is_in_the_output(tmp_path):
    with whole_directory(tmp_path / "out", []) as whole:
        arguments = [str(whole / "orders-0"), str(whole.parent)]
        command = [sys.executable, "-c", textwrap.dedent(KILLED), *arguments]
        killed = subprocess.run(command, cwd=ROOT, check=False)
        assert killed.returncode == -signal.SIGKILL
        assert [each.name for each in whole.parent.rglob("half")] == ["half"]
        with whole_partition(whole / "orders-0", whole.parent) as attempt:
            (attempt / "all").write_bytes(b"abc")
    assert [each.name for each in tmp_path.rglob("*")] == ["out", "orders-0", "all"]


def test_an_attempt_that_outlives_the_output_leaves_nothing(tmp_path):
    """A cluster ends the second of two attempts when it hears of it: sometimes too late."""
    with contextlib.ExitStack() as late:
        with whole_directory(tmp_path / "out", []) as whole:
            with whole_partition(whole / "orders-0", whole.parent) as attempt:
                (attempt / "all").write_bytes(b"abc")
            straggler = late.enter_context(whole_partition(whole / "orders-0", whole.parent))
            (straggler / "half").write_bytes(b"a")
        with pytest.raises(FileNotFoundError):
            (straggler / "more").write_bytes(b"b")
        with pytest.raises(FileNotFoundError):
            late.close()
    assert [each.name for each in tmp_path.rglob("*")] == ["out", "orders-0", "all"]


@contextlib.contextmanager
def small_disk(path: Path, size: str):
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)]
    try:
        mounted = subprocess.run(command, capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        mounted = False
    if not mounted:
        pytest.skip("only root may mount a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", str(path)], check=True)


def test_a_full_disk_leaves_nothing_of_a_copy(tmp_path):
    evidence = tmp_path / "orders-0"
    evidence.mkdir()
    (evidence / "00000000000000000000.index").write_bytes(b"\1" * 1000)
    (evidence / "00000000000000000000.log").write_bytes(b"\1" * 1_000_000)
    with small_disk(tmp_path / "disk", "256k"):
        with (
            pytest.raises(OSError, match="No space left") as raised,
            whole_directory(tmp_path / "disk" / "out", [evidence]) as attempt,
        ):
            OverlayFiles(evidence).write_to(attempt)
        assert raised.value.errno == errno.ENOSPC
        assert list((tmp_path / "disk").iterdir()) == []
    assert (evidence / "00000000000000000000.log").stat().st_size == 1_000_000


def test_a_copy_that_cannot_be_written_out_leaves_nothing(tmp_path, monkeypatch):
    evidence = tmp_path / "orders-0"
    evidence.mkdir()
    (evidence / "00000000000000000000.log").write_bytes(b"abc")

    def refuse(_path):
        raise OSError(errno.EIO, "the disk lost it")

    monkeypatch.setattr(output, "_sync", refuse)
    with (
        pytest.raises(OSError, match="the disk lost it"),
        whole_directory(tmp_path / "out", [evidence]) as attempt,
    ):
        OverlayFiles(evidence).write_to(attempt)
    assert [each.name for each in tmp_path.iterdir()] == ["orders-0"]


def test_checkpoints_of_a_copy_have_the_rows_of_its_partitions(tmp_path):
    source, target = tmp_path / "data", tmp_path / "out"
    source.mkdir()
    target.mkdir()
    (source / RECOVERY_POINTS).write_text("0\n3\norders 0 5\norders 1 7\npayments 0 9\n")
    (source / LOG_STARTS).write_text("0\n1\norders 0 4\n")
    output.write_checkpoints(
        DiskFiles(source),
        DiskFiles(target),
        {
            FileKind.RECOVERY_POINT_CHECKPOINT: {("orders", 1): 8, ("orders", 2): 1},
            FileKind.LOG_START_OFFSET_CHECKPOINT: {("orders", 0): None},
        },
        is_included=lambda place: place[0] == "orders",
    )
    assert (target / RECOVERY_POINTS).read_text() == "0\n3\norders 0 5\norders 1 8\norders 2 1\n"
    assert (target / LOG_STARTS).read_text() == "0\n0\n"
    assert sorted(each.name for each in target.iterdir()) == [LOG_STARTS, RECOVERY_POINTS]


def test_checkpoints_in_place_are_left_alone_where_nothing_changes(tmp_path):
    (tmp_path / RECOVERY_POINTS).write_text("0\n1\norders 0 5\n")
    (tmp_path / LOG_STARTS).write_text("0\n1\norders 0 4\n")
    for name in (RECOVERY_POINTS, LOG_STARTS):
        os.utime(tmp_path / name, ns=(1, 1))
    files = DiskFiles(tmp_path)
    output.write_checkpoints(
        files,
        files,
        {
            FileKind.RECOVERY_POINT_CHECKPOINT: {("orders", 0): 5},
            FileKind.LOG_START_OFFSET_CHECKPOINT: {("orders", 0): 6},
        },
    )
    assert (tmp_path / RECOVERY_POINTS).stat().st_mtime_ns == 1
    assert (tmp_path / LOG_STARTS).read_text() == "0\n1\norders 0 6\n"


def test_meta_properties_are_copied_and_the_lock_is_not(tmp_path):
    source, target = tmp_path / "data", tmp_path / "out"
    source.mkdir()
    target.mkdir()
    (source / "meta.properties").write_text("version=1\nnode.id=1\n")
    (source / ".lock").write_bytes(b"")
    (source / ".kafka_cleanshutdown").write_text('{"version":0}')
    files = DiskFiles(source)
    output.copy_log_dir_files(files, DiskFiles(target), is_cleanly_stopped=False)
    assert [each.name for each in target.iterdir()] == ["meta.properties"]
    output.copy_log_dir_files(files, DiskFiles(target), is_cleanly_stopped=True)
    assert (target / ".kafka_cleanshutdown").read_text() == '{"version":0}'


HOLDER = """
    import fcntl, sys
    file = open(sys.argv[1], "r+b")
    fcntl.lockf(file, fcntl.LOCK_EX)
    print("held", flush=True)
    sys.stdin.read()
"""


@contextlib.contextmanager
def held_elsewhere(path: Path):
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(HOLDER), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert process.stdout.readline() == b"held\n"
        yield
    finally:
        process.communicate()


def test_a_log_dir_that_another_process_holds_is_refused(tmp_path):
    (tmp_path / ".lock").write_bytes(b"")
    with held_elsewhere(tmp_path / ".lock"):
        with pytest.raises(OutputError, match="expected no live broker"), exclusive(tmp_path):
            raise AssertionError("not reached")
        assert (tmp_path / ".lock").exists()
    with exclusive(tmp_path):
        pass


def test_a_log_dir_written_in_place_is_locked_and_left_as_it_was(tmp_path):
    (tmp_path / "meta.properties").write_text("version=1\n")
    ask = "import fcntl, sys; fcntl.lockf(open(sys.argv[1], 'r+b'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    with exclusive(tmp_path):
        other = [sys.executable, "-c", ask, str(tmp_path / ".lock")]
        assert subprocess.run(other, capture_output=True, check=False).returncode == 1
    assert [each.name for each in tmp_path.iterdir()] == ["meta.properties"]


def test_where_no_broker_was_there_is_no_lock(tmp_path):
    with exclusive(tmp_path):
        assert list(tmp_path.iterdir()) == []


def test_kafka_s_own_lock_keeps_us_out_and_ours_keeps_kafka_out(oracle, tmp_path):
    path = tmp_path / ".lock"
    assert oracle.call("lock", path=path) == {"held": True}
    try:
        with pytest.raises(OutputError, match="expected no live broker"), exclusive(tmp_path):
            raise AssertionError("not reached")
    finally:
        oracle.call("unlock", path=path)
    with exclusive(tmp_path):
        assert oracle.call("lock", path=path) == {"held": False}
