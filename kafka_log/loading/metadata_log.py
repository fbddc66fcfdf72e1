"""The snapshots of the metadata log (`__cluster_metadata-0`) at a restart.

    .part, .checkpoint.deleted        deleted
    a snapshot below the log start    deleted
    log start above 0                 requires a snapshot at or above it
    a snapshot ahead of the log       the log is emptied and starts there; older snapshots are
                                      deleted

Mirrors KafkaRaftLog.recoverSnapshots and truncateToLatestSnapshot. Before that the log is loaded
like any other, but always as after an unclean shutdown: every batch is read at every start.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, NamedTuple

from kafka_log.config.log_config import MEBIBYTE, LogConfig
from kafka_log.errors import LogLoadError
from kafka_log.loading.journal import Action
from kafka_log.names import FileKind, FileState, metadata_snapshot_name, parse_file_name

if TYPE_CHECKING:
    from kafka_log.disk.files import Files
    from kafka_log.loading.partition_recovery import LoadedPartition

METADATA_TOPIC_ID = uuid.UUID(int=1)
METADATA_LOG_CONFIG = LogConfig(
    max_message_bytes=8 * MEBIBYTE,
    retention_ms=-1,
    max_transaction_timeout_ms=2**31 - 1,
    producer_id_expiration_ms=2**31 - 1,
)
"""The settings of the metadata log. server.properties does not change them."""
_ENDINGS = tuple(
    FileKind.METADATA_SNAPSHOT.value + state.value
    for state in (FileState.LIVE, FileState.PARTIAL, FileState.DELETED)
)


class SnapshotId(NamedTuple):
    """A snapshot's id. Kafka orders snapshots by epoch first."""

    epoch: int
    offset: int


def recover_metadata_snapshots(loaded: LoadedPartition) -> None:
    """Delete unneeded snapshots, and empty the log if the newest snapshot is ahead of it."""
    retained, dropped = _snapshots(loaded.files, loaded.log_start_offset)
    newest = max(retained, default=None)
    if loaded.log_start_offset > 0 and (newest is None or newest.offset < loaded.log_start_offset):
        raise LogLoadError(
            f"{loaded.files.directory}: found {newest or 'no snapshot'}, expected a snapshot at or "
            f"beyond the log start {loaded.log_start_offset}"
        )
    for name, why in dropped:
        loaded.files.delete_if_exists(name)
        loaded.journal.add(name, Action.DELETE, why)
    latest_epoch = loaded.leader_epoch_cache.latest_epoch or 0
    if newest is not None and (
        newest.epoch > latest_epoch
        or (newest.epoch == latest_epoch and newest.offset > loaded.log_end_offset)
    ):
        why = f"the snapshot at offset {newest.offset}, epoch {newest.epoch} is ahead of the log"
        _truncate_fully(loaded, newest.offset, why)
        _mark_older(loaded, retained, newest)


def _snapshots(
    files: Files, log_start_offset: int
) -> tuple[set[SnapshotId], list[tuple[str, str]]]:
    retained: set[SnapshotId] = set()
    dropped = []
    for name in files.names():
        if not name.endswith(_ENDINGS):
            continue
        parsed = parse_file_name(name)
        if parsed.kind is not FileKind.METADATA_SNAPSHOT:
            raise LogLoadError(
                f"{files.path(name)}: found no offset and epoch, expected those of a snapshot: a "
                "broker does not start with such a name"
            )
        offset, epoch = parsed.offset or 0, parsed.epoch or 0
        if parsed.state is FileState.PARTIAL:
            dropped.append((name, "incomplete snapshot"))
        elif parsed.state is FileState.DELETED:
            dropped.append((name, "marked as deleted before the controller stopped"))
        elif offset < log_start_offset:
            dropped.append((name, f"snapshot below the log start {log_start_offset}"))
        else:
            retained.add(SnapshotId(epoch, offset))
    return retained, dropped


def _truncate_fully(loaded: LoadedPartition, offset: int, why: str) -> None:
    before = set(loaded.files.names())
    loaded.log.truncate_fully_and_start_at(offset)
    after = set(loaded.files.names())
    for name in sorted(before - after):
        marked = name + FileState.DELETED.value
        renamed_to = marked if marked in after else None
        loaded.journal.add(name, Action.DELETE, why, renamed_to=renamed_to)
    for name in sorted(after - before):
        if not name.endswith(FileState.DELETED.value):
            loaded.journal.add(name, Action.WRITE, why)
    loaded.journal.add(FileKind.LEADER_EPOCH_CHECKPOINT.value, Action.WRITE, why)


def _mark_older(loaded: LoadedPartition, retained: set[SnapshotId], newest: SnapshotId) -> None:
    """Rename older snapshots to `.deleted`. A controller unlinks them after a minute."""
    for snapshot in sorted(retained - {newest}):
        name = str(metadata_snapshot_name(snapshot.offset, snapshot.epoch))
        marked = str(metadata_snapshot_name(snapshot.offset, snapshot.epoch, FileState.DELETED))
        loaded.files.rename(name, marked)
        loaded.journal.add(
            name,
            Action.RENAME,
            "older than the snapshot with which the log now starts",
            renamed_to=marked,
        )
