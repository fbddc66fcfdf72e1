"""Keys and values next to a finding: only shown on request (`--show-data`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO, cast

from kafka_format.access import open_evidence
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
            scan = RecordScan(log, path=row["path"], start=row["position"], verify=False)
            for columns in scan:
                rows = [n for n in range(min(len(columns), _MOST)) if columns.batch[n] == 0]
                return [
                    {
                        "offset": int(columns.offset[n]),
                        "key": _text(columns.key(n)),
                        "value": _text(columns.value(n)),
                    }
                    for n in rows
                ]
    except (FormatError, OSError):
        pass  # the finding says what is wrong
    return []


def _text(data: bytes | None) -> str | None:
    if data is None:
        return None
    return escaped(shortened(data[:_MOST_BYTES].decode("utf-8", "backslashreplace")))
