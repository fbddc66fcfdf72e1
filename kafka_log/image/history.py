"""The history of a topic or partition in the metadata log: what changed, when, and from what.

    history = TopicHistory("orders")
    replay_metadata(directory, names, from_oldest=True, observe=history)
    history.changes

A change of a partition has one entry per field that differs. A leader that is elected again is an
entry as well, because its epoch grows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_format.message import Message
from kafka_log.image.metadata_image import PartitionRegistration, ResourceType

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterator

    from kafka_format.metadata_records import MetadataRecord
    from kafka_log.image.metadata_image import MetadataImage
    from kafka_log.image.replay import Position

_FIELDS = (
    "leader",
    "isr",
    "elr",
    "last_known_elr",
    "replicas",
    "removing_replicas",
    "adding_replicas",
    "leader_recovery_state",
    "directories",
)


class Change(NamedTuple):
    """One field of a partition, or one setting, that a record changed."""

    position: Position
    topic: str
    partition: int | None
    """None for the topic itself and its settings."""
    field: str
    """A field of PartitionRegistration, `topic`, or `config NAME`."""
    before: Any
    after: Any
    leader_epoch: int | None = None
    """The leader epoch afterwards."""
    partition_epoch: int | None = None


class TopicHistory:
    """Collects the changes of a topic, or of one of its partitions with the topic's settings."""

    def __init__(self, topic: str, partition: int | None = None) -> None:
        self._topic = topic
        self._partition = partition
        self.changes: list[Change] = []

    def __call__(self, image: MetadataImage, record: MetadataRecord, position: Position) -> None:
        value = record.value
        if isinstance(value, Message):
            self.changes += self._changes(image, record.name, value, position)

    def _changes(
        self, image: MetadataImage, name: str | None, value: Message, position: Position
    ) -> Iterator[Change]:
        if name == "TopicRecord" and value.name == self._topic:
            yield Change(position, self._topic, None, "topic", None, value.topic_id)
        elif name == "RemoveTopicRecord" and self._is_topic(image, value.topic_id):
            yield Change(position, self._topic, None, "topic", value.topic_id, None)
        elif name == "ConfigRecord":
            yield from self._setting(image, value, position)
        elif name in ("PartitionRecord", "PartitionChangeRecord"):
            if self._is_topic(image, value.topic_id) and self._is_partition(value.partition_id):
                yield from self._registration(image, name, value, position)
        elif name == "ClearElrRecord" and value.topic_name in ("", self._topic):
            yield from self._cleared(image, position)

    def _is_topic(self, image: MetadataImage, topic_id: uuid.UUID) -> bool:
        return image.topics.get(topic_id) == self._topic

    def _is_partition(self, number: int) -> bool:
        return self._partition is None or number == self._partition

    def _setting(
        self, image: MetadataImage, value: Message, position: Position
    ) -> Iterator[Change]:
        if (value.resource_type, value.resource_name) != (ResourceType.TOPIC, self._topic):
            return
        before = image.configs.get((ResourceType.TOPIC, self._topic), {}).get(value.name)
        field = f"config {value.name}"
        yield Change(position, self._topic, None, field, before, value.value)

    def _registration(
        self, image: MetadataImage, name: str, value: Message, position: Position
    ) -> Iterator[Change]:
        before = image.partitions[value.topic_id].get(value.partition_id)
        if name == "PartitionRecord":
            after = PartitionRegistration.of(value)
        elif before is not None:
            after = before.merged(value)
        else:
            return  # a broker refuses it, and replay ends here
        yield from self._differences(before, after, value.partition_id, position)

    def _cleared(self, image: MetadataImage, position: Position) -> Iterator[Change]:
        for topic_id, name in image.topics.items():
            if name != self._topic:
                continue
            for number, each in image.partitions[topic_id].items():
                for field in ("elr", "last_known_elr"):
                    if self._is_partition(number) and (before := getattr(each, field)):
                        epochs = each.leader_epoch, each.partition_epoch
                        yield Change(position, self._topic, number, field, before, (), *epochs)

    def _differences(
        self,
        before: PartitionRegistration | None,
        after: PartitionRegistration,
        number: int,
        position: Position,
    ) -> Iterator[Change]:
        is_elected = before is not None and before.leader_epoch != after.leader_epoch
        for field in _FIELDS:
            old, new = None if before is None else getattr(before, field), getattr(after, field)
            is_new = before is None and (field == "leader" or bool(new))
            is_changed = before is not None and old != new
            if is_new or is_changed or (field == "leader" and is_elected):
                epochs = after.leader_epoch, after.partition_epoch
                yield Change(position, self._topic, number, field, old, new, *epochs)
