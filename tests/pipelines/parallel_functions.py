"""What happens to tasks on a cluster, as functions that other processes can import."""

import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from kafka_log.cleaner.parallel.group import SupersededOffsets
from pipelines.compaction.explanation import ExplanationWriter
from pipelines.compaction.parallel_compaction import SparkRunner


def twice(function: Callable[[Any], Any], task: Any) -> Any:
    """As if it had been slow, and another attempt had come first."""
    function(task)
    return function(task)


def dies_once(marker: str, function: Callable[[Any], Any], task: Any) -> Any:
    """The first of all tasks takes its process along in the midst of writing."""
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return function(task)
    with mock.patch.object(SupersededOffsets, "latest_of", _die):
        return function(task)


def _die(*_: Any) -> None:
    os._exit(9)


class Troubled(SparkRunner):
    """Tasks through one of the above."""

    trouble: Any = staticmethod(twice)

    def map(self, function: Any, tasks: Sequence[Any], size_of: Any) -> list[Any]:
        return super().map(partial(self.trouble, function), tasks, size_of)


class DiesWhileItExplains(ExplanationWriter):
    """The first attempt takes its process along with half of a Parquet file written."""

    __slots__ = ()

    def __call__(self, task: Any) -> Iterator[dict[str, Any]]:
        marker = Path(self.directory).parents[1] / "died"
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return super().__call__(task)
        with mock.patch("pipelines.compaction.explanation.explain_partition", _die):
            return iter([*super().__call__(task)])
