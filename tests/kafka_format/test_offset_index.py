import os
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_format.errors import FormatError
from kafka_format.index_end import Stop
from kafka_format.offset_index import (
    OffsetIndexEntry,
    OffsetIndexFile,
    decode_offset_index,
    decode_offset_index_columns,
    encode_offset_index,
    iter_offset_index,
    read_offset_index,
)
from tests.kafka_format import damage

# Of a 4.3.1 broker: partition moved-0 of the golden pack cleaner-4.3.1.
MOVED = bytes.fromhex("00000008000011d8 00000010000023b6 0000001800003596 0000002000004776")
MOVED_ENTRIES = [(8, 4568), (16, 9142), (24, 13718), (32, 18294)]

int32 = st.integers(-(2**31), 2**31 - 1)


def slots(*pairs: tuple[int, int]) -> bytes:
    return b"".join(struct.pack(">ii", *pair) for pair in pairs)


def test_a_trimmed_index_is_its_entries():
    file = decode_offset_index(MOVED, 100)
    assert file.entries.tolist() == MOVED_ENTRIES
    assert (file.stop, file.stop_position) == (Stop.END_OF_FILE, 32)
    assert (file.padding_bytes, file.trailing) == (0, b"")
    assert file.offsets.tolist() == [108, 116, 124, 132]


def test_entries_come_as_named_values_too():
    entries = list(iter_offset_index(decode_offset_index(MOVED, 0)))
    assert entries[1] == OffsetIndexEntry(relative_offset=16, position=9142)
    assert list(iter_offset_index(decode_offset_index(b"", 0))) == []


def test_entries_are_a_view_of_the_bytes_and_no_copy():
    data = bytearray(MOVED)
    file = decode_offset_index(data, 0)
    assert np.shares_memory(file.entries, np.frombuffer(data, np.uint8))
    assert np.shares_memory(decode_offset_index_columns(data), np.frombuffer(data, np.uint8))


def test_zeros_of_a_preallocated_index_are_padding_for_us_and_entries_for_kafka():
    file = decode_offset_index(MOVED + bytes(10_485_760 - 32), 0)
    assert file.entries.tolist() == MOVED_ENTRIES
    assert (file.stop, file.padding_bytes, file.trailing) == (Stop.ZERO_PADDING, 10_485_728, b"")
    assert file.kafka_entry_count == 1_310_720


def test_an_index_of_zeros_has_no_entry():
    file = decode_offset_index(bytes(65536), 7)
    assert len(file.entries) == 0
    assert (file.stop, file.stop_position, file.padding_bytes) == (Stop.ZERO_PADDING, 0, 65536)


def test_an_empty_index_has_no_entry():
    file = decode_offset_index(b"", 7)
    assert (len(file.entries), file.stop, file.size) == (0, Stop.END_OF_FILE, 0)


def test_zeros_that_end_within_a_slot_are_padding_to_the_last():
    file = decode_offset_index(MOVED + bytes(19), 0)
    assert (file.stop, file.padding_bytes, file.trailing) == (Stop.ZERO_PADDING, 19, b"")
    assert file.kafka_entry_count == 6


def test_bytes_behind_the_padding_are_kept_from_a_slot_boundary_on():
    file = decode_offset_index(slots((5, 80), (0, 0), (0, 0), (0, 7), (9, 9)), 0)
    assert file.entries.tolist() == [(5, 80)]
    assert (file.stop, file.padding_bytes) == (Stop.ZERO_PADDING, 16)
    assert file.trailing == slots((0, 7), (9, 9))


@pytest.mark.parametrize(
    ("refused", "stop"),
    [
        ((9, 0), Stop.OUT_OF_RANGE),  # the first batch never gets an entry
        ((9, -1), Stop.OUT_OF_RANGE),
        ((-9, 90), Stop.OUT_OF_RANGE),
        ((5, 90), Stop.OUT_OF_ORDER),  # the offset of the entry before
        ((4, 90), Stop.OUT_OF_ORDER),
        ((9, 80), Stop.OUT_OF_ORDER),  # the position of the entry before
        ((9, 79), Stop.OUT_OF_ORDER),
    ],
)
def test_a_slot_that_no_broker_appends_is_the_stop_and_its_bytes_are_kept(refused, stop):
    data = slots((5, 80), refused, (20, 200))
    file = decode_offset_index(data, 0)
    assert file.entries.tolist() == [(5, 80)]
    assert (file.stop, file.stop_position, file.padding_bytes) == (stop, 8, 0)
    assert file.trailing == slots(refused, (20, 200))
    assert decode_offset_index_columns(data).tolist() == [(5, 80), refused, (20, 200)]


@pytest.mark.parametrize("size", range(1, 8))
def test_part_of_an_entry_is_kept_raw(size):
    file = decode_offset_index(MOVED[: 24 + size], 0)
    assert file.entries.tolist() == MOVED_ENTRIES[:3]
    assert (file.stop, file.trailing) == (Stop.PARTIAL_ENTRY, MOVED[24 : 24 + size])
    assert file.kafka_entry_count == 3


def test_the_first_entry_may_have_relative_offset_0():
    assert decode_offset_index(slots((0, 61), (1, 122)), 0).entries.tolist() == [(0, 61), (1, 122)]


def test_an_index_is_built_of_entries():
    entries = [OffsetIndexEntry(*entry) for entry in MOVED_ENTRIES]
    assert encode_offset_index(OffsetIndexFile.of(0, entries)) == MOVED
    padded = OffsetIndexFile.of(0, entries, padding_bytes=8)
    assert encode_offset_index(padded) == MOVED + bytes(8)
    assert encode_offset_index(OffsetIndexFile.of(0, [])) == b""


def test_entries_of_little_endian_arrays_are_written_big_endian():
    entries = np.array([(1, 2)], [("relative_offset", "<i4"), ("position", "<i4")])
    assert encode_offset_index(OffsetIndexFile(0, entries)) == bytes.fromhex("0000000100000002")


def test_its_repr_tells_entries_and_stop():
    assert repr(decode_offset_index(MOVED + bytes(16), 40)) == (
        "OffsetIndexFile(base_offset=40, 4 entries, zero padding at 32: "
        "16 bytes of padding, 0 trailing)"
    )


@given(st.lists(st.tuples(int32, int32)), st.binary(max_size=20))
def test_any_bytes_decode_and_come_back(pairs, tail):
    data = slots(*pairs) + tail
    file = decode_offset_index(data, 0)
    assert encode_offset_index(file) == data
    assert file.size == len(data)
    assert len(decode_offset_index_columns(data)) == len(data) // 8 == file.kafka_entry_count


@given(
    st.lists(
        st.tuples(st.integers(0, 2**31 - 1), st.integers(1, 2**31 - 1)), unique=True, max_size=50
    ),
    st.integers(0, 40),
)
def test_whatever_kafka_can_append_is_an_entry(pairs, padding):
    offsets = sorted({offset for offset, _ in pairs})
    positions = sorted({position for _, position in pairs})
    entries = list(zip(offsets, positions, strict=False))
    file = decode_offset_index(slots(*entries) + bytes(padding), 0)
    assert file.entries.tolist() == entries


def test_every_cut_and_every_flip_gives_a_value_and_loses_nothing():
    data = MOVED + bytes(16)
    for mutilated in [*damage.cuts(data), *(flipped for _, flipped in damage.flips(data))]:
        assert encode_offset_index(decode_offset_index(mutilated, 0)) == mutilated


def test_a_file_is_read_without_a_trace(tmp_path):
    path = tmp_path / "00000000000000000000.index"
    path.write_bytes(MOVED)
    path.chmod(0o400)
    before = path.stat().st_mtime_ns
    assert read_offset_index(path, 0).entries.tolist() == MOVED_ENTRIES
    assert path.stat().st_mtime_ns == before


def test_a_file_that_kafka_cannot_map_is_refused_unread(tmp_path):
    path = tmp_path / "00000000000000000000.index"
    with path.open("wb") as file:
        file.truncate(2**31)  # sparse: takes no disk
    with pytest.raises(FormatError) as caught:
        read_offset_index(path, 0)
    assert caught.value.location == (str(path), 2**31 - 1)
    assert caught.value.found == "2147483648 bytes"


def test_what_is_no_regular_file_is_refused_unopened(tmp_path):
    pipe = tmp_path / "pipe.index"
    os.mkfifo(pipe)  # opening it would wait for a writer
    with pytest.raises(FormatError) as caught:
        read_offset_index(pipe, 0)
    assert str(caught.value) == f"{pipe}: found a named pipe, expected a regular file"


def test_a_missing_file_is_the_callers_error_not_the_formats(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_offset_index(tmp_path / "missing.index", 0)
