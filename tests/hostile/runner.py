"""A process that runs every verb over cases, with 4 GiB of address space.

    python -P -m tests.hostile.runner CASE…          one JSON line for each case and verb

A verb that takes too long is interrupted by an alarm. Where the alarm does not get through (a loop
in compiled code), the process ends itself a little later: the line that is missing says so.
"""

import contextlib
import faulthandler
import hashlib
import io
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ADDRESS_SPACE = 4 * 2**30
_GRACE = 10
_SHOWN = 1024 * 1024
_SMALL = 1024 * 1024
_CHUNK = 1 << 20
_TRACEBACK = re.compile(rb"Traceback \(most recent call last\)|internal error|panicked at")
_CONTROLS = re.compile(
    rb"[\x00-\x09\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\xa8-\xae]|\xe2\x81[\xa6-\xa9]"
)
_FORGED = re.compile(rb"(?:^|[\n\r\x85])FORGED|\xe2\x80[\xa8\xa9]FORGED")


class TooSlowError(BaseException):
    """Not an Exception: nobody is to swallow it."""


def main(names: list[str]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE))
    from tests.hostile.corpus import CASES, built

    lines = os.fdopen(os.dup(1), "w")
    with tempfile.TemporaryDirectory(prefix="hostile-") as scratch:
        _warm_up(Path(scratch))
        for name in names:
            with built(CASES[name], Path(scratch)) as base:
                for attempt in _attempts(CASES[name], base):
                    print(json.dumps(attempt), file=lines, flush=True)


def _warm_up(scratch: Path) -> None:
    """Compile the kernels, which takes a minute where nobody did so before."""
    from dataclasses import replace

    from tests.hostile.corpus import CASES, built

    for name in (
        "places/healthy",
        "sparse/log-2^31-1",
    ):  # a small dump needs none, a large one does
        case = replace(CASES[name], seconds=600)
        with built(case, scratch) as base:
            for _ in _attempts(case, base):
                pass


def _attempts(case: Any, base: Path) -> Iterator[dict[str, Any]]:
    from tests.hostile.case import VERBS

    before = snapshot(base)
    for verb in VERBS:
        found = _attempt(case, verb, base)
        after = snapshot(base)
        if after != before:
            changed = [os.fsdecode(path) for path, _ in set(before.items()) ^ set(after.items())]
            found["changed"] = sorted(changed)[:5]
            before = after
        yield found


def _attempt(case: Any, verb: str, base: Path) -> dict[str, Any]:
    from tests.hostile.case import VERBS
    from tests.hostile.cases.places import MARKER

    words = VERBS[verb]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        _reset_peak()
        began = time.monotonic()
        if case.in_process:
            paths = [str(base / path) for path in case.paths]
            outcome = _in_process([*words[1:], *paths, *case.options], words[0], out, err, case)
        else:
            outcome = _as_command([*words, ".", *case.options], out, err, base, case)
        seconds = time.monotonic() - began
        return {
            "case": case.name,
            "verb": verb,
            **outcome,
            "seconds": round(seconds, 2),
            "peak_mib": _peak_kib() // 1024,
            "poisoned": (base / MARKER).exists(),
            **_judged(out, err, words[0], is_json="json" in verb),
        }


def _in_process(
    argv: list[str], verb: str, out: io.BufferedRandom, err: io.BufferedRandom, case: Any
) -> dict[str, Any]:
    from importlib import import_module

    job = import_module(f"jobs.{verb}")
    with _streams(out, err), _alarm(case.seconds):
        try:
            return {"code": job.main(argv)}
        except TooSlowError:
            return {"code": None, "raised": f"took longer than {case.seconds} s"}
        except BaseException as error:  # noqa: BLE001  # whatever it is, the next case follows
            last = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(last.filename).name}:{last.lineno} {last.name}"
            err.write(traceback.format_exc().encode("utf-8", "backslashreplace"))
            return {"code": None, "raised": f"{type(error).__name__}: {error} ({place})"[:500]}


def _as_command(
    words: list[str], out: io.BufferedRandom, err: io.BufferedRandom, base: Path, case: Any
) -> dict[str, Any]:
    """In the evidence, as the README says."""
    command = [str(Path(sys.executable).parent / "kafka-forensics"), *words]
    try:
        done = subprocess.run(
            command,
            cwd=base / "evidence",
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            timeout=case.seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"code": None, "raised": f"took longer than {case.seconds} s"}
    return {"code": done.returncode}


@contextlib.contextmanager
def _streams(out: io.BufferedRandom, err: io.BufferedRandom) -> Iterator[None]:
    """Real files, as for a command whose output is redirected."""
    kept = [os.dup(1), os.dup(2)]
    sys_streams = sys.stdout, sys.stderr
    os.dup2(out.fileno(), 1)
    os.dup2(err.fileno(), 2)
    sys.stdout = open(1, "w", encoding="utf-8", errors="strict", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
        sys.stdout, sys.stderr = sys_streams
        for number, descriptor in enumerate(kept, 1):
            os.dup2(descriptor, number)
            os.close(descriptor)


@contextlib.contextmanager
def _alarm(seconds: int) -> Iterator[None]:
    def ring(*_: object) -> None:
        raise TooSlowError

    before = signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    faulthandler.dump_traceback_later(seconds + _GRACE, exit=True, file=sys.__stderr__)
    try:
        yield
    finally:
        signal.alarm(0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)


def _judged(
    out: io.BufferedRandom, err: io.BufferedRandom, verb: str, *, is_json: bool
) -> dict[str, Any]:
    """What can be said of both streams."""
    out.seek(0)
    err.seek(0)
    shown, talk = out.read(_SHOWN), err.read(_SHOWN)
    rest = b""
    is_traceback = bool(_TRACEBACK.search(talk))
    while rest := rest[-100:] + err.read(_CHUNK) if not is_traceback else b"":
        is_traceback = bool(_TRACEBACK.search(rest))
        if len(rest) <= 100:
            break
    forged = _FORGED.search(talk) or (verb != "dump" and _FORGED.search(shown))
    return {
        "traceback": is_traceback,
        "controls": bool(_CONTROLS.search(talk)),
        "forged": bool(forged),
        "healthy": _has_healthy(out, shown),
        "json": not is_json or _is_json_lines(shown),
        "out_bytes": os.fstat(out.fileno()).st_size,
        "err_bytes": os.fstat(err.fileno()).st_size,
        "said": talk[-2000:].decode("utf-8", "backslashreplace"),
    }


def _has_healthy(out: io.BufferedRandom, shown: bytes) -> bool:
    """Whether a partition that is sound is among what was printed, at its begin or its end."""
    if b"transactions" in shown:
        return True
    out.seek(max(0, os.fstat(out.fileno()).st_size - _SHOWN))
    return b"transactions" in out.read()


def _is_json_lines(shown: bytes) -> bool:
    lines = shown.split(b"\n")[:-1] if len(shown) == _SHOWN else shown.splitlines()
    try:
        for line in lines:
            json.loads(line)
    except ValueError:
        return False
    return True


# ---------------------------------------------------------------------------------- the evidence


def snapshot(base: Path) -> dict[bytes, tuple[bytes, ...]]:
    """Type, size, times, inode, links and target of everything there; small files by content.

    `find` goes as deep as it must; the time of access is no part of it.
    """
    shape = r"%P\0%y %m %s %T@ %C@ %i %n\0%l\0"
    listed = subprocess.run(
        ["find", base, "-printf", shape], capture_output=True, check=False
    ).stdout.split(b"\0")
    found: dict[bytes, tuple[bytes, ...]] = {}
    for path, facts, target in zip(listed[::3], listed[1::3], listed[2::3], strict=False):
        found[path] = (facts, target, _content(base, path, facts))
    return found


def _content(base: Path, path: bytes, facts: bytes) -> bytes:
    kind, _, size, *_ = facts.split(b" ")
    if kind != b"f" or int(size) > _SMALL or len(path) > 1000:
        return b""
    return hashlib.sha256(Path(base, os.fsdecode(path)).read_bytes()).digest() if int(size) else b""


def _reset_peak() -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_kib() -> int:
    with contextlib.suppress(OSError, AttributeError):
        status = Path("/proc/self/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1])
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main(sys.argv[1:])
