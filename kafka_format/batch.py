"""Record batches of magic 2: the 61-byte header, and the batch as read and as written.

    offset  field
         0  baseOffset i64             16  magic i8 = 2               43  producerId i64
         8  batchLength i32            17  crc u32 (CRC-32C)          51  producerEpoch i16
        12  partitionLeaderEpoch i32   21  attributes i16             53  baseSequence i32
                                       23  lastOffsetDelta i32        57  recordCount i32
                                       27  baseTimestamp i64          61  records, compressed
                                       35  maxTimestamp i64               as one if the codec says

The checksum covers everything from `attributes` on, so a broker can set the offset and the leader
epoch without changing it: a good checksum says nothing about the first 17 bytes. Compaction keeps
`lastOffsetDelta` and the sequences but changes `recordCount`: never derive one from the other.

Mirrors org.apache.kafka.common.record.DefaultRecordBatch and MemoryRecordsBuilder.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import NamedTuple, Self

from kafka_format.attributes import (
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    TRANSACTIONAL,
)
from kafka_format.batch_layout import (
    ATTRIBUTES_AT,
    BATCH,
    CRC_AT,
    LENGTH_END,
    MAGIC_AT,
    RECORD_COUNT_AT,
)
from kafka_format.checksum import crc32c
from kafka_format.compression import Codec, codec_of, compress, decompress
from kafka_format.errors import (
    MEMORY,
    CorruptError,
    FormatError,
    Location,
    TruncatedError,
)
from kafka_format.primitives import Buffer
from kafka_format.record import (
    NO_SEQUENCE,
    NO_TIMESTAMP,
    SLICE_RECORDS,
    Record,
    SimpleRecord,
    TimestampType,
    decode_records,
    encode_records,
    increment_sequence,
    iter_record_slices,
    with_offsets,
    wrap_int64,
)
from kafka_format.stored_batch import StoredBatch

MAGIC = 2
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_PARTITION_LEADER_EPOCH = -1

_HEADER = BATCH.struct
_CRC = BATCH.field("crc").struct
HEADER_SIZE = _HEADER.size  # 61


class BatchHeader(NamedTuple):
    """The fixed part of a batch, every field as stored."""

    base_offset: int
    batch_length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @classmethod
    def unpack(cls, buffer: Buffer, position: int = 0) -> Self:
        """Return the header at `position`. The caller ensures that 61 bytes are there."""
        return tuple.__new__(cls, _HEADER.unpack_from(buffer, position))  # _make, but twice as fast

    def pack(self) -> bytes:
        return _HEADER.pack(*self)

    @property
    def size_in_bytes(self) -> int:
        return LENGTH_END + self.batch_length

    @property
    def codec_id(self) -> int:
        """The three bits as stored; 5 to 7 are not defined."""
        return self.attributes & CODEC_MASK

    @property
    def codec(self) -> Codec:
        return codec_of(self.attributes)

    @property
    def timestamp_type(self) -> TimestampType:
        if self.attributes & LOG_APPEND_TIME:
            return TimestampType.LOG_APPEND_TIME
        return TimestampType.CREATE_TIME

    @property
    def log_append_time(self) -> int | None:
        """The timestamp of every record under LogAppendTime, else None."""
        return self.max_timestamp if self.attributes & LOG_APPEND_TIME else None

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON)

    @property
    def delete_horizon_ms(self) -> int | None:
        """When tombstones and markers may be removed; stored in place of the base timestamp."""
        return self.base_timestamp if self.has_delete_horizon else None

    @property
    def last_offset(self) -> int:
        """The last offset, also where compaction removed the last record."""
        return wrap_int64(self.base_offset + self.last_offset_delta)

    @property
    def next_offset(self) -> int:
        return wrap_int64(self.last_offset + 1)

    @property
    def last_sequence(self) -> int:
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)


class RecordBatch(StoredBatch[BatchHeader]):
    """A batch as read: its header, its location, and its bytes, which are decoded on demand."""

    __slots__ = ()
    CRC_POSITION = CRC_AT

    def __repr__(self) -> str:
        header = self.header
        return (
            f"RecordBatch({self.location}, offsets {header.base_offset} to {header.last_offset}, "
            f"{header.record_count} records, {header.size_in_bytes} bytes)"
        )

    @property
    def payload(self) -> memoryview:
        """The records as stored, compressed or not."""
        return self.raw[HEADER_SIZE:]

    @property
    def computed_crc(self) -> int:
        return crc32c(self.raw[ATTRIBUTES_AT:])

    def decompressed_payload(self, *, limit: int | None = None) -> bytes:
        """Return the decompressed records, at most `limit` bytes (compression.default_limit)."""
        if not self.header.attributes & CODEC_MASK:
            return bytes(self.raw[HEADER_SIZE:])
        codec = codec_of(
            self.header.attributes, path=self.path, position=self.position + ATTRIBUTES_AT
        )
        try:
            return decompress(codec, self.payload, magic=self.header.magic, limit=limit)
        except FormatError as error:
            raise error.moved(self.path, self.position + HEADER_SIZE) from None

    def records(self, *, limit: int | None = None) -> list[Record]:
        """Decode the records. `ensure_valid` checks the checksum, this does not.

        The payload of a batch with a record count of 0 is not decoded, whatever it holds. Kafka
        does the same: it keeps the bare headers of batches that compaction emptied.
        """
        payload = self._plain_records(limit)
        try:
            return decode_payload(self.header, payload)
        except FormatError as error:
            raise self._located(error) from None

    def iter_records(self, *, limit: int | None = None) -> Iterator[Record]:
        """Iterate over `records` with at most SLICE_RECORDS of them decoded at a time.

        An error in any record is raised by this call, before the first record is returned. So a
        batch of more records than that is decoded twice.
        """
        return self._iter_checked(limit, self.header.log_append_time)

    def iter_stored_records(self, *, limit: int | None = None) -> Iterator[Record]:
        """Iterate over the records with their stored timestamps, also under LogAppendTime."""
        return self._iter_checked(limit, None)

    def encode(self, *, limit: int | None = None) -> bytes:
        """Encode the batch again from its fields and records, as Kafka would write them."""
        header = self.header
        payload = encode_records(
            self.iter_stored_records(limit=limit),
            base_offset=header.base_offset,
            base_timestamp=header.base_timestamp,
        )
        if header.record_count:
            payload = compress(header.codec, payload, magic=header.magic)
        return assemble(header, payload)

    def _plain_records(self, limit: int | None) -> bytes:
        """Return the decompressed records; nothing if `record_count` is 0."""
        count = self.header.record_count
        if count == 0:
            return b""
        if count < 0:
            raise CorruptError(
                self._location_of(RECORD_COUNT_AT), f"{count} records", "0 records or more"
            )
        return self.decompressed_payload(limit=limit)

    def _iter_checked(self, limit: int | None, log_append_time: int | None) -> Iterator[Record]:
        payload = self._plain_records(limit)
        slices = iter_payload_slices(self.header, payload, log_append_time)
        try:
            last = deque(slices, maxlen=1)
        except FormatError as error:
            raise self._located(error) from None
        if self.header.record_count <= SLICE_RECORDS:
            return chain.from_iterable(last)  # the only slice
        return chain.from_iterable(iter_payload_slices(self.header, payload, log_append_time))

    def _located(self, error: FormatError) -> FormatError:
        """Return an error in the payload with its position in the file."""
        return located_in_payload(
            error, self._location_of(HEADER_SIZE), is_compressed=self.header.codec_id != 0
        )

    def _location_of(self, offset: int) -> Location:
        return Location(self.path, self.position + offset)


def located_in_payload(
    error: FormatError, payload: Location, *, is_compressed: bool
) -> FormatError:
    """Return an error in the records with its position in the file.

    Decompressed bytes have no position there: their errors point at the compressed payload.
    """
    if not is_compressed:
        return error.moved(payload.path, payload.position)
    found = f"in the decompressed records, at {error.location.position}: {error.found}"
    return type(error)(payload, found, error.expected)


def decode_batch(buffer: Buffer, position: int = 0, *, path: str = MEMORY) -> RecordBatch:
    """Return the batch that begins at `position`. Its length is checked, its checksum is not."""
    left = len(buffer) - position
    if left < HEADER_SIZE:
        raise TruncatedError(
            Location(path, position), f"{left} bytes", f"a batch header of {HEADER_SIZE}"
        )
    header = BatchHeader.unpack(buffer, position)
    size = LENGTH_END + header.batch_length
    if header.magic < MAGIC:
        raise CorruptError(
            Location(path, position + MAGIC_AT),
            f"magic {header.magic}",
            f"a batch of magic {MAGIC}",
        )
    if size < HEADER_SIZE:
        raise CorruptError(
            Location(path, position), f"batch of {size} bytes", f"at least {HEADER_SIZE}"
        )
    if size > left:
        raise TruncatedError(Location(path, position), f"{left} bytes", f"a batch of {size}")
    raw = memoryview(buffer)[position : position + size]
    return RecordBatch(header, path, position, raw)


def decode_payload(header: BatchHeader, payload: bytes) -> list[Record]:
    """Decode the decompressed records of a batch; positions in errors count from their start."""
    return decode_records(
        payload,
        header.record_count,
        base_offset=header.base_offset,
        base_timestamp=header.base_timestamp,
        base_sequence=header.base_sequence,
        log_append_time=header.log_append_time,
    )


def iter_payload_slices(
    header: BatchHeader, payload: bytes, log_append_time: int | None, size: int = SLICE_RECORDS
) -> Iterator[list[Record]]:
    """Decode the decompressed records of a batch, `size` at a time.

    With a `log_append_time` it replaces the timestamps; None leaves them as stored.
    """
    return iter_record_slices(
        payload,
        header.record_count,
        base_offset=header.base_offset,
        base_timestamp=header.base_timestamp,
        base_sequence=header.base_sequence,
        log_append_time=log_append_time,
        size=size,
    )


def assemble(header: BatchHeader, payload: Buffer) -> bytes:
    """Join a header and (compressed) records to a batch; length and checksum are computed."""
    length = HEADER_SIZE - LENGTH_END + len(payload)
    out = bytearray(header._replace(batch_length=length, crc=0).pack())
    out += payload
    _CRC.pack_into(out, CRC_AT, crc32c(memoryview(out)[ATTRIBUTES_AT:]))
    return bytes(out)


def encode_batch(  # noqa: PLR0913 - a keyword for each field that MemoryRecordsBuilder takes
    records: Iterable[SimpleRecord],
    *,
    base_offset: int = 0,
    codec: Codec = Codec.NONE,
    level: int | None = None,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    log_append_time: int = NO_TIMESTAMP,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
    is_control: bool = False,
    partition_leader_epoch: int = NO_PARTITION_LEADER_EPOCH,
    delete_horizon_ms: int | None = None,
    last_offset: int | None = None,
) -> bytes:
    """Encode a batch as MemoryRecordsBuilder does; no bytes if there are no records.

    `last_offset` is for a batch whose last records were removed by compaction. Raises ValueError
    where the builder throws.
    """
    placed = with_offsets(records, base_offset)
    if not placed:
        return b""
    _check_producer(
        producer_id, producer_epoch, base_sequence, is_transactional, is_control=is_control
    )
    is_append_time = timestamp_type is TimestampType.LOG_APPEND_TIME
    horizon = NO_TIMESTAMP if delete_horizon_ms is None else delete_horizon_ms
    has_horizon = horizon >= 0
    base_timestamp = horizon if has_horizon else placed[0].timestamp
    header = BatchHeader(
        base_offset=base_offset,
        batch_length=0,
        partition_leader_epoch=partition_leader_epoch,
        magic=MAGIC,
        crc=0,
        attributes=attributes_of(
            codec,
            timestamp_type,
            is_transactional=is_transactional,
            is_control=is_control,
            has_delete_horizon=has_horizon,
        ),
        last_offset_delta=(placed[-1].offset if last_offset is None else last_offset) - base_offset,
        base_timestamp=base_timestamp,
        max_timestamp=log_append_time if is_append_time else max(r.timestamp for r in placed),
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        record_count=len(placed),
    )
    payload = encode_records(placed, base_offset=base_offset, base_timestamp=base_timestamp)
    return assemble(header, compress(codec, payload, level=level))


def encode_empty_batch(header: BatchHeader) -> bytes:
    """Encode what compaction leaves of a batch without records: 61 bytes with the producer's state.

    Offsets, producer, leader epoch, timestamp type, maximum timestamp and the transactional and
    control bits are kept; codec and delete horizon are cleared, the base timestamp becomes -1.
    """
    kept = LOG_APPEND_TIME | TRANSACTIONAL | CONTROL
    return assemble(
        header._replace(
            attributes=header.attributes & kept, base_timestamp=NO_TIMESTAMP, record_count=0
        ),
        b"",
    )


def attributes_of(
    codec: Codec,
    timestamp_type: TimestampType,
    *,
    is_transactional: bool = False,
    is_control: bool = False,
    has_delete_horizon: bool = False,
) -> int:
    """Return the attributes field. Kafka builds it from these: a rewrite loses other bits."""
    if timestamp_type is TimestampType.NO_TIMESTAMP_TYPE:
        raise ValueError("a batch of magic 2 has CreateTime or LogAppendTime")
    attributes = int(codec)
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= LOG_APPEND_TIME
    if is_transactional:
        attributes |= TRANSACTIONAL
    if is_control:
        attributes |= CONTROL
    if has_delete_horizon:
        attributes |= DELETE_HORIZON
    return attributes


def _check_producer(
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    is_transactional: bool,
    *,
    is_control: bool,
) -> None:
    if producer_id == NO_PRODUCER_ID:
        if is_transactional:
            raise ValueError("a transactional batch needs a producer id")
        return
    if producer_epoch == NO_PRODUCER_EPOCH:
        raise ValueError(f"producer {producer_id} needs an epoch")
    if base_sequence < 0 and not is_control:
        raise ValueError(f"base sequence {base_sequence} of producer {producer_id}: must be >= 0")
