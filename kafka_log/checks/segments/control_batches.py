"""Check control batches: the markers of transactions, and the control records of the Raft log.

A marker is the only record of its batch, which is not compressed, is transactional, and has a
producer. The cleaner may leave a batch without a record. KRaft writes other types, several in one
batch, only to `__cluster_metadata`; a broker reads those by other rules, so only their encoding is
checked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kafka_format.attributes import TRANSACTIONAL
from kafka_format.control import ControlRecordType, decode_control_record
from kafka_format.errors import FormatError
from kafka_log.checks.finding import Finding
from kafka_log.damage.findings import NOT_DECODABLE, WRONG_CONTROL
from kafka_log.names import CLUSTER_METADATA_TOPIC

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kafka_format.columnar.record_columns import RecordColumns
    from kafka_format.control import ControlRecord
    from kafka_log.checks.finding import About
    from kafka_log.checks.segments.log_pieces import LogPiece

    Rows = npt.NDArray[np.intp]

_KEY_SIZE, _VALUE_SIZE = 4, 6
"""The size of a marker of version 0, the only one so far."""


class ControlCheck:
    """The checks of control batches and their records."""

    def __init__(self, about: About) -> None:
        self._about = about

    def findings(self, piece: LogPiece) -> Iterator[Finding]:
        is_control = piece.is_control & piece.is_sound
        if not is_control.any() or piece.is_continuation:
            return
        if self._about.topic != CLUSTER_METADATA_TOPIC:
            yield from self._headers(piece, np.flatnonzero(is_control & self._is_marker(piece)))
        if piece.records is not None and len(piece.records):
            rows = np.flatnonzero(is_control[piece.records.batch])
            yield from self._records(piece, piece.records, rows)

    def _is_marker(self, piece: LogPiece) -> npt.NDArray[np.bool_]:
        """Return which control batches must be markers; without a topic, transactional ones."""
        if self._about.topic is not None:
            return np.ones(len(piece.batches), np.bool_)
        is_transactional: npt.NDArray[np.bool_] = piece.batches.attributes & TRANSACTIONAL != 0
        return is_transactional

    def _headers(self, piece: LogPiece, rows: Rows) -> Iterator[Finding]:
        batches = piece.batches
        many, packed = batches.record_count[rows] > 1, batches.codec[rows] != 0
        plain = batches.attributes[rows] & TRANSACTIONAL == 0
        unowned = batches.producer_id[rows] < 0
        for at in np.flatnonzero(many | packed | plain | unowned).tolist():
            batch = int(rows[at])
            if many[at]:
                found = f"a control batch of {int(batches.record_count[batch])} records"
                expected = "one marker"
            elif packed[at]:
                found, expected = "a compressed control batch", "a marker that is not compressed"
            elif plain[at]:
                found, expected = "a control batch outside a transaction", "a transactional batch"
            else:
                found, expected = "a marker without a producer id", "a producer id"
            yield piece.finding(WRONG_CONTROL, self._about, batch, found, expected)

    def _records(self, piece: LogPiece, records: RecordColumns, rows: Rows) -> Iterator[Finding]:
        for row in rows[~_are_usual_markers(records, rows)].tolist():
            try:
                record = decode_control_record(records.key(row), records.value(row))
            except FormatError as error:
                yield self._finding(
                    piece, row, NOT_DECODABLE, f"a control record of {error.found}", error.expected
                )
            else:
                yield from self._type(piece, records, row, record)

    def _type(
        self, piece: LogPiece, records: RecordColumns, row: int, record: ControlRecord
    ) -> Iterator[Finding]:
        """Yield a control record that ends no transaction. Kafka's loader rejects its producer."""
        must_be_marker = self._is_marker(piece)[records.batch[row]]
        if self._about.topic == CLUSTER_METADATA_TOPIC or not must_be_marker:
            return
        if not record.is_end_transaction_marker:
            kind = record.type
            shown = kind.name if isinstance(kind, ControlRecordType) else f"type {kind}"
            found = f"a control record of {shown}"
            yield self._finding(piece, row, WRONG_CONTROL, found, "COMMIT or ABORT")

    def _finding(self, piece: LogPiece, row: int, rule: str, found: str, expected: str) -> Finding:
        assert piece.records is not None
        position = int(piece.batches.position[piece.records.batch[row]])
        offset = int(piece.records.offset[row])
        return Finding.of(rule, self._about, found, expected, position=position, offset=offset)


def _are_usual_markers(records: RecordColumns, rows: Rows) -> npt.NDArray[np.bool_]:
    """Return which records are markers of version 0: there can be millions of them."""
    usual: npt.NDArray[np.bool_] = (records.key_length[rows] == _KEY_SIZE) & (
        records.value_length[rows] == _VALUE_SIZE
    )
    found = rows[usual]
    key = records.data[records.key_position[found][:, None] + np.arange(_KEY_SIZE)]
    version = records.data[records.value_position[found][:, None] + np.arange(2)]
    is_zero = ~key[:, :3].any(axis=1) & ~version.any(axis=1)
    usual[usual] = is_zero & (key[:, 3] <= ControlRecordType.COMMIT)
    return usual
