"""Replay a metadata log: the newest usable snapshot, then the records of the log after it.

    replayed = replay_metadata(directory, names, until=Until(offset=100))
    replayed.image, replayed.end_offset, replayed.failure

A metadata transaction applies completely when it is ended, or not at all. Replay stops at the first
record that a broker would refuse, and at damage; `failure` says where, and the image is that of the
records before. `committed_offset` is as far as this disk proves that the quorum has committed: up
to the newest snapshot, or everything if there is one voter. Later records may be an uncommitted
tail.

Mirrors org.apache.kafka.image.loader.MetadataLoader and MetadataBatchLoader.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

from kafka_format.access import open_evidence
from kafka_format.control import ControlRecordType, decode_control_record
from kafka_format.errors import FormatError
from kafka_format.legacy import LegacyBatch
from kafka_format.log_file import LogFile
from kafka_format.message import Message
from kafka_format.metadata_records import MetadataRecord, decode_metadata_record
from kafka_log.image.metadata_image import MetadataImage, ReplayError
from kafka_log.names import FileKind, FileState, parse_file_name

if TYPE_CHECKING:
    import uuid
    from collections.abc import Callable, Iterable, Iterator

    from kafka_format.record import Record
    from kafka_log.names import FileName

_END = 2**63 - 1


class Until(NamedTuple):
    """The last record to apply, by offset and by timestamp. By default there is no limit."""

    offset: int = _END
    timestamp: int = _END

    def includes(self, position: Position) -> bool:
        return position.offset <= self.offset and position.timestamp <= self.timestamp


class Position(NamedTuple):
    """Where a record is in the log."""

    offset: int
    timestamp: int
    epoch: int
    """The epoch of the controller that wrote it."""


TO_THE_END = Until()


class Failure(NamedTuple):
    """Why a file was not read to its end, and at which record."""

    path: str
    reason: str
    offset: int | None = None
    is_unreadable: bool = False
    """Whether the file could not be read, which says nothing about its content."""


@dataclass(slots=True, kw_only=True)
class Voter:
    """A controller that votes, according to the log or quorum-state."""

    node_id: int
    directory_id: uuid.UUID | None = None
    endpoints: tuple[tuple[str, str, int], ...] = ()


@dataclass(slots=True, kw_only=True)
class ReplayedMetadata:
    """An image, and how far it goes."""

    path: str
    image: MetadataImage = field(default_factory=MetadataImage)
    snapshot: str | None = None
    """The name of the snapshot that it begins with."""
    snapshot_end_offset: int = 0
    """The end offset of the newest snapshot on this disk that could be read."""
    end_offset: int = 0
    """The offset after the last record that was applied."""
    last: Position | None = None
    """The last record that was applied."""
    kraft_version: int = 0
    voters: dict[int, Voter] = field(default_factory=dict)
    pending: int = 0
    """Records of a transaction that has not ended, which are not applied."""
    failure: Failure | None = None
    unused_snapshots: list[Failure] = field(default_factory=list)
    """Snapshots that could not be used; an older one was."""

    @property
    def committed_offset(self) -> int:
        """Return the offset before which everything is known to be committed."""
        if len(self.voters) == 1:
            return self.end_offset
        return min(self.snapshot_end_offset, self.end_offset)


def replay_metadata(
    directory: str,
    names: Iterable[str],
    *,
    until: Until = TO_THE_END,
    from_oldest: bool = False,
    skip_refused: bool = False,
    observe: Callable[[MetadataImage, MetadataRecord, Position], None] | None = None,
) -> ReplayedMetadata:
    """Replay `__cluster_metadata-0`, given the names of its files.

    With `skip_refused`, replay goes on after a record that a broker refuses.

    With `from_oldest`, replay starts at the oldest snapshot that the log continues, so that
    `observe`, which is called before each record of the log is applied, sees all changes.
    """
    parsed = [parse_file_name(name) for name in names]
    snapshots = _live(parsed, FileKind.METADATA_SNAPSHOT)
    logs = _live(parsed, FileKind.LOG)
    first = logs[0].offset or 0 if logs else _END
    usable = [name for name in snapshots if (name.offset or 0) <= until.offset + 1]
    if from_oldest:
        continued = [name for name in usable if (name.offset or 0) >= first]
        ordered = [] if first == 0 else continued or usable[-1:]
    else:
        ordered = usable[::-1]
    replay = _first_readable(_Replay(directory, until, skip_refused), ordered)
    replay.found.snapshot_end_offset = max((name.offset or 0 for name in snapshots), default=0)
    replay.observe = observe
    for name in logs:
        if replay.is_done:
            break
        replay.file(name)
    replay.found.pending = len(replay.transaction or ())
    return replay.found


def _first_readable(start: _Replay, snapshots: list[FileName]) -> _Replay:
    """Return a replay that begins with the first snapshot that can be read completely."""
    unused: list[Failure] = []
    for name in snapshots:
        replay = start.another()
        replay.snapshot(name)
        if replay.found.failure is None and not replay.is_later:
            start = replay
            break
        if replay.found.failure is not None:
            unused.append(replay.found.failure)
    start.found.unused_snapshots = unused
    return start


def _live(names: list[FileName], kind: FileKind) -> list[FileName]:
    found = [
        name
        for name in names
        if name.kind is kind and name.state is FileState.LIVE and name.is_canonical
    ]
    return sorted(found, key=lambda name: (name.offset or 0, name.epoch or 0))


class _Replay:
    def __init__(self, directory: str, until: Until, skip_refused: bool) -> None:
        self.found = ReplayedMetadata(path=directory)
        self.transaction: list[MetadataRecord] | None = None
        """The records of the open transaction; None outside of one."""
        self.observe: Callable[[MetadataImage, MetadataRecord, Position], None] | None = None
        self.is_later = False
        """Whether a record after the limit was met."""
        self._directory = directory
        self._until = until
        self._skip_refused = skip_refused
        self._in_snapshot = False

    def another(self) -> _Replay:
        return _Replay(self._directory, self._until, self._skip_refused)

    @property
    def is_done(self) -> bool:
        return self.is_later or self.found.failure is not None

    def snapshot(self, name: FileName) -> None:
        self._in_snapshot = True
        self.file(name)
        self._in_snapshot = False
        self.found.snapshot = str(name)
        self.found.end_offset = name.offset or 0

    def file(self, name: FileName) -> None:
        path = os.path.join(self._directory, str(name))  # noqa: PTH118  # keeps a leading `./`
        try:
            with open_evidence(path) as file:
                log = LogFile(cast("BinaryIO", file), path=path)
                self._batches(log)
                end = log.end
        except FormatError as error:
            self.found.failure = Failure(path, str(error))
            return
        except OSError as error:
            reason = error.strerror or str(error)
            self.found.failure = Failure(path, reason, is_unreadable=True)
            return
        if not self.is_done and end is not None and end.reason == "corrupt_batch":
            self.found.failure = Failure(path, str(end.error))

    def _batches(self, log: LogFile) -> None:
        for batch in log.batches():
            batch.ensure_valid()
            if isinstance(batch, LegacyBatch):
                continue
            header = batch.header
            if not self._in_snapshot and header.last_offset < self.found.end_offset:
                continue
            for record in batch.iter_records():
                position = Position(record.offset, record.timestamp, header.partition_leader_epoch)
                if self._in_snapshot:
                    self.is_later |= position.timestamp > self._until.timestamp
                elif position.offset < self.found.end_offset:
                    continue
                elif not self._until.includes(position):
                    self.is_later = True
                    return
                try:
                    self._record(record, position, is_control=header.is_control)
                except ReplayError as error:
                    self.found.failure = Failure(log.path, str(error), record.offset)
                    return
                except FormatError as error:
                    reason = str(error.moved(log.path, batch.position))
                    self.found.failure = Failure(log.path, reason, record.offset)
                    return
            if not self._in_snapshot:
                self.found.end_offset = header.last_offset + 1

    def _record(self, record: Record, position: Position, *, is_control: bool) -> None:
        if is_control:
            self._control(record)
        else:
            self._metadata(decode_metadata_record(record.value), position)
        if not self._in_snapshot:
            self.found.end_offset = position.offset + 1
        self.found.last = position

    def _metadata(self, record: MetadataRecord, position: Position) -> None:
        if record.name == "BeginTransactionRecord":
            self.transaction = []
        elif record.name == "AbortTransactionRecord":
            self.transaction = None
        elif record.name == "EndTransactionRecord":
            ended, self.transaction = self.transaction or [], None
            for each in ended:
                self._apply(each, position)
        elif self.transaction is not None:
            self.transaction.append(record)
        else:
            self._apply(record, position)

    def _apply(self, record: MetadataRecord, position: Position) -> None:
        if self.observe is not None:
            self.observe(self.found.image, record, position)
        try:
            self.found.image.apply(record)
        except ReplayError:
            if not self._skip_refused:
                raise

    def _control(self, record: Record) -> None:
        decoded = decode_control_record(record.key, record.value)
        value = decoded.value
        if not isinstance(value, Message):
            return
        if decoded.key.type == ControlRecordType.KRAFT_VERSION:
            self.found.kraft_version = value.k_raft_version
        elif decoded.key.type == ControlRecordType.KRAFT_VOTERS:
            self.found.voters = {voter.node_id: voter for voter in _voters(value)}
        elif decoded.key.type == ControlRecordType.LEADER_CHANGE and not self.found.kraft_version:
            self.found.voters = {
                each.voter_id: Voter(node_id=each.voter_id) for each in value.voters
            }


def _voters(value: Message) -> Iterator[Voter]:
    for each in value.voters:
        yield Voter(
            node_id=each.voter_id,
            directory_id=each.voter_directory_id,
            endpoints=tuple((point.name, point.host, point.port) for point in each.endpoints),
        )
