"""Two independent clients as witnesses: each reads what we write, and we what they write.

kafka-python decodes all three magics; kio reads and writes magic 2 without compression. Both know
less than the format (kio drops milliseconds), so only what they do know is compared.
"""

import datetime as dt
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.record.memory_records import MemoryRecords
from kio.records import readers as kio_readers
from kio.records import schema as kio_schema
from kio.records import writers as kio_writers
from kio.static.primitive import TZAwareMicros, i8, i16, i32, i64

from kafka_format.batch import decode_batch, encode_batch
from kafka_format.compression import Codec
from kafka_format.legacy import encode_legacy_batch
from kafka_format.log_file import iter_batches
from kafka_format.record import Header, SimpleRecord, TimestampType
from tests.strategies import headers, nullable_blobs

NOW = 1_700_000_000_123
KNOWN = [Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD]  # kafka-python has no snappy here
LEGACY = [  # the lz4 of magic 0 it knows with the xxhash package only
    *((0, codec) for codec in (Codec.NONE, Codec.GZIP)),
    *((1, codec) for codec in (Codec.NONE, Codec.GZIP, Codec.LZ4)),
]
RECORDS = [
    SimpleRecord(NOW, b"key", b"value", (Header("h", b"1"), Header("h", None), Header("", b""))),
    SimpleRecord(NOW + 5, None, b"", ()),
    SimpleRecord(NOW - 70_000, b"", None, (), 1007),
    SimpleRecord(NOW, b"k" * 200, b"v" * 70_000),
]


def seen_by_kafka_python(data: bytes) -> list[tuple]:
    log, seen = MemoryRecords(data), []
    while log.has_next():
        batch = log.next_batch()
        assert batch.validate_crc()
        seen += [
            (r.offset, r.timestamp, r.timestamp_type, r.key, r.value, list(r.headers))
            for r in batch
        ]
    return seen


def seen_by_us(data: bytes) -> list[tuple]:
    seen = []
    for batch in iter_batches(data):
        batch.ensure_valid()
        kind = batch.header.timestamp_type
        for r in batch.records():
            # kafka-python's records of magic 0 have no time and no type
            timestamp = None if r.timestamp == -1 and batch.magic == 0 else r.timestamp
            shown = None if kind is TimestampType.NO_TIMESTAMP_TYPE else int(kind)
            seen.append((r.offset, timestamp, shown, r.key, r.value, [tuple(h) for h in r.headers]))
    return seen


@pytest.mark.parametrize("codec", KNOWN)
@pytest.mark.parametrize(
    "timestamp_type", [TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME]
)
def test_kafka_python_reads_our_batches(codec: Codec, timestamp_type: TimestampType) -> None:
    data = encode_batch(
        RECORDS,
        base_offset=1000,
        codec=codec,
        timestamp_type=timestamp_type,
        log_append_time=NOW + 9,
        producer_id=5,
        producer_epoch=1,
        base_sequence=7,
    )
    seen = seen_by_kafka_python(data)
    assert [record[0] for record in seen] == [1000, 1001, 1007, 1008]
    assert [record[3:5] for record in seen] == [(r.key, r.value) for r in RECORDS]
    assert seen == seen_by_us(data)


@pytest.mark.parametrize(("magic", "codec"), LEGACY)
def test_kafka_python_reads_our_legacy_messages(magic: int, codec: Codec) -> None:
    records = [record._replace(headers=()) for record in RECORDS]
    data = encode_legacy_batch(records, magic=magic, base_offset=1000, codec=codec)
    seen = seen_by_kafka_python(data)
    assert [record[0] for record in seen] == [1000, 1001, 1007, 1008]
    assert [record[3:5] for record in seen] == [(r.key, r.value) for r in RECORDS]
    assert seen == seen_by_us(data)


@pytest.mark.parametrize("codec", KNOWN)
def test_we_read_the_batches_of_kafka_python(codec: Codec) -> None:
    builder = DefaultRecordBatchBuilder(2, int(codec), 1, 2**40, 3, 9, 10**6)
    for offset, record in enumerate(RECORDS):
        named = [tuple(header) for header in record.headers]
        builder.append(offset, record.timestamp, record.key, record.value, named)
    data = bytes(builder.build())
    (batch,) = iter_batches(data)
    header = batch.header
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (2**40, 3, 9)
    assert header.is_transactional
    assert header.codec is codec
    assert [r._replace(offset=None) for r in RECORDS] == [
        SimpleRecord.of(r)._replace(offset=None) for r in batch.records()
    ]
    assert seen_by_us(data) == seen_by_kafka_python(data)


@pytest.mark.parametrize(("magic", "codec"), LEGACY)
def test_we_read_the_messages_of_kafka_python(magic: int, codec: Codec) -> None:
    builder = LegacyRecordBatchBuilder(magic, int(codec), 10**6)
    for offset, record in enumerate(RECORDS):
        timestamp = record.timestamp if magic else None
        builder.append(offset, timestamp=timestamp, key=record.key, value=record.value)
    data = bytes(builder.build())
    assert [record[3:5] for record in seen_by_us(data)] == [(r.key, r.value) for r in RECORDS]
    assert seen_by_us(data) == seen_by_kafka_python(data)


simple = st.builds(
    SimpleRecord, st.integers(0, 2**41), nullable_blobs, nullable_blobs, headers, st.none()
)


@given(st.lists(simple, min_size=1, max_size=6), st.sampled_from(KNOWN))
@settings(deadline=None)
def test_kafka_python_sees_what_we_see(records: list[SimpleRecord], codec: Codec) -> None:
    data = encode_batch(records, base_offset=5, codec=codec)
    assert seen_by_us(data) == seen_by_kafka_python(data)


def test_kio_reads_our_batches() -> None:
    data = encode_batch(RECORDS, base_offset=1000, producer_id=5, producer_epoch=1, base_sequence=7)
    theirs, size = kio_readers.read_batch(b"??" + data, 2)
    ours = decode_batch(data)
    assert size == len(data)
    for name in (
        *("base_offset", "batch_length", "partition_leader_epoch", "crc", "attributes"),
        *("last_offset_delta", "base_timestamp", "max_timestamp"),
        *("producer_id", "producer_epoch", "base_sequence"),
    ):
        assert getattr(theirs, name) == getattr(ours.header, name), name
    for record, own in zip(theirs.records, ours.records(), strict=True):
        assert (record.offset, record.key, record.value) == (own.offset, own.key, own.value)
        assert [(h.key.decode(), h.value) for h in record.headers] == [
            tuple(h) for h in own.headers
        ]
        assert int(record.timestamp.timestamp()) == own.timestamp // 1000


def test_we_read_the_batches_of_kio() -> None:
    when = TZAwareMicros.parse(dt.datetime.fromtimestamp(NOW // 1000, dt.UTC))
    new = kio_schema.NewRecordBatch(
        producer_id=i64(3),
        producer_epoch=i16(1),
        partition_leader_epoch=i32(4),
        base_sequence=i32(0),
        attributes=i16(0),
        records=(
            kio_schema.Record(
                attributes=i8(0),
                timestamp=when,
                offset=i64(0),
                key=b"k",
                value=None,
                headers=(kio_schema.RecordHeader(key=b"h", value=None),),
            ),
            kio_schema.Record(
                attributes=i8(0), timestamp=when, offset=i64(1), key=None, value=b"", headers=()
            ),
        ),
    )
    out = io.BytesIO()
    kio_writers.write_batch(out, new)
    batch = decode_batch(out.getvalue())
    batch.ensure_valid()
    assert batch.header.partition_leader_epoch == 4
    assert [(r.offset, r.sequence, r.key, r.value, r.headers) for r in batch.records()] == [
        (0, 0, b"k", None, (Header("h", None),)),
        (1, 1, None, b"", ()),
    ]
    assert {r.timestamp for r in batch.records()} == {NOW // 1000 * 1000}
