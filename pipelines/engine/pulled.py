"""From who pushes to who pulls: a function that hands on items becomes an iterator over them.

    pulled(lambda push: work(push))

The work runs in a thread of its own, at most a few items ahead. What it raises is raised here; when
nobody pulls any more, its next push ends it.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_Item = TypeVar("_Item")
_AHEAD = 4
_PATIENCE = 0.1
"""Seconds between two looks at whether anybody still pulls."""


class _NobodyPullsError(BaseException):
    """Not an error: it ends work that nobody waits for, past all who handle errors."""


class _Pipe(Generic[_Item]):
    def __init__(self) -> None:
        self.items: queue.Queue[tuple[_Item] | BaseException | None] = queue.Queue(_AHEAD)
        self.is_closed = False

    def push(self, item: tuple[_Item] | BaseException | None) -> None:
        while not self.is_closed:
            try:
                self.items.put(item, timeout=_PATIENCE)
            except queue.Full:
                continue
            return
        raise _NobodyPullsError


def pulled(work: Callable[[Callable[[_Item], None]], None]) -> Iterator[_Item]:
    pipe: _Pipe[_Item] = _Pipe()

    def run() -> None:
        try:
            try:
                work(lambda item: pipe.push((item,)))
            except BaseException as error:  # noqa: BLE001  # raised where it is pulled
                pipe.push(error)
            else:
                pipe.push(None)
        except _NobodyPullsError:
            pass

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        while (item := pipe.items.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item[0]
    finally:
        pipe.is_closed = True
        thread.join()
