"""Batches and their records as columns, as the cleaner reads them: blocks of chunks, in pieces.

A chunk is what Kafka's cleaner reads at once. It matters only for the statistics of a full map and
for the files that a failed round leaves, so many chunks are read at once, and their ends noted.
"""

from __future__ import annotations

import copy
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_format.attributes import CONTROL
from kafka_format.columnar import headers
from kafka_format.log_file import batch_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kafka_format.columnar.headers import BatchColumns
    from kafka_format.columnar.record_columns import RecordColumns
    from kafka_format.columnar.records import RecordScan
    from kafka_format.log_file import AnyBatch

    Int64s = npt.NDArray[np.int64]
    Uint8s = npt.NDArray[np.uint8]


def are_special(batches: BatchColumns) -> npt.NDArray[np.bool_]:
    """Return which batches are control batches or have magic 0 or 1."""
    special: npt.NDArray[np.bool_] = batches.is_legacy | (batches.attributes & CONTROL != 0)
    return special


class Block(NamedTuple):
    """Whole chunks; valid until the next block is read."""

    path: str
    data: Uint8s
    base: int
    """The position of the block in the file."""
    batches: BatchColumns
    """Batches, with positions in the file."""
    chunk_ends: Int64s
    """Per chunk: the number of batches before its end."""

    @property
    def size_in_bytes(self) -> int:
        return self.end_of(len(self.batches)) - self.base

    def end_of(self, batches: int) -> int:
        """Return the position in the file at which the first `batches` batches end."""
        if not batches:
            return self.base
        last = batches - 1
        return int(self.batches.position[last] + self.batches.size_in_bytes[last])

    def chunk_start(self, batch: int) -> int:
        """Return the position in the file at which the chunk of a batch begins."""
        chunk = int(np.searchsorted(self.chunk_ends, batch, side="right"))
        return self.end_of(int(self.chunk_ends[chunk - 1]) if chunk else 0)

    def batch(self, i: int) -> AnyBatch:
        """Return a batch as the row decoder does."""
        position = int(self.batches.position[i])
        start = position - self.base
        raw = self.data[start : start + int(self.batches.size_in_bytes[i])].data
        return batch_of(raw, int(self.batches.magic[i]), self.path, position)

    def ensure_valid(self) -> None:
        """Raise for the first wrong checksum."""
        piece = headers.Piece(self.data, self.base, self.batches)
        kernels, is_compiled = headers.kernels_for(compiled=None)
        self.batches.computed_crc = piece.checksums(kernels, compiled=is_compiled)
        for i in np.flatnonzero(~self.batches.is_valid)[:1].tolist():
            self.batch(i).ensure_valid()

    def pieces(self, scan: RecordScan) -> Iterator[BlockPiece]:
        first = 0
        for records in scan.columns(headers.Piece(self.data, self.base, self.batches)):
            yield BlockPiece(self, records, first)
            first += len(records.batches)


class BlockPiece:
    """Batches and their records; those of batch i are the rows from edges[i] to edges[i + 1]."""

    def __init__(self, block: Block, records: RecordColumns, first_batch: int) -> None:
        self.block = block
        self.records = records
        self.first_batch = first_batch
        """The number of its first batch in the block."""

    def __len__(self) -> int:
        return len(self.records.batches)

    def __repr__(self) -> str:
        return f"BlockPiece({self.records!r})"

    @cached_property
    def edges(self) -> Int64s:
        edges = np.zeros(len(self) + 1, np.int64)
        np.cumsum(self.records.counts, out=edges[1:])
        return edges

    @cached_property
    def batches(self) -> list[AnyBatch]:
        return [self.batch(i) for i in range(len(self))]

    @cached_property
    def by_rows(self) -> npt.NDArray[np.bool_]:
        """Which batches are decided on record by record: control, magic 0 and 1, damaged."""
        by_rows = are_special(self.records.batches)
        for damage in self.records.damage:
            by_rows[damage.batch] = True
        return by_rows

    def batch(self, i: int) -> AnyBatch:
        return self.block.batch(self.first_batch + i)

    def detached(self) -> BlockPiece:
        """Return a copy whose columns stay valid; the bytes of keys and values do not."""
        records = copy.copy(self.records)
        records.longs, records.ints = records.longs.copy(), records.ints.copy()
        return BlockPiece(self.block, records, self.first_batch)

    def first(self, count: int) -> BlockPiece:
        """Return only the first batches."""
        if count == len(self):
            return self
        return BlockPiece(self.block, self.records.first(count), self.first_batch)
