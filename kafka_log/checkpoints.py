"""What the checkpoint files of a log dir say about a partition, and what a broker writes next.

    log start         a row only where no segment begins at the log start
    recovery point    everything below it is on disk
    high watermark    within the log
    cleaner offset    the first dirty offset

    changes = after_retention(checkpointed, ...)      rows by file; None removes a row

A high watermark or recovery point beyond the log end means that records are missing
(`Checkpointed.missing_data`). The files themselves are kafka_format.checkpoint_file's, and written
by disk/output.py.

Mirrors LogManager.checkpointRecoveryOffsetsInDir and checkpointLogStartOffsetsInDir,
ReplicaManager.checkpointHighWatermarks and LogCleanerManager.updateCheckpoints.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.checkpoint_file import read_offset_checkpoint
from kafka_format.errors import FormatError
from kafka_log.names import FileKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafka_log.inventory.inventory import LogDir

TopicPartition = tuple[str, int]
CheckpointChanges = dict[FileKind, dict[TopicPartition, "int | None"]]


CHECKPOINT_NAMES = {
    FileKind.REPLICATION_OFFSET_CHECKPOINT.value: "high watermark",
    FileKind.RECOVERY_POINT_CHECKPOINT.value: "recovery point",
}
"""What the checkpoints that promise data contain, by file name."""


class Promise(NamedTuple):
    """The offset up to which a checkpoint says that data exists."""

    offset: int
    kind: FileKind


@dataclass(frozen=True, slots=True, kw_only=True)
class LastRun:
    """What a log dir records about the broker's last run with a log. By default the log is new."""

    clean_shutdown: bool = True
    """Whether the log dir has `.kafka_cleanshutdown`."""
    log_start_offset: int = 0
    recovery_point: int = 0
    """The offsets are those of the checkpoint files, 0 without a row."""


NEW_LOG = LastRun()


class Checkpointed(NamedTuple):
    """The rows of one partition; None where a file has none."""

    topic: str
    partition: int
    recovery_point: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None

    @property
    def place(self) -> TopicPartition:
        return self.topic, self.partition

    def last_run(self, *, clean_shutdown: bool) -> LastRun:
        """Return what a load of the partition starts from."""
        return LastRun(
            clean_shutdown=clean_shutdown,
            log_start_offset=self.log_start_offset or 0,
            recovery_point=self.recovery_point or 0,
        )

    def missing_data(self, log_end_offset: int | None) -> Promise | None:
        """Return what the checkpoints promise beyond the log end; None if the end is unknown."""
        promises = (
            Promise(self.high_watermark or 0, FileKind.REPLICATION_OFFSET_CHECKPOINT),
            Promise(self.recovery_point or 0, FileKind.RECOVERY_POINT_CHECKPOINT),
        )
        largest = max(promises, key=lambda each: each.offset)  # the first, if they are equal
        is_missing = log_end_offset is not None and largest.offset > log_end_offset
        return largest if is_missing else None

    def missing_data_fields(self, log_end_offset: int | None) -> dict[str, int | str | None]:
        """Return `missing_data` as the fields of a row."""
        missing = self.missing_data(log_end_offset)
        return {
            "promised_offset": None if missing is None else missing.offset,
            "promised_by": None if missing is None else missing.kind.value,
        }


class LogBounds(NamedTuple):
    """Where a log begins and ends after it was rewritten."""

    first_base_offset: int
    log_start_offset: int
    log_end_offset: int

    @property
    def has_log_start_row(self) -> bool:
        """Whether the log start is checkpointed: only if it is above the first segment."""
        return self.log_start_offset > self.first_base_offset


def within_log(high_watermark: int, log_start_offset: int, log_end_offset: int) -> int:
    """Return the high watermark, clamped to the log as a broker does."""
    return max(log_start_offset, min(log_end_offset, high_watermark))


def after_retention(
    before: Checkpointed, log: LogBounds, *, roll_offset: int | None
) -> CheckpointChanges:
    """Return the rows after retention: neither offset stays below the log start.

    A roll has flushed everything before it.
    """
    start = log.log_start_offset
    changes = _log_start(before, log)
    if before.recovery_point is not None:
        recovery_point = max(before.recovery_point, start, roll_offset or 0)
        changes[FileKind.RECOVERY_POINT_CHECKPOINT] = {before.place: recovery_point}
    if before.high_watermark is not None:
        high_watermark = max(before.high_watermark, start)
        changes[FileKind.REPLICATION_OFFSET_CHECKPOINT] = {before.place: high_watermark}
    return changes


def after_clean_stop(
    before: Checkpointed, log: LogBounds, *, writes_recovery_point: bool = True
) -> CheckpointChanges:
    """Return the rows that a broker writes when it stops: everything is flushed.

    A high watermark beyond the end of what was recovered counts as that end.
    """
    changes = _log_start(before, log)
    if writes_recovery_point:
        changes[FileKind.RECOVERY_POINT_CHECKPOINT] = {before.place: log.log_end_offset}
    if before.high_watermark is not None:
        high_watermark = within_log(before.high_watermark, log.log_start_offset, log.log_end_offset)
        changes[FileKind.REPLICATION_OFFSET_CHECKPOINT] = {before.place: high_watermark}
    return changes


def after_cleaning(
    before: Checkpointed,
    log: LogBounds,
    *,
    cleaner_offset: int | None,
    dropped: Iterable[TopicPartition] = (),
    writes_recovery_point: bool = True,
) -> CheckpointChanges:
    """Return the rows after a cleaning and a clean stop.

    `dropped` rows are removed from the cleaner's checkpoint. Without a cleaner offset that file is
    not written.
    """
    changes = after_clean_stop(before, log, writes_recovery_point=writes_recovery_point)
    if cleaner_offset is not None:
        rows: dict[TopicPartition, int | None] = {before.place: cleaner_offset}
        rows.update(dict.fromkeys(dropped))
        changes[FileKind.CLEANER_OFFSET_CHECKPOINT] = rows
    return changes


def _log_start(before: Checkpointed, log: LogBounds) -> CheckpointChanges:
    offset = log.log_start_offset if log.has_log_start_row else None
    return {FileKind.LOG_START_OFFSET_CHECKPOINT: {before.place: offset}}


def cleaner_rows_without_log(log_dirs: Iterable[LogDir]) -> dict[str, list[TopicPartition]]:
    """List the rows of cleaner-offset-checkpoint without a directory, by log dir.

    LogCleanerManager drops them whenever it writes the file.
    """
    return {
        log_dir.path: [
            (topic, partition)
            for kind, topic, partition, _ in log_dir.rows_without_directory()
            if kind is FileKind.CLEANER_OFFSET_CHECKPOINT
            and not Path(log_dir.path, f"{topic}-{partition}").is_dir()  # it may not be selected
        ]
        for log_dir in log_dirs
    }


def missing_partitions(log_dirs: Sequence[LogDir]) -> Iterator[tuple[str, Checkpointed]]:
    """Yield the partitions with missing data that have no directory, each with its log dir's path.

    `log_dirs` are all of one broker: a partition may have moved to another, or be about to be
    deleted.
    """
    here = {(each.topic, each.partition) for log_dir in log_dirs for each in log_dir.partitions}
    for log_dir in log_dirs:
        rows: dict[TopicPartition, dict[FileKind, int]] = {}
        for kind, topic, partition, offset in log_dir.rows_without_directory():
            rows.setdefault((topic, partition), {})[kind] = offset
        for place, offsets in sorted(rows.items()):
            checkpointed = Checkpointed(
                *place,
                recovery_point=offsets.get(FileKind.RECOVERY_POINT_CHECKPOINT),
                high_watermark=offsets.get(FileKind.REPLICATION_OFFSET_CHECKPOINT),
            )
            if place not in here and checkpointed.missing_data(0) is not None:
                yield log_dir.path, checkpointed


def malformed_checkpoints(log_dirs: Iterable[LogDir]) -> Iterator[tuple[str, FormatError]]:
    """Yield what is wrong with each malformed checkpoint, with the path of its log dir.

    Such a file is read as one without rows. A broker takes the log dir offline.
    """
    from kafka_log.inventory.inventory import CheckpointState

    for log_dir in log_dirs:
        for kind, checkpoint in log_dir.checkpoints.items():
            if checkpoint.state is CheckpointState.MALFORMED:
                try:
                    read_offset_checkpoint(os.path.join(log_dir.path, kind.value))  # noqa: PTH118
                except FormatError as error:
                    yield log_dir.path, error
