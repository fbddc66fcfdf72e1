"""Why records are kept or removed, as the table `compaction`: a dry run with reasons.

    for batch in iter_explained(task, CompactPartition(), columns): …
    ExplanationWriter(directory=…, …)(task)    one Parquet file per partition, and a summary row

A partition that a broker's cleaner would not clean has no rows.
"""

from __future__ import annotations

import uuid
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc

from kafka_log.cleaner.cleaner_thread import new_cleaner
from kafka_log.cleaner.explain.explain import explain
from kafka_log.cleaner.reasons import BY_CODE, CODES, Reason
from kafka_log.clock import FixedClock
from pipelines.compaction.compaction import CompactPartition, why_not_compacted
from pipelines.engine.pushed_items import iter_pushed
from pipelines.source.arrow import (
    bytes_array,
    constant,
    merged,
    numbers,
    place_columns,
    timestamps,
    unless_negative,
)
from pipelines.source.schema import arrow_schema, column_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    import numpy.typing as npt

    from kafka_log.cleaner.cleaner import RoundResult
    from kafka_log.cleaner.explain.rows import ReasonRows
    from pipelines.engine.partition_tasks import PartitionTask

    Int64s = npt.NDArray[np.int64]

Row = dict[str, Any]

TABLE = "compaction"
_BY_CODE = [BY_CODE.get(code) for code in range(CODES)]
_NAMES = pa.array([None if reason is None else reason.text for reason in _BY_CODE])
_VERDICTS = pa.array([None if reason is None else reason.verdict for reason in _BY_CODE])
_FIRST_TIME, _LAST_TIME = -62_135_596_800_000, 253_402_300_799_999
"""From year 1 to 9999: the times that can be printed as dates."""
_ROWS_PER_GROUP = 128 * 1024
_UNKNOWN = "?"


def explain_partition(
    task: PartitionTask, compact: CompactPartition, sink: Callable[[ReasonRows], None]
) -> tuple[list[RoundResult], list[Row]]:
    """Explain what `compact` would do to a partition; return its rounds and findings.

    Raises LogError, FormatError, OSError.
    """
    clock = FixedClock(task.now_ms)
    with compact.sound_log(task) as (log, found):
        rounds = explain(
            log,
            task.cleaner_checkpoint,
            sink,
            make_cleaner=partial(new_cleaner, compact.settings, task.config, clock),
            now_ms=task.now_ms,
            schedule=compact.schedule,
        )
    return rounds, found


def iter_explained(
    task: PartitionTask, compact: CompactPartition, names: tuple[str, ...] = column_names(TABLE)
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a partition, some thousand at a time."""
    if why_not_compacted(task) is not None:
        return iter(())
    place = place_of(task)

    def work(push: Callable[[pa.RecordBatch], None]) -> None:
        explain_partition(task, compact, lambda rows: push(to_arrow(rows, names, place)))

    return merged(iter_pushed(work))


def place_of(task: PartitionTask) -> Row:
    return {"topic": task.topic, "partition": task.partition, "path": task.path}


# ----------------------------------------------------------------------------------- columns


def to_arrow(rows: ReasonRows, names: tuple[str, ...], place: Mapping[str, Any]) -> pa.RecordBatch:
    """Return a batch of copies: the arrays of the cleaner are only valid for a moment."""
    schema = arrow_schema(TABLE, names)
    columns = _Columns(rows)
    shown = place_columns(place)
    arrays = [
        constant(shown[field.name], field.type, len(rows))
        if field.name in shown
        else columns.of(field.name).cast(field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


class _Columns:
    def __init__(self, rows: ReasonRows) -> None:
        self._rows = rows

    def of(self, name: str) -> pa.Array:
        rows = self._rows
        match name:
            case "round":
                return constant(rows.round_number, pa.int32(), len(rows))
            case "segment":
                return constant(rows.segment, pa.int64(), len(rows))
            case "rule":
                return _NAMES.take(pa.array(rows.reason))
            case "verdict":
                return _VERDICTS.take(pa.array(rows.reason))
            case "key":
                return bytes_array(rows.data, rows.key_position, rows.key_length)
            case "offset":
                return numbers(rows.offset, pa.int64(), rows.is_record)
            case "is_tombstone":
                return pa.array(rows.is_tombstone)
            case "timestamp":
                return timestamps(rows.timestamp)
            case "timestamp_ms":
                return numbers(rows.timestamp, pa.int64())
            case "detail":
                return self._detail()
            case "held_until_ms" | "held_by":
                return self._held(name)
            case "delete_horizon_ms":
                return unless_negative(rows.delete_horizon, pa.int64())
        return unless_negative(getattr(rows, name), pa.int64())

    def _held(self, name: str) -> pa.Array:
        unreached = self._rows.unreached
        number = -1
        if unreached is not None:
            number = unreached.until_ms if name == "held_until_ms" else unreached.producer_id
        return constant(None if number < 0 else number, pa.int64(), len(self._rows))

    def _detail(self) -> pa.Array:
        """Build the sentences rule by rule, then put them in the order of the rows."""
        codes = self._rows.reason
        present = np.unique(codes).tolist()
        places = [np.flatnonzero(codes == code) for code in present]
        sentences = [
            self._sentence(BY_CODE[code], which)
            for code, which in zip(present, places, strict=True)
        ]
        order = np.empty(len(codes), np.int64)
        order[np.concatenate(places)] = np.arange(len(codes))
        return pa.concat_arrays(sentences).take(pa.array(order))

    def _sentence(self, reason: Reason, which: Int64s) -> pa.Array:
        parts: list[Any] = []
        for literal, field in reason.parts:
            parts.append(pa.scalar(literal))
            if field is not None:
                parts.append(self._text(field).take(pa.array(which)))
        if len(parts) == 1:
            return constant(reason.sentence, pa.string(), len(which))
        return pc.binary_join_element_wise(
            *parts, pa.scalar(""), null_handling="replace", null_replacement=_UNKNOWN
        )

    def _text(self, field: str) -> pa.Array:
        values = self.of(field)
        return time_texts(values) if field.endswith("_ms") else values.cast(pa.string())


def time_texts(milliseconds: pa.Array) -> pa.Array:
    """Return texts such as 2026-11-16T12:00:00Z; a time without a date stays a number."""
    is_printable = pc.and_(
        pc.greater_equal(milliseconds, _FIRST_TIME), pc.less_equal(milliseconds, _LAST_TIME)
    )
    inside = pc.if_else(is_printable, milliseconds, None).cast(pa.timestamp("ms"))
    texts = pc.strftime(inside, format="%Y-%m-%dT%H:%M:%SZ")
    return pc.coalesce(texts, milliseconds.cast(pa.string()))


# ----------------------------------------------------------------------------------- Parquet


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplanationWriter:
    """A function over tasks: writes one Parquet file per partition, whole or not at all."""

    directory: str
    scratch: str
    """Where a file is made before it gets its name: a worker that dies leaves a part of one."""
    compact: CompactPartition

    def __call__(self, task: PartitionTask) -> Iterator[Row]:
        from pyarrow import parquet

        release = self.compact.settings.rules.release
        row: Row = {"kind": "explained", **place_of(task), "kafka_version": release}
        row |= {"file": None, "rows": 0}
        note = why_not_compacted(task)
        if note is not None:
            yield row | {"verdicts": {}, "rules": {}, "rounds": 0, "note": note}
            return
        names = (*column_names(TABLE), "path")
        target = Path(self.directory) / f"{task.name}-{_short_id(task.path)}.parquet"
        attempt = Path(self.scratch) / f"{target.name}.{uuid.uuid4().hex}"
        rules: Counter[str] = Counter()
        place = place_of(task)
        pending: list[pa.RecordBatch] = []
        try:
            with parquet.ParquetWriter(
                attempt, arrow_schema(TABLE, names), compression="zstd"
            ) as writer:

                def sink(rows: ReasonRows) -> None:
                    _count(rows, rules)
                    pending.append(to_arrow(rows, names, place))
                    if sum(batch.num_rows for batch in pending) >= _ROWS_PER_GROUP:
                        flush()

                def flush() -> None:
                    if pending:
                        writer.write_table(pa.Table.from_batches(pending))
                        pending.clear()

                rounds, found = explain_partition(task, self.compact, sink)
                flush()
            attempt.replace(target)
        finally:
            attempt.unlink(missing_ok=True)
        yield from found
        verdicts: Counter[str] = Counter()
        for reason in Reason:
            verdicts[reason.verdict] += rules[reason.text]
        yield row | {
            "file": str(target),
            "rows": rules.total(),
            "verdicts": {name: count for name, count in verdicts.items() if count},
            "rules": {each.text: rules[each.text] for each in Reason if rules[each.text]},
            "rounds": len(rounds),
            "note": None,
        }


def _count(rows: ReasonRows, rules: Counter[str]) -> None:
    for code, count in enumerate(np.bincount(rows.reason, minlength=CODES).tolist()):
        if count:
            rules[BY_CODE[code].text] += count


def _short_id(path: str) -> str:
    """Return an id that distinguishes equal names in several log dirs, the same in each run."""
    import zlib

    return f"{zlib.crc32(path.encode(errors='surrogateescape')):08x}"
