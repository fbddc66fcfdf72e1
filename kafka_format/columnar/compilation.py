"""One source, two ways to run it: as plain Python, or compiled by numba.

Functions marked by a `Kernels` stay what they are. `compiled` gives twins of them: the same code
objects with their globals bound to each other's twins, so that one compiled function calls the
next. Nothing is compiled before it is called, and what was compiled is cached on disk.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import warnings
from functools import cache
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar

from kafka_format.shown_text import say

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

_NUMBA_SETTINGS = ".numba_config.yaml"

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
    numba = load_numba()
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
def load_numba() -> Any:
    """Import numba without the settings it would read from the current directory.

    `.numba_config.yaml` there is read at the import and at every compilation. It can name a
    directory for compiled code, so that code from the evidence would run.
    """
    hidden = {}
    if "numba" not in sys.modules and os.path.lexists(_NUMBA_SETTINGS):
        hidden = {"yaml": sys.modules.get("yaml")}
        sys.modules["yaml"] = None  # type: ignore[assignment]  # it cannot be imported
    try:
        with warnings.catch_warnings():
            if hidden:
                warnings.simplefilter("ignore")  # that a file of settings is not read
            import numba
            from numba.core import config
    finally:
        for name, module in hidden.items():
            del sys.modules[name]
            if module is not None:
                sys.modules[name] = module
    if getattr(config, "_config_fname", None) == _NUMBA_SETTINGS:
        config._config_fname = os.devnull  # noqa: SLF001  # not a regular file: none is read
    return numba


@cache
def can_compile() -> bool:
    """Return whether numba can be used: it is there, and KAFKA_FORENSICS_NUMBA is not 0.

    Its import takes some tenths of a second, so ask only where kernels are needed.
    """
    if _missing() is not None:
        return False
    try:
        load_numba()
    except Exception as error:  # noqa: BLE001  # a numpy or an LLVM that it does not fit
        reason, *_ = [*str(error).splitlines(), type(error).__name__]
        _warn_once(f"numba cannot be imported ({reason})")
        return False
    return True


def _missing() -> str | None:
    """Return why numba cannot be used, as far as that is known without importing it."""
    if os.environ.get("KAFKA_FORENSICS_NUMBA", "1") == "0":
        return "KAFKA_FORENSICS_NUMBA is 0"
    if importlib.util.find_spec("numba") is None:
        return "numba is not installed"
    return None


_MATTERS_FROM = 64 * 1024 * 1024
"""Bytes that take half a second by compiled kernels, and about six seconds otherwise."""


def warn_if_slow(input_bytes: int) -> None:
    """Say once on stderr what it costs to run without numba, if there is that much to read."""
    if input_bytes >= _MATTERS_FROM and (reason := _missing()) is not None:
        _warn_once(reason)


@cache
def _warn_once(reason: str) -> None:
    say(
        f"kafka-forensics: {reason}: logs are read about 10 times slower "
        "(600 MB in 55 s instead of 5 s)"
    )
