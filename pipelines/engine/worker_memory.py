"""What a Python worker of Spark has loaded, out of the way of its garbage collection.

Spark's daemon collects garbage behind every task, in all generations: numba, pyarrow and our tables
are some hundred thousand objects, to be looked through each time (50 ms of a task of 60). They stay
as long as the worker does, so they need not be.
"""

from __future__ import annotations

import gc
import sys

_settled: set[str] = set()


def settle(work: str) -> None:
    """Behind the first task of a kind, when all that it needs is loaded; elsewhere nothing."""
    if work in _settled or not _is_worker():
        return
    _settled.add(work)
    gc.collect()
    gc.freeze()


def _is_worker() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
