"""How far tasks are, between two of their answers: told by the task itself, seen as a bar.

A task that takes long calls `report` with the share of its work that is done, or has a `Progress`
count its bytes. In this process that goes to the bar at once, from another process through its
pipe, on Spark through small files where there is a directory for them (spark_tasks.py); where
nobody looks, it goes nowhere.
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

_WIPE = "\r\033[K"
_EVERY_S = 0.2
_MEBIBYTE = 1024 * 1024
_BAR = 20
_NEARLY = 0.99
"""What is not over is not done, however much was thought to be all."""
_MINUTE, _HOUR = 60, 3600

_listener: OnShare | None = None


def report(share: float) -> None:
    """Of the task that this process works on: how much is done, from 0 to 1."""
    if _listener is not None:
        _listener(share)


@contextmanager
def listening(listener: OnShare) -> Iterator[None]:
    """Hear what the task says that is run meanwhile; a few times a second at most."""
    global _listener  # noqa: PLW0603  # a process has one task at a time
    before, last = _listener, 0.0

    def now_and_then(share: float) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last >= _EVERY_S:
            last = now
            listener(share)

    _listener = now_and_then
    try:
        yield
    finally:
        _listener = before


class Progress:
    """Of the task that this process works on: bytes that are done, of about so many."""

    def __init__(self) -> None:
        self._done = self._total = 0

    def begin(self, total: int) -> None:
        """Perhaps anew, where what was done came to nothing."""
        self._done, self._total = 0, total

    def add(self, size: int) -> None:
        self._done += size
        if self._total:
            report(self._done / self._total)


class Shares:
    """Tasks done and half done, as one number: their sizes."""

    def __init__(self, sizes: Sequence[int], on_progress: OnProgress | None) -> None:
        self._sizes = sizes
        self._total = sum(sizes)
        self._done = 0
        self._parts: dict[int, int] = {}
        self._on_progress = on_progress

    def part(self, number: int, share: float) -> None:
        self._parts[number] = int(self._sizes[number] * min(max(share, 0.0), _NEARLY))
        self._tell()

    def whole(self, number: int) -> None:
        self._parts.pop(number, None)
        self._done += self._sizes[number]
        self._tell()

    def _tell(self) -> None:
        if self._on_progress is not None:
            self._on_progress(self._done + sum(self._parts.values()), self._total)


def progress_bar(
    label: str, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
) -> OnProgress | None:
    """A bar with its speed and the time left, for `on_progress`; none where nobody would see it."""
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
            out.write(f"{text}\033[K" if percent < 100 else f"{text}{_WIPE}")
            out.flush()
            shown = text

    return show


def _speed(done: int, total: int, seconds: float) -> str:
    """Of bytes, once there is anything to judge by."""
    if done < _MEBIBYTE or seconds < 1 or done >= total:
        return ""
    left = round((total - done) * seconds / done)
    minutes, rest = divmod(left, _MINUTE)
    shown = f"{minutes}:{rest:02d}"
    if left >= _HOUR:
        shown = f"{minutes // _MINUTE}:{minutes % _MINUTE:02d}:{rest:02d}"
    return f"  {done / _MEBIBYTE / seconds:,.0f} MB/s, {shown} left"
