"""The readers that use the walk say the same of the same damage."""

import io
import struct

import pytest

from kafka_format.batch import BatchHeader, assemble, encode_batch
from kafka_format.compression import Codec
from kafka_format.record import SimpleRecord
from kafka_log.checks.finding import About
from kafka_log.checks.segments.logs import check_log
from kafka_log.cleaner.damage import leave_out_damage
from kafka_log.disk.files import DiskFiles
from kafka_log.producers.transactions import read_transactions
from tests.pipelines.readers import read

NAME = f"{0:020d}.log"


def batch_at(offset: int, value: bytes = b"value", codec: Codec = Codec.NONE) -> bytes:
    return encode_batch([SimpleRecord(1000, b"key", value)], base_offset=offset, codec=codec)


def flipped(batch: bytes) -> bytes:
    return batch[:-1] + bytes([batch[-1] ^ 1])


def with_length(batch: bytes, length: int) -> bytes:
    return batch[:8] + struct.pack(">i", length) + batch[12:]


def undecodable(batch: bytes) -> bytes:
    """The right checksum, around a payload that does not decompress."""
    header = BatchHeader.unpack(batch)._replace(attributes=Codec.GZIP)
    return assemble(header, batch[61:])


SIZE = len(batch_at(0))
LOGS = {
    "a wrong checksum": (batch_at(0) + flipped(batch_at(1)) + batch_at(2), [("LOG001", SIZE)]),
    "no batch": (batch_at(0) + with_length(batch_at(1), -1) + batch_at(2), [("LOG002", SIZE)]),
    "an undecodable payload": (
        batch_at(0) + undecodable(batch_at(1)) + batch_at(2),
        [("LOG003", SIZE)],
    ),
    "a batch in the value of an undecodable one, then garbage": (
        batch_at(0) + undecodable(batch_at(1, batch_at(7))) + b"\xff" * 90 + batch_at(2),
        [("LOG003", SIZE)],
    ),
    "a length that leads into a later batch": (
        batch_at(0) + with_length(batch_at(1), 2 * SIZE + 5 - 12) + batch_at(2) + batch_at(3),
        [("LOG001", SIZE)],
    ),
}


@pytest.fixture
def directory(tmp_path):
    path = tmp_path / "orders-0"
    path.mkdir()
    return path


@pytest.mark.parametrize("name", LOGS)
def test_checks_cleaner_and_records_agree(directory, name):
    data, expected = LOGS[name]
    (directory / NAME).write_bytes(data)
    about = About(path=NAME, topic="orders", partition=0)
    checked = list(check_log(io.BytesIO(data), about, base_offset=0))
    assert [each.id for each in checked] == [rule for rule, _ in expected]
    rows = read(directory)
    corrupt = [row for row in rows if row["_corrupt_record"]]
    found = [(row["_corrupt_record"].split(": ")[1], row["position"]) for row in corrupt]
    assert found == expected
    left_out = list(leave_out_damage(DiskFiles(str(directory))))
    assert [(each.rule, each.position) for each in left_out] == expected
    sound = [row["offset"] for row in rows if not row["_corrupt_record"]]
    assert [row["offset"] for row in read(directory)] == sound
    assert sound[:2] == [0, 2]


def test_a_last_batch_with_a_wrong_checksum_is_no_torn_write(directory):
    """Though an earlier length leads beyond the end of the file."""
    data = with_length(batch_at(0), 10**6) + batch_at(1) + flipped(batch_at(2))
    (directory / NAME).write_bytes(data)
    left_out = list(leave_out_damage(DiskFiles(str(directory)), keeps_tail=True))
    assert [(each.rule, each.position) for each in left_out] == [
        ("LOG002", 0),
        ("LOG001", 2 * SIZE),
    ]
    assert (directory / NAME).read_bytes() == batch_at(1)


def test_a_torn_write_stays_for_a_load_to_cut(directory):
    data = batch_at(0) + batch_at(1)[:-1]
    (directory / NAME).write_bytes(data)
    assert list(leave_out_damage(DiskFiles(str(directory)), keeps_tail=True)) == []
    assert (directory / NAME).read_bytes() == data


def test_a_replay_of_transactions_stops_at_damage_or_goes_on_after_it(directory):
    data, _ = LOGS["no batch"]
    (directory / NAME).write_bytes(data)
    files = DiskFiles(str(directory))
    stopped, resumed = (read_transactions(files, past_damage=each) for each in (False, True))
    assert (stopped.log_end_offset, resumed.log_end_offset) == (1, 3)
    assert list(map(str, stopped.problems)) == list(map(str, resumed.problems))
    assert len(resumed.problems) == 1
