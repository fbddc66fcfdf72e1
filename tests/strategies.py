"""hypothesis strategies as wide as Kafka's formats: the whole range of every integer, null and
empty, no records at all, deltas that go back.

Narrower ones hide bugs (a client's own once drew whole seconds only, and lost the milliseconds).
"""

from typing import Any

from hypothesis import strategies as st

from kafka_format.batch import BatchHeader
from kafka_format.compression import Codec, compress
from kafka_format.legacy import LegacyHeader, LegacyMessage, encode_message
from kafka_format.record import NO_SEQUENCE, Header, Record, SimpleRecord, TimestampType

int8s = st.integers(-(2**7), 2**7 - 1)
int16s = st.integers(-(2**15), 2**15 - 1)
int32s = st.integers(-(2**31), 2**31 - 1)
int64s = st.integers(-(2**63), 2**63 - 1)
uint32s = st.integers(0, 2**32 - 1)

# Bytes that compress, bytes that do not, and lengths on both sides of a varint's next byte.
blobs = st.one_of(
    st.binary(max_size=80),
    st.builds(
        lambda byte, size: byte * size, st.binary(min_size=1, max_size=1), st.integers(0, 9000)
    ),
)
nullable_blobs = st.none() | blobs
header_keys = st.text(st.characters(codec="utf-8"), max_size=20)
headers = st.lists(st.builds(Header, header_keys, nullable_blobs), max_size=4).map(tuple)
# A header key can be any bytes on disk; what is not UTF-8 is kept as lone surrogates.
wild_headers = st.lists(
    st.builds(
        Header,
        st.binary(max_size=8).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
        nullable_blobs,
    ),
    max_size=3,
).map(tuple)

# What a writer may give: -1 for none, or a time since 1970.
timestamps = st.just(-1) | st.integers(0, 2**63 - 1)
codecs = st.sampled_from(Codec)
timestamp_types = st.sampled_from([TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME])
base_offsets = st.one_of(st.integers(0, 2**20), st.integers(0, 2**62))


@st.composite
def simple_records(
    draw: st.DrawFn,
    *,
    base_offset: int = 0,
    min_size: int = 1,
    max_size: int = 12,
    with_headers: bool = True,
) -> list[SimpleRecord]:
    """Records to write: with gaps as compaction leaves them, and in any order of time."""
    records = []
    next_offset = base_offset
    near = draw(timestamps)
    for _ in range(draw(st.integers(min_size, max_size))):
        gap = draw(st.sampled_from([0, 0, 0, 1, 7, 300, 70_000]))
        offset = next_offset + gap if gap else None
        timestamp = draw(st.just(near) | timestamps)
        own_headers = draw(headers) if with_headers else ()
        key, value = draw(nullable_blobs), draw(nullable_blobs)
        records.append(SimpleRecord(timestamp, key, value, own_headers, offset))
        next_offset += gap + 1
    return records


@st.composite
def batch_options(draw: st.DrawFn) -> dict[str, Any]:
    """Keyword arguments of encode_batch that Kafka's builder takes too, records included."""
    base_offset = draw(base_offsets)
    options: dict[str, Any] = {
        "records": draw(simple_records(base_offset=base_offset)),
        "base_offset": base_offset,
        "codec": draw(codecs),
        "timestamp_type": draw(timestamp_types),
        "log_append_time": draw(timestamps),
        "partition_leader_epoch": draw(st.integers(-1, 2**31 - 1)),
        "delete_horizon_ms": draw(st.none() | st.integers(0, 2**63 - 1)),
    }
    if draw(st.booleans()):
        options["producer_id"] = draw(st.integers(0, 2**63 - 1))
        options["producer_epoch"] = draw(st.integers(0, 2**15 - 1))
        options["base_sequence"] = draw(st.integers(0, 2**31 - 1))
        options["is_transactional"] = draw(st.booleans())
    if draw(st.booleans()):
        options["last_offset"] = last_offset_of(options) + draw(st.integers(0, 1000))
    return options


def last_offset_of(options: dict[str, Any]) -> int:
    """The offset of the last record that batch_options would place."""
    offset = options["base_offset"] - 1
    for record in options["records"]:
        offset = offset + 1 if record.offset is None else record.offset
    return offset


@st.composite
def legacy_options(draw: st.DrawFn) -> dict[str, Any]:
    """Keyword arguments of encode_legacy_batch that Kafka's builder takes too."""
    magic = draw(st.sampled_from([0, 1]))
    base_offset = draw(base_offsets)
    records = draw(simple_records(base_offset=base_offset, with_headers=False))
    return {
        "records": records,
        "magic": magic,
        "base_offset": base_offset,
        "codec": draw(st.sampled_from([Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])),
        "timestamp_type": draw(timestamp_types) if magic else TimestampType.NO_TIMESTAMP_TYPE,
        "log_append_time": draw(timestamps),
    }


# A header whose every field is anything at all; length and checksum are for `assemble` to fill.
batch_headers = st.builds(
    BatchHeader,
    base_offset=int64s,
    batch_length=st.just(0),
    partition_leader_epoch=int32s,
    magic=st.just(2),
    crc=st.just(0),
    attributes=int16s,
    last_offset_delta=int32s,
    base_timestamp=int64s,
    max_timestamp=int64s,
    producer_id=int64s,
    producer_epoch=int16s,
    base_sequence=int32s,
    record_count=int32s,
)


@st.composite
def records_near(draw: st.DrawFn, base_offset: int) -> list[Record]:
    """Records as a decoder may meet them: any delta, any timestamp, offsets in no order."""
    return draw(
        st.lists(
            st.builds(
                Record,
                offset=int32s.map(lambda delta: (base_offset + delta + 2**63) % 2**64 - 2**63),
                timestamp=int64s,
                key=nullable_blobs,
                value=nullable_blobs,
                headers=wild_headers,
                sequence=st.just(NO_SEQUENCE),
                attributes=int8s,
            ),
            max_size=6,
        )
    )


@st.composite
def legacy_messages(draw: st.DrawFn) -> LegacyMessage:
    """Messages of magic 0 and 1, alone or in a wrapper: any offset, time and flag but a codec."""
    magic = draw(st.sampled_from([0, 1]))
    header = LegacyHeader(
        offset=draw(st.integers(0, 4) | int64s),
        size=0,
        crc=0,
        magic=magic,
        attributes=draw(int8s) & ~7,
        timestamp=draw(int64s) if magic else -1,
    )
    return LegacyMessage(header, draw(nullable_blobs), draw(nullable_blobs))


@st.composite
def legacy_wrappers(draw: st.DrawFn) -> LegacyMessage:
    """Wrappers around any messages: of the other magic, in no order, above the wrapper, none."""
    inner: list[LegacyMessage] = draw(st.lists(legacy_messages(), max_size=4))
    message = draw(legacy_messages())
    codec = draw(st.sampled_from([Codec.GZIP, Codec.SNAPPY, Codec.LZ4]))
    header = message.header._replace(attributes=message.header.attributes | codec)
    is_above = bool(inner) and draw(st.booleans())
    if is_above:
        header = header._replace(offset=inner[-1].header.offset)
    value = compress(codec, b"".join(map(encode_message, inner)), magic=header.magic)
    return message._replace(header=header, value=value)


any_legacy = st.one_of(legacy_messages(), legacy_wrappers()).map(encode_message)
