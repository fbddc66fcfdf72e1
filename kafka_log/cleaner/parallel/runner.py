"""Where tasks of a round run: the protocol, and one that runs them in this process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kafka_log.cleaner.parallel.scan import scan_part

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from kafka_log.cleaner.parallel.scan import ScanResult, ScanTask

    Reduce = Callable[[int, Iterable[tuple[int, bytes]]], Any]

T = TypeVar("T")
R = TypeVar("R")


class ScanShuffle(Protocol):
    """The results of scans: a summary of each, and the key rows of each range of hashes."""

    @property
    def scanned(self) -> list[ScanResult]: ...

    def reduce(self, function: Reduce) -> list[Any]:
        """Call it with each range's number and key rows by part; return the results."""
        ...


class Runner(Protocol):
    """Where tasks run. All of them see the same directories."""

    @property
    def parallelism(self) -> int: ...

    def map(
        self, function: Callable[[T], R], tasks: Sequence[T], size_of: Callable[[T], int]
    ) -> list[R]:
        """Return results in the order of the tasks. NotParallelError if a task raises."""
        ...

    def scan(self, tasks: Sequence[ScanTask], ranges: int) -> ScanShuffle: ...


class InProcess:
    """Runs tasks one after another, in this process."""

    parallelism = 1

    def map(
        self, function: Callable[[T], R], tasks: Sequence[T], size_of: Callable[[T], int]
    ) -> list[R]:
        del size_of
        return [function(task) for task in tasks]

    def scan(self, tasks: Sequence[ScanTask], ranges: int) -> ScanShuffle:
        return _InMemory([scan_part(task) for task in tasks], ranges)


class _InMemory:
    """The results of scans, kept in this process."""

    def __init__(self, parts: list[tuple[ScanResult, list[bytes]]], ranges: int) -> None:
        self.scanned = [scanned for scanned, _ in parts]
        self._blocks = [
            [(scanned.number, blocks[number]) for scanned, blocks in parts]
            for number in range(ranges)
        ]

    def reduce(self, function: Reduce) -> list[Any]:
        return [function(number, blocks) for number, blocks in enumerate(self._blocks)]
