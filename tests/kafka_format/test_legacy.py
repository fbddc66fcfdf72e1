"""Messages of magic 0 and 1: worked out by hand, every quirk, any bytes at all."""

import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_format.compression import Codec, compress
from kafka_format.errors import (
    CorruptError,
    CrcMismatchError,
    FormatError,
    Location,
    MalformedRecordError,
    OverLimitError,
    TruncatedError,
    UnsupportedError,
)
from kafka_format.legacy import (
    LegacyBatch,
    LegacyHeader,
    LegacyMessage,
    decode_legacy_batch,
    encode_legacy_batch,
    encode_message,
)
from kafka_format.record import Header, Record, SimpleRecord, TimestampType
from tests.kafka_format.damage import value_or_error
from tests.strategies import last_offset_of, legacy_messages, legacy_options

MAGIC_0 = bytes.fromhex(
    "0000000000000007 00000010"  # offset 7, 16 bytes
    "1fecd70a 00 00"  # crc as Kafka computed it, magic, attributes
    "00000001 6b 00000001 76"  # k, v
)
MAGIC_1 = bytes.fromhex(
    "0000000000000007 00000016"
    "9e5d8e54 01 08"  # LogAppendTime
    "00000000000003e8"  # timestamp 1000
    "ffffffff 00000000"  # null, empty
)
# by Kafka's builder: offsets 100 (null, "a", time 5) and 103 (empty, null, time 9)
WRAPPER_1 = bytes.fromhex(
    "0000000000000067000000559476d8b201030000000000000009ffffffff0000003f04224d1860408230000000160001"
    "006417d19b09ad011000a305ffffffff00000001611200950300000016fa51ef142300900900000000ffffffff000000"
    "00"
)
WRAPPER_0 = bytes.fromhex(
    "00000000000000670000004f4e81c1490003ffffffff0000004104224d1860401a3200000012000100f2056400"
    "00000f51df3a320000ffffffff00000001611a00f00500670000000e3d314895000000000000ffffffff00000000"
)


def message(
    offset: int,
    magic: int,
    *,
    key: bytes | None = None,
    value: bytes | None = None,
    attributes: int = 0,
    timestamp: int = -1,
) -> bytes:
    header = LegacyHeader(offset, 0, 0, magic, attributes, timestamp)
    return encode_message(LegacyMessage(header, key, value))


def wrapper(
    offset: int, magic: int, inner: bytes, *, codec: int = Codec.GZIP, **fields: Any
) -> LegacyBatch:
    value = compress(Codec(codec), inner, magic=magic)
    attributes = fields.pop("attributes", 0) | codec
    return decode_legacy_batch(message(offset, magic, value=value, attributes=attributes, **fields))


def test_a_message_of_magic_0_is_read_as_worked_out_by_hand() -> None:
    batch = decode_legacy_batch(b"??" + MAGIC_0 + b"more", 2, path="x.log")
    assert batch.header == LegacyHeader(7, 16, 0x1FECD70A, 0, 0, -1)
    assert batch.location == Location("x.log", 2)
    assert bytes(batch.raw) == MAGIC_0
    assert batch.is_valid
    batch.ensure_valid()
    assert batch.records() == [Record(7, -1, b"k", b"v", (), -1, 0)]
    assert batch.base_offset() == batch.header.last_offset == 7
    assert batch.header.next_offset == 8
    assert batch.header.timestamp_type is TimestampType.NO_TIMESTAMP_TYPE
    assert batch.header.codec is Codec.NONE
    assert batch.header.size_in_bytes == len(MAGIC_0)
    assert batch.encode() == MAGIC_0
    assert repr(batch) == "LegacyBatch(x.log@2, magic 0, last offset 7, 28 bytes)"


def test_a_message_of_magic_1_has_a_timestamp() -> None:
    batch = decode_legacy_batch(MAGIC_1)
    assert batch.magic == 1
    assert batch.header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert batch.header.max_timestamp == 1000
    assert batch.records() == [Record(7, 1000, None, b"", (), -1, 8)]
    assert batch.encode() == MAGIC_1


def test_messages_are_written_as_worked_out_by_hand() -> None:
    assert encode_legacy_batch([SimpleRecord(0, b"k", b"v")], magic=0, base_offset=7) == MAGIC_0
    written = encode_legacy_batch(
        [SimpleRecord(5, None, b"")],
        magic=1,
        base_offset=7,
        timestamp_type=TimestampType.LOG_APPEND_TIME,
        log_append_time=1000,
    )
    assert written == MAGIC_1


def test_a_wrapper_of_magic_1_has_relative_offsets_inside() -> None:
    batch = decode_legacy_batch(WRAPPER_1)
    batch.ensure_valid()
    assert (batch.header.last_offset, batch.header.max_timestamp) == (103, 9)
    assert [inner.header.offset for inner in batch.inner_messages()] == [0, 3]
    assert batch.records() == [
        Record(100, 5, None, b"a", (), -1, 0),
        Record(103, 9, b"", None, (), -1, 0),
    ]
    assert batch.base_offset() == 100
    assert batch.encode() == WRAPPER_1


def test_a_wrapper_of_magic_0_has_absolute_offsets_and_the_lz4_mistake() -> None:
    batch = decode_legacy_batch(WRAPPER_0)
    batch.ensure_valid()
    assert [inner.header.offset for inner in batch.inner_messages()] == [100, 103]
    assert batch.records() == [
        Record(100, -1, None, b"a", (), -1, 0),
        Record(103, -1, b"", None, (), -1, 0),
    ]
    assert batch.encode() == WRAPPER_0


def test_wrappers_are_written_as_kafka_does() -> None:
    records = [SimpleRecord(5, None, b"a"), SimpleRecord(9, b"", None, (), 103)]
    for magic, kafkas in [(0, WRAPPER_0), (1, WRAPPER_1)]:
        written = encode_legacy_batch(records, magic=magic, base_offset=100, codec=Codec.LZ4)
        assert written == kafkas


def test_under_log_append_time_the_wrapper_has_the_only_timestamp() -> None:
    inner = message(0, 1, timestamp=5) + message(1, 1, timestamp=6) + message(2, 0)
    batch = wrapper(10, 1, inner, attributes=0x08, timestamp=99)
    assert [record.timestamp for record in batch.records()] == [99, 99, -1]


def test_under_create_time_every_message_has_its_own_whatever_its_bit_says() -> None:
    inner = message(0, 1, timestamp=5, attributes=0x08) + message(1, 1, timestamp=6)
    batch = wrapper(10, 1, inner, timestamp=99)
    assert [record.timestamp for record in batch.records()] == [5, 6]


def test_messages_of_magic_0_in_a_wrapper_of_magic_1_are_relative_too() -> None:
    batch = wrapper(11, 1, message(0, 0, value=b"a") + message(1, 0, value=b"b"), timestamp=7)
    assert [(r.offset, r.timestamp, r.value) for r in batch.records()] == [
        (10, -1, b"a"),
        (11, -1, b"b"),
    ]


def test_a_wrapper_at_offset_zero_counts_from_zero() -> None:
    inner = message(0, 1) + message(1, 1) + message(2, 1)
    assert [record.offset for record in wrapper(0, 1, inner).records()] == [0, 1, 2]


def test_a_wrapper_below_its_last_message_is_malformed() -> None:
    inner = message(0, 1) + message(5, 1)
    with pytest.raises(MalformedRecordError, match=r"^<memory>@0: found wrapper with offset 4, "):
        wrapper(4, 1, inner).records()
    assert [record.offset for record in wrapper(5, 1, inner).records()] == [0, 5]
    assert [record.offset for record in wrapper(4, 0, inner).records()] == [0, 5]


def test_a_key_on_a_wrapper_is_not_looked_at() -> None:
    batch = wrapper(0, 1, message(0, 1, value=b"v"), key=b"key")
    assert batch.records()[0].value == b"v"


@pytest.mark.parametrize("tail", [b"\0" * 11, message(1, 1, value=b"cut off")[:-1]])
def test_a_message_cut_off_inside_a_wrapper_is_not_there(tail: bytes) -> None:
    assert len(wrapper(0, 1, message(0, 1) + tail).records()) == 1


def test_bytes_behind_a_value_are_not_looked_at() -> None:
    body = bytes.fromhex("00 00 ffffffff 00000001 76") + b"behind"
    import zlib

    data = bytes(8) + (4 + len(body)).to_bytes(4, "big")
    data += zlib.crc32(body).to_bytes(4, "big") + body
    batch = decode_legacy_batch(data)
    batch.ensure_valid()
    assert batch.records()[0].value == b"v"


# --- damage


def inside(inner: bytes, magic: int = 1) -> bytes:
    return bytes(wrapper(50, magic, inner).raw)


def with_value(value: bytes | None, attributes: int, magic: int = 1) -> bytes:
    return message(50, magic, value=value, attributes=attributes)


BROKEN = {  # what is wrong: bytes, error, position
    "eleven bytes": (bytes(11), TruncatedError, 0),
    "size below any message": (bytes(8) + b"\0\0\0\x0d" + bytes(13), CorruptError, 0),
    "negative size": (bytes(8) + b"\xff\xff\xff\xff" + bytes(20), CorruptError, 0),
    "size beyond the end": (MAGIC_0[:-1], TruncatedError, 0),
    "magic 2": (MAGIC_0[:16] + b"\x02" + MAGIC_0[17:], UnsupportedError, 16),
    "magic -1": (MAGIC_0[:16] + b"\xff" + MAGIC_0[17:], UnsupportedError, 16),
    "key beyond the end": (MAGIC_0[:18] + b"\0\0\0\x07" + MAGIC_0[22:], MalformedRecordError, 18),
    "no room for a value": (MAGIC_0[:18] + b"\0\0\0\x06" + MAGIC_0[22:], MalformedRecordError, 28),
    "value beyond the end": (MAGIC_0[:23] + b"\0\0\0\x02" + MAGIC_0[27:], MalformedRecordError, 23),
    "magic 1 of 14 bytes": (
        bytes(11) + b"\x0e" + bytes(4) + b"\x01" + bytes(9),
        MalformedRecordError,
        26,
    ),
    "unknown codec": (with_value(b"v", 5), UnsupportedError, 34),
    "zstd": (with_value(compress(Codec.ZSTD, MAGIC_1), Codec.ZSTD), UnsupportedError, 34),
    "wrapper of null": (with_value(None, Codec.GZIP), MalformedRecordError, 34),
    "wrapper of nothing": (with_value(b"", Codec.GZIP), TruncatedError, 34),
    "wrapper of damage": (with_value(b"x" * 20, Codec.LZ4), CorruptError, 34),
    "wrapper of no message": (inside(b""), MalformedRecordError, 34),
    "wrapper of half a message": (inside(MAGIC_0[:-1]), MalformedRecordError, 34),
    "wrapper in a wrapper": (inside(inside(MAGIC_1)), MalformedRecordError, 34),
    "unknown codec in a wrapper": (inside(with_value(b"v", 7)), MalformedRecordError, 34),
    "magic 2 in a wrapper": (inside(MAGIC_0[:16] + b"\x02" + MAGIC_0[17:]), UnsupportedError, 34),
    "size of 3 in a wrapper": (inside(bytes(11) + b"\x03" + bytes(30)), CorruptError, 34),
    "negative size in a wrapper": (inside(bytes(8) + b"\xff" * 4 + bytes(30)), CorruptError, 34),
}


def test_any_negative_length_is_null_as_kafka_reads_it() -> None:
    negative = b"\xff\xff\xff\xfe"
    both = MAGIC_0[:18] + negative + negative + MAGIC_0[26:]
    (record,) = decode_legacy_batch(both).records()
    assert (record.key, record.value) == (None, None)


@pytest.mark.parametrize("name", BROKEN)
def test_damage_is_an_error_where_it_stands(name: str) -> None:
    data, error, position = BROKEN[name]
    with pytest.raises(error) as caught:
        decode_legacy_batch(b"???" + data, 3, path="x.log").records()
    assert caught.value.location == Location("x.log", 3 + position), str(caught.value)


def test_an_error_inside_a_wrapper_says_where_in_the_decompressed_bytes() -> None:
    data = inside(message(0, 1) + inside(MAGIC_1))
    with pytest.raises(MalformedRecordError, match="in the decompressed records, at 51: message"):
        decode_legacy_batch(data).records()


def test_a_wrong_checksum_is_told_with_both() -> None:
    batch = decode_legacy_batch(MAGIC_0[:-1] + b"w", path="x.log")
    assert not batch.is_valid
    with pytest.raises(CrcMismatchError, match=r"^x.log@12: found stored crc 0x1fecd70a, expected"):
        batch.ensure_valid()


def test_a_wrapper_ends_at_the_callers_limit() -> None:
    batch = wrapper(0, 1, message(0, 1, value=bytes(10_000)))
    assert len(batch.records(limit=10_034)) == 1
    with pytest.raises(OverLimitError, match="at most 10033 bytes"):
        batch.records(limit=10_033)
    with pytest.raises(OverLimitError):
        batch.encode(limit=10_033)


def test_a_claimed_length_takes_no_memory() -> None:
    huge = b"\x7f\xff\xff\xff"
    tracemalloc.start()
    try:
        for data in (
            MAGIC_0[:8] + huge + MAGIC_0[12:],
            MAGIC_0[:18] + huge + MAGIC_0[22:],
            MAGIC_0[:23] + huge + MAGIC_0[27:],
        ):
            with pytest.raises(FormatError):
                decode_legacy_batch(data).records()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"magic": 2}, "magic 0 or 1"),
        ({"magic": 1, "codec": Codec.ZSTD}, "no zstd"),
        ({"magic": 1, "timestamp_type": TimestampType.NO_TIMESTAMP_TYPE}, "CreateTime or"),
        ({"magic": 0, "records": [SimpleRecord(0, None, None, (Header("h", None),))]}, "headers"),
    ],
)
def test_what_kafkas_builder_refuses_is_a_value_error(options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode_legacy_batch(**({"records": [SimpleRecord(0, None, None)]} | options))


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_no_records_make_no_message(codec: Codec) -> None:
    assert encode_legacy_batch([], magic=1, codec=codec) == b""


@given(legacy_options())
@settings(deadline=None)
def test_what_is_written_is_read(options) -> None:
    written = encode_legacy_batch(**options)
    records, position = [], 0
    while position < len(written):
        batch = decode_legacy_batch(written, position)
        batch.ensure_valid()
        assert batch.encode() == bytes(batch.raw)
        records += batch.records()
        position += batch.header.size_in_bytes
    assert records[-1].offset == last_offset_of(options)
    given_ = options["records"]
    assert [(r.key, r.value) for r in records] == [(r.key, r.value) for r in given_]
    if options["magic"] == 0:
        assert {r.timestamp for r in records} == {-1}
    elif options["timestamp_type"] is TimestampType.LOG_APPEND_TIME:
        assert {r.timestamp for r in records} == {options["log_append_time"]}
    else:
        assert [r.timestamp for r in records] == [r.timestamp for r in given_]


@given(legacy_messages())
def test_a_message_of_any_fields_comes_back(message: LegacyMessage) -> None:
    written = encode_message(message)
    batch = decode_legacy_batch(written)
    batch.ensure_valid()
    found = batch.message()
    assert (found.key, found.value) == (message.key, message.value)
    assert found.header._replace(size=0, crc=0) == message.header
    assert batch.encode() == written
    (record,) = batch.records()
    assert (record.offset, record.timestamp) == (message.header.offset, message.header.timestamp)


@given(st.binary(max_size=80), st.sampled_from([0, 1]), st.integers(0, 255))
def test_any_bytes_are_a_message_or_a_format_error(
    data: bytes, magic: int, attributes: int
) -> None:
    framed = bytes(8) + len(data).to_bytes(4, "big") + data
    if len(data) > 5:
        framed = framed[:16] + bytes([magic, attributes]) + framed[18:]

    def everything(raw: bytes) -> None:
        decode_legacy_batch(raw).records(limit=2**20)

    value_or_error(everything, framed)
