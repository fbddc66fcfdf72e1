"""Spark over the rules below: thin, DataFrame to DataFrame."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.log_directory import LogDirectory
    from pipelines.source import register

__all__ = ["LogDirectory", "register"]

_FACES = {"LogDirectory": "pipelines.log_directory", "register": "pipelines.source"}


def __getattr__(name: str) -> Any:
    """What needs Spark is imported when it is asked for: a dump starts without it."""
    if name in _FACES:
        return getattr(import_module(_FACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
