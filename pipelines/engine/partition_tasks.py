"""One task per partition: what the jobs over partitions need to know before they open it.

A task is a plain value, so that it can be sent to another process. It has the settings of the
partition and the checkpoints of its log dir, read once.
"""

from __future__ import annotations

import contextlib
import errno
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from kafka_format.access import ensure_unchanged
from kafka_log.checkpoints import Checkpointed
from kafka_log.disk.files import DiskFiles
from kafka_log.disk.output import (
    OutputError,
    check_checkpoints,
    check_in_place,
    check_log_dir_in_place,
    copy_log_dir_files,
    exclusive,
    whole_directory,
    whole_partition,
    write_checkpoints,
)
from kafka_log.inventory.file_limits import largest_size
from kafka_log.names import CLUSTER_METADATA_TOPIC, DirectoryKind, FileKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kafka_log.checkpoints import CheckpointChanges
    from kafka_log.config.log_config import LogConfig
    from kafka_log.config.settings import Settings
    from kafka_log.inventory.inventory import Inventory, LogDir, Partition

END = -1
"""As a high watermark: the end of the log, wherever that is."""
FULL_OUTPUT = "where the copy is written"
"""The end of a message about a full disk: the output's disk, not that of the evidence."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def is_full_disk(error: Exception) -> bool:
    return isinstance(error, OSError) and error.errno in _FULL


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTask:
    """A partition directory and what is known about it."""

    path: str
    log_dir: str
    topic: str
    partition: int
    kind: DirectoryKind
    config: LogConfig
    now_ms: int
    is_clean: bool
    """Whether the broker stopped cleanly."""
    is_marked: bool = False
    """Whether the log dir has the marker of a clean shutdown."""
    recovery_point: int | None = None
    log_start_offset: int | None = None
    high_watermark: int | None = None
    """From the checkpoint; None if it has no row for the partition."""
    cleaner_checkpoint: int | None = None
    """The first dirty offset."""
    size_in_bytes: int = 0
    target: str | None = None
    """The directory to create for the result."""
    scratch: str | None = None
    """Where the result is made before it gets its name; on the target's file system."""
    in_place: bool = False

    @property
    def name(self) -> str:
        return Path(self.path).absolute().name

    @contextlib.contextmanager
    def result(self) -> Iterator[Path]:
        """Yield the directory to write the result in, and give it its name at the end."""
        if self.target is None:
            raise ValueError(f"{self.path}: no target was given")
        scratch = self.scratch or Path(self.target).parent
        try:
            with whole_partition(self.target, scratch) as directory:
                yield directory
        except OSError as error:
            if not is_full_disk(error):
                raise
            # The message follows the partition's path, whose disk is not the full one.
            raise OSError(error.errno, f"{error.strerror} {FULL_OUTPUT}") from error

    def unmark_clean(self) -> None:
        """Remove the marker of a clean shutdown before the first change in place, as a broker does.

        If the process is killed, the next start then checks what was being written. The marker is
        restored at the end (`Destination.finish`).
        """
        if self.is_marked:
            Path(self.log_dir, FileKind.CLEAN_SHUTDOWN.value).unlink(missing_ok=True)

    @property
    def checkpointed(self) -> Checkpointed:
        """The offsets of the checkpoints; a high watermark of END is not from one."""
        high_watermark = None if self.high_watermark == END else self.high_watermark
        return Checkpointed(
            self.topic, self.partition, self.recovery_point, self.log_start_offset, high_watermark
        )

    @property
    def is_metadata_log(self) -> bool:
        return self.topic == CLUSTER_METADATA_TOPIC


def partition_tasks(
    inventory: Inventory,
    settings: Settings,
    *,
    now_ms: int,
    includes: Callable[[str, int | None], bool] = lambda *_: True,
) -> list[PartitionTask]:
    """Return the tasks. Raises SettingsError for settings that Kafka would refuse."""
    return [
        _task(log_dir, partition, settings.for_topic(partition.topic), now_ms)
        for log_dir, partition in inventory.partitions()
        if partition.partition is not None and includes(partition.topic, partition.partition)
    ]


def _task(log_dir: LogDir, partition: Partition, config: LogConfig, now_ms: int) -> PartitionTask:
    return PartitionTask(
        path=partition.path,
        log_dir=log_dir.path,
        topic=partition.topic,
        partition=partition.partition or 0,
        kind=partition.state,
        config=config,
        now_ms=now_ms,
        is_clean=bool(log_dir.is_clean),
        is_marked=bool(log_dir.is_clean),
        recovery_point=partition.recovery_point,
        log_start_offset=partition.checkpointed.get(FileKind.LOG_START_OFFSET_CHECKPOINT),
        high_watermark=partition.high_watermark,
        cleaner_checkpoint=partition.checkpointed.get(FileKind.CLEANER_OFFSET_CHECKPOINT),
        size_in_bytes=partition.readable_bytes,
    )


# ------------------------------------------------------------------------------- what is written


@dataclass(frozen=True, slots=True, kw_only=True)
class Destination:
    """Where results go: nowhere, into a copy of each log dir, or over the log dirs themselves."""

    copies: Mapping[str, Path] | None = None
    """By the path of a log dir."""
    scratch: Path | None = None
    """For unfinished results; outside the copies, so that these never hold one."""
    in_place: bool = False
    markers: Mapping[str, bytes] = field(default_factory=dict)
    """By the path of a log dir: the content of the marker of a clean shutdown, if it has one."""

    def place(self, task: PartitionTask) -> PartitionTask:
        if self.copies is not None:
            target = str(self.copies[task.log_dir] / task.name)
            scratch = None if self.scratch is None else str(self.scratch)
            return replace(task, target=target, scratch=scratch)
        return replace(task, in_place=self.in_place)

    def finish(
        self,
        log_dirs: Iterable[LogDir],
        changes: Mapping[str, CheckpointChanges],
        included: Mapping[str, set[tuple[str, int]]],
        *,
        keeps_marker: bool = True,
    ) -> None:
        """Write the checkpoints and the other files of a log dir, once all partitions are done."""
        for log_dir in log_dirs:
            files = DiskFiles(log_dir.path)
            changed = changes.get(log_dir.path, {})
            if self.copies is not None:
                here = included.get(log_dir.path, set())
                target = DiskFiles(self.copies[log_dir.path])
                is_clean = keeps_marker and bool(log_dir.is_clean)
                copy_log_dir_files(files, target, is_cleanly_stopped=is_clean)
                write_checkpoints(files, target, changed, is_included=here.__contains__)
            elif self.in_place:
                write_checkpoints(files, files, changed)
                marker = self.markers.get(log_dir.path)
                name = FileKind.CLEAN_SHUTDOWN.value
                if keeps_marker and marker is not None and not files.exists(name):
                    files.replace(name, marker)


@contextlib.contextmanager
def destination(
    log_dirs: Sequence[LogDir],
    paths: Iterable[str],
    *,
    output: str | None,
    in_place: bool,
    partitions: Iterable[str] = (),
) -> Iterator[Destination]:
    """Yield where results go. Raises OutputError if the output, or a log dir, cannot be used.

    An output is written whole or not at all; log dirs in place are locked meanwhile.
    `partitions` are the directories to be written in place: all are checked before one changes.
    """
    if in_place:
        for each in log_dirs:
            check_log_dir_in_place(each.path)
        for path in partitions:
            check_in_place(path)
    if output is not None or in_place:
        for each in log_dirs:
            check_checkpoints(DiskFiles(each.path))
    if output is not None:
        brokers = [each.path for each in log_dirs if each.is_clean is not None]
        with whole_directory(output, [*paths, *brokers]) as attempt:
            yield Destination(copies=_copies(log_dirs, attempt), scratch=attempt.parent)
            ensure_unchanged()  # else the copy would mix files of two moments
    elif in_place:
        with contextlib.ExitStack() as stack:
            for each in log_dirs:
                stack.enter_context(exclusive(each.path))
            yield Destination(in_place=True, markers=dict(_markers(log_dirs)))
    else:
        yield Destination()


def _markers(log_dirs: Sequence[LogDir]) -> Iterator[tuple[str, bytes]]:
    kind = FileKind.CLEAN_SHUTDOWN
    for log_dir in log_dirs:
        files = DiskFiles(log_dir.path)
        if files.exists(kind.value):
            yield log_dir.path, files.read(kind.value, limit=largest_size(kind))


def _copies(log_dirs: Sequence[LogDir], attempt: Path) -> dict[str, Path]:
    """Return the output itself for one log dir; for several, a directory for each in it."""
    if len(log_dirs) == 1:
        return {log_dirs[0].path: attempt}
    copies = {each.path: attempt / Path(each.path).absolute().name for each in log_dirs}
    if len(set(copies.values())) < len(copies):
        names = ", ".join(copies)
        raise OutputError(f"{names}: found log dirs with the same name, expected different names")
    for copy in copies.values():
        copy.mkdir()
    return copies
