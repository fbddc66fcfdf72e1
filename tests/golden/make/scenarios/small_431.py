from pathlib import Path

from tests.golden.make.broker import Broker, checkpointed_offset, wait_for
from tests.golden.make.driver import T0, Driver, record
from tests.golden.make.pack import client_versions, write_pack

NAME = "small-4.3.1"
STORY = """
Every kind of file in about 32 KiB. A single node, dynamic quorum (kraft.version 1), stopped cleanly
twice: what was written after the first stop has a higher leader epoch.

- `orders`: two partitions, several small segments with entries in every index, plain records of
  an idempotent producer between committed and aborted transactions, and one open at the stop.
- `codecs`: one batch for each codec. `stamped`: LogAppendTime.
- `compacted`: cleaned by the live cleaner, with a tombstone and its delete horizon.
- `trimmed`: DeleteRecords moved the log start inside a segment.
- `__consumer_offsets`: a consumer-protocol group, offsets in a committed transaction.
- `__cluster_metadata`: with a snapshot.
"""

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = {
    "log.cleaner.backoff.ms": 300,
    "log.cleaner.dedupe.buffer.size": 4_194_304,
    "log.initial.task.delay.ms": 1000,
    "log.flush.start.offset.checkpoint.interval.ms": 1000,
    "metadata.log.max.record.bytes.between.snapshots": 3000,
}


def make(scratch: Path) -> Path:
    expected = scratch / "expected.jsonl"
    with Broker("4.3.1", scratch, SETTINGS, standalone=True) as broker:
        with Driver("4.3.1", broker.bootstrap, scratch) as java:
            java.wait_until_ready()
            create_topics(java)
            write_codecs(java)
            write_orders(java, b"first")
            write_compacted(java, broker)
        broker.stop()
        broker.start()
        with Driver("4.3.1", broker.bootstrap, scratch) as java:
            java.wait_until_ready()
            write_orders(java, b"second")
            join_group(java)
            java("delete_records", topic="trimmed", partition=0, before=3)
            checkpoint = broker.file("log-start-offset-checkpoint")
            wait_for(lambda: checkpointed_offset(checkpoint, "trimmed", 0) == 3, 30, "a log start")
            leave_transaction_open(java)
            java.read_all(expected)
            broker.stop()
        return write_pack(NAME, broker, client_versions("kafka-clients 4.3.1"), STORY, expected)


def create_topics(java: Driver) -> None:
    java.topic("orders", 2, internal_segment_bytes=900, index_interval_bytes=1)
    java.topic("codecs", index_interval_bytes=1)
    java.topic("stamped", message_timestamp_type="LogAppendTime")
    java.topic("trimmed")
    java.topic(
        "compacted", cleanup_policy="compact", segment_ms=3_600_000, min_cleanable_dirty_ratio=0.01
    )


def write_codecs(java: Driver) -> None:
    for at, codec in enumerate(CODECS):
        java.producer(codec, compression_type=codec)
        sent = [
            record("codecs", 0, b"key-%d" % i, b"value %d, " % i * 5, timestamp=T0 + at)
            for i in range(20)
        ]
        java.send(codec, sent)
    for topic in ("stamped", "trimmed"):
        for key in (b"a", b"b"):
            java.send("none", [record(topic, 0, key, b"v", timestamp=T0) for _ in range(3)])


def write_orders(java: Driver, life: bytes) -> None:
    java.producer("plain")
    for name in ("committer", "aborter"):
        java.producer(name, transactional_id=f"txn-{name}")
    start = T0 + (0 if life == b"first" else 3_600_000)
    for round_ in range(3):
        now = start + round_ * 60_000
        java.send("plain", _both(b"plain", life, now))
        java("begin", name="aborter")
        java.send("aborter", _both(b"aborted", life, now + 2))
        java.transact("committer", _both(b"committed", life, now + 4), commit=True)
        java("abort_transaction", name="aborter")


def _both(key: bytes, life: bytes, now: int) -> list[dict[str, object]]:
    return [
        record("orders", partition, key, life + b" life", timestamp=now + i)
        for partition in (0, 1)
        for i in range(3 - partition)
    ]


def write_compacted(java: Driver, broker: Broker) -> None:
    checkpoint = broker.file("cleaner-offset-checkpoint")
    for round_ in range(3):
        at = T0 + round_ * 2 * 3_600_000
        values = [b"round %d" % round_] * 3 + [None if round_ else b"to be deleted"]
        sent = [record("compacted", 0, b"k%d" % i, v, timestamp=at) for i, v in enumerate(values)]
        java.send("none", sent)
    wait_for(lambda: checkpointed_offset(checkpoint, "compacted", 0) == 8, 60, "a cleaning")


def join_group(java: Driver) -> None:
    config = {"group.id": "group", "group.protocol": "consumer", "client.id": "reader"}
    config |= {"auto.offset.reset": "earliest", "enable.auto.commit": "false"}
    java("consumer", name="reader", config=config, topics=["codecs"])
    java("poll", names=["reader"], records=100)
    offset = {"topic": "codecs", "partition": 0, "offset": 100, "metadata": ""}
    java("commit", name="reader", offsets=[offset])
    java("begin", name="committer")
    java("send_offsets", name="committer", group="in-transaction", offsets=[offset])
    java("commit_transaction", name="committer")


def leave_transaction_open(java: Driver) -> None:
    java.producer("open", transactional_id="txn-open", transaction_timeout_ms=900_000)
    java("begin", name="open")
    at = T0 + 2 * 3_600_000
    java.send("open", [record("orders", 0, b"open", b"at the stop", timestamp=at)])
