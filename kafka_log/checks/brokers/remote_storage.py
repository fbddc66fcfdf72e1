"""Check tiered storage: the segments that the records of __remote_log_metadata say are there.

    RMT001  a copy that never finished         another one began later, or an hour has passed
    RMT002  a deletion that never finished     likewise
    RMT003  an event that Kafka drops
    RMT004  a gap between readable segments    from the log start on, if the partition is here
    RMT005  readable segments that overlap
    RMT006  a segment outside the lineage      only if the partition is here
    RMT007  the deletion of a partition that never finished

Remote storage itself is not read. If the topic has lost its first records, the events of a segment
may be incomplete: then unknown segments and gaps are not findings.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.errors import FormatError
from kafka_format.file_bytes import JAVA_MAX
from kafka_format.leader_epoch_file import decode_leader_epoch_checkpoint
from kafka_format.remote_log_metadata import RemoteLogSegmentState
from kafka_format.shown_text import shortened
from kafka_log.checks.facts import Depth, NotChecked
from kafka_log.checks.finding import About, Finding
from kafka_log.config.log_config import MINUTE_MS
from kafka_log.coordinators.remote_segments import (
    REMOTE_LOG_METADATA_TOPIC,
    Lineage,
    RemoteState,
    read_events,
)
from kafka_log.names import DirectoryKind, FileKind

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafka_log.checks.brokers.broker_checks import FilesOf
    from kafka_log.checks.facts import AuditedBroker, PartitionFacts
    from kafka_log.coordinators.remote_segments import (
        RemotePartition,
        RemoteSegment,
    )
    from kafka_log.inventory.inventory import Partition

_PATIENCE_MS = 60 * MINUTE_MS
"""A copy or deletion may take this long, by the time of the last event."""


class _Local(NamedTuple):
    """A partition on these disks that may have segments in tiered storage."""

    log_start_offset: int
    log_end_offset: int | None
    lineage: Lineage | None


def check_remote_storage(
    audited: AuditedBroker, facts: Sequence[PartitionFacts], files_of: FilesOf
) -> Iterator[Finding | NotChecked]:
    """Yield the findings of every partition of __remote_log_metadata here."""
    live = [
        partition
        for log_dir in audited.broker.log_dirs
        for partition in log_dir.partitions
        if partition.state is DirectoryKind.PARTITION
    ]
    here = {
        (each.topic_id, each.partition): each
        for each in live
        if each.topic_id is not None and each.partition is not None
    }
    shown = {each.path: each for each in facts}
    metadata = audited.broker.metadata
    is_here = any(each.topic == REMOTE_LOG_METADATA_TOPIC for each in live)
    if not is_here and metadata and REMOTE_LOG_METADATA_TOPIC in metadata.topic_ids:
        yield NotChecked("tiered storage", f"no partition of {REMOTE_LOG_METADATA_TOPIC} here")
    if is_here and audited.depth is Depth.HEADERS:
        yield NotChecked("tiered storage", "records are not decoded with headers only")
        return
    for partition in live:
        if partition.topic != REMOTE_LOG_METADATA_TOPIC:
            continue
        about = About(partition.path, partition.topic, partition.partition)
        is_complete = _is_complete(partition, shown.get(partition.path))
        state = RemoteState()
        try:
            yield from _replay(state, partition, files_of, about, is_complete=is_complete)
        except (FormatError, OSError) as error:
            yield NotChecked("tiered storage", str(error), partition.path)
            continue
        for key, remote in state.partitions.items():
            local = _local(here.get(key), shown, files_of)
            yield from _unfinished(remote, state.last_timestamp, about)
            yield from _between(remote, local, about, is_complete=is_complete)
            if local is not None:
                yield from _outside(remote, local, about)


def _is_complete(partition: Partition, facts: PartitionFacts | None) -> bool:
    """Return whether the log has every record since its topic was created."""
    if partition.log_start_offset:
        return False
    return facts is None or not any(each.is_damaged for each in facts.segments)


def _replay(
    state: RemoteState,
    partition: Partition,
    files_of: FilesOf,
    about: About,
    *,
    is_complete: bool,
) -> Iterator[Finding]:
    start = partition.log_start_offset or 0
    for offset, event in read_events(files_of(partition.path), log_start_offset=start):
        refusal = state.apply(offset, event)
        if refusal is not None and (is_complete or not refusal.is_unknown_segment):
            expected = "an event that follows from those before it"
            yield Finding.of("RMT003", about, refusal.reason, expected, offset=offset)


def _local(
    partition: Partition | None, shown: dict[str, PartitionFacts], files_of: FilesOf
) -> _Local | None:
    if partition is None:
        return None
    facts = shown.get(partition.path)
    lineage = None
    with suppress(FormatError, OSError):
        data = files_of(partition.path).read(FileKind.LEADER_EPOCH_CHECKPOINT.value, limit=JAVA_MAX)
        entries = decode_leader_epoch_checkpoint(data).entries
        lineage = Lineage({each.epoch: each.start_offset for each in entries})
    end = None if facts is None else facts.log_end_offset
    # The log start with tiered storage is in its checkpoint: the first segment may be later.
    row = partition.checkpointed.get(FileKind.LOG_START_OFFSET_CHECKPOINT)
    return _Local(row or 0, end, lineage)


# ---------------------------------------------------------------------------- of one partition


def _unfinished(remote: RemotePartition, last_timestamp: int, about: About) -> Iterator[Finding]:
    for segment in remote.segments.values():
        is_late = last_timestamp - segment.event_timestamp >= _PATIENCE_MS
        if segment.state is RemoteLogSegmentState.COPY_SEGMENT_STARTED:
            rule, what, after = "RMT001", "copy", remote.last_copy
        elif segment.state is RemoteLogSegmentState.DELETE_SEGMENT_STARTED:
            rule, what, after = "RMT002", "deletion", remote.last_deletion
        else:
            continue
        if after > segment.log_offset or is_late:
            found = f"{segment.state.name} of {_shown(segment)}, by broker {segment.broker_id}"
            yield _finding(rule, about, remote, segment, found, f"the end of the {what}")
    if remote.delete_state is not None:
        found = f"{remote.delete_state.name}, {len(remote.segments)} segments left"
        expected = "DELETE_PARTITION_FINISHED"
        entry = _entry(remote)
        offset = remote.last_offset
        yield Finding.of("RMT007", about, found, expected, offset=offset, entry=entry)


def _between(
    remote: RemotePartition, local: _Local | None, about: About, *, is_complete: bool
) -> Iterator[Finding]:
    """Yield gaps and overlaps: Kafka copies a log without either, within one lineage."""
    lineage = None if local is None else local.lineage
    start = 0 if local is None else local.log_start_offset
    finished = remote.finished()
    inside = [each for each in finished if lineage is None or lineage.has(each)]
    next_offset: int | None = None
    for segment in inside:
        if next_offset is None or segment.start_offset == next_offset:
            pass
        elif segment.start_offset < next_offset:
            found = f"{_shown(segment)}"
            expected = f"offset {next_offset}, after the segment before it"
            yield _finding("RMT005", about, remote, segment, found, expected)
        elif is_complete and segment.start_offset > start:
            found = f"offsets {max(start, next_offset)} to {segment.start_offset - 1} in no segment"
            expected = f"a segment at offset {next_offset}"
            yield _finding("RMT004", about, remote, segment, found, expected)
        next_offset = max(next_offset or 0, segment.end_offset + 1)


def _outside(remote: RemotePartition, local: _Local, about: About) -> Iterator[Finding]:
    """Yield segments of other lineages. A replica that lags does not know the newest epochs."""
    if local.lineage is None or local.log_end_offset is None:
        return
    for segment in remote.finished():
        is_known = segment.end_offset < local.log_end_offset
        is_needed = segment.end_offset >= local.log_start_offset
        if is_known and is_needed and not local.lineage.has(segment):
            epochs = ", ".join(f"{epoch} from {at}" for epoch, at in segment.leader_epochs.items())
            found = f"{_shown(segment)} of epochs {shortened(epochs)}"
            expected = "the epochs of leader-epoch-checkpoint"
            yield _finding("RMT006", about, remote, segment, found, expected)


def _finding(
    rule: str,
    about: About,
    remote: RemotePartition,
    segment: RemoteSegment,
    found: str,
    expected: str,
) -> Finding:
    entry = f"{_entry(remote)}, segment {segment.segment_id}"
    return Finding.of(rule, about, found, expected, offset=segment.log_offset, entry=entry)


def _shown(segment: RemoteSegment) -> str:
    return f"offsets {segment.start_offset} to {segment.end_offset}"


def _entry(remote: RemotePartition) -> str:
    return f"{shortened(remote.topic)}-{remote.partition}"
