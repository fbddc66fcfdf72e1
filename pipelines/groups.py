"""The job `groups`: groups, members, offsets and history, as rows.

    tasks, missing = coordinator_tasks(tasks, count)     one replica of each __consumer_offsets-N
    rows = engine.run(tasks, ReadGroups(...))            kinds group, member, offset, pending
    rows = with_log_offsets(rows, ReadOffsets' rows)     the lag
    rows = engine.run(tasks, ReadHistory(...))           kind event

A row of kind `problem` says why a coordinator would not load a partition, or what is damaged.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka_format.columnar.compilation import can_compile
from kafka_format.coordinator_records import (
    CONSUMER_PROTOCOL_TYPE,
    CoordinatorTopic,
    decode_assignment,
)
from kafka_format.errors import FormatError
from kafka_format.java_text import uuid_text
from kafka_format.leader_epoch_file import read_leader_epoch_checkpoint
from kafka_log.coordinators.coordinator_log import read_columns, read_records, records_of
from kafka_log.coordinators.group_history import GroupHistory
from kafka_log.coordinators.groups import (
    NO_TASKS,
    Expiry,
    Groups,
    GroupType,
    RefusedError,
    partition_for,
    subscription_topics,
)
from kafka_log.coordinators.latest_commits import LatestCommits
from kafka_log.disk.files import DiskFiles
from kafka_log.image.replay import TO_THE_END, Until, replay_metadata
from kafka_log.inventory.log_end import read_log_end
from kafka_log.names import (
    CLUSTER_METADATA_TOPIC,
    DirectoryKind,
    FileKind,
    live_base_offsets,
    segment_file_name,
)

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafka_format.metadata_records import MetadataRecord
    from kafka_log.coordinators.committed_offsets import CommittedOffset
    from kafka_log.coordinators.coordinator_log import LogRecord
    from kafka_log.coordinators.groups import Group, Member
    from kafka_log.image.metadata_image import MetadataImage
    from kafka_log.image.replay import Position
    from kafka_log.inventory.cluster_metadata import ClusterMetadata
    from kafka_log.inventory.inventory import Inventory
    from pipelines.engine.partition_tasks import PartitionTask

Row = dict[str, Any]

OFFSETS_TOPIC = CoordinatorTopic.CONSUMER_OFFSETS.value
KINDS = ("group", "member", "offset", "pending", "event")
"""The kinds of rows, in their order."""
LARGE_BYTES = 8 * 1024 * 1024
"""From this size on, a log is read twice to leave out commits that later ones replace."""
UNKNOWN = "unknown"
"""The state of a group whose partition is not on these disks."""


# ------------------------------------------------------------------------------------- tasks


def partition_count(metadata: ClusterMetadata | None) -> int | None:
    """Return how many partitions __consumer_offsets has in the metadata; None if unknown."""
    topic_id = None if metadata is None else metadata.topic_ids.get(OFFSETS_TOPIC)
    if metadata is None or topic_id is None:
        return None
    return sum(each == topic_id for each, _ in metadata.replicas) or None


def best_replicas(tasks: Iterable[PartitionTask]) -> list[PartitionTask]:
    """Return one task per partition: of replicas, the one that goes furthest in the last epoch."""
    found: dict[tuple[str, int], list[PartitionTask]] = {}
    for task in tasks:
        if task.kind is DirectoryKind.PARTITION and not task.is_metadata_log:
            found.setdefault((task.topic, task.partition), []).append(task)
    return [
        each[0] if len(each) == 1 else max(each, key=_reach) for _, each in sorted(found.items())
    ]


def _reach(task: PartitionTask) -> tuple[int, int]:
    try:
        path = Path(task.path, FileKind.LEADER_EPOCH_CHECKPOINT.value)
        entries = read_leader_epoch_checkpoint(path).entries
    except (FormatError, OSError):
        entries = ()
    return max((each.epoch for each in entries), default=-1), _log_end(task.path)


def _log_end(path: str) -> int:
    try:
        bases = live_base_offsets(DiskFiles(path).names())
        log, index = (
            str(Path(path, str(segment_file_name(bases[-1], kind))))
            for kind in (FileKind.LOG, FileKind.OFFSET_INDEX)
        )
        return read_log_end(log, bases[-1], index=index).offset
    except (OSError, IndexError):
        return -1


def topic_removals(inventory: Inventory) -> list[tuple[int, str]]:
    """Return deleted topics with the times of their removals, from every metadata log here."""
    found: set[tuple[int, str]] = set()

    def observe(image: MetadataImage, record: MetadataRecord, position: Position) -> None:
        if record.name == "RemoveTopicRecord":
            name = image.topics.get(getattr(record.value, "topic_id", None))  # type: ignore[arg-type]
            if name is not None:
                found.add((position.timestamp, name))

    for _, partition in inventory.partitions():
        is_live = partition.state is DirectoryKind.PARTITION
        if is_live and partition.topic == CLUSTER_METADATA_TOPIC:
            names = [Path(file.path).name for file in partition.files]
            replay_metadata(partition.path, names, from_oldest=True, observe=observe)
    return sorted(found)


# ------------------------------------------------------------------------------------- groups


class _Reader:
    """The records of a partition up to a point, and what is damaged before it."""

    def __init__(self, task: PartitionTask, until: Until) -> None:
        self._task = task
        self._until = until
        self._damage: list[str] = []
        self.damaged = 0

    def records(self) -> Iterator[LogRecord]:
        for record in read_records(
            DiskFiles(self._task.path),
            log_start_offset=self._task.log_start_offset or 0,
            on_damage=self._note,
        ):
            is_later = record.timestamp > self._until.timestamp
            if is_later or record.offset > self._until.offset:
                return
            yield record

    def apply_to(self, groups: Groups) -> None:
        """Apply all records, or of a large log only the commits that none replaces."""
        is_whole = self._until == TO_THE_END and not self._task.log_start_offset
        if not (is_whole and self._task.size_in_bytes >= LARGE_BYTES and can_compile()):
            for record in self.records():
                groups.apply(record)
            return
        files, latest = DiskFiles(self._task.path), LatestCommits()
        for columns in read_columns(files):
            latest.put(columns)
        for columns in read_columns(files, on_damage=self._note):
            replaced = latest.replaced(columns)
            for group, records, size in latest.groups_of(columns, replaced):
                groups.count(group, records, size)
            for record in records_of(columns, left_out=replaced):
                groups.apply(record)

    def _note(self, error: FormatError) -> None:
        self.damaged += 1
        if not self._damage:
            self._damage.append(str(error))

    def problems(self, groups: Groups) -> Iterator[Row]:
        path = self._task.path
        for message in self._damage:
            more = f" (and {self.damaged - 1} more)" if self.damaged > 1 else ""
            yield {"kind": "problem", "path": path, "problem": f"left out: {message}{more}"}
        if groups.refusal is not None:
            offset, reason = groups.refusal
            why = f"a coordinator does not load the partition: offset {offset}: {reason}"
            yield {"kind": "problem", "path": path, "problem": why}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadGroups:
    """A function over tasks: the groups of a partition. Picklable."""

    retention_ms: int
    topic_names: Mapping[uuid.UUID, str]
    globs: tuple[str, ...] = ()
    until: Until = TO_THE_END

    def __call__(self, task: PartitionTask) -> Iterator[Row]:
        """Yield the rows of a partition of __consumer_offsets. Raises OSError."""
        groups, reader = Groups(), _Reader(task, self.until)
        reader.apply_to(groups)
        committed: dict[str, list[CommittedOffset]] = {}
        for commit in groups.offsets.commits():
            committed.setdefault(commit.group, []).append(commit)
        pending: dict[str, list[tuple[int, CommittedOffset]]] = {}
        for producer_id, commit in groups.offsets.pending():
            pending.setdefault(commit.group, []).append((producer_id, commit))
        for group in groups:
            name = group.group_id
            if not self.globs or any(fnmatchcase(name, glob) for glob in self.globs):
                sizes = groups.sizes(name)._asdict()
                offsets = committed.get(name, []), pending.get(name, [])
                yield from self._rows(task, group, *offsets, sizes)
        yield from reader.problems(groups)

    def _rows(
        self,
        task: PartitionTask,
        group: Group,
        commits: Sequence[CommittedOffset],
        pending: Sequence[tuple[int, CommittedOffset]],
        sizes: Row,
    ) -> Iterator[Row]:
        waiting: dict[tuple[str, int], list[int]] = {}
        for producer_id, commit in pending:
            waiting.setdefault((commit.topic, commit.partition), []).append(producer_id)
        expiry = Expiry(group, now_ms=task.now_ms, retention_ms=self.retention_ms)
        offsets = []
        for commit in commits:
            producers = waiting.get((commit.topic, commit.partition), [])
            expires = expiry.takes(commit, is_pending=bool(producers))
            offsets.append(_offset_row(commit, producers, expires=expires))
        is_gone = expiry.takes_group(
            has_other_offsets=not all(row["expires"] for row in offsets),
            has_pending=bool(waiting),
        )
        yield _group_row(task, group, sizes, expires=is_gone)
        for _, member in sorted(group.members.items()):
            yield self._member_row(group, member)
        yield from offsets
        for producer_id, commit in pending:
            yield _pending_row(producer_id, commit)

    def _member_row(self, group: Group, member: Member) -> Row:
        is_classic_group = group.type is GroupType.CLASSIC
        topics: Sequence[str] | None = member.subscribed_topics
        if is_classic_group:
            is_consumer = group.protocol_type == CONSUMER_PROTOCOL_TYPE
            topics = _subscribed(member.subscription) if is_consumer else None
            assignment = _classic_assignment(member.assignment) if is_consumer else None
            target = None
        else:
            nothing = NO_TASKS if group.type is GroupType.STREAMS else None
            assignment = self._assigned(member.assignment or nothing, member.pending_revocation)
            target = self._assigned(group.targets.get(member.member_id) or nothing, None)
        is_share = group.type is GroupType.SHARE
        return {
            "kind": "member",
            "group": group.group_id,
            "member_id": member.member_id,
            "instance_id": member.instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "rack_id": member.rack_id,
            "epoch": None if is_classic_group else member.epoch,
            "is_classic": member.is_classic,
            "is_leader": member.member_id == group.leader if is_classic_group else None,
            "subscribed_topics": None if topics is None else sorted(topics),
            "subscribed_regex": member.subscribed_regex,
            "process_id": member.process_id,
            "assignment": assignment,
            "target_assignment": None if is_share else target,
        }

    def _assigned(self, first: Any, second: Any) -> Any:
        """Return an assignment with names. As in Kafka's answers, it has what is being revoked."""
        if isinstance(first, dict):
            return {
                kind: [{"subtopology": name, "partitions": numbers} for name, numbers in tasks]
                for kind, tasks in first.items()
            }
        merged: dict[uuid.UUID, set[int]] = {}
        for topic_id, numbers in [*(first or ()), *(second or ())]:
            merged.setdefault(topic_id, set()).update(numbers)
        rows = [
            {
                "topic": self.topic_names.get(topic_id),
                "topic_id": uuid_text(topic_id),
                "partitions": sorted(numbers),
            }
            for topic_id, numbers in merged.items()
        ]
        return sorted(rows, key=lambda row: (str(row["topic"]), str(row["topic_id"])))


def _subscribed(subscription: bytes) -> list[str] | None:
    try:
        return subscription_topics(subscription)
    except RefusedError:
        return None


def _group_row(task: PartitionTask, group: Group, sizes: Row, *, expires: bool) -> Row:
    is_classic = group.type is GroupType.CLASSIC
    return {
        "kind": "group",
        "group": group.group_id,
        "type": group.type.value,
        "state": group.state.value,
        "protocol": group.listed_protocol,
        "generation": group.epoch if is_classic else None,
        "epoch": None if is_classic else group.epoch,
        "assignment_epoch": None if is_classic else group.assignment_epoch,
        "assignor": group.assignor,
        "members": len(group.members),
        "state_timestamp": group.state_timestamp,
        "expires": expires,
        **sizes,
        "coordinator_partition": task.partition,
        "path": task.path,
    }


def unknown_group_row(group: str, partition: int) -> Row:
    """Return the row of a group whose partition of __consumer_offsets is not on these disks."""
    nothing = dict.fromkeys(
        ("generation", "epoch", "assignment_epoch", "assignor", "members", "state_timestamp")
    )
    return {
        "kind": "group",
        "group": group,
        "type": None,
        "state": UNKNOWN,
        "protocol": None,
        **nothing,
        "expires": None,
        "records": None,
        "size_in_bytes": None,
        "coordinator_partition": partition,
        "path": None,
    }


def _offset_row(commit: CommittedOffset, producers: Sequence[int], *, expires: bool) -> Row:
    return {
        "kind": "offset",
        "group": commit.group,
        "topic": commit.topic,
        "partition": commit.partition,
        "topic_id": commit.topic_id and uuid_text(commit.topic_id),
        "committed_offset": commit.offset,
        "leader_epoch": commit.leader_epoch,
        "metadata": commit.metadata,
        "commit_timestamp": commit.commit_timestamp,
        "expire_timestamp": commit.expire_timestamp,
        "expires": expires,
        "pending_producer_ids": sorted(producers),
        "log_offset": commit.log_offset,
        "log_end_offset": None,
        "last_stable_offset": None,
        "lag": None,
        "stable_lag": None,
    }


def _pending_row(producer_id: int, commit: CommittedOffset) -> Row:
    return {
        "kind": "pending",
        "group": commit.group,
        "topic": commit.topic,
        "partition": commit.partition,
        "producer_id": producer_id,
        "offset": commit.offset,
        "metadata": commit.metadata,
        "commit_timestamp": commit.commit_timestamp,
        "log_offset": commit.log_offset,
    }


def _classic_assignment(data: bytes) -> list[Row] | None:
    if not data:
        return []
    try:
        found = decode_assignment(data).assigned_partitions
    except FormatError:
        return None
    rows = [{"topic": each.topic, "partitions": sorted(each.partitions)} for each in found]
    return sorted(rows, key=lambda row: str(row["topic"]))


def with_log_offsets(rows: Iterable[Row], ends: Mapping[tuple[str, int], Row]) -> Iterator[Row]:
    """Fill in the ends of the logs that are on these disks, and the lag."""
    for row in rows:
        end = ends.get((row["topic"], row["partition"])) if row["kind"] == "offset" else None
        if end is not None:
            last, stable = end["log_end_offset"], end["last_stable_offset"]
            row |= {
                "log_end_offset": last,
                "last_stable_offset": stable,
                "lag": last - row["committed_offset"],
                "stable_lag": None if stable is None else stable - row["committed_offset"],
            }
        yield row


def in_order(rows: Iterable[Row]) -> list[Row]:
    """Return rows by kind and group."""
    order = {kind: number for number, kind in enumerate(KINDS)}
    return sorted(
        rows,
        key=lambda row: (
            order[row["kind"]],
            row["group"],
            row.get("topic") or "",
            row.get("partition") or 0,
        ),
    )


def are_in_partitions(rows: Iterable[Row], count: int) -> bool:
    """Return whether every group is in the partition that `count` partitions would give it."""
    return all(
        partition_for(row["group"], count) == row["coordinator_partition"]
        for row in rows
        if row["kind"] == "group" and row["state"] != UNKNOWN
    )


# ------------------------------------------------------------------------------------- history


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadHistory:
    """A function over tasks: what happened to a group. Picklable."""

    group: str
    retention_ms: int
    removed_topics: tuple[tuple[int, str], ...] = ()
    until: Until = TO_THE_END

    def __call__(self, task: PartitionTask) -> Iterator[Row]:
        """Yield the events in a partition of __consumer_offsets. Raises OSError."""
        reader = _Reader(task, self.until)
        history = GroupHistory(
            self.group, retention_ms=self.retention_ms, removed_topics=self.removed_topics
        )
        for event in history.events(reader.records()):
            yield {
                "kind": "event",
                "group": self.group,
                "offset": event.offset,
                "timestamp": event.timestamp,
                "event": event.event,
                "topic": event.topic,
                "partition": event.partition,
                "committed_offset": event.committed_offset,
                "previous_offset": event.previous_offset,
                "producer_id": event.producer_id,
                "type": None if event.type is None else event.type.value,
                "epoch": event.epoch,
                "members": event.members,
                "member_id": event.member_id,
                "reason": event.reason,
            }
        yield from reader.problems(history.groups)
