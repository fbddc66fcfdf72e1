import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_format.checkpoint_file import CheckpointHead
from kafka_format.errors import CorruptError, FormatError, TruncatedError, UnsupportedError
from kafka_format.leader_epoch_file import (
    EpochEntry,
    LeaderEpochCheckpoint,
    decode_leader_epoch_checkpoint,
    encode_leader_epoch_checkpoint,
    read_leader_epoch_checkpoint,
)
from tests.kafka_format import damage


def test_a_checkpoint_is_its_epochs():
    checkpoint = decode_leader_epoch_checkpoint(b"0\n2\n0 0\n3 120\n")
    assert tuple(checkpoint) == (((0, 0), (3, 120)), CheckpointHead.COMPLETE)
    assert checkpoint.entries[1] == EpochEntry(epoch=3, start_offset=120)
    assert encode_leader_epoch_checkpoint(checkpoint) == b"0\n2\n0 0\n3 120\n"


@pytest.mark.parametrize("data", [b"", b"0\n", b"0\n0\n"])
def test_a_file_without_epochs_comes_back(data):
    checkpoint = decode_leader_epoch_checkpoint(data)
    assert checkpoint.entries == ()
    assert encode_leader_epoch_checkpoint(checkpoint) == data


def test_order_is_not_judged_here():
    assert decode_leader_epoch_checkpoint(b"0\n2\n5 9\n1 90\n").entries == ((5, 9), (1, 90))


@pytest.mark.parametrize(
    ("data", "error", "position"),
    [
        (b"1\n0\n", UnsupportedError, 0),
        (b"0\n1\n", TruncatedError, 2),
        (b"0\n1\n0\n", CorruptError, 4),
        (b"0\n1\n0 0 0\n", CorruptError, 4),
        (b"0\n2\n0 0\n 5\n", CorruptError, 8),  # an empty epoch
        (b"0\n1\n2147483648 0\n", CorruptError, 4),
        (b"0\n1\n0 x\n", CorruptError, 4),
    ],
)
def test_what_makes_kafka_throw_is_located(data, error, position):
    with pytest.raises(FormatError) as caught:
        decode_leader_epoch_checkpoint(data)
    assert type(caught.value) is error
    assert caught.value.location.position == position


@given(
    st.lists(
        st.builds(EpochEntry, st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1))
    )
)
def test_any_epochs_come_back(entries):
    checkpoint = LeaderEpochCheckpoint(tuple(entries))
    data = encode_leader_epoch_checkpoint(checkpoint)
    assert decode_leader_epoch_checkpoint(data) == checkpoint


def test_every_cut_and_every_flip_gives_a_value_or_a_format_error():
    data = b"0\n2\n0 0\n3 120\n"
    for mutilated in [*damage.cuts(data), *(flipped for _, flipped in damage.flips(data))]:
        damage.value_or_error(decode_leader_epoch_checkpoint, mutilated)


def test_a_file_is_read_and_its_path_is_in_the_error(tmp_path):
    path = tmp_path / "leader-epoch-checkpoint"
    path.write_bytes(b"0\n1\n0 0\n")
    assert read_leader_epoch_checkpoint(path).entries == ((0, 0),)
    path.write_bytes(b"0\n1\n0\n")
    with pytest.raises(CorruptError) as caught:
        read_leader_epoch_checkpoint(path)
    assert str(caught.value) == f"{path}@4: found '0', expected epoch start_offset"
