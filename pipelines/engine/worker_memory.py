"""Keeps what a Python worker of Spark has loaded out of its garbage collection.

Spark's daemon collects all generations after every task. numba, pyarrow and our tables are some
hundred thousand objects to examine each time (50 ms of a task of 60). They live as long as the
worker, so they need no examination.
"""

from __future__ import annotations

import gc
import sys

_frozen: set[str] = set()


def freeze_loaded(work: str) -> None:
    """Freeze what is loaded after the first task of a kind; does nothing outside of a worker."""
    if work in _frozen or not _is_worker():
        return
    _frozen.add(work)
    gc.collect()
    gc.freeze()


def _is_worker() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
