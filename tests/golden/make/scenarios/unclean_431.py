from pathlib import Path

from tests.golden.make.broker import Broker, checkpointed_offset, wait_for
from tests.golden.make.clients import kafka_python_send, librdkafka_send
from tests.golden.make.driver import HOUR, T0, Driver, record
from tests.golden.make.pack import client_versions, write_pack

NAME = "unclean-4.3.1"
STORY = """
A single node, dynamic quorum (kraft.version 1), killed with SIGKILL in the middle of its work, soon
after it started: `.lock`, preallocated indexes with zero tails, checkpoints that are empty or
behind the log.

- `codecs.java`, `codecs.librdkafka`: partitions 0 to 4 are none, gzip, snappy, lz4, zstd; snappy is
  xerial-framed by Java, a raw block by librdkafka. `codecs.kafka-python`: none, gzip, lz4, zstd.
- `nulls-and-empties`: null and empty keys, values and header values, kept apart.
- `append-time`: LogAppendTime, three codecs. `far-timestamps`: 0 and 2^63-1.
- `transactions`: committed, aborted, interleaved, aborted by time-out, fenced, and open at the end,
  by Java and by librdkafka, with plain records between, on two partitions.
- `rolled-by.time`: segments of an hour each; DeleteRecords moved the log start inside one.
- `index-default`: segment.index.bytes as Kafka has it, 10 MiB; all other topics have 64 KiB.
- `__consumer_offsets`: a classic group with two live members, a consumer-protocol group with two
  live members, offsets in a committed, an aborted and an open transaction, a deleted group.
"""

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SETTINGS = {
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
    # what DeleteRecords does is on disk soon, the recovery points not before a minute is over
    "log.initial.task.delay.ms": 1000,
    "log.flush.start.offset.checkpoint.interval.ms": 1000,
    "log.retention.check.interval.ms": 1000,
}


def rows(count: int = 20) -> list[tuple[bytes, bytes, list[tuple[str, bytes]]]]:
    """Text that compresses, with a header on every other record."""
    return [
        (
            b"key-%03d" % index,
            b"value %03d of a record that repeats itself, " % index * 4,
            [("trace", b"%032x" % index)] if index % 2 else [],
        )
        for index in range(count)
    ]


def make(scratch: Path) -> Path:
    expected = scratch / "expected.jsonl"
    with Broker("4.3.1", scratch, SETTINGS, standalone=True) as broker:
        with Driver("4.3.1", broker.bootstrap, scratch) as java:
            java.wait_until_ready()
            create_topics(java)
            write_codecs(java, broker.bootstrap)
            write_oddities(java)
            write_groups(java)
            write_transactions(java, broker.bootstrap)
            write_segments(java)
            wait_for_checkpoint(broker, "replication-offset-checkpoint", "index-default", 4)
            wait_for_checkpoint(broker, "log-start-offset-checkpoint", "rolled-by.time", 7)
            gone = broker.file("rolled-by.time-0/00000000000000000003.log.deleted")
            wait_for(gone.exists, 30, "the segments below the log start to be deleted")
            java.read_all(expected)
            broker.kill()
        clients = client_versions("kafka-clients 4.3.1", "confluent-kafka", "kafka-python")
        return write_pack(NAME, broker, clients, STORY, expected)


def wait_for_checkpoint(broker: Broker, name: str, topic: str, offset: int) -> None:
    wait_for(
        lambda: checkpointed_offset(broker.file(name), topic, 0) == offset,
        60,
        f"{topic} at {offset} in {name}",
    )


def create_topics(java: Driver) -> None:
    java.topic("codecs.java", 5)
    java.topic("codecs.librdkafka", 5)
    java.topic("codecs.kafka-python", 4)
    java.topic("nulls-and-empties")
    java.topic("append-time", 3, message_timestamp_type="LogAppendTime")
    java.topic("far-timestamps", message_timestamp_after_max_ms=2**63 - 1)
    java.topic("transactions", 2)
    java.topic("rolled-by.time", segment_ms=HOUR)
    java.topic("index-default", segment_index_bytes=10_485_760)


def write_codecs(java: Driver, bootstrap: str) -> None:
    for partition, codec in enumerate(CODECS):
        java.producer(codec, compression_type=codec)
        for batch in range(3):
            java.send(
                codec,
                [
                    record("codecs.java", partition, key, value, timestamp=T0 + at, headers=headers)
                    for at, (key, value, headers) in enumerate(rows(), start=batch * 20)
                ],
            )
        java("close_producer", name=codec)
        librdkafka_send(
            bootstrap,
            rows(60),
            topic="codecs.librdkafka",
            partition=partition,
            compression_type=codec,
            batch_num_messages=25,
        )
    for partition, codec in enumerate((None, "gzip", "lz4", "zstd")):
        kafka_python_send(
            bootstrap, rows(60), topic="codecs.kafka-python", partition=partition, codec=codec
        )
    # larger than one compression block: xerial cuts at 32 KiB, lz4 frames at 64 KiB
    java.producer("large", compression_type="snappy", max_request_size=400_000, batch_size=400_000)
    large = b"".join(b"line %06d of a long value\n" % line for line in range(8000))
    java.send("large", [record("codecs.java", 2, b"large", large, timestamp=T0 + 100)])
    java("close_producer", name="large")
    java.producer("large", compression_type="lz4", max_request_size=400_000, batch_size=400_000)
    java.send("large", [record("codecs.java", 3, b"large", large, timestamp=T0 + 100)])
    java("close_producer", name="large")


def write_oddities(java: Driver) -> None:
    topic = "nulls-and-empties"
    java.producer("plain", enable_idempotence="false")
    odd_headers = [
        ("null", None),
        ("empty", b""),
        ("", b"no name"),
        ("twice", b"1"),
        ("twice", b"2"),
    ]
    java.send(
        "plain",
        [
            record(topic, 0, None, None),
            record(topic, 0, None, b""),
            record(topic, 0, b"", None),
            record(topic, 0, b"", b""),
            record(topic, 0, None, b"value without key"),
            record(topic, 0, b"tombstone", None),
            record(topic, 0, b"\x00\xff\xfe", bytes(range(256))),
            record(topic, 0, "schlüssel".encode(), "値".encode(), headers=[("näme", b"\x80")]),
            record(topic, 0, b"headers", b"", headers=odd_headers),
        ],
    )
    for partition, codec in enumerate(("none", "gzip", "zstd")):
        name = f"append-{codec}"
        java.producer(name, compression_type=codec)
        for batch in range(2):
            sent = [b"%d" % (batch * 5 + index) for index in range(5)]
            java.send(name, [record("append-time", partition, key, b"stamped") for key in sent])
        java("close_producer", name=name)
    # each alone: distance between timestamps would roll a segment
    for timestamp in (0, T0, 2**63 - 1):
        java.send("plain", [record("far-timestamps", 0, b"k", b"v", timestamp=timestamp)])
    for value in (b"a", b"b", b"c", b"d"):
        java.send("plain", [record("index-default", 0, None, value)])
    java("close_producer", name="plain")


def write_groups(java: Driver) -> None:
    """Both protocols with two live members each, so that real assignments are on disk."""
    classic = {
        "group.id": "classic-group",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
        "partition.assignment.strategy": "org.apache.kafka.clients.consumer.RangeAssignor,"
        "org.apache.kafka.clients.consumer.CooperativeStickyAssignor",
    }
    topics = ["codecs.java", "nulls-and-empties"]
    for member in ("classic-1", "classic-2"):
        config = classic | {"client.id": member}
        config |= {"group.instance.id": "static-2"} if member == "classic-2" else {}
        java("consumer", name=member, config=config, topics=topics)
    java("poll", names=["classic-1", "classic-2"], records=100)
    java("commit", name="classic-1", offsets=[_offset("codecs.java", 0, 10, "checked by hand")])
    java("commit", name="classic-1", offsets=[_offset("codecs.java", 0, 42)])

    consumer = {"group.id": "consumer-group", "group.protocol": "consumer"}
    consumer |= {"auto.offset.reset": "earliest", "enable.auto.commit": "false"}
    for member in ("consumer-1", "consumer-2"):
        config = consumer | {"client.id": member, "client.rack": "rack-a"}
        java("consumer", name=member, config=config, topics=["codecs.java"])
    java("poll", names=["consumer-1", "consumer-2"], records=100)
    java("commit", name="consumer-1", offsets=[_offset("codecs.java", 0, 20)])

    java("alter_group_offsets", group="forgotten", offsets=[_offset("transactions", 0, 0)])
    java("delete_groups", groups=["forgotten"])


def _offset(topic: str, partition: int, offset: int, metadata: str = "") -> dict[str, object]:
    return {"topic": topic, "partition": partition, "offset": offset, "metadata": metadata}


def write_transactions(java: Driver, bootstrap: str) -> None:
    for name in ("committer", "aborter", "offsets", "fenced"):
        java.producer(name, transactional_id=f"txn-{name}", compression_type="lz4")
    java.producer("between")
    java.transact("committer", _both(b"committed"), commit=True, batches=2)
    java.transact("aborter", _both(b"aborted"), commit=False, batches=2)
    java.send("between", _both(b"plain"))

    # two at once: the aborted one starts first and ends last
    java("begin", name="aborter")
    java.send("aborter", _both(b"aborted late"))
    java.transact("committer", _both(b"committed inside"), commit=True)
    java.send("aborter", _both(b"aborted late, again"))
    java("abort_transaction", name="aborter")

    for commit, group in ((True, "committed-offsets"), (False, "aborted-offsets")):
        java("begin", name="offsets")
        java.send("offsets", [record("transactions", 0, b"with offsets", b"%d" % commit)])
        java("send_offsets", name="offsets", group=group, offsets=[_offset("codecs.java", 1, 7)])
        java("commit_transaction" if commit else "abort_transaction", name="offsets")

    # a second producer of the same name ends the first one's transaction
    java("begin", name="fenced")
    java.send("fenced", _both(b"fenced"))
    java.producer("fencer", transactional_id="txn-fenced")
    java.transact("fencer", _both(b"after fencing"), commit=True)

    # the broker ends this one after a second
    java.producer("slow", transactional_id="txn-slow", transaction_timeout_ms=1000)
    before = java("end_offsets")["transactions-1"]
    java("begin", name="slow")
    java.send("slow", _both(b"timed out"))
    wait_for(
        lambda: java("end_offsets")["transactions-1"] > before + 3, 30, "the time-out's marker"
    )

    transact_by_librdkafka(bootstrap)
    java.send("between", _both(b"plain, before the open ones"))
    java("begin", name="offsets")
    java.send("offsets", [record("transactions", 0, b"open", b"with offsets")])
    java(
        "send_offsets", name="offsets", group="open-offsets", offsets=[_offset("codecs.java", 1, 9)]
    )
    java("begin", name="committer")
    java.send("committer", _both(b"open"))
    java.send("between", _both(b"plain, behind the open ones"))


def _both(value: bytes, count: int = 3) -> list[dict[str, object]]:
    return [
        record("transactions", partition, b"key-%d" % index, value, timestamp=T0 + index)
        for index in range(count)
        for partition in (0, 1)
    ]


def transact_by_librdkafka(bootstrap: str) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "txn-librdkafka"})
    producer.init_transactions(30)
    for end in (producer.commit_transaction, producer.abort_transaction):
        producer.begin_transaction()
        for partition in (0, 1):
            producer.produce("transactions", end.__name__.encode(), b"librdkafka", partition)
        producer.flush(30)
        end(30)


def write_segments(java: Driver) -> None:
    java.producer("hours")
    for hour in range(6):
        sent = [
            record("rolled-by.time", 0, b"hour-%d" % hour, value, timestamp=T0 + hour * 2 * HOUR)
            for value in (b"first", b"second", b"third")
        ]
        java.send("hours", sent)
    java("delete_records", topic="rolled-by.time", partition=0, before=7)
