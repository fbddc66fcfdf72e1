"""Check the health of compaction in one partition.

    CLN001  a batch at which the cleaner stops     below the active segment
    CLN002  records without a key                  counted with the segments, in Depth.FULL
    CLN003  due for cleaning                       only where the settings are known
    CLN004  tombstones past their horizon          in Depth.FULL, if a later round is proven
    CLN005  due for more than a day                likewise CLN003, by the times of the files

Nothing is cleaned for this. The cleaner does not verify checksums, so only a batch that it cannot
decode stops it. What is due, and how dirty a log is, are the rules of kafka_log.cleaner.cleanable.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import numpy as np

from kafka_format.attributes import CONTROL, DELETE_HORIZON
from kafka_format.columnar.headers import BatchColumns, HeaderWalk
from kafka_format.columnar.records import RecordScan
from kafka_format.errors import FormatError, OverLimitError
from kafka_log.checks.facts import Depth
from kafka_log.checks.finding import Finding
from kafka_log.cleaner.cleanable import Eligibility, cleanable_offsets, log_to_clean, select
from kafka_log.clock import FixedClock, Scheduler
from kafka_log.config.log_config import DAY_MS
from kafka_log.damage.resync import BatchSearch
from kafka_log.damage.walk import BatchWalk, Gap, stop_at_damage
from kafka_log.disk.files import opened
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.errors import LogError
from kafka_log.log.unloaded_log import open_unloaded, read_facts
from kafka_log.names import CLUSTER_METADATA_TOPIC, DirectoryKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafka_format.columnar.record_columns import RecordColumns
    from kafka_log.checks.facts import AuditedPartition, SegmentSummary
    from kafka_log.cleaner.cleanable import LogToClean
    from kafka_log.disk.files import File, Files
    from kafka_log.log.unified_log import PartitionLog

_SHORTEST_DELAY_MS = DAY_MS
"""For so long a log must have been due before CLN005 says that the cleaner does not work."""


def check_compaction(
    audited: AuditedPartition,
    files: Files,
    summaries: Sequence[SegmentSummary],
    *,
    first_unstable_offset: int | None = None,
) -> Iterator[Finding]:
    """Yield the findings of a compacted partition. Raises OSError.

    `first_unstable_offset` is that of the oldest open transaction: the cleaner stops there.
    """
    partition = audited.partition
    is_live = partition.state is DirectoryKind.PARTITION and partition.partition is not None
    if not is_live or not audited.config.compact or partition.topic == CLUSTER_METADATA_TOPIC:
        return
    yield from _keyless(audited, summaries)
    for summary in summaries[:-1]:
        if summary.is_damaged and (finding := _obstacle(audited, files, summary)) is not None:
            yield finding
            break
    if audited.knows_settings and audited.is_clean is not None:
        log = _open(audited, files, first_unstable_offset)
        if log is not None:
            yield from _due(audited, log)
    if audited.depth is Depth.FULL:
        yield from _overdue_tombstones(audited, files, summaries)


def _keyless(audited: AuditedPartition, summaries: Sequence[SegmentSummary]) -> Iterator[Finding]:
    for summary in summaries:
        if summary.null_keys:
            found = f"{summary.null_keys} records without a key"
            yield Finding.of("CLN002", audited.about(summary.path), found, "a key in each record")


# -------------------------------------------------------------------------------- what stops it


def _obstacle(audited: AuditedPartition, files: Files, summary: SegmentSummary) -> Finding | None:
    """Return the first batch of a damaged segment that the cleaner cannot decode."""
    about = audited.about(summary.path)
    with opened(files, Path(summary.path).name) as file:
        walk: Iterable[RecordColumns | BatchColumns | Gap]
        if audited.depth is Depth.HEADERS:
            walk = BatchWalk(partial(_headers, file), stop_at_damage)
        else:
            walk = BatchWalk(partial(_unverified, file), stop_at_damage)
        for part in walk:
            if isinstance(part, Gap):
                return Finding.of_error("CLN001", about, part.error)
            if isinstance(part, BatchColumns):
                continue
            for damage in part.damage:
                if isinstance(damage.error, OverLimitError):
                    continue
                return Finding.of(
                    "CLN001",
                    about,
                    damage.error.found,
                    damage.error.expected,
                    position=int(part.batches.position[damage.batch]),
                    offset=int(part.batches.base_offset[damage.batch]),
                )
    return None


def _unverified(file: File, start: int) -> RecordScan:
    return RecordScan(cast("BinaryIO", file.reader()), path=file.path, start=start, verify=False)


# ------------------------------------------------------------------------------------ is it due


def _open(
    audited: AuditedPartition, files: Files, first_unstable_offset: int | None
) -> PartitionLog | None:
    """Return the log as it lies there; None if it is too damaged for that."""
    overlay = OverlayFiles(files.directory)
    try:
        log = open_unloaded(
            overlay,
            read_facts(overlay),
            audited.config,
            Scheduler(FixedClock(audited.now_ms)),
            log_start_offset=audited.partition.log_start_offset,
            end_snapshot=bytes,
        )
    except (FormatError, LogError):
        return None
    watermark = audited.partition.high_watermark
    stable = log.log_end_offset if watermark is None else watermark
    if first_unstable_offset is not None:
        stable = min(stable, first_unstable_offset)
    log.update_high_watermark(stable)
    return log


def _due(audited: AuditedPartition, log: PartitionLog) -> Iterator[Finding]:
    checkpoint = audited.partition.cleaner_offset
    overdue = _overdue(log, checkpoint)
    if overdue is not None:
        found, expected = _in_words(overdue, checkpoint)
        yield Finding.of("CLN005", audited.about(), found, expected)
        return
    cleanable = select(log, checkpoint, audited.now_ms)
    if cleanable.is_eligible:
        found, expected = _in_words(cleanable, checkpoint)
        yield Finding.of("CLN003", audited.about(), found, expected)


def _overdue(log: PartitionLog, checkpoint: int | None) -> LogToClean | None:
    """Return what was due a day before the log's last append; None if nothing was.

    A segment counts if it ended and the next one began by then.
    """
    then_ms = log.active_segment.last_modified - _SHORTEST_DELAY_MS
    offsets = cleanable_offsets(log, checkpoint, then_ms)
    segments = log.segments.values()
    end = log.log_start_offset
    for segment, following in pairwise(segments):
        began_ms = following.get_first_batch_timestamp()
        if segment.last_modified > then_ms or began_ms > then_ms:
            break
        end = following.base_offset
    end = min(end, offsets.first_uncleanable_dirty_offset)
    cleanable = log_to_clean(log, offsets.first_dirty_offset, end)
    return cleanable if cleanable.eligibility is Eligibility.DIRTY_RATIO else None


def _in_words(cleanable: LogToClean, checkpoint: int | None) -> tuple[str, str]:
    config = cleanable.log.config
    cleaned = "never cleaned" if checkpoint is None else f"cleaned up to offset {checkpoint}"
    found = (
        f"dirty ratio {cleanable.cleanable_ratio:.2f}, "
        f"{cleanable.cleanable_bytes} bytes to clean, {cleaned}"
    )
    if cleanable.eligibility is Eligibility.COMPACTION_LAG:
        return found, f"cleaned within max.compaction.lag.ms={config.max_compaction_lag_ms}"
    return found, f"a ratio of at most {config.min_cleanable_dirty_ratio:g}"


# ----------------------------------------------------------------------------------- tombstones


class _Horizons(NamedTuple):
    """The batches of a segment with a delete horizon."""

    summary: SegmentSummary
    horizons: np.ndarray[tuple[int], np.dtype[np.int64]]
    positions: np.ndarray[tuple[int], np.dtype[np.int64]]
    ends: np.ndarray[tuple[int], np.dtype[np.int64]]


def _overdue_tombstones(
    audited: AuditedPartition, files: Files, summaries: Sequence[SegmentSummary]
) -> Iterator[Finding]:
    """Yield segments with tombstones whose horizon had passed at a later round.

    A horizon is set by a round, at its time plus delete.retention.ms. So the latest horizon shows
    when the last round was that set one. Every tombstone with an earlier horizon was in the
    cleaned part then.
    """
    cleaned_to = audited.partition.cleaner_offset
    if cleaned_to is None:
        return
    found = [
        _horizons(files, each)
        for each in summaries
        if each.tombstones and each.base_offset < cleaned_to
    ]
    latest = max((int(each.horizons.max()) for each in found if len(each.horizons)), default=None)
    if latest is None:
        return
    last_round_ms = latest - audited.config.delete_retention_ms
    for each in found:
        past = np.flatnonzero(each.horizons <= last_round_ms)
        count, first = _count_tombstones(files, each, past.tolist())
        if first is not None:
            about = audited.about(each.summary.path)
            yield Finding.of(
                "CLN004",
                about,
                f"{count} tombstones with a horizon of {int(each.horizons[past].min())} or later",
                f"none with a horizon up to {last_round_ms}, when a round set the latest one",
                position=int(each.positions[past[0]]),
                offset=first,
            )


def _horizons(files: Files, summary: SegmentSummary) -> _Horizons:
    parts: list[list[np.ndarray[tuple[int], np.dtype[np.int64]]]] = [[], [], []]
    with opened(files, Path(summary.path).name) as file:
        search = BatchSearch(cast("BinaryIO", file.reader()), base_offset=summary.base_offset)
        for part in BatchWalk(partial(_headers, file), search.resume):
            if isinstance(part, Gap):
                continue
            has_horizon = (part.attributes & (DELETE_HORIZON | CONTROL)) == DELETE_HORIZON
            has_horizon &= part.magic >= 2
            parts[0].append(part.base_timestamp[has_horizon].copy())
            parts[1].append(part.position[has_horizon].copy())
            parts[2].append((part.position + part.size_in_bytes)[has_horizon])
    empty = np.empty(0, np.int64)
    return _Horizons(summary, *(np.concatenate([empty, *each]) for each in parts))


def _headers(file: File, start: int) -> HeaderWalk:
    return HeaderWalk(cast("BinaryIO", file.reader()), path=file.path, start=start)


def _count_tombstones(
    files: Files, horizons: _Horizons, batches: list[int]
) -> tuple[int, int | None]:
    """Return how many records without a value these batches have, and the offset of the first."""
    count, first = 0, None
    with opened(files, Path(horizons.summary.path).name) as file:
        for batch in batches:
            scan = RecordScan(
                cast("BinaryIO", file.reader()),
                path=file.path,
                start=int(horizons.positions[batch]),
                end=int(horizons.ends[batch]),
            )
            for columns in scan:
                offsets = _tombstones(columns)
                count += len(offsets)
                if first is None and len(offsets):
                    first = int(offsets[0])
    return count, first


def _tombstones(columns: RecordColumns) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.asarray(columns.offset[columns.value_length < 0])
