import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_format.errors import CorruptError, FormatError, TruncatedError, UnsupportedError
from kafka_format.quorum_state import (
    QuorumState,
    decode_quorum_state,
    encode_quorum_state,
    read_quorum_state,
)
from tests.kafka_format import damage

# Of 4.3.1 brokers: golden packs cleaner-4.3.1 (static voters), unclean-4.3.1 (dynamic quorum).
STATIC = (
    b'{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
    b'"currentVoters":[{"voterId":1}],"data_version":0}'
)
DYNAMIC = (
    b'{"leaderId":1,"leaderEpoch":1,"votedId":-1,'
    b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}'
)


def test_version_0_lists_the_voters():
    state = decode_quorum_state(STATIC)
    assert state == QuorumState(
        data_version=0,
        leader_id=1,
        leader_epoch=1,
        voted_id=-1,
        cluster_id="",
        applied_offset=0,
        current_voters=(1,),
    )
    assert encode_quorum_state(state) == STATIC


def test_version_1_tells_the_directory_voted_for():
    state = decode_quorum_state(DYNAMIC)
    assert state == QuorumState(data_version=1, leader_id=1, leader_epoch=1, voted_id=-1)
    assert encode_quorum_state(state) == DYNAMIC
    voted = state._replace(voted_directory_id=uuid.UUID("0aca0b53-1bcf-4f87-aaa9-9a05d2709f1b"))
    assert b'"votedDirectoryId":"CsoLUxvPT4eqqZoF0nCfGw"' in encode_quorum_state(voted)
    assert decode_quorum_state(encode_quorum_state(voted)) == voted


@pytest.mark.parametrize("trailing", [b"\n", b"}}", b"\r\nnext line\n"])
def test_what_follows_the_object_is_kept(trailing):
    state = decode_quorum_state(DYNAMIC + trailing)
    assert state.trailing == trailing
    assert encode_quorum_state(state) == DYNAMIC + trailing


def test_null_voters_are_not_no_voters():
    null = STATIC.replace(b'[{"voterId":1}]', b"null")
    none = STATIC.replace(b'[{"voterId":1}]', b"[]")
    assert decode_quorum_state(null).current_voters is None
    assert decode_quorum_state(none).current_voters == ()
    assert encode_quorum_state(decode_quorum_state(null)) == null
    assert encode_quorum_state(decode_quorum_state(none)) == none


def test_fields_of_the_other_version_are_read_as_kafka_does():
    data = b'{"clusterId":"c","appliedOffset":7,"currentVoters":[],' + DYNAMIC[1:]
    state = decode_quorum_state(data)
    assert (state.cluster_id, state.applied_offset, state.current_voters) == ("c", 7, ())


def test_a_string_is_escaped_as_jackson_does():
    state = QuorumState(0, cluster_id='a"\\\n\x1f\x7fü/')
    data = encode_quorum_state(state)
    assert data.startswith('{"clusterId":"a\\"\\\\\\n\\u001F\x7fü/",'.encode())
    assert decode_quorum_state(data) == state


def test_half_a_surrogate_pair_is_written_as_java_does():
    state = decode_quorum_state(STATIC.replace(b'Id":""', rb'Id":"\ud83d"'))
    assert state.cluster_id == "\ud83d"
    assert encode_quorum_state(state).startswith(b'{"clusterId":"?",')


@pytest.mark.parametrize(
    ("data", "error", "position"),
    [
        (b"", TruncatedError, 0),
        (b"\n", CorruptError, 0),
        (b"[]", CorruptError, 0),
        (b"  5", CorruptError, 2),
        (b"{}", CorruptError, 0),
        ('{"ü":}'.encode(), CorruptError, 6),  # positions count bytes
        (b'{"a":NaN}', CorruptError, 0),
        (b"[" * 100_000, CorruptError, 0),
        (b'{"a":' + b"9" * 5000 + b"}", CorruptError, 0),
        (STATIC.replace(b'version":0', b'version":2'), UnsupportedError, 0),
        (STATIC.replace(b'version":0', b'version":-1'), UnsupportedError, 0),
        (STATIC.replace(b'version":0', b'version":"0"'), CorruptError, 0),
        (STATIC.replace(b'version":0', b'version":65536'), CorruptError, 0),
        (STATIC.replace(b'version":0', b'version":0.0'), CorruptError, 0),
        (STATIC.replace(b'"clusterId":"",', b""), CorruptError, 0),
        (STATIC.replace(b'"clusterId":""', b'"clusterId":0'), CorruptError, 0),
        (STATIC.replace(b'"leaderId":1,', b""), CorruptError, 0),
        (STATIC.replace(b'"leaderId":1', b'"leaderId":2147483648'), CorruptError, 0),
        (STATIC.replace(b'"leaderId":1', b'"leaderId":true'), CorruptError, 0),
        (STATIC.replace(b'"leaderId":1', b'"leaderId":null'), CorruptError, 0),
        (STATIC.replace(b'"appliedOffset":0,', b""), CorruptError, 0),
        (STATIC.replace(b'[{"voterId":1}]', b"1"), CorruptError, 0),
        (STATIC.replace(b'[{"voterId":1}]', b"[1]"), CorruptError, 0),
        (STATIC.replace(b'[{"voterId":1}]', b"[{}]"), CorruptError, 0),
        (STATIC.replace(b'"currentVoters":[{"voterId":1}],', b""), CorruptError, 0),
        (DYNAMIC.replace(b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA",', b""), CorruptError, 0),
        (DYNAMIC.replace(b"AAAAAAAAAAAAAAAAAAAAAA", b"A"), CorruptError, 0),
        (DYNAMIC.replace(b'"AAAAAAAAAAAAAAAAAAAAAA"', b"5"), CorruptError, 0),
        (DYNAMIC[:20] + b"\n" + DYNAMIC[20:], CorruptError, 14),  # only the first line is read
        (DYNAMIC + b"\xff", CorruptError, len(DYNAMIC)),
    ],
)
def test_what_makes_kafka_throw_is_located(data, error, position):
    with pytest.raises(FormatError) as caught:
        decode_quorum_state(data, path="quorum-state")
    assert type(caught.value) is error
    assert caught.value.location == ("quorum-state", position)


@pytest.mark.parametrize(
    "state",
    [
        QuorumState(0, voted_directory_id=uuid.UUID(int=1)),
        QuorumState(1, cluster_id="c"),
        QuorumState(1, applied_offset=1),
        QuorumState(1, current_voters=(1,)),
        QuorumState(1, current_voters=None),
        QuorumState(2),
    ],
)
def test_what_a_version_has_no_place_for_is_not_written(state):
    with pytest.raises(ValueError, match="data_version"):
        encode_quorum_state(state)


int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
voters = st.none() | st.lists(int32).map(tuple)
states = st.one_of(
    st.tuples(int32, int32, int32, st.text(), int64, voters).map(
        lambda fields: QuorumState(*(0, *fields[:3], uuid.UUID(int=0), *fields[3:]))
    ),
    st.tuples(int32, int32, int32, st.uuids()).map(lambda fields: QuorumState(1, *fields)),
)


@given(states)
def test_any_state_comes_back(state):
    assert decode_quorum_state(encode_quorum_state(state)) == state


@given(st.one_of(st.binary(), st.text(alphabet='{}[]":,0123456789.e-+ nulltrefas').map(str.encode)))
def test_any_bytes_give_a_value_or_a_format_error(data):
    damage.value_or_error(decode_quorum_state, data)


@pytest.mark.parametrize("data", [STATIC, DYNAMIC])
def test_every_cut_is_noticed_and_every_flip_gives_a_value_or_a_format_error(data):
    for cut in damage.cuts(data):
        assert isinstance(damage.value_or_error(decode_quorum_state, cut), FormatError)
    for _, flipped in damage.flips(data):
        damage.value_or_error(decode_quorum_state, flipped)


def test_a_file_is_read_and_its_path_is_in_the_error(tmp_path):
    path = tmp_path / "quorum-state"
    path.write_bytes(STATIC)
    assert read_quorum_state(path).current_voters == (1,)
    path.write_bytes(b"{}")
    with pytest.raises(CorruptError) as caught:
        read_quorum_state(path)
    assert str(caught.value) == f"{path}@0: found an object, expected a field data_version"
