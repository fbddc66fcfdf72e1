"""Turns a function that pushes items into an iterator over them.

    iter_pushed(lambda push: work(push))

The work runs in its own thread, at most a few items ahead. An error of the work is raised from the
iterator; when the iterator is closed, the next push ends the work.
"""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_Item = TypeVar("_Item")
_AHEAD = 4
_CHECK_S = 0.1
"""Seconds between two checks whether the iterator is closed."""


class _ClosedError(BaseException):
    """Not an error: ends the work of a closed iterator, past all handlers of errors."""


class _Pipe(Generic[_Item]):
    def __init__(self) -> None:
        self.items: queue.Queue[tuple[_Item] | BaseException | None] = queue.Queue(_AHEAD)
        self.is_closed = False

    def push(self, item: tuple[_Item] | BaseException | None) -> None:
        while not self.is_closed:
            try:
                self.items.put(item, timeout=_CHECK_S)
            except queue.Full:
                continue
            return
        raise _ClosedError


def iter_pushed(work: Callable[[Callable[[_Item], None]], None]) -> Iterator[_Item]:
    pipe: _Pipe[_Item] = _Pipe()

    def run() -> None:
        try:
            try:
                work(lambda item: pipe.push((item,)))
            except BaseException as error:  # noqa: BLE001  # raised from the iterator
                pipe.push(error)
            else:
                pipe.push(None)
        except _ClosedError:
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
