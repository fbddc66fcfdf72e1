"""The job `metadata`: the cluster as its KRaft metadata log describes it, as rows.

    copies = find_copies(inventory)             each `__cluster_metadata-0` on these disks
    found = best_copy(copies, until)            the one that holds the most, replayed
    rows = image_rows(found)                    one row per topic, partition, setting, broker, ...
    rows = history_rows(found.copy, "orders", 3)
    rows = difference_rows(before, after)

Secrets are left out: salts and keys of SCRAM users, values of settings that are passwords.
"""

from __future__ import annotations

import math
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_format.errors import FormatError
from kafka_format.java_text import uuid_text
from kafka_format.quorum_state import read_quorum_state
from kafka_log.image.history import TopicHistory
from kafka_log.image.metadata_image import ResourceType
from kafka_log.image.replay import TO_THE_END, Until, Voter, replay_metadata
from kafka_log.names import CLUSTER_METADATA_TOPIC, DirectoryKind, FileKind

if TYPE_CHECKING:
    import uuid
    from collections.abc import Iterable, Iterator, Sequence

    from kafka_log.image.history import Change
    from kafka_log.image.metadata_image import PartitionRegistration, Registration
    from kafka_log.image.replay import ReplayedMetadata
    from kafka_log.inventory.inventory import Inventory, Partition

Row = dict[str, Any]

KINDS = (
    "topic",
    "partition",
    "config",
    "feature",
    "broker",
    "controller",
    "acl",
    "quota",
    "scram_user",
    "delegation_token",
    "producer_ids",
    "voter",
)
"""The kinds of rows of an image, in their order."""
_PASSWORDS = (".password", ".key", ".jaas.config", ".secret", ".credentials")
"""How the names of settings with secrets end. Kafka's own are of the type PASSWORD."""
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


class AclResource(IntEnum):
    """org.apache.kafka.common.resource.ResourceType."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class AclPattern(IntEnum):
    """org.apache.kafka.common.resource.PatternType."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class AclOperation(IntEnum):
    """org.apache.kafka.common.acl.AclOperation."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class AclPermission(IntEnum):
    """org.apache.kafka.common.acl.AclPermissionType."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


class MetadataCopy(NamedTuple):
    """A copy of the metadata log, and the names of its files."""

    path: str
    names: tuple[str, ...]


def find_copies(inventory: Inventory) -> list[MetadataCopy]:
    """Return every live copy of the metadata log."""
    return [
        MetadataCopy(partition.path, tuple(Path(file.path).name for file in partition.files))
        for _, partition in inventory.partitions()
        if _is_metadata_log(partition)
    ]


def _is_metadata_log(partition: Partition) -> bool:
    is_live = partition.state is DirectoryKind.PARTITION and partition.partition == 0
    return is_live and partition.topic == CLUSTER_METADATA_TOPIC


def best_copy(
    copies: Iterable[MetadataCopy], until: Until = TO_THE_END
) -> tuple[MetadataCopy, ReplayedMetadata]:
    """Return the copy that holds the most records of the last epoch, and its image."""
    replayed = [(copy, replay(copy, until)) for copy in copies]
    return max(replayed, key=lambda both: _reach(both[1]))


def _reach(found: ReplayedMetadata) -> tuple[int, int]:
    return (-1 if found.last is None else found.last.epoch), found.end_offset


def replay(copy: MetadataCopy, until: Until = TO_THE_END) -> ReplayedMetadata:
    """Replay a copy. Before dynamic quorums, quorum-state has the voters."""
    found = replay_metadata(copy.path, copy.names, until=until)
    if not found.voters and FileKind.QUORUM_STATE.value in copy.names:
        try:
            state = read_quorum_state(Path(copy.path, FileKind.QUORUM_STATE.value))
        except (FormatError, OSError):
            return found
        found.voters = {each: Voter(node_id=each) for each in state.current_voters or ()}
    return found


# ------------------------------------------------------------------------------------- rows


def source_row(copy: MetadataCopy, found: ReplayedMetadata) -> Row:
    """Return what the image was made of, and how far it goes."""
    last, failure = found.last, found.failure
    return {
        "kind": "image",
        "path": copy.path,
        "snapshot": found.snapshot,
        "end_offset": found.end_offset,
        "committed_offset": found.committed_offset,
        "epoch": None if last is None else last.epoch,
        "timestamp": None if last is None else last.timestamp,
        "kraft_version": found.kraft_version,
        "pending_records": found.pending,
        "failed_path": None if failure is None else failure.path,
        "failed_offset": None if failure is None else failure.offset,
        "failure": None if failure is None else failure.reason,
    }


def image_rows(found: ReplayedMetadata) -> Iterator[Row]:
    """Yield everything that exists, by kind, in the order of names."""
    image = found.image
    topics = sorted(image.topics.items(), key=lambda each: (each[1], each[0].int))
    for topic_id, name in topics:
        yield {"kind": "topic", "topic": name, "topic_id": uuid_text(topic_id)}
    for topic_id, name in topics:
        for number, each in sorted(image.partitions[topic_id].items()):
            yield _partition_row(name, topic_id, number, each)
    for (kind, name), settings in sorted(image.configs.items()):
        for setting, value in sorted(settings.items()):
            yield _config_row(kind, name, setting, value)
    for feature, level in sorted(image.features.items()):
        yield {"kind": "feature", "feature": feature, "level": level}
    yield {"kind": "feature", "feature": "kraft.version", "level": found.kraft_version}
    for node_id, broker in sorted(image.brokers.items()):
        yield _broker_row(node_id, broker)
    for node_id, controller in sorted(image.controllers.items()):
        yield {"kind": "controller", "node_id": node_id, **_registration(controller)}
    yield from _security_rows(found)
    if image.next_producer_id is not None:
        yield {"kind": "producer_ids", "next_producer_id": image.next_producer_id}
    for voter in sorted(found.voters.values(), key=lambda each: each.node_id):
        yield {
            "kind": "voter",
            "node_id": voter.node_id,
            "directory_id": voter.directory_id and uuid_text(voter.directory_id),
            "endpoints": [
                {"name": name, "host": host, "port": port} for name, host, port in voter.endpoints
            ],
        }


def _partition_row(
    topic: str, topic_id: uuid.UUID, number: int, each: PartitionRegistration
) -> Row:
    return {
        "kind": "partition",
        "topic": topic,
        "partition": number,
        "topic_id": uuid_text(topic_id),
        "replicas": [*each.replicas],
        "isr": [*each.isr],
        "leader": each.leader,
        "leader_epoch": each.leader_epoch,
        "partition_epoch": each.partition_epoch,
        "elr": [*each.elr],
        "last_known_elr": [*each.last_known_elr],
        "adding_replicas": [*each.adding_replicas],
        "removing_replicas": [*each.removing_replicas],
        "is_recovering": each.leader_recovery_state != 0,
        "directories": [uuid_text(directory) for directory in each.directories],
    }


def _config_row(kind: int, name: str, setting: str, value: str) -> Row:
    known = {each.value: each.name.lower() for each in ResourceType}
    is_secret = setting.endswith(_PASSWORDS)
    return {
        "kind": "config",
        "resource_type": known.get(kind, str(kind)),
        "resource_name": name,
        "name": setting,
        "value": None if is_secret else value,
        "is_sensitive": is_secret,
    }


def _registration(each: Registration) -> Row:
    return {
        "incarnation_id": uuid_text(each.incarnation_id),
        "endpoints": [
            {"name": name, "host": host, "port": port, "security_protocol": protocol}
            for name, host, port, protocol in each.endpoints
        ],
        "features": [
            {"name": name, "min_version": low, "max_version": high}
            for name, low, high in each.features
        ],
    }


def _broker_row(node_id: int, each: Registration) -> Row:
    return {
        "kind": "broker",
        "node_id": node_id,
        "epoch": each.epoch,
        "rack": each.rack,
        "is_fenced": each.is_fenced,
        "in_controlled_shutdown": each.in_controlled_shutdown,
        "log_dirs": [uuid_text(directory) for directory in each.log_dirs],
        "cordoned_log_dirs": [uuid_text(directory) for directory in each.cordoned_log_dirs],
        **_registration(each),
    }


def _security_rows(found: ReplayedMetadata) -> Iterator[Row]:
    image = found.image
    for acl_id, acl in sorted(image.acls.items(), key=lambda each: each[0].int):
        yield {
            "kind": "acl",
            "id": uuid_text(acl_id),
            "resource_type": _name(AclResource, acl.resource_type),
            "resource_name": acl.resource_name,
            "pattern_type": _name(AclPattern, acl.pattern_type),
            "principal": acl.principal,
            "host": acl.host,
            "operation": _name(AclOperation, acl.operation),
            "permission_type": _name(AclPermission, acl.permission_type),
        }
    for (entity, key), value in sorted(image.quotas.items(), key=str):
        number = value if math.isfinite(value) else str(value)  # JSON has no NaN
        yield {"kind": "quota", "entity": dict(entity), "key": key, "value": number}
    for (user, mechanism), iterations in sorted(image.scram_users.items()):
        named = _MECHANISMS.get(mechanism, str(mechanism))
        yield {"kind": "scram_user", "user": user, "mechanism": named, "iterations": iterations}
    for token_id, token in sorted(image.delegation_tokens.items()):
        yield {
            "kind": "delegation_token",
            "token_id": token_id,
            "owner": token.owner,
            "requester": token.requester,
            "renewers": [*token.renewers],
            "issue_timestamp": token.issue_timestamp,
            "max_timestamp": token.max_timestamp,
            "expiration_timestamp": token.expiration_timestamp,
        }


def _name(names: type[IntEnum], value: int) -> str:
    return names(value).name if value in names._value2member_map_ else str(value)


# ------------------------------------------------------------------------------------- changes


def history_rows(
    copy: MetadataCopy, topic: str, partition: int | None, until: Until = TO_THE_END
) -> tuple[list[Row], ReplayedMetadata]:
    """Return each change of a topic or partition that the log still has."""
    history = TopicHistory(topic, partition)
    found = replay_metadata(copy.path, copy.names, until=until, from_oldest=True, observe=history)
    return [_change_row(change) for change in history.changes], found


def _change_row(change: Change) -> Row:
    is_secret = change.field.endswith(_PASSWORDS)
    return {
        "kind": "change",
        "offset": change.position.offset,
        "timestamp": change.position.timestamp,
        "epoch": change.position.epoch,
        "topic": change.topic,
        "partition": change.partition,
        "field": change.field,
        "before": None if is_secret else _plain(change.before),
        "after": None if is_secret else _plain(change.after),
        "leader_epoch": change.leader_epoch,
        "partition_epoch": change.partition_epoch,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    return uuid_text(value) if hasattr(value, "hex") and hasattr(value, "int") else value


_IDENTITY = {
    "topic": ("topic",),
    "partition": ("topic", "partition"),
    "config": ("resource_type", "resource_name", "name"),
    "feature": ("feature",),
    "broker": ("node_id",),
    "controller": ("node_id",),
    "acl": ("id",),
    "quota": ("entity", "key"),
    "scram_user": ("user", "mechanism"),
    "delegation_token": ("token_id",),
    "producer_ids": (),
    "voter": ("node_id",),
}
"""The fields that say which thing a row is about."""


def difference_rows(before: Sequence[Row], after: Sequence[Row]) -> Iterator[Row]:
    """Yield what two images do not share: rows `removed`, `added` and `changed`."""
    old, new = ({_identity(row): row for row in rows} for rows in (before, after))
    for key in [*old, *(each for each in new if each not in old)]:
        left, right = old.get(key), new.get(key)
        if left == right:
            continue
        either = left or right or {}
        names = ("kind", *_IDENTITY[either["kind"]])
        fields = [name for name in either if name not in names]
        if left is not None and right is not None:
            fields = [name for name in fields if left[name] != right[name]]
        yield {
            "kind": "difference",
            "of": either["kind"],
            "what": "added" if left is None else "removed" if right is None else "changed",
            **{name: either[name] for name in names[1:]},
            "before": None if left is None else {name: left[name] for name in fields},
            "after": None if right is None else {name: right[name] for name in fields},
        }


def _identity(row: Row) -> tuple[str, ...]:
    return row["kind"], *(str(row[name]) for name in _IDENTITY[row["kind"]])
