"""Logs that Kafka's classes wrote for the occasion: codecs, magics, control records, odd bytes."""

import random
import struct
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from kafka_format.batch import assemble, decode_batch, encode_batch
from kafka_format.record import SimpleRecord
from tests.kafka_log.dump.comparison import ENGINES, assert_same, run
from tests.oracle.client import Oracle, record, unb64
from tests.oracle.logs import LogPlan

FLAGS = (
    (),
    ("--deep-iteration",),
    ("--print-data-log",),
    ("--print-data-log", "--skip-record-metadata"),
)
ODD_BYTES = (
    b"",
    b'"quoted" \\ back',
    bytes(range(256)),
    "Grüße, 世界 \U0001d55c \u2028 \x7f".encode(),
    b"\xed\xa0\x80",  # a surrogate: one U+FFFD in Java
    b"a\xed\xbf\xbfb",
    b"\xed\xa0",
    b"\xed\xa0A",
    b"\xe2\x82",
    b"\xe2\x82A",
    b"\xe0\x80\x80",
    b"\xc0\xaf",
    b"\xf0\x90\x80",
    b"\xf0\x90A",
    b"\xf0\x80\x80\x80",
    b"\xf4\x90\x80\x80",
    b"\xf5\x80\xff\xfe",
    b"x" * 31 + b"\xe4\xb8\x96" + b"y" * 40,
    b"\x00\x01\x1f\t\n\r\x08\x0c",
)
FIRST, LAST = -(2**63), 2**63 - 1


def write_log(directory: Path, *batches: bytes, base_offset: int = 0) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{base_offset:020d}.log"
    path.write_bytes(b"".join(batches))
    return path


def restamped(batch: bytes, **fields: int) -> bytes:
    """With other header fields and a good checksum: what no client sends, but a file may hold."""
    decoded = decode_batch(batch)
    return assemble(decoded.header._replace(**fields), decoded.payload)


def odd_records(seed: int) -> list[dict[str, Any]]:
    """Every odd key and value, nulls and headers, then bytes of all kinds."""
    draw = random.Random(seed)
    noise = [draw.randbytes(draw.randrange(40)) for _ in range(150)]
    cut = [
        "Ж世\U0001d55c".encode()[: draw.randrange(1, 9)] + b"z" * draw.randrange(2)
        for _ in range(50)
    ]
    chosen = [None, *ODD_BYTES, *noise, *cut]
    headers = [(f"h{i}-ж", draw.choice(chosen)) for i in range(3)]
    return [
        record(1_700_000_000_000 + i, draw.choice(chosen), value, headers[: i % 4])
        for i, value in enumerate(chosen)
    ]


@pytest.mark.parametrize(("engine", "seed"), [*product(ENGINES, range(2))])
def test_whole_partitions(oracle: Oracle, tmp_path: Path, engine: str, seed: int) -> None:
    built = oracle.build_log(tmp_path / "orders-0", LogPlan(seed=seed, batches=120))
    for flags in FLAGS:
        assert_same(oracle, built.segments(), *flags, engine=engine)
    others = [".index", ".timeindex", ".txnindex", ".snapshot"]
    files = sorted(path for path in built.path.iterdir() if path.suffix in others)
    assert {path.suffix for path in files} == {*others}
    assert_same(oracle, files, engine=engine)
    assert_same(oracle, [path for path in files if path.suffix == ".index"], "--verify-index-only")


@pytest.mark.parametrize(
    ("engine", "magic", "codec"),
    [
        (engine, magic, codec)
        for engine, magic in product(ENGINES, (0, 1, 2))
        for codec in ("none", "gzip", "snappy", "lz4", "zstd")
        if magic == 2 or codec != "zstd"
    ],
)
def test_every_magic_and_codec(
    oracle: Oracle, tmp_path: Path, engine: str, magic: int, codec: str
) -> None:
    records = [record(1_700_000_000_000 + i, b"k%d" % i, b"v" * i) for i in range(1, 9)]
    options = {"magic": magic, "codec": codec, "records": records}
    batches = [oracle.build_batch({**options, "base_offset": 8 * i}) for i in range(3)]
    if magic:
        batches.append(
            oracle.build_batch(
                {**options, "base_offset": 24}, timestamp_type="LogAppendTime", log_append_time=77
            )
        )
    path = write_log(tmp_path / "t-0", *batches)
    for flags in FLAGS:
        assert_same(oracle, [path], *flags, engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_magics_one_after_the_other(oracle: Oracle, tmp_path: Path, engine: str) -> None:
    batches = [
        oracle.build_batch(
            magic=magic, codec=codec, base_offset=2 * i, records=[record(5, b"a", None)] * 2
        )
        for i, (magic, codec) in enumerate(product((2, 0, 1, 2, 1), ("none", "gzip")))
    ]
    path = write_log(tmp_path / "t-0", *batches)
    for flags in FLAGS:
        assert_same(oracle, [path], *flags, engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("codec", ["none", "lz4"])
def test_bytes_that_are_no_text_are_replaced_as_java_does(
    oracle: Oracle, tmp_path: Path, engine: str, codec: str
) -> None:
    batches = [oracle.build_batch(codec=codec, records=odd_records(seed)) for seed in range(3)]
    path = write_log(tmp_path / "t-0", *batches)
    for flags in FLAGS:
        assert_same(oracle, [path], *flags, engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_header_fields_at_their_limits(oracle: Oracle, tmp_path: Path, engine: str) -> None:
    one = [record(LAST, b"k", b"v")]
    batches = [
        oracle.build_batch(records=one, base_offset=LAST - 1, partition_leader_epoch=2**31 - 1),
        oracle.build_batch(
            records=one * 3, producer_id=LAST, producer_epoch=2**15 - 1, base_sequence=2**31 - 2
        ),
        oracle.build_batch(records=one, delete_horizon_ms=1_700_000_000_123),
        oracle.build_batch(records=one, delete_horizon_ms=0, last_offset=70),
        oracle.build_batch(
            records=[record(0, None, None)] * 2,
            producer_id=3,
            producer_epoch=0,
            base_sequence=7,
            transactional=True,
            timestamp_type="LogAppendTime",
            log_append_time=LAST,
        ),
        restamped(oracle.build_batch(records=one * 2), base_timestamp=-5),
        restamped(oracle.build_batch(records=one), base_timestamp=FIRST, max_timestamp=FIRST),
        restamped(oracle.build_batch(records=one), base_offset=FIRST, producer_id=FIRST),
        restamped(oracle.build_batch(records=one), last_offset_delta=-7, base_sequence=3),
    ]
    path = write_log(tmp_path / "t-0", *batches, base_offset=17)
    for flags in FLAGS:
        assert_same(oracle, [path], *flags, engine=engine)


CONTROLS = (
    {"type": "COMMIT", "coordinator_epoch": 3},
    {"type": "ABORT", "coordinator_epoch": -1},
)


@pytest.mark.parametrize("engine", ENGINES)
def test_markers_between_records(oracle: Oracle, tmp_path: Path, engine: str) -> None:
    batches: list[bytes] = []
    for control in CONTROLS:
        batches += [
            oracle.build_batch(records=[record(1, b"a", b"b")], base_offset=len(batches)),
            oracle.build_batch(
                control=control, producer_id=9, producer_epoch=1, transactional=True
            ),
        ]
    path = write_log(tmp_path / "t-0", *batches)
    for flags in FLAGS:
        assert_same(oracle, [path], *flags, engine=engine)


@pytest.mark.parametrize("engine", ENGINES)
def test_control_records_of_other_versions_and_types(
    oracle: Oracle, tmp_path: Path, engine: str
) -> None:
    keys = [struct.pack(">hh", *each) for each in ((0, 42), (0, -1), (3, 1), (1, 0))]
    marker = struct.pack(">hi", 0, 8)
    values = [marker, b"", struct.pack(">hi", 2, 9) + b"more", marker]
    batches = [
        encode_batch([SimpleRecord(5, key + b"more", value)], is_control=True)
        for key, value in zip(keys, values, strict=True)
    ]
    path = write_log(tmp_path / "t-0", *batches)
    for flags in FLAGS:
        assert_same(oracle, [path], *flags, engine=engine)
    rows = run(path, "--print-data-log", "--format", "json", engine=engine).of_kind("record")
    assert [row["control_type"] for row in rows] == [42, -1, "COMMIT", "ABORT"]
    assert rows[2]["control"] == {"coordinatorEpoch": 9}


@pytest.mark.parametrize("engine", ENGINES)
def test_number_decoders(oracle: Oracle, tmp_path: Path, engine: str) -> None:
    numbers = [0, 1, -1, 2**31 - 1, -(2**31)]
    records = [
        record(1, each.to_bytes(4, "big", signed=True), each.to_bytes(8, "big", signed=True))
        for each in numbers
    ]
    path = write_log(
        tmp_path / "t-0", oracle.build_batch(records=[*records, record(1, None, None)])
    )
    api = "org.apache.kafka.tools.api"
    flags = ["--key-decoder-class", f"{api}.IntegerDecoder"]
    flags += ["--value-decoder-class", f"{api}.LongDecoder"]
    assert_same(oracle, [path], *flags, engine=engine)
    rows = run(path, *flags, "--format", "json", engine=engine).of_kind("record")
    assert [row["decoded_key"] for row in rows] == [*numbers, None]
    assert [row["decoded_value"] for row in rows] == [*numbers, None]


def bytes_of(row: dict[str, Any], name: str) -> bytes | None:
    if f"{name}_base64" in row:
        assert name not in row
        return unb64(row[f"{name}_base64"])
    return None if row[name] is None else row[name].encode()


@pytest.mark.parametrize(("engine", "magic"), [*product(ENGINES, (0, 1, 2))])
def test_json_holds_every_byte_that_went_in(
    oracle: Oracle, tmp_path: Path, engine: str, magic: int
) -> None:
    records = odd_records(magic)
    if magic < 2:
        records = [each | {"headers": []} for each in records]
    path = write_log(tmp_path / "t-3", oracle.build_batch(magic=magic, records=records))
    dumped = run(path, "--print-data-log", "--format", "json", engine=engine)
    assert dumped.code == 0
    rows = dumped.of_kind("record")
    assert len(rows) == len(records)
    for offset, (row, put) in enumerate(zip(rows, records, strict=True)):
        assert row["offset"] == offset
        assert row["timestamp_ms"] == (put["timestamp"] if magic else -1)
        assert bytes_of(row, "key") == unb64(put["key"])
        assert bytes_of(row, "value") == unb64(put["value"])
        headers = [(each["key"], bytes_of(each, "value")) for each in row["headers"]]
        assert headers == [(name, unb64(value)) for name, value in put["headers"]]
        assert (row["topic"], row["partition"], row["path"]) == ("t", 3, str(path))


@pytest.mark.parametrize("engine", ENGINES)
def test_json_tells_what_the_plan_put_in(oracle: Oracle, tmp_path: Path, engine: str) -> None:
    built = oracle.build_log(tmp_path / "orders-0", LogPlan(seed=5, batches=80))
    rows = run(built.path, "--print-data-log", "--format", "json", engine=engine).of_kind("record")
    assert len(rows) == len(built.records)
    for row, put in zip(rows, built.records, strict=True):
        assert (row["offset"], row["timestamp_ms"]) == (put.offset, put.timestamp)
        assert (row["producer_id"], row["producer_epoch"]) == (put.producer_id, put.producer_epoch)
        assert (row["sequence"], row["compression"]) == (put.sequence, put.codec)
        assert row["partition_leader_epoch"] == put.partition_leader_epoch
        assert row["is_transactional"] == put.is_transactional
        assert row.get("control_type") == put.control
        if put.control is None:
            assert bytes_of(row, "key") == put.key
            assert bytes_of(row, "value") == put.value
            headers = [(each["key"], bytes_of(each, "value")) for each in row["headers"]]
            assert headers == [*put.headers]


@pytest.mark.parametrize("engine", ENGINES)
def test_json_batches_tell_what_kafka_reads(oracle: Oracle, tmp_path: Path, engine: str) -> None:
    built = oracle.build_log(tmp_path / "orders-0", LogPlan(seed=6, batches=60))
    rows = run(built.path, "--format", "json", engine=engine).of_kind("batch")
    expected = [
        batch
        for path in built.segments()
        for batch in oracle.read_batches(path, records=False)["batches"]
    ]
    assert len(rows) == len(expected)
    for row, batch in zip(rows, expected, strict=True):
        assert row["base_offset"] == batch["base_offset"]
        assert row["last_offset"] == batch["last_offset"]
        assert row["producer_id"] == batch["producer_id"]
        assert row["crc"] == row["computed_crc"] == batch["checksum"]
        assert row["is_valid"] is True


def test_decoders_meet_records_that_are_not_theirs(oracle: Oracle, tmp_path: Path) -> None:
    odd = [each for each in odd_records(4) if each["key"] is not None]
    path = write_log(tmp_path / "t-0", oracle.build_batch(records=odd))
    for decoder in ("offsets", "transaction-log", "share-group-state", "cluster-metadata"):
        assert_same(oracle, [path], f"--{decoder}-decoder")
    assert_same(oracle, [path], "--remote-log-metadata-decoder")


def test_a_record_without_a_key_is_a_finding_to_a_decoder_that_needs_one(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t-0", encode_batch([SimpleRecord(1, None, b"v")]))
    dumped = run(path, "--offsets-decoder")
    assert dumped.code == 1
    assert f"{path}@0: found no key at offset 0, expected a key of __consumer_offsets" in (
        dumped.stderr
    )


def test_remote_log_metadata_is_json_in_json(oracle: Oracle, tmp_path: Path) -> None:
    examples = [
        each
        for each in oracle.random_messages(3, set="remote")
        if each.name.startswith("RemoteLogSegmentMetadata")
    ]
    records = [record(1, None, each.stored) for each in examples]
    path = write_log(tmp_path / "__remote_log_metadata-0", oracle.build_batch(records=records))
    rows = run(path, "--print-data-log", "--format", "json").of_kind("record")
    assert len(rows) == len(examples) > 0
    for row, each in zip(rows, examples, strict=True):
        assert row["decoded_value"]["data"] == each.data
