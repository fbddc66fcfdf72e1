"""What a restart does in the situations that matter: expected values by hand.

Every batch here is one record of 100 bytes on disk, so that positions are counted easily.
"""

import errno
import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from kafka_format.batch import encode_batch
from kafka_format.record import SimpleRecord
from kafka_log.checkpoints import LastRun
from kafka_log.clock import FixedClock
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.errors import LogLoadError
from kafka_log.loading.log_dir_recovery import (
    RecoveryPlan,
    RecoveryRow,
    plan_partition,
    recover_in_place,
)

CONFIG = LogConfig(segment_index_bytes=2400, index_interval_bytes=150)
NOW = 1_700_000_000_000
BATCH = 100
"""61 bytes of header, a record of 39."""


def batch(offset: int, *, producer_id: int = -1, epoch: int = 0) -> bytes:
    producer: dict[str, Any] = {}
    if producer_id >= 0:
        producer = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0}
    data = encode_batch(
        [SimpleRecord(NOW + offset, None, b"v" * 32)],
        base_offset=offset,
        partition_leader_epoch=epoch,
        **producer,
    )
    assert len(data) == BATCH
    return data


def name(offset: int, ending: str) -> str:
    return f"{offset:020d}{ending}"


def segment(directory: Path, offsets: Sequence[int], base: int | None = None, **more: int) -> Path:
    """A `.log` of a batch an offset, with an empty offset index and time index beside it."""
    base = offsets[0] if base is None else base
    log = directory / name(base, ".log")
    log.write_bytes(b"".join(batch(offset, **more) for offset in offsets))
    log.with_suffix(".index").write_bytes(b"")
    log.with_suffix(".timeindex").write_bytes(b"")
    return log


def plan(
    directory: Path, *, clean: bool = False, log_start: int = 0, recovery_point: int = 0
) -> RecoveryPlan:
    last_run = LastRun(
        clean_shutdown=clean, log_start_offset=log_start, recovery_point=recovery_point
    )
    return plan_partition(directory, CONFIG, last_run, clock=FixedClock(NOW))


def row(plan: RecoveryPlan, file: str) -> RecoveryRow:
    (found,) = [row for row in plan.rows() if row.file == file]
    return found


def logs(plan: RecoveryPlan) -> dict[str, int]:
    """Sizes of the live logs afterwards."""
    return {each: plan.files.size(each) for each in plan.files.names() if each.endswith(".log")}


# --------------------------------------------------------------------------------- what is read


def test_segments_from_the_recovery_point_on_are_read_and_none_before(directory: Path) -> None:
    segment(directory, range(100))
    segment(directory, range(100, 200))
    segment(directory, range(200, 250))
    found = plan(directory, recovery_point=105)
    assert found.bytes_read == 100 * BATCH + 50 * BATCH + 100 * BATCH  # and producers below 100
    assert [row.file for row in found.rows() if row.why.startswith("checked")] == [
        name(100, ".log"),
        name(200, ".log"),
    ]
    assert found.estimated_seconds(bytes_per_second=1000) == 25.0


def test_after_a_clean_stop_no_log_is_checked(directory: Path) -> None:
    log = segment(directory, range(10))
    (directory / name(10, ".snapshot")).write_bytes(b"")  # not sound, so the log is read once
    log.write_bytes(log.read_bytes()[:-1] + b"\0")  # a checksum that nobody computes
    found = plan(directory, clean=True)
    assert logs(found) == {log.name: 10 * BATCH}
    assert found.loaded.recovery_point == 10


def test_a_recovery_point_at_an_empty_active_segment_only_makes_its_indexes_anew(
    directory: Path,
) -> None:
    segment(directory, range(10))
    empty = segment(directory, [], base=10)
    empty.with_suffix(".index").write_bytes(b"damaged!")
    found = plan(directory, recovery_point=10)
    assert found.files.read(name(10, ".index"), limit=9999) == bytes(2400)
    assert found.loaded.log_end_offset == 10


# ----------------------------------------------------------------------------------- truncation


def test_a_corrupt_batch_cuts_its_segment_and_deletes_those_behind(directory: Path) -> None:
    segment(directory, range(100))
    damaged = segment(directory, range(100, 200))
    segment(directory, range(200, 210))
    data = bytearray(damaged.read_bytes())
    data[37 * BATCH + 90] ^= 1
    damaged.write_bytes(data)
    found = plan(directory, recovery_point=105)
    assert found.loaded.log_end_offset == 137
    cut = row(found, damaged.name)
    assert (cut.action, cut.position, cut.size_after) == ("truncated", 3700, 3700)
    assert f"{damaged}@3717: found stored crc" in cut.why
    assert cut.why.endswith("; 6300 bytes cut off")
    deleted = row(found, name(200, ".log"))
    assert (deleted.action, deleted.renamed_to) == ("renamed", name(200, ".log.deleted"))
    assert deleted.why.endswith(f"follows the cut in {damaged.name}")
    assert logs(found) == {name(0, ".log"): 10_000, damaged.name: 3700}
    found.unlink_deleted()
    assert [each for each in found.files.names() if each.endswith(".deleted")] == []


@pytest.mark.parametrize(
    ("tail", "why"),
    [
        (bytes(50), "@300: found batch length 0, expected 14 or more; 50 bytes cut off"),
        (
            bytes(17),
            "@300: found 17 bytes up to the end, expected a batch header; 17 bytes cut off",
        ),
        (b"x", "@300: found 1 bytes up to the end, expected a batch header; 1 byte cut off"),
        (
            batch(3)[:99],
            "@300: found 99 bytes up to the end, expected a batch of 100; 99 bytes cut off",
        ),
    ],
)
def test_a_tail_that_is_no_batch_is_cut_and_the_plan_says_what_was_found(
    directory: Path, tail: bytes, why: str
) -> None:
    log = segment(directory, range(3))
    log.write_bytes(log.read_bytes() + tail)
    found = plan(directory)
    assert row(found, log.name).why.endswith(f"{log}{why}")
    assert logs(found) == {log.name: 300}


def test_a_missing_index_after_a_clean_stop_cuts_in_silence_and_later_segments_stay(
    directory: Path,
) -> None:
    first = segment(directory, range(10))
    segment(directory, range(10, 20))
    first.with_suffix(".index").unlink()
    data = bytearray(first.read_bytes())
    data[-1] ^= 1
    first.write_bytes(data)
    found = plan(directory, clean=True)
    assert logs(found) == {first.name: 900, name(10, ".log"): 1000}
    assert "the offset index is missing" in row(found, first.name).why
    assert found.loaded.log_end_offset == 20


def test_offsets_that_do_not_increase_empty_the_segment(directory: Path) -> None:
    log = segment(directory, [0, 1, 2, 1, 0, 0])
    found = plan(directory)
    assert logs(found) == {log.name: 0}
    assert (row(found, log.name).position, found.loaded.log_end_offset) == (0, 0)


# ----------------------------------------------------------------------------- where a log begins


@pytest.mark.parametrize(("checkpoint", "expected"), [(7, 7), (3, 5)])
def test_the_log_start_is_the_checkpoint_or_the_first_base(
    directory: Path, checkpoint: int, expected: int
) -> None:
    segment(directory, range(5, 15))
    assert plan(directory, log_start=checkpoint).loaded.log_start_offset == expected


def test_a_log_that_ends_before_its_start_is_emptied(directory: Path) -> None:
    segment(directory, range(5, 15))
    found = plan(directory, log_start=20)
    assert logs(found) == {name(20, ".log"): 0}
    why = "the log ends at 15, before the checkpointed log start 20"
    assert row(found, name(5, ".log")).why.endswith(why)
    assert (found.loaded.log_start_offset, found.loaded.log_end_offset) == (20, 20)


def test_a_directory_to_be_deleted_is_not_recovered(tmp_path: Path) -> None:
    directory = tmp_path / "orders-0.0123456789abcdef0123456789abcdef-delete"
    directory.mkdir()
    log = segment(directory, range(3))
    log.write_bytes(log.read_bytes() + b"torn")
    found = plan(directory)
    assert logs(found) == {log.name: 304}
    assert found.loaded.log_end_offset == 0


# ------------------------------------------------------------------------------------ left-overs


def test_a_complete_swap_is_finished_and_what_it_replaces_goes(directory: Path) -> None:
    for base in (0, 5, 10):
        segment(directory, range(base, base + 5))
        (directory / name(base, ".snapshot")).write_bytes(b"")
    segment(directory, range(15, 20))
    for path in list(segment(directory, (1, 4, 8, 11), base=99).parent.glob(name(99, ".*"))):
        path.rename(directory / f"{name(0, path.suffix)}.swap")
    found = plan(directory, clean=True)
    assert logs(found) == {name(0, ".log"): 400, name(15, ".log"): 500}
    swapped = row(found, name(0, ".log.swap"))
    assert (swapped.action, swapped.renamed_to) == ("renamed", name(0, ".log"))
    why = "replaced by .swap segments with offsets 0 to 11"
    assert row(found, name(10, ".log")).why == why
    assert row(found, name(5, ".snapshot")).why == why


def test_a_cleaned_file_voids_the_swap_and_old_segments_win(directory: Path) -> None:
    log = segment(directory, range(5))
    (directory / name(0, ".log.swap")).write_bytes(batch(4))
    (directory / name(0, ".index.cleaned")).write_bytes(b"")
    found = plan(directory, clean=True)
    assert logs(found) == {log.name: 500}
    why = "incomplete swap: there is a .cleaned file at offset 0"
    assert row(found, name(0, ".log.swap")).why == why
    assert row(found, name(0, ".index.cleaned")).action == "deleted"


def test_an_index_without_its_log_goes(directory: Path) -> None:
    segment(directory, range(5))
    (directory / name(3, ".timeindex")).write_bytes(bytes(12))
    found = row(plan(directory, clean=True), name(3, ".timeindex"))
    assert found.why == "index without a .log file"


# ------------------------------------------------------------------------------ producers, epochs


def test_only_the_last_stray_snapshot_is_kept_if_it_is_not_below_the_last_base(
    directory: Path,
) -> None:
    for base, end in ((0, 5), (5, 10), (10, 12)):
        segment(directory, range(base, end))
    empty_snapshot = bytes.fromhex("0001 09a8fd79 00000000".replace(" ", ""))
    for offset in (3, 5, 10, 12):
        (directory / name(offset, ".snapshot")).write_bytes(empty_snapshot)
    found = plan(directory, clean=True)
    kept = [each for each in found.files.names() if each.endswith(".snapshot")]
    assert kept == [name(offset, ".snapshot") for offset in (5, 10, 12)]
    assert row(found, name(3, ".snapshot")).why == "no segment starts at this offset"


@pytest.mark.parametrize(("clean", "known"), [(True, []), (False, [7])])
def test_without_any_snapshot_a_clean_stop_forgets_the_producers_and_a_crash_does_not(
    directory: Path, clean: bool, known: list[int]
) -> None:
    for base in (0, 5, 10):
        segment(directory, range(base, base + 5))
    (directory / name(0, ".log")).write_bytes(batch(0, producer_id=7))
    found = plan(directory, clean=clean)
    assert list(found.loaded.producer_state_manager.active_producers) == known
    snapshots = [each for each in found.files.names() if each.endswith(".snapshot")]
    assert snapshots == [name(offset, ".snapshot") for offset in (5, 10, 15)]


def test_epochs_behind_the_end_are_trimmed(directory: Path) -> None:
    segment(directory, range(5), epoch=1)
    (directory / "leader-epoch-checkpoint").write_text("0\n3\n0 0\n1 3\n2 5\n")
    found = plan(directory, clean=True)
    assert found.files.read("leader-epoch-checkpoint", limit=99) == b"0\n2\n0 0\n1 3\n"
    why = "drops epochs that start at or after the log end 5; before: 0 0 1 3 2 5"
    assert row(found, "leader-epoch-checkpoint").why == why


# ------------------------------------------------------------------------- what cannot be loaded


@pytest.mark.parametrize(
    ("file", "found"),
    [
        ("x.log", "x.log: found no offset before the first dot"),
        ("x.snapshot", "x.snapshot: found no offset before the first dot"),
        ("x.log.swap", "x.log.swap: found no offset before the first dot"),
    ],
)
def test_a_name_at_which_a_broker_stops_is_the_plans_error(
    directory: Path, file: str, found: str
) -> None:
    segment(directory, range(3))
    (directory / file).write_bytes(b"")
    planned = plan(directory)
    assert isinstance(planned.error, LogLoadError)
    assert found in str(planned.error)
    with pytest.raises(LogLoadError, match=file):
        planned.write_to(directory.parent / "nowhere")


def test_garbage_behind_a_clean_stop_is_what_kafka_does_not_start_with(directory: Path) -> None:
    log = segment(directory, range(3))
    log.write_bytes(log.read_bytes() + bytes(61))
    planned = plan(directory, clean=True)
    assert isinstance(planned.error, LogLoadError)
    assert f"{log}@300: found batch length 0, expected 14 or more" in str(planned.error)


# -------------------------------------------------------------------------------- bad evidence


def test_a_file_that_may_not_be_read_is_named(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root may read all: the question itself is answered with no."""
    log = segment(directory, range(3))
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != str(log) and allowed(path, mode))
    planned = plan(directory)
    assert isinstance(planned.error, PermissionError)
    assert planned.error.filename == str(log)


def test_a_directory_that_may_not_be_read_is_an_error(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(PermissionError, match="orders-0"):
        plan(directory)


def test_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="orders-9"):
        plan(tmp_path / "orders-9")


class _Changing(OverlayFiles):
    """Evidence to which something happens when its log has been opened."""

    happens = staticmethod(lambda path: None)

    def open(self, name: str, *, create: bool = False, write: bool = True):
        opened = super().open(name, create=create, write=write)
        if name.endswith(".log"):
            self.happens(Path(self.path(name)))
        return opened


def _plan_while(directory: Path, monkeypatch: pytest.MonkeyPatch, happens) -> RecoveryPlan:
    monkeypatch.setattr(_Changing, "happens", staticmethod(happens))
    monkeypatch.setattr("kafka_log.loading.partition_recovery.OverlayFiles", _Changing)
    return plan(directory)


def test_a_log_that_vanishes_while_it_is_read_is_an_error(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = segment(directory, range(3))
    planned = _plan_while(directory, monkeypatch, Path.unlink)
    assert isinstance(planned.error, FileNotFoundError)
    assert planned.error.filename == str(log)


def test_a_log_that_shrinks_while_it_is_read_is_an_error(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = segment(directory, range(3))
    planned = _plan_while(directory, monkeypatch, lambda path: os.truncate(path, 150))
    assert isinstance(planned.error, OSError)
    assert planned.error.filename == str(log)
    assert "changed while it was read: it shrank from 300 to 150 bytes" in str(planned.error)


def test_a_log_that_grows_while_it_is_read_is_planned_as_it_was(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = segment(directory, range(3))

    def grow(path: Path) -> None:
        with path.open("ab") as file:
            file.write(batch(3))

    planned = _plan_while(directory, monkeypatch, grow)
    assert planned.error is None
    assert planned.loaded.log_end_offset == 3
    assert logs(planned) == {log.name: 300}


def test_a_full_disk_stops_a_recovery_in_place_and_empties_no_segment(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka takes any IOException for damage, and the segment for lost."""
    log = segment(directory, range(30))

    def refuse(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", refuse)
    with pytest.raises(OSError, match="No space left"):
        recover_in_place(directory, CONFIG, LastRun(clean_shutdown=False))
    assert log.stat().st_size == 30 * BATCH


# ------------------------------------------------------------------------------- plan and apply


def test_a_plan_written_to_a_copy_is_what_recovery_in_place_leaves(tmp_path: Path) -> None:
    evidence, copy, in_place = (tmp_path / each / "orders-0" for each in "abc")
    evidence.mkdir(parents=True)
    copy.mkdir(parents=True)
    log = segment(evidence, range(30))
    segment(evidence, range(30, 40))
    log.write_bytes(log.read_bytes()[:-1])
    (evidence / name(3, ".index")).write_bytes(b"orphan")
    shutil.copytree(evidence, in_place)
    before = {path.name: path.read_bytes() for path in evidence.iterdir()}
    plan(evidence).write_to(copy)
    crashed = LastRun(clean_shutdown=False)
    recovered = recover_in_place(in_place, CONFIG, crashed, clock=FixedClock(NOW))
    assert recovered.log_end_offset == 29
    left = {path.name: path.read_bytes() for path in in_place.iterdir()}
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == left
    assert len(left[log.name]) == 2900
    assert {path.name: path.read_bytes() for path in evidence.iterdir()} == before


def test_a_second_restart_finds_nothing_to_do(directory: Path) -> None:
    log = segment(directory, range(30))
    log.write_bytes(log.read_bytes()[:-1])
    recover_in_place(directory, CONFIG, LastRun(clean_shutdown=False), clock=FixedClock(NOW))
    assert not plan(directory, clean=True).is_needed


def test_files_of_a_directory_are_looked_at_only_through_the_overlay(directory: Path) -> None:
    segment(directory, range(3))
    planned = plan(directory)
    assert isinstance(planned.files, OverlayFiles)
    assert DiskFiles(directory).names() != planned.files.names()


class _CountedListings(OverlayFiles):
    listings = 0

    def names(self) -> list[str]:
        type(self).listings += 1
        return super().names()


def _listings_of_a_plan(directory: Path, segments: int) -> int:
    directory.mkdir()
    for base in range(segments):
        segment(directory, [base], producer_id=base)
    before = _CountedListings.listings
    planned = plan(directory)
    assert sum(step.bytes_read == BATCH for step in planned.steps) == segments
    return _CountedListings.listings - before


def test_a_directory_is_listed_as_often_however_many_segments_are_recovered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafka_log.loading.partition_recovery.OverlayFiles", _CountedListings)
    few = _listings_of_a_plan(tmp_path / "few-0", 3)
    assert 0 < few < 10
    assert _listings_of_a_plan(tmp_path / "many-0", 30) == few


def test_behind_a_snapshot_of_few_digits_the_one_of_twenty_comes_to_light(directory: Path) -> None:
    """The last name with an offset counts; Kafka lists again for each segment it recovers."""
    for base in range(3):
        segment(directory, [base])
    for each in ("9.snapshot", name(9, ".snapshot")):
        (directory / each).write_bytes(b"")
    steps: list[tuple[str, str]] = [(step.file, step.action) for step in plan(directory).steps]
    assert steps.index(("9.snapshot", "delete")) < steps.index((name(1, ".snapshot"), "write"))
    assert steps.index((name(1, ".snapshot"), "write")) < steps.index(
        (name(9, ".snapshot"), "delete")
    )
