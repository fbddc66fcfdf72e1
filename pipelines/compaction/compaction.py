"""Compaction of partitions as tasks: rows for findings, one row per round, one per partition.

A partition is loaded as a broker loads it at a start, on a view of its files, so that the copy also
has what a restart repairs. Large new files of a copy are written once, where the copy will be; a
dry run of one round keeps none of them.
"""

from __future__ import annotations

import contextlib
import tempfile
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafka_format.errors import FormatError
from kafka_log.checkpoints import LogBounds, after_cleaning
from kafka_log.cleaner.cleaner_thread import compact_log, new_cleaner, outlook
from kafka_log.cleaner.damage import DamagedRange, find_damage, leave_out_damage
from kafka_log.cleaner.offset_map import Keys
from kafka_log.cleaner.passes import Schedule
from kafka_log.cleaner.settings import CleanerSettings
from kafka_log.clock import FixedClock
from kafka_log.disk.output import check_in_place
from kafka_log.disk.scratch_files import ScratchFiles
from kafka_log.disk.watched_files import WatchedDiskFiles
from kafka_log.errors import LogError
from kafka_log.loading.journal import Journal
from kafka_log.loading.left_overs import settle_left_overs
from kafka_log.loading.opened_log import opened_log as opened_log_of
from kafka_log.loading.rebuilt_files import write_rebuilt
from kafka_log.names import (
    DirectoryKind,
    FileState,
    parse_file_name,
)
from pipelines.engine.partition_tasks import is_full_disk
from pipelines.engine.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafka_log.checkpoints import CheckpointChanges
    from kafka_log.cleaner.cleaner_thread import (
        CleanerFactory,
        Compaction,
        Deletion,
        Outlook,
        RoundReport,
    )
    from kafka_log.cleaner.passes import PassCount
    from kafka_log.disk.files import Files
    from kafka_log.disk.watched_files import ReadWatch
    from kafka_log.loading.opened_log import OpenedLog
    from kafka_log.log.unified_log import PartitionLog
    from pipelines.compaction.parallel_compaction import Parallel
    from pipelines.engine.partition_tasks import PartitionTask

Row = dict[str, Any]

_NOTES = {
    DirectoryKind.DELETE: "the replica was deleted: a broker removes the whole directory",
    DirectoryKind.STRAY: "not a replica of this broker: a broker does not touch it",
    DirectoryKind.FUTURE: "a replica that is moving to this log dir: cleaned after the move",
}
_METADATA = "the metadata log is trimmed by snapshots, not by compaction"
_NO_WATERMARK = "no high watermark is known: the log end is used"


class RefusedCompactionError(LogError):
    """A log cannot be compacted in the requested way."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactPartition:
    """A function over tasks, with the options that all share. Picklable."""

    settings: CleanerSettings = CleanerSettings()  # noqa: RUF009  # a frozen value
    passes: PassCount = 1
    """How many rounds at most, or until when."""
    first_dirty_offset: int | None = None
    """Replaces that of the checkpoint, for every round."""
    only_when_due: bool = False
    skip_damaged: bool = False
    cores: int = 1
    """Cores that work on one partition; with `parallel`, each task has one."""
    parallel: Parallel | None = None
    """Partitions that are large enough are copied by many tasks."""

    def is_large(self, task: PartitionTask) -> bool:
        """Return whether the main process must run it, because many tasks will clean it."""
        if self.parallel is None or self.settings.keys is not Keys.HASHED:
            return False
        is_copied = task.target is not None and why_not_compacted(task) is None
        return is_copied and task.size_in_bytes > self.parallel.above

    def __call__(self, task: PartitionTask) -> Iterator[Row]:
        """Plan, and write what the task asks for. Raises LogError, FormatError or OSError."""
        note = why_not_compacted(task)
        if note is not None:
            if task.target is not None and task.kind is not DirectoryKind.DELETE:
                with task.result() as directory:
                    ScratchFiles(task.path).write_to(directory)
            yield _identity(task, "partition") | {"is_compacted": False, "note": note}
        elif task.in_place:
            yield from self._in_place(task)
        elif task.target is not None:
            with task.result() as directory, scratch_beside(directory) as scratch:
                files = ScratchFiles(task.path, FixedClock(task.now_ms), scratch=scratch)
                rows = self._rows(task, files, work=scratch)
                files.write_to(directory)
            yield from rows
        else:
            with self.dry_run(task) as files:
                rows = self._rows(task, files)
            yield from rows

    @contextlib.contextmanager
    def dry_run(self, task: PartitionTask) -> Iterator[ScratchFiles]:
        """Yield files to work on; nothing of what is written there is kept."""
        clock = FixedClock(task.now_ms)
        is_read_again = self.passes != 1 or _may_be_retained(task)
        if not is_read_again and not self.skip_damaged:
            yield ScratchFiles(task.path, clock)
            return
        with tempfile.TemporaryDirectory(prefix="kafka-forensics-") as scratch:
            try:
                yield ScratchFiles(task.path, clock, scratch=scratch, keeps_cleaned=is_read_again)
            except OSError as error:
                if not is_full_disk(error):
                    raise
                # The message follows the partition's path, whose disk is not the full one.
                where = f"{error.strerror} in {tempfile.gettempdir()}, needed between rounds"
                raise OSError(error.errno, where) from error

    def _in_place(self, task: PartitionTask) -> Iterator[Row]:
        """Compact through `.cleaned`, `.swap` and `.deleted`, after checking what could fail."""
        if self.skip_damaged:
            raise RefusedCompactionError(
                "--skip-damaged would drop bytes permanently: use it with --output, not --in-place"
            )
        check_in_place(task.path)
        self._ensure_sound_on_disk(task, is_deep=True)
        self._rehearse(task)
        files = WatchedDiskFiles(task.path)
        task.unmark_clean()
        self._write_rebuilt(task, files)
        try:
            rows = self._rows(task, files, was_checked=True)
        except BaseException:
            for name in files.names():
                if parse_file_name(name).state is FileState.CLEANED:
                    files.delete_if_exists(name)  # as the next start would
            raise
        files.sync_directory()
        yield from rows

    def _rehearse(self, task: PartitionTask) -> None:
        """Run a round on a view first: if it fails, nothing was changed."""
        view = ScratchFiles(task.path, FixedClock(task.now_ms))
        with opened_log(task, view) as loading:
            replace(self, passes=1).compact(task, loading.log, counts_deleted=False)

    def _write_rebuilt(self, task: PartitionTask, files: WatchedDiskFiles) -> None:
        """Write what a load rebuilds before the load, so that a kill loses no leader epoch."""
        view = ScratchFiles(task.path, FixedClock(task.now_ms))
        with opened_log(task, view) as loading, view.keeping():
            loading.close()
            write_rebuilt(view, loading.loaded.journal, files)

    def _rows(
        self,
        task: PartitionTask,
        files: ScratchFiles | WatchedDiskFiles,
        *,
        was_checked: bool = False,
        work: Path | None = None,
    ) -> list[Row]:
        found = self._left_out(task, files)
        with opened_log(task, files) as loading:
            log = loading.log
            progress = self._progress(task, log, files.watch, is_checked=False)
            before = log.size, log.segments.number_of_segments()
            if was_checked or self.skip_damaged or self.is_large(task):
                compaction = self._compact(task, log, work, files.watch, progress)
            else:  # a large one is checked by its tasks
                compaction = self._compact_if_sound(task, log)
            loading.close()
            row = _partition_row(task, loading, compaction, before)
        row |= {"findings": len(found), "kafka_version": self.settings.rules.release}
        rounds = [_round_row(task, number, each) for number, each in enumerate(compaction.rounds)]
        return [*found, *rounds, row]

    @contextlib.contextmanager
    def sound_log(self, task: PartitionTask) -> Iterator[tuple[PartitionLog, list[Row]]]:
        """Yield a log on a view, checked as far as a round reads, and rows for skipped damage."""
        with self.dry_run(task) as files:
            found = self._left_out(task, files)
            with opened_log(task, files) as loading:
                is_checked = not self.skip_damaged
                self._progress(task, loading.log, files.watch, is_checked=is_checked)
                if is_checked:
                    self._ensure_sound(loading.log, task)
                yield loading.log, found

    def _left_out(self, task: PartitionTask, files: Files) -> list[Row]:
        if not self.skip_damaged:
            return []
        # A start finishes swaps before it opens a log: files that they replace are not checked.
        settle_left_overs(files, task.config, FixedClock(task.now_ms), Journal())
        # After a clean shutdown no start checks the end of a log.
        damages = leave_out_damage(files, keeps_tail=not task.is_clean)
        return [_finding_row(task, each) for each in damages]

    def _progress(
        self, task: PartitionTask, log: PartitionLog, watch: ReadWatch, *, is_checked: bool
    ) -> Progress:
        """Count reads: dirty bytes for the map, all to rewrite them, all to check for damage."""
        expected = self.outlook(task, log)
        total = 2 * expected.cleanable_bytes + expected.clean_bytes
        total += expected.cleanable_bytes + expected.clean_bytes if is_checked else 0
        progress = Progress()
        progress.begin(total)
        watch.on_read = progress.add
        return progress

    def _compact(
        self,
        task: PartitionTask,
        log: PartitionLog,
        work: Path | None,
        watch: ReadWatch,
        progress: Progress,
    ) -> Compaction:
        if self.parallel is None or work is None or not self.is_large(task):
            return self.compact(task, log)

        def check_first() -> None:
            self._progress(task, log, watch, is_checked=True)
            self._ensure_sound(log, task)

        watch.on_read = None  # other processes read
        progress.begin(self._parallel_bytes(task, log))
        with self.parallel.runner(progress.add) as runner:
            make_cleaner = self.parallel.cleaner(self.settings, runner, work, check_first)
            return self.compact(task, log, make_cleaner=make_cleaner)

    def _parallel_bytes(self, task: PartitionTask, log: PartitionLog) -> int:
        """Return the bytes to process: scanned, rewritten, and walked if any are aborted."""
        expected = self.outlook(task, log)
        dirty = expected.first_dirty_offset, expected.first_uncleanable_offset
        is_walked = bool(log.collect_aborted_transactions(*dirty))
        return (2 + is_walked) * expected.cleanable_bytes + 2 * expected.clean_bytes

    def compact(
        self,
        task: PartitionTask,
        log: PartitionLog,
        make_cleaner: CleanerFactory | None = None,
        *,
        counts_deleted: bool = True,
    ) -> Compaction:
        return compact_log(
            log,
            task.cleaner_checkpoint,
            make_cleaner or self._make_cleaner(),
            FixedClock(task.now_ms),
            self.schedule,
            after_round=log.scheduler.run_all,
            counts_deleted=counts_deleted,
        )

    @property
    def schedule(self) -> Schedule:
        return Schedule(
            passes=self.passes,
            first_dirty_offset=self.first_dirty_offset,
            only_when_due=self.only_when_due,
        )

    def _make_cleaner(self, *, verifies: bool = False) -> CleanerFactory:
        return partial(new_cleaner, replace(self.settings, cores=self.cores, verifies=verifies))

    def outlook(self, task: PartitionTask, log: PartitionLog) -> Outlook:
        """Return the outlook of the first round."""
        return outlook(log, self.checkpoint_of(task), task.now_ms)

    def checkpoint_of(self, task: PartitionTask) -> int | None:
        first = self.first_dirty_offset
        return task.cleaner_checkpoint if first is None else first

    def _compact_if_sound(self, task: PartitionTask, log: PartitionLog) -> Compaction:
        """Verify checksums during the compaction; its files are discarded if one is wrong.

        So a log is read twice, not three times. The damage that is reported is the first there is;
        what the round did not reach is checked as well.
        """
        try:
            report = self.compact(task, log, make_cleaner=self._make_cleaner(verifies=True))
        except (FormatError, LogError):
            self._ensure_sound_on_disk(task)
            raise
        if report.split_segments or any(each.is_map_full for each in report.rounds):
            self._ensure_sound_on_disk(task)
        return report

    def _ensure_sound_on_disk(self, task: PartitionTask, *, is_deep: bool = False) -> None:
        """Check the log on a new view, whatever was done to another."""
        view = ScratchFiles(task.path, FixedClock(task.now_ms))
        with opened_log(task, view) as loading:
            self._ensure_sound(loading.log, task, is_deep=is_deep)

    def _ensure_sound(
        self, log: PartitionLog, task: PartitionTask, *, is_deep: bool = False
    ) -> None:
        expected = self.outlook(task, log)
        if not expected.cleanable_bytes or (self.only_when_due and not expected.is_due):
            return
        damage = find_damage(
            log, expected.first_uncleanable_offset, is_deep=is_deep, cores=self.cores
        )
        if damage is not None:
            raise damage


def why_not_compacted(task: PartitionTask) -> str | None:
    """Return why a broker's cleaner would not clean a directory; None if it would."""
    if task.is_metadata_log:
        return _METADATA
    if task.kind in _NOTES:
        return _NOTES[task.kind]
    if not task.config.compact:
        policy = ",".join(sorted(task.config.cleanup_policy)) or "empty"
        return f"cleanup.policy is {policy}: not compacted (--set cleanup.policy=compact)"
    return None


def _may_be_retained(task: PartitionTask) -> bool:
    """Return whether retention may delete what a round has written: it counts its records then."""
    return task.config.delete or bool(task.log_start_offset)


@contextlib.contextmanager
def scratch_beside(directory: Path) -> Iterator[Path]:
    """Yield a directory on the file system of `directory`, and remove it afterwards."""
    with tempfile.TemporaryDirectory(prefix="scratch-", dir=directory.parent) as scratch:
        yield Path(scratch)


# ------------------------------------------------------------------------------------ loading


def opened_log(task: PartitionTask, files: Files) -> contextlib.AbstractContextManager[OpenedLog]:
    """Open the log of a task. Raises LogError where a restart would cut data off."""
    return opened_log_of(
        files,
        task.config,
        task.checkpointed,
        clean_shutdown=task.is_clean,
        clock=FixedClock(task.now_ms),
    )


# --------------------------------------------------------------------------------------- rows


def _identity(task: PartitionTask, kind: str) -> Row:
    return {"kind": kind, "topic": task.topic, "partition": task.partition, "path": task.path}


def _finding_row(task: PartitionTask, damage: DamagedRange) -> Row:
    return _identity(task, "finding") | {
        "id": damage.rule,
        "file": damage.error.location.path,
        "position": damage.position,
        "size_in_bytes": damage.size,
        "first_offset": damage.first_offset,
        "next_offset": damage.next_offset,
        "found": damage.error.found,
        "expected": damage.error.expected,
    }


def _round_row(task: PartitionTask, number: int, report: RoundReport) -> Row:
    stats, removed = report.stats, asdict(report.removed)
    return (
        _identity(task, "round")
        | {"round": number + 1}
        | _outlook_fields(report.outlook)
        | {
            "next_dirty_offset": report.next_dirty_offset,
            "is_map_full": report.is_map_full,
            "buffer_utilization": stats.buffer_utilization,
            "map_bytes_read": stats.map_bytes_read,
            "map_messages_read": stats.map_messages_read,
            "bytes_read": stats.bytes_read,
            "messages_read": stats.messages_read,
            "bytes_written": stats.bytes_written,
            "messages_written": stats.messages_written,
            "invalid_messages_read": stats.invalid_messages_read,
            "messages_unread": removed.pop("unread"),
            **{f"removed_{name}": count for name, count in removed.items()},
            "kept_bytes": stats.bytes_written - sum(d.cleaned_bytes for d in report.deletions),
            "kept_messages": _kept_messages(report),
            "retention": [_deletion_fields(each) for each in report.deletions],
            "elapsed_seconds": stats.elapsed_secs,
            "elapsed_index_seconds": stats.elapsed_index_secs,
        }
    )


def _kept_messages(report: RoundReport) -> int | None:
    """Return how many of the records that were read are left after retention."""
    kept = report.stats.messages_written
    for deletion in report.deletions:
        if deletion.cleaned_records is None:
            return None
        kept -= deletion.cleaned_records
    return kept


def _deletion_fields(deletion: Deletion) -> Row:
    return {
        "rule": deletion.rule.value,
        "segments": deletion.segments,
        "size_in_bytes": deletion.size_in_bytes,
        "records": deletion.records,
        "cleaned_records": deletion.cleaned_records,
    }


def _outlook_fields(expected: Outlook) -> Row:
    return {
        "first_dirty_offset": expected.first_dirty_offset,
        "first_uncleanable_offset": expected.first_uncleanable_offset,
        "held_by": expected.held_by,
        "clean_bytes": expected.clean_bytes,
        "cleanable_bytes": expected.cleanable_bytes,
        "cleanable_ratio": expected.cleanable_ratio,
        "is_due": expected.is_due,
        "due_reason": expected.reason,
        "compaction_delay_ms": expected.compaction_delay_ms,
    }


def _partition_row(
    task: PartitionTask, loading: OpenedLog, report: Compaction, before: tuple[int, int]
) -> Row:
    log, (size, segments) = loading.log, before
    return (
        _identity(task, "partition")
        | {
            "is_compacted": bool(report.rounds),
            "cleanup_policy": sorted(task.config.cleanup_policy),
            "now": task.now_ms,
            "cleaner_checkpoint": task.cleaner_checkpoint,
            "checkpoint_was_invalid": report.outlook.checkpoint_was_invalid,
        }
        | _outlook_fields(report.outlook)
        | {
            "rounds": len(report.rounds),
            "split_segments": report.split_segments,
            "new_cleaner_checkpoint": report.checkpoint,
            "is_clean": report.is_clean,
            "is_settled": report.is_settled,
            "bytes_before": size,
            "bytes_after": log.size,
            "segments_before": segments,
            "segments_after": log.segments.number_of_segments(),
            "deleted_segments": report.deleted_segments,
            "retention": [_deletion_fields(each) for each in report.deletions],
            "high_watermark": log.high_watermark,
            "last_stable_offset": log.last_stable_offset,
            "log_end_offset": log.log_end_offset,
            "new_log_start_offset": log.log_start_offset,
            "first_base_offset": log.segments.first_segment_base_offset(),
            "cut_bytes": loading.cut_bytes,
            "note": _watermark_note(task, log),
        }
    )


def _watermark_note(task: PartitionTask, log: PartitionLog) -> str | None:
    known, end = task.high_watermark, log.log_end_offset
    if known is None:
        return _NO_WATERMARK
    if known > end:
        return f"high watermark {known} is beyond the log end: the log end {end} is used"
    return None


def checkpoint_changes(
    task: PartitionTask,
    row: Row,
    *,
    lost_rows: Mapping[str, Iterable[tuple[str, int]]] | None = None,
) -> CheckpointChanges:
    """Return what a broker's checkpoints hold of a partition after cleaning and a clean shutdown.

    Everything is flushed. `lost_rows` has the rows, by log dir, that LogCleanerManager drops
    whenever it writes its checkpoint.
    """
    if "new_cleaner_checkpoint" not in row:
        return {}
    writes_cleaner_file = row["rounds"] or row["checkpoint_was_invalid"]
    return after_cleaning(
        task.checkpointed,
        LogBounds(row["first_base_offset"], row["new_log_start_offset"], row["log_end_offset"]),
        cleaner_offset=row["new_cleaner_checkpoint"],
        dropped=(lost_rows or {}).get(task.log_dir, ()) if writes_cleaner_file else (),
        writes_recovery_point=task.recovery_point is not None or task.target is not None,
    )
