"""The offset map over columns, one kernel call for many batches. Needs numba.

Maps as offset_map.py does, and leaves rare cases to rows: control batches, old magics, damage.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kafka_format.attributes import CONTROL, TRANSACTIONAL
from kafka_format.errors import FormatError

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafka_log.cleaner.columns.blocks import BlockPiece
    from kafka_log.cleaner.columns.key_table import KeyTable
    from kafka_log.cleaner.stats import CleanerStats
    from kafka_log.cleaner.transactions import CleanedTransactionMetadata

    Int64s = npt.NDArray[np.int64]
    Uint8s = npt.NDArray[np.uint8]


def map_piece(
    table: KeyTable,
    piece: BlockPiece,
    hashes: Int64s,
    start: int,
    transactions: CleanedTransactionMetadata,
    stats: CleanerStats,
) -> int:
    """Put the keys of sound batches into the map; return how many batches fit before it is full.

    `hashes` are those of the keys (KeyTable.hash).
    """
    is_left_out = np.zeros(len(piece), np.uint8)
    read = piece.records.counts
    problem = None
    try:
        _follow(piece, transactions, is_left_out, read)
    except FormatError as error:  # raised below, unless the map is full before it
        problem = error
        broken = int(np.flatnonzero(is_left_out == _BROKEN)[0])
        piece, is_left_out, read = piece.first(broken), is_left_out[:broken], read[:broken]
    full_at, row, latest = table.put_piece(piece, hashes, is_left_out, start)
    reached = piece.records.batches.last_offset[:full_at]
    dirty = np.flatnonzero(reached >= start)
    if len(dirty):
        table.latest_offset = int(reached[dirty[-1]])
    stats.map_messages_read += int(read[:full_at].sum())
    if full_at < len(piece):
        if latest >= 0:
            table.latest_offset = latest
        stats.map_messages_read += row - int(piece.edges[full_at])
    elif problem is not None:
        raise problem
    return full_at


_BROKEN = 2


def _follow(
    piece: BlockPiece, transactions: CleanedTransactionMetadata, is_left_out: Uint8s, read: Int64s
) -> None:
    """Follow transactions over a piece: which batches the map skips, and what counts as read."""
    batches = piece.records.batches
    last_offset = np.maximum.accumulate(batches.last_offset)
    is_data = ~batches.is_legacy
    is_special = is_data & (batches.attributes & (TRANSACTIONAL | CONTROL) != 0)
    for i in np.flatnonzero(is_special).tolist():
        transactions.consume_up_to(int(last_offset[i]))
        if int(batches.attributes[i]) & CONTROL:
            is_left_out[i] = _BROKEN
            transactions.on_control_batch_read(piece.batch(i))  # type: ignore[arg-type]
            is_left_out[i], read[i] = 1, 1
        elif transactions.on_transactional_batch_read(int(batches.producer_id[i])):
            is_left_out[i], read[i] = 1, batches.record_count[i]
    if len(batches):
        transactions.consume_up_to(int(last_offset[-1]))
