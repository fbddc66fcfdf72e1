"""Read topics and their settings from the KRaft metadata in a log dir.

The newest snapshot is read, then the records of the log after it, in order. Metadata transactions
count only if they were ended; aborted and unfinished ones are ignored. The log is read to its end,
because this disk does not record which of the last records the quorum committed.

Errors are collected, not raised: an older snapshot is tried, and a damaged log is read up to the
damage. Mirrors org.apache.kafka.image.{MetadataDelta,TopicsDelta,ConfigurationsDelta}.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from kafka_format.access import open_evidence
from kafka_format.errors import FormatError
from kafka_format.legacy import LegacyBatch
from kafka_format.log_file import LogFile
from kafka_format.message import Message, UnknownMessage
from kafka_format.metadata_records import MetadataRecord, decode_frame, decode_metadata_record
from kafka_format.shown_text import shortened
from kafka_log.names import FileKind, FileState, parse_file_name

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafka_log.names import FileName

CLUSTER_DEFAULT = ""
"""The name of the resource whose settings apply to every broker."""


_REPLAYED = frozenset({2, 3, 4, 5, 9, 23, 24, 25})
"""Api keys of the records that are decoded; most records of a log are no-ops."""
_NOTHING = MetadataRecord(20, 0, "NoOpRecord", UnknownMessage(20, 0, b""))


class _Resource(IntEnum):
    """The kind of resource that a ConfigRecord configures."""

    TOPIC = 2
    BROKER = 4


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
    problems: tuple[str, ...] = ()
    unreadable: tuple[tuple[str, str], ...] = ()
    """Files that could not be read, and why."""
    refused: tuple[RefusedSetting, ...] = ()
    """Settings that Kafka refuses; `topic_configs` and `broker_configs` do not have them."""

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


class _Problems:
    """Problems of the files: malformed (message), unreadable (path, reason)."""

    def __init__(self) -> None:
        self.malformed: list[str] = []
        self.unreadable: list[tuple[str, str]] = []


@dataclass(slots=True)
class _Image:
    topics: dict[uuid.UUID, str] = field(default_factory=dict)
    topic_configs: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    broker_configs: dict[str, dict[str, str]] = field(default_factory=lambda: defaultdict(dict))
    deleted: dict[uuid.UUID, str] = field(default_factory=dict)
    replicas: dict[tuple[uuid.UUID, int], tuple[int, ...]] = field(default_factory=dict)
    directories: dict[tuple[uuid.UUID, int], tuple[uuid.UUID, ...]] = field(default_factory=dict)
    end_offset: int = 0
    unfinished: list[MetadataRecord] | None = None
    """The records of the open transaction; None outside a transaction."""

    def replay(self, record: MetadataRecord) -> None:
        if record.name == "BeginTransactionRecord":
            self.unfinished = []
        elif record.name == "AbortTransactionRecord":
            self.unfinished = None
        elif record.name == "EndTransactionRecord":
            ended, self.unfinished = self.unfinished or [], None
            for each in ended:
                self._apply(each)
        elif self.unfinished is not None:
            self.unfinished.append(record)
        else:
            self._apply(record)

    def _apply(self, record: MetadataRecord) -> None:
        value = record.value
        if not isinstance(value, Message):
            return
        if record.name == "TopicRecord":
            self.topics[value.topic_id] = value.name
        elif record.name == "RemoveTopicRecord":
            self._remove(value.topic_id)
        elif record.name in ("PartitionRecord", "PartitionChangeRecord"):
            self._assign(value)
        elif record.name == "ConfigRecord":
            self._configure(value)

    def _remove(self, topic_id: uuid.UUID) -> None:
        name = self.topics.pop(topic_id, None)
        if name is not None:
            self.deleted[topic_id] = name
            self.topic_configs.pop(name, None)
        for partition in [each for each in self.replicas if each[0] == topic_id]:
            del self.replicas[partition]
            self.directories.pop(partition, None)

    def _assign(self, value: Message) -> None:
        """Update replicas and directories; a record without a field leaves it unchanged."""
        partition = (value.topic_id, value.partition_id)
        fields = value.fields
        if fields.get("replicas") is not None:
            self.replicas[partition] = tuple(fields["replicas"])
        if fields.get("directories") is not None:
            self.directories[partition] = tuple(fields["directories"])

    def _configure(self, value: Message) -> None:
        if value.resource_type == _Resource.TOPIC:
            config = self.topic_configs[value.resource_name]
        elif value.resource_type == _Resource.BROKER:
            config = self.broker_configs[value.resource_name]
        else:
            return
        if value.value is None:
            config.pop(value.name, None)
        else:
            config[value.name] = value.value


def read_cluster_metadata(directory: str, names: Iterable[str]) -> ClusterMetadata:
    """Read `__cluster_metadata-0`, given the names of its files."""
    parsed = [parse_file_name(name) for name in names]
    problems = _Problems()
    image = _newest_snapshot(directory, parsed, problems)
    for name in _live(parsed, FileKind.LOG):
        if not _replay_file(image, directory, name, problems):
            break
    return ClusterMetadata(
        path=directory,
        topic_ids={name: topic_id for topic_id, name in image.topics.items()},
        topic_configs={name: dict(config) for name, config in image.topic_configs.items()},
        broker_configs={name: dict(config) for name, config in image.broker_configs.items()},
        deleted_topics=image.deleted,
        replicas=image.replicas,
        directories=image.directories,
        end_offset=image.end_offset,
        problems=tuple(problems.malformed),
        unreadable=tuple(problems.unreadable),
    )


def _newest_snapshot(directory: str, names: list[FileName], problems: _Problems) -> _Image:
    for name in reversed(_live(names, FileKind.METADATA_SNAPSHOT)):
        image = _Image()
        if _replay_file(image, directory, name, problems):
            image.end_offset = name.offset or 0
            return image
    return _Image()


def _live(names: list[FileName], kind: FileKind) -> list[FileName]:
    found = [
        name
        for name in names
        if name.kind is kind and name.state is FileState.LIVE and name.is_canonical
    ]
    return sorted(found, key=lambda name: (name.offset or 0, name.epoch or 0))


def _replay_file(image: _Image, directory: str, name: FileName, problems: _Problems) -> bool:
    """Replay a file; return whether all of it could be read."""
    path = os.path.join(directory, str(name))  # noqa: PTH118  # keeps a leading `./`
    is_snapshot = name.kind is FileKind.METADATA_SNAPSHOT
    try:
        with open_evidence(path) as file:
            log = LogFile(cast("BinaryIO", file), path=path)
            for offset, record in _records(log):
                if is_snapshot or offset >= image.end_offset:
                    image.replay(record)
                    image.end_offset = offset + 1
    except FormatError as error:
        problems.malformed.append(str(error))
        return False
    except OSError as error:
        problems.unreadable.append((path, error.strerror or str(error)))
        return False
    if log.end is not None and log.end.reason == "corrupt_batch":
        problems.malformed.append(str(log.end.error))
        return False
    return True


def _records(log: LogFile) -> Iterator[tuple[int, MetadataRecord]]:
    """Yield the relevant records with their offsets, and a no-op for each batch's last offset."""
    for batch in log.batches():
        batch.ensure_valid()
        if not isinstance(batch, LegacyBatch) and not batch.header.is_control:
            for record in batch.iter_records():
                try:
                    if decode_frame(record.value or b"").api_key in _REPLAYED:
                        yield record.offset, decode_metadata_record(record.value)
                except FormatError as error:
                    raise error.moved(log.path, batch.position) from None
        yield batch.header.last_offset, _NOTHING
