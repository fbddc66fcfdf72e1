import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_format.index_end import Stop
from kafka_format.time_index import (
    TimeIndexEntry,
    TimeIndexFile,
    decode_time_index,
    decode_time_index_columns,
    encode_time_index,
    iter_time_index,
    read_time_index,
)
from tests.kafka_format import damage

# Of a 4.3.1 broker: partition moved-0 of the golden pack cleaner-4.3.1.
MOVED = bytes.fromhex(
    "0000018bcfe56808 00000008  0000018bcfe56810 00000010  0000018bcfe56818 00000018"
    "0000018bcfe56820 00000020  0000018bcfe56827 00000027"
)
MOVED_ENTRIES = [
    (1700000000008, 8),
    (1700000000016, 16),
    (1700000000024, 24),
    (1700000000032, 32),
    (1700000000039, 39),
]

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)


def slots(*pairs: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">qi", *pair) for pair in pairs)


def test_a_trimmed_index_is_its_entries():
    file = decode_time_index(MOVED, 1000)
    assert file.entries.tolist() == MOVED_ENTRIES
    assert (file.stop, file.stop_position, file.size) == (Stop.END_OF_FILE, 60, 60)
    assert file.offsets.tolist() == [1008, 1016, 1024, 1032, 1039]


def test_entries_come_as_named_values_too():
    entries = list(iter_time_index(decode_time_index(MOVED, 0)))
    assert entries[4] == TimeIndexEntry(timestamp=1700000000039, relative_offset=39)
    assert list(iter_time_index(decode_time_index(b"", 0))) == []


def test_entries_are_a_view_of_the_bytes_and_no_copy():
    data = bytearray(MOVED)
    assert np.shares_memory(decode_time_index(data, 0).entries, np.frombuffer(data, np.uint8))


def test_zeros_of_a_preallocated_index_are_padding_for_us_and_entries_for_kafka():
    file = decode_time_index(MOVED + bytes(10_485_756 - 60), 0)
    assert file.entries.tolist() == MOVED_ENTRIES
    assert (file.stop, file.padding_bytes) == (Stop.ZERO_PADDING, 10_485_696)
    assert file.kafka_entry_count == 873_813


def test_an_index_of_zeros_has_no_entry():
    file = decode_time_index(bytes(65532), 0)
    assert (len(file.entries), file.stop, file.padding_bytes) == (0, Stop.ZERO_PADDING, 65532)


def test_zeros_alone_in_the_file_are_the_entry_of_a_record_of_1970():
    assert decode_time_index(bytes(12), 0).entries.tolist() == [(0, 0)]


def test_zeros_before_an_entry_are_an_entry():
    file = decode_time_index(slots((0, 0), (1, 1)) + bytes(12), 0)
    assert file.entries.tolist() == [(0, 0), (1, 1)]
    assert (file.stop, file.padding_bytes) == (Stop.ZERO_PADDING, 12)


def test_zeros_before_damage_are_padding():
    file = decode_time_index(slots((0, 0), (-1, 1)), 0)
    assert len(file.entries) == 0
    assert (file.stop, file.padding_bytes) == (Stop.ZERO_PADDING, 12)
    assert file.trailing == slots((-1, 1))


def test_a_timestamp_of_0_at_a_later_offset_is_an_entry():
    assert decode_time_index(slots((0, 3)) + bytes(24), 0).entries.tolist() == [(0, 3)]


@pytest.mark.parametrize(
    ("refused", "stop"),
    [
        ((-1, 9), Stop.OUT_OF_RANGE),  # no timestamp, no entry
        ((-(2**63), 9), Stop.OUT_OF_RANGE),
        ((200, -1), Stop.OUT_OF_RANGE),
        ((100, 9), Stop.OUT_OF_ORDER),  # the timestamp of the entry before
        ((99, 9), Stop.OUT_OF_ORDER),
        ((200, 4), Stop.OUT_OF_ORDER),
    ],
)
def test_a_slot_that_no_broker_appends_is_the_stop_and_its_bytes_are_kept(refused, stop):
    data = slots((100, 5), refused, (300, 20))
    file = decode_time_index(data, 0)
    assert file.entries.tolist() == [(100, 5)]
    assert (file.stop, file.stop_position, file.padding_bytes) == (stop, 12, 0)
    assert file.trailing == slots(refused, (300, 20))
    assert decode_time_index_columns(data).tolist() == [(100, 5), refused, (300, 20)]


def test_a_larger_timestamp_at_the_same_offset_is_an_entry():
    assert decode_time_index(slots((1, 5), (2, 5)), 0).entries.tolist() == [(1, 5), (2, 5)]


def test_the_largest_timestamp_of_all_is_an_entry():
    assert decode_time_index(slots((2**63 - 1, 1)), 0).entries.tolist() == [(2**63 - 1, 1)]


@pytest.mark.parametrize("size", range(1, 12))
def test_part_of_an_entry_is_kept_raw(size):
    file = decode_time_index(MOVED[: 48 + size], 0)
    assert file.entries.tolist() == MOVED_ENTRIES[:4]
    assert (file.stop, file.trailing) == (Stop.PARTIAL_ENTRY, MOVED[48 : 48 + size])


def test_an_index_is_built_of_entries():
    entries = [TimeIndexEntry(*entry) for entry in MOVED_ENTRIES]
    assert encode_time_index(TimeIndexFile.of(0, entries)) == MOVED
    padded = TimeIndexFile.of(0, entries, padding_bytes=24)
    assert encode_time_index(padded) == MOVED + bytes(24)


def test_its_repr_tells_entries_and_stop():
    assert repr(decode_time_index(MOVED + b"\1", 40)) == (
        "TimeIndexFile(base_offset=40, 5 entries, partial entry at 60: "
        "0 bytes of padding, 1 trailing)"
    )


@given(st.lists(st.tuples(int64, int32)), st.binary(max_size=30))
def test_any_bytes_decode_and_come_back(pairs, tail):
    data = slots(*pairs) + tail
    file = decode_time_index(data, 0)
    assert encode_time_index(file) == data
    assert file.size == len(data)
    assert len(decode_time_index_columns(data)) == len(data) // 12 == file.kafka_entry_count


@given(st.lists(st.tuples(st.integers(0, 2**63 - 1), st.integers(1, 2**31 - 1)), max_size=50))
def test_whatever_kafka_can_append_is_an_entry(pairs):
    timestamps = sorted({timestamp for timestamp, _ in pairs})
    offsets = sorted(offset for _, offset in pairs)
    entries = list(zip(timestamps, offsets, strict=False))
    assert decode_time_index(slots(*entries), 0).entries.tolist() == entries


def test_every_cut_and_every_flip_gives_a_value_and_loses_nothing():
    data = MOVED + bytes(24)
    for mutilated in [*damage.cuts(data), *(flipped for _, flipped in damage.flips(data))]:
        assert encode_time_index(decode_time_index(mutilated, 0)) == mutilated


def test_a_file_is_read(tmp_path):
    path = tmp_path / "00000000000000001000.timeindex"
    path.write_bytes(MOVED)
    assert read_time_index(path, 1000).offsets.tolist() == [1008, 1016, 1024, 1032, 1039]
