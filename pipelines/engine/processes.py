"""Processes that work through tasks, one at a time each.

The pools of the standard library either hang when a process is killed, or give up all tasks. Here
every process has its own pipe: when a pipe ends, its task has failed, another process takes over,
and the other tasks continue.

Processes are started new (forkserver, or spawn), never forked from this one: compiled kernels and
their threads do not survive a fork. No process imports from the current directory, which may be
evidence.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import pickle
import signal
import sys
import traceback
from functools import partial
from multiprocessing import connection
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from kafka_format.access import watching
from kafka_format.errors import FormatError
from kafka_format.search_path import CleanStart
from kafka_log.errors import LogError
from pipelines.engine.progress import listening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from multiprocessing.connection import Connection
    from multiprocessing.context import BaseContext
    from multiprocessing.process import BaseProcess
    from types import TracebackType

    Function = Callable[[Any], Iterable[Any]]

_END_TIMEOUT_S = 5.0
"""How long a process may take to end after its last task."""


class Answer(NamedTuple):
    """The outcome of a task: its rows, and why some are missing."""

    number: int
    rows: list[Any]
    failure: tuple[str, str] | None = None
    """A message, and a traceback where the message is not enough."""
    is_damage: bool = False
    """Whether the file that was read is at fault, not the reading."""
    grown: tuple[str, ...] = ()
    """Files that grew while they were read."""


def answer(number: int, task: Any, function: Function) -> Answer:
    """Run a task; rows that were yielded before an error are kept."""
    with watching() as watch:
        answered = _answer(number, task, function)
        changes = watch.changes()
        if answered.failure is None:
            changes += watch.raised  # the function caught it, but its rows mix two moments
    if changes:
        text = "; ".join(map(os_error_text, changes))
        return answered._replace(failure=(text, ""))
    return answered._replace(grown=tuple(watch.grown))


def _answer(number: int, task: Any, function: Function) -> Answer:
    rows: list[Any] = []
    try:
        rows.extend(function(task))
    except (FormatError, LogError) as error:
        is_damage = isinstance(error, FormatError) or error.is_damage
        return Answer(number, rows, (str(error), ""), is_damage=is_damage)
    except OSError as error:
        return Answer(number, rows, (os_error_text(error), ""))
    except MemoryError:
        return Answer(number, rows, ("not enough memory", ""))
    except Exception as error:  # noqa: BLE001  # one task must not end the others
        return Answer(number, rows, (internal_error_text(error), traceback.format_exc()))
    return Answer(number, rows)


def os_error_text(error: OSError) -> str:
    """Return a text such as `path: No such file or directory`."""
    text = error.strerror or str(error) or type(error).__name__
    return f"{error.filename}: {text}" if error.filename else text


def internal_error_text(error: Exception) -> str:
    return f"internal error: {type(error).__name__}: {error}"


class Share(NamedTuple):
    """The share of its task that a process has finished."""

    number: int
    share: float


class _Worker:
    """A process, our end of its pipe, and its task."""

    def __init__(self, context: BaseContext, function: Function) -> None:
        self.pipe: Connection[Any, Any]
        self.pipe, theirs = context.Pipe()
        self.process: BaseProcess = context.Process(  # type: ignore[attr-defined]
            target=_work, args=(theirs, function), daemon=True
        )
        # The first also starts multiprocessing's server and tracker.
        with CleanStart(), _without_main():
            self.process.start()
        theirs.close()
        self.number: int | None = None

    def give(self, number: int, task: Any) -> None:
        self.number = number
        with contextlib.suppress(BrokenPipeError):  # the process is dead: `receive` reports it
            self.pipe.send((number, task))

    def receive(self) -> Answer | Share:
        """Return the answer, or a share of it; if the process has died, a failure that says why."""
        number = self.number
        if number is None:
            raise ValueError("this process has no task")
        try:
            given: Answer | Share = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(_END_TIMEOUT_S)
            return Answer(number, [], (_death_text(self.process.exitcode), ""))
        if isinstance(given, Answer):
            self.number = None
        return given

    def close(self) -> None:
        self.pipe.close()


@contextlib.contextmanager
def _without_main() -> Iterator[None]:
    """Keep a process from running the program again that called us: it may be a plain script.

    multiprocessing imports the main module in each process. Our functions are in other modules.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def _death_text(exit_code: int | None) -> str:
    if exit_code is not None and exit_code < 0:
        name = signal.Signals(-exit_code).name
        hint = " (perhaps by a system short of memory)" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{hint}"
    return f"its process ended unexpectedly, with exit code {exit_code}"


class Processes:
    def __init__(self, function: Function, count: int) -> None:
        methods = multiprocessing.get_all_start_methods()
        method = "forkserver" if "forkserver" in methods else "spawn"
        self._context = multiprocessing.get_context(method)
        self._function = function
        self._count = count
        self._workers: list[_Worker] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the pipe, which ends an idle process; kill one that has a task."""
        for worker in self._workers:
            worker.close()
            if worker.number is not None:
                worker.process.kill()
        for worker in self._workers:
            worker.process.join(_END_TIMEOUT_S)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()

    def answers(
        self, tasks: Sequence[Any], on_share: Callable[[int, float], None] | None = None
    ) -> Iterator[Answer]:
        """Yield answers as they are ready; call `on_share` for tasks under way."""
        remaining = iter(enumerate(tasks))
        for worker in self._workers:  # idle ones of an earlier call
            self._give_next(worker, remaining)
        for _ in range(min(self._count, len(tasks)) - len(self._workers)):
            self._workers.append(self._new_worker(remaining))
        while busy := {
            worker.pipe: worker for worker in self._workers if worker.number is not None
        }:
            for pipe in connection.wait(list(busy)):
                worker = busy[pipe]  # type: ignore[index]
                answered = worker.receive()
                if isinstance(answered, Share):
                    if on_share is not None:
                        on_share(*answered)
                    continue
                if worker.number is None:
                    self._give_next(worker, remaining)
                else:
                    self._replace(worker, remaining)
                yield answered

    def _new_worker(self, remaining: Iterator[tuple[int, Any]]) -> _Worker:
        worker = _Worker(self._context, self._function)
        self._give_next(worker, remaining)
        return worker

    def _give_next(self, worker: _Worker, remaining: Iterator[tuple[int, Any]]) -> None:
        following = next(remaining, None)
        if following is not None:
            worker.give(*following)

    def _replace(self, dead: _Worker, remaining: Iterator[tuple[int, Any]]) -> None:
        dead.close()
        self._workers.remove(dead)
        following = next(remaining, None)
        if following is not None:
            worker = _Worker(self._context, self._function)
            self._workers.append(worker)
            worker.give(*following)


def _work(pipe: Connection[Any, Any], function: Function) -> None:
    """Run tasks until the other end closes the pipe, for whatever reason."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    try:
        while True:
            number, task = pipe.recv()
            with listening(partial(_send_share, pipe, number)):
                answered = answer(number, task, function)
            _send(pipe, answered)
    except (EOFError, OSError):
        return


def _send_share(pipe: Connection[Any, Any], number: int, share: float) -> None:
    pipe.send(Share(number, share))


def _send(pipe: Connection[Any, Any], answered: Answer) -> None:
    try:
        pipe.send(answered)
    except (TypeError, AttributeError, pickle.PicklingError) as error:  # not picklable
        failure = (internal_error_text(error), traceback.format_exc())
        pipe.send(Answer(answered.number, [], failure))
