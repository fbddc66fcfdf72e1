"""`.txnindex`: the aborted transactions that end in a segment.

    file   = entry*
    entry  = version i16 (0), producer_id i64, first_offset i64, last_offset i64,
             last_stable_offset i64

An entry means: this producer's transaction has data from `first_offset` on and its ABORT marker at
`last_offset`; when the marker was written, `last_stable_offset` was the last stable offset. Markers
are in the order of the log, so `last_offset` increases strictly. The file is created with its first
entry and is never preallocated.

Decoding stops at the first entry of a version other than 0, or whose last offset is not larger than
the one before; see index_end for what follows the stop. Kafka
(org.apache.kafka.storage.internals.log.TransactionIndex) reads every whole entry, in any order; it
rejects the file if the first byte of an entry is positive, and ignores the second.
"""

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from kafka_format.file_bytes import JAVA_MAX, read_file_bytes
from kafka_format.index_end import IndexParts, Stop, first_refused, index_bytes, split_tail
from kafka_format.index_layout import TRANSACTION_INDEX_ENTRY
from kafka_format.primitives import Buffer

ENTRY_SIZE = TRANSACTION_INDEX_ENTRY.size
VERSION = 0
DTYPE = np.dtype(
    [
        ("version", ">i2"),
        ("producer_id", ">i8"),
        ("first_offset", ">i8"),
        ("last_offset", ">i8"),
        ("last_stable_offset", ">i8"),
    ]
)


class AbortedTransaction(NamedTuple):
    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class TransactionIndexFile(IndexParts):
    """A `.txnindex` as read: its entries, and what follows them."""

    entries: NDArray[np.void]
    """An array of DTYPE: a view of the decoded bytes, not a copy."""
    padding_bytes: int = 0
    """Zero slots that cannot be entries. Kafka never writes any, but file systems do."""
    trailing: bytes = b""
    stop: Stop = Stop.END_OF_FILE

    @classmethod
    def of(cls, entries: Iterable[AbortedTransaction]) -> Self:
        return cls(np.array(list(entries), DTYPE))


def decode_transaction_index_columns(buffer: Buffer) -> NDArray[np.void]:
    """Return every whole slot, whatever it holds: a view, not a copy."""
    return np.frombuffer(buffer, DTYPE, count=len(buffer) // ENTRY_SIZE)


def decode_transaction_index(buffer: Buffer) -> TransactionIndexFile:
    """Split any bytes into entries and the remaining bytes. Never raises."""
    slots = decode_transaction_index_columns(buffer)
    count, reason = _count_entries(slots)
    tail = split_tail(buffer, count * ENTRY_SIZE, ENTRY_SIZE, reason)
    return TransactionIndexFile(slots[:count], tail.padding_bytes, tail.trailing, tail.stop)


def _count_entries(slots: NDArray[np.void]) -> tuple[int, Stop]:
    unknown_version = slots["version"] != VERSION
    out_of_order = np.zeros(len(slots), np.bool_)
    out_of_order[1:] = slots["last_offset"][1:] <= slots["last_offset"][:-1]
    return first_refused(unknown_version, out_of_order, Stop.UNKNOWN_VERSION)


def iter_transaction_index(file: TransactionIndexFile) -> Iterator[AbortedTransaction]:
    return map(
        AbortedTransaction._make,
        TRANSACTION_INDEX_ENTRY.iter_unpack(file.entries.view(np.uint8).data),
    )


def encode_transaction_index(file: TransactionIndexFile) -> bytes:
    return index_bytes(file, DTYPE)


def read_transaction_index(path: str | os.PathLike[str]) -> TransactionIndexFile:
    """Read a `.txnindex` file. Raises FormatError."""
    return decode_transaction_index(read_file_bytes(path, limit=JAVA_MAX))
