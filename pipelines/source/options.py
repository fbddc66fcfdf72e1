"""The options of `kafka_files`, parsed and checked.

Names are Spark's (`startingOffsets`, …), in any case, as Spark passes them on. An unknown name is
refused with the nearest known one; so are values that contradict each other.

    path, paths          a path or URI, globs allowed; several as a JSON list, or separated
                         by commas
    table                records
    topics, partitions   globs, and numbers or ranges (0,2,5-7), separated by commas
    subscribe            names of topics, separated by commas; subscribePattern: a regex of names;
    assign               {"orders": [0, 1]}: at most one of these and topics
    startingOffsets      earliest, a number for every partition, or Spark's JSON
    endingOffsets        {"orders": {"0": 23, "1": -2}}: -2 is earliest, -1 latest
    startingTimestamp    epoch milliseconds or ISO 8601: from the first record of that time or later
    endingTimestamp      … up to that record, exclusively
    startingOffsetsByTimestamp, endingOffsetsByTimestamp    the same by partition, as JSON
    isolationLevel       read_uncommitted, or read_committed as a consumer would see it
    includeControl       whether to read control records as well
    mode                 PERMISSIVE, DROPMALFORMED or FAILFAST
    columnNameOfCorruptRecord    name of the column of `records` that describes damage
    maxDecompressedBytes how large the records of a batch, and a row, may be (256m)
    followLinks          whether to follow links that lead out of the given paths
    columns              which columns, separated by commas
    maxSplitBytes        about how much one task reads (128m)
    verifyChecksums      whether a wrong checksum is damage

Only for the table compaction, which shows what would happen:

    now                  as startingTimestamp: the time to assume; default: the clock
    settings             Kafka's names: JSON, or name=value separated by semicolons
    rounds               how many rounds of the cleaner (1)
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from kafka_format.access import DEFAULT_MAX_DECOMPRESSED_BYTES, JAVA_MAX
from kafka_format.shown_text import name_text
from pipelines.report.text import parse_size
from pipelines.source.globs import split_outside
from pipelines.source.schema import COLUMNS, CORRUPT_RECORD, column_names, nearest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

EARLIEST, LATEST = -2, -1
DEFAULT_SPLIT_BYTES = 128 * 1024 * 1024

_RANGE = re.compile(r"(\d+)(?:-(\d+))?")
_INT64 = 2**63
_NO_TABLES = (
    "location: found a table of Spark's catalog, expected CREATE TEMPORARY VIEW … USING kafka_files"
    " OPTIONS (path '…'): Spark does not hand the options of such a table on to a source in Python"
)
"""Such a table would be read without its options: all topics, or nothing at all."""


class OptionsError(ValueError):
    """An option is not valid: which, what was found, what was expected."""


class ReadMode(StrEnum):
    PERMISSIVE = "PERMISSIVE"
    """Damage is a row in records, a mark in batches, and a finding."""
    DROPMALFORMED = "DROPMALFORMED"
    """Damage is left out."""
    FAILFAST = "FAILFAST"
    """Damage fails the query."""


class IsolationLevel(StrEnum):
    READ_UNCOMMITTED = "read_uncommitted"
    READ_COMMITTED = "read_committed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Offsets:
    """An offset for each partition: one for all, or by partition."""

    default: int
    by_partition: Mapping[tuple[str, int], int] = field(default_factory=dict)

    def of(self, topic: str, partition: int | None) -> int:
        return self.by_partition.get((topic, -1 if partition is None else partition), self.default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """What pushed filters require of a row, at least; Spark filters again."""

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
    """The options of one query. Picklable."""

    paths: tuple[str, ...]
    table: str = "records"
    topics: tuple[str, ...] = ()
    """Globs; empty for all."""
    subscribed: tuple[str, ...] = ()
    """Names."""
    subscribed_pattern: str | None = None
    assigned: frozenset[tuple[str, int]] | None = None
    partitions: frozenset[int] | None = None
    starting_offsets: Offsets = Offsets(default=EARLIEST)
    ending_offsets: Offsets = Offsets(default=LATEST)
    starting_timestamp: int | None = None
    ending_timestamp: int | None = None
    starting_times: Mapping[tuple[str, int], int] = field(default_factory=dict)
    """By partition, instead of `starting_timestamp`."""
    ending_times: Mapping[tuple[str, int], int] = field(default_factory=dict)
    isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED
    include_control: bool = False
    mode: ReadMode = ReadMode.PERMISSIVE
    columns: tuple[str, ...] = ()
    """In the order of the schema; never empty once parsed."""
    corrupt_column: str = CORRUPT_RECORD
    """As in Spark's own readers."""
    max_decompressed_bytes: int = DEFAULT_MAX_DECOMPRESSED_BYTES
    follow_links: bool = False
    max_split_bytes: int = DEFAULT_SPLIT_BYTES
    verify_checksums: bool = True
    now_ms: int | None = None
    settings: tuple[str, ...] = ()
    """Each as name=value."""
    rounds: int = 1
    bounds: Bounds = Bounds()

    def includes(self, topic: str, partition: int | None) -> bool:
        """Return whether rows of a partition are selected, by options and by pushed filters."""
        shown = name_text(topic)
        return self.selects(shown, partition) and self.bounds.includes(shown, partition)

    def selects(self, topic: str, partition: int | None) -> bool:
        """Return the same by options only, which match the topic name as rows show it."""
        if self.assigned is not None:
            return (topic, partition) in self.assigned
        named = any(fnmatchcase(topic, glob) for glob in self.topics) or topic in self.subscribed
        if self.subscribed_pattern is not None:
            named = re.fullmatch(self.subscribed_pattern, topic) is not None
        numbered = self.partitions is None or partition in self.partitions
        return numbered and (named or not self.chooses_topics)

    @property
    def chooses_topics(self) -> bool:
        return bool(
            self.topics or self.subscribed or self.subscribed_pattern is not None or self.assigned
        )

    @property
    def is_narrowed(self) -> bool:
        """Whether options select some of the partitions."""
        return self.chooses_topics or self.partitions is not None

    def starting_time(self, topic: str, partition: int | None) -> int | None:
        return _time_of(self.starting_times, self.starting_timestamp, topic, partition)

    def ending_time(self, topic: str, partition: int | None) -> int | None:
        return _time_of(self.ending_times, self.ending_timestamp, topic, partition)


def _time_of(
    times: Mapping[tuple[str, int], int], every: int | None, topic: str, partition: int | None
) -> int | None:
    return times.get((topic, -1 if partition is None else partition), every)


def parse_options(given: Mapping[str, str]) -> Options:
    """Parse options. Raises OptionsError, which names the option."""
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
    corrupt = values.get("corrupt_column", CORRUPT_RECORD)
    _refuse_taken(table, corrupt)
    columns = _known_columns(table, values.pop("columns", ()), corrupt)
    parsed = Options(paths=paths, columns=columns, **values)
    _refuse_several_ways(options)
    _refuse_contradictions(parsed)
    return parsed


def _known_columns(table: str, requested: tuple[str, ...], corrupt: str) -> tuple[str, ...]:
    """Return the columns in the order of the schema, so that their order does not matter."""
    known = {name.lower(): name for name, _, _ in COLUMNS[table]}
    if CORRUPT_RECORD in known:
        del known[CORRUPT_RECORD]
        known[corrupt.lower()] = CORRUPT_RECORD
    for name in requested:
        if name.lower() not in known:
            shown = [corrupt if each == CORRUPT_RECORD else each for each in known.values()]
            hint = nearest(name, tuple(shown))
            listed = ", ".join(shown)
            raise OptionsError(f"option columns: {table} has no {name}{hint}: expected {listed}")
    if not requested:
        return column_names(table)
    chosen = {known[name.lower()] for name in requested}
    return tuple(name for name, _, _ in COLUMNS[table] if name in chosen)


def _refuse_taken(table: str, corrupt: str) -> None:
    names = [name.lower() for name, _, _ in COLUMNS[table]]
    if CORRUPT_RECORD in names and corrupt.lower() in names and corrupt.lower() != CORRUPT_RECORD:
        raise OptionsError(
            f"option columnNameOfCorruptRecord={corrupt!r}: {table} has a column of that name"
        )


def _refuse_several_ways(given: Mapping[str, str]) -> None:
    """Refuse several selections: Spark's Kafka source has three, `topics` is a fourth."""
    ways = [_NAMES[name] for name in ("assign", "subscribe", "subscribepattern", "topics")]
    found = [name for name in ways if name.lower() in given]
    if len(found) > 1:
        raise OptionsError(f"{' and '.join(found)}: expected at most one of {', '.join(ways)}")
    if found == ["assign"] and "partitions" in given:
        raise OptionsError("assign and partitions: expected one of them, for assign names both")


def _refuse_contradictions(options: Options) -> None:
    start, end = options.starting_offsets, options.ending_offsets
    for offsets, time, times, name in (
        (start, options.starting_timestamp, options.starting_times, "starting"),
        (end, options.ending_timestamp, options.ending_times, "ending"),
    ):
        has_offsets = offsets.default >= 0 or bool(offsets.by_partition)
        given = {
            f"{name}Offsets": has_offsets,
            f"{name}Timestamp": time is not None,
            f"{name}OffsetsByTimestamp": bool(times),
        }
        if sum(given.values()) > 1:
            several = " and ".join(each for each, is_given in given.items() if is_given)
            raise OptionsError(f"{several}: expected at most one of them")
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
    for topic, partition in {("", None), *options.starting_times, *options.ending_times}:
        first_time = options.starting_time(topic, partition)
        last_time = options.ending_time(topic, partition)
        if first_time is not None and last_time is not None and first_time > last_time:
            where = f" of {topic}-{partition}" if topic else ""
            raise OptionsError(
                f"startingTimestamp {first_time}{where}: expected at most endingTimestamp"
                f" {last_time}"
            )


# ---------------------------------------------------------------------------- values from text


def _items(text: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in text.split(",") if each.strip())


def _one_or_more(text: str) -> tuple[str, ...]:
    """Parse one or more: an empty list is likely a mistake and does not mean all."""
    if not (found := _items(text)):
        raise ValueError("found none, expected one or more; without the option all are selected")
    return found


def _path(text: str) -> tuple[str, ...]:
    """Parse paths: Spark's load([...]) gives a JSON list under `paths`; commas are for SQL."""
    if text.lstrip().startswith("["):
        try:
            several = json.loads(text)
        except json.JSONDecodeError:
            several = None
        if isinstance(several, list) and all(isinstance(each, str) for each in several):
            return tuple(several)
    return tuple(each.strip() for each in split_outside(text) if each.strip())


def _table(text: str) -> str:
    name = text.strip().lower()
    if name not in COLUMNS:
        hint = nearest(name, tuple(COLUMNS))
        raise ValueError(f"no such table{hint}: expected one of {', '.join(COLUMNS)}")
    return name


def _partitions(text: str) -> frozenset[int]:
    numbers: set[int] = set()
    for each in _one_or_more(text):
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
    """Return a parser; `word` is the one name that the option accepts."""

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
    """Parse epoch milliseconds or ISO 8601; a time without a zone is UTC, as in the jobs."""
    from datetime import UTC, datetime, timedelta

    plain = text.strip()
    if re.fullmatch(r"\d+", plain) and int(plain) < _INT64:
        return int(plain)
    try:
        moment = datetime.fromisoformat(plain)
    except ValueError:
        expected = "expected epoch milliseconds or a time such as 2026-01-31T12:00:00Z"
        raise ValueError(expected) from None
    zoned = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (zoned - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _times(text: str) -> dict[tuple[str, int], int]:
    try:
        return {
            (topic, _number(partition)): _time(str(time))
            for topic, partitions in json.loads(text).items()
            for partition, time in partitions.items()
        }
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise ValueError('expected JSON such as {"topic": {"0": 1767225600000}}') from None


def _number(text: str) -> int:
    if not re.fullmatch(r"\d{1,10}", text):
        raise ValueError
    return int(text)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"expected a regular expression: {error}") from None
    return text


def _assign(text: str) -> frozenset[tuple[str, int]]:
    expected = 'expected JSON such as {"topic": [0, 1]}'
    try:
        found = {
            (topic, number)
            for topic, numbers in json.loads(text).items()
            for number in numbers
            if type(number) is int or _refuse(expected)
        }
    except (ValueError, AttributeError, TypeError, RecursionError):
        raise ValueError(expected) from None
    if not found:
        raise ValueError(f"found no partition, {expected}")
    return frozenset(found)


def _refuse(expected: str) -> bool:
    raise ValueError(expected)


def _column_name(text: str) -> str:
    if not text.strip():
        raise ValueError("found none, expected the name of a column")
    return text.strip()


def _boolean(text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise ValueError("expected true or false")
    return text.strip().lower() == "true"


def _mode(text: str) -> ReadMode:
    try:
        return ReadMode(text.strip().upper())
    except ValueError:
        raise ValueError(f"expected one of {', '.join(ReadMode)}") from None


def _isolation(text: str) -> IsolationLevel:
    try:
        return IsolationLevel(text.strip().lower())
    except ValueError:
        raise ValueError(f"expected one of {', '.join(IsolationLevel)}") from None


def _size(text: str) -> int:
    size = parse_size(text)
    if not size:
        raise ValueError("expected a size such as 134217728 or 128m")
    return size


def _decompressed(text: str) -> int:
    size = _size(text)
    if size > JAVA_MAX:
        raise ValueError(f"expected at most {JAVA_MAX}, the most that an array of Spark's can hold")
    return size


def _settings(text: str) -> tuple[str, ...]:
    from kafka_log.config.settings import SettingsError, read_settings

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
    "topics": ("topics", _one_or_more),
    "subscribe": ("subscribed", _one_or_more),
    "subscribePattern": ("subscribed_pattern", _pattern),
    "assign": ("assigned", _assign),
    "partitions": ("partitions", _partitions),
    "startingOffsets": ("starting_offsets", _offsets("earliest", EARLIEST)),
    "endingOffsets": ("ending_offsets", _offsets("latest", LATEST)),
    "startingTimestamp": ("starting_timestamp", _time),
    "endingTimestamp": ("ending_timestamp", _time),
    "startingOffsetsByTimestamp": ("starting_times", _times),
    "endingOffsetsByTimestamp": ("ending_times", _times),
    "isolationLevel": ("isolation_level", _isolation),
    "includeControl": ("include_control", _boolean),
    "mode": ("mode", _mode),
    "columns": ("columns", _one_or_more),
    "columnNameOfCorruptRecord": ("corrupt_column", _column_name),
    "maxDecompressedBytes": ("max_decompressed_bytes", _decompressed),
    "followLinks": ("follow_links", _boolean),
    "maxSplitBytes": ("max_split_bytes", _size),
    "verifyChecksums": ("verify_checksums", _boolean),
    "now": ("now_ms", _time),
    "settings": ("settings", _settings),
    "rounds": ("rounds", _rounds),
}
_NAMES = {name.lower(): name for name in _OPTIONS}
_PARSERS = {name.lower(): parser for name, parser in _OPTIONS.items()}
