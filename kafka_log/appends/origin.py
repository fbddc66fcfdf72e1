"""Who appends, and therefore what is checked (Kafka's AppendOrigin)."""

from enum import Enum
from typing import NamedTuple


class AppendOrigin(Enum):
    """The sender of an append."""

    REPLICATION = "replication"
    """The leader's records, from a follower's fetch or a replay. They are not validated."""
    COORDINATOR = "coordinator"
    """Offset commits and transaction markers. They have no sequences."""
    CLIENT = "client"
    """A producer's records. Everything is checked."""
    RAFT_LEADER = "raft leader"
    """Records of the metadata log. Their offsets are already assigned."""


class AppendOptions(NamedTuple):
    """Who appends, and what that means for the batches and records."""

    origin: AppendOrigin
    leader_epoch: int
    assigns_offsets: bool = True
    """Whether records are validated and get offsets; otherwise their offsets must increase."""
    ignores_record_size: bool = False
    """Whether batches may be larger than max.message.bytes."""
    magic: int = 2
    """The magic that the log is kept in. Below 2 makes old logs, for tests, as in Kafka."""
