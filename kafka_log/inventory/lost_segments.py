"""Segments that are missing although Kafka does not remove segments in that way.

Kafka deletes segments from the start of a log, renames a `.log` before its index files, and leaves
gaps between offsets only where it compacts. So two things show that something else removed a file:

    index files without their .log, and no leftover of that segment
    a gap between the end of a segment and the next one, in a topic that is not compacted
"""

from __future__ import annotations

import os
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.access import ChangedError
from kafka_format.errors import FormatError
from kafka_log.inventory.inventory import CheckpointState, Problem, Trouble
from kafka_log.inventory.log_end import read_log_end
from kafka_log.names import CLUSTER_METADATA_TOPIC, DirectoryKind, FileKind, FileState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from kafka_log.config.settings import Settings
    from kafka_log.inventory.inventory import Inventory, LogDir, Partition, Segment


class LostLog(NamedTuple):
    """A segment of which only index files are left."""

    base_offset: int
    path: str
    """The path of the `.log` that is missing."""
    names: tuple[str, ...]
    """The files that are left."""


_KEPT = (DirectoryKind.PARTITION, DirectoryKind.FUTURE)


def with_lost_segments(
    inventory: Inventory,
    settings: Settings,
    *,
    includes: Callable[[str, int | None], bool] = lambda *_: True,
) -> Inventory:
    """Return the inventory with a problem for each missing segment.

    Gaps are only checked, and logs only read, if the settings of topics are known from the cluster
    metadata.
    """
    is_known = inventory.metadata is not None
    is_compacted = (lambda topic: settings.for_topic(topic).compact) if is_known else None
    return replace(
        inventory,
        log_dirs=tuple(
            replace(
                log_dir,
                partitions=tuple(
                    _with_lost(log_dir, each, is_compacted)
                    if includes(each.topic, each.partition)
                    else each
                    for each in log_dir.partitions
                ),
            )
            for log_dir in inventory.log_dirs
        ),
    )


def _with_lost(
    log_dir: LogDir, partition: Partition, is_compacted: Callable[[str], bool] | None
) -> Partition:
    lost = tuple(lost_segments(log_dir, partition, is_compacted=is_compacted))
    return replace(partition, problems=(*partition.problems, *lost)) if lost else partition


def lost_segments(
    log_dir: LogDir, partition: Partition, *, is_compacted: Callable[[str], bool] | None
) -> Iterator[Problem]:
    """Yield one problem per missing segment, or per run of missing segments."""
    if partition.state not in _KEPT:
        return
    for lost in segments_without_logs(partition):
        message = f"the segment's records are gone: {', '.join(lost.names)} without a .log"
        yield Problem(lost.path, Trouble.MALFORMED, message)
    if is_compacted is None or partition.topic == CLUSTER_METADATA_TOPIC:
        return
    if not is_compacted(partition.topic) and was_never_cleaned(log_dir, partition):
        yield from _gaps(partition)


def segments_without_logs(partition: Partition) -> Iterator[LostLog]:
    """Yield the segments whose `.log` is missing, unless Kafka is deleting them."""
    gone: dict[int, list[str]] = {}
    left = set()
    for segment in partition.leftovers:
        if segment.state is not FileState.LIVE:
            left.add(segment.base_offset)
        elif segment.log is None:
            names = [Path(file.path).name for file in segment.files.values()]
            gone[segment.base_offset] = sorted(names)
    for base_offset, names in gone.items():
        if base_offset not in left:
            name = f"{base_offset:020d}{FileKind.LOG.value}"
            path = os.path.join(partition.path, name)  # noqa: PTH118  # keeps a leading `./`
            yield LostLog(base_offset, path, tuple(names))


def was_never_cleaned(log_dir: LogDir, partition: Partition) -> bool:
    """Whether the log has no row in the cleaner's checkpoint, where a broker adds every log."""
    kind = FileKind.CLEANER_OFFSET_CHECKPOINT
    checkpoint = log_dir.checkpoints.get(kind)
    is_known = checkpoint is not None and checkpoint.state in (
        CheckpointState.WITH_ROWS,
        CheckpointState.EMPTY,
        CheckpointState.MISSING,
    )
    return is_known and kind not in partition.checkpointed


def _gaps(partition: Partition) -> Iterator[Problem]:
    for segment, following in pairwise(partition.segments):
        try:
            end = _end_of(segment)
        except ChangedError as error:
            # The file that changed may be the index, through which the log's end is found.
            yield Problem(error.filename, Trouble.UNREADABLE, error.strerror or str(error))
            continue
        if end is not None and (offsets := missing_offsets(end, following.base_offset)):
            message = (
                f"{offsets} missing: {segment.base_offset:020d}.log ends before {end}, the next "
                f"segment begins at {following.base_offset}, and the topic is not compacted"
            )
            yield Problem(partition.path, Trouble.MALFORMED, message)


def missing_offsets(end: int, next_base: int) -> str:
    """Return what lies between the end of a segment and the next one; empty if nothing does."""
    if end >= next_base:
        return ""
    last = next_base - 1
    return f"offset {end} is" if last == end else f"offsets {end} to {last} are"


def _end_of(segment: Segment) -> int | None:
    """Return the offset after the last record; None if there is none, or because of damage."""
    log, index = segment.log, segment.files.get(FileKind.OFFSET_INDEX)
    if log is None or log.size_in_bytes == 0:
        return None
    try:
        end = read_log_end(
            log.path, segment.base_offset, index=None if index is None else index.path
        )
    except ChangedError:
        raise
    except (FormatError, OSError):
        return None  # reading the segment reports why
    is_undamaged = end.reason in ("end_of_file", "zeroed_tail") and end.position > 0
    return end.offset if is_undamaged else None
