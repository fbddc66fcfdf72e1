"""Edits of a partition directory that leave everything else correct."""

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from kafka_format.checksum import crc32c
from kafka_format.producer_snapshot import (
    ProducerSnapshotEntry,
    ProducerSnapshotFile,
    encode_producer_snapshot,
    iter_producer_snapshot,
    read_producer_snapshot,
)
from kafka_format.transaction_index import (
    AbortedTransaction,
    TransactionIndexFile,
    encode_transaction_index,
    iter_transaction_index,
    read_transaction_index,
)

CRC_AT, CRC_FROM = 17, 21
PRODUCER_ID_AT, PRODUCER_EPOCH_AT, BASE_SEQUENCE_AT = 43, 51, 53
CONTROL_VALUE_AT = 61 + 10
"""Where the value of a usual marker begins: version, coordinator epoch."""


def named(log: Path, offset: int, suffix: str) -> Path:
    return log / f"{offset:020d}{suffix}"


def batches_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Yield each batch of magic 2 with its position."""
    data, position = path.read_bytes(), 0
    while position + 12 <= len(data):
        size = 12 + struct.unpack_from(">i", data, position + 8)[0]
        yield position, data[position : position + size]
        position += size


def edit_batch(path: Path, base_offset: int, edit: Callable[[bytearray], None]) -> None:
    """Change the batch that begins at an offset, and correct its checksum."""
    for position, batch in batches_of(path):
        if struct.unpack_from(">q", batch)[0] == base_offset:
            changed = bytearray(batch)
            edit(changed)
            struct.pack_into(">I", changed, CRC_AT, crc32c(bytes(changed[CRC_FROM:])))
            data = path.read_bytes()
            path.write_bytes(data[:position] + changed + data[position + len(batch) :])
            return
    raise AssertionError(f"{path}: no batch begins at {base_offset}")


def segment_of(log: Path, offset: int) -> Path:
    """Return the `.log` that contains an offset."""
    return max(path for path in log.glob("*.log") if int(path.stem) <= offset)


def edit_index(
    path: Path, edit: Callable[[list[AbortedTransaction]], list[AbortedTransaction]]
) -> None:
    entries = edit(list(iter_transaction_index(read_transaction_index(path))))
    path.write_bytes(encode_transaction_index(TransactionIndexFile.of(entries)))


def edit_snapshot(
    path: Path, edit: Callable[[list[ProducerSnapshotEntry]], list[ProducerSnapshotEntry]]
) -> None:
    entries = edit(list(iter_producer_snapshot(read_producer_snapshot(path))))
    path.write_bytes(encode_producer_snapshot(replace(ProducerSnapshotFile.of(entries))))
