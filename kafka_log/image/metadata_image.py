"""The state of a cluster as its metadata log describes it: a value that records change.

    image = MetadataImage()
    image.apply(record)         one record of the log; transactions are replay.py's

A change record changes only the fields that it has. Each one adds 1 to the partition epoch; one
with a leader, even the same one, also adds 1 to the leader epoch. A removed topic takes its
partitions and settings with it.

Mirrors org.apache.kafka.image.*Delta and org.apache.kafka.metadata.PartitionRegistration. A record
that these classes refuse raises ReplayError, and changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

from kafka_format.message import Message, UnknownMessage

if TYPE_CHECKING:
    import uuid
    from collections.abc import Sequence

    from kafka_format.metadata_records import MetadataRecord

NO_LEADER = -1
_LEADER_UNCHANGED = -2
_SIGN_BITS = 1 << 127 | 1 << 63
_UNCHANGED = -1
"""As a leader recovery state."""


class ReplayError(Exception):
    """A record that a broker refuses to apply."""


class ResourceType(IntEnum):
    """What a ConfigRecord configures (ConfigResource.Type)."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRegistration:
    """The replicas of a partition, its leader and its epochs."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    elr: tuple[int, ...] = ()
    """Eligible leader replicas: not in sync, but they have all committed records."""
    last_known_elr: tuple[int, ...] = ()
    leader: int = NO_LEADER
    leader_epoch: int = 0
    partition_epoch: int = 0
    leader_recovery_state: int = 0
    directories: tuple[uuid.UUID, ...] = ()
    """The log dir of each replica; empty before 3.7."""

    @classmethod
    def of(cls, value: Message) -> PartitionRegistration:
        """Build it from a PartitionRecord."""
        return cls(
            replicas=tuple(value.replicas),
            isr=tuple(value.isr),
            removing_replicas=tuple(value.removing_replicas),
            adding_replicas=tuple(value.adding_replicas),
            elr=tuple(value.eligible_leader_replicas or ()),
            last_known_elr=tuple(value.last_known_elr or ()),
            leader=value.leader,
            leader_epoch=value.leader_epoch,
            partition_epoch=value.partition_epoch,
            leader_recovery_state=value.leader_recovery_state,
            directories=tuple(value.directories or ()),
        )

    def merged(self, value: Message) -> PartitionRegistration:
        """Apply a PartitionChangeRecord."""
        has_leader = value.leader != _LEADER_UNCHANGED
        recovery = value.leader_recovery_state
        return replace(
            self,
            replicas=_kept(value.replicas, self.replicas),
            isr=_kept(value.isr, self.isr),
            removing_replicas=_kept(value.removing_replicas, self.removing_replicas),
            adding_replicas=_kept(value.adding_replicas, self.adding_replicas),
            elr=_kept(value.eligible_leader_replicas, self.elr),
            last_known_elr=_kept(value.last_known_elr, self.last_known_elr),
            leader=value.leader if has_leader else self.leader,
            leader_epoch=self.leader_epoch + has_leader,
            partition_epoch=self.partition_epoch + 1,
            leader_recovery_state=(
                self.leader_recovery_state if recovery == _UNCHANGED else recovery
            ),
            directories=_kept(value.directories, self.directories),
        )

    def without_elr(self) -> PartitionRegistration:
        """Apply a ClearElrRecord, which is a change like any other."""
        epoch = self.partition_epoch + 1
        return replace(self, elr=(), last_known_elr=(), partition_epoch=epoch)


def _kept(new: Sequence[Any] | None, old: tuple[Any, ...]) -> tuple[Any, ...]:
    return old if new is None else tuple(new)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A broker or a controller that has registered."""

    incarnation_id: uuid.UUID
    endpoints: tuple[tuple[str, str, int, int], ...]
    """Name, host, port and security protocol."""
    features: tuple[tuple[str, int, int], ...]
    """Name, lowest and highest supported level."""
    epoch: int | None = None
    """The broker epoch; None for a controller."""
    rack: str | None = None
    is_fenced: bool = False
    in_controlled_shutdown: bool = False
    log_dirs: tuple[uuid.UUID, ...] = ()
    cordoned_log_dirs: tuple[uuid.UUID, ...] = ()


Partitions = dict[int, PartitionRegistration]
QuotaEntity = tuple[tuple[str, str | None], ...]


@dataclass(slots=True, kw_only=True)
class MetadataImage:
    """Everything that the records so far have said."""

    topics: dict[uuid.UUID, str] = field(default_factory=dict)
    partitions: dict[uuid.UUID, Partitions] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    """Settings by resource type and name."""
    features: dict[str, int] = field(default_factory=dict)
    brokers: dict[int, Registration] = field(default_factory=dict)
    controllers: dict[int, Registration] = field(default_factory=dict)
    acls: dict[uuid.UUID, Message] = field(default_factory=dict)
    quotas: dict[tuple[QuotaEntity, str], float] = field(default_factory=dict)
    scram_users: dict[tuple[str, int], int] = field(default_factory=dict)
    """Iterations by user and mechanism. Salts and keys are not kept."""
    delegation_tokens: dict[str, Message] = field(default_factory=dict)
    next_producer_id: int | None = None
    deleted_topics: dict[uuid.UUID, str] = field(default_factory=dict)
    """Deleted topics whose removal is still in the log."""

    def topic_ids(self) -> dict[str, uuid.UUID]:
        return {name: topic_id for topic_id, name in self.topics.items()}

    def apply(self, record: MetadataRecord) -> None:
        """Apply a record. Raises ReplayError if a broker would refuse it."""
        if isinstance(record.value, UnknownMessage):
            what = record.name or f"api key {record.api_key}"
            raise ReplayError(f"found {what} of version {record.version}, which is unknown")
        method = _METHODS.get(record.name or "")
        if method is not None:
            getattr(self, method)(record.value)

    # ------------------------------------------------------------------ topics

    def _topic(self, value: Message) -> None:
        self.topics[value.topic_id] = value.name
        self.partitions[value.topic_id] = {}

    def _partition(self, value: Message) -> None:
        partitions = self._partitions_of(value.topic_id)
        partitions[value.partition_id] = PartitionRegistration.of(value)

    def _partition_change(self, value: Message) -> None:
        partitions = self._partitions_of(value.topic_id)
        before = partitions.get(value.partition_id)
        if before is None:
            name = self.topics[value.topic_id]
            raise ReplayError(f"found a change of {name}-{value.partition_id}, which is unknown")
        partitions[value.partition_id] = before.merged(value)

    def _partitions_of(self, topic_id: uuid.UUID) -> Partitions:
        if topic_id not in self.topics:
            raise ReplayError(f"found a partition of topic id {topic_id}, which is unknown")
        return self.partitions[topic_id]

    def _remove_topic(self, value: Message) -> None:
        name = self.topics.pop(value.topic_id, None)
        if name is None:
            raise ReplayError(f"found the removal of topic id {value.topic_id}, which is unknown")
        self.deleted_topics[value.topic_id] = name
        self.partitions.pop(value.topic_id, None)
        self.configs.pop((ResourceType.TOPIC, name), None)

    def _clear_elr(self, value: Message) -> None:
        """Clear the eligible leader replicas of a topic; without a name, of every topic."""
        if value.topic_name and value.topic_name not in self.topics.values():
            raise ReplayError(f"found a change of topic {value.topic_name}, which is unknown")
        for topic_id, name in self.topics.items():
            if value.topic_name in ("", name):
                partitions = self.partitions[topic_id]
                for number, each in partitions.items():
                    if each.elr or each.last_known_elr:
                        partitions[number] = each.without_elr()

    # ------------------------------------------------------------------ brokers and controllers

    def _register_broker(self, value: Message) -> None:
        self.brokers[value.broker_id] = Registration(
            **_endpoint_fields(value),
            epoch=value.broker_epoch,
            rack=value.rack,
            is_fenced=value.fenced,
            in_controlled_shutdown=value.in_controlled_shutdown,
            log_dirs=_in_order(value.log_dirs),
            cordoned_log_dirs=tuple(value.cordoned_log_dirs or ()),
        )

    def _unregister_broker(self, value: Message) -> None:
        self._registered(value.broker_id, value.broker_epoch)
        del self.brokers[value.broker_id]

    def _fence_broker(self, value: Message) -> None:
        before = self._registered(value.id, value.epoch)
        self.brokers[value.id] = replace(before, is_fenced=True)

    def _unfence_broker(self, value: Message) -> None:
        before = self._registered(value.id, value.epoch)
        self.brokers[value.id] = replace(before, is_fenced=False)

    def _change_broker(self, value: Message) -> None:
        before = self._registered(value.broker_id, value.broker_epoch)
        shuts_down = value.in_controlled_shutdown == 1 or before.in_controlled_shutdown
        self.brokers[value.broker_id] = replace(
            before,
            is_fenced=before.is_fenced if value.fenced == 0 else value.fenced == 1,
            in_controlled_shutdown=shuts_down,
            log_dirs=_in_order(value.log_dirs) or before.log_dirs,
            cordoned_log_dirs=_kept(value.cordoned_log_dirs, before.cordoned_log_dirs),
        )

    def _registered(self, broker_id: int, epoch: int) -> Registration:
        found = self.brokers.get(broker_id)
        if found is None:
            raise ReplayError(f"found a change of broker {broker_id}, which is not registered")
        if found.epoch != epoch:
            raise ReplayError(f"found broker {broker_id} with epoch {epoch}, not {found.epoch}")
        return found

    def _register_controller(self, value: Message) -> None:
        self.controllers[value.controller_id] = Registration(**_endpoint_fields(value))

    def _unregister_controller(self, value: Message) -> None:
        self.controllers.pop(value.controller_id, None)

    # ------------------------------------------------------------------ the rest

    def _config(self, value: Message) -> None:
        resource = (value.resource_type, value.resource_name)
        settings = self.configs.setdefault(resource, {})
        if value.value is None:
            settings.pop(value.name, None)
        else:
            settings[value.name] = value.value
        if not settings:
            del self.configs[resource]

    def _feature(self, value: Message) -> None:
        if value.feature_level == 0:
            self.features.pop(value.name, None)
        else:
            self.features[value.name] = value.feature_level

    def _quota(self, value: Message) -> None:
        names = {each.entity_type: each.entity_name for each in value.entity}
        entity = tuple(sorted(names.items()))
        if value.remove:
            self.quotas.pop((entity, value.key), None)
        else:
            self.quotas[entity, value.key] = value.value

    def _producer_ids(self, value: Message) -> None:
        self.next_producer_id = value.next_producer_id

    def _acl(self, value: Message) -> None:
        self.acls[value.id] = value

    def _remove_acl(self, value: Message) -> None:
        if self.acls.pop(value.id, None) is None:
            raise ReplayError(f"found the removal of ACL {value.id}, which is unknown")

    def _scram(self, value: Message) -> None:
        self.scram_users[value.name, value.mechanism] = value.iterations

    def _remove_scram(self, value: Message) -> None:
        self.scram_users.pop((value.name, value.mechanism), None)

    def _token(self, value: Message) -> None:
        self.delegation_tokens[value.token_id] = value

    def _remove_token(self, value: Message) -> None:
        self.delegation_tokens.pop(value.token_id, None)


def _in_order(directories: Sequence[uuid.UUID]) -> tuple[uuid.UUID, ...]:
    """Return log dirs in Kafka's order of ids, which compares two signed 64-bit numbers."""
    return tuple(sorted(directories, key=lambda each: each.int ^ _SIGN_BITS))


def _endpoint_fields(value: Message) -> dict[str, Any]:
    return {
        "incarnation_id": value.incarnation_id,
        "endpoints": tuple(
            sorted(
                (each.name, each.host, each.port, each.security_protocol)
                for each in value.end_points
            )
        ),
        "features": tuple(
            sorted(
                (each.name, each.min_supported_version, each.max_supported_version)
                for each in value.features
            )
        ),
    }


_METHODS = {
    "TopicRecord": "_topic",
    "PartitionRecord": "_partition",
    "PartitionChangeRecord": "_partition_change",
    "RemoveTopicRecord": "_remove_topic",
    "ClearElrRecord": "_clear_elr",
    "RegisterBrokerRecord": "_register_broker",
    "UnregisterBrokerRecord": "_unregister_broker",
    "FenceBrokerRecord": "_fence_broker",
    "UnfenceBrokerRecord": "_unfence_broker",
    "BrokerRegistrationChangeRecord": "_change_broker",
    "RegisterControllerRecord": "_register_controller",
    "UnregisterControllerRecord": "_unregister_controller",
    "ConfigRecord": "_config",
    "FeatureLevelRecord": "_feature",
    "ClientQuotaRecord": "_quota",
    "ProducerIdsRecord": "_producer_ids",
    "AccessControlEntryRecord": "_acl",
    "RemoveAccessControlEntryRecord": "_remove_acl",
    "UserScramCredentialRecord": "_scram",
    "RemoveUserScramCredentialRecord": "_remove_scram",
    "DelegationTokenRecord": "_token",
    "RemoveDelegationTokenRecord": "_remove_token",
}
"""The method that applies a record. Records without one change nothing here."""
