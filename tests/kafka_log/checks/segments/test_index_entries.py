"""Index entries that Kafka wrote are right in all of its releases; edits of them are found."""

import struct
from pathlib import Path

import pytest

from kafka_format.batch import encode_batch
from kafka_format.errors import FormatError
from kafka_format.record import SimpleRecord
from kafka_log.checks.facts import Depth, SegmentSummary
from kafka_log.checks.segments.index_entries import LONGEST_STRETCH
from kafka_log.checks.segments.segment_checks import check_segment
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles
from tests.kafka_log.checks.audited import (
    edit_bytes,
    findings,
    golden_partition,
    ids,
    partitions,
    positions,
)
from tests.oracle.logs import START, LogPlan, draw

BASE, MIDDLE, LAST = (f"{base:020d}" for base in (0, 38, 76))
FIRST_TIME = 1700000000000


@pytest.fixture(name="indexed")
def copied(tmp_path: Path) -> Path:
    """Three segments of Kafka 3.9.1 with batches of two records, and an entry for each batch."""
    return golden_partition("clean-3.9.1", "tiny-indexed-0", tmp_path)


def entries(path: Path) -> list[tuple[int, int]]:
    return list(struct.iter_unpack(">ii", path.read_bytes()))


def write_entries(index: Path, written: list[tuple[int, int]]) -> None:
    """Write entries: relative offset and position, or timestamp and relative offset."""
    form = struct.Struct(">qi" if index.suffix == ".timeindex" else ">ii")
    index.write_bytes(b"".join(form.pack(*entry) for entry in written))


def test_the_directory_has_an_entry_for_every_batch_but_the_first(indexed):
    log = indexed / f"{BASE}.log"
    found = entries(log.with_suffix(".index"))
    assert [position for _, position in found] == positions(log)[1:]
    assert found[:4] == [(3, 205), (5, 410), (7, 615), (9, 820)]
    assert len(found) == 18
    assert log.stat().st_size == 3913
    for depth in Depth:
        assert findings(indexed, depth=depth, knows_settings=True) == []


# --- the offset index ---------------------------------------------------------------------------

A_BATCH = "the position of a batch"
ABOVE = "an offset above those of the batches before its position"
FROM_THERE = "the last offset of a batch from there on"

OFFSETS: dict[str, tuple[slice, tuple[int, int], str, str]] = {
    "inside a batch": (slice(1, 2), (5, 411), "IDX004", A_BATCH),
    "after its batch": (slice(1, 4), (5, 820), "IDX004", ABOVE),
    "not a last offset": (slice(1, 2), (4, 410), "IDX005", FROM_THERE),
    "an offset beyond the log": (slice(17, 18), (99, 3706), "IDX005", FROM_THERE),
    "a position beyond the log": (
        slice(18, 18),
        (99, 9999),
        "IDX005",
        "a position in the log, below 3913",
    ),
    "where the log ends": (
        slice(18, 18),
        (99, 3913),
        "IDX005",
        "a position in the log, below 3913",
    ),
}


@pytest.mark.parametrize("name", OFFSETS)
@pytest.mark.parametrize("depth", Depth)
def test_an_entry_that_does_not_fit_the_log_is_one_finding(indexed, name, depth):
    replaced, (offset, position), rule, expected = OFFSETS[name]
    index = indexed / f"{BASE}.index"
    kept = entries(index)
    kept[replaced] = [(offset, position)]
    write_entries(index, kept)
    (only,) = findings(indexed, depth=depth)
    where = (rule, str(index), 8 * replaced.start, offset)
    assert (only.id, only.path, only.position, only.offset) == where
    assert (only.found, only.expected) == (f"offset {offset}, position {position}", expected)


@pytest.mark.parametrize("depth", Depth)
def test_offsets_are_those_of_the_log_and_not_of_the_segment(indexed, depth):
    index = indexed / f"{MIDDLE}.index"
    write_entries(index, [(4, 207), *entries(index)[1:]])
    (only,) = findings(indexed, depth=depth)
    assert (only.id, only.offset) == ("IDX005", 42)


def test_entries_of_another_segment_are_one_finding(indexed):
    index = indexed / f"{BASE}.index"
    index.write_bytes((indexed / f"{MIDDLE}.index").read_bytes())
    (only,) = findings(indexed)
    assert (only.id, only.position) == ("IDX004", 0)
    assert only.found == "offset 5, position 406, and 16 entries that follow"


def test_one_entry_for_an_append_of_several_batches_is_no_finding(indexed):
    """Up to 3.9.0, and in 4.0.0: the first position of the append, and its last offset."""
    index = indexed / f"{BASE}.index"
    every = entries(index)
    write_entries(index, [(7, 205), (15, 820), *every[8:]])
    assert findings(indexed) == []


def test_an_entry_for_a_batch_after_the_next_entry_is_a_finding(indexed):
    index = indexed / f"{BASE}.index"
    every = entries(index)
    write_entries(index, [every[0], (9, 410), (11, 820), *every[5:]])
    (only,) = findings(indexed)
    assert (only.id, only.found) == ("IDX005", "offset 9, position 410")


def test_an_entry_with_a_kept_record_of_a_compacted_batch_is_no_finding(tmp_path):
    """The cleaner wrote the last offset of the records up to 3.9.0, and not that of the batch."""
    log = tmp_path / "orders-0" / f"{BASE}.log"
    log.parent.mkdir()
    record = [SimpleRecord(FIRST_TIME, b"k", b"v")]
    first = encode_batch(record, base_offset=0)
    log.write_bytes(first + encode_batch(record, base_offset=1, last_offset=9))
    for offset, expected in ((1, []), (9, []), (10, ["IDX005"])):
        write_entries(log.with_suffix(".index"), [(offset, len(first))])
        assert ids(tmp_path, is_clean=None) == expected


@pytest.mark.parametrize("depth", Depth)
def test_a_log_that_was_cut_where_a_batch_ends_is_seen_in_its_indexes(indexed, depth):
    log = indexed / f"{LAST}.log"
    assert positions(log) == [0, 201]
    log.write_bytes(log.read_bytes()[:201])
    assert [(each.id, each.offset) for each in findings(indexed, depth=depth)] == [
        ("IDX005", 79),
        ("TIX005", 79),
    ]


@pytest.mark.parametrize("depth", Depth)
def test_an_entry_for_bytes_that_are_damaged_is_not_reported_again(indexed, depth):
    log = indexed / f"{BASE}.log"
    edit_bytes(log, 410 + 8, struct.pack(">i", 3))
    assert ids(indexed, depth=depth) == ["LOG002"]
    last = indexed / f"{LAST}.log"
    last.write_bytes(last.read_bytes()[:-1])
    assert ids(indexed, depth=depth) == ["LOG002", "LOG004"]


@pytest.fixture(name="large", scope="module")
def large_log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of forty batches of 1 MiB, and an index with an entry for each but the first."""
    log = tmp_path_factory.mktemp("large") / "orders-0" / f"{BASE}.log"
    log.parent.mkdir()
    value = bytes(1 << 20)
    with log.open("wb") as file:
        for offset in range(40):
            record = SimpleRecord(FIRST_TIME + offset, b"k", value)
            file.write(encode_batch([record], base_offset=offset))
    return log


@pytest.mark.parametrize("depth", Depth)
def test_entries_that_no_interval_explains_are_missing(large, depth):
    every = list(enumerate(positions(large)))
    index, size = large.with_suffix(".index"), large.stat().st_size

    def missing(kept: list[tuple[int, int]], **context: bool) -> list[tuple[str, str, int | None]]:
        write_entries(index, kept)
        found = findings(large.parent, depth=depth, is_clean=None, **context)
        return [(each.id, each.found, each.position) for each in found]

    assert missing(every[1:], knows_settings=True) == []
    assert missing(every[1:2] + every[20:], knows_settings=True) == []
    whole = ("IDX006", f"no entry for positions 0 to {size}", 0)
    assert missing([], knows_settings=True) == [whole]
    assert missing([]) == []
    after = ("IDX006", f"no entry for positions {every[3][1]} to {size}", 8)
    assert missing(every[3:4], knows_settings=True) == [after]
    within = ("IDX006", f"no entry for positions {every[2][1]} to {every[37][1]}", 8)
    assert missing([every[2], *every[37:]], knows_settings=True) == [within]
    config = LogConfig(index_interval_bytes=8 * 1024 * 1024)
    assert LONGEST_STRETCH + config.index_interval_bytes + (1 << 20) > size
    assert findings(large.parent, config=config, knows_settings=True, is_clean=None) == []


# --- the time index -----------------------------------------------------------------------------

LARGEST = "the largest timestamp up to that offset"
TIMES: dict[str, tuple[int, tuple[int, int], str]] = {
    "of another batch": (2, (FIRST_TIME + 3, 9), LARGEST),
    "a timestamp that no batch has": (17, (FIRST_TIME + 19, 37), LARGEST),
    "an offset beyond the log": (17, (FIRST_TIME + 18, 99), "an offset in the log"),
}


@pytest.mark.parametrize("name", TIMES)
@pytest.mark.parametrize("depth", Depth)
def test_an_entry_that_is_not_a_largest_timestamp_is_one_finding(indexed, name, depth):
    number, (timestamp, offset), expected = TIMES[name]
    index = indexed / f"{BASE}.timeindex"
    written = list(struct.iter_unpack(">qi", index.read_bytes()))
    assert len(written) == 18
    written[number] = timestamp, offset
    write_entries(index, written)
    (only,) = findings(indexed, depth=depth)
    assert (only.id, only.path, only.position) == ("TIX005", str(index), 12 * number)
    assert only.found == f"timestamp {timestamp}, offset {offset}"
    assert only.expected == expected


def test_a_timestamp_below_that_of_an_earlier_batch_is_a_finding(indexed):
    """The first batch of this segment has the largest; the others were appended with older ones."""
    index = indexed / f"{MIDDLE}.timeindex"
    assert index.read_bytes() == struct.pack(">qi", FIRST_TIME + 19, 1)
    write_entries(index, [(FIRST_TIME + 5, 13), (FIRST_TIME + 19, 13)])
    (only,) = findings(indexed)
    assert (only.id, only.found) == (
        "TIX005",
        f"timestamp {FIRST_TIME + 5}, offset 51, and 1 entries that follow",
    )


def test_the_offset_of_a_record_instead_of_its_batch_is_no_finding(indexed):
    """As brokers up to 3.6 wrote them."""
    index = indexed / f"{BASE}.timeindex"
    written = struct.iter_unpack(">qi", index.read_bytes())
    write_entries(index, [(timestamp, offset - 1) for timestamp, offset in written])
    assert findings(indexed) == []


@pytest.mark.parametrize("depth", Depth)
@pytest.mark.parametrize("base", [BASE, LAST])
def test_only_a_full_segment_is_covered_by_its_time_index(indexed, base, depth):
    index = indexed / f"{base}.timeindex"
    size = index.stat().st_size
    index.write_bytes(index.read_bytes()[:-12])
    expected = [("TIX004", str(index), size - 12)] if base == BASE else []
    for is_clean in (True, False):
        found = findings(indexed, depth=depth, is_clean=is_clean)
        assert [(each.id, each.path, each.position) for each in found] == expected


# --- files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("ending", "rule"), [("index", "IDX007"), ("timeindex", "TIX006")])
def test_a_missing_index_is_a_finding_where_kafka_has_written_one(indexed, ending, rule):
    (indexed / f"{MIDDLE}.{ending}").unlink()
    (only,) = findings(indexed)
    assert (only.id, only.path) == (rule, str(indexed / f"{MIDDLE}.{ending}"))
    assert ids(indexed, is_clean=False) == [rule]
    (indexed / f"{LAST}.{ending}").unlink()
    assert ids(indexed) == [rule, rule]
    assert ids(indexed, is_clean=False) == [rule]  # a killed broker may not have written it yet
    assert ids(indexed, is_clean=None) == [rule]
    for name in ("index", "timeindex"):
        for path in indexed.glob(f"*.{name}"):
            path.unlink()
    assert ids(indexed, is_clean=None) == []  # only logs were copied


def test_an_empty_segment_needs_no_index(indexed):
    (indexed / f"{80:020d}.log").touch()
    assert findings(indexed) == []


def test_zeros_after_the_entries_of_a_killed_broker_are_no_finding(indexed):
    for path in (indexed / f"{LAST}.index", indexed / f"{LAST}.timeindex"):
        with path.open("r+b") as file:
            file.truncate(10 * 1024 * 1024)
    assert findings(indexed, is_clean=False) == []


def test_entries_of_truncated_batches_stay_in_a_killed_index_and_are_no_finding(indexed):
    index, times = indexed / f"{LAST}.index", indexed / f"{LAST}.timeindex"
    write_entries(index, [(3, 201), (99, 350), (7, 9999), (0, 0)])
    write_entries(times, [(FIRST_TIME + 19, 3), (FIRST_TIME + 50, 99), (FIRST_TIME + 1, 2), (0, 0)])
    assert findings(indexed, is_clean=False) == []
    assert {each.id for each in findings(indexed)} == {"IDX001", "IDX004", "TIX001", "TIX005"}
    write_entries(index, [(3, 201), (0, 0), (7, 9999), (0, 0)])
    assert ids(indexed, is_clean=False) == ["IDX003"]


def test_a_truncated_log_that_was_killed_has_no_finding(oracle, tmp_path):
    """A follower that truncates; Kafka leaves the entries of what it removed in the files."""
    steps, _ = draw(LogPlan(seed=11, batches=60, open_transactions=0))
    config = LogPlan().settings() | {"segment.bytes": 1 << 20, "segment.index.bytes": 4096}
    truncate = {"do": "truncate_to", "delta": -60, "from": "end"}
    path = tmp_path / "orders-0"
    oracle.run_log(path, config=config, time=START, steps=[*steps, truncate], close="crash")
    left = len(path.with_name("orders-0").joinpath(f"{BASE}.index").read_bytes().rstrip(b"\0"))
    last = max(position for _, position in entries(path / f"{BASE}.index"))
    assert left > 8
    assert last > (path / f"{BASE}.log").stat().st_size
    for depth in Depth:
        assert findings(tmp_path, is_clean=False, depth=depth) == []


@pytest.mark.parametrize(("ending", "rule"), [("index", "IDX003"), ("timeindex", "TIX003")])
def test_a_huge_index_is_read_as_far_as_its_log_can_have_entries(indexed, ending, rule):
    path = indexed / f"{LAST}.{ending}"
    with path.open("r+b") as file:
        file.truncate(1 << 26)
    assert findings(indexed) == []
    edit_bytes(path, 1 << 25, b"x")
    (only,) = findings(indexed)
    assert (only.id, only.position, only.found) == (rule, 1 << 25, "data at position 33554432")


def test_an_index_that_cannot_be_read_is_an_error_after_the_summary(indexed):
    (each,) = partitions(indexed)
    with (indexed / f"{BASE}.index").open("r+b") as file:
        file.truncate((1 << 31) + 8)
    segment, following = each.partition.segments[:2]
    checked = check_segment(each, segment, DiskFiles(indexed), next_base=following.base_offset)
    assert isinstance(next(checked), SegmentSummary)
    with pytest.raises(FormatError):
        next(checked)
