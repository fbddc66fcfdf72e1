"""Compacted directories under Apache Kafka itself: a whole broker, and its start after every crash.

Latest values are read by librdkafka before and after; the log that was compacted is smaller.
"""

import json
import random
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jobs import compact
from tests.golden.make.broker import Broker
from tests.jobs.compact.compacting import COMPACT, NOW, values, write_log
from tests.oracle import jars

ROOT = Path(__file__).parents[2]
TOPIC = "orders"
MEBIBYTE = 1024 * 1024
SECONDS = 60


# ---------------------------------------------------------------------------- kill -9, then a start


def test_kafkas_start_repairs_a_compaction_in_place_that_was_killed_at_any_change(oracle, tmp_path):
    log_dir = write_log(tmp_path / "data", 10)
    into = tmp_path / "killed"
    into.mkdir()
    options = [COMPACT, "--set=internal.segment.bytes=330", f"--now={NOW}"]
    done = subprocess.run(
        [sys.executable, "-m", "tests.system.killed", str(log_dir), str(into), *options],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=240,
    )
    killed, status = map(int, done.stdout.split())
    assert status == 0
    assert killed > 40  # three groups, each written, swapped in and checkpointed
    before = values(log_dir / "orders-0")
    states = set()
    for number in range(1, killed + 2):
        copy = into / str(number)
        suffixes = {path.suffix for path in (copy / "orders-0").iterdir()}
        states |= suffixes & {".cleaned", ".swap", ".deleted"}
        answer = oracle.call("start_log_manager", paths=[copy], config={}, time=NOW)
        assert "error" not in answer, number
        assert not answer["offline"], number
        state = answer["logs"]["orders-0"]
        assert (state["log_start_offset"], state["log_end_offset"]) == (0, 10), number
        left = values(copy / "orders-0")
        assert left[-3:] == before[-3:], number  # of each key the last
        assert set(left) <= set(before), number
        suffixes = {path.suffix for path in (copy / "orders-0").iterdir()}
        assert not suffixes & {".cleaned", ".swap"}, number
        checkpoint = copy / "cleaner-offset-checkpoint"
        if checkpoint.exists():  # written last: what it says is cleaned is
            assert checkpoint.read_text() == "0\n1\norders 0 10\n"
            assert left == before[-3:]
    assert states == {".cleaned", ".swap", ".deleted"}
    assert values(into / str(killed + 1) / "orders-0") == before[-3:]


# ----------------------------------------------------------------------------------- a whole broker


@pytest.mark.usefixtures("oracle")  # where Kafka is not to be had, it is skipped
def test_a_broker_serves_the_same_latest_values_from_a_compacted_copy(capsys, tmp_path):
    """And again from the original, compacted in place."""
    home = tmp_path
    broker = Broker(jars.CURRENT, home, {"log.cleaner.backoff.ms": 3_600_000})
    data = home / "data"
    with broker:
        produce(broker.bootstrap)
        before = consume(broker.bootstrap)
        broker.stop()
        shutil.copytree(data, home / "original")
        arguments = ["--topic", TOPIC, "--first-dirty=0", "--passes=until-clean", "--format=json"]
        # Everything of the log dir, of which one topic is compacted.
        code = compact.main([str(data), f"--output={home / 'copy'}", "--format=json"])
        captured = capsys.readouterr()
        assert code == 0, captured.err
        (row,) = rounds(captured.out)
        assert row["removed_superseded"] > 0
        assert row["removed_aborted"] == 1
        data.rename(home / "before")
        (home / "copy").rename(data)
        broker.start()
        after = consume(broker.bootstrap)
        broker.stop()
        assert latest(after) == latest(before)
        assert len(after) < len(before)
        assert set(after) <= set(before)
        shutil.rmtree(data)
        (home / "original").rename(data)
        assert compact.main([str(data), *arguments, "--in-place"]) == 0
        capsys.readouterr()
        broker.start()
        in_place = consume(broker.bootstrap)
        assert in_place == after
        produce(broker.bootstrap, count=3, start=50)  # and it goes on
        assert len(consume(broker.bootstrap)) == len(in_place) + 3


def rounds(out):
    return [row for row in map(json.loads, out.splitlines()) if row["kind"] == "round"]


def produce(bootstrap, *, count=40, start=0):
    """Keys again and again, some deleted, one transaction aborted; a dozen records a segment."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    config = {
        "cleanup.policy": "compact",
        "segment.bytes": str(MEBIBYTE),  # Kafka takes no less
        "min.cleanable.dirty.ratio": "1",  # the broker itself does not clean
    }
    if not start:
        topic = NewTopic(TOPIC, num_partitions=1, replication_factor=1, config=config)
        admin = AdminClient({"bootstrap.servers": bootstrap})
        admin.create_topics([topic])[TOPIC].result(SECONDS)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": "t", "linger.ms": 0,
         "compression.type": "lz4"}
    )  # fmt: skip
    producer.init_transactions(SECONDS)
    for number in range(start, start + count):
        producer.begin_transaction()
        value = None if number % 13 == 12 else random.Random(number).randbytes(MEBIBYTE // 12)
        producer.produce(TOPIC, value, f"key-{number % 7}")
        if number == 5:
            producer.flush(SECONDS)
            producer.abort_transaction(SECONDS)
        else:
            producer.commit_transaction(SECONDS)


def consume(bootstrap):
    """All that a read_committed consumer sees: offset, key, value."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "g", "isolation.level": "read_committed",
         "enable.auto.commit": False, "enable.partition.eof": True}
    )  # fmt: skip
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found, deadline = [], time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error():  # the end
            break
        found.append((message.offset(), message.key(), message.value()))
    else:
        raise TimeoutError(f"no end of {TOPIC} in {SECONDS} s")
    consumer.close()
    return found


def latest(records):
    values = {key: value for _, key, value in records}
    return {key: value for key, value in values.items() if value is not None}
