"""Filters show the rows one would pick by hand, whichever engine works."""

from itertools import product
from pathlib import Path

import pytest

from kafka_format.batch import encode_batch
from kafka_format.legacy import encode_legacy_batch
from kafka_format.record import SimpleRecord
from tests.kafka_log.dump.comparison import ENGINES, run
from tests.oracle.client import Oracle
from tests.oracle.logs import BuiltLog, ExpectedRecord, LogPlan


@pytest.fixture(scope="module")
def built(oracle: Oracle, tmp_path_factory: pytest.TempPathFactory) -> BuiltLog:
    path = tmp_path_factory.mktemp("filters") / "orders-0"
    return oracle.build_log(path, LogPlan(seed=11, batches=100))


def some_key(built: BuiltLog) -> bytes:
    return next(each.key for each in built.records if each.key and each.control is None)


def cases(built: BuiltLog):
    offsets = sorted(each.offset for each in built.records)
    times = sorted(each.timestamp for each in built.records)
    low, high = offsets[len(offsets) // 3], offsets[len(offsets) // 2]
    early, late = times[len(times) // 4], times[3 * len(times) // 4]
    key = some_key(built)
    producer = next(each.producer_id for each in built.records if each.producer_id > -1)
    yield ("--offset", low), lambda each: each.offset == low
    yield ("--start-offset", high), lambda each: each.offset >= high
    yield ("--end-offset", low), lambda each: each.offset < low
    yield (
        ("--start-offset", low, "--end-offset", high),
        lambda each: low <= each.offset < high,
    )
    yield ("--start-time", early), lambda each: each.timestamp >= early
    yield (
        ("--start-time", early, "--end-time", late),
        lambda each: early <= each.timestamp < late,
    )
    yield ("--producer-id", producer), lambda each: each.producer_id == producer
    yield (
        ("--producer-id", -1, "--producer-id", producer),
        lambda each: each.producer_id in (-1, producer),
    )
    yield ("--key-hex", key.hex()), lambda each: each.key == key
    yield ("--key", ""), lambda each: each.key == b""  # which a null one is not
    yield (
        ("--key-hex", key.hex(), "--producer-id", producer),
        lambda each: each.key == key and each.producer_id == producer,
    )


@pytest.mark.parametrize(("engine", "case"), [*product(ENGINES, range(11))])
def test_exactly_the_records_that_pass_are_shown(built: BuiltLog, engine: str, case: int) -> None:
    flags, passes = [*cases(built)][case]
    expected = [each.offset for each in built.records if passes(each)]
    assert 0 < len(expected) < len(built.records)
    dumped = run(built.path, "--deep-iteration", "--format", "json", *flags, engine=engine)
    assert [row["offset"] for row in dumped.of_kind("record")] == expected
    bases = {row["base_offset"] for row in dumped.of_kind("record")}
    assert {row["base_offset"] for row in dumped.of_kind("batch")} == bases
    assert "Non-consecutive" not in dumped.stderr


@pytest.mark.parametrize("engine", ENGINES)
def test_text_is_filtered_as_json_is(built: BuiltLog, engine: str) -> None:
    for flags, passes in cases(built):
        dumped = run(built.path, "--deep-iteration", *flags, engine=engine)
        shown = [line for line in dumped.stdout.split("\n") if line.startswith("| offset: ")]
        assert [int(line.split()[2]) for line in shown] == [
            each.offset for each in built.records if passes(each)
        ]


@pytest.mark.parametrize("engine", ENGINES)
def test_without_records_a_batch_is_shown_if_its_header_allows(
    built: BuiltLog, engine: str
) -> None:
    offset = built.records[len(built.records) // 2].offset
    rows = run(built.path, "--offset", offset, "--format", "json", engine=engine).of_kind("batch")
    (batch,) = rows
    assert batch["base_offset"] <= offset <= batch["last_offset"]


def test_a_key_can_be_given_as_text_hex_or_base64(built: BuiltLog) -> None:
    def is_text(each: ExpectedRecord) -> bool:
        return bool(each.key) and each.control is None and each.key.isascii()

    key = next(each.key for each in built.records if is_text(each))
    import base64

    flags = [("--key", key.decode()), ("--key-hex", key.hex())]
    flags += [("--key-base64", base64.b64encode(key).decode())]
    first, *others = (run(built.path, *each).stdout for each in flags)
    assert "| offset: " in first  # a question about keys implies a look at records
    assert others == [first, first]


def test_rows_of_side_files_pass_by_what_they_have(built: BuiltLog) -> None:
    plain = run(built.path, "--format", "json")
    producer = next(each.producer_id for each in built.records if each.is_transactional)
    filtered = run(built.path, "--format", "json", "--producer-id", producer)
    for kind in ("transaction_index", "producer_snapshot"):
        expected = [row for row in plain.of_kind(kind) if row["producer_id"] == producer]
        assert filtered.of_kind(kind) == expected
        assert expected
    assert plain.of_kind("offset_index")
    assert not filtered.of_kind("offset_index")  # an index entry has no producer
    some = plain.of_kind("offset_index")[3]
    (entry,) = run(built.path, "--format", "json", "--offset", some["offset"]).of_kind(
        "offset_index"
    )
    assert entry == some


def test_times_are_epoch_milliseconds_or_iso(tmp_path: Path, built: BuiltLog) -> None:
    # 1700000000000 is 2023-11-14T22:13:20Z
    by_number = run(built.path, "--deep-iteration", "--end-time", 1_700_000_010_000)
    for iso in ("2023-11-14T22:13:30Z", "2023-11-14T22:13:30", "2023-11-14T23:13:30+01:00"):
        assert run(built.path, "--deep-iteration", "--end-time", iso) == by_number
    assert "| offset: " in by_number.stdout


# ------------------------------------------------------------------------------ and damage

PRODUCER_ID_END = 50  # the last byte of the producer id, in a batch
SIZE = 76


def produced(base_offset: int, timestamp: int) -> bytes:
    batch = encode_batch(
        [SimpleRecord(timestamp, b"key", b"value")],
        base_offset=base_offset,
        producer_id=15,
        producer_epoch=0,
        base_sequence=base_offset,
    )
    assert len(batch) == SIZE
    return batch


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Three batches of producer 15, of which the second says 14."""
    data = bytearray(b"".join(produced(number, 1000 * number) for number in range(3)))
    data[SIZE + PRODUCER_ID_END] ^= 1
    path = tmp_path / "orders-0" / f"{0:020d}.log"
    path.parent.mkdir()
    path.write_bytes(data)
    return path


HIDING = {
    ("--producer-id", 15): [0, 2],
    ("--producer-id", 16): [],
    ("--offset", 2): [2],
    ("--end-offset", 1): [0],
    ("--start-time", 1500): [2],
    ("--end-time", 500): [0],
    ("--key", "other"): [],
}


@pytest.mark.parametrize("deep", [(), ("--deep-iteration",), ("--print-data-log",)])
@pytest.mark.parametrize(("engine", "flags"), [*product(ENGINES, HIDING)])
def test_no_filter_hides_a_batch_whose_checksum_is_wrong(
    log: Path, engine: str, flags: tuple[str, object], deep: tuple[str, ...]
) -> None:
    """Its header may say anything: of the producer, the time and the rest."""
    dumped = run(log, *deep, *flags, "--format", "json", engine=engine)
    assert dumped.code == 1
    assert [row["base_offset"] for row in dumped.of_kind("batch")] == HIDING[flags]
    (finding,) = dumped.of_kind("finding")
    assert (finding["problem"], finding["position"]) == ("damage", SIZE + 17)
    assert finding["found"].startswith("stored crc 0x")
    assert dumped.stderr.startswith(f"{log}@{SIZE + 17}: found stored crc 0x")
    assert run(log, *deep, *flags, engine=engine).stderr == dumped.stderr


@pytest.mark.parametrize("engine", ENGINES)
def test_nor_a_message_of_the_old_formats(tmp_path: Path, engine: str) -> None:
    message = bytearray(encode_legacy_batch([SimpleRecord(5, b"k", b"v")], magic=1))
    message[-1] ^= 1
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(message + produced(1, 5))
    dumped = run(path, "--producer-id", 15, "--format", "json", engine=engine)
    assert dumped.code == 1
    assert [row["base_offset"] for row in dumped.of_kind("batch")] == [1]
    assert dumped.stderr.startswith(f"{path}@12: found stored crc 0x")
