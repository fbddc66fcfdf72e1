"""The options of `kafka_files`, typed at the door.

Names are Spark's (`startingOffsets`, …) in any case, as Spark hands them on. An unknown one is
refused with the nearest that is known; so are values that contradict each other.

    path, paths          where: a path or URI, globs allowed; several as a JSON list, or one with
                         commas between
    table                records
    topics, partitions   globs, and numbers or ranges (0,2,5-7), with commas between
    startingOffsets      earliest, a number for every partition, or Spark's JSON
    endingOffsets        {"orders": {"0": 23, "1": -2}}: -2 is earliest, -1 latest
    startingTimestamp    epoch milliseconds: from the first record of that time or later on
    endingTimestamp      … up to that record, exclusively
    isolationLevel       read_uncommitted, or read_committed as a consumer would see it
    includeControl       control records too
    mode                 PERMISSIVE, DROPMALFORMED or FAILFAST
    columns              which, with commas between
    maxSplitBytes        about how much one task reads (128m)
    verifyChecksums      whether a wrong checksum is damage

Of the table compaction, which tells what would be:

    now                  epoch milliseconds: the time to judge by; default: the clock
    settings             Kafka's names: JSON, or name=value with semicolons between
    rounds               of the cleaner (1)
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from pipelines.schema import COLUMNS, column_names, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EARLIEST, LATEST = -2, -1
DEFAULT_SPLIT_BYTES = 128 * 1024 * 1024

_SIZE = re.compile(r"(\d+)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_INT64 = 2**63
_NO_TABLES = (
    "location: found a table of Spark's catalog, expected CREATE TEMPORARY VIEW … USING kafka_files"
    " OPTIONS (path '…'): Spark does not hand the options of such a table on to a source in Python"
)
"""It would read without them: all topics, or nothing at all."""


class OptionsError(ValueError):
    """An option that cannot be: which, what was found, what was expected."""


class Mode(StrEnum):
    PERMISSIVE = "PERMISSIVE"
    """Damage is in findings, and marked in batches."""
    DROPMALFORMED = "DROPMALFORMED"
    """Damage is left out."""
    FAILFAST = "FAILFAST"
    """Damage fails the query."""


class IsolationLevel(StrEnum):
    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """An offset for each partition: one for all, or some by name."""

    default: int
    by_partition: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def of(self, topic: str, partition: int | None) -> int:
        return self.by_partition.get((topic, -1 if partition is None else partition), self.default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What pushed filters say a row must be; Spark filters again, so that too much does no harm."""

    topics: frozenset[str] | None = None
    partitions: frozenset[int] | None = None
    segments: frozenset[int] | None = None
    least_offset: int | None = None
    largest_offset: int | None = None
    least_timestamp: int | None = None

    def includes(self, topic: str, partition: int | None) -> bool:
        named = self.topics is None or topic in self.topics
        return named and (self.partitions is None or partition in self.partitions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Of one query. Picklable."""

    paths: tuple[str, ...]
    table: str = "records"
    topics: tuple[str, ...] = ()
    """Globs; none are all."""
    partitions: frozenset[int] | None = None
    starting_offsets: Offsets = Offsets(default=EARLIEST)
    ending_offsets: Offsets = Offsets(default=LATEST)
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    include_control: bool = False
    mode: Mode = Mode.PERMISSIVE
    columns: tuple[str, ...] = ()
    """Those of the schema, in its order; never empty once parsed."""
    max_split_bytes: int = DEFAULT_SPLIT_BYTES
    verify_checksums: bool = True
    now_ms: int | None = None
    settings: tuple[str, ...] = ()
    """Each name=value."""
    rounds: int = 1
    bounds: Bounds = Bounds()

    def includes(self, topic: str, partition: int | None) -> bool:
        """Whether rows of a partition are wanted: by options, and by pushed filters."""
        named = not self.topics or any(fnmatchcase(topic, glob) for glob in self.topics)
        numbered = self.partitions is None or partition in self.partitions
        return named and numbered and self.bounds.includes(topic, partition)


def parse_options(given: Mapping[str, str]) -> Options:
    """Raises OptionsError, which names the option."""
    options = {name.lower(): value for name, value in given.items()}
    if "location" in options:
        raise OptionsError(_NO_TABLES)
    for name in given:
        if name.lower() not in _PARSERS:
            known = ", ".join(sorted(_NAMES.values()))
            hint = nearest(name, tuple(_NAMES.values()))
            raise OptionsError(f"unknown option {name}{hint}: expected one of {known}")
    values: dict[str, Any] = {}
    for name, text in options.items():
        attribute, parse = _PARSERS[name]
        try:
            values[attribute] = parse(text)
        except ValueError as error:
            raise OptionsError(f"option {_NAMES[name]}={text!r}: {error}") from None
    paths = (*values.pop("path", ()), *values.pop("several_paths", ()))
    if not paths:
        raise OptionsError("no path: expected load(path), or option path")
    table = values.get("table", "records")
    columns = _known_columns(table, values.pop("columns", ()))
    parsed = Options(paths=paths, columns=columns, **values)
    _refuse_contradictions(parsed)
    return parsed


def _known_columns(table: str, wanted: tuple[str, ...]) -> tuple[str, ...]:
    """In the order of the schema's own, so that two ways to say it are one."""
    known = {name.lower(): name for name, _, _ in COLUMNS[table]}
    for name in wanted:
        if name.lower() not in known:
            hint = nearest(name, tuple(known.values()))
            listed = ", ".join(known.values())
            raise OptionsError(f"option columns: {table} has no {name}{hint}: expected {listed}")
    if not wanted:
        return column_names(table)
    chosen = {known[name.lower()] for name in wanted}
    return tuple(name for name in known.values() if name in chosen)


def _refuse_contradictions(options: Options) -> None:
    start, end = options.starting_offsets, options.ending_offsets
    for offsets, time, name in (
        (start, options.starting_timestamp, "starting"),
        (end, options.ending_timestamp, "ending"),
    ):
        if time is not None and (offsets.default >= 0 or offsets.by_partition):
            raise OptionsError(f"{name}Offsets and {name}Timestamp: expected at most one of them")
    if start.default == LATEST or LATEST in start.by_partition.values():
        raise OptionsError("startingOffsets: found latest, expected earliest or offsets")
    if end.default == EARLIEST or EARLIEST in end.by_partition.values():
        raise OptionsError("endingOffsets: found earliest, expected latest or offsets")
    for topic, partition in {(None, None), *start.by_partition, *end.by_partition}:
        first, last = start.of(topic or "", partition), end.of(topic or "", partition)
        if first > last >= 0:
            where = f" of {topic}-{partition}" if topic else ""
            raise OptionsError(
                f"startingOffsets {first}{where}: expected at most endingOffsets {last}"
            )
    first_time, last_time = options.starting_timestamp, options.ending_timestamp
    if first_time is not None and last_time is not None and first_time > last_time:
        raise OptionsError(
            f"startingTimestamp {first_time}: expected at most endingTimestamp {last_time}"
        )


# ---------------------------------------------------------------------------- values from text


def _list(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())


def _some(text: str) -> tuple[str, ...]:
    """One or more: whoever puts a list together that turns out empty does not mean everything."""
    if not (found := _list(text)):
        raise ValueError("found none, expected one or more; without the option all are meant")
    return found


def _path(text: str) -> tuple[str, ...]:
    """Spark's load([...]) gives a JSON list under `paths`; commas are for SQL, which has none."""
    if text.lstrip().startswith("["):
        try:
            several = json.loads(text)
        except json.JSONDecodeError:
            several = None
        if isinstance(several, list) and all(isinstance(each, str) for each in several):
            return tuple(several)
    return _list(text)


def _table(text: str) -> str:
    name = text.strip().lower()
    if name not in COLUMNS:
        hint = nearest(name, tuple(COLUMNS))
        raise ValueError(f"no such table{hint}: expected one of {', '.join(COLUMNS)}")
    return name


def _partitions(text: str) -> frozenset[int]:
    numbers: set[int] = set()
    for each in _some(text):
        match = _RANGE.fullmatch(each)
        if match is None:
            raise ValueError("expected numbers or ranges such as 0,2,5-7")
        first = int(match[1])
        last = int(match[2] or first)
        if not first <= last < 2**31 or last - first > 1_000_000:
            raise ValueError("expected numbers or ranges such as 0,2,5-7")
        numbers.update(range(first, last + 1))
    return frozenset(numbers)


def _offsets(word: str, default: int) -> Callable[[str], Offsets]:
    """`word` is the one name this option may have."""

    def parse(text: str) -> Offsets:
        plain = text.strip()
        named = {"earliest": EARLIEST, "latest": LATEST}
        if plain.lower() in named:
            return Offsets(default=named[plain.lower()])
        if re.fullmatch(r"\d+", plain) and int(plain) < _INT64:
            return Offsets(default=int(plain))
        try:
            return Offsets(default=default, by_partition=_json_offsets(json.loads(plain)))
        except (ValueError, AttributeError, TypeError, RecursionError):
            expected = f'expected {word}, a number, or JSON such as {{"topic": {{"0": 23}}}}'
            raise ValueError(expected) from None

    return parse


def _json_offsets(topics: Mapping[str, Mapping[str, int]]) -> dict[tuple[str, int], int]:
    offsets = {}
    for topic, partitions in topics.items():
        for partition, offset in partitions.items():
            if type(offset) is not int or not EARLIEST <= offset < _INT64 or int(partition) < 0:
                raise TypeError
            offsets[topic, int(partition)] = offset
    return offsets


def _time(text: str) -> int:
    if not re.fullmatch(r"\s*\d+\s*", text) or int(text) >= _INT64:
        raise ValueError("expected epoch milliseconds")
    return int(text)


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.strip().lower() == "true"


def _mode(text: str) -> Mode:
    try:
        return Mode(text.strip().upper())
    except ValueError:
        raise ValueError(f"expected one of {', '.join(Mode)}") from None


def _isolation(text: str) -> IsolationLevel:
    try:
        return IsolationLevel(text.strip().lower())
    except ValueError:
        raise ValueError(f"expected one of {', '.join(IsolationLevel)}") from None


def _size(text: str) -> int:
    match = _SIZE.fullmatch(text.strip())
    if match is None or not (size := int(match[1]) * _UNITS[match[2].lower()]):
        raise ValueError("expected a size such as 134217728 or 128m")
    return size


def _settings(text: str) -> tuple[str, ...]:
    from kafka_log.settings import SettingsError, read_settings

    if text.lstrip().startswith("{"):
        try:
            named = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(
                f'expected JSON such as {{"delete.retention.ms": 0}}: {error}'
            ) from None
        given = tuple(f"{name}={_setting(value)}" for name, value in named.items())
    else:
        given = tuple(each.strip() for each in text.split(";") if each.strip())
    try:
        read_settings(overrides=given)
    except SettingsError as error:
        raise ValueError(str(error)) from None
    return given


def _setting(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _rounds(text: str) -> int:
    if not re.fullmatch(r"\s*0*[1-9]\d{0,8}\s*", text):
        raise ValueError("expected a number, 1 or more")
    return int(text)


_OPTIONS: dict[str, tuple[str, Callable[[str], object]]] = {
    "path": ("path", _path),
    "paths": ("several_paths", _path),
    "table": ("table", _table),
    "topics": ("topics", _some),
    "partitions": ("partitions", _partitions),
    "startingOffsets": ("starting_offsets", _offsets("earliest", EARLIEST)),
    "endingOffsets": ("ending_offsets", _offsets("latest", LATEST)),
    "startingTimestamp": ("starting_timestamp", _time),
    "endingTimestamp": ("ending_timestamp", _time),
    "isolationLevel": ("isolation_level", _isolation),
    "includeControl": ("include_control", _boolean),
    "mode": ("mode", _mode),
    "columns": ("columns", _some),
    "maxSplitBytes": ("max_split_bytes", _size),
    "verifyChecksums": ("verify_checksums", _boolean),
    "now": ("now_ms", _time),
    "settings": ("settings", _settings),
    "rounds": ("rounds", _rounds),
}
_NAMES = {name.lower(): name for name in _OPTIONS}
_PARSERS = {name.lower(): parser for name, parser in _OPTIONS.items()}
