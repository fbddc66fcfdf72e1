"""Spark's own Kafka source reading a live broker, and ours its directory: the same DataFrame."""

import contextlib
import json
import time
from typing import Any

import pytest
from chispa import assert_df_equality

from tests.golden.make.broker import Broker, checkpointed_offset, wait_for
from tests.golden.make.clients import librdkafka_send
from tests.golden.make.driver import T0
from tests.oracle import jars

COLUMNS = ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType", "headers"]
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TRIMMED = 7
TOPICS = {
    "codecs": {"internal.segment.bytes": "16384"},  # several segments
    "appended": {"message.timestamp.type": "LogAppendTime"},
    "trimmed": {},
    "transactions": {},
}
LONG = {"transaction.timeout.ms": 900_000}  # an open transaction stays so, on a slow machine too
PROPERTIES = {"log.flush.start.offset.checkpoint.interval.ms": 200}

EVERYTHING = {"codecs": 1000, "appended": 20, "trimmed": 20 - TRIMMED}

# What both sources understand in the same words, and how many records were sent that it means.
# Times repeat with every codec; an offset is that of the first record of a time or later.
QUERIES = {
    "uncommitted": ({}, "read_uncommitted", EVERYTHING | {"transactions": 41}),
    "committed": ({}, "read_committed", EVERYTHING | {"transactions": 11}),
    "offsets": (
        {
            "startingOffsets": json.dumps({"codecs": {"0": 100, "1": -2}}),
            "endingOffsets": json.dumps({"codecs": {"0": 301, "1": -1}}),
        },
        "read_uncommitted",
        {"codecs": 201 + 500},
    ),
    "times": (
        {"startingTimestamp": str(T0 + 20), "endingTimestamp": str(T0 + 60)},
        "read_uncommitted",
        {"codecs": 40 + 40},
    ),
}


@pytest.fixture(scope="module")
def broker(sources_spark, tmp_path_factory):
    """One that runs while it is read, as it wrote: codecs, nulls, headers, transactions."""
    with Broker(jars.CURRENT, tmp_path_factory.mktemp("broker"), PROPERTIES) as running:
        _create_topics(running.bootstrap)
        for partition in (0, 1):
            for codec in CODECS:
                rows = [_row(codec, number) for number in range(100)]
                where: dict[str, Any] = {"topic": "codecs", "partition": partition}
                librdkafka_send(running.bootstrap, rows, compression_type=codec, **where)
        odd = [(None, b"no key"), (b"", b""), (b"tombstone", None), (None, None)]
        for topic in ("appended", "trimmed"):
            librdkafka_send(running.bootstrap, odd * 5, topic=topic, partition=0)
        _trim(running)
        with _transactions(running.bootstrap):
            yield running


def _row(codec, number):
    headers = [("codec", codec.encode()), ("", None), ("codec", b"")]
    return b"%d" % number, b"%s %d " % (codec.encode(), number) * 9, headers[: number % 4]


def _create_topics(bootstrap):
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = [NewTopic(name, 2, 1, config=config) for name, config in TOPICS.items()]
    for created in admin.create_topics(wanted).values():
        created.result(30)


def _trim(broker):
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for trimmed in admin.delete_records([TopicPartition("trimmed", 0, TRIMMED)]).values():
        trimmed.result(30)
    checkpoint = broker.file("log-start-offset-checkpoint")
    wait_for(
        lambda: checkpointed_offset(checkpoint, "trimmed", 0) == TRIMMED, 30, "a new log start"
    )


@contextlib.contextmanager
def _transactions(bootstrap):
    """Committed, aborted, and one that stays open with records of others behind it."""
    from confluent_kafka import Producer

    def producer(name):
        made = Producer({"bootstrap.servers": bootstrap, "transactional.id": name} | LONG)
        made.init_transactions(30)
        return made

    def send(made, value):
        made.begin_transaction()
        for number in range(10):
            made.produce("transactions", b"%s %d" % (value, number), partition=number % 2)
        made.flush(30)

    first, second = producer("first"), producer("second")
    send(first, b"committed")
    send(second, b"aborted")
    first.commit_transaction(30)
    second.abort_transaction(30)
    librdkafka_send(bootstrap, [(b"k", b"plain")], topic="transactions", partition=0)
    send(second, b"open")
    send(first, b"behind")
    first.commit_transaction(30)
    time.sleep(0.2)  # markers are written behind the answer
    yield
    second.abort_transaction(30)


@pytest.mark.parametrize("query", QUERIES)
def test_both_sources_give_the_same_frame(sources_spark, broker, query):
    options, isolation, expected = QUERIES[query]
    topics = ",".join(expected)
    theirs = (
        sources_spark.read.format("kafka")
        .options(**options, subscribe=topics, includeHeaders="true")
        .option("kafka.bootstrap.servers", broker.bootstrap)
        .option("kafka.isolation.level", isolation)
        .load()
    )
    ours = (
        sources_spark.read.format("kafka_files")
        .options(**options, topics=topics, isolationLevel=isolation, maxSplitBytes="64k")
        .load(str(broker.home / broker.log_dirs[0]))
        .select(*COLUMNS)
        .cache()
    )
    assert theirs.columns == COLUMNS
    order = lambda frame: frame.orderBy("topic", "partition", "offset")  # noqa: E731
    assert_df_equality(ours, theirs, transforms=[order], ignore_metadata=True)
    counts = {row.topic: row["count"] for row in ours.groupBy("topic").count().collect()}
    assert counts == expected
