"""Keys and values next to a finding: only shown on request (`--show-data`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np

from kafka_format.access import open_evidence
from kafka_format.columnar.headers import HeaderWalk
from kafka_format.columnar.records import RecordScan
from kafka_format.errors import FormatError
from kafka_format.shown_text import escaped, shortened

if TYPE_CHECKING:
    from pipelines.audit.report import Row

_MOST = 5
_MOST_BYTES = 400


def records_of(row: Row) -> list[dict[str, Any]]:
    """Return the first records of the batch that a finding is about, if it can be decoded."""
    if row["position"] is None or not row["path"].endswith(".log"):
        return []
    try:
        with open_evidence(row["path"]) as file:
            log = cast("BinaryIO", file)
            start = _batch_position(log, row["position"])
            return [] if start is None else _first_records(log, row["path"], start)
    except (FormatError, OSError):
        return []  # the finding says what is wrong


def _batch_position(log: BinaryIO, position: int) -> int | None:
    """Return where the batch begins that has a position; None if none has."""
    for batches in HeaderWalk(log):
        inside = (batches.position <= position) & (
            position < batches.position + batches.size_in_bytes
        )
        if inside.any():
            return int(batches.position[np.flatnonzero(inside)[0]])
    return None


def _first_records(log: BinaryIO, path: str, start: int) -> list[dict[str, Any]]:
    for columns in RecordScan(log, path=path, start=start, verify=False):
        return [
            {
                "offset": int(columns.offset[row]),
                "key": _text(columns.key(row)),
                "value": _text(columns.value(row)),
            }
            for row in range(min(len(columns), _MOST))
            if columns.batch[row] == 0
        ]
    return []


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    return escaped(shortened(data[:_MOST_BYTES].decode("utf-8", "backslashreplace")))
