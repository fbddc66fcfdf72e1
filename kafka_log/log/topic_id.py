"""The topic id of an open log and its file, `partition.metadata`.

A log with the file keeps that id, and refuses another one. A log without it gets the id that the
caller knows, which is on disk before the first record.

Mirrors PartitionMetadataFile, and UnifiedLog.initializeTopicId and assignTopicId.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_format.java_text import uuid_text
from kafka_format.partition_metadata import (
    MAX_SIZE,
    PartitionMetadata,
    decode_partition_metadata,
    encode_partition_metadata,
)
from kafka_log.disk.files import opened
from kafka_log.errors import InconsistentTopicIdError
from kafka_log.names import FileKind

if TYPE_CHECKING:
    import uuid

    from kafka_log.clock import Scheduler
    from kafka_log.disk.files import Files

_NAME = FileKind.PARTITION_METADATA.value


class TopicIdFile:
    """The topic id of a log. A new id is written before the first append."""

    def __init__(self, files: Files, scheduler: Scheduler) -> None:
        self.topic_id: uuid.UUID | None = None
        self._files = files
        self._scheduler = scheduler
        self._dirty: uuid.UUID | None = None

    def initialize(self, topic_id: uuid.UUID | None) -> None:
        """Read the file, or use the id that the caller knows, if any."""
        if not self._files.exists(_NAME):
            self.topic_id = self._dirty = topic_id
            self._scheduler.schedule("flush-metadata-file", self.maybe_flush)
            return
        with opened(self._files, _NAME) as file:
            data = file.read_at(0, MAX_SIZE)
        found = decode_partition_metadata(data, path=self._files.path(_NAME)).topic_id
        if topic_id is not None:
            self._require(found, topic_id)
        self.topic_id = found

    def assign(self, topic_id: uuid.UUID) -> None:
        """Set the id of a log that has none. Raises InconsistentTopicIdError for another id."""
        if self.topic_id is not None:
            self._require(self.topic_id, topic_id)
            return
        self.topic_id = topic_id
        if not self._files.exists(_NAME):
            self._dirty = topic_id
            self._scheduler.schedule("flush-metadata-file", self.maybe_flush)

    def maybe_flush(self) -> None:
        if self._dirty is not None:
            self._files.replace(_NAME, encode_partition_metadata(PartitionMetadata(self._dirty)))
            self._dirty = None

    def _require(self, found: uuid.UUID, expected: uuid.UUID) -> None:
        if found != expected:
            raise InconsistentTopicIdError(
                f"{self._files.path(_NAME)}: found topic id {uuid_text(found)}, expected"
                f" {uuid_text(expected)}"
            )
