"""`leader-epoch-checkpoint` of a partition: the offset at which each leader epoch began, as text.

    file  = [ version LF [ count LF row* ] ]
    row   = epoch SP start_offset LF

The format and the rules are those of checkpoint_file; the version is 0. Kafka writes epochs and
offsets in ascending order and reads them in any order, so the order is not checked here.

Mirrors org.apache.kafka.storage.internals.checkpoint.LeaderEpochCheckpointFile. Where it throws,
and this module raises, the broker does not load the partition.
"""

import os
from typing import NamedTuple

from kafka_format import java_text
from kafka_format.checkpoint_file import CheckpointHead, decode_checkpoint, encode_checkpoint
from kafka_format.errors import MEMORY
from kafka_format.file_bytes import read_file_bytes
from kafka_format.primitives import Buffer

MAX_SIZE = 16 * 1024 * 1024
"""Room for half a million changes of the leader, each with the longest numbers."""


class EpochEntry(NamedTuple):
    epoch: int
    start_offset: int


class LeaderEpochCheckpoint(NamedTuple):
    """Rows in the order of the file."""

    entries: tuple[EpochEntry, ...] = ()
    head: CheckpointHead = CheckpointHead.COMPLETE


def decode_leader_epoch_checkpoint(buffer: Buffer, *, path: str = MEMORY) -> LeaderEpochCheckpoint:
    return LeaderEpochCheckpoint(*decode_checkpoint(buffer, _row, "epoch start_offset", path=path))


def _row(parts: list[str]) -> EpochEntry | None:
    if len(parts) != 2:
        return None
    epoch, start_offset = java_text.parse_int(parts[0]), java_text.parse_long(parts[1])
    return None if epoch is None or start_offset is None else EpochEntry(epoch, start_offset)


def encode_leader_epoch_checkpoint(checkpoint: LeaderEpochCheckpoint) -> bytes:
    rows = (f"{entry.epoch} {entry.start_offset}" for entry in checkpoint.entries)
    return encode_checkpoint(rows, checkpoint.head)


def read_leader_epoch_checkpoint(path: str | os.PathLike[str]) -> LeaderEpochCheckpoint:
    """Read `leader-epoch-checkpoint` of a partition. Raises FormatError."""
    data = read_file_bytes(path, limit=MAX_SIZE)
    return decode_leader_epoch_checkpoint(data, path=os.fspath(path))
