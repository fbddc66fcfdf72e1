"""Run kernels as plain Python, or compiled by numba, from one source.

`Kernels` marks functions and leaves them as they are. `compiled` returns twins: the same code
objects with globals that refer to the other twins, so that one compiled function calls the next. A
function is compiled at its first call and cached on disk.
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
    """The kernels of one module, in the order in which they were marked (callees first)."""

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
        """Return the twins by name. `names` are the globals of their code, with some replaced."""
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
    """Compile a function at its first call, and cache it on disk if a directory is writable."""
    numba = load_numba()
    try:
        dispatcher = numba.njit(function, cache=True, **options)
    except RuntimeError:  # neither the code's directory nor the home directory is writable
        return numba.njit(function, **options)
    _ignore_stale_index(dispatcher)
    _skip_registration(dispatcher)
    return dispatcher


def _ignore_stale_index(dispatcher: Any) -> None:
    """Take an index of compiled code that cannot be read for an empty one.

    numba reads the whole index before it looks whether it belongs to this source. The index of an
    earlier release may name types that are gone, and an upgrade leaves such files in place.
    """
    try:
        file = dispatcher._cache._cache_file  # noqa: SLF001
        load = file._load_index  # noqa: SLF001
    except AttributeError:  # another release of numba: leave it as it is
        return

    def load_index() -> Any:
        try:
            return load()
        except OSError:
            raise
        except Exception:  # noqa: BLE001  # unpickling may raise anything
            return {}

    file._load_index = load_index  # noqa: SLF001


def _skip_registration(dispatcher: Any) -> None:
    """Load code from the cache without what only compiling needs.

    numba first registers every function and type that it can compile, which takes most of its
    time. Cached code needs only numba's runtime; if something must be compiled after all, numba
    registers them then.
    """
    try:
        from numba.core.runtime.nrt import rtsys

        cache = dispatcher._cache  # noqa: SLF001
        load, guard = cache._load_overload, cache._guard_against_spurious_io_errors  # noqa: SLF001
    except (AttributeError, ImportError):  # another release of numba: leave it as it is
        return

    def load_overload(signature: Any, target: Any) -> Any:
        rtsys.initialize(target)
        with guard():
            return load(signature, target)
        return None

    cache.load_overload = load_overload


@cache
def load_numba() -> Any:
    """Import numba without the settings that it would read from the current directory.

    numba reads `.numba_config.yaml` there at the import and at every compilation. The file can name
    a directory of compiled code, so that code from the evidence would run.
    """
    hidden = {}
    if "numba" not in sys.modules and os.path.lexists(_NUMBA_SETTINGS):
        hidden = {"yaml": sys.modules.get("yaml")}
        sys.modules["yaml"] = None  # type: ignore[assignment]  # it cannot be imported
    try:
        with warnings.catch_warnings():
            if hidden:
                warnings.simplefilter("ignore")  # numba warns that the settings are not read
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
    """Return whether numba can be used: it is installed, and KAFKA_FORENSICS_NUMBA is not 0.

    The import takes some tenths of a second, so call this only where kernels are needed.
    """
    if _missing() is not None:
        return False
    try:
        load_numba()
    except Exception as error:  # noqa: BLE001  # an incompatible numpy or LLVM
        reason, *_ = [*str(error).splitlines(), type(error).__name__]
        _warn_once(f"numba cannot be imported ({reason})")
        return False
    return True


def _missing() -> str | None:
    """Return why numba cannot be used, as far as this is known without importing it."""
    if os.environ.get("KAFKA_FORENSICS_NUMBA", "1") == "0":
        return "KAFKA_FORENSICS_NUMBA is 0"
    if importlib.util.find_spec("numba") is None:
        return "numba is not installed"
    return None


_SLOW_INPUT_BYTES = 64 * 1024 * 1024
"""Input that compiled kernels read in half a second, and plain Python in about six seconds."""


def warn_if_slow(input_bytes: int) -> None:
    """Say once on stderr how slow reading is without numba, if there is much to read."""
    if input_bytes >= _SLOW_INPUT_BYTES and (reason := _missing()) is not None:
        _warn_once(reason)


@cache
def _warn_once(reason: str) -> None:
    say(
        f"kafka-forensics: {reason}: logs are read about 10 times slower "
        "(600 MB in 55 s instead of 5 s)"
    )
