"""Accepted findings: a JSON file of fingerprints, each with a reason and perhaps a date.

    {"version": 1, "accepted": [
      {"fingerprint": "…", "reason": "known since the power cut", "until": "2027-01-31",
       "id": "LOG001", "where": "orders-0"}]}

From the date `until` on (00:00 UTC), a finding counts again. `id` and `where` are for people. The
file is written with one entry per line, in the order of the report.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from kafka_format.access import JAVA_MAX, open_evidence
from kafka_format.errors import FormatError
from kafka_format.shown_text import name_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

VERSION = 1
_FINGERPRINT = re.compile(r"[0-9a-f]{32}")
_FIELDS = ("fingerprint", "reason", "until", "id", "where")


class BaselineError(ValueError):
    """A baseline file that cannot be used."""


class Acceptance(NamedTuple):
    """A finding that is accepted."""

    fingerprint: str
    reason: str = ""
    until_ms: int | None = None
    until: str | None = None
    id: str = ""
    where: str = ""

    def is_valid(self, now_ms: int) -> bool:
        return self.until_ms is None or now_ms < self.until_ms


@dataclass(slots=True)
class Baseline:
    """The accepted findings, and which of them an audit has met."""

    accepted: Mapping[str, Acceptance] = field(default_factory=dict)
    now_ms: int = 0
    used: set[str] = field(default_factory=set)

    def reason(self, fingerprint: str) -> str | None:
        """Return why a finding is accepted; None if it is not, or not any more."""
        acceptance = self.accepted.get(fingerprint)
        if acceptance is None:
            return None
        self.used.add(fingerprint)
        return acceptance.reason if acceptance.is_valid(self.now_ms) else None

    def expired(self) -> list[Acceptance]:
        """Return the acceptances that have ended, of findings that are still there."""
        return [
            each
            for each in self.accepted.values()
            if each.fingerprint in self.used and not each.is_valid(self.now_ms)
        ]

    def unused(self) -> list[Acceptance]:
        """Return the acceptances of findings that are no longer there."""
        return [each for each in self.accepted.values() if each.fingerprint not in self.used]

    def without_reason(self) -> list[Acceptance]:
        return [each for each in self.accepted.values() if not each.reason.strip()]


def read_baseline(path: str, now_ms: int) -> Baseline:
    """Read a baseline. Raises BaselineError, and OSError if it cannot be read."""
    try:
        with open_evidence(path, limit=JAVA_MAX) as file:
            return parse_baseline(file.readall().decode("utf-8"), path, now_ms)
    except (FormatError, UnicodeDecodeError) as error:
        raise BaselineError(f"{path}: {error}") from None


def parse_baseline(text: str, path: str, now_ms: int) -> Baseline:
    """Parse the text of a baseline. Raises BaselineError."""
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BaselineError(f"{path}: not JSON: {error}") from None
    if not isinstance(content, dict) or content.get("version") != VERSION:
        raise BaselineError(f'{path}: expected a JSON object with "version": {VERSION}')
    entries = content.get("accepted")
    if not isinstance(entries, list):
        raise BaselineError(f'{path}: expected a list "accepted"')
    accepted = [_acceptance(each, f"{path}: entry {n}") for n, each in enumerate(entries, 1)]
    return Baseline({each.fingerprint: each for each in accepted}, now_ms)


def _acceptance(entry: Any, where: str) -> Acceptance:
    if not isinstance(entry, dict):
        raise BaselineError(f"{where}: expected an object")
    for name, value in entry.items():
        if name not in _FIELDS:
            raise BaselineError(f"{where}: unknown field {name!r}, expected {', '.join(_FIELDS)}")
        if not isinstance(value, str) and not (name == "until" and value is None):
            raise BaselineError(f"{where}: {name}: expected a text")
    mark = entry.get("fingerprint", "")
    if not _FINGERPRINT.fullmatch(mark):
        raise BaselineError(f"{where}: found fingerprint {mark!r}, expected 32 hex digits")
    if "reason" not in entry:
        raise BaselineError(f"{where}: no reason")
    until = entry.get("until")
    return Acceptance(
        mark,
        entry["reason"],
        None if until is None else _date_ms(until, where),
        until,
        entry.get("id", ""),
        entry.get("where", ""),
    )


def _date_ms(text: str, where: str) -> int:
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise BaselineError(f"{where}: until: found {text!r}, expected YYYY-MM-DD") from None
    return int(day.timestamp() * 1000)


def write_baseline(file: TextIO, rows: Iterable[Mapping[str, Any]], before: Baseline) -> None:
    """Write an entry for each fingerprint of these findings; reasons of `before` are kept."""
    file.write(f'{{"version": {VERSION}, "accepted": [')
    separator = "\n"
    for entry in _entries(rows, before):
        text = json.dumps({name: entry[name] for name in _FIELDS if entry.get(name) is not None})
        file.write(f"{separator}  {text}")
        separator = ",\n"
    file.write("\n]}\n")


def _entries(rows: Iterable[Mapping[str, Any]], before: Baseline) -> Iterator[dict[str, Any]]:
    written: set[str] = set()
    for row in rows:
        mark = row["fingerprint"]
        if mark in written:
            continue
        written.add(mark)
        known = before.accepted.get(mark, Acceptance(mark))
        yield {
            "fingerprint": mark,
            "reason": known.reason,
            "until": known.until,
            "id": row["id"],
            "where": name_text(where_of(row) if row["topic"] else Path(row["path"]).name),
        }


def where_of(row: Mapping[str, Any]) -> str:
    """Return the partition, the topic or the path of a finding."""
    if row["topic"] is None:
        return str(row["path"])
    if row["partition"] is None:
        return str(row["topic"])
    return f"{row['topic']}-{row['partition']}"
