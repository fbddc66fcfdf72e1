"""The job `offsets`: one row per partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka_log.clock import FixedClock
from kafka_log.log.partition_offsets import read_offsets
from pipelines.source.tables.inventory import DIRECTORY_STATES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pipelines.engine.partition_tasks import PartitionTask

Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReadOffsets:
    """A function over tasks. Picklable."""

    replay: bool = False

    def __call__(self, task: PartitionTask) -> Iterator[Row]:
        """Yield the row of a partition. Raises LogError or OSError."""
        found = read_offsets(
            task.path,
            task.config,
            FixedClock(task.now_ms),
            log_start_offset=task.log_start_offset,
            recovery_point=task.recovery_point,
            high_watermark=task.high_watermark,
            replay=self.replay,
        )
        holder = found.held_by
        yield {
            "topic": task.topic,
            "partition": task.partition,
            "log_start_offset": found.log_start_offset,
            "recovery_point": found.recovery_point,
            "high_watermark": found.high_watermark,
            "last_stable_offset": found.last_stable_offset,
            "log_end_offset": found.log_end_offset,
            "held_by": None if holder is None else holder._asdict(),
            "state": DIRECTORY_STATES[task.kind],
            "path": task.path,
            **task.checkpointed.missing_data_fields(found.log_end_offset),
            "note": found.note,
            "damage": None if found.damage is None else str(found.damage),
        }
