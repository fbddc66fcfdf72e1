"""What a round of cleaning read and wrote (CleanerStats)."""

from dataclasses import dataclass


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
