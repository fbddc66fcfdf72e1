from pathlib import Path

from tests.golden.make.broker import Broker, checkpointed_offset, wait_for
from tests.golden.make.clients import librdkafka_send
from tests.golden.make.driver import T0, Driver, record
from tests.golden.make.pack import client_versions, write_pack
from tests.golden.make.scenarios.unclean_431 import CODECS, rows

NAME = "clean-3.9.1"
STORY = """
A single node, dynamic quorum (kraft.version 1), stopped cleanly twice: what was written after the
first stop has a higher leader epoch.

- `tiny.segments`: segment.bytes=400, some forty of them; DeleteRecords moved the log start inside
  one of them. `tiny-indexed`: index.interval.bytes=1, an entry for every batch but the first.
- `codecs`: partitions 0 to 4 are none, gzip, snappy, lz4, zstd, by Java; `codecs-librdkafka` too.
- `transactions`: committed, aborted and open at the stop; markers with the producer's own epoch;
  TransactionLog values of version 0.
- `compacted`: segments of 400 bytes, cleaned and merged in several passes, tombstones among them.
- `__consumer_offsets`: OffsetCommit values of version 3; tiny segments that were cleaned too;
  classic groups with live, emptied and deleted ones; consumer-protocol groups of the preview.
- `was-here`: a deleted topic, written to before the first stop.
"""

SETTINGS = {
    "group.coordinator.rebalance.protocols": "classic,consumer",
    "offsets.topic.segment.bytes": 1500,
    "log.cleaner.backoff.ms": 300,
    "log.cleaner.dedupe.buffer.size": 4_194_304,
    "log.cleaner.min.cleanable.ratio": 0.01,
    "metadata.log.max.record.bytes.between.snapshots": 5000,
}
READ = {"auto.offset.reset": "earliest", "enable.auto.commit": "false"}


def make(scratch: Path) -> Path:
    expected = scratch / "expected.jsonl"
    with Broker("3.9.1", scratch, SETTINGS, standalone=True) as broker:
        with Driver("3.9.1", broker.bootstrap, scratch) as java:
            java.wait_until_ready()
            write_topics(java, broker)
            join_groups(java)
            write_transactions(java, b"epoch 0")
        broker.stop()
        broker.start()
        with Driver("3.9.1", broker.bootstrap, scratch) as java:
            java.wait_until_ready()
            write_compacted(java, broker)
            write_transactions(java, b"second epoch")
            write_tiny_segments(java, "after the first stop")
            java("delete_records", topic="tiny.segments", partition=0, before=5)
            join_again(java)
            java("delete_topics", topics=["was-here"])
            wait_for(lambda: any(broker.file("").glob("was-here-0.*-delete")), 30, "the deletion")
            leave_transaction_open(java)
            wait_until_cleaned(broker, "__consumer_offsets-0")
            java.read_all(expected)
            broker.stop()
        clients = client_versions("kafka-clients 3.9.1", "confluent-kafka")
        return write_pack(NAME, broker, clients, STORY, expected)


def wait_until_cleaned(broker: Broker, log: str) -> None:
    """Until the cleaner has come to the active segment."""
    topic, _, partition = log.rpartition("-")

    def cleaned() -> bool:
        active = max(int(each.stem) for each in broker.file(log).glob("*.log"))
        checkpoint = broker.file("cleaner-offset-checkpoint")
        return checkpointed_offset(checkpoint, topic, int(partition)) == active

    wait_for(cleaned, 60, f"{log} to be cleaned")


def write_topics(java: Driver, broker: Broker) -> None:
    java.topic("tiny.segments", segment_bytes=400)
    java.topic("tiny-indexed", segment_bytes=4000, index_interval_bytes=1)
    java.topic("codecs", 5)
    java.topic("codecs-librdkafka", 5)
    java.topic("transactions", segment_bytes=2000)
    java.topic("compacted", cleanup_policy="compact", segment_bytes=400)
    java.topic("was-here")
    for partition, codec in enumerate(CODECS):
        java.producer(codec, compression_type=codec)
        for batch in range(2):
            sent = enumerate(rows(10), start=batch * 10)
            java.send(
                codec,
                [
                    record("codecs", partition, key, value, timestamp=T0 + at, headers=headers)
                    for at, (key, value, headers) in sent
                ],
            )
        librdkafka_send(
            broker.bootstrap,
            rows(20),
            topic="codecs-librdkafka",
            partition=partition,
            compression_type=codec,
        )
    java.send("none", [record("was-here", 0, b"k", b"v")])
    write_tiny_segments(java, "before the first stop")


def write_tiny_segments(java: Driver, value: str) -> None:
    java.producer("tiny", enable_idempotence="false")
    for index in range(20):
        for topic in ("tiny.segments", "tiny-indexed"):
            sent = [
                record(topic, 0, b"%d" % index, value.encode() * 3, timestamp=T0 + index)
                for _ in range(2)
            ]
            java.send("tiny", sent)


def join_groups(java: Driver) -> None:
    config = READ | {"group.id": "classic"}
    for member in ("classic-1", "classic-2"):
        java("consumer", name=member, config=config | {"client.id": member}, topics=["codecs"])
    java("poll", names=["classic-1", "classic-2"], records=50)
    for offset in range(20):  # commits enough to fill some segments
        java("commit", name="classic-1", offsets=[_offset(0, offset, "some metadata")])
        java("commit", name="classic-2", offsets=[_offset(4, offset, "")])
    config = READ | {"group.id": "consumer", "group.protocol": "consumer"}
    for member in ("consumer-1", "consumer-2"):
        java("consumer", name=member, config=config | {"client.id": member}, topics=["codecs"])
    java("poll", names=["consumer-1", "consumer-2"], records=50)
    java("commit", name="consumer-1", offsets=[_offset(0, 20, "")])
    for group in ("emptied", "deleted"):
        java("consumer", name=group, config=READ | {"group.id": group}, topics=["codecs"])
        java("poll", names=[group], records=50)
        java("commit", name=group, offsets=[_offset(2, 2, "")])
        java("close_consumer", name=group)
    java("delete_groups", groups=["deleted"])


def join_again(java: Driver) -> None:
    config = READ | {"group.id": "second-life", "client.id": "after the first stop"}
    java("consumer", name="again", config=config, topics=["codecs"])
    java("poll", names=["again"], records=50)
    java("commit", name="again", offsets=[_offset(1, 20, "end")])
    java("commit", name="again", offsets=[_offset(1, 19, "end")])


def _offset(partition: int, offset: int, metadata: str) -> dict[str, object]:
    return {"topic": "codecs", "partition": partition, "offset": offset, "metadata": metadata}


def write_transactions(java: Driver, value: bytes) -> None:
    for name in ("committer", "aborter"):
        java.producer(name, transactional_id=f"txn-{name}", compression_type="zstd")
    for _ in range(3):
        java.transact("committer", _batch(b"committed, " + value), commit=True)
        java.transact("aborter", _batch(b"aborted, " + value), commit=False)
    java("begin", name="committer")
    java.send("committer", _batch(b"committed with offsets, " + value))
    java("send_offsets", name="committer", group="transactional", offsets=[_offset(3, 3, "txn")])
    java("commit_transaction", name="committer")


def leave_transaction_open(java: Driver) -> None:
    java.producer("open", transactional_id="txn-open", transaction_timeout_ms=900_000)
    java("begin", name="open")
    java.send("open", _batch(b"open"))
    java.transact("committer", _batch(b"committed behind the open one"), commit=True)


def _batch(value: bytes) -> list[dict[str, object]]:
    return [record("transactions", 0, b"k%d" % index, value, timestamp=None) for index in range(3)]


def write_compacted(java: Driver, broker: Broker) -> None:
    java.producer("plain", enable_idempotence="false")
    for round_, key_count in enumerate((10, 10, 6)):  # the last round leaves old tombstones alone
        for batch in range(8):
            keys = [b"key-%d" % ((batch * 3 + index) % key_count) for index in range(3)]
            value = None if round_ == 1 and batch % 3 == 0 else b"round %d" % round_
            sent = [record("compacted", 0, key, value, timestamp=T0 + batch) for key in keys]
            java.send("plain", sent)
        wait_until_cleaned(broker, "compacted-0")
