"""The settings of a cleaner: what a broker sets (`log.cleaner.*`), and how this one works."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from kafka_log.cleaner.columns.read_buffer import BLOCK_BYTES
from kafka_log.cleaner.offset_map import BYTES_PER_ENTRY, Keys
from kafka_log.cleaner.releases import KAFKA_4_3
from kafka_log.errors import LogError

if TYPE_CHECKING:
    from kafka_log.cleaner.releases import CleanerRules
    from kafka_log.config.settings import Settings

MEBIBYTE = 1024 * 1024


class TooSmallMapError(LogError):
    """A dedupe buffer without room for two keys."""

    is_damage = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """What a broker sets for all its cleaner threads, and how this cleaner works."""

    dedupe_buffer_size: int = 128 * MEBIBYTE
    io_buffer_size: int = 512 * 1024
    load_factor: float = 0.9
    message_max_bytes: int = MEBIBYTE + 12
    threads: int = 1
    keys: Keys = Keys.HASHED
    rules: CleanerRules = KAFKA_4_3
    """The rules of the broker's release."""
    columnar: bool | None = None
    """Whether to use compiled kernels on columns; None: if numba is there and keys are hashed."""
    cores: int = 1
    """How many cores work on one log at once; only with columns."""
    block_bytes: int = BLOCK_BYTES
    """How many bytes each core reads at once."""
    verifies: bool = False
    """Whether a wrong checksum in a filtered batch ends the round; Kafka does not check."""
    secret: bytes | None = None
    """The secret of key hashes; None for a random one."""

    @classmethod
    def of(cls, settings: Settings) -> Self:
        broker: dict[str, Any] = dict(settings.broker)
        return cls(
            dedupe_buffer_size=broker["log.cleaner.dedupe.buffer.size"],
            io_buffer_size=broker["log.cleaner.io.buffer.size"],
            load_factor=broker["log.cleaner.io.buffer.load.factor"],
            message_max_bytes=broker["message.max.bytes"],
            threads=broker["log.cleaner.threads"],
        )

    @property
    def map_memory(self) -> int:
        """Bytes for the offset map of one thread."""
        return self.dedupe_buffer_size // self.threads

    @property
    def read_buffer_size(self) -> int:
        """Bytes of one thread's read buffer; its write buffer is as large."""
        return self.io_buffer_size // self.threads // 2

    def ensure_room(self) -> None:
        """Refuse settings that no round could work with, before anything is opened."""
        if self.threads < 1:
            raise TooSmallMapError(
                f"log.cleaner.threads={self.threads}: nobody would clean, expected 1 or more"
            )
        if not 0 < self.load_factor <= 1:  # above 1 Kafka's map fails once it has no slot left
            raise TooSmallMapError(
                f"log.cleaner.io.buffer.load.factor={self.load_factor:g}: expected more than 0, at"
                " most 1"
            )
        memory = self.map_memory
        if memory // BYTES_PER_ENTRY * self.load_factor <= 1:
            raise TooSmallMapError(
                f"{memory} bytes for the offset map: found no room for a key of {BYTES_PER_ENTRY}"
                f" bytes at a load factor of {self.load_factor:g}, expected more"
                f" ({self.dedupe_buffer_size} bytes by log.cleaner.dedupe.buffer.size, shared by"
                f" {self.threads} of log.cleaner.threads)"
            )
        if self.read_buffer_size < 1:
            raise TooSmallMapError(
                f"log.cleaner.io.buffer.size={self.io_buffer_size}: nothing could be read,"
                " expected 2 bytes or more for each thread"
            )
