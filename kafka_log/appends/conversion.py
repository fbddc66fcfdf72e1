"""Write records again, because their magic, codec or offsets are not what the log requires.

Mirrors MemoryRecordsBuilder as LogValidator uses it: one batch of magic 2, one compressed wrapper,
or one message per record, with consecutive offsets. Where the builder throws a Java exception (a
timestamp below -1, headers in an old format) this raises UnknownServerError.
"""

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from kafka_format.batch import HEADER_SIZE, BatchHeader, assemble, attributes_of
from kafka_format.batch_layout import LENGTH_END, SMALLEST_LENGTHS
from kafka_format.compression import Codec, compress
from kafka_format.java_text import decode_utf8
from kafka_format.legacy import encode_legacy_batch
from kafka_format.primitives import Buffer
from kafka_format.record import (
    NO_SEQUENCE,
    NO_TIMESTAMP,
    Header,
    Record,
    SimpleRecord,
    TimestampType,
    encode_records,
)
from kafka_log.appends.batches import LegacyRecord
from kafka_log.errors import UnknownServerError

AnyRecord: TypeAlias = Record | LegacyRecord

_NO_PRODUCER_ID = -1
_NO_PRODUCER_EPOCH = -1
_MESSAGE_OVERHEAD = tuple(LENGTH_END + length for length in SMALLEST_LENGTHS[:2])  # by magic


class TargetCompression(NamedTuple):
    """A codec and its level; None means Kafka's default level."""

    codec: Codec
    level: int | None = None


class BatchFields(NamedTuple):
    """The fields of a new batch that do not come from its records."""

    magic: int
    compression: TargetCompression
    timestamp_type: TimestampType
    base_offset: int
    log_append_time: int
    partition_leader_epoch: int
    producer_id: int = _NO_PRODUCER_ID
    producer_epoch: int = _NO_PRODUCER_EPOCH
    base_sequence: int = NO_SEQUENCE
    is_transactional: bool = False


class BuiltRecords(NamedTuple):
    """The result of the builder. Without records there are no bytes."""

    data: bytes
    num_records: int
    max_timestamp: int
    uncompressed_bytes_written: int


class RecordsBuilder:
    """Builds a batch record by record, and refuses what Kafka's builder refuses."""

    def __init__(self, fields: BatchFields) -> None:
        if fields.magic < 2 and fields.is_transactional:
            raise UnknownServerError(f"transactional records in magic {fields.magic}")
        if fields.magic < 2 and fields.compression.codec is Codec.ZSTD:
            raise UnknownServerError(f"zstd in magic {fields.magic}")
        self._fields = fields
        self._records: list[Record] = []

    @property
    def next_offset(self) -> int:
        return self._fields.base_offset + len(self._records)

    def append(self, record: AnyRecord) -> None:
        if record.timestamp < NO_TIMESTAMP:
            raise UnknownServerError(f"timestamp {record.timestamp}: cannot be written")
        if record.headers and self._fields.magic < 2:
            raise UnknownServerError(f"record headers in magic {self._fields.magic}")
        headers = tuple(map(_through_java_string, record.headers)) if record.headers else ()
        offset = self.next_offset
        self._records.append(
            Record(offset, record.timestamp, record.key, record.value, headers, NO_SEQUENCE, 0)
        )

    def build(self) -> BuiltRecords:
        fields, records = self._fields, self._records
        _check_producer(fields)
        if not records:
            return self._built(b"", batch_overhead(fields.magic, fields.compression.codec))
        if fields.magic < 2:
            return self._build_messages()
        base_timestamp = records[0].timestamp
        payload = encode_records(
            records, base_offset=fields.base_offset, base_timestamp=base_timestamp
        )
        timestamps = (base_timestamp, self._max_timestamp)
        data = _assemble_batch(fields, payload, len(records), timestamps)
        return self._built(data, HEADER_SIZE + len(payload))

    def _build_messages(self) -> BuiltRecords:
        fields = self._fields
        codec, level = fields.compression
        data = encode_legacy_batch(
            map(SimpleRecord.of, self._records),
            magic=fields.magic,
            base_offset=fields.base_offset,
            codec=codec,
            level=level,
            timestamp_type=fields.timestamp_type,
            log_append_time=fields.log_append_time,
        )
        size = sum(len(each.key or b"") + len(each.value or b"") for each in self._records)
        size += len(self._records) * _MESSAGE_OVERHEAD[fields.magic]
        size += batch_overhead(fields.magic, codec)
        return self._built(data, size)

    @property
    def _max_timestamp(self) -> int:
        if self._fields.timestamp_type is TimestampType.LOG_APPEND_TIME:
            return self._fields.log_append_time
        if self._fields.magic == 0:
            return NO_TIMESTAMP
        return max((record.timestamp for record in self._records), default=NO_TIMESTAMP)

    def _built(self, data: bytes, uncompressed: int) -> BuiltRecords:
        return BuiltRecords(data, len(self._records), self._max_timestamp, uncompressed)


def build_batch(
    fields: BatchFields, payload: Buffer, count: int, *, base_timestamp: int, max_timestamp: int
) -> BuiltRecords:
    """Build one batch of magic 2 from records that only change their codec."""
    _check_producer(fields)
    if fields.timestamp_type is TimestampType.LOG_APPEND_TIME:
        max_timestamp = fields.log_append_time
    data = _assemble_batch(fields, payload, count, (base_timestamp, max_timestamp))
    return BuiltRecords(data, count, max_timestamp, HEADER_SIZE + len(payload))


def _check_producer(fields: BatchFields) -> None:
    if fields.producer_id == _NO_PRODUCER_ID:
        if fields.is_transactional:
            raise UnknownServerError("transactional records without a producer id")
        return
    if fields.producer_epoch == _NO_PRODUCER_EPOCH or fields.base_sequence < 0:
        raise UnknownServerError(
            f"producer {fields.producer_id} with epoch {fields.producer_epoch} "
            f"and base sequence {fields.base_sequence}"
        )
    if fields.magic < 2:
        raise UnknownServerError(f"idempotent records in magic {fields.magic}")


def _assemble_batch(
    fields: BatchFields, payload: Buffer, count: int, timestamps: tuple[int, int]
) -> bytes:
    codec, level = fields.compression
    header = BatchHeader(
        base_offset=fields.base_offset,
        batch_length=0,
        partition_leader_epoch=fields.partition_leader_epoch,
        magic=2,
        crc=0,
        attributes=attributes_of(
            codec, fields.timestamp_type, is_transactional=fields.is_transactional
        ),
        last_offset_delta=count - 1,
        base_timestamp=timestamps[0],
        max_timestamp=timestamps[1],
        producer_id=fields.producer_id,
        producer_epoch=fields.producer_epoch,
        base_sequence=fields.base_sequence,
        record_count=count,
    )
    return assemble(header, compress(codec, payload, level=level))


def build_records(fields: BatchFields, records: Iterable[AnyRecord]) -> BuiltRecords:
    builder = RecordsBuilder(fields)
    for record in records:
        builder.append(record)
    return builder.build()


def batch_overhead(magic: int, codec: Codec) -> int:
    """Return the bytes around the records: a header, a wrapper, or none."""
    if magic == 2:
        return HEADER_SIZE
    return 0 if codec is Codec.NONE else _MESSAGE_OVERHEAD[magic]


def _through_java_string(header: Header) -> Header:
    """Replace key bytes that are not UTF-8, as a Java String does."""
    try:
        header.key.encode()
    except UnicodeEncodeError:
        return Header(decode_utf8(header.key.encode("utf-8", "surrogateescape")), header.value)
    return header
