"""Reads the segments of a round: chunk by chunk, or many chunks at once as blocks.

Before each chunk and block it asks `check_done`, which raises if the round is to end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_log.cleaner.columns.read_buffer import BlockReader, ReadBuffer

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka_log.cleaner.cleaner import CleanableSegment
    from kafka_log.cleaner.columns.blocks import Block
    from kafka_log.cleaner.columns.lanes import Lane
    from kafka_log.cleaner.columns.read_buffer import Chunk
    from kafka_log.cleaner.settings import CleanerSettings
    from kafka_log.config.log_config import LogConfig


class SegmentReader:
    def __init__(
        self, config: LogConfig, settings: CleanerSettings, check_done: Callable[[], object]
    ) -> None:
        self.check_done = check_done
        self._max_message_bytes = config.max_message_bytes
        self._buffer = ReadBuffer(settings.read_buffer_size, settings.message_max_bytes)

    @property
    def capacity(self) -> int:
        """The size of Kafka's read buffer now: it grows for a batch that does not fit."""
        return self._buffer.capacity

    def read_chunk(self, segment: CleanableSegment, position: int) -> Chunk:
        self.check_done()
        return self._buffer.read(segment.log, position, max_message_bytes=self._max_message_bytes)

    def blocks(self, segment: CleanableSegment, position: int) -> BlockReader:
        return BlockReader(
            segment.log, position, self._buffer, max_message_bytes=self._max_message_bytes
        )

    def read_block(self, blocks: BlockReader, lane: Lane, number: int) -> Block | None:
        """Return the next block; None after the last."""
        if blocks.are_over:
            return None
        self.check_done()
        return blocks.read(lane.buffer, number)

    def restore(self) -> None:
        """Shrink the buffer to its first size, as Kafka does after a segment."""
        self._buffer.restore()
