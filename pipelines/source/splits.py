"""Plans a query: which ranges of `.log` files to read, pruned and packed into splits.

    by name         topic, partition, and the offsets between one segment's name and the next's
    by index        positions around an offset, and where to cut a segment (`.index`); times that a
                    segment does not reach (`.timeindex`)
    by header       where an index is missing or wrong: the segment's headers are walked

An index is only used as far as it can be checked (pipelines.source.segment_index).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from kafka_format.columnar.records import RecordScan
from kafka_format.errors import FormatError
from kafka_format.java_text import uuid_text
from kafka_format.shown_text import name_text
from kafka_log.checks.brokers.directories import refusal
from kafka_log.inventory.inventory import Trouble
from kafka_log.names import (
    DirectoryKind,
    FileKind,
    FileState,
    parse_directory_name,
    parse_file_name,
)
from kafka_log.producers.transactions import read_transactions
from kafka_log.segment.record_search import at_or_after, first_match
from pipelines.source.log_ranges import OFFSET_END, Aborted, LogRange, RangeDamage, iter_batches
from pipelines.source.options import EARLIEST, LATEST, IsolationLevel, ReadMode
from pipelines.source.refusals import Refusal, refusal_of
from pipelines.source.segment_index import are_batches, index_entries, may_reach, walked_entries
from pipelines.source.selection import is_live_or_given, shown_name
from pipelines.source.storage import StorageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from kafka_log.inventory.inventory import Inventory, Partition, Segment
    from pipelines.source.options import Options
    from pipelines.source.segment_index import BatchEntries
    from pipelines.source.storage import Storage

Split = tuple[LogRange, ...]

_logger = logging.getLogger("kafka_files")

_OPEN_COST = 64 * 1024
"""The cost of opening a file, in bytes that could be read in that time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _SelectedOffsets:
    """The offsets of a partition to read, and what to leave out."""

    first: int = 0
    end: int = OFFSET_END
    is_from_start: bool = True
    """Whether the query gives no start."""
    aborted: tuple[Aborted, ...] = ()
    least_timestamp: int | None = None


def plan_splits(options: Options, storage: Storage, *, as_consumer: bool) -> list[Split]:
    """Return splits of about `max_split_bytes`.

    `as_consumer` begins at the log start, and applies the isolation level.
    """
    ranges: list[LogRange] = []
    _warn_unknown(options, storage)
    for partition in selected_partitions(options, storage):
        selected = _selected_range(partition, options, storage, as_consumer=as_consumer)
        readable = _partition_ranges(partition, selected, options, storage)
        refused = _refused_ranges(partition, selected, options)
        ranges += sorted((*readable, *refused), key=lambda each: each.segment)
    ranges += _refused_directories(options, storage)
    return list(pack(ranges, options.max_split_bytes))


def selected_partitions(options: Options, storage: Storage) -> Iterator[Partition]:
    """Yield live partitions, and others (`-delete`, `-future`, …) if their path was given."""
    given = storage.given_paths()
    inventory = storage.scan()
    if options.mode is ReadMode.FAILFAST:
        _refuse_unreadable(inventory)
    for _, partition in inventory.partitions():
        is_included = options.includes(partition.topic, partition.partition)
        if is_included and is_live_or_given(partition, given):
            yield partition


def _refused_ranges(
    partition: Partition, selected: _SelectedOffsets, options: Options
) -> Iterator[LogRange]:
    """Yield logs that cannot be read, and a directory that cannot be listed, as damage."""
    for problem in partition.problems:
        name = parse_file_name(Path(problem.path).name)
        is_log = name.kind is FileKind.LOG and name.state is FileState.LIVE
        reason = refusal(problem)
        if reason is None or not (is_log or problem.path == partition.path):
            continue
        base = name.offset or 0
        segments = options.bounds.segments
        if base < selected.end and (segments is None or base in segments):
            place = (problem.path, partition.topic, partition.partition)
            yield LogRange(*place, base, 0, 0, refusal=Refusal(*reason))


def _refused_directories(options: Options, storage: Storage) -> Iterator[LogRange]:
    """Yield partition directories that are links and were not followed."""
    for log_dir in storage.scan().log_dirs:
        for problem in log_dir.problems:
            name = parse_directory_name(Path(problem.path).name)
            is_live = name.kind is DirectoryKind.PARTITION and problem.kind is not None
            reason = refusal(problem)
            if is_live and reason is not None and options.includes(name.topic, name.partition):
                place = (problem.path, name.topic, name.partition)
                yield LogRange(*place, 0, 0, 0, refusal=Refusal(*reason))


def _warn_unknown(options: Options, storage: Storage) -> None:
    """Warn about offsets for a partition that is not here: its name may be mistyped."""
    named = {
        "startingOffsets": options.starting_offsets.by_partition,
        "endingOffsets": options.ending_offsets.by_partition,
    }
    if not any(named.values()):
        return
    here = {(name_text(each.topic), each.partition) for _, each in storage.scan().partitions()}
    for option, offsets in named.items():
        unknown = [f"{topic}-{number}" for topic, number in offsets if (topic, number) not in here]
        if unknown:
            _logger.warning("kafka_files: %s: no partition %s here", option, ", ".join(unknown))


def _refuse_unreadable(inventory: Inventory) -> None:
    """Raise if a directory cannot be listed: it may hold anything."""
    for problem in inventory.all_problems():
        if problem.trouble is Trouble.UNREADABLE:
            raise StorageError(f"{shown_name(problem.path)}: {problem.message}")


def pack(ranges: Iterable[LogRange], most: int) -> Iterator[Split]:
    """Yield splits of about `most` bytes, with the ranges in order."""
    packed: list[LogRange] = []
    size = 0
    for each in ranges:
        cost = each.size_in_bytes + min(_OPEN_COST, most)
        if packed and size + cost > most:
            yield tuple(packed)
            packed, size = [], 0
        packed.append(each)
        size += cost
    if packed:
        yield tuple(packed)


# ---------------------------------------------------------------------------- offsets


def _selected_range(
    partition: Partition, options: Options, storage: Storage, *, as_consumer: bool
) -> _SelectedOffsets:
    topic, number, bounds = name_text(partition.topic), partition.partition, options.bounds
    first = options.starting_offsets.of(topic, number)
    end = options.ending_offsets.of(topic, number)
    earliest = (partition.log_start_offset or 0) if as_consumer else 0
    is_from_start = first == EARLIEST
    if is_from_start:
        first = earliest
    end = OFFSET_END if end == LATEST else end
    starting_time, ending_time = (
        options.starting_time(topic, number),
        options.ending_time(topic, number),
    )
    if starting_time is not None:
        is_from_start = False
        at = offset_of_time(partition, starting_time, storage, first)
        first = OFFSET_END if at is None else at
    if ending_time is not None:
        # As ListOffsets, which does not return records below the log start either.
        at = offset_of_time(partition, ending_time, storage, earliest)
        end = end if at is None else min(end, at)
    if bounds.least_offset is not None:
        is_from_start = False
        first = max(first, bounds.least_offset)
    if bounds.largest_offset is not None:
        end = min(end, bounds.largest_offset + 1, OFFSET_END)
    aborted: tuple[Aborted, ...] = ()
    is_committed = options.isolation_level is IsolationLevel.READ_COMMITTED
    if as_consumer and is_committed and partition.segments and first < end:
        stable, aborted = _committed(partition, storage)
        end = min(end, stable)
    return _SelectedOffsets(
        first=first,
        end=end,
        is_from_start=is_from_start,
        aborted=aborted,
        least_timestamp=bounds.least_timestamp,
    )


def _committed(partition: Partition, storage: Storage) -> tuple[int, tuple[Aborted, ...]]:
    """Return the last stable offset, as if all records were replicated, and aborted transactions.

    Both come from the markers in the log. A transaction whose marker cannot be read any more may
    still be in an index; one whose marker is lost in damage counts as open.
    """
    try:
        report = read_transactions(
            storage.files(partition.path),
            log_start_offset=partition.log_start_offset or 0,
            past_damage=True,
        )
    except (OSError, FormatError) as error:
        refused = refusal_of(error, partition.path)
        if refused is None:
            raise
        place = shown_name(_path_of(error) or partition.path)
        message = f"{place}: {refused.found}: what was committed is not known without it"
        raise StorageError(message) from None
    found = {
        Aborted(each.producer_id, each.first_offset, each.last_offset) for each in report.aborted()
    }
    found |= {
        Aborted(each.producer_id, each.first_offset, each.last_offset) for each in report.indexed
    }
    return report.last_stable_offset, tuple(sorted(found, key=lambda each: each.first_offset))


def _path_of(error: OSError | FormatError) -> str | None:
    return error.location.path if isinstance(error, FormatError) else error.filename


def offset_of_time(
    partition: Partition, timestamp: int, storage: Storage, first_offset: int
) -> int | None:
    """Return the first offset >= `first_offset` of this time or later, as ListOffsets does."""
    for segment, next_base in _with_next(partition.segments):
        if segment.log is None or next_base <= first_offset:
            continue
        if next_base < OFFSET_END and not may_reach(segment, timestamp, storage):
            continue
        source = _whole_segment(partition, segment)
        try:
            found = _offset_in_segment(source, timestamp, storage, first_offset)
        except (OSError, FormatError) as error:
            if refusal_of(error, source.path) is None:
                raise
            continue
        if found is not None:
            return found
    return None


def _offset_in_segment(
    source: LogRange, timestamp: int, storage: Storage, first_offset: int
) -> int | None:
    """Search by headers, then in the records of batches that reach the time; skip damage."""
    matches = at_or_after(timestamp, first_offset)
    with storage.open(source.path) as file:
        for batches in iter_batches(source, storage, verify=False, on_damage=_ignore):
            for batch in np.flatnonzero(batches.max_timestamp >= timestamp).tolist():
                start = int(batches.position[batch])
                end = start + int(batches.size_in_bytes[batch])
                for records in RecordScan(file, path=source.path, start=start, end=end):
                    if (found := first_match(records, matches)) is not None:
                        return found.offset
    return None


def _ignore(damage: RangeDamage) -> None:
    """Ignore it: the reader reports it, according to the mode."""


def _whole_segment(partition: Partition, segment: Segment) -> LogRange:
    file = segment.files[FileKind.LOG]
    return LogRange(
        path=file.path,
        topic=partition.topic,
        partition=partition.partition,
        segment=segment.base_offset,
        start=0,
        end=file.size_in_bytes,
    )


def _with_next(segments: Sequence[Segment]) -> Iterator[tuple[Segment, int]]:
    """Yield each segment with the base offset of the next, the bound of its own offsets."""
    following = [*(each.base_offset for each in segments[1:]), OFFSET_END]
    return zip(segments, following, strict=False)  # no segments: OFFSET_END is left over


# ---------------------------------------------------------------------------- segments


def _partition_ranges(
    partition: Partition, selected: _SelectedOffsets, options: Options, storage: Storage
) -> Iterator[LogRange]:
    for segment, next_base in _with_next(_segments(partition, storage)):
        if segment.log is None or not segment.log.size_in_bytes:
            continue
        if next_base <= selected.first or segment.base_offset >= selected.end:
            continue
        segments = options.bounds.segments
        if segments is not None and segment.base_offset not in segments:
            continue
        least = selected.least_timestamp
        if least is not None and next_base < OFFSET_END and not may_reach(segment, least, storage):
            continue
        yield from _segment_ranges(partition, segment, next_base, selected, options, storage)


def _segments(partition: Partition, storage: Storage) -> Sequence[Segment]:
    """Return the live segments, or the leftover (`.deleted`, `.cleaned`, …) that was given."""
    given = storage.given_paths()
    named = [each for each in partition.leftovers if each.log and each.log.path in given]
    return named or partition.segments


def _segment_ranges(
    partition: Partition,
    segment: Segment,
    next_base: int,
    selected: _SelectedOffsets,
    options: Options,
    storage: Storage,
) -> Iterator[LogRange]:
    if segment.log is None:
        return
    size = segment.log.size_in_bytes
    end_offset = min(selected.end, next_base)
    is_partial = selected.first > segment.base_offset or selected.end < next_base
    cuts = [0, size]
    if size > options.max_split_bytes or (is_partial and size > _OPEN_COST):
        try:
            # Not up to the next segment's base: a batch with a wrong offset is still in here.
            offsets = (selected.first, selected.end)
            cuts = _cut_positions(segment, size, offsets, options.max_split_bytes, storage)
        except (OSError, FormatError) as error:
            # The reader reports a refused file, according to the mode.
            if refusal_of(error, segment.log.path) is None:
                raise
    topic_id = None if partition.topic_id is None else uuid_text(partition.topic_id)
    for start, end in pairwise(cuts):
        yield LogRange(
            path=segment.log.path,
            topic=partition.topic,
            partition=partition.partition,
            segment=segment.base_offset,
            start=start,
            end=end,
            first_offset=selected.first,
            end_offset=selected.end,
            is_from_start=selected.is_from_start,
            aborted=_overlapping(selected.aborted, segment.base_offset, end_offset),
            topic_id=topic_id,
        )


def _overlapping(aborted: Sequence[Aborted], first: int, end: int) -> tuple[Aborted, ...]:
    return tuple(each for each in aborted if each.last_offset >= first and each.first_offset < end)


def _cut_positions(
    segment: Segment, size: int, offsets: tuple[int, int], most: int, storage: Storage
) -> list[int]:
    """Return positions where batches begin, about `most` apart, around the selected offsets."""
    entries = index_entries(segment, size, storage)
    cuts = None if entries is None else _choose_cuts(entries, size, offsets, most)
    inner = [cut for cut in cuts or () if 0 < cut < size]
    if entries is None or cuts is None or not are_batches(segment, entries, inner, storage):
        entries = walked_entries(segment, storage)
        cuts = _choose_cuts(entries, size, offsets, most)
    return cuts


def _choose_cuts(
    entries: BatchEntries, size: int, offsets: tuple[int, int], most: int
) -> list[int]:
    first, end = offsets
    # The batch of the last entry below the first selected offset: all before it end earlier.
    late = np.flatnonzero(entries.last_offsets >= first)
    before = (int(late[0]) if len(late) else len(entries.positions)) - 1
    start = int(entries.positions[before]) if before >= 0 else 0
    # The entry after the last one that may begin below the end.
    early = np.flatnonzero(entries.first_offsets < end)
    after = int(early[-1]) + 1 if len(early) else 0
    stop = int(entries.positions[after]) if after < len(entries.positions) else size
    targets = np.arange(start + most, stop, most)
    places = np.searchsorted(entries.positions, targets, side="left")
    inner = np.unique(entries.positions[places[places < len(entries.positions)]])
    return [start, *inner[(inner > start) & (inner < stop)].tolist(), max(start, stop)]
