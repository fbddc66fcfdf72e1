"""Read topics and their settings from the KRaft metadata in a log dir.

The metadata is replayed by kafka_log.image. The log is read to its end, because this disk does not
record which of the last records the quorum committed. Errors are collected, not raised: an older
snapshot is tried, a damaged log is read up to the damage, and a record that a broker would refuse
is passed over.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.shown_text import shortened
from kafka_log.image.metadata_image import ResourceType
from kafka_log.image.replay import replay_metadata

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable, Mapping, Sequence

    from kafka_log.image.metadata_image import MetadataImage

CLUSTER_DEFAULT = ""
"""The name of the resource whose settings apply to every broker."""


class RefusedSetting(NamedTuple):
    """A setting that Kafka refuses; its default is used."""

    topic: str | None
    """None for a setting of brokers."""
    broker: str
    """The node id, or `CLUSTER_DEFAULT`."""
    name: str
    value: str
    reason: str

    @property
    def text(self) -> str:
        """Return the setting as text, for example `topic orders: retention.ms=abc`."""
        owner = f"broker {self.broker}" if self.broker else "all brokers"
        owner = owner if self.topic is None else f"topic {self.topic}"
        return f"{owner}: {self.name}={shortened(self.value)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterMetadata:
    """The topics, settings and replicas at the end of the metadata log."""

    path: str
    """The directory that it was read from."""
    topic_ids: Mapping[str, uuid.UUID]
    topic_configs: Mapping[str, Mapping[str, str]]
    broker_configs: Mapping[str, Mapping[str, str]]
    """By node id as text; `CLUSTER_DEFAULT` applies to all brokers."""
    deleted_topics: Mapping[uuid.UUID, str]
    """Deleted topics whose removal is still in the log."""
    replicas: Mapping[tuple[uuid.UUID, int], Sequence[int]]
    """Broker ids by topic id and partition."""
    directories: Mapping[tuple[uuid.UUID, int], Sequence[uuid.UUID]]
    """The log dir of each of these brokers; empty before 3.7."""
    end_offset: int
    """The offset after the last record that was read."""
    log_dirs: Mapping[int, Sequence[uuid.UUID]] = field(default_factory=dict)
    """The log dirs with which each broker is registered; empty before 3.7."""
    problems: tuple[str, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()
    """Files that could not be read, and why."""
    refused: tuple[RefusedSetting, ...] = ()
    """Settings that Kafka refuses; `topic_configs` and `broker_configs` do not have them."""

    @property
    def why_incomplete(self) -> str:
        """Return why topics or replicas may be missing from it; empty if all were read."""
        if self.problems or self.unreadable:
            return "the cluster metadata log could not be read to its end"
        return "" if self.end_offset else "the cluster metadata log is empty"

    def topic_name(self, topic_id: uuid.UUID) -> str | None:
        return next((name for name, each in self.topic_ids.items() if each == topic_id), None)

    def partition_count(self, topic: str) -> int | None:
        """Return how many partitions a topic has; None if it is not known."""
        topic_id = self.topic_ids.get(topic)
        if topic_id is None:
            return None
        return sum(each == topic_id for each, _ in self.replicas) or None

    def directories_of(self, broker_id: int) -> dict[tuple[uuid.UUID, int], uuid.UUID]:
        """Return the directory id of each replica of a broker."""
        return {
            partition: directory
            for partition, directories in self.directories.items()
            for replica, directory in zip(self.replicas[partition], directories, strict=False)
            if replica == broker_id
        }


def read_cluster_metadata(directory: str, names: Iterable[str]) -> ClusterMetadata:
    """Read `__cluster_metadata-0`, given the names of its files."""
    found = replay_metadata(directory, names, skip_refused=True)
    image = found.image
    failures = [*found.unused_snapshots, *([found.failure] if found.failure else [])]
    registrations = {
        (topic_id, number): each
        for topic_id, partitions in image.partitions.items()
        for number, each in partitions.items()
    }
    return ClusterMetadata(
        path=directory,
        topic_ids=image.topic_ids(),
        topic_configs=_configs(image, ResourceType.TOPIC),
        broker_configs=_configs(image, ResourceType.BROKER),
        deleted_topics=image.deleted_topics,
        replicas={place: each.replicas for place, each in registrations.items()},
        directories={
            place: each.directories for place, each in registrations.items() if each.directories
        },
        end_offset=found.end_offset,
        log_dirs={node_id: each.log_dirs for node_id, each in image.brokers.items()},
        problems=tuple(each.reason for each in failures if not each.is_unreadable),
        unreadable=tuple((each.path, each.reason) for each in failures if each.is_unreadable),
    )


def _configs(image: MetadataImage, kind: ResourceType) -> dict[str, dict[str, str]]:
    return {
        name: settings for (resource, name), settings in image.configs.items() if resource == kind
    }
