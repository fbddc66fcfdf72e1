from pathlib import Path

from tests.golden.make.broker import Broker, checkpointed_offset, wait_for
from tests.golden.make.driver import T0, Driver, record
from tests.golden.make.pack import client_versions, write_pack

NAME = "unclean-3.9.1"
STORY = """
A single node, static quorum (kraft.version 0), formatted with metadata version 3.3 and upgraded to
3.9 while it ran, killed with SIGKILL: the metadata log holds old versions of the records, and the
checkpoints are a few seconds old and behind the logs.

- `rolled`: segments of 1000 bytes; recovery point, high watermark and end differ.
- `append.time`: LogAppendTime.
- `transactions`: an aborted and a committed transaction, and one open at the end.
"""

SETTINGS = {
    "log.flush.offset.checkpoint.interval.ms": 3000,
    "log.flush.start.offset.checkpoint.interval.ms": 3000,
    "replica.high.watermark.checkpoint.interval.ms": 3000,
    "metadata.log.max.record.bytes.between.snapshots": 2000,
}
METADATA_3_9_IV0 = 21


def make(scratch: Path) -> Path:
    expected = scratch / "expected.jsonl"
    options = ("--release-version", "3.3")
    with Broker("3.9.1", scratch, SETTINGS, format_options=options) as broker:
        with Driver("3.9.1", broker.bootstrap, scratch) as java:
            java.wait_until_ready()
            java.topic("rolled", segment_bytes=1000)
            java.topic("append.time", message_timestamp_type="LogAppendTime")
            java.topic("deleted-before.upgrade")
            java("delete_topics", topics=["deleted-before.upgrade"])
            java("update_feature", feature="metadata.version", level=METADATA_3_9_IV0)
            java.topic("transactions", 2)
            write(java)
            wait_for(lambda: _recovery_point(broker) >= 20, 30, "a recovery point")
            java("delete_records", topic="rolled", partition=0, before=3)
            wait_for(lambda: _log_start(broker) == 3, 30, "a log start")
            write(java)
            java("begin", name="open")
            java.send("open", _transactional(b"open"))
            java.read_all(expected)
            broker.kill()
        return write_pack(NAME, broker, client_versions("kafka-clients 3.9.1"), STORY, expected)


def _recovery_point(broker: Broker) -> int:
    return checkpointed_offset(broker.file("recovery-point-offset-checkpoint"), "rolled", 0)


def _log_start(broker: Broker) -> int:
    return checkpointed_offset(broker.file("log-start-offset-checkpoint"), "rolled", 0)


def write(java: Driver) -> None:
    java.producer("idempotent")
    java.producer("open", transactional_id="txn")
    for index in range(15):
        for topic in ("rolled", "append.time"):
            sent = [
                record(topic, 0, b"key-%d" % index, b"value " * 20, timestamp=T0 + index)
                for _ in range(2)
            ]
            java.send("idempotent", sent)
    java.transact("open", _transactional(b"aborted"), commit=False)
    java.transact("open", _transactional(b"committed"), commit=True)


def _transactional(value: bytes) -> list[dict[str, object]]:
    return [
        record("transactions", partition, b"k%d" % index, value, timestamp=T0 + index)
        for index in range(3)
        for partition in (0, 1)
    ]
