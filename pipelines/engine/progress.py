"""Progress of tasks between their answers: reported by the task, shown as a bar.

A long task calls `report` with the share of its work that is done, or lets a `Progress` count its
bytes. Reports reach the bar directly in this process, through the pipe from another process, and
through small files on Spark, if there is a directory for them (spark_tasks.py). Without a listener
they are dropped.
"""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TextIO

    OnShare = Callable[[float], None]
    OnProgress = Callable[[int, int], None]

_CLEAR_LINE = "\r\033[K"
_INTERVAL_S = 0.2
_MEBIBYTE = 1024 * 1024
_BAR = 20
_MOST_UNFINISHED = 0.99
"""An unfinished task counts as less than whole, even if its estimate was too low."""
_MINUTE, _HOUR = 60, 3600

_listener: OnShare | None = None


def report(share: float) -> None:
    """Report the share of the current task that is done, from 0 to 1."""
    if _listener is not None:
        _listener(share)


@contextmanager
def listening(listener: OnShare) -> Iterator[None]:
    """Pass on the reports of the task that runs meanwhile, a few times a second at most."""
    global _listener  # noqa: PLW0603  # a process has one task at a time
    before, last = _listener, 0.0

    def throttled(share: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _INTERVAL_S:
            last = now
            listener(share)

    _listener = throttled
    try:
        yield
    finally:
        _listener = before


class Progress:
    """Counts the bytes that the current task has done, of an estimated total."""

    def __init__(self) -> None:
        self._done = self._total = 0

    def begin(self, total: int) -> None:
        """Start, or start again if the work so far was discarded."""
        self._done, self._total = 0, total

    def add(self, size: int) -> None:
        self._done += size
        if self._total:
            report(self._done / self._total)


class Shares:
    """Adds up finished and unfinished tasks by their sizes."""

    def __init__(self, sizes: Sequence[int], on_progress: OnProgress | None) -> None:
        self._sizes = sizes
        self._total = sum(sizes)
        self._done = 0
        self._parts: dict[int, int] = {}
        self._on_progress = on_progress

    def part(self, number: int, share: float) -> None:
        self._parts[number] = int(self._sizes[number] * min(max(share, 0.0), _MOST_UNFINISHED))
        self._publish()

    def whole(self, number: int) -> None:
        self._parts.pop(number, None)
        self._done += self._sizes[number]
        self._publish()

    def _publish(self) -> None:
        if self._on_progress is not None:
            self._on_progress(self._done + sum(self._parts.values()), self._total)


def progress_bar(
    label: str, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
) -> OnProgress | None:
    """Return an `on_progress` that draws a bar with speed and time left; None if not a TTY."""
    out = sys.stderr if stream is None else stream
    if not out.isatty():
        return None
    shown, start = "", clock()

    def show(done: int, total: int) -> None:
        nonlocal shown
        percent = 100 * done // total if total else 100
        bar = "█" * (percent * _BAR // 100)
        text = f"\r{label} {bar:{_BAR}} {percent:3d} %{_speed(done, total, clock() - start)}"
        if text != shown:
            out.write(f"{text}\033[K" if percent < 100 else f"{text}{_CLEAR_LINE}")
            out.flush()
            shown = text

    return show


def _speed(done: int, total: int, seconds: float) -> str:
    """Return speed and time left, once there is enough to estimate them."""
    if done < _MEBIBYTE or seconds < 1 or done >= total:
        return ""
    left = round((total - done) * seconds / done)
    minutes, rest = divmod(left, _MINUTE)
    shown = f"{minutes}:{rest:02d}"
    if left >= _HOUR:
        shown = f"{minutes // _MINUTE}:{minutes % _MINUTE:02d}:{rest:02d}"
    return f"  {done / _MEBIBYTE / seconds:,.0f} MB/s, {shown} left"
