"""Find the commits that a later commit for the same key replaces, without decoding any.

    latest = LatestCommits()
    for columns in read_columns(files): latest.put(columns)        the first pass
    for columns in read_columns(files): latest.replaced(columns)   a mask, in the second pass

Only commits outside of transactions count, with a value: one of these replaces an earlier one
whatever is between them, so that leaving the earlier one out changes nothing at the end. (But for
one refusal: a coordinator does not accept a share group where a commit has made a simple group.)

The map holds a limited number of keys; if it is full, fewer commits are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from kafka_format.attributes import CONTROL
from kafka_format.columnar import kernels as k
from kafka_log.cleaner.columns.key_table import KeyTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kafka_format.columnar.record_columns import RecordColumns
    from kafka_log.cleaner.columns.blocks import BlockPiece

    Mask = npt.NDArray[np.bool_]
    Int64s = npt.NDArray[np.int64]

_MAP_BYTES = 128 * 1024 * 1024
"""As log.cleaner.dedupe.buffer.size: more than five million keys."""
_HEAD = 4
"""The type, and the length of the group id."""
_NOTHING = np.zeros(1, np.uint8)


class _Rows(NamedTuple):
    data: Any
    longs: Any
    ints: Any

    def __len__(self) -> int:
        return int(self.longs.shape[1])


class _Piece(NamedTuple):
    """What KeyTable needs of a piece: here, one batch with all rows."""

    records: _Rows
    edges: Int64s


class LatestCommits:
    """The offset of the last commit of each key."""

    def __init__(self, memory: int = _MAP_BYTES) -> None:
        self._table = KeyTable(memory)

    def put(self, columns: RecordColumns) -> None:
        """Add the commits of a piece."""
        piece, _ = _commits(columns)
        self._table.put_piece(piece, self._table.hash(piece), _NOTHING, 0)

    def replaced(self, columns: RecordColumns) -> Mask:
        """Return which records of a piece are commits that a later one replaces."""
        piece, is_commit = _commits(columns)
        mask: Mask = is_commit & (columns.offset < self._table.latest_of(piece))
        return mask

    def groups_of(self, columns: RecordColumns, which: Mask) -> Iterator[tuple[bytes, int, int]]:
        """Yield the groups of some commits, with their number and the bytes of keys and values."""
        ints = columns.ints.copy()
        lengths = _HEAD + _group_lengths(columns)
        fits = which & (lengths <= columns.key_length)
        ints[k.KEY_LENGTH] = np.where(fits, lengths, -1)
        piece = cast("BlockPiece", _Piece(_Rows(columns.data, columns.longs, ints), _edges(ints)))
        rows = np.flatnonzero(fits)
        if not len(rows):
            return
        hashes = self._table.hash(piece)[rows, 0]
        _, first, group, counts = np.unique(
            hashes, return_index=True, return_inverse=True, return_counts=True
        )
        sizes = columns.key_length[rows].astype(np.int64) + columns.value_length[rows]
        totals = np.bincount(group, weights=sizes)
        data = columns.data.data
        for row, count, size in zip(rows[first], counts, totals, strict=True):
            at = int(columns.key_position[row])
            key = bytes(data[at + _HEAD : at + int(lengths[row])])
            yield key, int(count), int(size)


def _commits(columns: RecordColumns) -> tuple[BlockPiece, Mask]:
    """Return the rows of a piece with null keys but for commits, and which these are."""
    batches = columns.batches
    is_plain = (batches.producer_id < 0) & ~(batches.attributes & CONTROL != 0)
    is_commit = np.asarray(is_plain)[columns.batch] & (columns.value_length >= 0)
    is_commit &= columns.key_length >= _HEAD
    at = np.where(is_commit, columns.key_position, 0)
    if len(at):
        # Type 1; type 0 is of brokers that wrote little.
        is_commit &= (columns.data[at] == 0) & (columns.data[at + 1] == 1)
    ints = columns.ints.copy()
    ints[k.KEY_LENGTH][~is_commit] = -1
    piece = _Piece(_Rows(columns.data, columns.longs, ints), _edges(ints))
    return cast("BlockPiece", piece), is_commit


def _edges(ints: Any) -> Int64s:
    return np.array([0, ints.shape[1]], np.int64)


def _group_lengths(columns: RecordColumns) -> Int64s:
    at = np.where(columns.key_length >= _HEAD, columns.key_position, 0)
    high = columns.data[at + 2].astype(np.int64)
    lengths: Int64s = (high << 8) | columns.data[at + 3]
    return lengths
