"""The history of a topic: one entry per field that a record changes."""

from kafka_format.schemas import metadata as schemas
from kafka_log.image.history import TopicHistory
from kafka_log.image.replay import replay_metadata
from tests.kafka_log.image.stories import framed
from tests.kafka_log.inventory.test_cluster_metadata import LOG, A, B, config, log, remove, topic


def changes(tmp_path, name, partition, *records):
    (tmp_path / LOG).write_bytes(log(*records))
    history = TopicHistory(name, partition)
    replay_metadata(str(tmp_path), [LOG], from_oldest=True, observe=history)
    return [
        (each.position.offset, each.partition, each.field, each.before, each.after)
        for each in history.changes
    ]


def partition(number, **fields):
    base = {"partition_id": number, "topic_id": A, "replicas": [1, 2], "isr": [1, 2]}
    epochs = {"leader": 1, "leader_epoch": 0, "partition_epoch": 0}
    return framed(schemas.PARTITION_RECORD, 2, **base, **epochs, **fields)


def change(number, **fields):
    identity = {"partition_id": number, "topic_id": A}
    return framed(schemas.PARTITION_CHANGE_RECORD, 2, **identity, **fields)


def test_leaders_and_in_sync_replicas(tmp_path):
    found = changes(
        tmp_path,
        "orders",
        0,
        topic("orders", A),
        partition(0),
        partition(1),
        change(0, isr=[1]),
        change(0, leader=-1, isr=[], eligible_leader_replicas=[1]),
        change(1, leader=2),
        change(0, leader=1),
        change(0, leader=1),
        topic("other", B),
        config(2, "orders", "retention.ms", "5"),
        config(2, "other", "retention.ms", "6"),
        remove(A),
    )
    assert found == [
        (0, None, "topic", None, A),
        (1, 0, "leader", None, 1),
        (1, 0, "isr", None, (1, 2)),
        (1, 0, "replicas", None, (1, 2)),
        (3, 0, "isr", (1, 2), (1,)),
        (4, 0, "leader", 1, -1),
        (4, 0, "isr", (1,), ()),
        (4, 0, "elr", (), (1,)),
        (6, 0, "leader", -1, 1),
        (7, 0, "leader", 1, 1),
        (9, None, "config retention.ms", None, "5"),
        (11, None, "topic", A, None),
    ]


def test_cleared_eligible_leader_replicas(tmp_path):
    clear = framed(schemas.CLEAR_ELR_RECORD, 0, topic_name="orders")
    found = changes(
        tmp_path,
        "orders",
        None,
        topic("orders", A),
        partition(0, eligible_leader_replicas=[2]),
        clear,
    )
    assert found[-1] == (2, 0, "elr", (2,), ())
