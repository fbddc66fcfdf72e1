"""What happened to a group, as far as its partition of __consumer_offsets still says.

    history = GroupHistory("g", retention_ms=…)
    for event in history.events(read_records(files)): ...

    commit, reset            a commit; it is a reset if it goes back, or if a group that has had
                             members has none: only tools commit then
    transactional_commit     waits for the marker of its producer
    transaction_committed, transaction_aborted
    offset_removed           with the reason: expired, topic deleted, group deleted, or deleted
    rebalance, emptied       a new generation or epoch
    member_joined, member_left
    group_created, group_converted, group_removed

Cleaning removes older values, so what is left of an old history has gaps. Records of one write have
the same timestamp: the removal of a group and those of its offsets are recognised by that.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from kafka_format.control import ControlRecordType
from kafka_log.coordinators.committed_offsets import COMMIT_TYPES, decode_commit, decode_place
from kafka_log.coordinators.groups import Expiry, Groups, GroupType, group_bytes, group_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafka_log.coordinators.committed_offsets import CommittedOffset
    from kafka_log.coordinators.coordinator_log import LogRecord
    from kafka_log.coordinators.groups import Group

EXPIRED = "expired"
TOPIC_DELETED = "topic deleted"
GROUP_DELETED = "group deleted"
DELETED = "deleted"
NO_OFFSETS_LEFT = "no offsets left"

_HEAD_SIZE = 4
_GROUP_TYPES = {
    b"\x00\x02": GroupType.CLASSIC,
    b"\x00\x03": GroupType.CONSUMER,
    b"\x00\x0b": GroupType.SHARE,
    b"\x00\x11": GroupType.STREAMS,
}
"""The record that stands for a group, by type."""
_SOON_MS = 60_000
"""A coordinator removes the offsets of a deleted topic at once; clocks may differ."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened."""

    event: str
    offset: int
    """The offset of its record in __consumer_offsets."""
    timestamp: int
    topic: str | None = None
    partition: int | None = None
    committed_offset: int | None = None
    previous_offset: int | None = None
    producer_id: int | None = None
    epoch: int | None = None
    """The generation of a classic group, the epoch of another."""
    members: int | None = None
    member_id: str | None = None
    type: GroupType | None = None
    reason: str | None = None


class GroupHistory:
    """The events of one group."""

    def __init__(
        self, group_id: str, *, retention_ms: int, removed_topics: Sequence[tuple[int, str]] = ()
    ) -> None:
        """Take the retention of offsets, and deleted topics with the times of their removals."""
        self.groups = Groups()
        self._group_id = group_id
        self._key = group_bytes(group_id)
        self._retention_ms = retention_ms
        self._removed_topics = removed_topics
        self._committed: dict[tuple[str, int], CommittedOffset] = {}
        self._waiting: dict[int, dict[tuple[str, int], CommittedOffset]] = {}
        self._last_removal = -1, ""
        """When the last offset was removed, and why."""
        self._converted: _Shown | None = None
        """A group that was removed to be written again as one of another type."""

    def events(self, records: Iterable[LogRecord]) -> Iterator[Event]:
        """Yield the events of all records, in the order of the log."""
        relevant = (record for record in records if self._is_relevant(record))
        for _, run in groupby(relevant, key=lambda record: record.timestamp):
            yield from self._run(list(run))

    def _is_relevant(self, record: LogRecord) -> bool:
        if record.marker is not None:
            return True
        key = record.key
        return key is not None and len(key) >= _HEAD_SIZE and group_of(key) == self._key

    def _run(self, run: Sequence[LogRecord]) -> Iterator[Event]:
        last = {
            record.key[:2]: record.value
            for record in run
            if record.key is not None and record.key[:2] in _GROUP_TYPES
        }
        is_removed = bool(last) and all(value is None for value in last.values())
        for record in run:
            if record.marker is not None:
                yield from self._marker(record)
            elif record.key is None or record.key[:2] not in COMMIT_TYPES:
                yield from self._change(record, is_removed=is_removed)
            elif record.value is None:
                yield from self._tombstone(record, is_removed=is_removed)
            else:
                yield from self._commit(record)

    def _marker(self, record: LogRecord) -> Iterator[Event]:
        self.groups.apply(record)
        is_commit = record.marker is ControlRecordType.COMMIT
        for key, commit in self._waiting.pop(record.producer_id, {}).items():
            before = self._committed.get(key)
            counts = is_commit and (before is None or before.log_offset < commit.log_offset)
            if counts:
                self._committed[key] = commit
            yield Event(
                event="transaction_committed" if is_commit else "transaction_aborted",
                offset=record.offset,
                timestamp=record.timestamp,
                topic=commit.topic,
                partition=commit.partition,
                committed_offset=commit.offset,
                previous_offset=None if before is None else before.offset,
                producer_id=record.producer_id,
                reason=None if counts or not is_commit else "a later commit is in its place",
            )

    def _commit(self, record: LogRecord) -> Iterator[Event]:
        commit = decode_commit(record.offset, record.key or b"", record.value or b"")
        if commit is None:
            self.groups.apply(record)
            return
        key = commit.topic, commit.partition
        before = self._committed.get(key)
        previous = None if before is None else before.offset
        group = self.groups.get(self._group_id)
        if group is None:
            yield Event(
                event="group_created",
                offset=record.offset,
                timestamp=record.timestamp,
                type=GroupType.CLASSIC,
            )
        if record.producer_id >= 0:
            self._waiting.setdefault(record.producer_id, {})[key] = commit
            event = "transactional_commit"
        else:
            self._committed[key] = commit
            is_without_members = group is not None and not group.is_simple and not group.members
            is_back = previous is not None and commit.offset < previous
            event = "reset" if is_without_members or is_back else "commit"
        self.groups.apply(record)
        yield Event(
            event=event,
            offset=record.offset,
            timestamp=record.timestamp,
            topic=commit.topic,
            partition=commit.partition,
            committed_offset=commit.offset,
            previous_offset=previous,
            producer_id=record.producer_id if record.producer_id >= 0 else None,
        )

    def _tombstone(self, record: LogRecord, *, is_removed: bool) -> Iterator[Event]:
        key = decode_place(record.key or b"")
        before = None if key is None else self._committed.pop(key, None)
        for waiting in self._waiting.values():
            if key is not None:
                waiting.pop(key, None)
        if before is not None:
            reason = self._why_gone(before, record.timestamp, is_removed=is_removed)
            self._last_removal = record.timestamp, reason
            yield Event(
                event="offset_removed",
                offset=record.offset,
                timestamp=record.timestamp,
                topic=before.topic,
                partition=before.partition,
                previous_offset=before.offset,
                reason=reason,
            )
        self.groups.apply(record)

    def _why_gone(self, commit: CommittedOffset, now: int, *, is_removed: bool) -> str:
        """Return why a commit was removed at a time; `is_removed` says that the group was too."""
        removals = [
            time
            for time, topic in self._removed_topics
            if topic == commit.topic and commit.commit_timestamp <= time <= now + _SOON_MS
        ]
        if any(now - time <= _SOON_MS for time in removals):
            return TOPIC_DELETED
        group = self.groups.get(self._group_id)
        if group is not None:
            expiry = Expiry(group, now_ms=now, retention_ms=self._retention_ms)
            if expiry.takes(commit, is_pending=False):
                return EXPIRED
        if removals:
            return TOPIC_DELETED
        return GROUP_DELETED if is_removed else DELETED

    def _change(self, record: LogRecord, *, is_removed: bool) -> Iterator[Event]:
        """Yield how a record changes the group and its members."""
        before = _shown(self.groups.get(self._group_id))
        self.groups.apply(record)
        after = _shown(self.groups.get(self._group_id))
        if before == after:
            return
        event = partial(Event, offset=record.offset, timestamp=record.timestamp)
        if after is None:
            if is_removed and before is not None:
                reason = self._why_group_gone(record.timestamp)
                yield event(event="group_removed", type=before.type, reason=reason)
            self._converted = None if is_removed else before
            return
        if before is None:  # a conversion removes the old group first, in the same write
            before, self._converted = self._converted, None
        if before is None:
            yield event(event="group_created", type=after.type)
        elif before.type is not after.type:
            yield event(event="group_converted", type=after.type)
        old = frozenset() if before is None else before.members
        for member_id in sorted(after.members - old):
            yield event(event="member_joined", member_id=member_id)
        for member_id in sorted(old - after.members):
            yield event(event="member_left", member_id=member_id)
        if record.key is None or record.key[:2] not in _GROUP_TYPES:
            return
        if after.members or after.type is not GroupType.CLASSIC:
            yield event(event="rebalance", epoch=after.epoch, members=len(after.members))
        elif old:
            yield event(event="emptied", epoch=after.epoch, members=0)

    def _why_group_gone(self, now: int) -> str:
        """Return why the group was removed: what removed its last offsets at the same time."""
        if self._committed:
            return DELETED
        at, reason = self._last_removal
        return NO_OFFSETS_LEFT if at != now else EXPIRED if reason == EXPIRED else DELETED


@dataclass(frozen=True, slots=True)
class _Shown:
    type: GroupType
    epoch: int
    members: frozenset[str]


def _shown(group: Group | None) -> _Shown | None:
    if group is None:
        return None
    return _Shown(group.type, group.epoch, frozenset(group.members))
