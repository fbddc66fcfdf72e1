"""`quorum-state` of the metadata log: the leader that this node follows, its vote and the epoch.

    v0  {"clusterId":"","leaderId":1,"leaderEpoch":2,"votedId":-1,"appliedOffset":0,
         "currentVoters":[{"voterId":1}],"data_version":0}
    v1  {"leaderId":-1,"leaderEpoch":2,"votedId":1,"votedDirectoryId":"<uuid>","data_version":1}

One line of JSON without spaces and without a line end. Version 0 is written while kraft.version is
0 (voters in the configuration), version 1 with a dynamic quorum. -1 is "none" for leader and vote.

Mirrors org.apache.kafka.raft.FileQuorumStateStore and the generated QuorumStateDataJsonConverter:
fields of the other version are read if present, unknown ones are ignored. Only the object on the
first line is read; what follows is kept as `trailing`. Stricter than Kafka in one point:
data_version must be an integer, where Jackson reads `"x"` as 0, and 1.9 and 65537 as 1.
"""

import os
import uuid
from typing import Any, NamedTuple

from kafka_format import java_text, json_text
from kafka_format.errors import MEMORY, CorruptError, Location, TruncatedError, UnsupportedError
from kafka_format.file_bytes import read_file_bytes
from kafka_format.java_text import ZERO_UUID, excerpt
from kafka_format.primitives import Buffer

VERSIONS = (0, 1)
MAX_SIZE = 1024 * 1024
"""Room for tens of thousands of voters of at most 23 bytes; a quorum has three or five."""

NONE = -1


class QuorumState(NamedTuple):
    data_version: int
    leader_id: int = NONE
    leader_epoch: int = NONE
    voted_id: int = NONE
    voted_directory_id: uuid.UUID = ZERO_UUID
    """Version 1 only."""
    cluster_id: str = ""
    """Version 0 only; brokers leave it empty."""
    applied_offset: int = 0
    """Version 0 only; brokers leave it 0."""
    current_voters: tuple[int, ...] | None = ()
    """Version 0 only; the schema allows null."""
    trailing: bytes = b""
    """All that follows the object."""


def decode_quorum_state(buffer: Buffer, *, path: str = MEMORY) -> QuorumState:
    line = next(java_text.iter_lines(buffer, path=path), None)
    if line is None:
        raise TruncatedError(Location(path, 0), "an empty file", "a line of JSON")
    json_object, end = json_text.decode_object(line.text, path=path)
    fields = _Fields(json_object, path)
    version = fields.integer("data_version", bits=16)
    if version not in VERSIONS:
        location = Location(path, 0)
        raise UnsupportedError(location, f"data_version {version}", "0 or 1")
    zero = version == 0
    return QuorumState(
        data_version=version,
        leader_id=fields.integer("leaderId", bits=32),
        leader_epoch=fields.integer("leaderEpoch", bits=32),
        voted_id=fields.integer("votedId", bits=32),
        voted_directory_id=fields.uuid_of("votedDirectoryId", default=ZERO_UUID if zero else None),
        cluster_id=fields.text("clusterId", default=None if zero else ""),
        applied_offset=fields.integer("appliedOffset", bits=64, default=None if zero else 0),
        current_voters=_voters(fields, default=None if zero else ()),
        trailing=bytes(buffer[end:]),
    )


class _Fields:
    """Typed access to a JSON object; a field without a default is required."""

    def __init__(self, fields: dict[str, Any], path: str) -> None:
        self._fields = fields
        self._path = path

    def get(self, name: str) -> Any:
        if name not in self._fields:
            raise self.error("an object", f"a field {name}")
        return self._fields[name]

    def has(self, name: str) -> bool:
        return name in self._fields

    def integer(self, name: str, *, bits: int, default: int | None = None) -> int:
        if default is not None and not self.has(name):
            return default
        value = self.get(name)
        if not json_text.is_integer(value, bits=bits):
            raise self.error(f"{name} {excerpt(repr(value))}", f"an integer of {bits} bits")
        return int(value)

    def text(self, name: str, *, default: str | None = None) -> str:
        if default is not None and not self.has(name):
            return default
        value = self.get(name)
        if not isinstance(value, str):
            raise self.error(f"{name} {excerpt(repr(value))}", "a string")
        return value

    def uuid_of(self, name: str, *, default: uuid.UUID | None) -> uuid.UUID:
        if default is not None and not self.has(name):
            return default
        text = self.text(name)
        value = java_text.parse_uuid(text)
        if value is None:
            raise self.error(f"{name} {excerpt(text)}", "a UUID in base64")
        return value

    def error(self, found: str, expected: str) -> CorruptError:
        return CorruptError(Location(self._path, 0), found, expected)


def _voters(fields: _Fields, *, default: tuple[int, ...] | None) -> tuple[int, ...] | None:
    if default is not None and not fields.has("currentVoters"):
        return default
    voters = fields.get("currentVoters")
    if voters is None:
        return None
    if not isinstance(voters, list):
        raise fields.error(f"currentVoters {excerpt(repr(voters))}", "an array or null")
    return tuple(_voter_id(voter, fields) for voter in voters)


def _voter_id(voter: Any, fields: _Fields) -> int:
    voter_id: Any = voter.get("voterId") if isinstance(voter, dict) else None
    if not json_text.is_integer(voter_id, bits=32):
        raise fields.error(f"voter {excerpt(repr(voter))}", "an object with an integer voterId")
    return int(voter_id)


def encode_quorum_state(state: QuorumState) -> bytes:
    election = (
        f'"leaderId":{state.leader_id},"leaderEpoch":{state.leader_epoch},'
        f'"votedId":{state.voted_id}'
    )
    if state.data_version == 0:
        if state.voted_directory_id != ZERO_UUID:
            raise ValueError("data_version 0 has no place for a voted directory id")
        text = (
            f'{{"clusterId":{json_text.quoted(state.cluster_id)},{election},'
            f'"appliedOffset":{state.applied_offset},'
            f'"currentVoters":{_voters_text(state.current_voters)},"data_version":0}}'
        )
    elif state.data_version == 1:
        if (state.cluster_id, state.applied_offset, state.current_voters) != ("", 0, ()):
            raise ValueError("data_version 1 has no place for cluster, applied offset and voters")
        directory = java_text.uuid_text(state.voted_directory_id)
        text = f'{{{election},"votedDirectoryId":"{directory}","data_version":1}}'
    else:
        raise ValueError(f"data_version {state.data_version} is not one of {VERSIONS}")
    return text.encode("utf-8", "replace") + state.trailing  # a lone surrogate is "?", as in Java


def _voters_text(voters: tuple[int, ...] | None) -> str:
    if voters is None:
        return "null"
    return "[" + ",".join(f'{{"voterId":{voter}}}' for voter in voters) + "]"


def read_quorum_state(path: str | os.PathLike[str]) -> QuorumState:
    """Read `quorum-state` of the metadata log. Raises FormatError."""
    return decode_quorum_state(read_file_bytes(path, limit=MAX_SIZE), path=os.fspath(path))
