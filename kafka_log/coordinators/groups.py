"""The groups that a coordinator has right after loading a partition of __consumer_offsets.

    groups = Groups()
    for record in read_records(files): groups.apply(record)
    for group in groups: ...                 classic, consumer, share and streams groups

    commit              makes a group without members ("simple") if there is none, also a commit of
                        a transaction that is pending or aborted later
    GroupMetadata       replaces a group of any type by a classic one; a tombstone removes any
    other records       make or change a group of their type; a simple group becomes such a group

A record that Kafka refuses is skipped, and becomes a `Refusal`: a broker does not load the
partition. Types that brokers skip are skipped here (`coordinator_records`).

Mirrors GroupMetadataManager.replay and the states of ClassicGroup, ConsumerGroup, ShareGroup and
StreamsGroup, and OffsetMetadataManager.cleanupExpiredOffsets. One check is left out: that no two
members of a consumer group own a partition.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_format.coordinator_records import (
    CONSUMER_PROTOCOL_TYPE,
    RECORD_TYPES,
    CoordinatorTopic,
    decode_coordinator_record,
)
from kafka_format.errors import FormatError
from kafka_format.field_codecs import kafka_text
from kafka_format.java_text import decode_utf8
from kafka_format.message import Message, UnknownMessage, decode_message
from kafka_format.schemas.group import CONSUMER_PROTOCOL_SUBSCRIPTION
from kafka_log.coordinators.committed_offsets import COMMIT_TYPES, CommittedOffsets

if TYPE_CHECKING:
    import uuid
    from collections.abc import Collection, Iterator, Mapping

    from kafka_log.coordinators.committed_offsets import CommittedOffset
    from kafka_log.coordinators.coordinator_log import LogRecord

_HEAD = struct.Struct(">hH")  # type, length of the group id: every key begins with these
_VERSION_SIZE = 2
_LEFT = -1
"""The epoch of a member whose assignment has been removed."""
_NO_EPOCH = -1
_NO_TIMESTAMP = -1
_UNKNOWN_TO_4_3 = (9, 18, 24)
"""Types of previews and of newer brokers; 4.3.1 skips them."""
_INT32 = 0xFFFF_FFFF
_UNDERFLOW = "null"
"""The text of the only exception that ConsumerProtocol expects (BufferUnderflowException)."""


class GroupType(StrEnum):
    """The type of a group, in the words of ListGroups."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"
    STREAMS = "streams"


class GroupState(StrEnum):
    """The states that a loaded group can be in, in the words of ListGroups."""

    EMPTY = "Empty"
    NOT_READY = "NotReady"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


_STABLE_MEMBER = {GroupType.CONSUMER: 0, GroupType.SHARE: 0, GroupType.STREAMS: 1}
"""The member state `stable`, which has another number in streams groups."""

Tasks = dict[str, list[tuple[str, list[int]]]]
"""By kind (active, standby, warmup): subtopologies with their partitions."""
NO_TASKS: Tasks = {"active": [], "standby": [], "warmup": []}
Partitions = list[tuple["uuid.UUID", list[int]]]
"""Topic ids with partitions."""


@dataclass(slots=True, kw_only=True)
class Member:
    """A member of a group."""

    member_id: str
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    epoch: int = 0
    """The generation, if it is a classic group."""
    state: int | None = None
    """As in the record; None before the member has an assignment."""
    subscribed_topics: tuple[str, ...] = ()
    subscribed_regex: str | None = None
    server_assignor: str | None = None
    is_classic: bool = False
    """Whether it uses the classic protocol."""
    subscription: bytes = b""
    """What the client of a classic group wrote."""
    assignment: Any = None
    """Bytes in a classic group, Tasks in a streams group, otherwise Partitions."""
    pending_revocation: Any = None
    process_id: str | None = None
    topology_epoch: int | None = None


@dataclass(slots=True, kw_only=True)
class Group:
    """A group as its coordinator holds it."""

    group_id: str
    type: GroupType
    members: dict[str, Member] = field(default_factory=dict)
    protocol_type: str | None = None
    """None for a classic group that only has offsets."""
    protocol: str | None = None
    """The assignor that a classic group has chosen."""
    leader: str | None = None
    state_timestamp: int | None = None
    """Since when a classic group is in its state."""
    epoch: int = 1
    """The generation, if it is a classic group."""
    assignment_epoch: int = 1
    targets: dict[str, Any] = field(default_factory=dict)
    """The target assignment of each member."""
    classic_topics: frozenset[str] | None = None
    """What the members of a classic group subscribe to; None if that is not known."""
    regexes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The topics that match the regular expressions of a consumer group."""
    topology_epoch: int | None = None
    validated_topology_epoch: int = 0
    source_topics: frozenset[str] = frozenset()

    @property
    def is_simple(self) -> bool:
        """Whether it exists only because of commits (ClassicGroup.isSimpleGroup)."""
        is_classic = self.type is GroupType.CLASSIC
        return is_classic and self.protocol_type is None and not self.members

    @property
    def state(self) -> GroupState:
        """Return the state. A member that left and was not removed yet still counts."""
        if not self.members:
            return GroupState.EMPTY
        if self.type in (GroupType.CLASSIC, GroupType.SHARE):
            return GroupState.STABLE
        is_streams = self.type is GroupType.STREAMS
        if is_streams and self.topology_epoch != self.validated_topology_epoch:
            return GroupState.NOT_READY
        if self.epoch > self.assignment_epoch:
            return GroupState.ASSIGNING
        stable = _STABLE_MEMBER[self.type]
        for member in self.members.values():
            # Without an assignment, a member of a streams group has no state; others are stable.
            state = stable if member.state is None and not is_streams else member.state
            if state != stable or member.epoch != self.assignment_epoch:
                return GroupState.RECONCILING
        return GroupState.STABLE

    @property
    def listed_protocol(self) -> str:
        """Return the protocol type that ListGroups answers."""
        if self.type is GroupType.CLASSIC:
            return self.protocol_type or ""
        return self.type.value

    @property
    def assignor(self) -> str | None:
        """Return the assignor that members have chosen; None for the broker's default."""
        if self.type is GroupType.CLASSIC:
            return self.protocol or None
        chosen = [each.server_assignor for each in self.members.values() if each.server_assignor]
        return max(chosen, key=chosen.count) if chosen else None

    def subscribed_topics(self) -> Collection[str] | None:
        """Return the topics of the members; None where the coordinator does not know them."""
        if self.type is GroupType.STREAMS:
            return self.source_topics if self.members else ()
        if self.type is not GroupType.CLASSIC:
            names = {name for each in self.members.values() for name in each.subscribed_topics}
            return names.union(*self.regexes.values())
        return self.classic_topics


def subscription_topics(data: bytes) -> list[str] | None:
    """Return the topics of a consumer's subscription, read as version 0, as a coordinator does.

    None if it is cut short. Raises RefusedError for bytes with which a coordinator fails.
    """
    if len(data) < _VERSION_SIZE:
        return None
    try:
        value = decode_message(CONSUMER_PROTOCOL_SUBSCRIPTION, 0, data, _VERSION_SIZE)
    except FormatError as error:
        if kafka_text(error) != _UNDERFLOW:
            raise RefusedError(f"found a subscription that cannot be read: {error}") from None
        return None
    return list(value.topics)


class Refusal(NamedTuple):
    """A record with which a coordinator refuses to load the partition."""

    offset: int
    reason: str


class RefusedError(Exception):
    """A record that GroupMetadataManager refuses."""


class Sizes(NamedTuple):
    """What a group has written, as far as the log still has it."""

    records: int
    size_in_bytes: int
    """Keys and values, decompressed."""


class Groups:
    """The groups in a partition of __consumer_offsets. Apply its records in order."""

    def __init__(self) -> None:
        self.offsets = CommittedOffsets()
        self.refusal: Refusal | None = None
        """The first record that was refused."""
        self._groups: dict[bytes, Group] = {}
        self._records: dict[bytes, int] = {}
        self._bytes: dict[bytes, int] = {}

    def __iter__(self) -> Iterator[Group]:
        """Yield the groups in the order of their ids."""
        return iter(sorted(self._groups.values(), key=lambda group: group.group_id))

    def get(self, group_id: str) -> Group | None:
        return self._groups.get(group_bytes(group_id))

    def sizes(self, group_id: str) -> Sizes:
        key = group_bytes(group_id)
        return Sizes(self._records.get(key, 0), self._bytes.get(key, 0))

    def count(self, group: bytes, records: int, size: int) -> None:
        """Count records that are not applied."""
        self._records[group] = self._records.get(group, 0) + records
        self._bytes[group] = self._bytes.get(group, 0) + size

    def apply(self, record: LogRecord) -> None:
        """Apply the next record of the log."""
        self.offsets.apply(record)
        key, value = record.key, record.value
        if record.marker is not None or key is None or len(key) < _HEAD.size:
            return
        of = group_of(key)
        self.count(of, 1, len(key) + (0 if value is None else len(value)))
        if key[:2] in COMMIT_TYPES:
            if value is not None and of not in self._groups:
                self._groups[of] = Group(group_id=group_text(of), type=GroupType.CLASSIC, epoch=0)
            return
        try:
            self._replay(of, key, value)
        except (RefusedError, FormatError) as error:
            if self.refusal is None:
                self.refusal = Refusal(record.offset, str(error))

    def _replay(self, of: bytes, key: bytes, value: bytes | None) -> None:
        type_id, _ = _HEAD.unpack_from(key)
        if type_id in _UNKNOWN_TO_4_3 or type_id not in _TYPES:
            return
        record = decode_coordinator_record(CoordinatorTopic.CONSUMER_OFFSETS, key, value)
        if isinstance(record.key, UnknownMessage):
            return
        if isinstance(record.value, UnknownMessage):
            raise RefusedError(f"found {record.name} of an unknown version, {record.value.version}")
        if type_id == _GROUP_METADATA:
            if record.value is None:
                self._groups.pop(of, None)
            else:
                self._groups[of] = _classic_group(group_text(of), record.value)
            return
        group_type = _type_of(type_id)
        group = self._group_of_type(of, group_type, create=record.value is not None)
        if group is not None and _METHODS[type_id](group, record.key, record.value):
            del self._groups[of]

    def _group_of_type(self, of: bytes, group_type: GroupType, *, create: bool) -> Group | None:
        """Mirrors GroupMetadataManager.getOrMaybeCreatePersisted…Group."""
        group = self._groups.get(of)
        replaces_simple = group_type is not GroupType.SHARE
        if group is None and not create:
            return None
        if group is None or (replaces_simple and group.is_simple):
            group = Group(group_id=group_text(of), type=group_type)
            self._groups[of] = group
        elif group.type is not group_type:
            raise RefusedError(f"found a record of a {group_type} group, but it is {group.type}")
        return group


def group_of(key: bytes) -> bytes:
    """Return the group id in a key of at least four bytes."""
    _, length = _HEAD.unpack_from(key)
    return key[_HEAD.size : _HEAD.size + length]


def group_text(group_id: bytes) -> str:
    """Return a group id as text, as a decoded key has it; bytes that are not UTF-8 are kept."""
    return group_id.decode("utf-8", "surrogateescape")


def group_bytes(group_id: str) -> bytes:
    """Return a group id as bytes. A lone surrogate that stands for no byte cannot be in a key."""
    return group_id.encode("utf-8", "surrogateescape")


def partition_for(group_id: str, count: int) -> int:
    """Return the partition of __consumer_offsets that has a group (Utils.abs of its hashCode)."""
    data = decode_utf8(group_bytes(group_id)).encode("utf-16-be")
    hashed = 0
    for (unit,) in struct.iter_unpack(">H", data):
        hashed = (hashed * 31 + unit) & _INT32
    signed = hashed - (1 << 32) if hashed >> 31 else hashed
    return (0 if signed == -(1 << 31) else abs(signed)) % count


# ------------------------------------------------------------------------------------- records


def _classic_group(group_id: str, value: Message) -> Group:
    generation = value.generation
    members = [
        Member(
            member_id=each.member_id,
            instance_id=each.group_instance_id,
            client_id=each.client_id,
            client_host=each.client_host,
            epoch=generation,
            is_classic=True,
            subscription=each.subscription,
            assignment=each.assignment,
        )
        for each in value.members
    ]
    timestamp = value.current_state_timestamp
    return Group(
        group_id=group_id,
        type=GroupType.CLASSIC,
        classic_topics=_classic_topics(value),
        members={each.member_id: each for each in members},
        protocol_type=value.protocol_type or None,
        protocol=value.protocol,
        leader=value.leader,
        state_timestamp=None if timestamp == _NO_TIMESTAMP else timestamp,
        epoch=generation,
    )


def _classic_topics(value: Message) -> frozenset[str] | None:
    """Mirrors ClassicGroup.computeSubscribedTopics."""
    if value.protocol_type != CONSUMER_PROTOCOL_TYPE:
        return None
    if value.members and value.protocol is None:
        return None
    found: set[str] = set()
    for member in value.members:
        topics = subscription_topics(member.subscription)
        if topics is None:
            return None
        found.update(topics)
    return frozenset(found)


def _group_epoch(group: Group, _: Message, value: Message | None) -> bool:
    """Set the epoch of a group; return whether the group is removed."""
    if value is not None:
        group.epoch = value.epoch
        if group.type is GroupType.STREAMS:
            group.validated_topology_epoch = value.validated_topology_epoch
        return False
    if group.members:
        raise RefusedError(f"found the removal of a group with {len(group.members)} members")
    if group.targets and group.type is not GroupType.STREAMS:
        raise RefusedError("found the removal of a group with a target assignment")
    if group.assignment_epoch != _NO_EPOCH:
        raise RefusedError("found the removal of a group before that of its assignment epoch")
    return True


def _member_metadata(group: Group, key: Message, value: Message | None) -> None:
    before = group.members.get(key.member_id)
    if value is None:
        if before is None:
            return
        if before.epoch != _LEFT:
            raise RefusedError("found the removal of a member before that of its assignment")
        if key.member_id in group.targets:
            raise RefusedError("found the removal of a member with a target assignment")
        del group.members[key.member_id]
        return
    member = before or Member(member_id=key.member_id)
    member.rack_id = value.rack_id
    member.client_id = value.client_id
    member.client_host = value.client_host
    if group.type is not GroupType.SHARE:
        member.instance_id = value.instance_id
    if group.type is GroupType.STREAMS:
        member.process_id = value.process_id
        member.topology_epoch = value.topology_epoch
    else:
        member.subscribed_topics = tuple(sorted(set(value.subscribed_topic_names)))
    if group.type is GroupType.CONSUMER:
        member.subscribed_regex = value.subscribed_topic_regex or None
        member.server_assignor = value.server_assignor
        member.is_classic = value.classic_member_metadata is not None
    group.members[key.member_id] = member


def _target_epoch(group: Group, _: Message, value: Message | None) -> None:
    if value is None and group.targets:
        raise RefusedError("found the removal of an assignment that still has members")
    group.assignment_epoch = _NO_EPOCH if value is None else value.assignment_epoch


def _target(group: Group, key: Message, value: Message | None) -> None:
    if value is None:
        group.targets.pop(key.member_id, None)
    elif group.type is GroupType.STREAMS:
        group.targets[key.member_id] = _tasks(
            value.active_tasks, value.standby_tasks, value.warmup_tasks
        )
    else:
        group.targets[key.member_id] = _partitions(value.topic_partitions)


def _assignment(group: Group, key: Message, value: Message | None) -> None:
    member = group.members.get(key.member_id)
    if value is None:
        if member is not None:
            member.epoch = _LEFT
            member.assignment = member.pending_revocation = None
        return
    if member is None:
        member = group.members[key.member_id] = Member(member_id=key.member_id)
    member.epoch = value.member_epoch
    member.state = value.state
    if group.type is GroupType.STREAMS:
        member.assignment = _tasks(value.active_tasks, value.standby_tasks, value.warmup_tasks)
        member.pending_revocation = _tasks(
            value.active_tasks_pending_revocation,
            value.standby_tasks_pending_revocation,
            value.warmup_tasks_pending_revocation,
        )
        return
    member.assignment = _partitions(value.assigned_partitions)
    if group.type is GroupType.CONSUMER:
        member.pending_revocation = _partitions(value.partitions_pending_revocation)


def _partitions(found: Any) -> Partitions:
    topics: dict[uuid.UUID, list[int]] = {
        each.topic_id: sorted(set(each.partitions)) for each in found
    }
    return list(topics.items())


def _tasks(active: Any, standby: Any, warmup: Any) -> Tasks:
    return {
        kind: sorted((each.subtopology_id, sorted(each.partitions)) for each in found)
        for kind, found in (("active", active), ("standby", standby), ("warmup", warmup))
    }


def _regex(group: Group, key: Message, value: Message | None) -> None:
    if value is None:
        group.regexes.pop(key.regular_expression, None)
    else:
        group.regexes[key.regular_expression] = tuple(value.topics)


def _topology(group: Group, _: Message, value: Message | None) -> None:
    if value is None:
        group.topology_epoch, group.source_topics = None, frozenset()
        return
    group.topology_epoch = value.epoch
    topics = [set(each.source_topics) for each in value.subtopologies]
    repartition = [
        {topic.name for topic in each.repartition_source_topics} for each in value.subtopologies
    ]
    group.source_topics = frozenset().union(*topics, *repartition)


def _nothing(*_: object) -> None:
    """A record that makes a group, and has nothing that is shown."""


_GROUP_METADATA = 2
_METHODS: dict[int, Any] = {
    3: _group_epoch,
    4: _nothing,
    5: _member_metadata,
    6: _target_epoch,
    7: _target,
    8: _assignment,
    10: _member_metadata,
    11: _group_epoch,
    12: _target_epoch,
    13: _target,
    14: _assignment,
    15: _nothing,
    16: _regex,
    17: _group_epoch,
    19: _member_metadata,
    20: _target_epoch,
    21: _target,
    22: _assignment,
    23: _topology,
}
"""What a record of each type changes."""
_TYPES: Mapping[int, object] = RECORD_TYPES[CoordinatorTopic.CONSUMER_OFFSETS]


def _type_of(type_id: int) -> GroupType:
    name = RECORD_TYPES[CoordinatorTopic.CONSUMER_OFFSETS][type_id].name
    if name.startswith("Consumer"):
        return GroupType.CONSUMER
    return GroupType.SHARE if name.startswith("Share") else GroupType.STREAMS


# ------------------------------------------------------------------------------------- expiry


class Expiry:
    """Which commits of a group the next clean-up removes (offsets.retention.minutes)."""

    def __init__(self, group: Group, *, now_ms: int, retention_ms: int) -> None:
        self._group = group
        self._now_ms = now_ms
        self._retention_ms = retention_ms
        self._topics = group.subscribed_topics()

    def takes(self, commit: CommittedOffset, *, is_pending: bool) -> bool:
        """Return whether a commit is removed.

        `is_pending` says that an open transaction has a commit for the same partition.
        """
        base = self._base_timestamp(commit)
        if base is None or is_pending or self._is_subscribed(commit.topic):
            return False
        if commit.expire_timestamp is not None:
            return self._now_ms >= commit.expire_timestamp
        return self._now_ms - base >= self._retention_ms

    def takes_group(self, *, has_other_offsets: bool, has_pending: bool) -> bool:
        """Return whether the group itself is removed.

        `has_other_offsets` says that some commits stay.
        """
        is_kept = has_other_offsets or has_pending or self._group.type is GroupType.SHARE
        return not is_kept and self._group.state is GroupState.EMPTY

    def _base_timestamp(self, commit: CommittedOffset) -> int | None:
        """Return the time from which the retention counts; None if nothing expires."""
        group = self._group
        if group.type is GroupType.SHARE:
            return None
        if group.type is not GroupType.CLASSIC or group.protocol_type is None:
            return commit.commit_timestamp
        if not group.members:
            known = group.state_timestamp
            return commit.commit_timestamp if known is None else known
        is_consumer = group.protocol_type == CONSUMER_PROTOCOL_TYPE
        return commit.commit_timestamp if is_consumer and self._topics is not None else None

    def _is_subscribed(self, topic: str) -> bool:
        if self._topics is None:
            return self._group.protocol_type == CONSUMER_PROTOCOL_TYPE
        return topic in self._topics
