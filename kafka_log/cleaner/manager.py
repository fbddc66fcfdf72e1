"""LogCleanerManager: which partitions of a broker are being cleaned, and when others may be.

    none ---------- grab, deletable_logs ----------> in progress -- done --> none
      |                                                   |
      | abort_and_pause, pause_..._non_compacted          | abort_and_pause (waits)
      v                                                   v
    paused(1) <------------------- done ------------- aborted
      | ^   abort_and_pause: one more, resume: one less; with the last it is none again
      v |
    paused(2) ...

    manager = LogCleanerManager(log_dirs, logs, take_offline)
    do_work(manager, make_cleaner, clock)                      a cleaner thread, again and again

A partition that has a state is not cleaned, and retention does not delete from it. One on which a
thread failed is uncleanable until its log is deleted or the broker restarts.

`cleaner-offset-checkpoint` of each log dir says what was cleaned. Every change of it drops the rows
of partitions without a log, except after a truncation.

Calls may come from any thread. Mirrors LogCleanerManager and LogCleaner.CleanerThread of
org.apache.kafka.storage.internals.log (4.3.1); cleanable.py chooses the offsets and the log.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import contextmanager
from enum import Enum
from threading import Condition, RLock
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.checkpoint_file import (
    MAX_SIZE,
    OffsetCheckpoint,
    OffsetCheckpointEntry,
    decode_offset_checkpoint,
    encode_offset_checkpoint,
)
from kafka_format.errors import FormatError
from kafka_log.cleaner.cleanable import cleanable_offsets, filthiest, log_to_clean, select
from kafka_log.cleaner.errors import (
    IllegalStateError,
    LogCleaningAbortedError,
    LogCleaningError,
    LogDirFailedError,
)
from kafka_log.names import FileKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafka_log.cleaner.cleanable import LogToClean
    from kafka_log.cleaner.cleaner import Cleaner
    from kafka_log.clock import Clock
    from kafka_log.disk.files import Files
    from kafka_log.disk.output import TopicPartition
    from kafka_log.log.unified_log import PartitionLog

_CHECKPOINT = FileKind.CLEANER_OFFSET_CHECKPOINT.value


class LogCleaning(Enum):
    IN_PROGRESS = "in progress"
    ABORTED = "aborted"


class LogCleaningPaused(NamedTuple):
    paused_count: int


LogCleaningState = LogCleaning | LogCleaningPaused


class LogCleanerManager:
    def __init__(
        self,
        log_dirs: Iterable[Files],
        logs: Mapping[TopicPartition, PartitionLog],
        take_offline: Callable[[str, Exception], object],
    ) -> None:
        """`logs` belongs to the broker and changes. `take_offline` gets a failed log dir."""
        self._logs = logs
        self.take_offline = take_offline
        self._checkpoints = {files.directory: files for files in log_dirs}
        for files in self._checkpoints.values():
            files.open(_CHECKPOINT, create=True).close()
        self._in_progress: dict[TopicPartition, LogCleaningState] = {}
        self._uncleanable: dict[str, set[TopicPartition]] = {}
        self._lock = RLock()
        self._paused = Condition(self._lock)

    def cleaning_state(self, partition: TopicPartition) -> LogCleaningState | None:
        with self._lock:
            return self._in_progress.get(partition)

    # ---------------------------------------------------------------------- which log is next

    def grab_filthiest_compacted_log(self, now_ms: int) -> tuple[TopicPartition, LogToClean] | None:
        """Return the log to clean next, and set it in progress.

        A checkpoint that is outside its log is rewritten, whichever log is chosen.
        """
        with self._lock:
            last_clean = self.all_cleaner_checkpoints()
            candidates = {
                partition: self._look_at(partition, log, last_clean.get(partition), now_ms)
                for partition, log in self._logs.items()
                if log.config.compact and self._is_free(partition, log)
            }
            chosen = filthiest(candidates.values())
            if chosen is None:
                return None
            partition = next(each for each, found in candidates.items() if found is chosen)
            self._in_progress[partition] = LogCleaning.IN_PROGRESS
            return partition, chosen

    def _look_at(
        self, partition: TopicPartition, log: PartitionLog, last_clean: int | None, now_ms: int
    ) -> LogToClean:
        with _blamed(partition, log):
            offsets = cleanable_offsets(log, last_clean, now_ms)
            if offsets.force_update_checkpoint:
                last_clean = offsets.first_dirty_offset
                self.update_checkpoints(parent_dir(log), update=(partition, last_clean))
            return select(log, last_clean, now_ms)

    def _is_free(self, partition: TopicPartition, log: PartitionLog) -> bool:
        uncleanable = self._uncleanable.get(parent_dir(log), ())
        return partition not in self._in_progress and partition not in uncleanable

    def pause_cleaning_for_non_compacted_partitions(self) -> dict[TopicPartition, PartitionLog]:
        """Return the logs for retention, paused until it resumes them: policies may change."""
        with self._lock:
            chosen = {
                partition: log
                for partition, log in self._logs.items()
                if not log.config.compact and partition not in self._in_progress
            }
            self._in_progress.update(dict.fromkeys(chosen, LogCleaningPaused(1)))
            return chosen

    def deletable_logs(self) -> dict[TopicPartition, PartitionLog]:
        """Return the logs that the cleaner deletes from: segments may end before the log start.

        They are in progress until `done_deleting`.
        """
        with self._lock:
            chosen = {
                partition: log
                for partition, log in self._logs.items()
                if log.config.compact and self._is_free(partition, log)
            }
            self._in_progress.update(dict.fromkeys(chosen, LogCleaning.IN_PROGRESS))
            return chosen

    # ------------------------------------------------------------------------------------ states

    def abort_cleaning(self, partition: TopicPartition) -> None:
        """Return when no thread cleans it; then it may be cleaned again."""
        with self._lock:
            self.abort_and_pause_cleaning(partition)
            self.resume_cleaning([partition])

    def abort_and_pause_cleaning(self, partition: TopicPartition) -> None:
        """Return when no thread cleans it, or will before it is resumed."""
        with self._lock:
            match self._in_progress.get(partition):
                case None:
                    self._in_progress[partition] = LogCleaningPaused(1)
                case LogCleaningPaused(count):
                    self._in_progress[partition] = LogCleaningPaused(count + 1)
                case LogCleaning.IN_PROGRESS:
                    self._in_progress[partition] = LogCleaning.ABORTED
                case state:
                    raise _illegal(partition, state, "none, paused or in progress to abort it")
            while not isinstance(self._in_progress.get(partition), LogCleaningPaused):
                self._paused.wait(0.1)

    def resume_cleaning(self, partitions: Iterable[TopicPartition]) -> None:
        """Undo one pause of each."""
        with self._lock:
            for partition in partitions:
                match self._in_progress.get(partition):
                    case LogCleaningPaused(1):
                        del self._in_progress[partition]
                    case LogCleaningPaused(count):
                        self._in_progress[partition] = LogCleaningPaused(count - 1)
                    case state:
                        raise _illegal(partition, state, "paused to resume it")

    def check_cleaning_aborted(self, partition: TopicPartition) -> None:
        """Raise if another caller needs the log: the `check_done` of a Cleaner."""
        with self._lock:
            if self._in_progress.get(partition) is LogCleaning.ABORTED:
                raise LogCleaningAbortedError(f"{_named(partition)}: another caller wants the log")

    def done_cleaning(self, partition: TopicPartition, data_dir: str, end_offset: int) -> None:
        """Note that a log is cleaned up to `end_offset`; nothing is written if it was aborted."""
        with self._lock:
            if self._in_progress.get(partition) is LogCleaning.IN_PROGRESS:
                self.update_checkpoints(data_dir, update=(partition, end_offset))
            self._done(partition)

    def done_deleting(self, partitions: Iterable[TopicPartition]) -> None:
        with self._lock:
            for partition in partitions:
                self._done(partition)

    def _done(self, partition: TopicPartition) -> None:
        match self._in_progress.get(partition):
            case LogCleaning.IN_PROGRESS:
                del self._in_progress[partition]
            case LogCleaning.ABORTED:
                self._in_progress[partition] = LogCleaningPaused(1)
                self._paused.notify_all()
            case state:
                raise _illegal(partition, state, "in progress or aborted to be done")

    # -------------------------------------------------------------------------------- uncleanable

    def mark_partition_uncleanable(self, log_dir: str, partition: TopicPartition) -> None:
        with self._lock:
            self._uncleanable.setdefault(log_dir, set()).add(partition)

    def maintain_uncleanable_partitions(self) -> None:
        """Forget partitions whose log was deleted."""
        with self._lock:
            for log_dir, partitions in list(self._uncleanable.items()):
                partitions.intersection_update(self._logs)
                if not partitions:
                    del self._uncleanable[log_dir]

    def uncleanable_partitions(self, log_dir: str) -> frozenset[TopicPartition]:
        with self._lock:
            return frozenset(self._uncleanable.get(log_dir, ()))

    def uncleanable_bytes(self, log_dir: str, now_ms: int) -> int:
        """Return the cleanable bytes. (Kafka's gauge fails if a partition was never cleaned.)"""
        with self._lock:
            if log_dir not in self._uncleanable:
                return 0
            last_clean = self.all_cleaner_checkpoints()
            return sum(
                _cleanable_bytes(self._logs[partition], last_clean.get(partition), now_ms)
                for partition in self._uncleanable[log_dir]
                if partition in self._logs
            )

    # -------------------------------------------------------------------------------- checkpoints

    def all_cleaner_checkpoints(self) -> dict[TopicPartition, int]:
        """Return the checkpoints of all log dirs except failed ones."""
        with self._lock:
            found: dict[TopicPartition, int] = {}
            for directory in self._checkpoints:
                try:
                    rows = self._read(directory)
                except LogDirFailedError:
                    continue  # it is offline now
                if twice := found.keys() & rows.keys():
                    raise IllegalStateError(
                        f"{directory}: found {_named(min(twice))} in {_CHECKPOINT} of another log"
                        " dir too, expected it in one"
                    )
                found |= rows
            return found

    def update_checkpoints(
        self,
        data_dir: str,
        *,
        update: tuple[TopicPartition, int] | None = None,
        remove: TopicPartition | None = None,
    ) -> None:
        """Add, change or remove a row. A failed log dir is not touched."""
        with self._lock:
            if data_dir not in self._checkpoints:
                return
            try:
                kept = {
                    partition: offset
                    for partition, offset in self._read(data_dir).items()
                    if partition in self._logs and partition != remove
                }
                self._write(data_dir, kept | dict([update] if update else []))
            except LogDirFailedError:
                return  # it is offline now

    def maybe_truncate_checkpoint(
        self, data_dir: str, partition: TopicPartition, offset: int
    ) -> None:
        """Note that a compacted log was truncated: its clean part ends at `offset` or before."""
        with self._lock:
            if not self._logs[partition].config.compact or data_dir not in self._checkpoints:
                return
            rows = self._read(data_dir)
            if rows.get(partition, 0) > offset:
                self._write(data_dir, rows | {partition: offset})

    def alter_checkpoint_dir(
        self, partition: TopicPartition, source_dir: str, target_dir: str
    ) -> None:
        """Note that a log moved from one log dir to another."""
        with self._lock:
            try:
                rows = self._read(source_dir) if source_dir in self._checkpoints else {}
            except LogDirFailedError:
                rows = {}  # it is offline now
            if partition in rows:
                self.update_checkpoints(source_dir, remove=partition)
                self.update_checkpoints(target_dir, update=(partition, rows[partition]))
            if partition in self._uncleanable.get(source_dir, ()):
                self._uncleanable[source_dir].remove(partition)
                self.mark_partition_uncleanable(target_dir, partition)

    def handle_log_dir_failure(self, log_dir: str) -> None:
        """Stop reading and writing the checkpoint of a log dir."""
        with self._lock:
            self._checkpoints.pop(log_dir, None)

    def _read(self, directory: str) -> dict[TopicPartition, int]:
        files = self._checkpoints[directory]
        try:
            data = files.read(_CHECKPOINT, limit=MAX_SIZE)
            return decode_offset_checkpoint(data, path=files.path(_CHECKPOINT)).offsets()
        except (OSError, FormatError) as error:
            self.take_offline(directory, error)
            raise LogDirFailedError(str(error)) from error

    def _write(self, directory: str, rows: Mapping[TopicPartition, int]) -> None:
        entries = tuple(OffsetCheckpointEntry(*place, offset) for place, offset in rows.items())
        data = encode_offset_checkpoint(OffsetCheckpoint(entries))
        try:
            self._checkpoints[directory].replace(_CHECKPOINT, data)
        except OSError as error:
            self.take_offline(directory, error)
            raise LogDirFailedError(str(error)) from error


# ---------------------------------------------------------------------------------- a thread

MakeCleaner = Callable[["PartitionLog", Callable[[], object]], "Cleaner"]
"""Makes a cleaner for a log; the second argument is its `check_done`."""


def do_work(manager: LogCleanerManager, make_cleaner: MakeCleaner, clock: Clock) -> bool:
    """Do one turn of a cleaner thread; return whether it cleaned a log."""
    try:
        is_cleaned = _clean_filthiest_log(manager, make_cleaner, clock)
    except LogCleaningError as error:
        manager.mark_partition_uncleanable(parent_dir(error.log), error.partition)
        is_cleaned = False
    manager.maintain_uncleanable_partitions()
    return is_cleaned


def _clean_filthiest_log(
    manager: LogCleanerManager, make_cleaner: MakeCleaner, clock: Clock
) -> bool:
    grabbed = manager.grab_filthiest_compacted_log(clock())
    if grabbed is not None:
        partition, cleanable = grabbed
        with _blamed(partition, cleanable.log):
            _clean_log(manager, make_cleaner, partition, cleanable)
    deletable = manager.deletable_logs()
    try:
        for partition, log in deletable.items():
            with _blamed(partition, log):
                log.delete_old_segments()
    finally:
        manager.done_deleting(deletable)
    return grabbed is not None


def _clean_log(
    manager: LogCleanerManager,
    make_cleaner: MakeCleaner,
    partition: TopicPartition,
    cleanable: LogToClean,
) -> None:
    log, end_offset = cleanable.log, cleanable.first_dirty_offset
    try:
        cleaner = make_cleaner(log, lambda: manager.check_cleaning_aborted(partition))
        end_offset = cleaner.do_clean(cleanable).next_dirty_offset
    except LogCleaningAbortedError:
        pass  # the caller that needs the log waits for `done_cleaning`
    except OSError as error:
        manager.take_offline(parent_dir(log), error)
    finally:
        manager.done_cleaning(partition, parent_dir(log), end_offset)


@contextmanager
def _blamed(partition: TopicPartition, log: PartitionLog) -> Iterator[None]:
    """Raise errors from inside as a LogCleaningError of this log."""
    try:
        yield
    except Exception as error:
        raise LogCleaningError(f"{_named(partition)}: {error}", partition, log) from error


def _cleanable_bytes(log: PartitionLog, last_clean: int | None, now_ms: int) -> int:
    """Return the cleanable bytes without reading batches: the cleaner may have failed on one."""
    offsets = cleanable_offsets(log, last_clean, now_ms)
    uncleanable = offsets.first_uncleanable_dirty_offset
    return log_to_clean(log, offsets.first_dirty_offset, uncleanable).cleanable_bytes


def parent_dir(log: PartitionLog) -> str:
    """Return the log dir of a log."""
    return os.path.dirname(log.files.directory)  # noqa: PTH120  # it need not be a path


def _named(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"


def _illegal(
    partition: TopicPartition, state: LogCleaningState | None, expected: str
) -> IllegalStateError:
    found = "no state"
    if state is not None:
        found = state.value if isinstance(state, LogCleaning) else f"paused({state.paused_count})"
    return IllegalStateError(f"{_named(partition)}: found {found}, expected {expected}")
