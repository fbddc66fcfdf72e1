"""The table `compaction`: what the cleaner would do to each record, and why.

A split is a partition: what happens to a record depends on all the others. The time is the option
`now`, or the time at which the query is planned; the settings are those of the KRaft metadata and
of the option `settings`.

Damage is left out, as by `compact --skip-damaged` (with FAILFAST it fails the query): the rows are
those of a log without it. `findings` lists what is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka_log.clock import system_clock
from kafka_log.config.settings import SettingsError, read_settings
from pipelines.engine.partition_tasks import partition_tasks
from pipelines.source.options import OptionsError, ReadMode

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from pipelines.compaction.compaction import CompactPartition
    from pipelines.engine.partition_tasks import PartitionTask
    from pipelines.source.options import Options
    from pipelines.source.storage import Storage


class PartitionSplit(NamedTuple):
    task: PartitionTask
    compact: CompactPartition


class _Compaction:
    def plan(self, options: Options, storage: Storage) -> list[PartitionSplit]:
        from kafka_log.cleaner.settings import CleanerSettings
        from pipelines.compaction.compaction import CompactPartition, why_not_compacted

        for path in options.paths:
            if "://" in path and not path.startswith("file://"):
                raise OptionsError(f"{path}: found a URI, expected local files to compact")
        inventory = storage.scan()
        try:
            settings = read_settings(
                metadata=inventory.metadata,
                node_id=inventory.node_id,
                overrides=options.settings,
            )
            tasks = partition_tasks(
                inventory,
                settings,
                now_ms=system_clock() if options.now_ms is None else options.now_ms,
                includes=options.includes,
            )
        except SettingsError as error:
            raise OptionsError(f"option settings: {error}") from error
        compact = CompactPartition(
            settings=CleanerSettings.of(settings),
            passes=options.rounds,
            skip_damaged=options.mode is not ReadMode.FAILFAST,
        )
        return [PartitionSplit(task, compact) for task in tasks if why_not_compacted(task) is None]

    def read(self, split: PartitionSplit, options: Options) -> Iterator[pa.RecordBatch]:
        from pipelines.compaction.explanation import iter_explained

        return iter_explained(split.task, split.compact, options.columns)


READER = _Compaction()
