"""The offsets that consumer groups have committed, as their coordinator holds them.

    state = read_committed_offsets(files)         a partition of __consumer_offsets
    for each in state.commits(): ...              CommittedOffset, in the order of the log

    a commit outside a transaction     replaces the one before it
    a commit in a transaction          waits for the marker of its producer; it then counts if it
                                       is further on in the log than the one that is there
    a tombstone                        removes the commit, and those that wait

Keys and values stay bytes until the end, so the cost of decoding and the memory are those of the
live keys. Commits that cannot be decoded are left out (the finding REC001). Commits past their
retention are there: the coordinator removes them later, by tombstones.

Mirrors org.apache.kafka.coordinator.group.OffsetMetadataManager.replay, to the log end.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.control import ControlRecordType
from kafka_format.coordinator_records import CoordinatorTopic, decode_coordinator_record
from kafka_format.errors import FormatError
from kafka_format.message import Message
from kafka_log.coordinators.coordinator_log import read_records

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterator

    from kafka_log.coordinators.coordinator_log import LogRecord
    from kafka_log.disk.files import Files

COMMIT_TYPES = (b"\x00\x00", b"\x00\x01")
"""Types of commits, in very old brokers and today. The rest of a key is the same."""
_KEY_HEAD = struct.Struct(">hH")  # type, length of the group id: every key begins with these
_NO_PRODUCER = -1
_MOST_GROUPS = 4096
"""Sizes are counted for this many groups at a time."""
_NO_ID = 0


class CommittedOffset(NamedTuple):
    """A commit of a group."""

    group: str
    topic: str
    partition: int
    offset: int
    leader_epoch: int | None
    metadata: str
    commit_timestamp: int
    expire_timestamp: int | None
    topic_id: uuid.UUID | None
    """None before 4.1, and in a transaction."""
    log_offset: int
    """The offset of its record in __consumer_offsets."""


class _Stored(NamedTuple):
    log_offset: int
    key: bytes
    value: bytes


class CommittedOffsets:
    """The commits in a partition of __consumer_offsets. Apply its records in order."""

    def __init__(self) -> None:
        self._stored: dict[bytes, _Stored] = {}
        self._pending: dict[int, dict[bytes, _Stored]] = {}
        self._producers: defaultdict[bytes, set[int]] = defaultdict(set)
        """By key: whose transactions have a commit that waits."""
        self.sizes = GroupSizes()

    def apply(self, record: LogRecord) -> None:
        """Apply the next record of the log."""
        if record.marker is not None:
            self._end(record.producer_id, is_commit=record.marker is ControlRecordType.COMMIT)
            return
        if record.key is None:
            return
        self.sizes.count(record.key, record.value)
        if record.key[:2] not in COMMIT_TYPES:
            return
        key = record.key[2:]
        if record.value is None:
            self._remove(key)
        elif record.producer_id <= _NO_PRODUCER:
            self._stored[key] = _Stored(record.offset, record.key, record.value)
        else:
            waiting = self._pending.setdefault(record.producer_id, {})
            waiting[key] = _Stored(record.offset, record.key, record.value)
            self._producers[key].add(record.producer_id)

    def commits(self) -> Iterator[CommittedOffset]:
        """Yield the commits that a group would be served, in the order of the log."""
        for stored in sorted(self._stored.values()):
            if (commit := _decoded(stored)) is not None:
                yield commit

    def pending(self) -> Iterator[tuple[int, CommittedOffset]]:
        """Yield the commits of open transactions, each with its producer id."""
        for producer_id, waiting in self._pending.items():
            for stored in sorted(waiting.values()):
                if (commit := _decoded(stored)) is not None:
                    yield producer_id, commit

    def _remove(self, key: bytes) -> None:
        self._stored.pop(key, None)
        for producer_id in self._producers.pop(key, ()):
            waiting = self._pending.get(producer_id, {})
            waiting.pop(key, None)
            if not waiting:
                self._pending.pop(producer_id, None)

    def _end(self, producer_id: int, *, is_commit: bool) -> None:
        for key, waiting in self._pending.pop(producer_id, {}).items():
            producers = self._producers[key]
            producers.discard(producer_id)
            if not producers:
                del self._producers[key]
            stored = self._stored.get(key)
            if is_commit and (stored is None or waiting.log_offset > stored.log_offset):
                self._stored[key] = waiting


class GroupSizes:
    """The bytes and records of each group, exact for up to some thousand groups.

    With more groups, small ones are dropped, as in the algorithm of Misra and Gries: what a group
    is said to have is then too low, by at most one part in some thousand of the total.
    """

    def __init__(self) -> None:
        self.total_bytes = 0
        """Keys and values of all records, decompressed."""
        self._bytes: dict[bytes, int] = {}

    def count(self, key: bytes, value: bytes | None) -> None:
        """Count a record of any type; every type's key begins with the group id."""
        size = len(key) + (0 if value is None else len(value))
        self.total_bytes += size
        if len(key) < _KEY_HEAD.size:
            return
        _, length = _KEY_HEAD.unpack_from(key)
        group = key[_KEY_HEAD.size : _KEY_HEAD.size + length]
        self._bytes[group] = self._bytes.get(group, 0) + size
        if len(self._bytes) > 2 * _MOST_GROUPS:
            self._drop_small()

    def largest(self) -> tuple[str, int] | None:
        """Return the group with the most bytes, and how many; None without any group."""
        if not self._bytes:
            return None
        group, size = max(self._bytes.items(), key=lambda each: each[1])
        return group.decode("utf-8", "backslashreplace"), size

    def _drop_small(self) -> None:
        least = sorted(self._bytes.values())[-_MOST_GROUPS]
        self._bytes = {group: size - least for group, size in self._bytes.items() if size > least}


def read_committed_offsets(files: Files, *, log_start_offset: int = 0) -> CommittedOffsets:
    """Read a partition of __consumer_offsets, past damage. Raises OSError and FormatError."""
    state = CommittedOffsets()
    for record in read_records(files, log_start_offset=log_start_offset):
        state.apply(record)
    return state


def _decoded(stored: _Stored) -> CommittedOffset | None:
    return decode_commit(stored.log_offset, stored.key, stored.value)


def decode_place(key: bytes) -> tuple[str, int] | None:
    """Return the topic and the partition in the key of a commit, None if it cannot be decoded."""
    try:
        found = decode_coordinator_record(CoordinatorTopic.CONSUMER_OFFSETS, key, None).key
    except FormatError:
        return None
    return (found.topic, found.partition) if isinstance(found, Message) else None


def decode_commit(log_offset: int, key: bytes, value: bytes) -> CommittedOffset | None:
    """Return a commit from its record, None if it cannot be decoded."""
    try:
        record = decode_coordinator_record(CoordinatorTopic.CONSUMER_OFFSETS, key, value)
    except FormatError:
        return None
    place, commit = record.key, record.value
    if not isinstance(place, Message) or not isinstance(commit, Message):
        return None
    fields = commit.fields
    topic_id = fields.get("topic_id")
    return CommittedOffset(
        group=place.group,
        topic=place.topic,
        partition=place.partition,
        offset=commit.offset,
        leader_epoch=_unless_none(fields.get("leader_epoch", -1)),
        metadata=commit.metadata,
        commit_timestamp=commit.commit_timestamp,
        expire_timestamp=_unless_none(fields.get("expire_timestamp", -1)),
        topic_id=topic_id if topic_id is not None and topic_id.int != _NO_ID else None,
        log_offset=log_offset,
    )


def _unless_none(number: int) -> int | None:
    """Return None for Kafka's -1."""
    return None if number < 0 else number
