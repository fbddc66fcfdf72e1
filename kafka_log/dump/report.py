"""Report what is wrong: findings as they occur, kafka-dump-log's reports at the end, a summary.

On stderr at most ten findings of each kind are printed per file, then how many more there are. As
JSON, every finding is a row.
"""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING, Any, TextIO

from kafka_format.errors import (
    CrcMismatchError,
    FormatError,
    MalformedRecordError,
    OverLimitError,
    TruncatedError,
    UnfitFileError,
    UnsupportedError,
)
from kafka_format.shown_text import escaped
from kafka_log.dump.output import file_fields, json_line, partition_fields, path_fields
from kafka_log.inventory.directory import FOLLOWED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka_format.errors import Location
    from kafka_log.dump.gaps import Gaps
    from kafka_log.dump.output import Output
    from kafka_log.inventory.directory import FoundFile

_LINES = 10
_HINT = "--all-findings prints them"
_NAMES: tuple[tuple[type[FormatError], str], ...] = (
    (CrcMismatchError, "wrong checksum"),
    (MalformedRecordError, "malformed record"),
    (TruncatedError, "truncated value"),
    (UnfitFileError, "unfit file"),
    (OverLimitError, "batch above the limit"),
    (UnsupportedError, "unsupported value"),
    (FormatError, "corrupt value"),
)


class Report:
    """Prints everything except the data of a dump, and knows the outcome."""

    def __init__(
        self,
        output: Output,
        errors: TextIO,
        *,
        json_rows: bool,
        all_findings: bool = False,
        quiet: bool = False,
    ) -> None:
        self._output = output
        self._errors = errors
        self._json_rows = json_rows
        self._limit = None if all_findings else _LINES
        self._quiet = quiet
        self.is_damaged = False
        self.is_unreadable = False
        """Whether something could not be read."""
        self._files = 0
        self._damaged: set[str] = set()
        self._findings: Counter[str] = Counter()
        self.problems = 0
        """How many times something could not be read."""
        self._changed = self._ignored = self._empty = 0
        self._of_file: Counter[str] = Counter()
        self._index_mismatches: dict[str, _Pairs] = {}
        self._timestamp_mismatches: dict[str, _Pairs] = {}
        self._timestamps_out_of_order: dict[str, _Pairs] = {}
        self._offsets_not_found: dict[str, _Pairs] = {}
        self._non_consecutive: dict[str, Gaps] = {}
        self._file: FoundFile | None = None

    def begin(self, file: FoundFile) -> None:
        """Attribute the following findings to this file."""
        self._print_omitted()
        self._file = file
        self._files += 1

    # ------------------------------------------------------------------------ while reading

    def note(self, text: str) -> None:
        """Print a line that is neither data nor damage."""
        if not self._quiet:
            self._print(text)

    def followed(self, path: str, target: str) -> None:
        self.note(f"{path} -> {target}: {FOLLOWED}")

    def ignored(self, path: str) -> None:
        self._ignored += 1
        self._files -= 1
        is_reported = self._empty and not self._files  # "no Kafka files found" was printed
        if self._may_print(self._ignored) and not is_reported:
            self.note(f"Ignoring unknown file {path}")

    def nothing_here(self, path: str) -> None:
        self.is_unreadable = True
        self._empty += 1
        self._print(f"{path}: no Kafka files found")

    def missing(self, path: str, reason: str) -> None:
        """Report that a given path does not exist, as every verb does."""
        self.is_unreadable = True
        self.problems += 1
        self._print(f"{path}: {reason}")
        self._row(path, "unreadable", found=reason)

    def unreadable(self, path: str, reason: str) -> None:
        self.is_unreadable = True
        self.problems += 1
        self._print(f"{path}: cannot be read: {reason}")
        self._row(path, "unreadable", found=reason)

    def changed(self, path: str, how: str) -> None:
        """Report that a file changed after it was opened; `how` begins with "it"."""
        self.is_unreadable = True
        self._changed += 1
        self._print(f"{path}: changed while it was read: {how}")
        self._row(path, "changed", found=how, expected="the file as it was when it was opened")

    def found(self, error: FormatError) -> None:
        kind = next(name for error_type, name in _NAMES if isinstance(error, error_type))
        self._count(kind)
        self._of_file[kind] += 1
        if self._may_print(self._of_file[kind]):
            self._print(str(error))
        problem = "over_limit" if isinstance(error, OverLimitError) else "damage"
        location = error.location
        self._row_at(location, problem, found=error.found, expected=error.expected)

    def index_mismatch(self, entry: Location, index_offset: int, log_offset: int) -> None:
        """Report an entry whose offset differs from the last offset of its batch."""
        self._count("index mismatch")
        self._add(self._index_mismatches, entry, index_offset, log_offset)
        self._row_at(entry, "index_mismatch", index_offset=index_offset, log_offset=log_offset)

    def timestamp_mismatch(self, entry: Location, timestamp: int, log_timestamp: int) -> None:
        self._count("timestamp mismatch")
        self._add(self._timestamp_mismatches, entry, timestamp, log_timestamp)
        self._row_at(
            entry, "timestamp_mismatch", index_timestamp=timestamp, log_timestamp=log_timestamp
        )

    def timestamp_out_of_order(self, entry: Location, timestamp: int, previous: int) -> None:
        self._count("timestamp out of order")
        self._add(self._timestamps_out_of_order, entry, timestamp, previous)
        self._row_at(
            entry,
            "timestamp_out_of_order",
            index_timestamp=timestamp,
            previous_index_timestamp=previous,
        )

    def offset_not_found(
        self, entry: Location, index_offset: int, log_offset: int, *, is_damage: bool
    ) -> None:
        self._add(self._offsets_not_found, entry, index_offset, log_offset)
        if not is_damage:
            return
        self._count("indexed offset not found")
        self._row_at(
            entry,
            "offset_not_found",
            index_offset=index_offset,
            log_offset=None if log_offset == -1 else log_offset,
        )

    def non_consecutive(self, file: FoundFile, gaps: Gaps) -> None:
        """Report gaps between offsets. Compaction and transactions leave them: no damage."""
        self._non_consecutive[file.path] = gaps
        if not self._json_rows:
            return
        start = json_line({"kind": "non_consecutive", **file_fields(file)})[:-2]
        for offset, following in gaps:
            if offset >= 0:  # kafka-dump-log starts at -1, where there is no record
                self._output.text(f'{start},"offset":{offset},"followed_by":{following}}}\n')

    # ------------------------------------------------------------------------- at the end

    def summarize(self) -> None:
        """Print kafka-dump-log's reports in its words and order, then our summary."""
        self._print_omitted()
        for path, mismatches in self._index_mismatches.items():
            self._print(f"Mismatches in :{absolute(path)}")
            pairs = sorted(dict(mismatches.pairs).items(), reverse=True)
            self._print_pairs("  Index offset: %d, log offset: %d", pairs, mismatches.more)
        for path, found in self._timestamp_mismatches.items():
            self._print(f"Found timestamp mismatch in :{absolute(path)}")
            self._print_pairs("  Index timestamp: %d, log timestamp: %d", found.pairs, found.more)
        for path, found in self._timestamps_out_of_order.items():
            self._print(f"Found out of order timestamp in :{absolute(path)}")
            line = "  Index timestamp: %d, Previously indexed timestamp: %d"
            self._print_pairs(line, found.pairs, found.more)
        for path, found in self._offsets_not_found.items():
            self._print(f"The following indexed offsets are not found in :{absolute(path)}")
            line = "Indexed offset: %d, found log offset: %d"
            self._print_pairs(line, found.pairs, found.more)
        for path, gaps in self._non_consecutive.items():
            self._print(f"Non-consecutive offsets in {absolute(path)}")
            shown, more = gaps.first(self._limit)
            self._print_pairs("  %d is followed by %d", shown, more)
        if self._limit is not None and self._ignored > self._limit:
            self.note(f"Ignoring {self._ignored - self._limit:,} more unknown files")
        has_summary = self.is_damaged or self.is_unreadable or self._errors.isatty()
        if has_summary and self._files:
            self.note(self._summary())

    def _summary(self) -> str:
        """Return `12 files: 1 with findings (990 wrong checksums); 2 could not be read`."""
        parts = []
        if self._damaged:
            kinds = [f"{number:,} {_noun(number, kind)}" for kind, number in self._findings.items()]
            parts.append(f"{len(self._damaged):,} with findings ({', '.join(kinds)})")
        if self._changed:
            parts.append(f"{self._changed:,} changed while being read")
        if self.problems:
            parts.append(f"{self.problems:,} could not be read")
        if self._empty:
            parts.append(f"{self._empty:,} {_noun(self._empty, 'path')} without Kafka files")
        if not parts:
            parts.append("no damage found")
        if self._ignored:
            parts.append(f"{self._ignored:,} unknown {_noun(self._ignored, 'file')} ignored")
        return f"{self._files:,} {_noun(self._files, 'file')}: {'; '.join(parts)}"

    # ---------------------------------------------------------------------------- helpers

    def _print(self, text: str) -> None:
        self._errors.write(f"{escaped(text)}\n")

    def _may_print(self, number: int) -> bool:
        return self._limit is None or number <= self._limit

    def _print_omitted(self) -> None:
        for kind, count in self._of_file.items():
            if self._file is not None and not self._may_print(count):
                more = count - _LINES
                rest = f"{more:,} more {_noun(more, kind)} ({_HINT})"
                self._print(f"{self._file.path}: {rest}")
        self._of_file.clear()

    def _print_pairs(self, line: str, pairs: Iterable[tuple[int, int]], more: int) -> None:
        for pair in pairs:
            self._print(line % pair)
        if more:
            self._print(f"  and {more:,} more ({_HINT})")

    def _count(self, kind: str) -> None:
        self.is_damaged = True
        self._findings[kind] += 1
        if self._file is not None:
            self._damaged.add(self._file.path)

    def _add(self, found: dict[str, _Pairs], entry: Location, first: int, second: int) -> None:
        found.setdefault(entry.path, _Pairs(self._limit)).add(first, second)

    def _row_at(self, location: Location, problem: str, **fields: object) -> None:
        self._row(location.path, problem, position=location.position, **fields)

    def _row(self, path: str, problem: str, **fields: Any) -> None:
        if not self._json_rows:
            return
        row = {"kind": "finding", **path_fields(path), **partition_fields(self._file)}
        self._output.text(json_line({**row, "problem": problem, "position": None, **fields}))


class _Pairs:
    """Pairs of numbers for a report; only those to print are kept, an index may have millions."""

    def __init__(self, limit: int | None) -> None:
        self.pairs: list[tuple[int, int]] = []
        self.more = 0
        self._limit = limit

    def add(self, first: int, second: int) -> None:
        if self._limit is None or len(self.pairs) < self._limit:
            self.pairs.append((first, second))
        else:
            self.more += 1


_PLURALS = {
    "batch above the limit": "batches above the limit",
    "index mismatch": "index mismatches",
    "indexed offset not found": "indexed offsets not found",
    "timestamp mismatch": "timestamp mismatches",
    "timestamp out of order": "timestamps out of order",
}


def _noun(number: int, name: str) -> str:
    return name if number == 1 else _PLURALS.get(name, f"{name}s")


def absolute(path: str) -> str:
    """Mirror java.io.File.getAbsolutePath, which keeps `.` and `..`."""
    return os.path.join(os.getcwd(), path)  # noqa: PTH109, PTH118
