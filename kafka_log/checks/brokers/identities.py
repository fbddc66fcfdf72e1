"""Check who a log dir and its replicas belong to: meta.properties, partition.metadata, the image.

Whether a directory becomes stray is decided by loading.log_dir_recovery, as for `recover`. The
metadata on these disks may be older than that of the quorum, so a stray is never more than a
warning.
"""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_format.java_text import uuid_text
from kafka_format.shown_text import name_text, shortened
from kafka_log.checks.brokers.checkpoint_checks import Directories
from kafka_log.checks.facts import NotChecked
from kafka_log.checks.finding import About, Finding
from kafka_log.inventory.directory import list_directory
from kafka_log.loading.log_dir_recovery import Assignments, Fate, fate_of
from kafka_log.loading.metadata_log import METADATA_TOPIC_ID
from kafka_log.names import CLUSTER_METADATA_TOPIC, DirectoryKind, FileKind

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kafka_log.checks.facts import AuditedBroker, PartitionFacts
    from kafka_log.disk.files import Files
    from kafka_log.inventory.cluster_metadata import ClusterMetadata
    from kafka_log.inventory.inventory import Broker, Inventory, LogDir, Partition

_REPLICAS = (DirectoryKind.PARTITION, DirectoryKind.FUTURE)
_RESERVED_BELOW = 100
_ASSIGNMENTS = "replica assignments"


def check_identities(
    audited: AuditedBroker, facts: Sequence[PartitionFacts], _files_of: Callable[[str], Files]
) -> Iterator[Finding | NotChecked]:
    """Yield what is wrong with the ids of a broker's log dirs, topics and replicas."""
    broker = audited.broker
    yield from _log_dir_findings(broker)
    for log_dir in broker.log_dirs:
        yield from _metadata_log_findings(log_dir)
    metadata = broker.metadata
    ends = {each.path: each.log_end_offset or 0 for each in facts}
    why = "no cluster metadata log on these disks" if metadata is None else metadata.why_incomplete
    if metadata is None or broker.node_id is None or why:
        yield NotChecked(_ASSIGNMENTS, why or "no meta.properties has the id of the node")
        yield from _without_metadata(broker, ends)
        return
    image = _Image.of(broker, metadata)
    yield from _unregistered(broker, image)
    for log_dir in broker.log_dirs:
        yield from _replica_findings(log_dir, image, ends)
    yield from _missing_replicas(broker, image)


# --- the ids of log dirs --------------------------------------------------------------------------


def _log_dir_findings(broker: Broker) -> Iterator[Finding]:
    seen: dict[uuid.UUID, str] = {}
    for log_dir in broker.log_dirs:
        path = _meta_path(log_dir)
        if log_dir.meta is None:
            is_brokers = log_dir.is_clean is not None and log_dir.is_whole
            if is_brokers and not _exists(path):
                yield Finding.of("MET011", About(path), "no file", "the ids of node and cluster")
            continue
        directory_id = log_dir.meta.directory_id
        if directory_id is None:
            continue
        found = f"directory.id={uuid_text(directory_id)}"
        if is_reserved(directory_id):
            yield Finding.of("MET010", About(path), found, "an id that is not reserved")
        first = seen.setdefault(directory_id, path)
        if first != path:
            expected = f"another id than in {first}"
            yield Finding.of("MET010", About(path), found, expected)


def is_reserved(directory_id: uuid.UUID) -> bool:
    """Whether an id does not stand for a log dir, like Kafka's DirectoryId.reserved."""
    low = directory_id.int & (2**64 - 1)
    is_negative = low >= 2**63  # Kafka compares a signed long
    return directory_id.int >> 64 == 0 and (low < _RESERVED_BELOW or is_negative)


def _meta_path(log_dir: LogDir) -> str:
    return os.path.join(log_dir.path, FileKind.META_PROPERTIES.value)  # noqa: PTH118


def _exists(path: str) -> bool:
    """Whether there is anything with this name, even if it was not selected or not read."""
    target = Path(path)
    return any(each.name == target.name for each in list_directory(str(target.parent)).entries)


def registration_findings(inventory: Inventory) -> Iterator[Finding]:
    """Yield the log dirs that a broker registered, and that name another node or cluster."""
    owners = {
        directory_id: (node_id, log_dir.meta.cluster_id)
        for log_dir in inventory.log_dirs
        if log_dir.metadata is not None and log_dir.meta is not None
        for node_id, directory_ids in log_dir.metadata.log_dirs.items()
        for directory_id in directory_ids
    }
    for log_dir in inventory.log_dirs:
        meta = log_dir.meta
        if meta is None or meta.directory_id not in owners:
            continue
        node_id, cluster_id = owners[meta.directory_id]
        if (meta.node_id, meta.cluster_id) != (node_id, cluster_id):
            found = f"node {meta.node_id} of cluster {shortened(str(meta.cluster_id))}"
            owner = f"node {node_id} of cluster {shortened(str(cluster_id))}"
            expected = f"{owner}, which registered this log dir"
            yield Finding.of("MET012", About(_meta_path(log_dir)), found, expected)


def _unregistered(broker: Broker, image: _Image) -> Iterator[Finding]:
    """Yield log dirs with replicas that are not in the newest registration of the broker."""
    for log_dir in broker.log_dirs:
        directory_id = log_dir.meta and log_dir.meta.directory_id
        has_replicas = any(
            each.state in _REPLICAS and each.topic != CLUSTER_METADATA_TOPIC
            for each in log_dir.partitions
        )
        if log_dir.meta is None or not image.registered or not has_replicas:
            continue
        if directory_id not in image.registered:
            found = f"directory.id={uuid_text(directory_id)}" if directory_id else "no directory.id"
            expected = f"one of {_shown_ids(image.registered)}"
            yield Finding.of("MET013", About(_meta_path(log_dir)), found, expected)


def _shown_ids(ids: Sequence[uuid.UUID]) -> str:
    return ", ".join(uuid_text(each) for each in ids[:10]) + (", …" if len(ids) > 10 else "")


# --- topic ids ------------------------------------------------------------------------------------


def _metadata_log_findings(log_dir: LogDir) -> Iterator[Finding]:
    for partition in log_dir.partitions:
        is_metadata_log = partition.topic == CLUSTER_METADATA_TOPIC
        if not is_metadata_log or partition.state is not DirectoryKind.PARTITION:
            continue
        about, expected = _metadata_about(partition), uuid_text(METADATA_TOPIC_ID)
        if partition.topic_id not in (None, METADATA_TOPIC_ID):
            yield Finding.of("MET009", about, f"topic id {_shown_id(partition)}", expected)
        if log_dir.meta is None or not any(each.size_in_bytes for each in partition.segments):
            continue  # a bare directory
        if _has_no_metadata_file(partition):
            yield Finding.of("MET017", about, "no file", f"topic id {expected}")
        quorum_state = os.path.join(partition.path, FileKind.QUORUM_STATE.value)  # noqa: PTH118
        if not _exists(quorum_state):
            about = about._replace(path=quorum_state)
            yield Finding.of("MET019", about, "no file", "the vote and the leader's epoch")


def _without_metadata(broker: Broker, ends: Mapping[str, int]) -> Iterator[Finding]:
    """Yield what is certain without assignments: topic ids that differ, and those that are gone."""
    by_topic: defaultdict[str, list[Partition]] = defaultdict(list)
    owners: dict[uuid.UUID, str] = {}
    for log_dir in broker.log_dirs:
        is_kraft = log_dir.meta is not None and log_dir.meta.version > 0
        for partition in log_dir.partitions:
            if partition.state not in _REPLICAS or partition.topic == CLUSTER_METADATA_TOPIC:
                continue
            if is_kraft and _has_no_metadata_file(partition):
                yield from _no_topic_id(log_dir, partition, ends)
            elif partition.topic_id is not None:
                by_topic[partition.topic].append(partition)
                owner = owners.setdefault(partition.topic_id, partition.topic)
                if owner != partition.topic:
                    yield _of_another_topic(partition, owner)
    for partitions in by_topic.values():
        first = partitions[0]
        for each in partitions[1:]:
            if each.topic_id != first.topic_id:
                expected = f"{_shown_id(first)} as in {first.path}"
                found = f"topic id {_shown_id(each)}"
                yield Finding.of("MET008", _metadata_about(each), found, expected)


def _metadata_about(partition: Partition) -> About:
    name = FileKind.PARTITION_METADATA.value
    path = os.path.join(partition.path, name)  # noqa: PTH118  # keeps a leading `./`
    return About(path, partition.topic, partition.partition)


def _shown_id(partition: Partition) -> str:
    return "none" if partition.topic_id is None else uuid_text(partition.topic_id)


def _has_no_metadata_file(partition: Partition) -> bool:
    """Whether there is no topic id because there is no file, and not because of a malformed one."""
    return partition.topic_id is None and not _exists(_metadata_about(partition).path)


def _no_topic_id(
    log_dir: LogDir, partition: Partition, ends: Mapping[str, int]
) -> Iterator[Finding]:
    """Yield a finding unless the log is empty, as after a crash that follows its creation."""
    known = partition.metadata_topic_id
    expected = "a topic id" if known is None else f"topic id {uuid_text(known)}"
    about = _metadata_about(partition)
    has_bytes = any(segment.size_in_bytes for segment in partition.segments)
    if has_bytes or ends.get(partition.path, 0) > 0:
        yield Finding.of("MET007", about, "no file", expected)
    elif log_dir.is_clean:
        restart = "The directory is renamed to `-stray`, and an empty log takes its place."
        yield Finding.of("MET017", about, "no file", expected, restart=restart)


def _of_another_topic(partition: Partition, owner: str) -> Finding:
    found = f"topic id {_shown_id(partition)}, of {shortened(name_text(owner))}"
    expected = f"the id of {shortened(name_text(partition.topic))}"
    return Finding.of("MET018", _metadata_about(partition), found, expected)


# --- replicas and the image -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Image:
    """What the cluster metadata says of one broker."""

    metadata: ClusterMetadata
    node_id: int
    registered: Sequence[uuid.UUID]
    """The log dirs of its newest registration; empty if unknown."""
    names: Mapping[uuid.UUID, str]
    """The names of topics by their ids."""
    given: frozenset[uuid.UUID]
    """The log dirs that are audited, as a whole."""

    @classmethod
    def of(cls, broker: Broker, metadata: ClusterMetadata) -> _Image:
        node_id = broker.node_id or 0
        metas = (each.meta for each in broker.log_dirs if each.is_whole)
        ids = (meta.directory_id for meta in metas if meta is not None)
        return cls(
            metadata=metadata,
            node_id=node_id,
            registered=metadata.log_dirs.get(node_id, ()),
            names={topic_id: name for name, topic_id in metadata.topic_ids.items()},
            given=frozenset(each for each in ids if each is not None),
        )

    @property
    def is_complete(self) -> bool:
        """Whether every log dir of the broker was given."""
        return bool(self.registered) and self.given.issuperset(self.registered)


def _replica_findings(log_dir: LogDir, image: _Image, ends: Mapping[str, int]) -> Iterator[Finding]:
    assignments = Assignments.from_metadata([log_dir], image.metadata)
    if assignments is None:
        return
    for partition in log_dir.partitions:
        if partition.state not in _REPLICAS or partition.topic == CLUSTER_METADATA_TOPIC:
            continue
        if partition.topic_id is None:
            if _has_no_metadata_file(partition):
                yield from _no_topic_id(log_dir, partition, ends)
            continue
        fate, _ = fate_of(partition.name, partition.topic_id, assignments)
        if fate is Fate.STRAY:
            yield _stray(partition, assignments)
            continue
        owner = image.names.get(partition.topic_id, partition.topic)
        if owner != partition.topic:
            yield _of_another_topic(partition, owner)
        elif fate is Fate.CURRENT:
            yield from _misplaced(partition, assignments)


def _stray(partition: Partition, assignments: Assignments) -> Finding:
    reason = assignments.stray_reason(partition.topic_id, partition.partition or 0) or ""
    known = partition.metadata_topic_id
    if known not in (None, partition.topic_id):
        reason += f"; {name_text(partition.topic)} is {uuid_text(known)}"
    expected = f"a replica of broker {assignments.broker_id}"
    return Finding.of("MET006", _about(partition), reason, expected)


def _about(partition: Partition) -> About:
    return About(partition.path, partition.topic, partition.partition)


def _misplaced(partition: Partition, assignments: Assignments) -> Iterator[Finding]:
    if partition.topic_id is None or assignments.directory_id is None:
        return
    place = (partition.topic_id, partition.partition or 0)
    assigned = assignments.directories.get(place)
    if assigned is None or is_reserved(assigned) or assigned == assignments.directory_id:
        return
    found = f"log dir {uuid_text(assignments.directory_id)}"
    yield Finding.of("MET014", _about(partition), found, f"log dir {uuid_text(assigned)}")


def _missing_replicas(broker: Broker, image: _Image) -> Iterator[Finding | NotChecked]:
    """Yield the replicas that the image assigns to a given log dir, and that no log dir has."""
    metadata = image.metadata
    directories = Directories(broker.log_dirs)
    assigned_to = metadata.directories_of(image.node_id)
    elsewhere = 0
    for (topic_id, number), replicas in sorted(metadata.replicas.items()):
        topic = image.names.get(topic_id)
        if image.node_id not in replicas or topic is None or directories.has_replica(topic, number):
            continue
        directory_id = assigned_to.get((topic_id, number))
        if directory_id not in image.given and not image.is_complete:
            elsewhere += 1
            continue
        place = About(_assigned_path(broker, directory_id), topic, number)
        yield _missing_replica(broker, place, [each for each in replicas if each != image.node_id])
    if elsewhere:
        count = "1 replica is" if elsewhere == 1 else f"{elsewhere} replicas are"
        yield NotChecked(_ASSIGNMENTS, f"{count} in log dirs that were not given, or only in part")


def _missing_replica(broker: Broker, place: About, others: Sequence[int]) -> Finding:
    """Return an error only if records are lost, and it is no topic that was created just now."""
    expected = f"the directory {shortened(f'{place.topic}-{place.partition}')}"
    if others:
        found = f"no directory, other replicas on {_shown_nodes(others)}"
        return Finding.of("MET015", place, found, expected)
    was_checkpointed = any(
        (place.topic, place.partition) in checkpoint.offsets
        for log_dir in broker.log_dirs
        for checkpoint in log_dir.checkpoints.values()
    )
    is_lost = was_checkpointed or all(log_dir.is_clean for log_dir in broker.log_dirs)
    restart = "" if is_lost else "The broker creates an empty log and leads the partition with it."
    rule = "MET016" if is_lost else "MET015"
    return Finding.of(rule, place, "no directory, no other replica", expected, restart=restart)


def _shown_nodes(nodes: Sequence[int]) -> str:
    return ", ".join(map(str, nodes[:10])) + (", …" if len(nodes) > 10 else "")


def _assigned_path(broker: Broker, directory_id: uuid.UUID | None) -> str:
    """Return the log dir with an id; the first one of the broker if it is not known."""
    for log_dir in broker.log_dirs:
        if log_dir.meta is not None and log_dir.meta.directory_id == directory_id:
            return log_dir.path
    return broker.log_dirs[0].path
