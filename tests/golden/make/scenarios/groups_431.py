from pathlib import Path
from typing import Any

from tests.golden.make.broker import Broker, wait_for
from tests.golden.make.clients import kafka_python_join, librdkafka_join
from tests.golden.make.driver import T0, Driver, record
from tests.golden.make.pack import client_versions, write_pack

NAME = "groups-4.3.1"
STORY = """
A single node, dynamic quorum, stopped with SIGTERM while group members were alive. Two partitions
of `__transaction_state`, three of `__consumer_offsets`, whose whole history is there: no cleaning.

- classic groups: by Java (two generations; eager, then cooperative and static), librdkafka,
  kafka-python; one emptied by its members; offsets without members (by an admin client), the empty
  group id among them; one deleted.
- consumer groups: by Java (two members, one left; one subscribed by pattern) and librdkafka; one
  that was a classic group before; one deleted.
- share groups: records accepted, released, rejected, and still held; one with moved offsets; one
  deleted. `__share_group_state` has snapshots and updates.
- a streams group: a word count with a repartition and a changelog topic.
- offsets in committed and aborted transactions.
"""

SETTINGS = {
    "offsets.topic.num.partitions": 3,
    "transaction.state.log.num.partitions": 2,
    "share.coordinator.snapshot.update.records.per.snapshot": 3,
    "group.streams.initial.rebalance.delay.ms": 0,
}
READ = {"auto.offset.reset": "earliest", "enable.auto.commit": "false"}


def make(scratch: Path) -> Path:
    expected = scratch / "expected.jsonl"
    with Broker("4.3.1", scratch, SETTINGS, standalone=True) as broker:
        with Driver("4.3.1", broker.bootstrap, scratch, streams=True) as java:
            java.wait_until_ready()
            write_input(java)
            join_classic(java)
            join_consumer(java)
            members = join_others(broker.bootstrap)
            commit_without_members(java)
            share(java)
            count_words(java, scratch)
            java.read_all(expected)
            broker.stop()
        for member in members:
            _leave_behind(member)
        clients = ["kafka-clients 4.3.1", "kafka-streams 4.3.1"]
        clients = client_versions(*clients, "confluent-kafka", "kafka-python")
        return write_pack(NAME, broker, clients, STORY, expected)


def _leave_behind(member: Any) -> None:
    """The broker is gone; closing is only for the member's threads."""
    try:
        member.close()
    except Exception as error:  # noqa: BLE001 - each client complains in its own way
        print(f"closing a client: {error}")


def write_input(java: Driver) -> None:
    java.topic("input", 3)
    java.topic("input.second")
    java.topic("words")
    java.topic("counts")
    java.producer("input")
    java.send(
        "input",
        [
            record("input", index % 3, b"key-%d" % index, b"value", timestamp=T0 + index)
            for index in range(30)
        ],
    )
    java.send("input", [record("input.second", 0, None, b"%d" % index) for index in range(5)])
    words = b"the quick brown fox jumps over the lazy dog the end".split()
    java.send("input", [record("words", 0, None, word, timestamp=None) for word in words])


def join_classic(java: Driver) -> None:
    config = READ | {"group.id": "classic-java", "client.id": "one"}
    java("consumer", name="classic-1", config=config, topics=["input", "input.second"])
    java("poll", names=["classic-1"], records=30)
    java("commit", name="classic-1", offsets=[_offset("input", 0, 3)])
    config |= {"client.id": "two"}
    java("consumer", name="classic-2", config=config, topics=["input"])
    java("poll", names=["classic-1", "classic-2"], records=0)

    config = READ | {"group.id": "classic-cooperative", "group.instance.id": "static-1"}
    config["partition.assignment.strategy"] = (
        "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    )
    java("consumer", name="cooperative", config=config, topics=["input"])
    java("poll", names=["cooperative"], records=30)
    java("commit", name="cooperative", offsets=[_offset("input", 2, 10, "the end")])

    for group in ("classic-emptied", "upgraded", "classic-deleted"):
        java("consumer", name=group, config=READ | {"group.id": group}, topics=["input"])
        java("poll", names=[group], records=30)
        java("commit", name=group, offsets=[_offset("input", 0, 10)])
        java("close_consumer", name=group)
    java("delete_groups", groups=["classic-deleted"])


def join_consumer(java: Driver) -> None:
    protocol = READ | {"group.protocol": "consumer"}
    for member in ("one", "two", "three"):
        config = protocol | {"group.id": "consumer-java", "client.id": member}
        config |= {"group.instance.id": "static-three"} if member == "three" else {}
        java("consumer", name=member, config=config, topics=["input"])
    java("poll", names=["one", "two", "three"], records=0)
    java("commit", name="one", offsets=[_offset("input", 0, 7, "seven")])
    java("close_consumer", name="two")
    java("poll", names=["one", "three"], records=0)

    config = protocol | {"group.id": "consumer-pattern", "group.remote.assignor": "range"}
    java("consumer", name="pattern", config=config, topics=[])
    java("subscribe_pattern", name="pattern", pattern="input.*")
    java("poll", names=["pattern"], records=35)

    java("consumer", name="upgraded", config=protocol | {"group.id": "upgraded"}, topics=["input"])
    java("poll", names=["upgraded"], records=0)

    config = protocol | {"group.id": "consumer-deleted"}
    java("consumer", name="gone", config=config, topics=["input"])
    java("poll", names=["gone"], records=30)
    java("commit", name="gone", offsets=[_offset("input", 1, 1)])
    java("close_consumer", name="gone")
    java("delete_groups", groups=["consumer-deleted"])


def join_others(bootstrap: str) -> list[object]:
    return [
        librdkafka_join(bootstrap, group="classic-librdkafka", topic="input", records=30),
        librdkafka_join(
            bootstrap,
            group="consumer-librdkafka",
            topic="input",
            records=30,
            group_protocol="consumer",
        ),
        kafka_python_join(bootstrap, group="classic-kafka-python", topic="input", records=30),
    ]


def commit_without_members(java: Driver) -> None:
    for group in ("", "offsets-only"):
        java("alter_group_offsets", group=group, offsets=[_offset("input", 0, 1, "by an admin")])
    java.producer("transactional", transactional_id="txn-offsets")
    for end in ("commit_transaction", "abort_transaction"):
        for group in (f"offsets-{end}", "offsets-both"):
            java("begin", name="transactional")
            java.send("transactional", [record("input.second", 0, b"k", end.encode())])
            java(
                "send_offsets", name="transactional", group=group, offsets=[_offset("input", 0, 9)]
            )
            java(end, name="transactional")


def share(java: Driver) -> None:
    for group in ("share-java", "share-moved", "share-deleted"):
        earliest = {"share.auto.offset.reset": "earliest"}
        java("alter_config", type="GROUP", name=group, set=earliest)
        config = {"group.id": group, "max.poll.records": 4}
        config |= {"share.acknowledgement.mode": "explicit"}
        java("share_consumer", name=group, config=config, topics=["input"])
    java("share_poll", name="share-java", records=18, acknowledge=["ACCEPT", "RELEASE", "REJECT"])
    for group in ("share-moved", "share-deleted"):
        java("share_poll", name=group, records=30, acknowledge=["ACCEPT"])
        java("close_share_consumer", name=group)
    java("alter_share_offset", group="share-moved", topic="input", partition=1, offset=5)
    java("delete_share_groups", groups=["share-deleted"])


def count_words(java: Driver, scratch: Path) -> None:
    config = {
        "application.id": "streams-words",
        "group.protocol": "streams",
        "state.dir": str(scratch / "streams-state"),
        "commit.interval.ms": 500,
        "num.stream.threads": 2,
        "auto.offset.reset": "earliest",
    }
    java("streams", config=config, **{"from": "words", "to": "counts"})
    wait_for(lambda: java("end_offsets")["counts-0"] >= 8, 60, "the words to be counted")


def _offset(topic: str, partition: int, offset: int, metadata: str = "") -> dict[str, object]:
    return {"topic": topic, "partition": partition, "offset": offset, "metadata": metadata}
