import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_format.clean_shutdown_file import (
    CleanShutdownContent,
    CleanShutdownFile,
    decode_clean_shutdown_file,
    encode_clean_shutdown_file,
    read_clean_shutdown_file,
)
from kafka_format.errors import FormatError
from tests.kafka_format import damage

# Of a 4.3.1 broker: golden pack cleaner-4.3.1.
GOLDEN = b'{"version":0,"brokerEpoch":12}'


def test_it_tells_the_broker_epoch():
    file = decode_clean_shutdown_file(GOLDEN)
    assert file == (CleanShutdownContent.BROKER_EPOCH, 12, 0, GOLDEN)


def test_it_is_written_without_spaces_and_line_end():
    assert encode_clean_shutdown_file(CleanShutdownFile.of(12)) == GOLDEN
    assert CleanShutdownFile.of(-1).raw == b'{"version":0,"brokerEpoch":-1}'


def test_brokers_before_3_7_left_it_empty():
    file = decode_clean_shutdown_file(b"")
    assert tuple(file) == (CleanShutdownContent.EMPTY, None, None, b"")
    assert encode_clean_shutdown_file(file) == b""


@pytest.mark.parametrize(
    "data",
    [
        b'{"brokerEpoch":12}',
        b' \n{"later":[1.5,null],"brokerEpoch" : 12, "version":0}\n',
        b'{"version":0,"brokerEpoch":5,"brokerEpoch":12}',
        GOLDEN + b"}}",
        b'{"\xffversion":7,"brokerEpoch":12}',
    ],
)
def test_what_jackson_reads_is_read(data):
    file = decode_clean_shutdown_file(data)
    assert (file.broker_epoch, file.version) == (12, 0)
    assert encode_clean_shutdown_file(file) == data


@pytest.mark.parametrize(
    "data",
    [
        b"\n",
        b"12",
        b"[]",
        b"{}",
        b"\xff",
        b'{"brokerEpoch":null}',
        b'{"brokerEpoch":9223372036854775808}',
        b'{"brokerEpoch":12.0}',
        b'{"brokerEpoch":true}',
        b'{"brokerEpoch":12,"version":2147483648}',
        b'{"brokerEpoch":NaN}',
        b'{"brokerEpoch":12,"x":"\x01"}',
        b"[" * 60_000,
        b'{"brokerEpoch":' + b"9" * 60_000 + b"}",
        bytes(30),
    ],
)
def test_other_content_is_unreadable_and_kept(data):
    file = decode_clean_shutdown_file(data)
    assert file == (CleanShutdownContent.UNREADABLE, None, None, data)


@given(st.integers(-(2**63), 2**63 - 1))
def test_any_epoch_comes_back(epoch):
    file = CleanShutdownFile.of(epoch)
    assert decode_clean_shutdown_file(encode_clean_shutdown_file(file)) == file


@given(st.binary())
def test_any_bytes_are_a_value(data):
    assert decode_clean_shutdown_file(data).raw == data


def test_every_cut_and_every_flip_is_a_value():
    for data in [*damage.cuts(GOLDEN), *(flipped for _, flipped in damage.flips(GOLDEN))]:
        assert decode_clean_shutdown_file(data).raw == data


def test_a_file_is_read_but_not_one_of_absurd_size(tmp_path):
    path = tmp_path / ".kafka_cleanshutdown"
    path.write_bytes(GOLDEN)
    assert read_clean_shutdown_file(path).broker_epoch == 12
    path.write_bytes(bytes(64 * 1024 + 1))
    with pytest.raises(FormatError, match="at most 65536"):
        read_clean_shutdown_file(path)
