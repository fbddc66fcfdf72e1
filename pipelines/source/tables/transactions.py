"""The tables transactions, producers and transactional_ids: the rows of the verb `transactions`.

A split is a partition. The partitions of `__transaction_state` are read where the query is planned,
because what they say decides whether an open transaction hangs. The time is the option `now`, or
the time at which the query is planned. Rows are of live directories. Damage is left out, as
`findings` lists it; with FAILFAST it fails the query.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka_log.clock import system_clock
from kafka_log.config.settings import SettingsError, read_settings
from kafka_log.names import DirectoryKind
from pipelines.engine.partition_tasks import partition_tasks
from pipelines.source.options import OptionsError, ReadMode
from pipelines.source.tables.rows import batches_of_rows
from pipelines.source.tables.side_files import DamageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from kafka_log.inventory.inventory import Inventory
    from pipelines.engine.partition_tasks import PartitionTask
    from pipelines.source.options import Options
    from pipelines.source.storage import Storage
    from pipelines.source.tables.rows import Row
    from pipelines.transactions import CoordinatorLog, ReadTransactions

_KINDS = {
    "transactions": "transaction",
    "producers": "producer",
    "transactional_ids": "transactional_id",
}


class _PartitionSplit(NamedTuple):
    task: PartitionTask
    function: ReadTransactions


class _IdsSplit(NamedTuple):
    log: CoordinatorLog
    now_ms: int


class _Transactions:
    def plan(self, options: Options, storage: Storage) -> list[_PartitionSplit] | list[_IdsSplit]:
        from pipelines.transactions import ReadTransactions, known_ids, read_coordinator_logs

        for path in options.paths:
            if "://" in path and not path.startswith("file://"):
                raise OptionsError(f"{path}: found a URI, expected local files")
        inventory = storage.scan()
        now_ms = system_clock() if options.now_ms is None else options.now_ms
        logs = read_coordinator_logs(inventory)
        if options.table == "transactional_ids":
            return [_IdsSplit(log, now_ms) for log in logs]
        function = ReadTransactions(
            known=known_ids(logs, inventory.metadata),
            producers=options.table == "producers",
            ended=options.table == "transactions",
        )
        tasks = _tasks(inventory, options, now_ms)
        return [_PartitionSplit(task, function) for task in tasks]

    def read(
        self, split: _PartitionSplit | _IdsSplit, options: Options
    ) -> Iterator[pa.RecordBatch]:
        if isinstance(split, _IdsSplit):
            rows: Iterator[Row] = split.log.rows(split.now_ms)
        else:
            rows = _rows(split, options)
        yield from batches_of_rows(rows, options)


def _rows(split: _PartitionSplit, options: Options) -> Iterator[Row]:
    kind = _KINDS[options.table]
    for row in split.function(split.task):
        if row["kind"] == kind:
            yield row
        elif row["kind"] == "damage" and options.mode is ReadMode.FAILFAST:
            raise DamageError(row["message"])


def _tasks(inventory: Inventory, options: Options, now_ms: int) -> list[PartitionTask]:
    try:
        settings = read_settings(
            metadata=inventory.metadata, node_id=inventory.node_id, overrides=options.settings
        )
        tasks = partition_tasks(inventory, settings, now_ms=now_ms, includes=options.includes)
    except SettingsError as error:
        raise OptionsError(f"option settings: {error}") from error
    empty = {each.path for _, each in inventory.partitions() if not each.segments}
    return [
        task for task in tasks if task.kind is DirectoryKind.PARTITION and task.path not in empty
    ]


READER = _Transactions()
