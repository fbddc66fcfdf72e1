"""Batches of magic 2: one worked out field by field, and all there can be."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_format.batch import (
    BatchHeader,
    assemble,
    decode_batch,
    encode_batch,
    encode_empty_batch,
)
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
from kafka_format.record import Header, Record, SimpleRecord, TimestampType, encode_records
from tests.kafka_format.damage import value_or_error
from tests.strategies import batch_headers, batch_options, last_offset_of, records_near

BATCH = bytes.fromhex(
    "0000000000000010"  # base offset 16
    "00000046"  # 70 bytes follow
    "00000005"  # leader epoch 5
    "02"  # magic
    "242e9348"  # crc, as Kafka's builder computed it
    "0000"  # attributes
    "00000004"  # last offset delta
    "00000000000003e8"  # base timestamp 1000
    "00000000000003e8"  # max timestamp
    "ffffffffffffffff ffff ffffffff"  # no producer
    "00000002"  # two records
    "1a 00 00 00 026b 0276 04 026801 0000"
    "0c 00 01 08 01 00 00"
)
HEADER = BatchHeader(16, 70, 5, 2, 0x242E9348, 0, 4, 1000, 1000, -1, -1, -1, 2)
RECORDS = [
    Record(16, 1000, b"k", b"v", (Header("h", None), Header("", b"")), -1, 0),
    Record(20, 999, None, b"", (), -1, 0),
]


def rebuilt(payload: bytes = BATCH[61:], **changes: int) -> bytes:
    """BATCH with other fields and a checksum that is right again."""
    return assemble(HEADER._replace(**changes), payload)


def test_a_batch_is_read_as_worked_out_by_hand() -> None:
    batch = decode_batch(b"???" + BATCH + b"more", 3, path="orders-0/16.log")
    assert batch.header == HEADER
    assert batch.location == Location("orders-0/16.log", 3)
    assert batch.magic == 2
    assert bytes(batch.raw) == BATCH
    assert bytes(batch.payload) == batch.decompressed_payload() == BATCH[61:]
    assert batch.computed_crc == 0x242E9348
    assert batch.is_valid
    batch.ensure_valid()
    assert batch.records() == RECORDS
    assert batch.encode() == BATCH
    assert repr(batch) == "RecordBatch(orders-0/16.log@3, offsets 16 to 20, 2 records, 82 bytes)"


def test_a_batch_is_written_as_worked_out_by_hand() -> None:
    records = [SimpleRecord.of(record) for record in RECORDS]
    assert encode_batch(records, base_offset=16, partition_leader_epoch=5) == BATCH


def test_a_header_packs_to_the_bytes_it_came_from() -> None:
    assert BatchHeader.unpack(BATCH).pack() == BATCH[:61]


def test_the_plain_header_has_no_flag() -> None:
    assert HEADER.size_in_bytes == 82
    assert (HEADER.codec_id, HEADER.codec) == (0, Codec.NONE)
    assert HEADER.timestamp_type is TimestampType.CREATE_TIME
    assert not HEADER.is_transactional
    assert not HEADER.is_control
    assert not HEADER.has_delete_horizon
    assert HEADER.delete_horizon_ms is None
    assert (HEADER.last_offset, HEADER.next_offset, HEADER.last_sequence) == (20, 21, -1)


@pytest.mark.parametrize(
    ("attributes", "name"),
    [(0x10, "is_transactional"), (0x20, "is_control"), (0x40, "has_delete_horizon")],
)
def test_each_flag_is_one_bit(attributes: int, name: str) -> None:
    names = {"is_transactional", "is_control", "has_delete_horizon"}
    header = HEADER._replace(attributes=attributes)
    assert {one for one in names if getattr(header, one)} == {name}
    other = HEADER._replace(attributes=~attributes & 0x7F)
    assert {one for one in names if getattr(other, one)} == names - {name}


def test_the_flags_have_names() -> None:
    header = HEADER._replace(attributes=0x7C)
    assert header.codec is Codec.ZSTD
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert header.delete_horizon_ms == 1000


def test_the_high_byte_of_the_attributes_means_nothing() -> None:
    header = HEADER._replace(attributes=-256)
    assert header.codec is Codec.NONE
    assert not header.is_control
    assert decode_batch(rebuilt(attributes=-256)).records() == RECORDS


def test_last_offset_and_sequence_come_from_the_delta_not_the_count() -> None:
    header = HEADER._replace(base_sequence=2**31 - 2, record_count=1)
    assert (header.last_offset, header.last_sequence) == (20, 2)
    assert HEADER._replace(base_sequence=0).last_sequence == 4
    assert HEADER._replace(base_offset=2**63 - 1).last_offset == -(2**63) + 3
    assert HEADER._replace(base_offset=2**63 - 1, last_offset_delta=0).next_offset == -(2**63)


def test_log_append_time_is_the_maximum_timestamp() -> None:
    batch = decode_batch(rebuilt(attributes=0x08, max_timestamp=5555))
    assert [record.timestamp for record in batch.records()] == [5555, 5555]
    # and yet the producer's own times are written again
    assert batch.encode() == bytes(batch.raw)


def test_a_delete_horizon_is_the_base_of_the_timestamps() -> None:
    batch = decode_batch(rebuilt(attributes=0x40, base_timestamp=90_000))
    assert batch.header.delete_horizon_ms == 90_000
    assert [record.timestamp for record in batch.records()] == [90_000, 89_999]


def test_an_empty_batch_is_a_bare_header() -> None:
    # as DefaultRecordBatch.writeEmptyHeader wrote it: offsets 5 to 9, producer 9
    kept = bytes.fromhex(
        "0000000000000005000000310000000702f14a35f7001000000004ffffffffffffffff"
        "0000000000000032000000000000000900010000000200000000"
    )
    batch = decode_batch(kept)
    assert batch.records() == []
    assert batch.encode() == kept
    assert (batch.header.last_offset, batch.header.last_sequence) == (9, 6)
    full = HEADER._replace(
        base_offset=5,
        partition_leader_epoch=7,
        attributes=0x10 | 0x40 | Codec.LZ4,
        max_timestamp=50,
        producer_id=9,
        producer_epoch=1,
        base_sequence=2,
    )
    assert encode_empty_batch(full) == kept


def test_a_batch_of_no_records_is_not_looked_into() -> None:
    batch = decode_batch(rebuilt(b"these are no records", record_count=0, attributes=0x07))
    assert batch.records() == []


def test_a_marker_is_the_78_bytes_kafka_writes() -> None:
    kafkas = bytes.fromhex(
        "000000000000000800000042ffffffff027da69166003000000000000000000000003200000000000000320000"
        "0000000000090001ffffffff000000012000000008000000010c00000000000300"
    )
    commit = SimpleRecord(50, bytes.fromhex("0000 0001"), bytes.fromhex("0000 00000003"))
    written = encode_batch(
        [commit],
        base_offset=8,
        producer_id=9,
        producer_epoch=1,
        is_transactional=True,
        is_control=True,
    )
    assert written == kafkas


# --- damage


def test_a_wrong_checksum_is_told_with_both() -> None:
    batch = decode_batch(BATCH[:-1] + b"\x01", path="x.log")
    assert not batch.is_valid
    computed = rf"computed crc {batch.computed_crc:#010x}"
    with pytest.raises(
        CrcMismatchError, match=rf"^x.log@17: found stored crc 0x242e9348, .*{computed}"
    ):
        batch.ensure_valid()


def test_what_the_checksum_leaves_out_can_change_unseen() -> None:
    stamped = bytearray(BATCH)
    stamped[0:8] = (99).to_bytes(8, "big")
    stamped[12:16] = (77).to_bytes(4, "big")
    stamped[16] = 3
    batch = decode_batch(stamped)
    batch.ensure_valid()
    assert [record.offset for record in batch.records()] == [99, 103]


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (BATCH[:60], TruncatedError, "x@0: found 60 bytes, expected a batch header of 61"),
        (BATCH[:-1], TruncatedError, "x@0: found 81 bytes, expected a batch of 82"),
        (BATCH[:16] + b"\x01" + BATCH[17:], CorruptError, "x@16: found magic 1"),
        (BATCH[:16] + b"\xff" + BATCH[17:], CorruptError, "x@16: found magic -1"),
        (BATCH[:8] + b"\0\0\0\x30" + BATCH[12:], CorruptError, "x@0: found batch of 60 bytes"),
        (BATCH[:8] + b"\xff" * 4 + BATCH[12:], CorruptError, "x@0: found batch of 11 bytes"),
        (BATCH[:8] + b"\x7f" + BATCH[9:], TruncatedError, "x@0: found 82 bytes"),
    ],
)
def test_a_length_is_checked_before_it_is_believed(data, error, message) -> None:
    with pytest.raises(error) as caught:
        decode_batch(data, path="x")
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_still_shows_its_header(codec: int) -> None:
    batch = decode_batch(b"??" + rebuilt(attributes=codec), 2, path="x.log")
    batch.ensure_valid()
    assert batch.header.codec_id == codec
    with pytest.raises(UnsupportedError, match=rf"^x.log@23: found compression codec {codec}"):
        batch.records()
    with pytest.raises(UnsupportedError):
        _ = batch.header.codec


def test_an_error_in_a_record_has_its_position_in_the_file() -> None:
    data = b"?" * 100 + rebuilt(BATCH[61:-1] + b"\x01")  # -1 headers
    with pytest.raises(MalformedRecordError, match=r"^x.log@181: found -1 headers"):
        decode_batch(data, 100, path="x.log").records()


def test_an_error_in_compressed_records_points_at_the_compressed_ones() -> None:
    payload = compress(Codec.LZ4, BATCH[61:-1] + b"\x01")
    batch = decode_batch(rebuilt(payload, attributes=Codec.LZ4), path="x.log")
    with pytest.raises(
        MalformedRecordError,
        match=r"^x.log@61: found in the decompressed records, at 20: -1 headers",
    ):
        batch.records()


def test_an_error_of_a_codec_has_its_position_in_the_file() -> None:
    payload = compress(Codec.LZ4, BATCH[61:])
    batch = decode_batch(rebuilt(payload[:-1], attributes=Codec.LZ4), path="x.log")
    position = 61 + len(payload) - 4
    with pytest.raises(TruncatedError, match=rf"^x.log@{position}: found 3 bytes"):
        batch.records()


def test_a_negative_count_is_corrupt() -> None:
    with pytest.raises(CorruptError, match=r"^<memory>@57: found -1 records"):
        decode_batch(rebuilt(record_count=-1)).records()


@pytest.mark.parametrize("codec", Codec)
def test_records_end_at_the_callers_limit(codec: Codec) -> None:
    batch = decode_batch(encode_batch([SimpleRecord(0, None, bytes(5000))], codec=codec))
    size = len(batch.decompressed_payload())
    assert batch.records(limit=size)[0].value == bytes(5000)
    if codec is not Codec.NONE:  # plain bytes are there already
        with pytest.raises(OverLimitError, match=f"at most {size - 1} bytes"):
            batch.records(limit=size - 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"is_transactional": True}, "needs a producer id"),
        ({"producer_id": 1, "base_sequence": 0}, "needs an epoch"),
        ({"producer_id": 1, "producer_epoch": 0}, "must be >= 0"),
        ({"timestamp_type": TimestampType.NO_TIMESTAMP_TYPE}, "CreateTime or LogAppendTime"),
    ],
)
def test_what_kafkas_builder_refuses_is_a_value_error(options, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode_batch([SimpleRecord(0, None, None)], **options)


def test_no_records_make_no_batch() -> None:
    assert encode_batch([]) == b""


# --- everything


@given(batch_options())
@settings(deadline=None)
def test_what_is_written_is_read(options) -> None:
    batch = decode_batch(encode_batch(**options))
    batch.ensure_valid()
    header, records = batch.header, batch.records()
    assert header.codec is options["codec"]
    assert header.timestamp_type is options["timestamp_type"]
    assert header.delete_horizon_ms == options["delete_horizon_ms"]
    assert header.is_transactional is options.get("is_transactional", False)
    assert header.last_offset == options.get("last_offset", last_offset_of(options))
    assert header.producer_id == options.get("producer_id", -1)
    assert [(r.key, r.value, r.headers) for r in records] == [
        (r.key, r.value, r.headers) for r in options["records"]
    ]
    if header.timestamp_type is TimestampType.CREATE_TIME:
        assert [r.timestamp for r in records] == [r.timestamp for r in options["records"]]
        assert header.max_timestamp == max(r.timestamp for r in options["records"])
    else:
        assert {r.timestamp for r in records} == {options["log_append_time"]}
    assert batch.encode() == bytes(batch.raw)


@given(st.data(), batch_headers)
def test_a_batch_of_any_fields_comes_back(data: st.DataObject, header: BatchHeader) -> None:
    records = data.draw(records_near(header.base_offset))
    header = header._replace(attributes=header.attributes & ~0x0F, record_count=len(records))
    payload = encode_records(
        records, base_offset=header.base_offset, base_timestamp=header.base_timestamp
    )
    written = assemble(header, payload)
    batch = decode_batch(written)
    assert batch.is_valid
    size = {"batch_length": len(written) - 12, "crc": batch.computed_crc}
    assert batch.header == header._replace(**size)
    assert [r._replace(sequence=-1) for r in batch.records()] == records
    assert batch.encode() == written


@given(st.binary(max_size=150))
def test_any_bytes_are_a_batch_or_a_format_error(data: bytes) -> None:
    def everything(raw: bytes) -> None:
        batch = decode_batch(raw)
        batch.records(limit=2**20)

    value_or_error(everything, data)


@given(batch_headers, st.binary(max_size=60))
def test_any_header_before_any_bytes_is_a_batch_or_a_format_error(
    header: BatchHeader, payload: bytes
) -> None:
    batch = decode_batch(assemble(header, payload))
    for property_ in ("last_offset", "next_offset", "last_sequence", "delete_horizon_ms"):
        getattr(batch.header, property_)
    struct.pack(">qi", batch.header.last_offset, batch.header.last_sequence)  # they fit
    try:
        batch.encode(limit=2**20)
    except FormatError:
        with pytest.raises(FormatError):
            batch.records(limit=2**20)
