"""What the sweep found, each with the least that shows it."""

import errno
import io
import os
import shutil
from pathlib import Path

import pytest

from jobs import dump, recover
from jobs import list as list_verb
from kafka_format.access import open_evidence, watching
from kafka_format.batch_layout import HEADER_SIZE
from kafka_format.checkpoint_file import read_offset_checkpoint
from kafka_log.disk.files import DiskFiles
from kafka_log.disk.output import whole_directory
from kafka_log.inventory import log_end, lost_segments
from pipelines.engine import partition_tasks
from tests.faults.calls import Calls, Fault
from tests.faults.directories import NOW, make
from tests.jobs.verbs import run_verb


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    return make(tmp_path_factory.mktemp("sources"))


def number_of(calls, name):
    names = READS if name == "read" else (name,)
    return next(call.number for call in calls.made if call.name in names)


READS = ("pread", "preadv")


def failing(path, kind, name, work):
    """Do the work with the first call of this name failing."""
    with Calls(path.parent) as calls:
        work()
    with Calls(path.parent, Fault(kind, number_of(calls, name))) as failing_calls:
        try:
            return work()
        finally:
            assert failing_calls.fired


def test_a_short_read_is_no_fault(sources):
    """It was: half a checkpoint was malformed, half a metadata log was the end of it."""
    path = sources["plain"] / "recovery-point-offset-checkpoint"
    read = failing(path, "short", "read", lambda: read_offset_checkpoint(path))
    assert read.offsets() == {("orders", 0): 11, ("audit", 0): 2}


def test_a_read_stops_at_the_end_and_not_before(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"0123456789")

    def work():
        with open_evidence(path) as file:
            return file.read(7), file.read(7), file.read(7), file.seek(-3, io.SEEK_END)

    assert failing(path, "short", "read", work) == (b"0123456", b"789", b"", 7)


@pytest.mark.parametrize("name", ["fstat", "read"])
def test_an_error_of_a_descriptor_names_the_file(sources, name):
    path = sources["plain"] / "meta.properties"

    def work():
        with open_evidence(path) as file:
            file.read()

    with pytest.raises(OSError, match=r"meta\.properties") as caught:
        failing(path, "EIO", name, work)
    assert caught.value.errno == errno.EIO
    assert caught.value.filename == str(path)


@pytest.mark.parametrize("name", ["pwrite", "ftruncate", "fsync"])
def test_an_error_of_a_file_that_is_written_names_it(tmp_path, name):
    files = DiskFiles(tmp_path)
    with pytest.raises(OSError, match=r"checkpoint\.tmp"):
        failing(tmp_path / "checkpoint", "ENOSPC", name, lambda: files.replace("checkpoint", b"12"))


def broken(log, real):
    def read(fd, *args):
        if os.path.samestat(os.fstat(fd), log.stat()):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(fd, *args)

    return read


def test_a_metadata_log_that_the_disk_does_not_give_is_not_malformed(sources, capsys, monkeypatch):
    data = sources["kraft"]
    log = data / "__cluster_metadata-0" / "00000000000000000000.log"
    for name in READS:
        monkeypatch.setattr(os, name, broken(log, getattr(os, name)))
    code, _, err = run_verb(list_verb.main, capsys, data)
    assert code == 3
    assert f"{log}: Input/output error" in err
    assert "malformed" not in err


def test_dump_names_the_log_that_an_index_points_into(sources, capsys, monkeypatch):
    """It named the index, through which it came to the log."""
    partition = sources["kraft"] / "__cluster_metadata-0"
    log = partition / "00000000000000000000.log"
    real = os.pread

    def pread(fd, size, position):
        if size == HEADER_SIZE and os.path.samestat(os.fstat(fd), log.stat()):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(fd, size, position)

    monkeypatch.setattr(os, "pread", pread)
    code, _, err = run_verb(dump.main, capsys, partition / "00000000000000000000.index")
    assert code == 3
    assert f"{log}: cannot be read: Input/output error" in err


def test_list_names_the_index_that_vanishes(sources, tmp_path, capsys, monkeypatch):
    """It named the log whose end it looked for in the index."""
    data = tmp_path / "data"
    shutil.copytree(sources["kraft"], data)
    index = data / "audit-0" / "00000000000000000000.index"
    real = log_end.read_log_end

    def read_log_end(log, base_offset, *, index):
        def open_and_remove(path):
            file = log_end.open_unbuffered(path)
            if path == index:
                Path(path).unlink()
            return file

        return real(log, base_offset, index=index, open_file=open_and_remove)

    monkeypatch.setattr(lost_segments, "read_log_end", read_log_end)
    code, _, err = run_verb(list_verb.main, capsys, data)
    assert code == 3
    assert f"{index}: changed while it was read: it vanished" in err


def test_a_file_that_we_change_is_not_watched_however_its_path_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "checkpoint").write_bytes(b"1")
    with watching() as watch:
        open_evidence(tmp_path / "checkpoint").close()
        DiskFiles(".").replace("checkpoint", b"22")
        assert watch.changes() == []


def test_recovery_in_place_by_a_relative_path_ends_as_by_an_absolute_one(
    sources, tmp_path, capsys, monkeypatch
):
    """It ended with 3 and `changed while it was read`, of files that it wrote itself."""
    shutil.copytree(sources["torn"], tmp_path / "data")
    monkeypatch.chdir(tmp_path)
    options = ["--in-place", f"--now={NOW}", "--engine=local"]
    code, _, err = run_verb(recover.main, capsys, "data", *options)
    assert "changed" not in err
    assert code == 1
    assert run_verb(recover.main, capsys, "data", *options)[0] == 0


def test_recovery_in_place_finishes_a_swap(sources, tmp_path, capsys):
    """It did, and then ended with 3: the rows were made of files that were gone by then."""
    data = tmp_path / "data"
    shutil.copytree(sources["plain"], data)
    orders = data / "orders-0"
    swapped = orders / "00000000000000000002.log.swap"
    shutil.copy(orders / "00000000000000000002.log", swapped)
    options = ["--in-place", "--files", f"--now={NOW}", "--engine=local"]
    code, out, err = run_verb(recover.main, capsys, data, *options)
    assert code == 0, err
    assert "completes an unfinished swap" in out
    assert not swapped.exists()
    assert "could not be read" not in err


@pytest.mark.parametrize("name", ["cleaner-offset-checkpoint", ".kafka_cleanshutdown"])
def test_no_copy_is_made_of_a_log_dir_that_loses_a_file_meanwhile(
    sources, tmp_path, capsys, monkeypatch, name
):
    """It was, without the file, and the exit code was 3."""
    data = tmp_path / "data"
    shutil.copytree(sources["plain"], data)
    real = partition_tasks.Destination.finish

    def finish(self, *args, **options):
        (data / name).unlink()
        real(self, *args, **options)

    monkeypatch.setattr(partition_tasks.Destination, "finish", finish)
    options = [f"--output={tmp_path / 'out'}", f"--now={NOW}", "--engine=local"]
    code, _, err = run_verb(recover.main, capsys, data, *options)
    assert code == 3
    assert f"{data / name}: changed while it was read: it vanished" in err
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


def test_a_complete_output_stays_if_its_attempt_cannot_be_removed(tmp_path, monkeypatch):
    """It ended with an error that named no path: rmtree raises in spite of `ignore_errors`."""

    def rmtree(path, *, ignore_errors):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(shutil, "rmtree", rmtree)
    with whole_directory(tmp_path / "out", []) as attempt:
        (attempt / "file").write_bytes(b"1")
    assert (tmp_path / "out" / "file").read_bytes() == b"1"
