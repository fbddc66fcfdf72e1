"""bootstrap.checkpoint and metadata snapshots: Kafka's classes read ours, and we write theirs anew.

A snapshot is batches of control records around batches of metadata records, so this is the whole
way: file, batch, record, message and back.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.control import (
    ControlRecord,
    ControlRecordKey,
    ControlRecordType,
    decode_control_record,
    encode_control_record,
)
from kafka_format.log_file import LogFile
from kafka_format.message import REGISTRY
from kafka_format.metadata_records import (
    MetadataRecord,
    decode_metadata_record,
    encode_metadata_record,
)
from kafka_format.record import SimpleRecord
from tests.kafka_format.voters import VOTERS
from tests.oracle.client import Oracle

NAMES = {
    "bootstrap_checkpoint": "bootstrap.checkpoint",
    "metadata_snapshot": "00000000000000000050-0000000003.checkpoint",
}
NOW = 1_700_000_000_000
HEAD = [
    ("SnapshotHeaderRecord", {"version": 0, "lastContainedLogTimestamp": NOW - 7}),
    ("KRaftVersionRecord", {"version": 0, "kRaftVersion": 1}),
    ("VotersRecord", VOTERS),
]
FOOT = [("SnapshotFooterRecord", {"version": 0})]
TYPES = {
    "SnapshotHeaderRecord": ControlRecordType.SNAPSHOT_HEADER,
    "SnapshotFooterRecord": ControlRecordType.SNAPSHOT_FOOTER,
    "KRaftVersionRecord": ControlRecordType.KRAFT_VERSION,
    "VotersRecord": ControlRecordType.KRAFT_VOTERS,
}


def drawn(oracle: Oracle, seed: int) -> list[dict[str, Any]]:
    """Metadata records of every api key in every version, as Kafka tells them."""
    return [
        {"api_key": one.api_key, "version": one.version, "data": one.data, "name": one.name}
        for one in oracle.random_messages(seed, set="metadata")
    ]


def reported(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: one[name] for name in ("api_key", "version", "data")} for one in records]


def control(name: str, data: dict[str, Any]) -> SimpleRecord:
    value = REGISTRY[name].from_json(data, 0)
    key, raw = encode_control_record(ControlRecord(ControlRecordKey(0, TYPES[name]), value))
    return SimpleRecord(NOW, key, raw)


def metadata(record: dict[str, Any]) -> SimpleRecord:
    version = record["version"]
    value = REGISTRY[record["name"]].from_json(record["data"], version)
    raw = encode_metadata_record(MetadataRecord(record["api_key"], version, record["name"], value))
    return SimpleRecord(NOW, None, raw)


# Kafka's reader of bootstrap.checkpoint knows no other control record than these two.
HEADS: dict[str, Any] = {"bootstrap_checkpoint": HEAD[:1], "metadata_snapshot": HEAD}


def snapshot(kind: str, records: list[SimpleRecord], codec: Codec) -> bytes:
    """As a controller writes one: all of its own epoch, offsets from 0 on."""
    middle = len(records) // 2
    parts = [
        ([control(*each) for each in HEADS[kind]], True),
        (records[:middle], False),
        (records[middle:], False),
        ([control(*each) for each in FOOT], True),
    ]
    out, offset = b"", 0
    for part, is_control in parts:
        out += encode_batch(
            part,
            base_offset=offset,
            codec=Codec.NONE if is_control else codec,
            is_control=is_control,
            partition_leader_epoch=3,
        )
        offset += len(part)
    return out


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("kind", NAMES)
def test_kafka_reads_the_snapshots_that_we_write(
    oracle: Oracle, tmp_path: Path, kind: str, codec: Codec
) -> None:
    records = drawn(oracle, seed=int(codec) + 1)
    path = tmp_path / NAMES[kind]
    path.write_bytes(snapshot(kind, [metadata(each) for each in records], codec))
    batches = oracle.read_file(kind, path)["batches"]
    assert [one for batch in batches for one in batch.get("records", ())] == reported(records)
    controls = [one for batch in batches for one in batch.get("control_records", ())]
    assert [(one["name"], one["data"]) for one in controls] == [*HEADS[kind], *FOOT]
    assert batches[-1]["last_offset"] == len(records) + len(HEADS[kind])


@pytest.mark.parametrize("kraft_version", [0, 1])
@pytest.mark.parametrize("kind", NAMES)
def test_a_snapshot_of_kafkas_is_written_again_byte_for_byte_from_its_values(
    oracle: Oracle, tmp_path: Path, kind: str, kraft_version: int
) -> None:
    records = drawn(oracle, seed=11 + kraft_version)
    content: dict[str, Any] = {"records": reported(records), "timestamp": NOW}
    content |= {"kraft_version": kraft_version, "last_contained_log_timestamp": NOW - 7}
    if kraft_version:
        content["voters"] = VOTERS
    theirs = oracle.write_file(kind, tmp_path / NAMES[kind], content)
    assert b"".join(anew(LogFile(theirs).batches())) == theirs


def anew(batches: Iterator[Any]) -> Iterator[bytes]:
    """Compare messages only, and the header of their batch."""
    for batch in batches:
        header = batch.header
        records = []
        for record in batch.records():
            if header.is_control:
                key, value = encode_control_record(
                    decode_control_record(record.key, record.value, strict=True)
                )
            else:
                key = record.key
                value = encode_metadata_record(decode_metadata_record(record.value, strict=True))
            records.append(SimpleRecord(record.timestamp, key, value))
        yield encode_batch(
            records,
            base_offset=header.base_offset,
            codec=header.codec,
            is_control=header.is_control,
            partition_leader_epoch=header.partition_leader_epoch,
        )
