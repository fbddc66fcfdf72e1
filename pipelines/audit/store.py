"""Keeps any number of findings in the order of a report, in bounded memory.

    with FindingStore(evidence) as store:
        store.add(row)                      any order
        for row in store: ...               the worst first, then by rule, place and arrival

Some thousands stay in memory. More go to a SQLite file in the system's directory for temporary
files, which is never inside the evidence and is removed at the end.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from kafka_format.shown_text import name_bytes
from kafka_log.checks.rules import RULES
from kafka_log.checks.rules.rule import Severity
from kafka_log.disk.output import OutputError, ensure_outside

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Row = dict[str, Any]

MOST_IN_MEMORY = 5_000
_RANKS = {str(severity): rank for rank, severity in enumerate(Severity)}
_RULE_ORDER = {rule: number for number, rule in enumerate(RULES)}
_BATCH = 10_000


class SortKey(NamedTuple):
    """The order of findings. Names are bytes, so that SQLite and Python agree."""

    severity: int
    rule: int
    log_dir: bytes
    topic: bytes
    partition: int
    path: bytes
    position: int
    offset: int
    number: int
    """In order of arrival."""

    @classmethod
    def of(cls, row: Row, number: int) -> SortKey:
        return cls(
            _RANKS[row["severity"]],
            _RULE_ORDER[row["id"]],
            name_bytes(row["log_dir"] or ""),
            name_bytes(row["topic"] or ""),
            _or_first(row["partition"]),
            name_bytes(row["path"]),
            _or_first(row["position"]),
            _or_first(row["offset"]),
            number,
        )


def _or_first(value: int | None) -> int:
    return -1 if value is None else value


class FindingStore:
    """Rows of findings, sorted when they are read."""

    def __init__(self, evidence: Sequence[str] = ()) -> None:
        self._evidence = tuple(evidence)
        self._rows: list[tuple[SortKey, Row]] = []
        self._pending: list[tuple[Any, ...]] = []
        self._database: sqlite3.Connection | None = None
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, row: Row) -> None:
        key = SortKey.of(row, self._count)
        self._count += 1
        if self._database is None and self._count <= MOST_IN_MEMORY:
            self._rows.append((key, row))
            return
        if self._database is None:
            self._begin_file()
        self._pending.append((*key, json.dumps(row)))
        if len(self._pending) >= _BATCH:
            self._flush()

    def __iter__(self) -> Iterator[Row]:
        if self._database is None:
            for _, row in sorted(self._rows, key=lambda each: each[0]):
                yield row
            return
        self._flush()
        order = ", ".join(SortKey._fields)
        for (text,) in self._database.execute(f"SELECT row FROM findings ORDER BY {order}"):  # noqa: S608  # our own names
            yield json.loads(text)

    def _begin_file(self) -> None:
        directory = tempfile.mkdtemp(prefix="kafka-forensics-")
        remove = weakref.finalize(self, shutil.rmtree, directory, ignore_errors=True)
        try:
            ensure_outside(directory, self._evidence)
        except OutputError:
            remove()
            raise
        self._database = sqlite3.connect(Path(directory, "findings"), check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("PRAGMA synchronous = OFF")
        columns = ", ".join(f"{name} NOT NULL" for name in SortKey._fields)
        key = ", ".join(SortKey._fields)
        self._database.execute(
            f"CREATE TABLE findings ({columns}, row TEXT, PRIMARY KEY ({key})) WITHOUT ROWID"
        )
        self._pending += [(*key, json.dumps(row)) for key, row in self._rows]
        self._rows = []

    def _flush(self) -> None:
        if self._database is not None and self._pending:
            marks = ", ".join("?" * (len(SortKey._fields) + 1))
            self._database.executemany(f"INSERT INTO findings VALUES ({marks})", self._pending)  # noqa: S608
            self._pending = []
