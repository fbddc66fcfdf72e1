"""Batches and their records as columns, as the cleaner reads them: blocks of chunks, in pieces.

A chunk is what Kafka's cleaner reads at once. It shows only in the statistics of a map that fills
up and in what a round that failed leaves, so here many are read at once, and their ends noted.
"""

from __future__ import annotations

import copy
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_format.attributes import CONTROL
from kafka_format.batch import BatchHeader, RecordBatch
from kafka_format.columnar import headers
from kafka_format.errors import FormatError
from kafka_format.legacy import LegacyBatch, decode_legacy_header

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kafka_format.columnar.headers import BatchColumns
    from kafka_format.columnar.records import RecordColumns, RecordScan
    from kafka_format.log_file import AnyBatch

    Int64s = npt.NDArray[np.int64]
    Uint8s = npt.NDArray[np.uint8]


def are_special(batches: BatchColumns) -> npt.NDArray[np.bool_]:
    """Control batches, and those of magic 0 and 1."""
    special: npt.NDArray[np.bool_] = batches.is_legacy | (batches.attributes & CONTROL != 0)
    return special


class Block(NamedTuple):
    """Whole chunks; good until the next block is read."""

    path: str
    data: Uint8s
    base: int
    """Where they begin in the file."""
    batches: BatchColumns
    """Positions are those in the file."""
    chunk_ends: Int64s
    """Of each chunk, how many batches lie before its end."""

    @property
    def size_in_bytes(self) -> int:
        return self.end_of(len(self.batches)) - self.base

    def end_of(self, batches: int) -> int:
        """Where so many batches end in the file."""
        if not batches:
            return self.base
        last = batches - 1
        return int(self.batches.position[last] + self.batches.size_in_bytes[last])

    def chunk_start(self, batch: int) -> int:
        """Where the chunk of a batch begins in the file."""
        chunk = int(np.searchsorted(self.chunk_ends, batch, side="right"))
        return self.end_of(int(self.chunk_ends[chunk - 1]) if chunk else 0)

    def batch(self, i: int) -> AnyBatch:
        """One as the row decoder has it."""
        position = int(self.batches.position[i])
        start = position - self.base
        raw = self.data[start : start + int(self.batches.size_in_bytes[i])].data
        if not self.batches.is_legacy[i]:
            return RecordBatch(BatchHeader.unpack(raw), self.path, position, raw)
        try:
            header = decode_legacy_header(raw)
        except FormatError as error:
            raise error.moved(self.path, position) from None
        return LegacyBatch(header, self.path, position, raw)

    def ensure_valid(self) -> None:
        """Every checksum is right; else what the first wrong one is."""
        piece = headers.Piece(self.data, self.base, self.batches)
        kernels, is_compiled = headers.kernels_for(compiled=None)
        self.batches.computed_crc = piece.checksums(kernels, compiled=is_compiled)
        for i in np.flatnonzero(~self.batches.is_valid)[:1].tolist():
            self.batch(i).ensure_valid()

    def pieces(self, scan: RecordScan) -> Iterator[Piece]:
        first = 0
        for records in scan.columns(headers.Piece(self.data, self.base, self.batches)):
            yield Piece(self, records, first)
            first += len(records.batches)


class Piece:
    """Batches and their records; those of batch i are the rows from edges[i] to edges[i + 1]."""

    def __init__(self, block: Block, records: RecordColumns, first_batch: int) -> None:
        self.block = block
        self.records = records
        self.first_batch = first_batch
        """Its place in the block."""

    def __len__(self) -> int:
        return len(self.records.batches)

    def __repr__(self) -> str:
        return f"Piece({self.records!r})"

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
        """Batches that are judged record by record: control, magic 0 and 1, damaged ones."""
        by_rows = are_special(self.records.batches)
        for damage in self.records.damage:
            by_rows[damage.batch] = True
        return by_rows

    def batch(self, i: int) -> AnyBatch:
        return self.block.batch(self.first_batch + i)

    def detached(self) -> Piece:
        """One whose columns stay good, but not the bytes that keys and values lie in."""
        records = copy.copy(self.records)
        records.longs, records.ints = records.longs.copy(), records.ints.copy()
        return Piece(self.block, records, self.first_batch)

    def first(self, count: int) -> Piece:
        """Return only the first batches."""
        if count == len(self):
            return self
        return Piece(self.block, self.records.first(count), self.first_batch)
