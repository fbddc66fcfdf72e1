"""Every log and snapshot that real brokers left: read as their consumers read it, written again."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_format.compression import Codec
from kafka_format.log_file import AnyBatch, LogFile
from tests import golden
from tests.kafka_format.test_batch_oracle import assert_same
from tests.oracle.client import Oracle, b64

PACKS = golden.names()
NOT_JAVA = ("librdkafka", "kafka-python")  # their codecs make other streams of the same records
# lz4-java and snappy-java of 2016 chose other matches than those of today.
OLD_LIBRARIES = {"legacy-0.10.2.2": {Codec.LZ4, Codec.SNAPPY}}


def segments(name: str) -> list[Path]:
    """Logs, whatever their suffix (.deleted, .swap, …), and metadata snapshots."""
    return [
        path
        for path in sorted(golden.shared(name).rglob("*"))
        if path.is_file() and (".log" in path.name or ".checkpoint" in path.name)
    ]


def batches(path: Path) -> Iterator[AnyBatch]:
    with path.open("rb") as file:
        log = LogFile(file, path=path.name)
        yield from log.batches()
    assert log.end.reason == "end_of_file", log.end


@pytest.mark.parametrize("name", PACKS)
def test_every_batch_is_valid_and_written_again_byte_for_byte(name: str) -> None:
    seen = 0
    for path in segments(name):
        for batch in batches(path):
            batch.ensure_valid()
            is_foreign = any(client in path.parent.name for client in NOT_JAVA)
            is_foreign |= batch.header.codec in OLD_LIBRARIES.get(name, ())
            if not is_foreign or batch.header.codec is Codec.NONE:
                assert batch.encode() == bytes(batch.raw), batch
            seen += 1
    assert seen > 50


@pytest.mark.parametrize("name", PACKS)
def test_every_record_is_the_one_kafkas_consumer_received(name: str) -> None:
    found: dict[Any, Any] = {}
    for path in segments(name):
        if path.suffix == ".log" and not path.parent.name.startswith("__cluster_metadata"):
            topic, _, partition = path.parent.name.rpartition("-")
            for batch in batches(path):
                found |= received(batch, topic, partition)
    expected = {
        (line["topic"], str(line["partition"]), line["offset"]): line
        for line in golden.expected(name)
        if line["isolation"] == "read_uncommitted" and "offset" in line
    }
    assert expected
    assert {key: found.get(key) for key in expected} == {
        key: {field: line[field] for field in FIELDS} for key, line in expected.items()
    }


FIELDS = ("timestamp", "timestamp_type", "leader_epoch", "key", "value", "headers")


def received(batch: AnyBatch, topic: str, partition: str) -> dict[tuple, dict[str, Any]]:
    is_modern = batch.magic >= 2
    if is_modern and batch.header.is_control:
        return {}
    epoch = batch.header.partition_leader_epoch if is_modern else None
    return {
        (topic, partition, record.offset): {
            "timestamp": record.timestamp,
            "timestamp_type": str(batch.header.timestamp_type),
            "leader_epoch": epoch,
            "key": b64(record.key),
            "value": b64(record.value),
            "headers": [[header.key, b64(header.value)] for header in record.headers],
        }
        for record in batch.records()
    }


@pytest.mark.parametrize("name", PACKS)
def test_every_batch_is_read_as_kafkas_classes_read_it(oracle: Oracle, name: str) -> None:
    for path in segments(name):
        found = oracle.read_batches(path)
        assert found["error"] is None
        for batch, theirs in zip(batches(path), found["batches"], strict=True):
            assert batch.position == theirs["position"]
            assert_same(batch, theirs)
