"""Check the four offset checkpoints of a log dir against its logs.

After a crash it is normal that the recovery point and the high watermark are below the log end,
that a new partition has no rows yet, and that rows are older than the log start. After a clean stop
the rows are exact.

A partition that was not read has no facts, and its rows are not checked.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.shown_text import name_text
from kafka_log.checkpoints import CHECKPOINT_NAMES, Checkpointed
from kafka_log.checks.facts import NotChecked
from kafka_log.checks.finding import About, Finding
from kafka_log.config.config_def import SettingsError
from kafka_log.inventory.directory import list_directory
from kafka_log.inventory.inventory import CheckpointState
from kafka_log.names import CLUSTER_METADATA_TOPIC, DirectoryKind, FileKind, parse_directory_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kafka_log.checks.facts import AuditedBroker, PartitionFacts
    from kafka_log.disk.files import Files
    from kafka_log.inventory.inventory import LogDir, Partition

RECOVERY_POINT = FileKind.RECOVERY_POINT_CHECKPOINT
LOG_START = FileKind.LOG_START_OFFSET_CHECKPOINT
HIGH_WATERMARK = FileKind.REPLICATION_OFFSET_CHECKPOINT
CLEANER = FileKind.CLEANER_OFFSET_CHECKPOINT
_CONTENTS = {
    **CHECKPOINT_NAMES,
    LOG_START.value: "log start",
    CLEANER.value: "cleaner offset",
}
_WITH_ROWS = (DirectoryKind.PARTITION, DirectoryKind.FUTURE)
_EFFECTS = {
    RECOVERY_POINT: "after an unclean stop every segment is checked",
    LOG_START: "deleted records come back until their segment is deleted",
    HIGH_WATERMARK: "high watermarks begin at the log start, until the leader is known",
    CLEANER: "the cleaner begins at the log start",
}


class _Log(NamedTuple):
    """A log with rows, and where it begins and ends."""

    log_dir: LogDir
    partition: Partition
    start: int
    end: int

    def about(self, kind: FileKind) -> About:
        path = checkpoint_path(self.log_dir, kind)
        return About(path, self.partition.topic, self.partition.partition)


def checkpoint_path(log_dir: LogDir, kind: FileKind) -> str:
    return os.path.join(log_dir.path, kind.value)  # noqa: PTH118  # keeps a leading `./`


def check_checkpoints(
    audited: AuditedBroker, facts: Sequence[PartitionFacts], _files_of: Callable[[str], Files]
) -> Iterator[Finding | NotChecked]:
    """Yield what is wrong with the rows of a broker's checkpoints."""
    by_path = {each.path: each for each in facts}
    for log_dir in audited.broker.log_dirs:
        if log_dir.is_whole:
            yield from _missing_files(audited, log_dir, facts)
        for partition in log_dir.partitions:
            fact = by_path.get(partition.path)
            if fact is None or partition.state not in _WITH_ROWS:
                continue
            if partition.topic == CLUSTER_METADATA_TOPIC:
                continue
            yield from _missing_rows(log_dir, partition)
            yield from _row_findings(audited, log_dir, partition, fact)
    yield from _rows_without_directory(audited)


def _row_findings(
    audited: AuditedBroker, log_dir: LogDir, partition: Partition, fact: PartitionFacts
) -> Iterator[Finding | NotChecked]:
    if not partition.checkpointed:
        return
    end = fact.log_end_offset
    if end is None:
        if partition.segments:
            yield NotChecked("checkpoints", "the end of the log is unknown", partition.path)
            return
        end = partition.log_start_offset or 0  # a log without segments begins empty there
    start = min(end, max(fact.log_start_offset or 0, partition.log_start_offset or 0))
    log = _Log(log_dir, partition, start, end)
    yield from _beyond_the_end(log)
    yield from _below_the_start(audited, log)
    recovery_point = partition.recovery_point
    if log_dir.is_clean and recovery_point is not None and log.start <= recovery_point < end:
        found, expected = f"recovery point {recovery_point}", f"the log end {end}"
        about = log.about(RECOVERY_POINT)
        yield Finding.of("CKP007", about, found, expected, offset=recovery_point)


def _beyond_the_end(log: _Log) -> Iterator[Finding]:
    expected = f"at most the log end {log.end}"
    for kind, rule, missing in (
        (HIGH_WATERMARK, "CKP002", "acknowledged offsets are"),
        (RECOVERY_POINT, "CKP003", "flushed offsets are"),
        (LOG_START, "CKP004", ""),
        (CLEANER, "CKP005", "cleaned offsets are"),
    ):
        offset = log.partition.checkpointed.get(kind, 0)
        if offset > log.end:
            found = f"{_CONTENTS[kind.value]} {offset}"
            if missing:
                found += f": {offset - log.end} {missing} missing"
            yield Finding.of(rule, log.about(kind), found, expected, offset=offset)


def _below_the_start(audited: AuditedBroker, log: _Log) -> Iterator[Finding]:
    kinds = [RECOVERY_POINT, HIGH_WATERMARK] if log.log_dir.is_clean else []
    if _is_only_compacted(audited, log.partition.topic):
        kinds.append(CLEANER)
    for kind in kinds:
        offset = log.partition.checkpointed.get(kind)
        if offset is not None and offset < log.start:
            found = f"{_CONTENTS[kind.value]} {offset}"
            expected = f"at least the log start {log.start}"
            yield Finding.of("CKP006", log.about(kind), found, expected, offset=offset)


def _is_only_compacted(audited: AuditedBroker, topic: str) -> bool:
    """Whether retention leaves the log start where it is, as far as the settings are known."""
    if audited.broker.metadata is None:
        return False
    try:
        config = audited.settings.for_topic(topic)
    except SettingsError:
        return False
    return config.compact and not config.delete


def _missing_rows(log_dir: LogDir, partition: Partition) -> Iterator[Finding]:
    if not log_dir.is_clean or partition.state is not DirectoryKind.PARTITION:
        return
    for kind in (RECOVERY_POINT, HIGH_WATERMARK):
        checkpoint = log_dir.checkpoints.get(kind)
        if checkpoint is None or kind in partition.checkpointed:
            continue
        if checkpoint.state is CheckpointState.WITH_ROWS:
            about = About(checkpoint_path(log_dir, kind), partition.topic, partition.partition)
            found = f"no row for {name_text(str(partition.name))}"
            yield Finding.of("CKP010", about, found, f"a {_CONTENTS[kind.value]}")


def _missing_files(
    audited: AuditedBroker, log_dir: LogDir, facts: Sequence[PartitionFacts]
) -> Iterator[Finding]:
    states = {kind: each.state for kind, each in log_dir.checkpoints.items()}
    missing = [kind for kind, state in states.items() if state is CheckpointState.MISSING]
    if len(missing) == len(states) and not log_dir.is_clean:
        return  # a new log dir, one of a controller, or only some files of one
    for kind in missing:
        if kind is LOG_START and (log_dir.meta is None or log_dir.meta.cluster_id is None):
            continue  # brokers before 0.11 have no such file
        if kind is CLEANER and not _uses_cleaner(audited, log_dir, facts):
            continue
        about = About(checkpoint_path(log_dir, kind))
        restart = f"The broker creates an empty file: {_EFFECTS[kind]}."
        yield Finding.of("CKP011", about, "no file", "an offset checkpoint", restart=restart)


def _uses_cleaner(audited: AuditedBroker, log_dir: LogDir, facts: Sequence[PartitionFacts]) -> bool:
    """Whether another log dir has the cleaner's checkpoint, or a log here was compacted."""
    for each in audited.broker.log_dirs:
        checkpoint = each.checkpoints.get(CLEANER)
        if checkpoint is not None and checkpoint.state is not CheckpointState.MISSING:
            return True
    here = {each.path for each in log_dir.partitions}
    return any(
        _is_only_compacted(audited, fact.topic)
        for fact in facts
        if fact.path in here and any(segment.has_gaps for segment in fact.segments)
    )


# --- rows of partitions that are not on disk ------------------------------------------------------


def _rows_without_directory(audited: AuditedBroker) -> Iterator[Finding]:
    directories = Directories(audited.broker.log_dirs)
    for log_dir in audited.broker.log_dirs:
        if not log_dir.is_whole:
            continue
        rows: dict[tuple[str, int], dict[FileKind, int]] = {}
        for kind, topic, number, offset in log_dir.rows_without_directory():
            if not directories.has_any(topic, number):
                rows.setdefault((topic, number), {})[kind] = offset
        for (topic, number), offsets in sorted(rows.items()):
            yield _row_without_directory(audited, log_dir, (topic, number), offsets)


def _row_without_directory(
    audited: AuditedBroker, log_dir: LogDir, place: tuple[str, int], offsets: dict[FileKind, int]
) -> Finding:
    rows = Checkpointed(
        *place,
        recovery_point=offsets.get(RECOVERY_POINT),
        high_watermark=offsets.get(HIGH_WATERMARK),
    )
    promised = rows.missing_data(0)
    is_missing = promised is not None and _may_be_assigned(audited, *place)
    rule = "CKP008" if is_missing else "CKP009"
    kind = promised.kind if promised is not None else next(iter(offsets))
    found = ", ".join(f"{_CONTENTS[each.value]} {offset}" for each, offset in offsets.items())
    about = About(checkpoint_path(log_dir, kind), *place)
    return Finding.of(
        rule,
        about,
        f"{found}, and no directory",
        "a directory of the partition",
        offset=offsets[kind],
    )


def _may_be_assigned(audited: AuditedBroker, topic: str, number: int) -> bool:
    """Whether the metadata assigns a partition to this broker, or is unknown."""
    metadata = audited.broker.metadata
    if metadata is None or metadata.why_incomplete or audited.broker.node_id is None:
        return True
    topic_id = metadata.topic_ids.get(topic)
    replicas = () if topic_id is None else metadata.replicas.get((topic_id, number), ())
    return audited.broker.node_id in replicas


class Directories:
    """The partition directories on the disks of a broker, whether they were selected or not."""

    def __init__(self, log_dirs: Sequence[LogDir]) -> None:
        names = [
            parse_directory_name(entry.name)
            for log_dir in log_dirs
            for entry in list_directory(log_dir.path).entries
        ]
        self._places = {(each.topic, each.partition) for each in names}
        self._replicas = {(each.topic, each.partition) for each in names if each.kind in _WITH_ROWS}
        self._cut = [each for each in names if each.topic_may_be_cut]

    def has_any(self, topic: str, number: int) -> bool:
        """Whether there is a directory, even one that is marked as deleted or stray."""
        return (topic, number) in self._places or any(
            each.partition == number and topic.startswith(each.topic) for each in self._cut
        )

    def has_replica(self, topic: str, number: int) -> bool:
        return (topic, number) in self._replicas
