"""Format sizes, durations, times and counts for people, and read sizes as people write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import overload

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")
_SIZE = re.compile(r"([0-9]+)\s*([kmgt]?)(?:i?b)?", re.IGNORECASE)
_FACTORS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SECOND = 1000
_MINUTE = 60 * _SECOND
_HOUR = 60 * _MINUTE
_DAY = 24 * _HOUR
_YEAR = 365 * _DAY
_MANY_YEARS = 100 * _YEAR
_FEW_SECONDS = 10
_DURATIONS = ((_YEAR, "y"), (_DAY, "d"), (_HOUR, "h"), (_MINUTE, "min"), (_SECOND, "s"))


def human_size(size: int | None) -> str | None:
    """Return `1023 B`, `1.0 KiB` or `10 MiB`: at most four digits before the unit."""
    if size is None:
        return None
    if size < 1024:
        return f"{size} B"
    amount = float(size)
    for unit in _UNITS:
        amount /= 1024
        if amount < 1023.5 or unit == _UNITS[-1]:
            return f"{amount:.1f} {unit}" if amount < 9.95 else f"{amount:.0f} {unit}"
    raise AssertionError("the last unit always returns")


def parse_size(text: str) -> int | None:
    """Read `268435456`, `256m`, `256 MB` or `256MiB`, always in factors of 1024."""
    match = _SIZE.fullmatch(text.strip())
    return None if match is None else int(match[1]) * _FACTORS[match[2].lower()]


def human_duration(milliseconds: int) -> str:
    """Return `12 ms`, `1.2 s`, `45 s`, `3 h 12 min`, `2 d 4 h` or `30 y 4 d`, rounded down.

    A year has 365 days.
    """
    if milliseconds < 0:
        return f"-{human_duration(-milliseconds)}"
    if milliseconds < _SECOND:
        return f"{milliseconds} ms"
    if milliseconds < _FEW_SECONDS * _SECOND:
        whole, tenths = divmod(milliseconds // 100, 10)
        return f"{whole}.{tenths} s" if tenths else f"{whole} s"
    units = iter(_DURATIONS)
    for length, unit in units:
        count, rest = divmod(milliseconds, length)
        if count:
            smaller, name = next(units, (length, unit))
            more = rest // smaller if milliseconds < _MANY_YEARS else 0
            return f"{count:,} {unit} {more} {name}" if more else f"{count:,} {unit}"
    raise AssertionError("a second or more has a unit")


def counted(number: int, what: str) -> str:
    """Return `1 topic`, `2 topics` or `2,000 topics`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


@overload
def iso_time(timestamp_ms: int) -> str: ...
@overload
def iso_time(timestamp_ms: None) -> None: ...
def iso_time(timestamp_ms: int | None) -> str | None:
    """Return an ISO 8601 time; a time outside of the calendar stays a number."""
    if timestamp_ms is None:
        return None
    try:
        moment = _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return str(timestamp_ms)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def time_and_age(timestamp_ms: int, now_ms: int) -> str:
    """Return a time and its age: `2023-11-14T22:13:20.000Z, 2 d 4 h ago`."""
    time, age = iso_time(timestamp_ms), now_ms - timestamp_ms
    return f"{time}, {human_duration(age)} ago" if timestamp_ms >= 0 and age >= 0 else time
