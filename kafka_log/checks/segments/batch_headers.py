"""Check batch headers: magic, attributes, record count, leader epochs, and hidden bytes.

Also bytes that are hidden in a batch: no reader looks at them. Kafka ignores everything after the
header of a batch whose record count is 0, and everything after the value of a legacy message.
(Bytes after the last record of any other batch of magic 2 are an error of the decoder.)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kafka_format.attributes import TRANSACTIONAL, UNUSED_BITS
from kafka_format.batch_layout import HEADER_SIZE, LENGTH_AT, LENGTH_END
from kafka_log.damage.findings import (
    EPOCH_GOES_BACK,
    HIDDEN_BYTES,
    UNKNOWN_ATTRIBUTES,
    UNKNOWN_MAGIC,
    WRONG_OFFSETS,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kafka_format.columnar.record_columns import RecordColumns
    from kafka_log.checks.finding import About, Finding
    from kafka_log.checks.segments.log_pieces import LogPiece

NEWEST_MAGIC = 2
_NO_EPOCH = -1
_UNUSED = np.array(UNUSED_BITS)


class HeaderCheck:
    """The checks of every batch header."""

    def __init__(self, about: About) -> None:
        self._about = about
        self._epoch = _NO_EPOCH
        """The leader epoch of the last batch that has one."""

    def findings(self, piece: LogPiece) -> Iterator[Finding]:
        if not len(piece.batches):
            return
        if not piece.is_continuation:
            yield from self._magic(piece)
            yield from self._attributes(piece)
            yield from self._record_count(piece)
            yield from self._leader_epochs(piece)
            yield from self._empty_batches(piece)
        if piece.records is not None and piece.batches.is_legacy[0]:
            yield from self._messages(piece, piece.records)

    def _magic(self, piece: LogPiece) -> Iterator[Finding]:
        magic = piece.batches.magic
        for batch in np.flatnonzero(piece.is_sound & (magic > NEWEST_MAGIC)).tolist():
            found, expected = f"magic {int(magic[batch])}", f"magic {NEWEST_MAGIC} or less"
            yield piece.finding(UNKNOWN_MAGIC, self._about, batch, found, expected)

    def _attributes(self, piece: LogPiece) -> Iterator[Finding]:
        batches = piece.batches
        attributes = batches.attributes & 0xFFFF
        unused = attributes & _UNUSED[np.minimum(batches.magic, NEWEST_MAGIC)]
        # A marker without a producer is of a wrong form: control_batches.
        is_transaction = (attributes & TRANSACTIONAL != 0) & ~piece.is_control
        without_producer = is_transaction & (batches.producer_id < 0)
        unusual = (unused != 0) | (without_producer & (batches.magic >= NEWEST_MAGIC))
        for batch in np.flatnonzero(piece.is_sound & unusual).tolist():
            if unused[batch]:
                found = f"attributes {int(attributes[batch]):#x}"
                expected = f"the bits {int(unused[batch]):#x} not set"
            else:
                found, expected = "a transactional batch without a producer id", "a producer id"
            yield piece.finding(UNKNOWN_ATTRIBUTES, self._about, batch, found, expected)

    def _record_count(self, piece: LogPiece) -> Iterator[Finding]:
        """Yield counts that the offsets cannot hold; decoded records are checked one by one."""
        batches = piece.batches
        if piece.records is not None:
            return
        count, room = batches.record_count, batches.last_offset_delta + 1
        wrong = (batches.magic >= NEWEST_MAGIC) & ((count < 0) | (count > np.maximum(room, 0)))
        for batch in np.flatnonzero(wrong & (room > 0)).tolist():
            found = f"record count {int(count[batch])}"
            expected = f"0 to {int(room[batch])}, as many as the batch has offsets"
            yield piece.finding(WRONG_OFFSETS, self._about, batch, found, expected)

    def _leader_epochs(self, piece: LogPiece) -> Iterator[Finding]:
        """Yield where the leader epoch goes back; -1 is none, as in converted legacy batches."""
        epochs = piece.batches.partition_leader_epoch
        for batch in np.flatnonzero(piece.is_sound & (epochs < _NO_EPOCH)).tolist():
            found = f"leader epoch {int(epochs[batch])}"
            yield piece.finding(EPOCH_GOES_BACK, self._about, batch, found, "0 or more, or -1")
        rows = np.flatnonzero(piece.is_sound & (epochs > _NO_EPOCH))
        if not len(rows):
            return
        before = np.concatenate([[self._epoch], epochs[rows[:-1]]])
        self._epoch = int(epochs[rows[-1]])
        for at in np.flatnonzero(epochs[rows] < before).tolist():
            found, expected = f"leader epoch {int(epochs[rows[at]])}", f"{int(before[at])} or more"
            yield piece.finding(EPOCH_GOES_BACK, self._about, int(rows[at]), found, expected)

    def _empty_batches(self, piece: LogPiece) -> Iterator[Finding]:
        batches = piece.batches
        hidden = batches.size_in_bytes - HEADER_SIZE
        is_empty = (batches.magic >= NEWEST_MAGIC) & (batches.record_count == 0)
        for batch in np.flatnonzero(piece.is_sound & is_empty & (hidden > 0)).tolist():
            found = f"{int(hidden[batch])} bytes after the header of a batch without records"
            yield piece.finding(HIDDEN_BYTES, self._about, batch, found, "none")

    def _messages(self, piece: LogPiece, records: RecordColumns) -> Iterator[Finding]:
        """Yield legacy messages with bytes after their value; all batches of a piece are legacy."""
        starts = records.record_position
        hidden = starts + LENGTH_END + _sizes(records.data, starts)
        hidden -= records.value_position + np.maximum(records.value_length, 0)
        for row in np.flatnonzero(hidden > 0).tolist():
            found = f"{int(hidden[row])} bytes after the value of the message"
            yield piece.finding(HIDDEN_BYTES, self._about, int(records.batch[row]), found, "none")


def _sizes(data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the size field of the messages that begin at these positions."""
    sizes = np.zeros(len(starts), np.int64)
    for byte in range(LENGTH_AT, LENGTH_END):
        sizes = sizes << 8 | data[starts + byte]
    return sizes
