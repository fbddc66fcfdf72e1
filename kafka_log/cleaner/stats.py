"""What a round of cleaning read and wrote (CleanerStats), and what it removed (Removed)."""

from __future__ import annotations

from dataclasses import asdict, dataclass


@dataclass(slots=True, kw_only=True)
class CleanerStats:
    """Counted as Kafka counts: a batch dropped whole has its bytes read, its records not."""

    start_time: int = -1
    map_complete_time: int = -1
    end_time: int = -1
    map_bytes_read: int = 0
    map_messages_read: int = 0
    bytes_read: int = 0
    messages_read: int = 0
    invalid_messages_read: int = 0
    bytes_written: int = 0
    messages_written: int = 0
    buffer_utilization: float = 0.0

    @property
    def elapsed_secs(self) -> float:
        return (self.end_time - self.start_time) / 1000

    @property
    def elapsed_index_secs(self) -> float:
        return (self.map_complete_time - self.start_time) / 1000


@dataclass(slots=True, kw_only=True)
class Removed:
    """How many records a round removed, by cause (the counters of reasons.py).

    Kafka does not count the records of a batch that is dropped whole (aborted, or a marker) as
    read; they are `unread`. So read plus unread is kept plus removed.
    """

    superseded: int = 0
    """A later record has the key."""
    tombstone: int = 0
    """A null value whose delete horizon has come."""
    aborted: int = 0
    """Records of aborted transactions."""
    without_key: int = 0
    """Kafka calls them invalid: a compacted topic cannot have them."""
    marker: int = 0
    """Markers of transactions without records."""
    unread: int = 0
    """Those of the above that Kafka's statistics do not count as read."""

    @property
    def total(self) -> int:
        return self.superseded + self.tombstone + self.aborted + self.without_key + self.marker

    def __add__(self, other: Removed) -> Removed:
        theirs = asdict(other)
        return Removed(**{name: count + theirs[name] for name, count in asdict(self).items()})
