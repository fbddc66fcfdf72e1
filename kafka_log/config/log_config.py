"""The settings of a log (LogConfig), with Kafka's names and defaults."""

from dataclasses import dataclass
from random import Random
from typing import Self

LONG_MAX = 2**63 - 1
MINUTE_MS = 60 * 1000
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
MEBIBYTE = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """`segment.bytes` is `segment_bytes`, and so on; also producer and transaction limits."""

    cleanup_policy: frozenset[str] = frozenset({"delete"})
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    delete_retention_ms: int = DAY_MS
    file_delete_delay_ms: int = MINUTE_MS
    flush_messages: int = LONG_MAX
    flush_ms: int = LONG_MAX
    index_interval_bytes: int = 4096
    max_compaction_lag_ms: int = LONG_MAX
    max_message_bytes: int = MEBIBYTE + 12
    message_timestamp_after_max_ms: int = HOUR_MS
    message_timestamp_before_max_ms: int = LONG_MAX
    message_timestamp_type: str = "CreateTime"
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    preallocate: bool = False
    remote_storage_enable: bool = False
    retention_bytes: int = -1
    retention_ms: int = 7 * DAY_MS
    segment_bytes: int = 1024 * MEBIBYTE
    segment_index_bytes: int = 10 * MEBIBYTE
    segment_jitter_ms: int = 0
    segment_ms: int = 7 * DAY_MS
    # Settings of the broker, not of a topic.
    max_transaction_timeout_ms: int = 15 * MINUTE_MS
    producer_id_expiration_ms: int = DAY_MS
    transaction_partition_verification_enable: bool = True

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def init_file_size(self) -> int:
        """The size of a new segment's file."""
        return self.segment_bytes if self.preallocate else 0

    @property
    def max_segment_ms(self) -> int:
        """How old an active segment may become. Compaction needs it to be rolled in time."""
        if self.compact and self.max_compaction_lag_ms > 0:
            return min(self.max_compaction_lag_ms, self.segment_ms)
        return self.segment_ms

    def random_segment_jitter(self, rng: Random) -> int:
        """Return how much earlier than `segment.ms` to roll, so that not all roll at once."""
        if self.segment_jitter_ms == 0:
            return 0
        return rng.randrange(min(self.segment_jitter_ms, self.segment_ms))

    @classmethod
    def defaults(cls) -> Self:
        return cls()
