"""Log dirs that a live broker wrote and left, from a seed.

    with written(seed, scratch) as life: ...
        life.log_dirs       what it left
        life.was_killed     or stopped cleanly

Topics with random settings and many partitions, every codec, idempotent and plain producers,
transactions that commit, abort and stay open, null keys and tombstones, the live cleaner, retention
and DeleteRecords, consumer groups, deleted topics; one or two lives, each stopped or killed. Often
a second broker has replicas, and is stopped or killed and started again in the middle of the work.
"""

import contextlib
import random
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.golden.make.broker import Broker
from tests.golden.make.driver import T0, Driver, record

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_MINUTE = 60_000
_SETTINGS = {
    "log.cleaner.backoff.ms": 300,
    "log.cleaner.dedupe.buffer.size": 4_194_304,
    "log.initial.task.delay.ms": 1000,
    "log.retention.check.interval.ms": 1000,
    "log.flush.offset.checkpoint.interval.ms": 1500,
    "log.flush.start.offset.checkpoint.interval.ms": 1000,
    "replica.high.watermark.checkpoint.interval.ms": 1000,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Life:
    """What a broker left."""

    version: str
    seed: int
    log_dirs: list[Path]
    was_killed: bool
    replica_dirs: list[Path]
    """Those of the second broker; none if there was one only."""

    @property
    def partitions(self) -> int:
        return sum(
            each.is_dir()
            for path in (*self.log_dirs, *self.replica_dirs)
            for each in path.iterdir()
        )

    def __str__(self) -> str:
        end = "killed" if self.was_killed else "stopped"
        brokers = 2 if self.replica_dirs else 1
        return f"Kafka {self.version}, seed {self.seed}, {brokers} brokers, {end}"


def write(version: str, seed: int, scratch: Path, *, partitions: int = 40) -> Life:
    """Run a broker and its clients; `partitions` is about how many user partitions there are."""
    rng = random.Random(f"live {version} {seed}")
    log_dirs = ("data",) if rng.random() < 0.6 else ("data-1", "data-2")
    settings = _SETTINGS | {
        "metadata.log.max.record.bytes.between.snapshots": rng.choice((3000, 20_000, 20_971_520)),
        "offsets.topic.num.partitions": rng.choice((1, 5)),
        "transaction.state.log.num.partitions": rng.choice((1, 3)),
    }
    if version.startswith("4."):
        settings["offsets.topic.segment.bytes"] = 1_048_576
    else:
        settings["offsets.topic.segment.bytes"] = rng.choice((1500, 1_048_576))
    has_replicas = rng.random() < 0.5
    if has_replicas:  # or their partitions could be on the second broker only
        settings["offsets.topic.replication.factor"] = 2
        settings["transaction.state.log.replication.factor"] = 2
    was_killed = False
    with contextlib.ExitStack() as stack:
        broker = Broker(version, scratch, settings, standalone=True, log_dirs=log_dirs)
        stack.enter_context(broker)
        second = None
        if has_replicas:
            second = _SecondBroker(version, scratch / "second", settings, leader=broker)
            stack.enter_context(second)
        topics: list[_Topic] = []
        for life in range(rng.choice((1, 2))):
            if life:
                broker.start()
            if second and not second.is_running:
                second.start()
            with Driver(version, broker.bootstrap, scratch) as java:
                java.wait_until_ready()
                work = _Work(rng, java, version, topics, life)
                work.replication = 2 if second else 1
                work.run(partitions, second)
            if second and rng.random() < 0.5:
                _end(second, rng)
            was_killed = _end(broker, rng)
        if second and second.is_running:
            _end(second, rng)
    return Life(
        version=version,
        seed=seed,
        log_dirs=[scratch / each for each in log_dirs],
        was_killed=was_killed,
        replica_dirs=[second.home / "data"] if second else [],
    )


def _end(broker: Broker, rng: random.Random) -> bool:
    """Stop or kill a broker; return whether it was killed."""
    is_killed = rng.random() < 0.5
    if is_killed:
        broker.kill()
    else:
        broker.stop()
    return is_killed


class _SecondBroker(Broker):
    """A broker only: the first one is its controller."""

    def __init__(
        self, version: str, home: Path, properties: Mapping[str, object], *, leader: Broker
    ) -> None:
        home.mkdir()
        super().__init__(version, home, {**properties, "process.roles": "broker", "node.id": 2})
        del self.properties["controller.quorum.voters"]
        servers = leader.properties["controller.quorum.bootstrap.servers"]
        self.properties["controller.quorum.bootstrap.servers"] = servers
        self.properties["listeners"] = f"PLAINTEXT://{self.bootstrap}"

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None


@dataclass(slots=True)
class _Topic:
    name: str
    partitions: int
    is_compacted: bool


class _Work:
    """What clients do in one life."""

    def __init__(
        self, rng: random.Random, java: Driver, version: str, topics: list[_Topic], life: int
    ) -> None:
        self.rng = rng
        self.java = java
        self.version = version
        self.topics = topics
        self.life = life
        self.now = T0 + life * 60 * _MINUTE
        self.replication = 1

    def run(self, partitions: int, second: _SecondBroker | None) -> None:
        rng = self.rng
        while sum(each.partitions for each in self.topics) < partitions * (self.life + 1):
            self._create_topic()
        self._make_producers()
        steps = [self._send, self._send, self._transact, self._transact, self._group]
        steps += [self._delete_records, self._commit_in_transaction]
        for _ in range(rng.randint(10, 25)):
            if second and rng.random() < 0.15:
                self._end_or_start(second)
            rng.choice(steps)()
            self.now += rng.choice((0, 1, 1000, 5 * _MINUTE))
        if rng.random() < 0.5:
            self._delete_topic()
        if rng.random() < 0.7:
            self._leave_open()
        time.sleep(rng.choice((0, 1, 3)))  # the cleaner, retention and the checkpoints

    def _end_or_start(self, second: _SecondBroker) -> None:
        if second.is_running:
            time.sleep(2)  # the first broker comes back into the set of in-sync replicas
            _end(second, self.rng)
        else:
            second.start()
        self.java.wait_until_ready()

    def _create_topic(self) -> None:
        rng, number = self.rng, len(self.topics)
        is_compacted = rng.random() < 0.4
        config: dict[str, Any] = {}
        if is_compacted:
            config["cleanup_policy"] = rng.choice(("compact", "compact,delete"))
            config["min_cleanable_dirty_ratio"] = 0.01
            config["delete_retention_ms"] = rng.choice((0, 86_400_000))
        elif rng.random() < 0.3:
            config["retention_bytes"] = rng.choice((1000, 5000))
        small = "internal_segment_bytes" if self.version.startswith("4.") else "segment_bytes"
        if rng.random() < 0.7:
            config[small] = rng.choice((500, 900, 3000))
        if rng.random() < 0.5:
            config["index_interval_bytes"] = rng.choice((1, 100, 1000))
        if rng.random() < 0.3:
            config["segment_ms"] = 10 * _MINUTE
        if rng.random() < 0.2:
            config["message_timestamp_type"] = "LogAppendTime"
        if rng.random() < 0.3:
            config["compression_type"] = rng.choice(CODECS[1:])
        topic = _Topic(f"topic.{number}", rng.choice((1, 3, 10)), is_compacted)
        self.java.topic(topic.name, topic.partitions, replication=self.replication, **config)
        self.topics.append(topic)

    def _make_producers(self) -> None:
        for codec in CODECS:
            self.java.producer(codec, compression_type=codec)
            self.java.producer(f"plain-{codec}", compression_type=codec, enable_idempotence="false")
        for number in range(3):
            self.java.producer(f"txn-{number}", transactional_id=f"txn-{number}")

    def _records(self, tag: str) -> list[dict[str, Any]]:
        """Some records for each partition of some topics."""
        rng, found = self.rng, []
        for topic in rng.sample(self.topics, min(len(self.topics), 6)):
            for partition in range(topic.partitions):
                for _ in range(rng.choice((0, 1, 1, 3, 8))):
                    key: bytes | None = b"key-%d" % rng.randrange(12)
                    if not topic.is_compacted and rng.random() < 0.3:
                        key = None
                    value: bytes | None = tag.encode() * rng.randrange(6)
                    if rng.random() < 0.2:
                        value = None
                    headers = [("h", b"v")] if rng.random() < 0.2 else []
                    at = self.now + rng.randrange(50)
                    found.append(
                        record(topic.name, partition, key, value, timestamp=at, headers=headers)
                    )
        return found

    def _send(self) -> None:
        name = self.rng.choice(CODECS)
        self.java.send(name if self.rng.random() < 0.6 else f"plain-{name}", self._records(name))

    def _transact(self) -> None:
        rng = self.rng
        name = f"txn-{rng.randrange(3)}"
        commit, batches = rng.random() < 0.6, rng.choice((1, 2))
        if records := self._records(name):
            self.java.transact(name, records, commit=commit, batches=batches)

    def _offsets(self) -> list[dict[str, Any]]:
        topic = self.rng.choice(self.topics)
        return [{"topic": topic.name, "partition": 0, "offset": 0, "metadata": "m"}]

    def _group(self) -> None:
        group = f"group-{self.rng.randrange(5)}"
        self.java("alter_group_offsets", group=group, offsets=self._offsets())
        if self.rng.random() < 0.2:
            self.java("delete_groups", groups=[group])

    def _commit_in_transaction(self) -> None:
        name = f"txn-{self.rng.randrange(3)}"
        self.java("begin", name=name)
        self.java("send_offsets", name=name, group="in-transactions", offsets=self._offsets())
        self.java(
            "commit_transaction" if self.rng.random() < 0.6 else "abort_transaction", name=name
        )

    def _delete_records(self) -> None:
        topic = self.rng.choice(self.topics)
        ends = self.java("end_offsets")
        end = ends.get(f"{topic.name}-0", 0)
        if end and not topic.is_compacted:
            before = self.rng.randint(0, end)
            self.java("delete_records", topic=topic.name, partition=0, before=before)

    def _delete_topic(self) -> None:
        if len(self.topics) > 3:
            gone = self.topics.pop(self.rng.randrange(len(self.topics)))
            self.java("delete_topics", topics=[gone.name])
            self.topics.append(_Topic(f"{gone.name}.again", gone.partitions, is_compacted=False))
            self.java.topic(self.topics[-1].name, gone.partitions)

    def _leave_open(self) -> None:
        self.java.producer("open", transactional_id="open", transaction_timeout_ms=900_000)
        if records := self._records("open"):
            self.java("begin", name="open")
            self.java.send("open", records)
