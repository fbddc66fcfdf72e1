"""Check the offsets that groups have committed against the partitions they are for.

    GRP001  beyond the log end           only where the partition is on these disks
    GRP002  for a topic that is gone     only with the cluster metadata
    GRP003  below the log start
    GRP004  a large partition of __consumer_offsets that is mostly of one group

Commits for partitions of other brokers are not checked, and are counted. `found` has no group ids
or topics: `entry` has them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.coordinator_records import CoordinatorTopic
from kafka_format.errors import FormatError
from kafka_format.shown_text import shortened
from kafka_log.checks.facts import Depth, NotChecked
from kafka_log.checks.finding import About, Finding
from kafka_log.coordinators.committed_offsets import read_committed_offsets
from kafka_log.names import DirectoryKind

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterator, Sequence

    from kafka_log.checks.brokers.broker_checks import FilesOf
    from kafka_log.checks.facts import AuditedBroker, PartitionFacts
    from kafka_log.coordinators.committed_offsets import CommittedOffset, CommittedOffsets
    from kafka_log.inventory.cluster_metadata import ClusterMetadata
    from kafka_log.inventory.inventory import Broker, Partition

OFFSETS_TOPIC = CoordinatorTopic.CONSUMER_OFFSETS.value
LARGE_BYTES = 100 * 1024 * 1024
"""Records of one default segment (offsets.topic.segment.bytes): what cleaning usually leaves."""


def check_committed_offsets(
    audited: AuditedBroker, facts: Sequence[PartitionFacts], files_of: FilesOf
) -> Iterator[Finding | NotChecked]:
    """Yield the findings of every partition of __consumer_offsets here."""
    replicas = _Replicas(audited.broker, facts)
    partitions = list(replicas.of_topic(OFFSETS_TOPIC))
    if (reason := replicas.why_not_checked(has_commits=bool(partitions))) is not None:
        yield reason
    if partitions and audited.depth is Depth.HEADERS:
        yield NotChecked("committed offsets", "records are not decoded with headers only")
        return
    for partition in partitions:
        try:
            state = read_committed_offsets(
                files_of(partition.path), log_start_offset=partition.log_start_offset or 0
            )
        except (FormatError, OSError) as error:
            yield NotChecked("committed offsets", str(error), partition.path)
            continue
        about = About(partition.path, partition.topic, partition.partition)
        yield from _size_findings(state, about)
        yield from _commit_findings(state, replicas, about)


def _size_findings(state: CommittedOffsets, about: About) -> Iterator[Finding]:
    largest, total = state.sizes.largest(), state.sizes.total_bytes
    if largest is None or total < LARGE_BYTES or 2 * largest[1] <= total:
        return
    found = f"{largest[1]} of {total} bytes of records are of one group"
    expected = f"less than half, or less than {LARGE_BYTES} bytes in all"
    yield Finding.of("GRP004", about, found, expected, entry=_group(largest[0]))


class _Gone(NamedTuple):
    """A group's commits for a topic that is gone, or below the log start."""

    rule: str
    group: str
    topic: str
    reason: str


def _commit_findings(
    state: CommittedOffsets, replicas: _Replicas, about: About
) -> Iterator[Finding | NotChecked]:
    elsewhere = 0
    grouped: Counter[_Gone] = Counter()
    first: dict[_Gone, int] = {}
    for commit in state.commits():
        replica = replicas.find(commit.topic, commit.partition)
        reason = replicas.why_gone(commit)
        if reason is not None:
            gone = _Gone("GRP002", commit.group, commit.topic, reason)
        elif replica is None or replica.end is None:
            elsewhere += 1
            continue
        elif commit.offset > replica.end:
            found = f"offset {commit.offset}, {commit.offset - replica.end} beyond the log end"
            entry = f"{_group(commit.group)}, {shortened(commit.topic)}-{commit.partition}"
            expected = f"at most {replica.end}"
            yield Finding.of(
                "GRP001", about, found, expected, offset=commit.log_offset, entry=entry
            )
            continue
        elif commit.offset < replica.start:
            gone = _Gone("GRP003", commit.group, commit.topic, "below the log start")
        else:
            continue
        grouped[gone] += 1
        first.setdefault(gone, commit.log_offset)
    for gone, count in grouped.items():
        entry = f"{_group(gone.group)}, topic {shortened(gone.topic)}"
        found = f"commits for {count} partitions: {gone.reason}"
        expected = _EXPECTED[gone.rule]
        yield Finding.of(gone.rule, about, found, expected, offset=first[gone], entry=entry)
    if elsewhere:
        why = f"{elsewhere} commits are for partitions that were not read here"
        yield NotChecked("committed offsets", why, about.path)


_EXPECTED = {
    "GRP002": "commits for topics that exist",
    "GRP003": "offsets in the log",
}


def _group(group: str) -> str:
    return f"group {shortened(group)}"


class _Replica(NamedTuple):
    start: int
    end: int | None
    topic_id: uuid.UUID | None


class _Replicas:
    """The partitions on the disks of a broker, and the topics of its cluster."""

    def __init__(self, broker: Broker, facts: Sequence[PartitionFacts]) -> None:
        self._partitions = [
            partition
            for log_dir in broker.log_dirs
            for partition in log_dir.partitions
            if partition.state is DirectoryKind.PARTITION
        ]
        self._metadata = _complete(broker.metadata)
        replicas = () if self._metadata is None else self._metadata.replicas
        self._with_replicas = {topic_id for topic_id, _ in replicas}
        shown = {each.path: each for each in facts}
        self._replicas: dict[tuple[str, int | None], _Replica] = {}
        for partition in self._partitions:
            found = shown.get(partition.path)
            end = None if found is None else found.log_end_offset
            start = None if found is None else found.log_start_offset
            replica = _Replica(start or 0, end, partition.topic_id)
            self._replicas[partition.topic, partition.partition] = replica

    def why_not_checked(self, *, has_commits: bool) -> NotChecked | None:
        """Return what cannot be checked for want of metadata, or of commits."""
        if has_commits and self._metadata is None:
            return NotChecked("commits for topics that are gone", "no complete cluster metadata")
        if not has_commits and self._metadata and OFFSETS_TOPIC in self._metadata.topic_ids:
            return NotChecked("committed offsets", f"no partition of {OFFSETS_TOPIC} here")
        return None

    def of_topic(self, topic: str) -> Iterator[Partition]:
        return (each for each in self._partitions if each.topic == topic)

    def find(self, topic: str, partition: int) -> _Replica | None:
        return self._replicas.get((topic, partition))

    def why_gone(self, commit: CommittedOffset) -> str | None:
        """Return why the topic of a commit is gone; None if it may exist."""
        if self._metadata is None:
            return None
        topic_id = self._metadata.topic_ids.get(commit.topic)
        if topic_id is None:
            if self.find(commit.topic, commit.partition) is not None:
                return None
            return "the topic does not exist"
        if commit.topic_id not in (None, topic_id):
            return "the topic was deleted and created again"
        is_known = (topic_id, commit.partition) in self._metadata.replicas
        if not is_known and topic_id in self._with_replicas:
            return "the topic has no such partition"
        return None


def _complete(metadata: ClusterMetadata | None) -> ClusterMetadata | None:
    """Return the metadata if all of it could be read: a topic may be in what is missing."""
    if metadata is None or metadata.problems or metadata.unreadable:
        return None
    return metadata
