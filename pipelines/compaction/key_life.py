"""Every record of one key, and what the cleaner would do to it: one row each, by offset."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.compaction.compaction import CompactPartition, why_not_compacted
from pipelines.compaction.explanation import explain_partition, place_of, to_arrow
from pipelines.source.schema import column_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kafka_log.cleaner.explain.rows import ReasonRows
    from pipelines.engine.partition_tasks import PartitionTask

Row = dict[str, Any]

_NAMES = tuple(name for name in column_names("compaction") if name not in ("key", "timestamp"))


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyLife:
    """A function over tasks: yields the rows of one key."""

    key: bytes
    compact: CompactPartition

    def __call__(self, task: PartitionTask) -> Iterator[Row]:
        note = why_not_compacted(task)
        if note is not None:
            yield {"kind": "partition", **place_of(task), "note": note}
            return
        found: list[Row] = []

        def sink(rows: ReasonRows) -> None:
            which = rows_of_key(rows, self.key)
            if len(which):
                batch = to_arrow(rows, _NAMES, place_of(task)).take(which)
                found.extend(batch.to_pylist())

        _, findings = explain_partition(task, self.compact, sink)
        yield from findings
        found.sort(key=lambda row: (row["round"], row["offset"]))
        for row in found:
            yield {"kind": "record", **row, "kafka_version": self.compact.settings.rules.release}


def rows_of_key(rows: ReasonRows, key: bytes) -> npt.NDArray[np.intp]:
    """Return the rows with this key, by comparing byte after byte of fewer and fewer rows."""
    which = np.flatnonzero(rows.key_length == len(key))
    for i, byte in enumerate(key):
        if not len(which):
            break
        which = which[rows.data[rows.key_position[which] + i] == byte]
    return which
