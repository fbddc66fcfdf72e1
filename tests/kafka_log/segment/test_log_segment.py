"""Kafka's LogSegment, step by step, against ours: answers, exceptions and every file's bytes."""

import random
import struct
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kafka_format.batch import encode_batch
from kafka_format.columnar.compilation import can_compile
from kafka_format.errors import CorruptError, CrcMismatchError, FormatError
from kafka_format.legacy import encode_legacy_batch
from kafka_format.record import SimpleRecord
from kafka_log.clock import FixedClock, Scheduler
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.crash_points import CrashingFiles
from kafka_log.disk.files import DiskFiles, Files
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.errors import (
    IllegalArgumentError,
    IllegalControlRecordError,
    InvalidOffsetError,
    LogError,
    SegmentOffsetOverflowError,
)
from kafka_log.loading import segment_recovery
from kafka_log.log.fetch_data import LogOffsetMetadata
from kafka_log.log.leader_epochs import LeaderEpochFileCache
from kafka_log.producers.producer_state import ProducerStateManager
from kafka_log.segment.file_records import LogOffsetPosition, TimestampAndOffset
from kafka_log.segment.log_segment import LogSegment, RollParams
from tests.kafka_log.kafka_exceptions import answers_to, name_of
from tests.kafka_log.segment_driver import OurSegment
from tests.kafka_log.segment_steps import (
    BASE,
    INDEX,
    LOG,
    TIME_INDEX,
    Append,
    AppendFromFile,
    ChangeSuffixes,
    Close,
    Delete,
    Open,
    Recover,
    SegmentRun,
    State,
    Step,
    UpdateTxnIndex,
    WriteFile,
    draw_run,
    steps_with,
)
from tests.oracle.client import Oracle
from tests.show import seen_by

_RESIZES = ("truncate_to", "resize_indexes", "sanity_check")
_LOOKS = ("read", "translate", "find_timestamp", "state", "truncate_to")
NOW = 1_700_000_000_000


# ------------------------------------------------------------------------- what is written by hand


def batch(offset: int, *timestamps: int, size: int = 0, **fields: Any) -> bytes:
    """A batch of a record a timestamp; the value of the last fills it up to `size` bytes."""
    records = [SimpleRecord(timestamp, None, b"") for timestamp in timestamps]
    data = encode_batch(records, base_offset=offset, **fields)
    for filler in range(size - len(data), 0, -1):
        records[-1] = records[-1]._replace(value=b"x" * filler)
        data = encode_batch(records, base_offset=offset, **fields)
        if len(data) == size:
            break
    assert len(data) >= size
    return data


def open_segment(files: Files, *, exists: bool = False, **settings: Any) -> LogSegment:
    config = LogConfig(**{"index_interval_bytes": 300, "segment_index_bytes": 64} | settings)
    return LogSegment.open(files, BASE, config, FixedClock(NOW), file_already_exists=exists)


def recover(segment: LogSegment, files: Files) -> int:
    clock = FixedClock(NOW)
    producers = ProducerStateManager(files, LogConfig(), clock)
    return segment.recover(producers, LeaderEpochFileCache(files, Scheduler(clock)))


def test_a_new_segment_is_an_empty_log_and_nothing_else(tmp_path: Path) -> None:
    open_segment(DiskFiles(tmp_path))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {LOG: b""}


def test_an_index_entry_is_due_at_the_first_batch_behind_more_than_the_interval(
    tmp_path: Path,
) -> None:
    """200, 400 > 300: the third batch has an entry, by its last offset; then it counts anew."""
    segment = open_segment(DiskFiles(tmp_path))
    for place in range(6):
        offset = BASE + 2 * place
        segment.append(offset + 1, batch(offset, NOW + place, NOW, size=200))
    segment.close()
    assert (tmp_path / INDEX).read_bytes() == struct.pack(">4i", 5, 400, 9, 800)
    assert (tmp_path / TIME_INDEX).read_bytes() == struct.pack(
        ">qiqiqi", NOW + 2, 5, NOW + 4, 9, NOW + 5, 11
    )


def test_batches_of_one_append_are_indexed_one_by_one(tmp_path: Path) -> None:
    segment = open_segment(DiskFiles(tmp_path))
    segment.append(BASE + 5, b"".join(batch(BASE + place, NOW, size=200) for place in range(6)))
    segment.close()
    assert (tmp_path / INDEX).read_bytes() == struct.pack(">4i", 2, 400, 4, 800)
    assert (tmp_path / TIME_INDEX).read_bytes() == struct.pack(">qi", NOW, 0)


def test_bytes_since_the_last_entry_are_forgotten_when_a_segment_is_opened_again(
    tmp_path: Path,
) -> None:
    segment = open_segment(DiskFiles(tmp_path))
    segment.append(BASE + 1, batch(BASE, NOW, size=200) + batch(BASE + 1, NOW, size=200))
    segment.close()
    segment = open_segment(DiskFiles(tmp_path), exists=True)
    segment.resize_indexes(64)
    segment.append(BASE + 2, batch(BASE + 2, NOW, size=200))
    assert segment.offset_index.entries == 0


def test_a_crash_leaves_both_indexes_at_their_full_size(tmp_path: Path) -> None:
    segment = open_segment(DiskFiles(tmp_path), index_interval_bytes=0)
    segment.append(BASE + 1, batch(BASE, NOW) + batch(BASE + 1, NOW))
    segment.close_handlers()
    assert (tmp_path / INDEX).read_bytes() == struct.pack(">2i", 1, 68) + bytes(56)
    assert (tmp_path / TIME_INDEX).read_bytes() == struct.pack(">qi", NOW, 0) + bytes(48)


def test_a_preallocated_log_is_trimmed_when_it_is_closed(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    segment = LogSegment.open(
        files, BASE, LogConfig(), FixedClock(NOW), init_file_size=1000, preallocate=True
    )
    assert (segment.size, files.size(LOG)) == (0, 1000)
    segment.append(BASE, batch(BASE, NOW, size=200))
    assert (segment.size, files.size(LOG)) == (200, 1000)
    assert segment.read_next_offset() == BASE + 1
    segment.close()
    assert files.size(LOG) == 200


def test_a_read_begins_with_the_batch_that_holds_the_offset(tmp_path: Path) -> None:
    segment = open_segment(DiskFiles(tmp_path))
    first, second = batch(BASE, NOW, NOW, size=200), batch(BASE + 5, NOW, size=100)
    segment.append(BASE + 5, first + second)
    found = segment.read(BASE + 1, 250)
    assert found is not None
    assert found.fetch_offset_metadata == LogOffsetMetadata(BASE, BASE, 0)
    assert found.records.read() == (first + second)[:250]
    assert not found.first_entry_incomplete
    between = segment.read(BASE + 3, 10, min_one_message=True)
    assert between is not None
    assert (between.fetch_offset_metadata.message_offset, between.records.read()) == (
        BASE + 5,
        second,
    )
    cut = segment.read(BASE + 1, 10)
    assert cut is not None
    assert (cut.first_entry_incomplete, cut.records.read()) == (True, first[:10])
    bounded = segment.read(BASE, 250, 200)
    assert bounded is not None
    assert bounded.records.read() == first
    assert [each.base_offset for each in bounded.records.batches()] == [BASE]
    assert segment.read(BASE + 6, 250) is None


def test_a_read_of_no_bytes_tells_where_they_would_be(tmp_path: Path) -> None:
    segment = open_segment(DiskFiles(tmp_path))
    segment.append(BASE, batch(BASE, NOW))
    for found in (segment.read(BASE, 0), segment.read(BASE, 100, None)):
        assert found is not None
        assert found.fetch_offset_metadata == LogOffsetMetadata(BASE, BASE, 0)
        assert (found.records.read(), list(found.records.batches())) == (b"", [])
        assert found.records.last_batch() is None
    with pytest.raises(IllegalArgumentError):
        segment.read(BASE, -1)
    with pytest.raises(IllegalArgumentError):
        segment.read(BASE, 100, -1)


def test_an_offset_for_a_time_is_that_of_the_record_not_of_its_batch(tmp_path: Path) -> None:
    segment = open_segment(DiskFiles(tmp_path))
    first = batch(BASE, NOW, NOW + 20, NOW + 10, partition_leader_epoch=3)
    segment.append(BASE + 3, first + batch(BASE + 3, NOW + 30))
    find = segment.find_offset_by_timestamp
    assert find(NOW - 5) == TimestampAndOffset(NOW, BASE, 3)
    assert find(NOW + 5) == TimestampAndOffset(NOW + 20, BASE + 1, 3)
    assert find(NOW + 5, BASE + 2) == TimestampAndOffset(NOW + 10, BASE + 2, 3)
    assert find(NOW + 21) == TimestampAndOffset(NOW + 30, BASE + 3, None)
    assert find(NOW + 31) is None


def _roll(segment: LogSegment, **changes: int) -> bool:
    params = RollParams(
        max_segment_ms=1000,
        max_segment_bytes=1000,
        max_timestamp_in_messages=NOW,
        max_offset_in_messages=BASE + 9,
        messages_size=100,
        now=NOW,
    )
    return segment.should_roll(params._replace(**changes))


def test_a_segment_is_rolled_by_size_time_offset_and_full_indexes(tmp_path: Path) -> None:
    segment = open_segment(DiskFiles(tmp_path), index_interval_bytes=0, segment_index_bytes=36)
    assert not _roll(segment, now=NOW + 2000)  # an empty one is never too old
    segment.append(BASE, batch(BASE, NOW, size=200))
    assert not _roll(segment, messages_size=800)
    assert _roll(segment, messages_size=801)
    assert not _roll(segment, max_timestamp_in_messages=NOW + 1000, now=NOW + 10**9)
    assert _roll(segment, max_timestamp_in_messages=NOW + 1001)
    assert not _roll(segment, max_offset_in_messages=BASE + 2**31 - 1)
    assert _roll(segment, max_offset_in_messages=BASE + 2**31)
    for place in (1, 2):
        assert not _roll(segment, max_segment_bytes=10**6)
        segment.append(BASE + place, batch(BASE + place, NOW + place))
    assert _roll(segment, max_segment_bytes=10**6)  # two time entries of three: one is for the roll


def test_without_timestamps_a_segment_ages_since_it_was_opened(tmp_path: Path) -> None:
    segment = open_segment(DiskFiles(tmp_path))
    segment.append(
        BASE, encode_legacy_batch([SimpleRecord(-1, None, b"")], magic=0, base_offset=BASE)
    )
    assert not _roll(segment, now=NOW + 1000)
    assert _roll(segment, now=NOW + 1001)
    assert segment.get_first_batch_timestamp() == 2**63 - 1


def test_jitter_makes_a_segment_roll_earlier(tmp_path: Path) -> None:
    config = LogConfig(segment_jitter_ms=50, segment_ms=20)
    drawn = {config.random_segment_jitter(random.Random(seed)) for seed in range(200)}
    assert drawn == set(range(20))
    assert LogConfig().random_segment_jitter(random.Random()) == 0
    segment = LogSegment.open(
        DiskFiles(tmp_path), BASE, config, FixedClock(NOW), rng=random.Random(3)
    )
    segment.append(BASE, batch(BASE, NOW))
    waited = 20 - segment.roll_jitter_ms
    assert not _roll(segment, max_segment_ms=20, max_timestamp_in_messages=NOW + waited)
    assert _roll(segment, max_segment_ms=20, max_timestamp_in_messages=NOW + waited + 1)


def test_an_offset_out_of_range_is_refused_before_a_byte_is_written(tmp_path: Path) -> None:
    segment = open_segment(DiskFiles(tmp_path))
    with pytest.raises(SegmentOffsetOverflowError) as caught:
        segment.append(BASE + 2**31, batch(BASE + 2**31, NOW))
    assert caught.value.segment is segment
    assert segment.size == 0


def test_an_empty_append_makes_no_file(tmp_path: Path) -> None:
    segment = open_segment(DiskFiles(tmp_path))
    segment.append(BASE, b"")
    assert [path.name for path in tmp_path.iterdir()] == [LOG]


def test_an_append_is_one_write_to_the_log(tmp_path: Path) -> None:
    files = CrashingFiles(DiskFiles(tmp_path))
    segment = open_segment(files, index_interval_bytes=10**6)
    segment.append(BASE, batch(BASE, NOW))
    before = files.changes
    segment.append(BASE + 9, b"".join(batch(BASE + place, NOW) for place in range(1, 10)))
    assert files.changes == before + 1


def test_bytes_that_are_no_batch_are_not_appended_in_silence(tmp_path: Path) -> None:
    segment = open_segment(DiskFiles(tmp_path))
    with pytest.raises(CorruptError, match="a batch of 0 bytes"):
        segment.append(BASE, bytes(80))


def test_files_change_their_names_together_and_go_together(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    segment = open_segment(files)
    segment.append(BASE, batch(BASE, NOW))
    segment.change_file_suffixes("", ".deleted")
    assert segment.has_suffix(".deleted")
    assert files.names() == sorted(f"{name}.deleted" for name in (LOG, INDEX, TIME_INDEX))
    assert segment.name == f"{LOG}.deleted"
    with pytest.raises(IllegalArgumentError):
        segment.change_file_suffixes(".swap", "")
    assert not segment.deleted()
    segment.delete_if_exists()
    segment.delete_if_exists()
    assert segment.deleted()
    assert files.names() == []
    assert segment.last_modified == 0


def test_all_files_but_the_transaction_index_get_a_time(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    segment = open_segment(files)
    segment.append(BASE, batch(BASE, -1))
    segment.set_last_modified(1_600_000_000_000)
    assert {files.modified_ms(name) for name in files.names()} == {1_600_000_000_000}
    assert (segment.largest_timestamp(), segment.largest_record_timestamp()) == (
        1_600_000_000_000,
        None,
    )


def test_files_of_a_segment_that_is_not_open_can_be_deleted(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    for name in (LOG, INDEX):
        files.write(f"{name}.cleaned", b"x")
    files.write(LOG, b"x")
    LogSegment.delete_files_if_exist(files, BASE, ".cleaned")
    assert files.names() == [LOG]


def test_a_segment_without_its_offset_index_is_not_sane(tmp_path: Path) -> None:
    segment = open_segment(DiskFiles(tmp_path))
    with pytest.raises(FileNotFoundError):
        segment.sanity_check(time_index_newly_created=True)
    assert segment.names[:2] == [LOG, INDEX]


def test_recovery_says_what_it_cut_and_why(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    damaged = bytearray(batch(BASE + 1, NOW, size=200))
    damaged[-1] ^= 1
    good = batch(BASE, NOW, size=200)
    (tmp_path / LOG).write_bytes(good + damaged + batch(BASE + 2, NOW))
    segment = open_segment(files, exists=True)
    assert recover(segment, files) == 268
    assert isinstance(segment.recovery_error, CrcMismatchError)
    assert segment.recovery_error.location == (str(tmp_path / LOG), 217)
    assert (tmp_path / LOG).read_bytes() == good
    assert recover(segment, files) == 0
    assert segment.recovery_error is None


def test_recovery_with_offsets_that_go_back_leaves_what_was_done_before(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    offsets = (BASE, BASE + 1, BASE + 2, BASE + 1)
    (tmp_path / LOG).write_bytes(b"".join(batch(offset, NOW, size=200) for offset in offsets))
    segment = open_segment(files, exists=True, index_interval_bytes=0)
    with pytest.raises(InvalidOffsetError, match=r"@600: found last offset 501"):
        recover(segment, files)
    assert segment.offset_index.read_entries() == struct.pack(">4i", 1, 200, 2, 400)
    assert segment.size == 800


def test_the_walk_of_a_recovery_is_the_same_plain_and_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can_compile():
        pytest.skip("needs compiled kernels: numba is missing or switched off")
    for seed in range(60):
        run = draw_run(seed)
        found = []
        for compiled in (True, False):
            monkeypatch.setattr(segment_recovery, "_prefers_compiled", lambda _, is_=compiled: is_)
            directory = tmp_path / f"{seed}-{compiled}"
            directory.mkdir()
            ours = OurSegment(OverlayFiles(directory), run)
            found.append([_take(ours, step) for step in run.steps])
        assert [(step[0], step[2]) for step in found[0]] == [
            (step[0], step[2]) for step in found[1]
        ]


def test_numba_is_loaded_for_much_work_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    monkeypatch.setattr(segment_recovery._RecoveredBytes, "total", 0)
    assert not segment_recovery._prefers_compiled(4_000_000)
    assert segment_recovery._prefers_compiled(200_000) is can_compile()


# ----------------------------------------------------------------------- what Kafka's class leaves


def _take(ours: OurSegment, step: Step) -> tuple[Any, Exception | None, dict[str, str]]:
    try:
        return ours.step(step), None, ours.digests()
    except (LogError, FormatError, OSError) as problem:
        return None, problem, ours.digests()


def _is_about_a_wrapper(run: SegmentRun, kafkas: dict[str, Any]) -> bool:
    """Whether Kafka ignores damage inside a wrapper of magic 0 or 1, or has another error.

    A batch may have become a wrapper: its checksum does not cover its magic.
    """
    unknown_codec = "Unknown compression type" in str(kafkas.get("error"))
    is_ignored = name_of(kafkas.get("error")) in {None, "IllegalArgumentException"}
    return unknown_codec or (run.magic < 2 and is_ignored)


def _compare(
    ours: OurSegment, run: SegmentRun, reported: list[dict[str, Any]], *, path: Path
) -> None:
    for place, (step, kafkas) in enumerate(zip(run.steps, reported, strict=True)):
        answer, error, digests = _take(ours, step)
        shown = {name: value for name, value in step.request().items() if name != "bytes"}
        where = f"step {place} of {path}: {shown}, {answer} {error!r}, {kafkas}"
        if isinstance(error, FormatError) and _is_about_a_wrapper(run, kafkas):
            if step.name() == "truncate_to":
                return
            assert step.name() in _LOOKS, where
            continue
        assert answers_to(error, kafkas.get("error")), where
        if error is None:
            assert answer == kafkas["answer"], where
        if isinstance(error, IllegalControlRecordError):
            return  # a load that failed: entries of the last piece read are not written any more
        assert digests == kafkas["files"], where
        if step.name() in _RESIZES and name_of(kafkas.get("error")) == "IllegalArgumentException":
            return  # more entries than slots: Kafka's own index is not to be used any more


def _run_both(
    oracle: Oracle,
    tmp_path: Path,
    runs: list[SegmentRun],
    prepare: Callable[[Path, int], object] = lambda directory, place: None,
    seeds: Sequence[int] | None = None,
) -> list[list[dict[str, Any]]]:
    """Take each run in three directories: Kafka's, ours on disk and ours on an overlay.

    `seeds` are those of the runs, if they were drawn.
    """
    paths = [tmp_path / f"segment-{place}" for place in range(len(runs))]
    for place, path in enumerate(paths):
        path.mkdir()
        prepare(path, place)
    requests = [run.request(path) for run, path in zip(runs, paths, strict=True)]
    reported = oracle.call("run_segments", runs=requests, timeout=300)
    for place, (run, path, steps_told) in enumerate(zip(runs, paths, reported, strict=True)):
        for kind in (DiskFiles, OverlayFiles):
            directory = path.with_name(f"{path.name}-{kind.__name__}")
            directory.mkdir()
            prepare(directory, place)
            with seen_by("segment", seeds[place] if seeds else None):
                _compare(OurSegment(kind(directory), run), run, steps_told, path=path)
    return reported


def test_random_steps_leave_the_files_that_kafka_leaves(oracle: Oracle, tmp_path: Path) -> None:
    seeds = range(200)
    _run_both(oracle, tmp_path, [draw_run(seed) for seed in seeds], seeds=seeds)


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_many_random_steps_leave_the_files_that_kafka_leaves(
    oracle: Oracle, tmp_path: Path, part: int
) -> None:
    seeds = range(1000 + part * 250, 1000 + (part + 1) * 250)
    _run_both(oracle, tmp_path, [draw_run(seed) for seed in seeds], seeds=seeds)


def _large_log(rng: random.Random) -> bytearray:
    """Six megabytes: the recovery reads it in several pieces."""
    log, offset = bytearray(), BASE
    while len(log) < 6_000_000:
        values = [rng.randbytes(rng.choice((100, 3000))) for _ in range(rng.randint(1, 12))]
        records = [SimpleRecord(NOW + rng.randrange(10**6), b"key", value) for value in values]
        producer: dict[str, Any] = {}
        if rng.random() < 0.5:
            producer = {"producer_id": rng.randrange(3), "producer_epoch": 0, "base_sequence": 0}
        epoch = len(log) // 1_000_000
        log += encode_batch(records, base_offset=offset, partition_leader_epoch=epoch, **producer)
        offset += len(records)
    return log


def _damage_one_batch(log: bytearray, rng: random.Random, kind: str) -> None:
    """Somewhere in the last third, at a batch."""
    position, wanted = 0, len(log) * rng.uniform(0.6, 0.99)
    while position < wanted:
        position += 12 + struct.unpack_from(">i", log, position + 8)[0]
    if kind == "flip":
        log[position + 100] ^= 1
    elif kind == "back":
        struct.pack_into(">q", log, position, BASE + 3)
    elif kind == "far":
        struct.pack_into(">q", log, position, BASE + 2**31)
    elif kind == "epoch":
        struct.pack_into(">i", log, position + 12, 9)
    elif kind == "size":
        struct.pack_into(">i", log, position + 8, 13)
    elif kind == "zeros":
        log[position:] = bytes(len(log) - position)
    elif kind == "cut":
        del log[position + 50 :]


def test_a_large_segment_is_recovered_piece_by_piece(oracle: Oracle, tmp_path: Path) -> None:
    kinds = ["none", "flip", "back", "far", "epoch", "size", "zeros", "cut", "none", "none"]
    logs = []
    for seed, kind in enumerate(kinds):
        rng = random.Random(seed)
        logs.append(_large_log(rng))
        _damage_one_batch(logs[-1], rng, kind)
    runs = [
        steps_with(
            Recover(),
            State(),
            Close(),
            index_interval_bytes=(4096, 0)[place % 2],
            segment_index_bytes=10**5 if place < 9 else 2000,
        )
        for place in range(len(kinds))
    ]
    reported = _run_both(
        oracle, tmp_path, runs, lambda path, place: (path / LOG).write_bytes(logs[place])
    )
    errors = [name_of(steps[1].get("error")) for steps in reported]
    assert errors[2:4] == ["InvalidOffsetException", "LogSegmentOffsetOverflowException"]
    assert errors[9] == "IllegalArgumentException"  # 250 entries are too few
    assert [steps[1]["answer"][0] > 0 for steps in reported if "answer" in steps[1]] == [
        False,
        True,
        False,
        True,
        True,
        True,
        False,
    ]


@pytest.mark.parametrize("value", [b"\0\0\0\0\0\1", b"\0\0\0\0", b"", b"\xff\xff\0\0\0\1"])
def test_control_batches_that_are_none_end_a_recovery_as_in_kafka(
    oracle: Oracle, tmp_path: Path, value: bytes
) -> None:
    """Their checksums are right: what is wrong shows when the marker is to be read."""
    keys = (
        b"\0\0\0\0",
        b"\0\0\0\7",
        b"\0\0\0\2",
        b"\0\1\0\1",
        b"\xff\xff\0\0",
        b"\0\0\0",
        b"",
        None,
    )
    producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 1, "is_transactional": True}
    logs = [
        batch(BASE, NOW, base_sequence=0, **producer)
        + encode_batch(
            [SimpleRecord(NOW, key, value)], base_offset=BASE + 1, is_control=True, **producer
        )
        + batch(BASE + 2, NOW, base_sequence=1, **producer)
        for key in keys
    ]
    runs = [steps_with(Recover(), State(), index_interval_bytes=0) for _ in keys]
    _run_both(oracle, tmp_path, runs, lambda path, place: (path / LOG).write_bytes(logs[place]))


def test_batches_of_another_file_are_appended_as_far_as_their_offsets_fit(
    oracle: Oracle, tmp_path: Path
) -> None:
    far = BASE + 2**31
    source = tmp_path / "source"
    first, second = batch(BASE, NOW, size=200), batch(BASE + 1, NOW, size=200)
    source.write_bytes(first + second + batch(far, NOW, size=200) + batch(far + 1, NOW))
    runs = [steps_with(AppendFromFile(str(source), start), State()) for start in (0, 200, 400)]
    large = tmp_path / "large"
    large.write_bytes(_large_log(random.Random(5)))
    runs.append(
        steps_with(
            AppendFromFile(str(large), 0),
            State(),
            Close(),
            segment_index_bytes=10**5,
        )
    )
    reported = _run_both(oracle, tmp_path, runs)
    assert [steps[1]["answer"][0] for steps in reported] == [400, 200, 0, large.stat().st_size]


def test_names_change_and_go_as_in_kafka(oracle: Oracle, tmp_path: Path) -> None:
    append = Append(largest_offset=BASE, data=batch(BASE, NOW))
    aborted = UpdateTxnIndex(
        producer_id=1,
        first_offset=BASE,
        last_offset=BASE,
        last_stable_offset=BASE,
        is_aborted=True,
    )
    suffix = ChangeSuffixes("", ".deleted")
    wrong = ChangeSuffixes(".swap", "")
    gone = WriteFile(INDEX, gone=True)
    _run_both(
        oracle,
        tmp_path,
        [
            steps_with(append, aborted, suffix, wrong, Delete(), Delete()),
            steps_with(suffix, append, Close()),
            steps_with(append, gone, suffix, State()),
            steps_with(State(), Close(), Open(), gone, suffix),
        ],
    )


def test_a_position_in_the_log_is_found_by_its_offset(tmp_path: Path) -> None:
    segment = open_segment(DiskFiles(tmp_path))
    segment.append(BASE + 3, batch(BASE, NOW, NOW, size=200) + batch(BASE + 3, NOW))
    assert segment.translate_offset(BASE + 1) == LogOffsetPosition(BASE, 0, 200)
    assert segment.translate_offset(BASE + 2) == LogOffsetPosition(BASE + 3, 200, 68)
    assert segment.translate_offset(BASE + 1, 200) == LogOffsetPosition(BASE + 3, 200, 68)
    assert segment.translate_offset(BASE + 4) is None
