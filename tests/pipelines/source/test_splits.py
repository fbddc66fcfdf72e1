"""Splits: batch-aligned, together the whole, and of the files only what they must read."""

import shutil
import struct
from functools import partial
from itertools import pairwise
from typing import Any

import pytest

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.legacy import encode_legacy_batch
from pipelines.source.options import Bounds, parse_options
from pipelines.source.splits import pack, plan_splits
from pipelines.source.storage import Storage, StorageError
from pipelines.source.tables.batches import read_batches
from pipelines.source.tables.records import read_records
from tests import golden
from tests.pipelines.readers import read, read_by_split, splits
from tests.pipelines.segments import write_segment

SIZES = ("1", "100", "700", "5k", "1m")


def place(row: dict) -> tuple:
    return row["topic"], row["partition"], row["offset"]


def received(name: str, isolation: str = "read_uncommitted") -> list[tuple]:
    return sorted(
        place(row)
        for row in golden.expected(name)
        if "offset" in row and row["isolation"] == isolation
    )


def rows_and_bytes(path, bounds=None, **options):
    """Offsets of all rows, and how many bytes were read for them, planning included."""
    parsed = parse_options({"path": str(path), **options})
    if bounds is not None:
        parsed = type(parsed)(**{**_fields(parsed), "bounds": bounds})
    storage = Storage(parsed.paths)
    read_table = {"records": read_records, "batches": read_batches}[parsed.table]
    column = {"records": "offset", "batches": "base_offset"}[parsed.table]
    offsets = [
        offset
        for split in plan_splits(parsed, storage, as_consumer=parsed.table == "records")
        for batch in read_table(split, parsed, storage)
        for offset in batch.column(column).to_pylist()
    ]
    return offsets, storage.bytes_read


def _fields(options):
    return {name: getattr(options, name) for name in options.__slots__}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", golden.names())
def test_splits_of_any_size_together_are_what_the_consumer_received(name, size):
    rows = read(golden.shared(name), maxSplitBytes=size, columns="topic,partition,offset")
    found = [place(row) for row in rows if row["topic"] != "__cluster_metadata"]
    assert sorted(found) == received(name)


@pytest.mark.parametrize("size", ["1", "700"])
@pytest.mark.parametrize("name", ["clean-3.9.1", "unclean-4.3.1"])
def test_what_was_aborted_is_left_out_however_the_log_is_cut(name, size):
    rows = read(
        golden.shared(name),
        maxSplitBytes=size,
        isolationLevel="read_committed",
        columns="topic,partition,offset",
    )
    found = [place(row) for row in rows if row["topic"] != "__cluster_metadata"]
    assert sorted(found) == received(name, "read_committed")


@pytest.mark.parametrize("name", ["clean-3.9.1", "legacy-2.8.2"])
@pytest.mark.parametrize("damage", ["missing", "empty", "wrong", "torn", "too far"])
def test_an_index_that_cannot_be_believed_changes_nothing(name, damage, tmp_path):
    root = golden.unpack(name, tmp_path)
    content = {
        "empty": b"",
        "wrong": struct.pack(">iiii", 3, 77, 9, 200),
        "torn": struct.pack(">ii", 3, 77) + b"\1\2\3",
        "too far": struct.pack(">ii", 3, 2**30),
    }
    for index in root.rglob("*.index"):
        index.unlink() if damage == "missing" else index.write_bytes(content[damage])
    rows = read(root, maxSplitBytes="300", columns="topic,partition,offset")
    found = [place(row) for row in rows if row["topic"] != "__cluster_metadata"]
    assert sorted(found) == received(name)


ENCODERS: dict[str, dict[str, Any] | None] = {
    "magic 2": None,
    "magic 2 zstd": {"codec": Codec.ZSTD},
    "magic 1 wrappers": {"codec": Codec.GZIP, "magic": 1},
    "magic 0 messages": {"magic": 0},
}


def written(tmp_path, kind, **how):
    options = ENCODERS[kind]
    if options is None:
        return write_segment(tmp_path / "t-0", 0, **how)
    encode: Any = encode_legacy_batch if "magic" in options else encode_batch
    return write_segment(tmp_path / "t-0", 0, encode=partial(encode, **options), **how)


@pytest.mark.parametrize("size", ["1", "1000", "8k", "100k", "1m"])
@pytest.mark.parametrize("kind", ENCODERS)
def test_count_least_and_largest_by_split_are_those_of_the_whole(kind, size, tmp_path):
    written(tmp_path, kind, count=3000, per_batch=500, indexed_every=2)
    by_split = read_by_split(tmp_path, maxSplitBytes=size, columns="offset,timestamp_ms")
    offsets = [[row["offset"] for row in rows] for rows in by_split]
    assert sum(map(len, offsets)) == 3000
    assert min(map(min, offsets)) == 0
    assert max(map(max, offsets)) == 2999
    assert [offset for each in offsets for offset in each] == [*range(3000)]


def test_a_split_begins_where_a_batch_begins_and_none_is_empty(tmp_path):
    batches = write_segment(tmp_path / "t-0", 0, 1000, per_batch=10)
    found = [each for split in splits(tmp_path, maxSplitBytes="4k") for each in split]
    assert len(found) > 20
    starts = {batch.position for batch in batches}
    assert all(each.start in starts for each in found)
    assert all(first.end == second.start for first, second in pairwise(found))
    assert all(each.size_in_bytes > 0 for each in found)
    assert found[-1].end == (tmp_path / "t-0" / f"{0:020d}.log").stat().st_size


def test_a_huge_batch_is_one_split_however_small_splits_should_be(tmp_path):
    write_segment(tmp_path / "t-0", 0, 30, per_batch=10, size=50_000)
    assert len(splits(tmp_path, maxSplitBytes="1000")) == 3


def test_many_small_files_are_one_split(tmp_path):
    for base in range(0, 1000, 10):
        write_segment(tmp_path / "t-0", base, 10)
    assert len(splits(tmp_path)) == 1
    assert len(splits(tmp_path)[0]) == 100
    assert [row["offset"] for row in read(tmp_path, columns="offset")] == [*range(1000)]


def test_packing_keeps_the_order_and_the_size(tmp_path):
    for base in range(0, 100, 10):
        write_segment(tmp_path / "t-0", base, 10, size=100_000)
    ranges = [each for split in splits(tmp_path, maxSplitBytes="1m") for each in split]
    packed = list(pack(ranges, 2_500_000))
    assert [each for split in packed for each in split] == ranges
    assert [len(split) for split in packed] == [2, 2, 2, 2, 2]


def test_cuts_are_found_by_the_index_without_reading_the_log(tmp_path):
    write_segment(tmp_path / "t-0", 0, 10_000, per_batch=10)
    options = parse_options({"path": str(tmp_path), "maxSplitBytes": "100k"})
    storage = Storage(options.paths)
    found = plan_splits(options, storage, as_consumer=True)
    log, index = (tmp_path / "t-0" / f"{0:020d}{end}" for end in (".log", ".index"))
    assert len(found) > 10
    assert storage.bytes_read < index.stat().st_size + 100 * len(found)
    assert storage.bytes_read < log.stat().st_size / 50


def test_a_partition_without_a_segment_has_no_rows(tmp_path):
    write_segment(tmp_path / "t-0", 0, 10)
    (tmp_path / "t-1").mkdir()
    for options in ({}, {"isolationLevel": "read_committed"}, {"startingTimestamp": "0"}):
        assert {row["partition"] for row in read(tmp_path, **options)} == {0}
    with pytest.raises(StorageError, match="no Kafka files found"):
        read(tmp_path / "t-1")


# ------------------------------------------------------------------------------- pruning


@pytest.fixture(scope="module")
def three_segments(tmp_path_factory):
    root = tmp_path_factory.mktemp("pruning")
    for base in (0, 2000, 4000):
        write_segment(root / "t-0", base, 2000, per_batch=10)
    write_segment(root / "u-1", 0, 2000)
    return root


def log_size(root, name, base):
    return (root / name / f"{base:020d}.log").stat().st_size


def test_offsets_between_two_segments_names_leave_the_others_unread(three_segments):
    offsets, size = rows_and_bytes(
        three_segments, topics="t", startingOffsets="2000", endingOffsets="4000"
    )
    assert offsets == [*range(2000, 4000)]
    assert size == log_size(three_segments, "t-0", 2000)


def test_a_few_offsets_are_read_by_the_index(three_segments):
    offsets, size = rows_and_bytes(
        three_segments, topics="t", startingOffsets="2345", endingOffsets="2350"
    )
    assert offsets == [*range(2345, 2350)]
    assert size < log_size(three_segments, "t-0", 2000) / 20


def test_another_topic_or_partition_is_not_opened(three_segments):
    offsets, size = rows_and_bytes(three_segments, topics="u", partitions="1")
    assert offsets == [*range(2000)]
    assert size == log_size(three_segments, "u-1", 0)
    assert rows_and_bytes(three_segments, partitions="7") == ([], 0)


def test_offsets_by_partition_are_sparks_json(three_segments):
    offsets, _ = rows_and_bytes(
        three_segments,
        startingOffsets='{"t": {"0": 5990}, "u": {"1": 1995}}',
        endingOffsets='{"t": {"0": 5992}, "u": {"1": -1}}',
    )
    assert offsets == [5990, 5991, *range(1995, 2000)]


@pytest.mark.parametrize("option", ["startingOffsets", "endingOffsets"])
def test_offsets_of_a_partition_that_is_not_here_are_told(three_segments, caplog, option):
    offsets = '{"t": {"0": 5, "7": 5}, "orders": {"0": 5}}'
    splits(three_segments, **{option: offsets})
    assert caplog.messages == [f"kafka_files: {option}: no partition t-7, orders-0 here"]
    caplog.clear()
    splits(three_segments, **{option: '{"t": {"0": 5}}'})
    assert caplog.messages == []


def test_a_time_is_the_first_offset_of_that_time_as_in_sparks_kafka_source(three_segments):
    offsets, size = rows_and_bytes(
        three_segments,
        topics="t",
        startingTimestamp=str(1_000_000 + 1000 * 4100 - 1),
        endingTimestamp=str(1_000_000 + 1000 * 4103),
    )
    assert offsets == [4100, 4101, 4102]
    whole = sum(log_size(three_segments, "t-0", base) for base in (0, 2000, 4000))
    assert size < whole


@pytest.mark.parametrize("form", ["one", "two"])
def test_a_time_is_looked_for_from_the_log_start_on_as_kafka_does(oracle, tmp_path, form):
    """The record at offset 0 is of a late time, and nobody can read it any more."""
    steps: list[dict[str, Any]] = [
        {
            "do": "append",
            "batch": {"records": [{"timestamp": time, "key": b"k", "value": b"v"}]},
        }
        for time in (1000, 100, 200, 2000)
    ]
    if form == "two":
        steps.insert(2, {"do": "roll"})
    steps += [{"do": "high_watermark"}, {"do": "log_start_offset", "offset": 1}]
    steps += [{"do": "offset_for_timestamp", "timestamp": 1500}]
    config = {"retention.ms": -1, "message.timestamp.before.max.ms": 2**63 - 1}
    reported = oracle.run_log(tmp_path / "t-0", steps=steps, config=config)["steps"][-1]
    assert reported["offset"] == 3
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 1\n")

    def offsets(**options):
        return [row["offset"] for row in read(tmp_path, **options)]

    assert offsets() == [1, 2, 3]
    assert offsets(endingTimestamp="500") == [1, 2]
    assert offsets(endingTimestamp="1500") == [1, 2]
    assert offsets(startingTimestamp="500") == [3]
    assert offsets(startingTimestamp="150", endingTimestamp="500") == [2]


def test_a_time_that_no_record_reaches_gives_none_and_as_an_end_all(three_segments):
    assert rows_and_bytes(three_segments, topics="t", startingTimestamp=str(2**60))[0] == []
    found, _ = rows_and_bytes(three_segments, topics="t", endingTimestamp=str(2**60))
    assert found == [*range(6000)]


@pytest.mark.parametrize(
    ("bounds", "bases"),
    [
        (Bounds(least_offset=4000), (4000,)),
        (Bounds(largest_offset=1999), (0,)),
        (Bounds(segments=frozenset({2000})), (2000,)),
        (Bounds(least_timestamp=1_000_000 + 1000 * 4000), (4000,)),
        (Bounds(topics=frozenset({"t"}), partitions=frozenset({0})), (0, 2000, 4000)),
    ],
)
@pytest.mark.parametrize("table", ["records", "batches"])
def test_a_pushed_filter_reads_only_the_segments_it_must(three_segments, table, bounds, bases):
    offsets, size = rows_and_bytes(three_segments, topics="t", bounds=bounds, table=table)
    step = 1 if table == "records" else 10
    assert offsets == [at for base in bases for at in range(base, base + 2000, step)]
    read_logs = sum(log_size(three_segments, "t-0", base) for base in bases)
    indexes = sum(path.stat().st_size for path in three_segments.glob("t-0/*index"))
    assert read_logs <= size <= read_logs + indexes


def test_offsets_beyond_the_next_segments_are_rows_however_the_log_is_cut(tmp_path):
    """The base offset is not covered by the checksum."""
    written = write_segment(tmp_path / "t-0", 0, 20)
    write_segment(tmp_path / "t-0", 20, 10)
    log = tmp_path / "t-0" / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    for batch in written:
        struct.pack_into(">q", content, batch.position, 1000 + batch.first_offset)
    log.write_bytes(content)
    for size in ("1", "128m"):
        found, _ = rows_and_bytes(tmp_path, maxSplitBytes=size)
        assert found == [*range(1000, 1020), *range(20, 30)]


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("is_indexed", [True, False])
@pytest.mark.parametrize(("at", "form"), [(0, ">q"), (8, ">i"), (23, ">i")])
def test_a_header_that_lies_hides_no_offset_but_its_own(tmp_path, magic, is_indexed, at, form):
    """A base offset, a length, or the distance to the last offset, much too large."""
    encode = encode_batch if magic == 2 else partial(encode_legacy_batch, magic=magic)
    per_batch = 10 if magic == 2 else 1
    batches = write_segment(tmp_path / "t-0", 0, 1000, per_batch=per_batch, encode=encode)
    log = tmp_path / "t-0" / f"{0:020d}.log"
    content = bytearray(log.read_bytes())
    struct.pack_into(form, content, batches[30].position + at, 2**30)
    log.write_bytes(content)
    if not is_indexed:
        log.with_suffix(".index").unlink()
    lost = range(batches[30].first_offset, batches[30].last_offset + 1)
    for least, largest in ((None, 350), (200, None), (250, 345), (0, 999)):
        bounds = Bounds(least_offset=least, largest_offset=largest)
        found, _ = rows_and_bytes(tmp_path, bounds=bounds, maxSplitBytes="2k")
        wanted = range(least or 0, (largest or 999) + 1)
        assert {each for each in wanted if each not in lost} <= set(found)


def test_a_time_index_of_a_segment_that_may_grow_is_not_believed(three_segments, tmp_path):
    root = tmp_path / "copy"
    shutil.copytree(three_segments, root)
    (root / "t-0" / f"{4000:020d}.timeindex").write_bytes(b"")
    (root / "t-0" / f"{2000:020d}.timeindex").write_bytes(struct.pack(">qi", 5, 0) + bytes(120))
    bounds = Bounds(least_timestamp=1_000_000 + 1000 * 4100)
    offsets, _ = rows_and_bytes(root, topics="t", bounds=bounds)
    assert offsets == [*range(2000, 6000)]  # Spark filters what was read for nothing


@pytest.mark.parametrize("index", ["there", "missing"])
def test_a_time_index_that_was_cut_between_two_entries_hides_no_row(oracle, tmp_path, index):
    """At every entry of every index that Kafka wrote; times go up and down."""
    built = oracle.build_log(tmp_path / "t-0", seed=3, batches=60)
    later = sorted(each.timestamp for each in built.records)[len(built.records) * 2 // 3]
    wanted = {each.offset for each in built.records if each.timestamp >= later}
    first = min(each.offset for each in built.records if each.timestamp >= later)
    if index == "missing":
        for path in built.path.glob("*.index"):
            path.unlink()
    bounds = Bounds(least_timestamp=later)
    pruned, _ = rows_and_bytes(tmp_path, bounds=bounds, includeControl="true")
    assert wanted <= set(pruned)
    assert len(pruned) < len(built.records)  # something is left out while the indexes are sound
    for path in sorted(built.path.glob("*.timeindex"))[:-1]:
        whole = path.read_bytes()
        for size in range(0, len(whole), 12):
            path.write_bytes(whole[:size])
            found, _ = rows_and_bytes(tmp_path, bounds=bounds, includeControl="true")
            assert wanted <= set(found)
            found = read(tmp_path, startingTimestamp=str(later), includeControl="true")
            assert found[0]["offset"] == first
        path.write_bytes(whole)
