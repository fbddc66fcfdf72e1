"""Batches of all magics against Apache Kafka's own classes: what it writes, reads and refuses."""

import random
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_format.batch import RecordBatch, assemble, decode_batch, encode_batch, encode_empty_batch
from kafka_format.compression import Codec, compress
from kafka_format.errors import FormatError
from kafka_format.legacy import LegacyBatch, LegacyMessage, encode_legacy_batch
from kafka_format.legacy import encode_message as encode_legacy_message
from kafka_format.log_file import AnyBatch, LogFile
from kafka_format.record import Header, Record, SimpleRecord, TimestampType, encode_records
from tests.kafka_format.voters import VOTERS
from tests.oracle.client import Oracle, OracleError, b64
from tests.oracle.client import record as kafka_record
from tests.strategies import (
    any_legacy,
    batch_headers,
    batch_options,
    legacy_options,
    records_near,
)

CREATE_TIME, LOG_APPEND_TIME = TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME
NOW = 1_700_000_000_000


# --- the same description in both worlds


def as_kafka_builds(options: dict[str, Any]) -> dict[str, Any]:
    """Arguments of encode_batch and encode_legacy_batch in the oracle's words."""
    wish = dict(options)
    wish["codec"] = str(wish.get("codec", Codec.NONE))
    wish["timestamp_type"] = str(wish.get("timestamp_type", CREATE_TIME))
    wish["transactional"] = wish.pop("is_transactional", False)
    wish["records"] = [
        kafka_record(r.timestamp, r.key, r.value, r.headers, offset=r.offset)
        for r in options["records"]
    ]
    return {name: value for name, value in wish.items() if value is not None}


def described(batch: AnyBatch) -> dict[str, Any]:
    """A batch in the words of the oracle's read_batches, its records included."""
    if isinstance(batch, LegacyBatch):
        return described_legacy(batch)
    header = batch.header
    return {
        "magic": header.magic,
        "size_in_bytes": header.size_in_bytes,
        "last_offset": header.last_offset,
        "next_offset": header.next_offset,
        "is_valid": batch.is_valid,
        "checksum": header.crc,
        "base_offset": header.base_offset,
        "codec": str(header.codec),
        "timestamp_type": str(header.timestamp_type),
        "max_timestamp": header.max_timestamp,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "count": header.record_count,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "partition_leader_epoch": header.partition_leader_epoch,
        "delete_horizon_ms": header.delete_horizon_ms,
        "base_timestamp": header.base_timestamp,
        "records": described_records(batch.records()),
    }


def described_legacy(batch: LegacyBatch) -> dict[str, Any]:
    header = batch.header
    return {
        "magic": header.magic,
        "size_in_bytes": header.size_in_bytes,
        "last_offset": header.last_offset,
        "next_offset": header.next_offset,
        "is_valid": batch.is_valid,
        "checksum": header.crc,
        "base_offset": batch.base_offset(),
        "codec": str(header.codec),
        "timestamp_type": str(header.timestamp_type),
        "max_timestamp": header.max_timestamp,
        "producer_id": -1,
        "count": None,
        "is_control": False,
        "partition_leader_epoch": -1,
        "records": described_records(batch.records()),
    }


def described_records(records: Iterable[Record]) -> list[dict[str, Any]]:
    return [
        {
            "offset": record.offset,
            "timestamp": record.timestamp,
            "sequence": record.sequence,
            "key": b64(record.key),
            "value": b64(record.value),
            "headers": [[header.key, b64(header.value)] for header in record.headers],
        }
        for record in records
    ]


def assert_same(batch: AnyBatch, theirs: dict[str, Any]) -> None:
    assert theirs["error"] is None
    ours = described(batch)
    records, their_records = ours.pop("records"), theirs["records"]
    assert ours == {name: theirs[name] for name in ours}
    assert records == [
        {name: record[name] for name in ours_}
        for ours_, record in zip(records, their_records, strict=True)
    ]


def batches_of(data: bytes) -> list[AnyBatch]:
    log = LogFile(data)
    batches = list(log.batches())
    assert log.end.reason == "end_of_file"
    return batches


def assert_read_alike(oracle: Oracle, data: bytes) -> None:
    found = oracle.read_batches(data)
    assert found["error"] is None
    for batch, theirs in zip(batches_of(data), found["batches"], strict=True):
        assert_same(batch, theirs)


def assert_written_alike(ours: bytes, theirs: bytes, codec: Codec) -> None:
    """The same bytes; snappy's library aside, which finds other matches than snappy-java's."""
    if codec is not Codec.SNAPPY:
        assert ours == theirs
        return
    for batch, other in zip(batches_of(ours), batches_of(theirs), strict=True):
        if isinstance(batch, RecordBatch):
            varying = {"batch_length": 0, "crc": 0}
            assert batch.header._replace(**varying) == other.header._replace(**varying)
            assert batch.decompressed_payload() == other.decompressed_payload()
        else:
            assert batch.inner_messages() == other.inner_messages()


# --- writing

MIXED = [
    SimpleRecord(NOW, b"key", b"value", (Header("h", b"1"), Header("h", None), Header("", b""))),
    SimpleRecord(NOW + 5, None, b"", ()),
    SimpleRecord(NOW - 70_000, b"", None, ()),
    SimpleRecord(-1, None, None, (), 1_000_020),
    SimpleRecord(NOW + 1, "ключ".encode(), b"x" * 5000, (Header("größe", "∞".encode()),)),
]
PRODUCERS: dict[str, dict[str, Any]] = {
    "plain": {},
    "idempotent": {"producer_id": 7, "producer_epoch": 2, "base_sequence": 2**31 - 3},
    "transactional": {
        "producer_id": 2**40,
        "producer_epoch": 0,
        "base_sequence": 0,
        "is_transactional": True,
    },
    "sequence without a producer": {"base_sequence": 0},  # as group coordinators write
}
HORIZONS = {"no horizon": {}, "horizon": {"delete_horizon_ms": NOW + 86_400_000}}
ENDS = {"as it ends": {}, "end dropped": {"last_offset": 1_000_500}}


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("timestamp_type", [CREATE_TIME, LOG_APPEND_TIME])
@pytest.mark.parametrize("producer", PRODUCERS)
@pytest.mark.parametrize("horizon", HORIZONS)
@pytest.mark.parametrize("end", ENDS)
def test_a_batch_is_kafkas_byte_for_byte(
    oracle: Oracle,
    codec: Codec,
    timestamp_type: TimestampType,
    producer: str,
    horizon: str,
    end: str,
) -> None:
    options: dict[str, Any] = {
        "records": MIXED,
        "base_offset": 1_000_000,
        "codec": codec,
        "timestamp_type": timestamp_type,
        "log_append_time": NOW + 9,
        "partition_leader_epoch": 3,
        **PRODUCERS[producer],
        **HORIZONS[horizon],
        **ENDS[end],
    }
    ours = encode_batch(**options)
    theirs = oracle.build_batch(as_kafka_builds(options))
    assert_written_alike(ours, theirs, codec)
    assert_read_alike(oracle, ours)
    assert_read_alike(oracle, theirs)
    (batch,) = batches_of(theirs)
    assert_written_alike(batch.encode(), theirs, codec)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
@pytest.mark.parametrize("timestamp_type", [CREATE_TIME, LOG_APPEND_TIME])
def test_legacy_messages_are_kafkas_byte_for_byte(
    oracle: Oracle, magic: int, codec: Codec, timestamp_type: TimestampType
) -> None:
    options: dict[str, Any] = {
        "records": [record._replace(headers=()) for record in MIXED],
        "magic": magic,
        "base_offset": 1_000_000,
        "codec": codec,
        "timestamp_type": timestamp_type,
        "log_append_time": NOW + 9,
    }
    ours = encode_legacy_batch(**options)
    theirs = oracle.build_batch(as_kafka_builds(options))
    assert_written_alike(ours, theirs, codec)
    assert_read_alike(oracle, ours)
    assert_read_alike(oracle, theirs)
    for batch in batches_of(theirs):
        assert_written_alike(batch.encode(), bytes(batch.raw), codec)


@given(options=batch_options())
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_batch_is_kafkas_byte_for_byte(oracle: Oracle, options: dict[str, Any]) -> None:
    ours = encode_batch(**options)
    assert_written_alike(ours, oracle.build_batch(as_kafka_builds(options)), options["codec"])
    assert_read_alike(oracle, ours)


@given(options=legacy_options())
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_legacy_batch_is_kafkas_byte_for_byte(oracle: Oracle, options: dict[str, Any]) -> None:
    ours = encode_legacy_batch(**options)
    assert_written_alike(ours, oracle.build_batch(as_kafka_builds(options)), options["codec"])
    assert_read_alike(oracle, ours)


def text_records(count: int, seed: int) -> list[SimpleRecord]:
    """Half text that compresses, half noise that does not, several blocks of every codec."""
    draw = random.Random(seed)
    words = [draw.randbytes(draw.randrange(3, 9)).hex().encode() for _ in range(300)]
    return [
        SimpleRecord(
            NOW + i,
            b"key-%d" % i,
            b" ".join(draw.choices(words, k=60)) if i % 3 else draw.randbytes(700),
        )
        for i in range(count)
    ]


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("count", [30, 300, 1500])
def test_batches_of_many_blocks_are_kafkas_byte_for_byte(
    oracle: Oracle, codec: Codec, count: int
) -> None:
    options: dict[str, Any] = {"records": text_records(count, seed=count), "codec": codec}
    ours = encode_batch(**options)
    assert_written_alike(ours, oracle.build_batch(as_kafka_builds(options)), codec)
    assert_read_alike(oracle, ours)


LEVELS = [
    *((Codec.GZIP, level) for level in range(1, 10)),
    *((Codec.LZ4, level) for level in range(3, 18)),
    *((Codec.ZSTD, level) for level in (-131072, -5, 1, 2, 3, 5, 12, 19, 22)),
]


@pytest.mark.parametrize(("codec", "level"), LEVELS)
def test_levels_are_kafkas_byte_for_byte(oracle: Oracle, codec: Codec, level: int) -> None:
    options: dict[str, Any] = {
        "records": text_records(150, seed=level),
        "codec": codec,
        "level": level,
    }
    assert encode_batch(**options) == oracle.build_batch(as_kafka_builds(options))


@pytest.mark.parametrize("level", [1, 2])
def test_the_lowest_levels_of_lz4_are_read(oracle: Oracle, level: int) -> None:
    """lz4-java's library is older than Python's, which has another algorithm for these two."""
    options: dict[str, Any] = {
        "records": text_records(50, seed=level),
        "codec": Codec.LZ4,
        "level": level,
    }
    assert_read_alike(oracle, oracle.build_batch(as_kafka_builds(options)))
    assert_read_alike(oracle, encode_batch(**options))


def test_an_empty_batch_is_kafkas_byte_for_byte(oracle: Oracle) -> None:
    full = decode_batch(
        encode_batch(
            MIXED,
            base_offset=1_000_000,
            codec=Codec.ZSTD,
            timestamp_type=LOG_APPEND_TIME,
            log_append_time=NOW,
            partition_leader_epoch=4,
            delete_horizon_ms=NOW + 5,
            **PRODUCERS["transactional"],
        )
    )
    theirs = oracle.build_batch(
        empty=True,
        base_offset=1_000_000,
        last_offset=full.header.last_offset,
        timestamp_type="LogAppendTime",
        timestamp=NOW,
        partition_leader_epoch=4,
        producer_id=2**40,
        producer_epoch=0,
        base_sequence=0,
        transactional=True,
    )
    assert encode_empty_batch(full.header) == theirs
    assert_read_alike(oracle, theirs)


@pytest.mark.parametrize(
    "control",
    [
        {"type": "ABORT", "coordinator_epoch": 5},
        {"type": "COMMIT", "coordinator_epoch": 0},
        {
            "type": "LEADER_CHANGE",
            "message": {
                "version": 0,
                "leaderId": 1,
                "voters": [{"voterId": 1}, {"voterId": 2}],
                "grantingVoters": [{"voterId": 2}],
            },
        },
        {"type": "SNAPSHOT_HEADER", "message": {"version": 0, "lastContainedLogTimestamp": 5}},
        {"type": "SNAPSHOT_FOOTER", "message": {"version": 0}},
        {"type": "KRAFT_VERSION", "message": {"version": 0, "kRaftVersion": 1}},
        {"type": "KRAFT_VOTERS", "message": VOTERS},
    ],
    ids=lambda control: control["type"],
)
def test_control_batches_come_back_as_they_were(oracle: Oracle, control: dict[str, Any]) -> None:
    is_marker = control["type"] in {"ABORT", "COMMIT"}
    producer: dict[str, Any] = {}
    if is_marker:
        producer = {"producer_id": 3, "producer_epoch": 1, "transactional": True}
    theirs = oracle.build_batch(
        control=control, timestamp=NOW, partition_leader_epoch=2, base_offset=9, **producer
    )
    assert_read_alike(oracle, theirs)
    (batch,) = batches_of(theirs)
    assert batch.header.is_control
    assert batch.encode() == theirs
    again = encode_batch(
        [SimpleRecord.of(record) for record in batch.records()],
        base_offset=9,
        is_control=True,
        is_transactional=is_marker,
        producer_id=batch.header.producer_id,
        producer_epoch=batch.header.producer_epoch,
        partition_leader_epoch=2,
    )
    assert again == theirs


def test_records_no_writer_makes_are_read_alike(oracle: Oracle) -> None:
    """Offsets that go back, timestamps before 1970, ends of the range."""
    records = [
        kafka_record(-5, b"k", None, offset=2**40 + 7),
        kafka_record(-(2**63), None, b"", offset=2**40 + 3),
        kafka_record(2**63 - 1, None, b"", offset=2**40),
    ]
    built = oracle.build_batch(
        base_offset=2**40, unchecked=True, delete_horizon_ms=5, records=records
    )
    assert_read_alike(oracle, built)
    (batch,) = batches_of(built)
    assert [r.timestamp for r in batch.records()] == [-5, -(2**63), 2**63 - 1]
    assert batch.encode() == built


# --- the same verdict on damage

# Inside a wrapper a message of any other magic is none to us; Kafka reads it as if of magic 1.
INNER_MAGIC = re.compile(r": magic -?\d+, expected a message of magic 0 or 1$")


def flips(data: bytes, start: int, end: int) -> list[bytes]:
    flipped = []
    for bit in range(8 * start, 8 * end):
        copy = bytearray(data)
        copy[bit // 8] ^= 0x80 >> bit % 8
        flipped.append(bytes(copy))
    return flipped


def kafkas_view(oracle: Oracle, damaged: list[bytes]) -> list[dict[str, Any]]:
    """What Kafka tells of each, asked together.

    Kafka believes a length before it looks: a flipped bit can cost it all its memory, and an
    OutOfMemoryError (or a SnappyError) ends the whole answer. Then it is asked for the halves.
    """
    try:
        found = oracle.read_batches(b"".join(damaged))
    except OracleError as error:
        if len(damaged) == 1:
            return [{"error": str(error)}]
        half = len(damaged) // 2
        return kafkas_view(oracle, damaged[:half]) + kafkas_view(oracle, damaged[half:])
    assert found["error"] is None
    return found["batches"]


def verdicts(oracle: Oracle, damaged: list[bytes]) -> list[tuple[str, str, str]]:
    """Where Kafka and we differ about these batches: (bytes, our verdict, Kafka's)."""
    differences = []
    for data, theirs in zip(damaged, kafkas_view(oracle, damaged), strict=True):
        (batch,) = batches_of(data)
        try:
            ours = described(batch)
        except FormatError as error:
            if theirs["error"] is None:
                differences.append((data.hex(), str(error), "read"))
            continue
        if "OutOfMemoryError" in str(theirs["error"]):
            continue  # with more memory Kafka would find the message cut off, and end there
        if theirs["error"] is not None:
            differences.append((data.hex(), "read", str(theirs["error"])))
        else:
            _forget_text(theirs["records"], ours["records"])
            assert_same(batch, theirs)
    return differences


def _forget_text(theirs: list[dict[str, Any]], ours: list[dict[str, Any]]) -> None:
    """Java makes question marks of a header key that is not UTF-8; we keep its bytes."""
    for record, own in zip(theirs, ours, strict=True):
        for header, own_header in zip(record["headers"], own["headers"], strict=True):
            if "\ufffd" in header[0]:
                header[0] = own_header[0]


SMALL = [
    SimpleRecord(NOW, b"k", b"vv", (Header("h", None), Header("i", b"x"))),
    SimpleRecord(NOW + 300, None, b"", (), 12),
    SimpleRecord(NOW - 1, b"kk", None, (), 90),
]
SMALL_LEGACY = [SimpleRecord(NOW, b"k", b"v"), SimpleRecord(NOW + 1, None, b"w")]
PRODUCER = PRODUCERS["idempotent"]


def test_flips_of_a_plain_batch_get_kafkas_verdict(oracle: Oracle) -> None:
    batch = encode_batch(SMALL, base_offset=5, **PRODUCER)
    assert (
        verdicts(oracle, flips(batch, 0, 8) + flips(batch, 12, 16) + flips(batch, 17, len(batch)))
        == []
    )


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_flips_of_a_compressed_batch_get_kafkas_verdict(oracle: Oracle, codec: Codec) -> None:
    batch = encode_batch([*SMALL, SimpleRecord(NOW, b"k", b"v" * 40)], base_offset=5, codec=codec)
    assert verdicts(oracle, flips(batch, 21, len(batch))) == []


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_flips_inside_compression_get_kafkas_verdict(oracle: Oracle, codec: Codec) -> None:
    """Compressed records are read from a stream, by other code than plain ones."""
    plain = decode_batch(encode_batch(SMALL, base_offset=5, **PRODUCER))
    header = plain.header._replace(attributes=int(codec))
    payload = bytes(plain.payload)
    damaged = [assemble(header, compress(codec, one)) for one in flips(payload, 0, len(payload))]
    assert verdicts(oracle, damaged) == []


@pytest.mark.parametrize("codec", Codec)
def test_cut_and_longer_payloads_get_kafkas_verdict(oracle: Oracle, codec: Codec) -> None:
    batch = decode_batch(encode_batch(SMALL, base_offset=5, codec=codec))
    payload = bytes(batch.payload)
    cuts = [assemble(batch.header, payload[:size]) for size in range(len(payload))]
    tails = [bytes(1), bytes(3), bytes(18), bytes(19), bytes(200), b"\xff" * 30, payload]
    longer = [assemble(batch.header, payload + tail) for tail in tails]
    assert verdicts(oracle, cuts + longer) == []


def test_the_beginning_of_another_zstd_frame_is_refused_though_kafka_forgets_it(
    oracle: Oracle,
) -> None:
    batch = decode_batch(encode_batch(SMALL, base_offset=5, codec=Codec.ZSTD))
    payload = bytes(batch.payload)
    longer = [assemble(batch.header, payload + payload[:size]) for size in (1, 4, 6)]
    assert [kafkas for _, _, kafkas in verdicts(oracle, longer)] == ["read"] * 3


def with_stream(codec: Codec, stream: bytes | bytearray) -> bytes:
    """A batch of SMALL whose records are this stream."""
    header = decode_batch(encode_batch(SMALL, base_offset=5)).header
    return assemble(header._replace(attributes=int(codec)), stream)


@pytest.mark.parametrize("window", [0x58, 0x88, 0x89, 0x90])  # 2 MiB, 128 MiB, more
def test_zstd_windows_get_kafkas_verdict(oracle: Oracle, window: int) -> None:
    stream = bytearray(decode_batch(encode_batch(SMALL, base_offset=5, codec=Codec.ZSTD)).payload)
    stream[5] = window
    assert verdicts(oracle, [with_stream(Codec.ZSTD, stream)]) == []


def test_an_lz4_block_of_nothing_is_no_end_though_kafka_takes_it_for_one(oracle: Oracle) -> None:
    stream = bytes(decode_batch(encode_batch(SMALL, base_offset=5, codec=Codec.LZ4)).payload)
    nothing = bytes.fromhex("01000000 00")
    ((_, ours, kafkas),) = verdicts(
        oracle, [with_stream(Codec.LZ4, stream[:7] + nothing + stream[7:])]
    )
    assert ours == "read"
    assert "premature EOF" in kafkas


def test_other_counts_get_kafkas_verdict(oracle: Oracle) -> None:
    for codec in Codec:
        batch = decode_batch(encode_batch(SMALL, base_offset=5, codec=codec))
        counts = [-(2**31), -1, 0, 1, 2, 4, 1000]  # Kafka makes room for as many as it is reported
        damaged = [
            assemble(batch.header._replace(record_count=count), batch.payload) for count in counts
        ]
        assert verdicts(oracle, damaged) == []


@st.composite
def any_batches(draw: st.DrawFn) -> bytes:
    """Every field anything at all, but for a codec, and a count that is not the records'."""
    header = draw(batch_headers)
    records = draw(records_near(header.base_offset))
    payload = encode_records(
        records, base_offset=header.base_offset, base_timestamp=header.base_timestamp
    )
    attributes = header.attributes & ~7
    return assemble(header._replace(attributes=attributes, record_count=len(records)), payload)


@given(batches=st.lists(any_batches(), min_size=1, max_size=20))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_fields_of_any_value_get_kafkas_verdict(oracle: Oracle, batches: list[bytes]) -> None:
    assert verdicts(oracle, batches) == []


@pytest.mark.parametrize("magic", [0, 1])
def test_flips_of_a_legacy_message_get_kafkas_verdict(oracle: Oracle, magic: int) -> None:
    message = encode_legacy_batch([SimpleRecord(NOW, b"kk", b"vv")], magic=magic, base_offset=9)
    assert (
        verdicts(
            oracle, flips(message, 0, 8) + flips(message, 12, 16) + flips(message, 17, len(message))
        )
        == []
    )


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_flips_of_a_wrapper_get_kafkas_verdict(oracle: Oracle, magic: int, codec: Codec) -> None:
    wrapper = encode_legacy_batch(SMALL_LEGACY, magic=magic, base_offset=9, codec=codec)
    found = verdicts(oracle, flips(wrapper, 0, 8) + flips(wrapper, 17, len(wrapper)))
    assert [one for one in found if not INNER_MAGIC.search(one[1])] == []


@pytest.mark.parametrize("magic", [0, 1])
def test_flips_inside_a_wrapper_get_kafkas_verdict(oracle: Oracle, magic: int) -> None:
    (batch,) = batches_of(
        encode_legacy_batch(SMALL_LEGACY, magic=magic, base_offset=9, codec=Codec.LZ4)
    )
    inner = b"".join(map(encode_legacy_message, batch.inner_messages()))
    damaged = [
        with_inner(batch.header, one)
        for one in [*flips(inner, 0, len(inner)), *(inner[:size] for size in range(len(inner)))]
    ]
    found = verdicts(oracle, damaged)
    assert [one for one in found if not INNER_MAGIC.search(one[1])] == []


@given(messages=st.lists(any_legacy, min_size=1, max_size=20))
@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_legacy_fields_of_any_value_get_kafkas_verdict(
    oracle: Oracle, messages: list[bytes]
) -> None:
    assert verdicts(oracle, messages) == []


def with_inner(header: Any, inner: bytes) -> bytes:
    value = compress(Codec.LZ4, inner, magic=header.magic)
    return encode_legacy_message(LegacyMessage(header, None, value))


# --- files


def test_every_cut_of_a_file_ends_where_kafka_ends(oracle: Oracle, tmp_path: Path) -> None:
    segment = (
        encode_legacy_batch([SimpleRecord(1, b"k", b"v")], magic=0, base_offset=1)
        + encode_batch(SMALL, base_offset=5)
        + encode_legacy_batch(SMALL_LEGACY, magic=1, base_offset=100, codec=Codec.GZIP)
        + encode_batch(SMALL_LEGACY, base_offset=200, codec=Codec.LZ4)
    )
    for size in range(len(segment) + 1):
        path = tmp_path / f"{size}.log"
        path.write_bytes(segment[:size])
        found = oracle.read_batches(path, records=False)
        assert found["error"] is None
        log = LogFile(segment[:size])
        assert len(list(log.batches())) == len(found["batches"])
        assert log.end.position == found["end_position"]


@pytest.mark.parametrize("field", ["length", "magic"])
def test_flips_of_length_and_magic_end_a_file_where_kafka_ends(
    oracle: Oracle, tmp_path: Path, field: str
) -> None:
    one = encode_batch(SMALL, base_offset=5)
    start, end = (8, 12) if field == "length" else (16, 17)
    for number, flipped in enumerate(flips(one, start, end)):
        data = one + flipped + one
        path = tmp_path / f"{number}.log"
        path.write_bytes(data)
        found = oracle.read_batches(path, records=False)
        log = LogFile(data)
        walked = list(log.batches())
        if log.end.reason == "corrupt_batch":
            # We stop at once; Kafka throws here or at the batch it then misreads.
            assert found["error"] is not None or found["batches"][1]["error"] is not None
        else:
            assert found["error"] is None
            assert [batch.header.size_in_bytes for batch in walked] == [
                batch["size_in_bytes"] for batch in found["batches"]
            ]
