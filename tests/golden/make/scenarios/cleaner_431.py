from pathlib import Path
from typing import Any

from tests.golden.make.broker import NODE_ID, Broker, checkpointed_offset, wait_for
from tests.golden.make.driver import HOUR, T0, Driver, record
from tests.golden.make.pack import client_versions, write_pack

NAME = "cleaner-4.3.1"
STORY = """
A single node, static quorum (kraft.version 0), two log directories, stopped with SIGTERM.

- `compacted.tombstones`: after two passes of the live cleaner; tombstones kept, with a delete
  horizon. `compacted.no-retention`: delete.retention.ms=0, so the second pass removed them.
- `compacted.producers`: idempotent producers, whose last batches stay as empty ones.
- `compacted.aborted`: committed and aborted transactions after one pass, with the .txnindex.
  `compacted.transactions`: the same after three; the abort marker has a delete horizon.
- `compacted.codecs`: rebuilt batches, partitions 0 to 4 are none, gzip, snappy, lz4, zstd.
- `compacted.append-time`: LogAppendTime, rebuilt.
- `compacted-later`: became compacted after it was written; null keys are gone.
- `open-at-stop`: a transaction that the clean stop left open.
- `expired`: retention renamed its old segments to `.deleted`.
- `deleted.topic`: deleted; its directory is renamed to `-delete` and still there.
- `moved`: was moved from one log directory to the other (the source is a `-delete` directory);
  `moving`: on its way, with a `-future` directory behind the current one.
- `audit-delete`, `audit.future`, `orders-0`: live topics with names like that.
- `__cluster_metadata`: several segments and snapshots; topics created, extended, altered and
  deleted, topic, broker, group and client-metrics configs, ACLs, quotas, SCRAM users
  (also in bootstrap.checkpoint), some of them removed again.
"""

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
LOG_DIRS = ("data-1", "data-2")
SETTINGS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "log.cleaner.backoff.ms": 300,
    "log.cleaner.dedupe.buffer.size": 4_194_304,
    "log.retention.check.interval.ms": 1000,
    "log.initial.task.delay.ms": 1000,
    "metadata.log.max.record.bytes.between.snapshots": 4000,
    "metadata.log.max.snapshot.interval.ms": 15_000,
    "metadata.log.segment.ms": 5000,
    "metadata.max.idle.interval.ms": 2000,
    "replica.fetch.max.bytes": 1000,
}
SCRAM = "SCRAM-SHA-512=[name=formatted,password=secret]"
CLEANED_BY_SEGMENT: dict[str, Any] = {
    "cleanup_policy": "compact",
    "segment_ms": HOUR,
    "min_cleanable_dirty_ratio": 0.01,
}


class Clock:
    """Two hours pass with every tick, so that the next batch opens a new segment."""

    def __init__(self) -> None:
        self.now = T0

    def tick(self) -> int:
        self.now += 2 * HOUR
        return self.now


def make(scratch: Path) -> Path:
    expected = scratch / "expected.jsonl"
    broker = Broker(
        "4.3.1", scratch, SETTINGS, log_dirs=LOG_DIRS, format_options=("--add-scram", SCRAM)
    )
    with broker:
        with Driver("4.3.1", broker.bootstrap, scratch) as java:
            java.wait_until_ready()
            write_metadata(java)
            clean_keys(java, broker)
            clean_producers(java, broker)
            clean_transactions(java, broker)
            clean_codecs(java, broker)
            clean_former_delete_policy(java, broker)
            write_open_transaction(java)
            expire_and_delete(java, broker)
            move(java, broker)
            java.read_all(expected)
            broker.stop()
        return write_pack(NAME, broker, client_versions("kafka-clients 4.3.1"), STORY, expected)


def wait_for_cleaning(broker: Broker, topic: str, to: int, partition: int = 0) -> None:
    """Until the cleaner checkpoint of one of the log directories is at that offset."""
    files = [broker.home / each / "cleaner-offset-checkpoint" for each in broker.log_dirs]
    wait_for(
        lambda: any(checkpointed_offset(file, topic, partition) == to for file in files),
        60,
        f"{topic}-{partition} to be cleaned to {to}",
    )


def put(topic: str, at: int, *pairs: tuple[bytes, bytes | None], partition: int = 0) -> Any:
    return [record(topic, partition, key, value, timestamp=at) for key, value in pairs]


def write_metadata(java: Driver) -> None:
    java.topic("orders-0", 2)
    java.topic("audit-delete")
    java.topic("audit.future")
    java("add_partitions", topic="orders-0", count=3)
    java("alter_config", type="TOPIC", name="orders-0", set={"retention.ms": 1000, "flush.ms": 9})
    java(
        "alter_config", type="TOPIC", name="orders-0", delete=["flush.ms"], set={"retention.ms": -1}
    )
    java("alter_config", type="BROKER", name="", set={"log.cleaner.threads": 2})
    java("alter_config", type="BROKER", name=str(NODE_ID), set={"max.connections.per.ip": 1000})
    java("alter_config", type="GROUP", name="a-group", set={"share.session.timeout.ms": 50_000})
    metrics = {"interval.ms": 10_000, "metrics": "org.apache.kafka.producer."}
    java("alter_config", type="CLIENT_METRICS", name="producers", set=metrics)
    for user, mechanism in (("alice", "SCRAM-SHA-256"), ("alice", "SCRAM-SHA-512")):
        java("scram_user", user=user, mechanism=mechanism, password="secret")
    java("remove_scram_user", user="alice", mechanism="SCRAM-SHA-512")
    for principal, permission in (("User:alice", "ALLOW"), ("User:mallory", "DENY")):
        java(
            "acl",
            resource_type="TOPIC",
            resource="orders",
            pattern="PREFIXED",
            principal=principal,
            host="*",
            operation="READ",
            permission=permission,
        )
    java("remove_acls_of", principal="User:mallory")
    java("quota", entity={"user": "alice"}, key="producer_byte_rate", value=1_000_000)
    java("quota", entity={"client-id": None}, key="consumer_byte_rate", value=2_000_000)
    java("quota", entity={"user": None, "client-id": "c"}, key="request_percentage", value=12.5)
    java("quota", entity={"client-id": None}, key="consumer_byte_rate", value=None)
    java.producer("plain", enable_idempotence="false")
    for topic in ("orders-0", "audit-delete", "audit.future"):
        java.send("plain", put(topic, T0, (b"k", b"v")))


def clean_keys(java: Driver, broker: Broker) -> None:
    """Two passes; ten offsets a segment, the last segment active each time."""
    for topic, config in (
        ("compacted.tombstones", {}),
        ("compacted.no-retention", {"delete_retention_ms": 0}),
        ("compacted.append-time", {"message_timestamp_type": "LogAppendTime"}),
    ):
        append_time = "message_timestamp_type" in config
        settings = CLEANED_BY_SEGMENT | config | ({"segment_ms": 1} if append_time else {})
        java.topic(topic, **settings)
        clock = Clock()
        keys = [b"key-%d" % index for index in range(10)]
        old = [(key, b"old " + key) for key in keys]
        mixed = [(key, None if key in keys[4:8] else b"new " + key) for key in keys]
        java.send("plain", put(topic, clock.tick(), *old))
        java.send("plain", put(topic, clock.tick(), *mixed))
        java.send("plain", put(topic, clock.tick(), *old[:5]))
        java.send("plain", put(topic, clock.tick(), (b"", b"the key is empty")))
        wait_for_cleaning(broker, topic, 25)
        java.send("plain", put(topic, clock.tick(), *mixed[:3]))
        java.send("plain", put(topic, clock.tick(), (b"active", b"segment")))
        wait_for_cleaning(broker, topic, 29)


def clean_producers(java: Driver, broker: Broker) -> None:
    topic = "compacted.producers"
    java.topic(topic, **CLEANED_BY_SEGMENT)
    clock = Clock()
    for name in ("first", "second", "third"):
        java.producer(name, compression_type="gzip")
    pairs = [(b"a", b"1"), (b"b", b"2"), (b"c", b"3")]
    for name in ("first", "second"):
        java.send(name, put(topic, clock.tick(), *pairs))
        java.send(name, put(topic, clock.now + 1, *pairs))
    java.send("third", put(topic, clock.tick(), *pairs))
    java.send("third", put(topic, clock.tick(), (b"d", b"4")))
    wait_for_cleaning(broker, topic, 15)


def clean_transactions(java: Driver, broker: Broker) -> None:
    """One pass drops what was aborted; the next gives its marker a horizon, forgets its entry."""
    for name in ("committer", "aborter"):
        java.producer(name, transactional_id=f"txn-{name}")
    for topic, passes in (("compacted.aborted", 1), ("compacted.transactions", 3)):
        _clean_transactions(java, broker, topic, passes)


def _clean_transactions(java: Driver, broker: Broker, topic: str, passes: int) -> None:
    # markers carry the broker's clock, years after T0: only so long a segment takes both
    java.topic(topic, **CLEANED_BY_SEGMENT | {"segment_ms": 86_400_000 * 10_000})
    for round_ in range(2):
        pairs = [(b"key-%d" % index, b"round %d" % round_) for index in range(4)]
        java.transact("committer", put(topic, T0, *pairs), commit=True)
        java.transact("aborter", put(topic, T0, *pairs), commit=False)
    clock = Clock()
    for pass_ in range(passes):
        before = java("end_offsets")[f"{topic}-0"]
        java("alter_config", type="TOPIC", name=topic, set={"segment.ms": 1})
        java.send("plain", put(topic, clock.tick(), (b"pass", b"%d" % pass_)))
        wait_for_cleaning(broker, topic, before)


def clean_codecs(java: Driver, broker: Broker) -> None:
    topic = "compacted.codecs"
    java.topic(topic, 5, **CLEANED_BY_SEGMENT)
    for partition, codec in enumerate(CODECS):
        name = f"codec-{codec}"
        java.producer(name, compression_type=codec, enable_idempotence="false")
        clock = Clock()
        for generation in range(2):
            rows = [
                (b"key-%02d" % (index * (generation + 1)), b"generation %d " % generation * 20)
                for index in range(30)
            ]
            java.send(name, put(topic, clock.tick(), *rows, partition=partition))
        java.send(name, put(topic, clock.tick(), (b"active", b"segment"), partition=partition))
        java("close_producer", name=name)
    for partition in range(len(CODECS)):
        wait_for_cleaning(broker, topic, 60, partition)


def clean_former_delete_policy(java: Driver, broker: Broker) -> None:
    topic = "compacted-later"
    java.topic(topic, segment_ms=HOUR)
    clock = Clock()
    for _ in range(2):
        batch = put(topic, clock.tick(), (b"k", b"1"), (b"k", b"2"), (b"other", b""))
        java.send("plain", [*batch, record(topic, 0, None, b"keyless", timestamp=clock.now)])
    java.send("plain", put(topic, clock.tick(), (b"k", b"3")))
    settings = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": 0.01}
    java("alter_config", type="TOPIC", name=topic, set=settings)
    wait_for_cleaning(broker, topic, 8)


def write_open_transaction(java: Driver) -> None:
    java.topic("open-at-stop")
    java.producer("open", transactional_id="txn-open", transaction_timeout_ms=900_000)
    java.transact("open", put("open-at-stop", T0, (b"k", b"committed")), commit=True)
    java("begin", name="open")
    java.send("open", put("open-at-stop", T0, (b"k", b"open"), (b"k", b"open too")))
    java.send("plain", put("open-at-stop", T0, (b"k", b"behind the open transaction")))


def expire_and_delete(java: Driver, broker: Broker) -> None:
    java.topic("expired", segment_ms=HOUR, retention_ms=HOUR)
    clock = Clock()
    for key in (b"a", b"b", b"c"):
        java.send("plain", put("expired", clock.tick(), (key, b"old")))
    java.send("plain", [record("expired", 0, b"d", b"of today", timestamp=None)])
    name = "expired-0/00000000000000000002.log.deleted"
    wait_for(lambda: any(broker.home.glob(f"data-*/{name}")), 60, "retention")

    java.topic("deleted.topic", 2)
    for partition in (0, 1):
        rows = [(b"k", b"gone"), (b"k", None)]
        java.send("plain", put("deleted.topic", T0, *rows, partition=partition))
    java("delete_topics", topics=["deleted.topic"])
    wait_for(
        lambda: len(list(broker.home.glob("data-*/deleted.topic-*-delete"))) == 2,
        30,
        "the topic's directories to be renamed",
    )


def move(java: Driver, broker: Broker) -> None:
    """One replica moves to the other log directory, a second one is too slow to arrive."""
    for topic in ("moved", "moving"):
        java.topic(topic)
        for batch in range(40):
            java.send("plain", put(topic, T0 + batch, (b"%d" % batch, b"x" * 500)))
    _move(java, broker, "moved")
    wait_for(
        lambda: any(broker.home.glob("data-*/moved-0.*-delete")), 60, "the move to be finished"
    )
    throttle = {"replica.alter.log.dirs.io.max.bytes.per.second": 1}
    java("alter_config", type="BROKER", name=str(NODE_ID), set=throttle)
    _move(java, broker, "moving")
    wait_for(
        lambda: any(
            log.stat().st_size for log in broker.home.glob("data-*/moving-0.*-future/*.log")
        ),
        60,
        "the future replica to have begun",
    )


def _move(java: Driver, broker: Broker, topic: str) -> None:
    target = next(
        broker.home / log_dir
        for log_dir in broker.log_dirs
        if not (broker.home / log_dir / f"{topic}-0").is_dir()
    )
    java("move_replica", topic=topic, partition=0, broker=NODE_ID, log_dir=str(target))
