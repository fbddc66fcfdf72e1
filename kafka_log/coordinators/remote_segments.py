"""The segments in tiered storage, as the records of __remote_log_metadata leave them.

    state = RemoteState()
    for offset, event in read_events(files):      events of one partition of the topic
        refusal = state.apply(offset, event)      a Refusal if Kafka drops it
    state.partitions[topic_id, partition].segments

    COPY_SEGMENT_STARTED     then COPY_SEGMENT_FINISHED or DELETE_SEGMENT_STARTED
    COPY_SEGMENT_FINISHED    then DELETE_SEGMENT_STARTED
    DELETE_SEGMENT_STARTED   then DELETE_SEGMENT_FINISHED
    a state may be repeated

A segment that was deleted is forgotten, and so is a partition that was. Records that cannot be
decoded are left out (the findings REC005 and REC006); a broker stops reading at them.

Mirrors RemoteLogMetadataCache, RemoteLogSegmentState and RemotePartitionMetadataStore.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from kafka_format.errors import FormatError
from kafka_format.message import Message
from kafka_format.remote_log_metadata import (
    RemoteLogSegmentState,
    RemotePartitionDeleteState,
    decode_remote_log_metadata,
)
from kafka_log.coordinators.coordinator_log import read_records

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterator, Mapping, Sequence

    from kafka_log.disk.files import Files

REMOTE_LOG_METADATA_TOPIC = "__remote_log_metadata"

PartitionKey: TypeAlias = "tuple[uuid.UUID, int]"
"""Topic id and partition."""

_NEXT = {
    None: {RemoteLogSegmentState.COPY_SEGMENT_STARTED},
    RemoteLogSegmentState.COPY_SEGMENT_STARTED: {
        RemoteLogSegmentState.COPY_SEGMENT_FINISHED,
        RemoteLogSegmentState.DELETE_SEGMENT_STARTED,
    },
    RemoteLogSegmentState.COPY_SEGMENT_FINISHED: {RemoteLogSegmentState.DELETE_SEGMENT_STARTED},
    RemoteLogSegmentState.DELETE_SEGMENT_STARTED: {RemoteLogSegmentState.DELETE_SEGMENT_FINISHED},
    RemoteLogSegmentState.DELETE_SEGMENT_FINISHED: set(),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteSegment:
    """A segment in tiered storage, with the last state that was written."""

    segment_id: uuid.UUID
    start_offset: int
    end_offset: int
    """The last offset in it."""
    leader_epochs: Mapping[int, int]
    """Epochs with their first offsets in the segment."""
    size_in_bytes: int
    max_timestamp: int
    broker_id: int
    """The broker that wrote the last state."""
    state: RemoteLogSegmentState
    event_timestamp: int
    """When the last state was written."""
    log_offset: int
    """The offset of the last record about it in __remote_log_metadata."""


@dataclass(slots=True)
class RemotePartition:
    """A partition in tiered storage."""

    topic: str
    topic_id: uuid.UUID
    partition: int
    segments: dict[uuid.UUID, RemoteSegment] = field(default_factory=dict)
    delete_state: RemotePartitionDeleteState | None = None
    last_copy: int = -1
    """The offset of the last record with which a copy began."""
    last_deletion: int = -1
    """The offset of the last record with which a deletion of a segment began."""
    last_offset: int = -1
    """The offset of the last record about the partition."""

    def finished(self) -> list[RemoteSegment]:
        """Return the segments that can be read, by their offsets."""
        return sorted(
            (
                each
                for each in self.segments.values()
                if each.state is RemoteLogSegmentState.COPY_SEGMENT_FINISHED
            ),
            key=lambda each: (each.start_offset, each.end_offset, each.log_offset),
        )


class Refusal(NamedTuple):
    """Why Kafka drops an event."""

    reason: str
    is_unknown_segment: bool = False
    """Whether it is about a segment of which no event is known."""


class RemoteState:
    """The partitions of which one partition of __remote_log_metadata has records."""

    def __init__(self) -> None:
        self.partitions: dict[PartitionKey, RemotePartition] = {}
        self.last_timestamp = -1
        """The latest time of an event."""

    def apply(self, log_offset: int, event: Message) -> Refusal | None:
        """Apply the next event; return why Kafka does not, None if it does."""
        self.last_timestamp = max(self.last_timestamp, event.event_timestamp_ms)
        fields = event.fields
        if "remote_partition_delete_state" in fields:
            return self._delete_partition(log_offset, event)
        of = event.remote_log_segment_id.topic_id_partition
        key = of.id, of.partition
        partition = self.partitions.get(key)
        if partition is None:
            partition = RemotePartition(of.name, *key)
        partition.last_offset = log_offset
        state = _segment_state(event.remote_log_segment_state)
        if state is None:
            return Refusal(f"segment state {event.remote_log_segment_state}")
        if "start_offset" in fields:
            refusal = _add(partition, log_offset, event, state)
        else:
            refusal = _update(partition, log_offset, event, state)
        if refusal is None:
            self.partitions[key] = partition
        return refusal

    def _delete_partition(self, log_offset: int, event: Message) -> Refusal | None:
        of = event.topic_id_partition
        key = of.id, of.partition
        number = event.remote_partition_delete_state
        if number not in RemotePartitionDeleteState._value2member_map_:
            return Refusal(f"partition state {number}")
        state = RemotePartitionDeleteState(number)
        if state is RemotePartitionDeleteState.DELETE_PARTITION_FINISHED:
            self.partitions.pop(key, None)
            return None
        partition = self.partitions.setdefault(key, RemotePartition(of.name, *key))
        partition.delete_state = state
        partition.last_offset = log_offset
        return None


def read_events(files: Files, *, log_start_offset: int = 0) -> Iterator[tuple[int, Message]]:
    """Yield the events in a partition of __remote_log_metadata, each with its offset."""
    for record in read_records(files, log_start_offset=log_start_offset):
        if record.marker is not None:
            continue
        try:
            event = decode_remote_log_metadata(record.value).value
        except FormatError:
            continue
        if isinstance(event, Message) and "segment_id" not in event.fields:
            yield record.offset, event


class Lineage:
    """The leader epochs of a partition, as its leader-epoch-checkpoint has them."""

    def __init__(self, epochs: Mapping[int, int]) -> None:
        """Take the epochs with their first offsets."""
        self._offsets = dict(epochs)
        self._epochs = sorted(epochs)

    def has(self, segment: RemoteSegment) -> bool:
        """Return whether a segment belongs to the partition.

        Mirrors RemoteLogManager.isRemoteSegmentWithinLeaderEpochs, except for the log end.
        """
        own = _with_records(segment.leader_epochs)
        if not own or not self._epochs:
            return False
        first, last = self._epochs[0], max(own)
        if not first <= last <= self._epochs[-1]:
            return False
        checked = sorted(epoch for epoch in own if epoch >= first)
        begins = checked[0]
        if any(epoch not in self._offsets for epoch in checked):
            return False
        if begins != first and own[begins] < self._offsets[begins]:
            return False
        for epoch, after in pairwise(checked):
            if self._following(epoch) != after or self._offsets[after] != own[after]:
                return False
        following = self._following(last)
        return following is None or segment.end_offset < self._offsets[following]

    def _following(self, epoch: int) -> int | None:
        at = bisect_right(self._epochs, epoch)
        return self._epochs[at] if at < len(self._epochs) else None


def _with_records(epochs: Mapping[int, int]) -> dict[int, int]:
    """Leave out epochs without records: the next one begins at the same offset."""
    ordered = sorted(epochs.items())
    kept = [epoch for epoch, after in pairwise(ordered) if epoch[1] != after[1]]
    return dict([*kept, *ordered[-1:]])


def _segment_state(number: int) -> RemoteLogSegmentState | None:
    known = RemoteLogSegmentState._value2member_map_
    return RemoteLogSegmentState(number) if number in known else None


def _add(
    partition: RemotePartition, log_offset: int, event: Message, state: RemoteLogSegmentState
) -> Refusal | None:
    if not 0 <= event.start_offset <= event.end_offset:
        return Refusal(f"a segment of offsets {event.start_offset} to {event.end_offset}")
    if not event.segment_leader_epochs:
        return Refusal("a segment without leader epochs")
    if state is not RemoteLogSegmentState.COPY_SEGMENT_STARTED:
        return Refusal(f"a new segment in state {state.name}")
    segment_id = event.remote_log_segment_id.id
    existing = partition.segments.get(segment_id)
    if (refusal := _refusal(existing, state)) is not None:
        return refusal
    partition.last_copy = log_offset
    partition.segments[segment_id] = RemoteSegment(
        segment_id=segment_id,
        start_offset=event.start_offset,
        end_offset=event.end_offset,
        leader_epochs=_epochs(event.segment_leader_epochs),
        size_in_bytes=event.segment_size_in_bytes,
        max_timestamp=event.max_timestamp_ms,
        broker_id=event.broker_id,
        state=state,
        event_timestamp=event.event_timestamp_ms,
        log_offset=log_offset,
    )
    return None


def _epochs(entries: Sequence[Message]) -> dict[int, int]:
    return {each.leader_epoch: each.offset for each in entries}


def _update(
    partition: RemotePartition, log_offset: int, event: Message, state: RemoteLogSegmentState
) -> Refusal | None:
    segment_id = event.remote_log_segment_id.id
    existing = partition.segments.get(segment_id)
    if existing is None:
        return Refusal(f"{state.name} of an unknown segment", is_unknown_segment=True)
    if (refusal := _refusal(existing, state)) is not None:
        return refusal
    if state is RemoteLogSegmentState.COPY_SEGMENT_STARTED:
        return Refusal(f"an update to {state.name}")
    if state is RemoteLogSegmentState.DELETE_SEGMENT_FINISHED:
        del partition.segments[segment_id]
        return None
    if state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
        partition.last_deletion = log_offset
    partition.segments[segment_id] = replace(
        existing,
        state=state,
        broker_id=event.broker_id,
        event_timestamp=event.event_timestamp_ms,
        log_offset=log_offset,
    )
    return None


def _refusal(existing: RemoteSegment | None, state: RemoteLogSegmentState) -> Refusal | None:
    found = None if existing is None else existing.state
    if state is found or state in _NEXT[found]:
        return None
    return Refusal(f"{state.name} after {'nothing' if found is None else found.name}")
