"""Keys and values of the batch that a finding is about."""

import pytest

from kafka_format.batch import encode_batch
from kafka_format.record import SimpleRecord
from pipelines.audit.outputs.shown_records import records_of


@pytest.fixture
def log(tmp_path):
    path = tmp_path / f"{0:020d}.log"
    first = encode_batch([SimpleRecord(1, b"a", b"1")])
    second = encode_batch([SimpleRecord(1, None, b"\xff\x1b" + b"x" * 900)] * 9, base_offset=1)
    path.write_bytes(first + second)
    return path, len(first)


def test_the_batch_that_has_the_position(log):
    path, second = log
    assert records_of({"path": str(path), "position": 17}) == [
        {"offset": 0, "key": "a", "value": "1"}
    ]
    shown = records_of({"path": str(path), "position": second + 30})
    assert [each["offset"] for each in shown] == [1, 2, 3, 4, 5]
    assert shown[0]["key"] is None
    assert shown[0]["value"].startswith("\\xff\\x1bxxx")
    assert len(shown[0]["value"]) < 130


def test_without_a_batch_there_is_nothing(log, tmp_path):
    path, _ = log
    for row in (
        {"path": str(path), "position": None},
        {"path": str(path), "position": 10**9},
        {"path": str(tmp_path / "gone.log"), "position": 0},
        {"path": str(path.with_suffix(".index")), "position": 0},
    ):
        assert records_of(row) == []
    path.write_bytes(b"\x01" * 100)
    assert records_of({"path": str(path), "position": 0}) == []
