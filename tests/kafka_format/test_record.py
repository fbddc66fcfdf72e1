"""Records of magic 2: bytes worked out by hand, every length that lies, any bytes at all."""

import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_format.errors import FormatError, MalformedRecordError
from kafka_format.record import (
    Header,
    ManyHeaders,
    Record,
    SimpleRecord,
    TimestampType,
    decode_records,
    encode_records,
    increment_sequence,
    with_offsets,
)
from tests.kafka_format.damage import value_or_error
from tests.strategies import int32s, int64s, records_near

FULL = "1a 00 00 00 026b 0276 04 0268 01 00 00"  # key k, value v, headers h: null and "": empty
BARE = "0c 00 01 08 01 00 00"  # time -1, offset +4, null key, empty value


def decode(stream: str, count: int = 1, **bases: int) -> list[Record]:
    bases = {"base_offset": 16, "base_timestamp": 1000} | bases
    return decode_records(bytes.fromhex(stream), count, **bases)


def test_records_are_read_as_worked_out_by_hand() -> None:
    assert decode(FULL + BARE, 2) == [
        Record(16, 1000, b"k", b"v", (Header("h", None), Header("", b"")), -1, 0),
        Record(20, 999, None, b"", (), -1, 0),
    ]


def test_records_are_written_as_worked_out_by_hand() -> None:
    records = [
        Record(16, 1000, b"k", b"v", (Header("h", None), Header("", b"")), -1, 0),
        Record(20, 999, None, b"", (), -1, 0),
    ]
    written = encode_records(records, base_offset=16, base_timestamp=1000)
    assert written == bytes.fromhex(FULL + BARE)


@pytest.mark.parametrize(
    ("stream", "key", "value"),
    [
        ("0c 00 00 00 01 01 00", None, None),
        ("0c 00 00 00 00 01 00", b"", None),
        ("0c 00 00 00 01 00 00", None, b""),
        ("0c 00 00 00 00 00 00", b"", b""),
    ],
)
def test_null_is_not_empty(stream: str, key: bytes | None, value: bytes | None) -> None:
    (record,) = decode(stream)
    assert (record.key, record.value) == (key, value)
    written = encode_records([record], base_offset=16, base_timestamp=1000)
    assert written == bytes.fromhex(stream)


def test_every_length_may_take_more_bytes_than_it_needs() -> None:
    (record,) = decode("a800 00 8000 8000 828000 6b 8400 7676 8200 8200 68 8100")
    assert record == Record(16, 1000, b"k", b"vv", (Header("h", None),), -1, 0)


def test_a_header_key_that_is_not_utf8_keeps_its_bytes() -> None:
    stream = "16 00 00 00 01 01 02 04 ff61 02 00"
    (record,) = decode(stream)
    assert record.headers == (Header("\udcffa", b"\0"),)
    written = encode_records([record], base_offset=16, base_timestamp=1000)
    assert written == bytes.fromhex(stream)


HEADERS_6000 = [Header("h", None), Header("", b""), Header("\u00e9", b"x")] * 2000
# Length 20007, attributes, deltas, null key and value, 6000; then headers of 3, 2 and 5 bytes.
STREAM_6000 = "ceb802 00 00 00 01 01 e05d" + "0268 01  00 00  04c3a9 0278" * 2000


def test_thousands_of_headers_are_as_good_as_a_few() -> None:
    (record,) = decode(STREAM_6000)
    headers = record.headers
    assert isinstance(headers, ManyHeaders)
    assert repr(headers) == "ManyHeaders(6000 headers, 20000 bytes)"
    assert len(headers) == 6000
    assert [*headers] == HEADERS_6000
    assert headers == tuple(HEADERS_6000)
    assert tuple(HEADERS_6000) == headers
    assert hash(headers) == hash(tuple(HEADERS_6000))
    assert headers != tuple(HEADERS_6000[1:])
    assert headers != (*HEADERS_6000[:-1], Header("e", b"x"))
    assert headers != HEADERS_6000
    assert (headers[1], headers[-1]) == (Header("", b""), Header("\u00e9", b"x"))
    assert headers[2:4] == (Header("\u00e9", b"x"), Header("h", None))
    with pytest.raises(IndexError):
        headers[6000]
    written = encode_records([record], base_offset=16, base_timestamp=1000)
    assert written == bytes.fromhex(STREAM_6000)


@pytest.mark.parametrize(
    ("last", "found"),
    [
        ("01 00000000", "20005: found header key of -1 bytes"),
        ("04c3a9 0a78", "0: found record whose fields end at 20014"),
    ],
)
def test_the_last_of_thousands_of_headers_is_checked_as_any(last: str, found: str) -> None:
    damaged = bytes.fromhex(STREAM_6000)[:-5] + bytes.fromhex(last)
    with pytest.raises(MalformedRecordError, match=found):
        decode(damaged.hex())


def test_attributes_are_a_signed_byte_that_is_kept() -> None:
    (record,) = decode("0c ff 00 00 01 01 00")
    assert record.attributes == -1
    written = encode_records([record], base_offset=16, base_timestamp=1000)
    assert written[1] == 0xFF


def test_log_append_time_is_every_records_timestamp() -> None:
    records = decode(FULL + BARE, 2, log_append_time=77)
    assert [record.timestamp for record in records] == [77, 77]


@pytest.mark.parametrize(
    ("base", "stream", "timestamp"),
    [
        (2**63 - 1, "0c 00 02 00 01 01 00", -(2**63)),
        (-(2**63), "0c 00 01 00 01 01 00", 2**63 - 1),
        (5, "1e 00 feffffffffffffffff01 00 01 01 00", -(2**63) + 4),
        (-2, "1e 00 ffffffffffffffffff01 00 01 01 00", 2**63 - 2),
    ],
)
def test_a_timestamp_wraps_at_64_bits(base: int, stream: str, timestamp: int) -> None:
    (record,) = decode(stream, base_timestamp=base)
    assert record.timestamp == timestamp
    assert encode_records([record], base_offset=16, base_timestamp=base) == bytes.fromhex(stream)


def test_an_offset_wraps_at_64_bits() -> None:
    (record,) = decode("0c 00 00 02 01 01 00", base_offset=2**63 - 1)
    assert record.offset == -(2**63)


def test_sequences_count_from_the_base_and_wrap_to_zero() -> None:
    assert [r.sequence for r in decode(FULL + BARE, 2, base_sequence=10)] == [10, 14]
    last = 2**31 - 1
    assert [r.sequence for r in decode(FULL + BARE, 2, base_sequence=last)] == [last, 3]
    assert [r.sequence for r in decode(FULL + BARE, 2, base_sequence=-2)] == [-1, -1]


@pytest.mark.parametrize(
    ("sequence", "increment", "result"),
    [
        (0, 0, 0),
        (5, 3, 8),
        (2**31 - 1, 1, 0),
        (2**31 - 3, 10, 7),
        (5, -1, -2147483644),  # Java's int runs over where a damaged delta is negative
        (-5, 3, -2),
    ],
)
def test_a_sequence_is_incremented_in_javas_ints(sequence, increment, result) -> None:
    assert increment_sequence(sequence, increment) == result


LIES = {  # what is wrong: bytes, records, position of the error
    "nothing there": ("", 1, 0),
    "one record fewer": (BARE, 2, 7),
    "one record more": (BARE + BARE, 1, 7),
    "length beyond the end": ("0e 00 01 08 01 00 00", 1, 0),
    "negative length": ("0b 00 01 08 01 00 00", 1, 0),
    "huge length": ("feffffff0f 00 01 08 01 00 00", 1, 0),
    "endless length": ("ffffffffff 00", 1, 0),
    "length cut off": ("80", 1, 0),
    "length zero": ("00", 1, 0),
    "length one too small": ("0a 00 01 08 01 00 00", 1, 0),
    "length one too large": ("0e 00 01 08 01 00 00 00", 1, 0),
    "endless timestamp": ("20" + "00" + "ff" * 11 + "00 01 01 00", 1, 2),
    "timestamp cut off": ("04 00 80", 1, 0),
    "endless offset": ("18 00 00 ffffffffff00 01 01 00 00", 1, 3),
    "offset cut off": ("06 00 00 80", 1, 0),
    "key beyond the record": ("0c 00 00 00 04 01 00" + BARE, 2, 0),
    "key beyond everything": ("0c 00 00 00 7e 01 00", 1, 0),
    "value beyond everything": ("0c 00 00 00 01 7e 00", 1, 0),
    "no header count": ("0a 00 00 00 01 00", 1, 0),
    "-1 headers": ("0c 00 00 00 01 01 01", 1, 6),
    "more headers than bytes": ("10 00 00 00 01 01 06 00 01", 1, 6),
    "huge number of headers": ("14 00 00 00 01 01 feffffff0f", 1, 6),
    "header key of -1 bytes": ("10 00 00 00 01 01 02 01 01", 1, 7),
    "header key beyond everything": ("10 00 00 00 01 01 02 7e 01", 1, 0),
    "header value beyond the record": ("10 00 00 00 01 01 02 00 04" + BARE, 2, 0),
    "header value cut off": ("10 00 00 00 01 01 02 00 80", 1, 8),
    "headers end early": ("12 00 00 00 01 01 02 00 01 00", 1, 0),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_length_that_lies_is_an_error_where_it_stands(lie: str) -> None:
    stream, count, position = LIES[lie]
    with pytest.raises(FormatError) as caught:
        decode(stream, count)
    assert caught.value.location.position == position, str(caught.value)


@pytest.mark.parametrize("negative", ["01", "03", "ffffffff0f"])
def test_any_negative_length_is_null_as_kafka_reads_it(negative: str) -> None:
    size = {"01": "10", "03": "10", "ffffffff0f": "28"}[negative]
    (record,) = decode(f"{size} 00 00 00 {negative} {negative} 02 00 {negative}", 1)
    assert (record.key, record.value, record.headers) == (None, None, (Header("", None),))


def test_no_records_are_not_looked_for() -> None:
    assert decode("ffff", 0) == []


@pytest.mark.parametrize(
    "stream",
    [
        "feffffff0f 00 01 08 01 00 00",  # record of 2 GiB
        "14 00 00 00 01 01 feffffff0f",  # 2^31 - 1 headers
        "14 00 00 00 feffffff0f 01 00",  # key of 2 GiB
        "18 00 00 00 01 01 02 feffffff0f 01",  # header key of 2 GiB
    ],
)
def test_a_claimed_length_takes_no_memory(stream: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(MalformedRecordError):
            decode(stream, 2**31 - 1)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 64 * 1024


@given(st.data(), int64s, int64s)
def test_any_records_come_back(data: st.DataObject, base_offset: int, base_timestamp: int) -> None:
    records = data.draw(records_near(base_offset))
    written = encode_records(records, base_offset=base_offset, base_timestamp=base_timestamp)
    read = decode_records(
        written, len(records), base_offset=base_offset, base_timestamp=base_timestamp
    )
    assert read == records


@given(st.binary(max_size=60), int32s.filter(lambda count: count >= 0))
def test_any_bytes_are_records_or_a_format_error(payload: bytes, count: int) -> None:
    value_or_error(
        lambda data: decode_records(data, count, base_offset=0, base_timestamp=0), payload
    )


def test_timestamp_types_are_named_as_kafka_prints_them() -> None:
    assert [str(one) for one in TimestampType] == ["NoTimestampType", "CreateTime", "LogAppendTime"]


def test_records_without_an_offset_follow_their_predecessor() -> None:
    records = [SimpleRecord(0, None, None), SimpleRecord(0, None, None, (), 7)]
    placed = with_offsets([*records, SimpleRecord(0, None, None)], 5)
    assert [record.offset for record in placed] == [5, 7, 8]
    assert SimpleRecord.of(placed[1]) == records[1]


@pytest.mark.parametrize(
    ("offsets", "timestamp", "message"),
    [
        ([5, 5], 0, "offsets must increase"),
        ([5, 4], 0, "offsets must increase"),
        ([0, 2**31], 0, "int32 delta"),
        ([None], -2, "must be -1, 0 or more"),
    ],
)
def test_what_kafkas_builder_refuses_is_a_value_error(offsets, timestamp, message) -> None:
    records = [SimpleRecord(timestamp, None, None, (), offset) for offset in offsets]
    with pytest.raises(ValueError, match=message):
        with_offsets(records, 0)
