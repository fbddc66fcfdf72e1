"""Rows of `records` are what real consumers received from the brokers that wrote the packs."""

import base64

import pytest

from tests import golden
from tests.pipelines.readers import read

LEVELS = ("read_uncommitted", "read_committed")
TIMESTAMP_TYPES = {"NoTimestampType": -1, "CreateTime": 0, "LogAppendTime": 1}


def received(name: str, isolation: str) -> dict[tuple, dict]:
    return {
        (row["topic"], row["partition"], row["offset"]): row
        for row in golden.expected(name)
        if "offset" in row and row["isolation"] == isolation
    }


def plain(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def packs() -> list[tuple[str, str]]:
    found = []
    for name in golden.names():
        levels = {row["isolation"] for row in golden.expected(name)}
        found += [(name, level) for level in LEVELS if level in levels]
    return found


@pytest.mark.parametrize(("name", "isolation"), packs())
def test_rows_are_what_the_consumer_received(name, isolation):
    expected = received(name, isolation)
    rows = {
        (row["topic"], row["partition"], row["offset"]): row
        for row in read(golden.shared(name), isolationLevel=isolation)
        if row["topic"] != "__cluster_metadata"  # which no consumer can ask for
    }
    assert rows.keys() == expected.keys()
    for place, row in rows.items():
        record = expected[place]
        assert row["key"] == plain(record["key"]), place
        assert row["value"] == plain(record["value"]), place
        assert row["timestamp_ms"] == record["timestamp"], place
        assert row["timestampType"] == TIMESTAMP_TYPES[record["timestamp_type"]], place
        headers = [(header["key"], header["value"]) for header in row["headers"] or ()]
        assert headers == [(key, plain(value)) for key, value in record["headers"]]
        assert (row["headers"] is None) == (not record["headers"])
        assert row["leader_epoch"] == record["leader_epoch"], place
        assert row["control_type"] is None
