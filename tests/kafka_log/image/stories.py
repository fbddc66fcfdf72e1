"""Seeded lives of a cluster as metadata records, as a controller could have written them."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from kafka_format.message import Message, Schema
from kafka_format.metadata_records import MetadataRecord, encode_metadata_record
from kafka_format.schemas import metadata as schemas

_KEYS = {id(schema): api_key for api_key, schema in schemas.BY_API_KEY.items()}
_SETTINGS = ("retention.ms", "cleanup.policy", "min.insync.replicas")
_USERS = ("alice", "bob", None)


def framed(schema: Schema, version: int, **fields: Any) -> bytes:
    message: Message = schema.new(version, **fields)
    return encode_metadata_record(MetadataRecord(_KEYS[id(schema)], version, schema.name, message))


class Story:
    """Draws records that refer to what earlier ones made; a few name something unknown."""

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._topics: dict[uuid.UUID, int] = {}
        self._brokers: dict[int, int] = {}
        self._acls: list[uuid.UUID] = []
        self._created = 0

    def records(self, count: int) -> Iterator[bytes]:
        yield framed(schemas.FEATURE_LEVEL_RECORD, 0, name="metadata.version", feature_level=30)
        events: list[Callable[[], bytes | None]] = [
            self._new_topic,
            self._new_partition,
            *[self._change_partition] * 6,
            self._remove_topic,
            self._config,
            self._config,
            self._register_broker,
            self._change_broker,
            self._fence_broker,
            self._unregister_broker,
            self._register_controller,
            self._quota,
            self._acl,
            self._remove_acl,
            self._scram,
            self._producer_ids,
            self._feature,
            self._clear_elr,
            self._token,
        ]
        for _ in range(count):
            record = self._draw.choice(events)()
            if record is not None:
                yield record

    def _uuid(self) -> uuid.UUID:
        return uuid.UUID(int=self._draw.getrandbits(128) | 1 << 100)

    def _ids(self) -> list[int]:
        return self._draw.sample(range(1, 6), self._draw.randrange(4))

    def _new_topic(self) -> bytes:
        topic_id = self._uuid()
        self._topics[topic_id] = 0
        self._created += 1
        return framed(schemas.TOPIC_RECORD, 0, name=f"t{self._created}", topic_id=topic_id)

    def _topic(self) -> uuid.UUID | None:
        return self._draw.choice([*self._topics]) if self._topics else None

    def _new_partition(self) -> bytes | None:
        topic_id = self._topic()
        if topic_id is None:
            return None
        number = self._topics[topic_id]
        self._topics[topic_id] += 1
        replicas = self._draw.sample(range(1, 6), 3)
        return framed(
            schemas.PARTITION_RECORD,
            2,
            partition_id=number,
            topic_id=topic_id,
            replicas=replicas,
            isr=replicas[: self._draw.randrange(4)],
            leader=replicas[0],
            leader_epoch=self._draw.randrange(3),
            partition_epoch=self._draw.randrange(3),
            directories=[self._uuid() for _ in replicas],
        )

    def _change_partition(self) -> bytes | None:
        topic_id = self._topic()
        if topic_id is None or not self._topics[topic_id]:
            return None
        fields: dict[str, Any] = {}
        for name in ("isr", "eligible_leader_replicas", "last_known_elr"):
            if self._draw.random() < 0.5:
                fields[name] = self._ids()
        if self._draw.random() < 0.5:
            fields["leader"] = self._draw.choice([-1, 1, 2, 3])
        if self._draw.random() < 0.2:
            replicas = self._draw.sample(range(1, 6), 3)
            fields |= {"replicas": replicas, "directories": [self._uuid() for _ in replicas]}
            fields |= {"adding_replicas": replicas[:1], "removing_replicas": replicas[1:2]}
        if self._draw.random() < 0.2:
            fields["leader_recovery_state"] = self._draw.randrange(2)
        number = self._draw.randrange(self._topics[topic_id])
        change = schemas.PARTITION_CHANGE_RECORD
        return framed(change, 2, partition_id=number, topic_id=topic_id, **fields)

    def _remove_topic(self) -> bytes | None:
        topic_id = self._topic()
        if topic_id is None or self._draw.random() < 0.7:
            return None
        del self._topics[topic_id]
        return framed(schemas.REMOVE_TOPIC_RECORD, 0, topic_id=topic_id)

    def _config(self) -> bytes:
        kind, name = self._draw.choice([(2, "t1"), (2, "t2"), (4, ""), (4, "1"), (16, "m")])
        value = self._draw.choice([None, "1", "two"])
        setting = self._draw.choice(_SETTINGS)
        fields = {"resource_type": kind, "resource_name": name, "name": setting, "value": value}
        return framed(schemas.CONFIG_RECORD, 0, **fields)

    def _register_broker(self) -> bytes:
        broker_id = self._draw.randrange(1, 5)
        epoch = self._brokers[broker_id] = self._draw.randrange(1000)
        return framed(
            schemas.REGISTER_BROKER_RECORD,
            4,
            broker_id=broker_id,
            incarnation_id=self._uuid(),
            broker_epoch=epoch,
            rack=self._draw.choice([None, "", "r1"]),
            fenced=self._draw.random() < 0.5,
            in_controlled_shutdown=self._draw.random() < 0.2,
            log_dirs=[self._uuid() for _ in range(self._draw.randrange(3))],
        )

    def _broker(self) -> tuple[int, int] | None:
        return self._draw.choice([*self._brokers.items()]) if self._brokers else None

    def _change_broker(self) -> bytes | None:
        if (broker := self._broker()) is None:
            return None
        return framed(
            schemas.BROKER_REGISTRATION_CHANGE_RECORD,
            3,
            broker_id=broker[0],
            broker_epoch=broker[1],
            fenced=self._draw.choice([-1, 0, 1]),
            in_controlled_shutdown=self._draw.randrange(2),
            log_dirs=[self._uuid() for _ in range(self._draw.randrange(2))],
        )

    def _fence_broker(self) -> bytes | None:
        if (broker := self._broker()) is None:
            return None
        both = (schemas.FENCE_BROKER_RECORD, schemas.UNFENCE_BROKER_RECORD)
        return framed(self._draw.choice(both), 0, id=broker[0], epoch=broker[1])

    def _unregister_broker(self) -> bytes | None:
        if (broker := self._broker()) is None or self._draw.random() < 0.7:
            return None
        del self._brokers[broker[0]]
        unregister = schemas.UNREGISTER_BROKER_RECORD
        return framed(unregister, 0, broker_id=broker[0], broker_epoch=broker[1])

    def _register_controller(self) -> bytes:
        return framed(
            schemas.REGISTER_CONTROLLER_RECORD,
            0,
            controller_id=self._draw.randrange(1, 4),
            incarnation_id=self._uuid(),
            zk_migration_ready=False,
        )

    def _quota(self) -> bytes:
        entity = [{"entity_type": "user", "entity_name": self._draw.choice(_USERS)}]
        quota = schemas.CLIENT_QUOTA_RECORD
        return framed(
            quota,
            0,
            entity=entity,
            key=self._draw.choice(["producer_byte_rate", "consumer_byte_rate"]),
            value=float(self._draw.randrange(100)),
            remove=self._draw.random() < 0.2,
        )

    def _acl(self) -> bytes:
        self._acls.append(self._uuid())
        return framed(
            schemas.ACCESS_CONTROL_ENTRY_RECORD,
            0,
            id=self._acls[-1],
            resource_type=2,
            resource_name="t1",
            pattern_type=3,
            principal="User:alice",
            host="*",
            operation=self._draw.choice([3, 4]),
            permission_type=self._draw.choice([2, 3]),
        )

    def _remove_acl(self) -> bytes | None:
        if not self._acls:
            return None
        acl = self._acls.pop(self._draw.randrange(len(self._acls)))
        return framed(schemas.REMOVE_ACCESS_CONTROL_ENTRY_RECORD, 0, id=acl)

    def _scram(self) -> bytes:
        name, mechanism = self._draw.choice(["alice", "bob"]), self._draw.choice([1, 2])
        if self._draw.random() < 0.2:
            remove = schemas.REMOVE_USER_SCRAM_CREDENTIAL_RECORD
            return framed(remove, 0, name=name, mechanism=mechanism)
        return framed(
            schemas.USER_SCRAM_CREDENTIAL_RECORD,
            0,
            name=name,
            mechanism=mechanism,
            salt=b"salt",
            stored_key=b"stored",
            server_key=b"server",
            iterations=self._draw.randrange(4096, 9000),
        )

    def _producer_ids(self) -> bytes:
        following = 1000 * self._draw.randrange(1, 9)
        fields = {"broker_id": 1, "broker_epoch": 1, "next_producer_id": following}
        return framed(schemas.PRODUCER_IDS_RECORD, 0, **fields)

    def _feature(self) -> bytes:
        name = self._draw.choice(["group.version", "transaction.version"])
        level = self._draw.randrange(3)
        return framed(schemas.FEATURE_LEVEL_RECORD, 0, name=name, feature_level=level)

    def _clear_elr(self) -> bytes | None:
        if self._draw.random() < 0.7:
            return None
        return framed(schemas.CLEAR_ELR_RECORD, 0, topic_name=self._draw.choice(["", "t1"]))

    def _token(self) -> bytes:
        token = self._draw.choice(["one", "two"])
        return framed(
            schemas.DELEGATION_TOKEN_RECORD,
            0,
            owner="User:alice",
            requester="User:bob",
            renewers=["User:bob"],
            issue_timestamp=1,
            max_timestamp=3,
            expiration_timestamp=2,
            token_id=token,
        )
