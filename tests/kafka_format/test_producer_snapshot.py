import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_format.errors import (
    CorruptError,
    CrcMismatchError,
    FormatError,
    TruncatedError,
    UnsupportedError,
)
from kafka_format.producer_snapshot import (
    ProducerSnapshotEntry,
    ProducerSnapshotFile,
    decode_producer_snapshot,
    encode_producer_snapshot,
    iter_producer_snapshot,
    iter_read_producer_snapshot,
    read_producer_snapshot,
)
from tests.kafka_format import damage

# Of a 4.3.1 broker: partition transactions-0 of the golden pack unclean-4.3.1.
OPEN_TRANSACTIONS = bytes.fromhex(
    "0001 2879dcae 00000002"
    "000000000000000e 0000 00000002 0000000000000002 00000000 0000018bcfe56802 ffffffff"
    "0000000000000000"
    "000000000000000f 0000 00000001 0000000000000004 00000001 0000018bcfe56801 ffffffff"
    "0000000000000003"
)
ENTRIES = [
    (14, 0, 2, 2, 0, 1700000000002, -1, 0),
    (15, 0, 1, 4, 1, 1700000000001, -1, 3),
]
EMPTY = bytes.fromhex("0001 48674bc7 00000000")  # the CRC-32C of four zeros is 48674bc7

int16 = st.integers(-(2**15), 2**15 - 1)
int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
entries_strategy = st.lists(
    st.builds(ProducerSnapshotEntry, int64, int16, int32, int64, int32, int64, int32, int64)
)


def test_a_snapshot_is_its_entries_in_the_order_of_the_file():
    file = decode_producer_snapshot(OPEN_TRANSACTIONS)
    assert list(iter_producer_snapshot(file)) == ENTRIES
    assert list(iter_producer_snapshot(file))[1] == ProducerSnapshotEntry(
        producer_id=15,
        producer_epoch=0,
        last_sequence=1,
        last_offset=4,
        offset_delta=1,
        timestamp=1700000000001,
        coordinator_epoch=-1,
        current_txn_first_offset=3,
    )
    assert (file.crc, file.trailing) == (0x2879DCAE, b"")


def test_entries_are_a_view_of_the_bytes_and_no_copy():
    data = bytearray(OPEN_TRANSACTIONS)
    entries = decode_producer_snapshot(data).entries
    assert entries["current_txn_first_offset"].tolist() == [0, 3]
    assert np.shares_memory(entries, np.frombuffer(data, np.uint8))


def test_a_log_without_producers_has_a_snapshot_of_ten_bytes():
    assert list(iter_producer_snapshot(decode_producer_snapshot(EMPTY))) == []
    assert encode_producer_snapshot(ProducerSnapshotFile.of([])) == EMPTY


def test_the_encoder_computes_the_checksum():
    entries = [ProducerSnapshotEntry(*entry) for entry in ENTRIES]
    assert encode_producer_snapshot(ProducerSnapshotFile.of(entries)) == OPEN_TRANSACTIONS


@pytest.mark.parametrize("size", range(10))
def test_a_file_shorter_than_its_header_is_truncated(size):
    with pytest.raises(TruncatedError) as caught:
        decode_producer_snapshot(OPEN_TRANSACTIONS[:size], path="x.snapshot")
    assert caught.value.location == ("x.snapshot", size)


@pytest.mark.parametrize("version", [0, 2, -1])
def test_another_version_is_unsupported(version):
    data = struct.pack(">h", version) + OPEN_TRANSACTIONS[2:]
    with pytest.raises(UnsupportedError, match=rf"^<memory>@0: found version {version}, "):
        decode_producer_snapshot(data)


def test_a_wrong_checksum_names_both():
    data = bytearray(OPEN_TRANSACTIONS)
    data[5] ^= 1
    with pytest.raises(CrcMismatchError) as caught:
        decode_producer_snapshot(data, path="x.snapshot")
    assert str(caught.value) == "x.snapshot@2: found crc 0x2879dcaf, expected 0x2879dcae"


def test_what_a_broker_would_throw_away_is_read_on_demand_and_comes_back():
    data = bytearray(OPEN_TRANSACTIONS)
    data[5] ^= 1
    file = decode_producer_snapshot(data, verify_crc=False)
    assert list(iter_producer_snapshot(file)) == ENTRIES
    assert encode_producer_snapshot(file) == data


def test_a_negative_count_is_corrupt():
    with pytest.raises(CorruptError) as caught:
        decode_producer_snapshot(bytes.fromhex("0001 00000000 ffffffff"))
    assert caught.value.location.position == 6


@pytest.mark.parametrize("count", [3, 2**31 - 1])
def test_a_count_beyond_the_file_is_truncated_and_allocates_nothing(count):
    data = OPEN_TRANSACTIONS[:6] + struct.pack(">i", count) + OPEN_TRANSACTIONS[10:]
    with pytest.raises(TruncatedError) as caught:
        decode_producer_snapshot(data)
    assert caught.value.location.position == 6
    assert caught.value.found == f"{count} entries announced, 92 bytes left"


def test_bytes_behind_the_entries_fail_the_checksum_unless_it_covers_them():
    with pytest.raises(CrcMismatchError):
        decode_producer_snapshot(OPEN_TRANSACTIONS + b"stale")
    covered = bytes.fromhex("0001 8a9136aa 00000000") + bytes(28)  # RFC 3720: 32 zeros
    file = decode_producer_snapshot(covered)
    assert (len(file.entries), file.trailing) == (0, bytes(28))
    assert encode_producer_snapshot(file) == covered


def test_its_repr_tells_entries_and_checksum():
    assert repr(decode_producer_snapshot(OPEN_TRANSACTIONS)) == (
        "ProducerSnapshotFile(2 entries, 0 bytes trailing, crc 0x2879dcae)"
    )
    assert repr(ProducerSnapshotFile.of([])).endswith("crc to be computed)")


@given(entries_strategy)
def test_any_entries_come_back(entries):
    data = encode_producer_snapshot(ProducerSnapshotFile.of(entries))
    assert len(data) == 10 + 46 * len(entries)
    assert list(iter_producer_snapshot(decode_producer_snapshot(data))) == entries


@given(st.binary(max_size=200))
def test_any_bytes_give_a_value_or_a_format_error(data):
    damage.value_or_error(decode_producer_snapshot, data)
    value = damage.value_or_error(
        lambda data: decode_producer_snapshot(data, verify_crc=False), b"\0\1" + data
    )
    if isinstance(value, ProducerSnapshotFile):
        assert encode_producer_snapshot(value) == b"\0\1" + data


def test_no_cut_and_no_flipped_bit_goes_unnoticed():
    for data in damage.cuts(OPEN_TRANSACTIONS):
        assert isinstance(damage.value_or_error(decode_producer_snapshot, data), FormatError)
    assert damage.unnoticed(decode_producer_snapshot, OPEN_TRANSACTIONS) == set()


def test_a_file_is_read_and_its_path_is_in_the_error(tmp_path):
    path = tmp_path / "00000000000000000005.snapshot"
    path.write_bytes(OPEN_TRANSACTIONS)
    assert list(iter_producer_snapshot(read_producer_snapshot(path))) == ENTRIES
    path.write_bytes(b"")
    with pytest.raises(TruncatedError) as caught:
        read_producer_snapshot(path)
    assert caught.value.location == (str(path), 0)


@pytest.mark.parametrize("piece", [1, 2, 3])
def test_a_file_is_read_some_entries_at_a_time(tmp_path, monkeypatch, piece):
    monkeypatch.setattr("kafka_format.producer_snapshot._PIECE_ENTRIES", piece)
    path = tmp_path / "00000000000000000005.snapshot"
    path.write_bytes(OPEN_TRANSACTIONS)
    assert list(iter_read_producer_snapshot(path)) == ENTRIES
    path.write_bytes(EMPTY)
    assert list(iter_read_producer_snapshot(path)) == []


def test_a_file_is_checked_before_its_first_entry_is_given(tmp_path):
    path = tmp_path / "00000000000000000005.snapshot"
    for data in [*damage.cuts(OPEN_TRANSACTIONS), *(each for _, each in damage.flips(EMPTY))]:
        path.write_bytes(data)
        with pytest.raises(FormatError) as whole:
            read_producer_snapshot(path)
        with pytest.raises(FormatError) as in_pieces:
            next(iter_read_producer_snapshot(path))
        assert str(in_pieces.value) == str(whole.value)
