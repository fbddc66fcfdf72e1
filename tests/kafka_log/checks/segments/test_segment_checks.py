"""A directory of Kafka's is sound, and an edit of it is the finding of its rule, and only that."""

import random
import struct
import zlib
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_format.attributes import CONTROL, TRANSACTIONAL
from kafka_format.batch import encode_batch
from kafka_format.record import SimpleRecord
from kafka_log.checks.facts import Depth
from kafka_log.cleaner.releases import KAFKA_3_9_1, KAFKA_4_3
from tests import golden
from tests.kafka_log.checks.audited import (
    edit_batch,
    edit_bytes,
    findings,
    golden_partition,
    ids,
    positions,
    summaries,
)
from tests.kafka_log.cleaner.cleaning import compare, planned_case
from tests.kafka_log.compare import run_kafka, scratch
from tests.kafka_log.workload import draw_workload
from tests.oracle.client import OracleError
from tests.oracle.logs import CODECS, ExpectedRecord, LogPlan

PLAIN, INDEXED, MARKERS = "codecs-0", "tiny-indexed-0", "transactions-0"
BASE, LAST = "00000000000000000000", "00000000000000000039"
MAGIC_AT, EPOCH_AT = 16, 12


@pytest.fixture(name="data")
def copied(tmp_path: Path) -> Path:
    """Partitions of Kafka 3.9.1, stopped cleanly, to edit."""
    for topic in (PLAIN, INDEXED, MARKERS):
        golden_partition("clean-3.9.1", topic, tmp_path / "data")
    return tmp_path / "data"


def log(data: Path, topic: str, base: str = BASE) -> Path:
    return data / topic / f"{base}.log"


# --- what Kafka wrote ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", golden.names())
@pytest.mark.parametrize("depth", Depth)
def test_no_live_segment_of_a_real_broker_has_a_finding(name, depth):
    is_clean = not name.startswith("unclean")
    assert findings(golden.shared(name), depth=depth, is_clean=is_clean, knows_settings=True) == []


PLANS = {
    "clean": LogPlan(seed=1),
    "killed": LogPlan(seed=2, close="crash"),
    "compacted": LogPlan(seed=3, gaps=True),
    "LogAppendTime": LogPlan(seed=4, timestamp_type="LogAppendTime"),
    "one segment": LogPlan(seed=5, config={"segment.bytes": 1 << 20, "segment.index.bytes": 8192}),
    **{f"magic {magic}": LogPlan(seed=6, magic=magic, codecs=CODECS[:4]) for magic in (0, 1)},
    **{codec: LogPlan(seed=7, codecs=(codec,), batches=60) for codec in CODECS},
}


@pytest.mark.parametrize("name", PLANS)
def test_no_segment_of_a_drawn_log_has_a_finding(oracle, tmp_path, name):
    plan = PLANS[name]
    oracle.build_log(tmp_path / "orders-0", plan)
    is_clean = plan.close == "clean"
    for depth in Depth:
        assert findings(tmp_path, depth=depth, is_clean=is_clean, knows_settings=True) == []


@pytest.mark.parametrize("release", ["4.3.1", "3.9.1"])
def test_no_segment_of_a_cleaned_log_has_a_finding(oracle, oracle_3_9, release):
    """Tombstones, markers, empty batches, and old formats that a cleaner converts or keeps."""
    cleaner, rules = (oracle, KAFKA_4_3) if release == "4.3.1" else (oracle_3_9, KAFKA_3_9_1)
    with scratch() as folder:
        drawn = [planned_case(oracle, folder, seed) for seed in range(300, 320)]
        cases = [replace(case, rules=rules) for case in drawn]
        compare(cleaner, folder, cases)
        checked = 0
        for case in cases:
            source = folder / "kafka" / case.source.name
            left = source.rename(folder / f"{case.source.name.replace('-', '_')}-0")
            is_clean = case.arguments["close"] == "clean"
            for depth in Depth:
                context = {"depth": depth, "is_clean": is_clean, "knows_settings": True}
                assert findings(left, **context) == [], case.name
            checked += sum(bool(each.batches) for each in summaries(left))
    assert checked > len(cases)


def test_truncations_and_restarts_leave_no_wrong_entry_in_an_offset_index(oracle):
    """Batches with odd headers are among these, and are found; their index entries are right."""
    with scratch() as folder:
        lives = [draw_workload(seed) for seed in range(2000, 2040)]
        paths = [folder / f"kafka-{life.seed}" for life in lives]
        runs = [
            {"path": path, "sessions": life.sessions}
            for path, life in zip(paths, lives, strict=True)
        ]
        run_kafka(oracle, runs)
        for path, life in zip(paths, lives, strict=True):
            is_clean = life.sessions[-1].close == "clean"
            found = findings(path, is_clean=is_clean, knows_settings=True)
            assert not [each for each in found if each.id.startswith("IDX")], life.seed


# --- what Kafka did not write -------------------------------------------------------------------


def edited(data: Path, topic: str, number: int, **fields: Any) -> tuple[Path, int]:
    path = log(data, topic)
    return path, edit_batch(path, number, **fields)


def magic(data: Path) -> tuple[Path, int]:
    path = log(data, PLAIN)
    edit_bytes(path, 2136 + MAGIC_AT, b"\3")
    return path, 2136


def unused_bit(data: Path) -> tuple[Path, int]:
    return edited(data, PLAIN, 1, attributes=0x80)


def transactional_of_nobody(data: Path) -> tuple[Path, int]:
    return edited(data, PLAIN, 1, attributes=TRANSACTIONAL, producer_id=-1)


def record_before_its_batch(data: Path) -> tuple[Path, int]:
    """The first record has an offset delta of -1 instead of 0."""
    path = log(data, PLAIN)
    payload = path.read_bytes()[2136 + 61 :]
    assert payload[:5] == bytes.fromhex("f402 00 00 00")
    return path, edit_batch(path, 1, payload[:4] + b"\1" + payload[5:])


def largest_timestamp(data: Path) -> tuple[Path, int]:
    path, position = edited(data, PLAIN, 1, max_timestamp=1700000000018)
    entry = struct.pack(">qi", 1700000000018, 19)  # the index of this segment agrees
    path.with_suffix(".timeindex").write_bytes(entry)
    return path, position


def two_markers(data: Path) -> tuple[Path, int]:
    """The last marker of the log twice in its batch, the second with an offset of its own."""
    path = log(data, MARKERS, LAST)
    marker = path.read_bytes()[1136 + 61 :]
    second = bytes([*marker[:3], 2]) + marker[4:]
    return path, edit_batch(path, -1, marker + second, record_count=2, last_offset_delta=1)


def marker_outside_a_transaction(data: Path) -> tuple[Path, int]:
    return edited(data, MARKERS, 1, attributes=CONTROL)


def marker_of_nobody(data: Path) -> tuple[Path, int]:
    return edited(data, MARKERS, 1, attributes=CONTROL | TRANSACTIONAL, producer_id=-1)


def other_type(data: Path) -> tuple[Path, int]:
    """A marker with the type of a control record that no release has."""
    path = log(data, MARKERS)
    payload = path.read_bytes()[121 + 61 : 199]
    assert payload[5:9] == b"\0\0\0\1"  # version 0 and COMMIT
    return path, edit_batch(path, 1, payload[:8] + b"\x63" + payload[9:])


def epoch_flipped(data: Path) -> tuple[Path, int]:
    path = log(data, MARKERS)
    edit_bytes(path, 1606 + EPOCH_AT, struct.pack(">i", 1))
    return path, 1606


def epoch_negative(data: Path) -> tuple[Path, int]:
    path = log(data, MARKERS)
    edit_bytes(path, 1606 + EPOCH_AT, struct.pack(">i", -2))
    return path, 1606


def records_not_counted(data: Path) -> tuple[Path, int]:
    return edited(data, PLAIN, 1, record_count=0)


def bytes_after_a_value(data: Path) -> tuple[Path, int]:
    path = golden_partition("legacy-2.8.2", "magic-1-0", data) / f"{BASE}.log"
    position, following = positions(path)[1:3]
    raw = path.read_bytes()
    body = raw[position + 16 : following] + b"hidden"
    size = struct.pack(">iI", 4 + len(body), zlib.crc32(body))
    path.write_bytes(raw[:position] + raw[position : position + 8] + size + body + raw[following:])
    return path, position


EDITS: dict[str, tuple[Callable[[Path], tuple[Path, int]], str, str, str]] = {
    "magic": (magic, "LOG008", "magic 3", "magic 2 or less"),
    "unused bit": (unused_bit, "LOG009", "attributes 0x80", "the bits 0x80 not set"),
    "transactional of nobody": (
        transactional_of_nobody,
        "LOG009",
        "a transactional batch without a producer id",
        "a producer id",
    ),
    "before its batch": (
        record_before_its_batch,
        "LOG010",
        "a record at offset 9",
        "increasing offsets from 10 to 19",
    ),
    "largest timestamp": (
        largest_timestamp,
        "LOG011",
        "max timestamp 1700000000018",
        "1700000000019, the largest of its records",
    ),
    "two markers": (two_markers, "LOG012", "a control batch of 2 records", "one marker"),
    "marker outside a transaction": (
        marker_outside_a_transaction,
        "LOG012",
        "a control batch outside a transaction",
        "a transactional batch",
    ),
    "marker of nobody": (
        marker_of_nobody,
        "LOG012",
        "a marker without a producer id",
        "a producer id",
    ),
    "other type": (other_type, "LOG012", "a control record of type 99", "COMMIT or ABORT"),
    "epoch": (epoch_flipped, "LOG013", "leader epoch 1", "2 or more"),
    "negative epoch": (epoch_negative, "LOG013", "leader epoch -2", "0 or more, or -1"),
    "records not counted": (
        records_not_counted,
        "LOG014",
        "2075 bytes after the header of a batch without records",
        "none",
    ),
    "bytes after a value": (
        bytes_after_a_value,
        "LOG014",
        "6 bytes after the value of the message",
        "none",
    ),
}
IN_RECORDS = {"before its batch", "largest timestamp", "other type", "bytes after a value"}
"""What headers do not show; a record count larger than the offsets is in a header."""


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_one_finding_at_its_batch(data, name):
    edit, rule, found, expected = EDITS[name]
    path, position = edit(data)
    (only,) = findings(path.parent)
    assert only[:1] + only[4:6] == (rule, str(path), position)
    assert (only.found, only.expected) == (found, expected)
    assert ids(path.parent, depth=Depth.HEADERS) == ([] if name in IN_RECORDS else [rule])


def test_headers_show_more_records_than_offsets(data):
    path, position = edited(data, PLAIN, 1, last_offset_delta=8)
    path.with_suffix(".timeindex").write_bytes(struct.pack(">qi", 1700000000019, 18))
    (only,) = findings(path.parent, depth=Depth.HEADERS)
    assert (only.id, only.position, only.found) == ("LOG010", position, "record count 10")
    assert only.expected == "0 to 9, as many as the batch has offsets"


def test_a_compressed_marker_is_of_a_wrong_form(data):
    path = log(data, MARKERS)
    payload = path.read_bytes()[121 + 61 : 199]
    packed = zlib.compressobj(wbits=31)
    gzip = packed.compress(payload) + packed.flush()
    edit_batch(path, 1, gzip, attributes=CONTROL | TRANSACTIONAL | 1)
    (found,) = findings(path.parent)
    assert (found.id, found.found) == ("LOG012", "a compressed control batch")


@pytest.mark.parametrize(
    ("deltas", "offset"), [((0, 1, 1), 11), ((0, 2, 1), 11), ((-1, 1, 2), 9), ((0, 1, 3), 13)]
)
def test_records_that_repeat_go_back_or_leave_their_batch_are_a_finding(tmp_path, deltas, offset):
    zigzag = {-1: 1, 0: 0, 1: 2, 2: 4, 3: 6}
    payload = b"".join(bytes([12, 0, 0, zigzag[delta], 1, 1, 0]) for delta in deltas)
    path = tmp_path / "orders-0" / "00000000000000000010.log"
    path.parent.mkdir()
    records = [SimpleRecord(5, b"", b"") for _ in deltas]
    path.write_bytes(encode_batch(records, base_offset=10))
    edit_batch(path, 0, payload)
    (found,) = findings(tmp_path, is_clean=None)
    assert (found.id, found.found) == ("LOG010", f"a record at offset {offset}")
    assert found.expected == "increasing offsets from 10 to 12"


def test_records_removed_by_compaction_are_no_finding(tmp_path):
    path = tmp_path / "orders-0" / "00000000000000000010.log"
    path.parent.mkdir()
    kept = [SimpleRecord(5, b"", b""), SimpleRecord(6, b"", b"")]
    path.write_bytes(encode_batch(kept, base_offset=12, last_offset=20))
    assert findings(tmp_path, is_clean=None) == []
    assert summaries(tmp_path)[0].has_gaps


OUT_OF_PLACE = {
    "below zero": (-5, None, "a batch at offset -5 to -4"),
    "below the name": (8, None, "a batch at offset 8 to 9"),
    "the same again": (10, None, "a batch at offset 10 to 11"),
    "back into the one before": (11, None, "a batch at offset 11 to 12"),
    "into the next segment": (19, 20, "a batch at offset 19 to 20"),
    "too far for an index": (10 + 2**31, None, f"a batch at offset {10 + 2**31} to {11 + 2**31}"),
}


@pytest.mark.parametrize("name", OUT_OF_PLACE)
@pytest.mark.parametrize("depth", Depth)
def test_a_batch_out_of_its_place_is_a_finding(tmp_path, name, depth):
    offset, following, found = OUT_OF_PLACE[name]
    path = tmp_path / "orders-0" / "00000000000000000010.log"
    path.parent.mkdir()
    records = [SimpleRecord(5, b"k", b"v")] * 2
    moved = struct.pack(">q", offset) + encode_batch(records)[8:]
    path.write_bytes(encode_batch(records, base_offset=10) + moved)
    if following is not None:
        next_log = path.with_name(f"{following:020d}.log")
        next_log.write_bytes(encode_batch(records, base_offset=following))
    assert [(each.id, each.found) for each in findings(tmp_path, depth=depth, is_clean=None)] == [
        ("LOG007", found)
    ]


# --- the summary --------------------------------------------------------------------------------


def expected_sums(records: list[ExpectedRecord]) -> dict[str, Any]:
    """The sums that do not depend on how records are put into batches."""
    data = [record for record in records if record.control is None]
    timestamps = [record.timestamp for record in records]
    epochs = [each.partition_leader_epoch for each in records if each.partition_leader_epoch >= 0]
    return {
        "first_offset": records[0].offset,
        "next_offset": records[-1].offset + 1,
        "records": len(records),
        "null_keys": sum(record.key is None for record in data),
        "tombstones": sum(record.value is None for record in data),
        "min_timestamp": min(timestamps),
        "max_timestamp": max(timestamps),
        "first_leader_epoch": epochs[0] if epochs else None,
        "last_leader_epoch": epochs[-1] if epochs else None,
        "is_damaged": False,
    }


@pytest.mark.parametrize("name", PLANS)
def test_the_summary_of_each_segment_is_what_was_appended(oracle, tmp_path, name):
    built = oracle.build_log(tmp_path / "orders-0", PLANS[name])
    found = summaries(tmp_path)
    assert [each.path for each in found] == list(map(str, built.segments()))
    for number, each in enumerate(found):
        path = Path(each.path)
        following = found[number + 1].base_offset if number + 1 < len(found) else 2**63
        records = [
            record for record in built.records if each.base_offset <= record.offset < following
        ]
        batches = oracle.read_batches(path, records=False)["batches"]
        if not records:
            assert (each.first_offset, each.batches, each.records) == (None, 0, 0)
            continue
        expected = expected_sums(records)
        assert {field: getattr(each, field) for field in expected} == expected
        assert each.batches == len(batches)
        assert each.largest_batch == max(batch["size_in_bytes"] for batch in batches)
        assert each.last_position == batches[-1]["position"]
        assert each.size_in_bytes == each.valid_bytes == path.stat().st_size
        assert each.has_gaps == (expected["next_offset"] - records[0].offset > len(records))


@pytest.mark.parametrize("name", PLANS)
def test_headers_show_the_same_sums_but_for_what_is_in_records(oracle, tmp_path, name):
    plan = PLANS[name]
    oracle.build_log(tmp_path / "orders-0", plan)
    only_in_records: dict[str, Any] = {"null_keys": 0, "tombstones": 0, "min_timestamp": 0}
    if plan.magic < 2:
        only_in_records |= {"records": 0, "first_offset": 0}
    full = [replace(each, **only_in_records) for each in summaries(tmp_path)]
    headers = [
        replace(each, **only_in_records) for each in summaries(tmp_path, depth=Depth.HEADERS)
    ]
    if plan.magic == 2:
        assert headers == full
    else:  # wrappers of one record
        assert [replace(each, has_gaps=False) for each in headers] == full


def test_the_summary_of_a_damaged_log_is_of_its_sound_batches(data):
    path = log(data, INDEXED)
    last = positions(path)[-1]
    edit_bytes(path, last + 80, b"\xff")
    edit_bytes(path, 205 + 80, b"\xff")
    (found, *_) = summaries(path.parent)
    assert found.is_damaged
    assert (found.next_offset, found.valid_bytes, found.batches) == (36, last, 17)
    assert found.size_in_bytes == 3913
    assert not found.has_gaps


# --- large batches and hostile bytes ------------------------------------------------------------


LARGE_COUNT = 300_000
"""More records than a piece of a scan may have."""


@pytest.fixture(name="large", scope="module")
def large_batch(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    records = [SimpleRecord(5 + (row == LARGE_COUNT - 1), None, b"") for row in range(LARGE_COUNT)]
    return encode_batch(records, base_offset=10)


@pytest.mark.parametrize(
    ("fields", "found"),
    [
        ({}, []),
        ({"max_timestamp": 5}, [("LOG011", "max timestamp 5")]),
        ({"max_timestamp": 7}, [("LOG011", "max timestamp 7")]),
        (
            {"last_offset_delta": LARGE_COUNT - 2},
            [("LOG010", f"a record at offset {LARGE_COUNT + 9}")],
        ),
    ],
)
def test_a_batch_in_several_pieces_is_checked_once(tmp_path, large, fields, found):
    path = tmp_path / "orders-0" / "00000000000000000010.log"
    path.parent.mkdir()
    path.write_bytes(large)
    edit_batch(path, 0, **fields)
    assert [(each.id, each.found) for each in findings(tmp_path, is_clean=None)] == found
    (summary,) = summaries(tmp_path)
    assert (summary.batches, summary.records, summary.null_keys) == (1, LARGE_COUNT, LARGE_COUNT)


@pytest.mark.parametrize("topic", [INDEXED, MARKERS])
def test_any_bytes_give_findings_and_a_summary(data, topic):
    draw = random.Random(topic)
    paths = [path for path in (data / topic).iterdir() if path.suffix in (".log", ".index")]
    originals = {path: path.read_bytes() for path in [*paths, *(data / topic).glob("*.timeindex")]}
    count = len(summaries(data / topic))
    for _ in range(150):
        path, original = draw.choice(list(originals.items()))
        size = draw.choice((1, 2, 4, 8, 40))
        at = draw.randrange(len(original)) if original else 0
        value = draw.choice((b"\0", b"\xff", b"\x7f", b"\x80", draw.randbytes(1)))
        changed = original[:at] + value * size + original[at + draw.choice((0, size)) :]
        path.write_bytes(changed)
        for depth in Depth:
            assert len(summaries(data / topic, depth=depth, knows_settings=True)) == count
        path.write_bytes(original)


# --- what a restart does ------------------------------------------------------------------------


@pytest.mark.parametrize("name", EDITS)
@pytest.mark.parametrize("is_clean", [True, False])
def test_kafka_keeps_the_batch_or_does_not_load_a_producer_without_a_marker(
    oracle, data, tmp_path, name, is_clean
):
    path, _ = EDITS[name][0](data)
    before = path.read_bytes()
    for snapshot in path.parent.glob("*.snapshot"):
        snapshot.unlink()  # so that an unclean start reads all producers from the log
    refused = pytest.raises(OracleError, match="Invalid control record type")
    is_refused = name == "other type" and not is_clean
    with refused if is_refused else nullcontext():
        oracle.open_log(path.parent, tmp_path / "kafka", clean_shutdown=is_clean)
        assert (tmp_path / "kafka" / path.parent.name / path.name).read_bytes() == before


def test_kafka_does_not_read_a_magic_of_its_future_from_memory(oracle, data):
    """As consumers and followers do; from a file it reads it as magic 2."""
    path, position = magic(data)
    assert oracle.read_batches(path.read_bytes())["end_position"] == position
    assert [each["magic"] for each in oracle.read_batches(path)["batches"]] == [2, 3]
