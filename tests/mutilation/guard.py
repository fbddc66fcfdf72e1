"""The bounds of a case. Who breaks one is reported which case it was."""

import contextlib
import faulthandler
import os
import resource
import signal
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

SECONDS = 20.0
"""Far more than any case needs: the machine may be busy, a hang is for ever."""
MEBIBYTES = 16


class HangError(BaseException):
    """Not an Exception: nobody's `except` may swallow it."""


@contextlib.contextmanager
def time_limit(what: object, seconds: float = SECONDS) -> Iterator[None]:
    """Interrupts Python that does not end; a kernel that does not ends the process, with traces."""

    def ring(*_: object) -> None:
        raise HangError(f"{what}: not done after {seconds} s")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@contextlib.contextmanager
def watchdog(seconds: float) -> Iterator[None]:
    """For what no signal reaches: compiled code that does not return."""
    with os.fdopen(os.dup(sys.__stderr__.fileno()), "w") as stderr:
        faulthandler.dump_traceback_later(seconds, exit=True, file=stderr)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


@contextlib.contextmanager
def memory_limit(what: object, mebibytes: float = MEBIBYTES) -> Iterator[None]:
    """The peak of what Python and numpy hold at once, beyond what they held before."""
    started_here = not tracemalloc.is_tracing()
    if started_here:
        tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before, _ = tracemalloc.get_traced_memory()
        yield
        _, peak = tracemalloc.get_traced_memory()
    finally:
        if started_here:
            tracemalloc.stop()
    grown = (peak - before) / 2**20
    assert grown < mebibytes, f"{what}: {grown:.1f} MiB at once, at most {mebibytes} expected"


@contextlib.contextmanager
def resident_limit(what: object, mebibytes: float = 2 * MEBIBYTES) -> Iterator[None]:
    """The peak of the whole process, beyond what it held before: libraries and kernels included."""
    if sys.platform == "linux":
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = _peak()
    yield
    grown = (_peak() - before) / 2**20
    assert grown < mebibytes, f"{what}: {grown:.1f} MiB more, at most {mebibytes} expected"


def _peak() -> int:
    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024
