"""The one declaration of header layouts and attribute bits, against numbers written down here."""

import struct

import numpy as np

from kafka_format import attributes, batch_layout
from kafka_format.batch import BatchHeader
from kafka_format.batch_layout import BATCH, MESSAGE_0, MESSAGE_1, PREFIX, HeaderLayout
from kafka_format.legacy import LegacyHeader

POSITIONS = {
    "base_offset": 0,
    "batch_length": 8,
    "partition_leader_epoch": 12,
    "magic": 16,
    "crc": 17,
    "attributes": 21,
    "last_offset_delta": 23,
    "base_timestamp": 27,
    "max_timestamp": 35,
    "producer_id": 43,
    "producer_epoch": 51,
    "base_sequence": 53,
    "record_count": 57,
}


def test_fields_of_a_batch_lie_where_the_protocol_guide_says() -> None:
    assert {field.name: field.position for field in BATCH.fields} == POSITIONS
    assert BATCH.size == 61
    assert BATCH.struct.format == ">qiibIhiqqqhii"


def test_fields_of_legacy_messages_lie_where_the_protocol_guide_says() -> None:
    assert [(field.name, field.position) for field in MESSAGE_1.fields] == [
        ("offset", 0),
        ("size", 8),
        ("crc", 12),
        ("magic", 16),
        ("attributes", 17),
        ("timestamp", 18),
        ("key_length", 26),
    ]
    assert [field.position for field in MESSAGE_0.fields] == [0, 8, 12, 16, 17, 18]
    assert batch_layout.SMALLEST_LENGTHS == (14, 22, 49)


def test_named_positions_are_those_of_their_fields() -> None:
    for name, position in POSITIONS.items():
        constant = {"batch_length": "LENGTH"}.get(name, name.upper())
        if name != "base_offset":
            assert getattr(batch_layout, f"{constant}_AT") == position, name
    assert batch_layout.LENGTH_END == 12
    assert batch_layout.UP_TO_MAGIC == PREFIX.size == 17
    assert batch_layout.LAST_OFFSET_DELTA_END == 27
    assert batch_layout.MESSAGE_TIMESTAMP_END == 26
    assert batch_layout.KEY_LENGTH_AT == (18, 26)


def test_header_values_have_the_fields_of_the_layout() -> None:
    assert BatchHeader._fields == tuple(POSITIONS)
    assert LegacyHeader._fields == tuple(field.name for field in MESSAGE_1.fields)[:-1]


def test_a_reader_steps_over_other_fields() -> None:
    data = struct.pack(">bqhi", 1, 2, 3, 4)
    layout = HeaderLayout.of(first="b", second="q", third="h", fourth="i")
    assert layout.reader("second", "fourth").unpack(data) == (2, 4)
    assert layout.reader("second", "fourth").format == ">1xq2xi"
    assert layout.reader("first").size == 1
    assert layout.field("third").struct.unpack_from(data, layout.field("third").position) == (3,)


def test_numpy_reads_the_same_positions() -> None:
    dtype = np.dtype(BATCH.dtype_fields())
    assert {name: field[1] for name, field in (dtype.fields or {}).items()} == POSITIONS
    assert dtype.itemsize == BATCH.size


def test_attribute_bits() -> None:
    assert attributes.CODEC_MASK == 0x07
    assert attributes.LOG_APPEND_TIME == 1 << attributes.TIMESTAMP_TYPE_SHIFT == 0x08
    assert attributes.TRANSACTIONAL == 0x10
    assert attributes.CONTROL == 0x20
    assert attributes.DELETE_HORIZON == 0x40
    assert attributes.UNUSED_BITS == (0xF8, 0xF0, 0xFF80)
