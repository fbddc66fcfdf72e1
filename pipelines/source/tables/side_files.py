"""The tables of the files beside a log: one row per entry.

The rows are the entries that Kafka's format allows; damage after or among them is in `findings`,
and fails the query with FAILFAST. If a broker would refuse the whole file, its entries have
`is_valid` false, and DROPMALFORMED leaves them out.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np

from kafka_format import offset_index, time_index
from kafka_format.access import watching
from kafka_format.checkpoint_file import MAX_SIZE as MAX_CHECKPOINT_SIZE
from kafka_format.errors import FormatError
from kafka_format.file_kinds import OFFSET_INDEX_KINDS, TIME_INDEX_KINDS, TRANSACTION_INDEX_KINDS
from kafka_format.leader_epoch_file import MAX_SIZE as MAX_EPOCHS_SIZE
from kafka_format.shown_text import name_base64, name_text
from kafka_log.checks.finding import About
from kafka_log.checks.segments import side_files as checks
from kafka_log.inventory.file_limits import largest_size
from kafka_log.inventory.inventory import CHECKPOINTS, unread_names
from kafka_log.names import DirectoryKind, FileKind, FileState
from pipelines.source.options import ReadMode
from pipelines.source.refusals import Refusal, refusal_of
from pipelines.source.selection import is_live_or_given
from pipelines.source.storage import Storage, local_path
from pipelines.source.tables.rows import (
    FileTask,
    batch_of_columns,
    batches_of_rows,
    packed,
    wants,
    wants_everything,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import pyarrow as pa

    from kafka_log.checks.finding import Finding
    from kafka_log.inventory.inventory import Inventory, InventoryFile, Partition
    from pipelines.source.options import Options
    from pipelines.source.tables.rows import Row

_KINDS = {
    "offset_index": set(OFFSET_INDEX_KINDS),
    "time_index": set(TIME_INDEX_KINDS),
    "transaction_index": set(TRANSACTION_INDEX_KINDS),
    "producer_snapshots": {FileKind.PRODUCER_SNAPSHOT},
    "leader_epochs": {FileKind.LEADER_EPOCH_CHECKPOINT},
    "checkpoints": set(CHECKPOINTS),
}
_BLOCK = 64 * 1024
_ENTRY_SIZES = {
    "offset_index": offset_index.ENTRY_SIZE,
    "time_index": time_index.ENTRY_SIZE,
}


class DamageError(ValueError):
    """Fails a query in the mode FAILFAST, with the text of a finding."""


def fail_on_damage(findings: Sequence[Finding]) -> None:
    for finding in findings:
        if finding.is_damage:
            raise DamageError(str(finding))


class _SideFiles:
    def plan(self, options: Options, storage: Storage) -> Sequence[tuple[FileTask, ...]]:
        kinds = _KINDS[options.table]
        inventory = storage.scan()
        if options.mode is ReadMode.FAILFAST:
            _fail_on_unread(inventory, kinds, options)
        tasks = [
            task
            for task in file_tasks(inventory, options, storage.given_paths())
            if task.file.name.kind in kinds
        ]
        return packed(tasks, options, lambda task: task.size_in_bytes)

    def read(self, split: tuple[FileTask, ...], options: Options) -> Iterator[pa.RecordBatch]:
        from pipelines.source.arrow import merged

        storage = Storage(options.paths)
        yield from merged(batch for task in split for batch in _batches(task, storage, options))


def _fail_on_unread(inventory: Inventory, kinds: set[FileKind], options: Options) -> None:
    """Fail for a link, or something else than a file, that has the name of such a file."""
    for log_dir in inventory.log_dirs:
        partitions = [each for each in log_dir.partitions if wants(each, options)]
        for problems in (log_dir.problems, *(each.problems for each in partitions)):
            for problem, name in unread_names(problems).items():
                if name.kind in kinds:
                    raise DamageError(f"{name_text(problem.path)}: {name_text(problem.message)}")


def _batches(task: FileTask, storage: Storage, options: Options) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file; one that cannot be read has none, or fails the query (FAILFAST)."""
    path = task.file.path
    with watching() as watch:
        try:
            yield from _READERS[options.table](task, storage, options)
        except (OSError, FormatError) as error:
            refusal = refusal_of(error, path)
            if refusal is None:
                raise
            _fail_if_failfast(refusal, path, options)
        for change in watch.changes():
            refusal = refusal_of(change, path)
            if refusal is not None and change.filename == local_path(path):
                _fail_if_failfast(refusal, path, options)


def _fail_if_failfast(refusal: Refusal, path: str, options: Options) -> None:
    if options.mode is ReadMode.FAILFAST:
        raise DamageError(f"{name_text(path)}: {refusal.found}") from None


def file_tasks(
    inventory: Inventory, options: Options, given_paths: frozenset[str]
) -> Iterator[FileTask]:
    """Yield live files of live directories, and any file that was given by its path."""
    for log_dir in inventory.log_dirs:
        for file in log_dir.files:
            own = options.table == "checkpoints" or wants_everything(options)
            if own and _is_selected(file, given_paths):
                yield FileTask(file, log_dir=log_dir.path)
        for partition in log_dir.partitions:
            if not wants(partition, options) or not _is_live(partition, options, given_paths):
                continue
            for file in partition.files:
                if _is_selected(file, given_paths):
                    yield FileTask(file, partition.topic, partition.partition, log_dir.path)


def _is_live(partition: Partition, options: Options, given_paths: frozenset[str]) -> bool:
    """Return whether it is live, as for `records`; `findings` also checks a future replica."""
    is_future = partition.state is DirectoryKind.FUTURE and options.table == "findings"
    return is_future or is_live_or_given(partition, given_paths)


def _is_selected(file: InventoryFile, given_paths: frozenset[str]) -> bool:
    return file.name.state is FileState.LIVE or file.path in given_paths


def _about(task: FileTask) -> About:
    return About(task.file.path, task.topic, task.partition)


# --- arrays -------------------------------------------------------------------------------------


def _index(task: FileTask, storage: Storage, options: Options) -> Iterator[pa.RecordBatch]:
    base_offset = task.file.offset or 0
    check = checks.check_offset_index
    if options.table == "time_index":
        check = checks.check_time_index
    data = _index_bytes(task.file, storage, options)
    slots = check(data, base_offset, _about(task))
    if options.mode is ReadMode.FAILFAST:
        fail_on_damage(slots.findings)
    for start, entries in _parts(slots.entries):
        columns = _about_columns(task, len(entries)) | _numbers(entries)
        columns["offset"] = columns.pop("relative_offset").astype(np.int64) + base_offset
        if "timestamp" in columns:
            columns["timestamp_ms"] = columns.pop("timestamp")
        columns["entry"] = np.arange(start, start + len(entries), dtype=np.int32)
        yield batch_of_columns(columns, options)


def _index_bytes(file: InventoryFile, storage: Storage, options: Options) -> bytes:
    """Return the bytes before the preallocated zeros, or all of them if they are to be checked."""
    if options.mode is ReadMode.FAILFAST or file.size_in_bytes <= _BLOCK:
        return storage.read(file.path, limit=largest_size(file.name.kind))
    size = _ENTRY_SIZES[options.table]
    data = bytearray()
    with storage.open(file.path) as source:
        source.seek(0, io.SEEK_SET)
        while block := source.read(_BLOCK // size * size):
            data += block
            if len(data) > size and not any(data[-size:]):
                break
    return bytes(data)


def _transaction_index(
    task: FileTask, storage: Storage, options: Options
) -> Iterator[pa.RecordBatch]:
    data = storage.read(task.file.path, limit=largest_size(task.file.name.kind))
    slots = checks.check_transaction_index(data, _about(task))
    if options.mode is ReadMode.FAILFAST:
        fail_on_damage(slots.findings)
    for start, entries in _parts(slots.entries):
        columns = _about_columns(task, len(entries)) | _numbers(entries)
        columns["entry"] = np.arange(start, start + len(entries), dtype=np.int32)
        yield batch_of_columns(columns, options)


def _producer_snapshot(
    task: FileTask, storage: Storage, options: Options
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    data = storage.read(task.file.path, limit=largest_size(task.file.name.kind))
    slots = checks.check_producer_snapshot(data, _about(task))
    if options.mode is ReadMode.FAILFAST:
        fail_on_damage(slots.findings)
    if options.mode is ReadMode.DROPMALFORMED and not slots.is_valid:
        return
    for _, entries in _parts(slots.entries):
        columns = _about_columns(task, len(entries)) | _numbers(entries)
        without_batch = columns["last_offset"] < 0
        for name in ("last_sequence", "last_offset", "offset_delta"):
            columns[name] = pa.array(columns[name], mask=without_batch)
        first = columns["current_txn_first_offset"]
        columns["current_txn_first_offset"] = pa.array(first, mask=first < 0)
        columns["timestamp_ms"] = columns.pop("timestamp")
        columns["snapshot_offset"] = columns.pop("segment")
        columns["is_valid"] = [slots.is_valid] * len(entries)
        yield batch_of_columns(columns, options)


def _parts(entries: Any) -> Iterator[tuple[int, Any]]:
    size = 64 * 1024
    for start in range(0, len(entries), size):
        yield start, entries[start : start + size]


def _numbers(entries: Any) -> dict[str, Any]:
    """Return each field in this machine's byte order."""
    return {
        name: entries[name].astype(entries.dtype[name].newbyteorder("="))
        for name in entries.dtype.names
    }


def _about_columns(task: FileTask, count: int) -> dict[str, Any]:
    return {
        "topic": [task.topic] * count,
        "partition": [task.partition] * count,
        "segment": [task.file.offset] * count,
        "path": [task.file.path] * count,
        "path_base64": [name_base64(task.file.path)] * count,
    }


# --- text ---------------------------------------------------------------------------------------


def _leader_epochs(task: FileTask, storage: Storage, options: Options) -> Iterator[pa.RecordBatch]:
    data = storage.read(task.file.path, limit=MAX_EPOCHS_SIZE)
    checked = checks.check_leader_epochs(data, _about(task))
    about = {"topic": task.topic, "partition": task.partition, "path": task.file.path}
    yield from _text_rows(checked, about, options)


def _checkpoint(task: FileTask, storage: Storage, options: Options) -> Iterator[pa.RecordBatch]:
    data = storage.read(task.file.path, limit=MAX_CHECKPOINT_SIZE)
    checked = checks.check_offset_checkpoint(data, _about(task))
    selected = tuple(
        entry for entry in checked.entries if options.includes(entry.topic, entry.partition)
    )
    about = {
        "log_dir": task.log_dir,
        "checkpoint": task.file.name.kind.value,
        "path": task.file.path,
    }
    yield from _text_rows(checked._replace(entries=selected), about, options)


def _text_rows(checked: checks.Rows[Any], about: Row, options: Options) -> Iterator[pa.RecordBatch]:
    if options.mode is ReadMode.FAILFAST:
        fail_on_damage(checked.findings)
    if options.mode is ReadMode.DROPMALFORMED and not checked.is_valid:
        return
    rows = ({**about, **entry._asdict(), "is_valid": checked.is_valid} for entry in checked.entries)
    yield from batches_of_rows(rows, options)


_READERS: dict[str, Callable[[FileTask, Storage, Options], Iterator[pa.RecordBatch]]] = {
    "offset_index": _index,
    "time_index": _index,
    "transaction_index": _transaction_index,
    "producer_snapshots": _producer_snapshot,
    "leader_epochs": _leader_epochs,
    "checkpoints": _checkpoint,
}
READER = _SideFiles()
