import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_format.index_end import Stop
from kafka_format.transaction_index import (
    AbortedTransaction,
    TransactionIndexFile,
    decode_transaction_index,
    decode_transaction_index_columns,
    encode_transaction_index,
    iter_transaction_index,
    read_transaction_index,
)
from tests.kafka_format import damage

# Of a 4.3.1 broker: partition transactions-0 of the golden pack unclean-4.3.1.
ABORTED = bytes.fromhex(
    "0000 000000000000000f 0000000000000003 0000000000000007 0000000000000008"
    "0000 000000000000000f 000000000000000b 0000000000000015 0000000000000016"
)
ABORTED_ENTRIES = [(0, 15, 3, 7, 8), (0, 15, 11, 21, 22)]

int16 = st.integers(-(2**15), 2**15 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)


def slots(*entries: tuple[int, ...]) -> bytes:
    return b"".join(struct.pack(">hqqqq", *entry) for entry in entries)


def test_an_entry_is_an_aborted_transaction():
    entries = list(iter_transaction_index(decode_transaction_index(ABORTED)))
    assert entries == ABORTED_ENTRIES
    assert entries[1] == AbortedTransaction(
        version=0, producer_id=15, first_offset=11, last_offset=21, last_stable_offset=22
    )


def test_columns_are_a_view_of_the_bytes_and_no_copy():
    data = bytearray(ABORTED)
    columns = decode_transaction_index_columns(data)
    assert columns["last_stable_offset"].tolist() == [8, 22]
    assert np.shares_memory(columns, np.frombuffer(data, np.uint8))


def test_an_empty_file_has_no_entry():
    file = decode_transaction_index(b"")
    assert (len(file.entries), file.stop, file.size) == (0, Stop.END_OF_FILE, 0)


@pytest.mark.parametrize("size", range(1, 34))
def test_part_of_an_entry_is_kept_raw_as_kafka_ignores_it(size):
    file = decode_transaction_index(ABORTED[: 34 + size])
    assert file.entries.tolist() == ABORTED_ENTRIES[:1]
    assert (file.stop, file.trailing) == (Stop.PARTIAL_ENTRY, ABORTED[34 : 34 + size])
    assert file.kafka_entry_count == 1


@pytest.mark.parametrize("version", [1, 256, -1])
def test_an_entry_of_another_version_is_the_stop(version):
    refused = slots((version, 15, 11, 21, 22), (0, 16, 30, 40, 41))
    file = decode_transaction_index(ABORTED[:34] + refused)
    assert file.entries.tolist() == ABORTED_ENTRIES[:1]
    assert (file.stop, file.stop_position) == (Stop.UNKNOWN_VERSION, 34)
    assert file.trailing == refused


@pytest.mark.parametrize("last_offset", [7, 6, -1])
def test_an_entry_whose_marker_does_not_come_later_is_the_stop(last_offset):
    refused = slots((0, 15, 1, last_offset, 22))
    file = decode_transaction_index(ABORTED[:34] + refused)
    assert file.entries.tolist() == ABORTED_ENTRIES[:1]
    assert (file.stop, file.trailing) == (Stop.OUT_OF_ORDER, refused)


def test_zeros_of_the_file_system_are_padding_behind_an_entry():
    file = decode_transaction_index(ABORTED + bytes(100))
    assert file.entries.tolist() == ABORTED_ENTRIES
    assert (file.stop, file.padding_bytes, file.trailing) == (Stop.ZERO_PADDING, 100, b"")


def test_zeros_in_the_first_slot_are_a_transaction_of_producer_0():
    assert decode_transaction_index(bytes(34)).entries.tolist() == [(0, 0, 0, 0, 0)]


def test_an_index_is_built_of_entries():
    entries = [AbortedTransaction(*entry) for entry in ABORTED_ENTRIES]
    assert encode_transaction_index(TransactionIndexFile.of(entries)) == ABORTED
    assert encode_transaction_index(TransactionIndexFile.of([])) == b""


def test_its_repr_tells_entries_and_stop():
    assert repr(decode_transaction_index(ABORTED)) == (
        "TransactionIndexFile(2 entries, end of file at 68: 0 bytes of padding, 0 trailing)"
    )


@given(st.lists(st.tuples(int16, int64, int64, int64, int64)), st.binary(max_size=70))
def test_any_bytes_decode_and_come_back(entries, tail):
    data = slots(*entries) + tail
    file = decode_transaction_index(data)
    assert encode_transaction_index(file) == data
    assert file.size == len(data)


@given(st.lists(st.tuples(int64, int64, int64, int64), unique_by=lambda entry: entry[2]))
def test_whatever_kafka_can_append_is_an_entry(transactions):
    entries = [(0, *entry) for entry in sorted(transactions, key=lambda entry: entry[2])]
    assert decode_transaction_index(slots(*entries)).entries.tolist() == entries


def test_every_cut_and_every_flip_gives_a_value_and_loses_nothing():
    for mutilated in [*damage.cuts(ABORTED), *(data for _, data in damage.flips(ABORTED))]:
        assert encode_transaction_index(decode_transaction_index(mutilated)) == mutilated


def test_a_file_is_read(tmp_path):
    path = tmp_path / "00000000000000000005.txnindex"
    path.write_bytes(ABORTED)
    assert read_transaction_index(path).entries.tolist() == ABORTED_ENTRIES
