from pathlib import Path

from tests.golden.make import ivy
from tests.golden.make.broker import ZooKeeperBroker, checkpointed_offset, wait_for
from tests.golden.make.driver import Driver
from tests.golden.make.pack import client_versions, write_pack
from tests.golden.make.scenarios.legacy_282 import (
    CODECS,
    T0,
    rows,
    wait_until_cleaned,
    write_compacted,
)
from tests.oracle import jars

NAME = "legacy-0.10.2.2"
STORY = """
A single broker with ZooKeeper, from before magic 2: no leader epochs, no producer snapshots, no log
start checkpoint. Killed with SIGKILL; its checkpoints were a few seconds old.

- `magic-0`, `magic-1`: partitions 0 to 3 are none, gzip, snappy, lz4, with null and empty keys and
  values; magic 1 as the client sent it, magic 0 converted by the broker.
- `magic-1.append-time`: LogAppendTime in wrappers and in plain messages.
- `magic-0.compacted`, `magic-1.compacted`: cleaned by the live cleaner.
- `tiny.segments`: segments of 500 bytes.
- `__consumer_offsets`: a classic group, in magic 1 messages.

The consumer read with read_uncommitted alone: this release knows no other isolation level.
"""

SETTINGS = {
    "log.cleaner.backoff.ms": 300,
    "log.cleaner.dedupe.buffer.size": 4_194_304,
    "log.cleaner.min.cleanable.ratio": 0.01,
    "log.flush.offset.checkpoint.interval.ms": 3000,
    "replica.high.watermark.checkpoint.interval.ms": 3000,
}


def make(scratch: Path) -> Path:
    expected = scratch / "expected.jsonl"
    # Java 8 had JAXB on board, which this release counts on; 3.9.1 brings the same classes
    jaxb = next(jars.libs("3.9.1").glob("jaxb-api-*.jar"))
    class_path = f"{ivy.fetch('kafka_2.12', '0.10.2.2')}/*:{jaxb}"
    with ZooKeeperBroker("0.10.2.2", scratch, SETTINGS, class_path=class_path) as broker:
        with Driver("3.9.1", broker.bootstrap, scratch) as java:
            java.wait_until_ready()
            write_codecs(java)
            write_compacted(java, broker)
            join_group(java)
            wait_for(lambda: _recovery_point(broker) > 0, 30, "a recovery point")
            java.send("lz4", rows("tiny.segments", 0, T0 + 10_000))
            wait_until_cleaned(broker, "magic-1.compacted")
            java.read_all(expected, "read_uncommitted")
            broker.kill()
        clients = client_versions("kafka-clients 3.9.1")
        return write_pack(NAME, broker, clients, STORY, expected)


def _recovery_point(broker: ZooKeeperBroker) -> int:
    return checkpointed_offset(broker.file("recovery-point-offset-checkpoint"), "tiny.segments", 0)


def write_codecs(java: Driver) -> None:
    java.topic("magic-0", 4, message_format_version="0.9.0")
    java.topic("magic-1", 4)
    java.topic("magic-1.append-time", 4, message_timestamp_type="LogAppendTime")
    java.topic("tiny.segments", segment_bytes=500)
    for partition, codec in enumerate(CODECS):
        java.producer(codec, compression_type=codec, enable_idempotence="false")
        for topic in ("magic-0", "magic-1", "magic-1.append-time"):
            for batch in range(3):
                java.send(codec, rows(topic, partition, T0 + batch * 100))
    for batch in range(5):
        java.send("gzip", rows("tiny.segments", 0, T0 + batch))


def join_group(java: Driver) -> None:
    read = {"auto.offset.reset": "earliest", "enable.auto.commit": "false"}
    java("consumer", name="alive", config=read | {"group.id": "alive"}, topics=["magic-1"])
    java("poll", names=["alive"], records=100)
    offset = {"topic": "magic-1", "partition": 0, "offset": 30, "metadata": "read"}
    java("commit", name="alive", offsets=[offset])
