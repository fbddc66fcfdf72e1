from pathlib import Path
from typing import Any

from tests.golden.make import ivy
from tests.golden.make.broker import Broker, ZooKeeperBroker, checkpointed_offset, wait_for
from tests.golden.make.driver import T0, Driver, record
from tests.golden.make.pack import client_versions, write_pack

NAME = "legacy-2.8.2"
STORY = """
A single broker with ZooKeeper (meta.properties version 0), stopped with SIGTERM. The last release
that writes all three message formats; message.format.version chose one a topic, and the broker
converted what the clients sent.

- `magic-0`, `magic-1`, `magic-2`: partitions 0 to 3 are none, gzip, snappy, lz4, with null and
  empty keys and values. In magic 0 the lz4 frame has Kafka's old wrong header checksum.
- `magic-1.append-time`: LogAppendTime in wrappers and in plain messages.
- `magic-0.mixed`, `magic-1.mixed`: the topic's format was raised while it lived, so that older
  messages precede newer batches in one segment.
- `magic-0.compacted`, `magic-1.compacted`: cleaned by the live cleaner, wrappers rebuilt.
- `transactions`: magic 2, with committed, aborted and open transactions.
- `__consumer_offsets`: a classic group with a live member, and a deleted one.
"""

CODECS = ("none", "gzip", "snappy", "lz4")
FORMATS = ("0.9.0", "0.10.2", "2.8")
SETTINGS = {
    "log.cleaner.backoff.ms": 300,
    "log.cleaner.dedupe.buffer.size": 4_194_304,
    "log.cleaner.min.cleanable.ratio": 0.01,
}


def make(scratch: Path) -> Path:
    expected = scratch / "expected.jsonl"
    class_path = f"{ivy.fetch('kafka_2.13', '2.8.2')}/*"
    with ZooKeeperBroker("2.8.2", scratch, SETTINGS, class_path=class_path) as broker:
        with Driver("3.9.1", broker.bootstrap, scratch) as java:
            java.wait_until_ready()
            write_codecs(java)
            write_append_time(java)
            write_mixed(java)
            write_compacted(java, broker)
            write_transactions(java)
            join_groups(java)
            java.read_all(expected)
            broker.stop()
        clients = client_versions("kafka-clients 3.9.1")
        return write_pack(NAME, broker, clients, STORY, expected)


def write_codecs(java: Driver) -> None:
    for magic, message_format in enumerate(FORMATS):
        java.topic(f"magic-{magic}", 4, message_format_version=message_format)
    for partition, codec in enumerate(CODECS):
        java.producer(codec, compression_type=codec, enable_idempotence="false")
        for magic in range(3):
            for batch in range(3):
                java.send(codec, rows(f"magic-{magic}", partition, T0 + batch * 100))


def rows(topic: str, partition: int, timestamp: int) -> list[dict[str, object]]:
    """Values of all kinds; no headers, which the old formats cannot hold."""
    pairs = [(b"key-%d" % index, b"a value that repeats itself, " * 5) for index in range(6)]
    pairs += [(None, b"no key"), (b"", b"empty key"), (b"tombstone", None), (b"empty value", b"")]
    return [
        record(topic, partition, key, value, timestamp=timestamp + index)
        for index, (key, value) in enumerate(pairs)
    ]


def write_append_time(java: Driver) -> None:
    topic = "magic-1.append-time"
    java.topic(topic, 2, message_format_version="0.10.2", message_timestamp_type="LogAppendTime")
    for partition, codec in enumerate(("none", "gzip")):
        for _ in range(2):
            java.send(codec, rows(topic, partition, T0))


def write_mixed(java: Driver) -> None:
    for magic in (0, 1):
        topic = f"magic-{magic}.mixed"
        java.topic(topic)
        for message_format in FORMATS[magic:]:
            changed = {"message.format.version": message_format}
            java("alter_config", type="TOPIC", name=topic, set=changed)
            wait_until_configured()
            for codec in ("none", "lz4"):
                java.send(codec, rows(topic, 0, T0))


def wait_until_configured() -> None:
    """A broker hears of topic settings through ZooKeeper, a moment later; no client can see it."""
    import time

    time.sleep(2)


def write_compacted(java: Driver, broker: Broker) -> None:
    settings: dict[str, Any] = {"cleanup_policy": "compact", "segment_bytes": 1500}
    for magic in (0, 1):
        topic = f"magic-{magic}.compacted"
        java.topic(topic, message_format_version=FORMATS[magic], **settings)
        for round_ in range(6):
            for codec in ("none", "gzip"):
                value = None if round_ == 3 else b"round %d " % round_ * 8
                keys = [b"key-%d" % ((round_ * 5 + index) % 17) for index in range(10)]
                sent = [record(topic, 0, key, value, timestamp=T0 + round_) for key in keys]
                java.send(codec, sent)
        wait_until_cleaned(broker, topic)


def wait_until_cleaned(broker: Broker, topic: str) -> None:
    def cleaned() -> bool:
        active = max(int(each.stem) for each in broker.file(f"{topic}-0").glob("*.log"))
        checkpoint = broker.file("cleaner-offset-checkpoint")
        return active > 0 and checkpointed_offset(checkpoint, topic, 0) == active

    wait_for(cleaned, 60, f"{topic} to be cleaned")


def write_transactions(java: Driver) -> None:
    java.topic("transactions")
    java.producer("transactional", transactional_id="txn", transaction_timeout_ms=900_000)
    for commit in (True, False, True):
        batch = [record("transactions", 0, b"k", b"%d" % commit, timestamp=None)]
        java.transact("transactional", batch, commit=commit)
    java("begin", name="transactional")
    java.send("transactional", [record("transactions", 0, b"k", b"open", timestamp=None)])


def join_groups(java: Driver) -> None:
    read = {"auto.offset.reset": "earliest", "enable.auto.commit": "false"}
    for group in ("alive", "deleted"):
        java("consumer", name=group, config=read | {"group.id": group}, topics=["magic-1"])
        java("poll", names=[group], records=100)
        offset = {"topic": "magic-1", "partition": 0, "offset": 30, "metadata": "read"}
        java("commit", name=group, offsets=[offset])
    java("close_consumer", name="deleted")
    java("delete_groups", groups=["deleted"])
