"""Who appends, and so what is checked (Kafka's AppendOrigin)."""

from enum import Enum


class AppendOrigin(Enum):
    REPLICATION = "replication"
    """A leader's records, by a follower or by a replay: taken as they are."""
    COORDINATOR = "coordinator"
    """Offset commits and the markers of transactions: no sequences."""
    CLIENT = "client"
    """Everything is checked."""
    RAFT_LEADER = "raft leader"
    """Records with offsets already assigned."""
