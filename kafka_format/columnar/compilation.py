"""One source, two ways to run it: as plain Python, or compiled by numba.

Functions marked by a `Kernels` stay what they are. `compiled` gives twins of them: the same code
objects with their globals bound to each other's twins, so that one compiled function calls the
next. Nothing is compiled before it is called, and what was compiled is cached on disk.
"""

from __future__ import annotations

import importlib.util
import os
from functools import cache
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

F = TypeVar("F", bound="Callable[..., Any]")


class Kernels:
    """The kernels of one module, in the order they were marked (callees first)."""

    def __init__(self) -> None:
        self._functions: list[FunctionType] = []

    def __call__(self, function: F) -> F:
        """Mark a function for compilation."""
        self._functions.append(function)  # type: ignore[arg-type]
        return function

    def plain(self) -> SimpleNamespace:
        return SimpleNamespace(**{function.__name__: function for function in self._functions})

    def compiled(
        self, names: Mapping[str, Any], *, left_plain: Collection[str] = ()
    ) -> SimpleNamespace:
        """The twins by name. `names` is what their code sees: globals, with some replaced."""
        bound = dict(names)
        for function in self._functions:
            if function.__name__ not in left_plain:
                twin = FunctionType(function.__code__, bound, function.__name__)
                twin.__module__ = function.__module__
                bound[function.__name__] = njit(twin, nogil=True)
        return SimpleNamespace(
            **{function.__name__: bound[function.__name__] for function in self._functions}
        )


def njit(function: Callable[..., Any], **options: Any) -> Any:
    """Compiled when it is called, and kept on disk for the next process if anywhere."""
    import numba

    try:
        dispatcher = numba.njit(function, cache=True, **options)
    except RuntimeError:  # this user may write neither beside the code nor at home
        return numba.njit(function, **options)
    _load_at_once(dispatcher)
    return dispatcher


def _load_at_once(dispatcher: Any) -> None:
    """Have what was compiled before loaded without all that compiling would need.

    numba first registers every function and type it can compile, which takes longer than anything
    else it does for us. Code that is compiled needs its runtime alone; and where there turns out to
    be something to compile, numba registers them then.
    """
    try:
        from numba.core.runtime.nrt import rtsys

        cache = dispatcher._cache  # noqa: SLF001
        load, guard = cache._load_overload, cache._guard_against_spurious_io_errors  # noqa: SLF001
    except (AttributeError, ImportError):  # another release: it knows its own way
        return

    def load_overload(signature: Any, target: Any) -> Any:
        rtsys.initialize(target)
        with guard():
            return load(signature, target)
        return None

    cache.load_overload = load_overload


@cache
def can_compile() -> bool:
    """Whether numba is there and not switched off by KAFKA_FORENSICS_NUMBA=0."""
    wanted = os.environ.get("KAFKA_FORENSICS_NUMBA", "1") != "0"
    return wanted and importlib.util.find_spec("numba") is not None
