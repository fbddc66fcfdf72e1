"""Every verb, every call, every fault: run in children of this process, and judged.

A child is forked from a process that has everything loaded and compiled, but runs no thread. It
works on a copy of the directory, always at the same path, so that what it prints can be compared
with an undisturbed run.
"""

import contextlib
import gc
import hashlib
import io
import json
import os
import shutil
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from typing import NamedTuple, NoReturn

from kafka_format.log_file import LogFile
from tests.faults import calls as faulty_calls
from tests.faults.calls import Call, Calls, Fault
from tests.faults.directories import NOW

SECONDS = 30
"""Until a run counts as one that hangs."""
READING = ("EIO", "EACCES", "DEAD", "short", "shrink", "vanish", "replace", "kill")
WRITING = (*READING, "ENOSPC", "FULL", "torn")
IN_PLACE = ("EIO", "EACCES", "DEAD", "short", "ENOSPC", "FULL", "kill", "torn")
_KILLS = ("kill", "torn")
_CHANGES = ("shrink", "vanish", "replace")
_LASTING = ("DEAD", "FULL")
_KILLED = 137
_CRASHED = 70


class Case(NamedTuple):
    """A verb, its directory and options."""

    name: str
    verb: str
    directory: str
    options: tuple[str, ...] = ()
    faults: tuple[str, ...] = READING

    @property
    def is_in_place(self) -> bool:
        return "--in-place" in self.options

    @property
    def has_output(self) -> bool:
        return any(each.startswith("--output") for each in self.options)


_RETAIN = ("--set=retention.bytes=400", "--set=retention.ms=-1")
_COMPACT = ("--set=cleanup.policy=compact", "--set=internal.segment.bytes=330")
_OUTPUT = ("--output=../out",)
_ENGINE = (f"--now={NOW}", "--engine=local")


def _three(verb: str, directory: str, dry: str, options: tuple[str, ...]) -> tuple[Case, ...]:
    options = (*options, *_ENGINE)
    output, in_place = (*options, *_OUTPUT), (*options, "--in-place")
    return (
        Case(f"{verb}", verb, dry, options, WRITING if verb == "compact" else READING),
        Case(f"{verb} --output", verb, directory, output, WRITING),
        Case(f"{verb} --in-place", verb, directory, in_place, IN_PLACE),
    )


CASES = (
    Case("list", "list", "kraft"),
    Case("dump", "dump", "kraft", ("--print-data-log",)),
    Case("dump --format json", "dump", "kraft", ("--print-data-log", "--format=json")),
    Case("offsets", "offsets", "kraft", _ENGINE),
    Case("transactions", "transactions", "kraft", _ENGINE),
    *_three("retain", "plain", "kraft", _RETAIN),
    *_three("recover", "torn", "kraft", ()),
    *_three("compact", "plain", "plain", _COMPACT),
)


class Outcome(NamedTuple):
    """How a run ended, and what it left."""

    code: int
    out: str
    err: str
    calls: list[Call]
    fired: Call | None
    evidence: dict[str, str]
    output: dict[str, str] | None
    """Files below the output; None if there is none."""
    left: tuple[str, ...]
    """What else is there that was not before."""


class Sweep:
    """Runs of one case in a directory of its own; `run` is where a child works."""

    def __init__(self, case: Case, source: Path, base: Path) -> None:
        self.case = case
        self.source = source
        self.run_directory = base / "run"
        self._results = base / "results"
        self._results.mkdir(parents=True, exist_ok=True)
        self.before = contents(source)
        self.undisturbed = self.run()
        if self.undisturbed.code not in (0, 1):
            raise AssertionError(f"{case.name}: {self.undisturbed.err}")
        again = self.run()
        if again[:2] != self.undisturbed[:2] or len(again.calls) != len(self.undisturbed.calls):
            raise AssertionError(f"{case.name}: two undisturbed runs differ")
        self._repaired: dict[str, list[tuple[int, bytes]]] | None = None

    @property
    def data(self) -> Path:
        return self.run_directory / "data"

    def faults(self, kinds: Iterable[str] | None = None) -> Iterator[tuple[Fault, Call]]:
        """Every fault that can happen to the calls of an undisturbed run."""
        for kind in kinds or self.case.faults:
            for call in self.undisturbed.calls:
                fault = Fault(kind, call.number)
                if fault.fits(call) and (kind not in _CHANGES or self._changes(kind, call)):
                    yield fault, call

    def _changes(self, kind: str, call: Call) -> bool:
        """Whether somebody can do that to the file of this call: one of the evidence, not empty."""
        if not call.path.startswith(f"{self.data}/"):
            return False
        path = self.source / Path(call.path).relative_to(self.data)
        if path.is_dir() or not path.exists():
            return kind == "vanish" and path.exists()
        return kind != "shrink" or path.stat().st_size > 0

    def prepare(self) -> None:
        shutil.rmtree(self.run_directory, ignore_errors=True)
        self.run_directory.mkdir(parents=True)
        (self.run_directory / "tmp").mkdir()
        shutil.copytree(self.source, self.data)

    def run(self, fault: Fault | None = None, *, again: bool = False) -> Outcome:
        """The verb, with one fault; `again` on what the run before left."""
        if not again:
            self.prepare()
        before = {path.name for path in self.run_directory.iterdir()}
        code = self.child([self.case.verb, str(self.data), *self._options()], fault)
        reported = json.loads(
            (self._results / "calls").read_text() or '{"made": [], "fired": null}'
        )
        output = self.run_directory / "out"
        left = {path.name for path in self.run_directory.iterdir()} - before - {"out"}
        left |= {f"tmp/{path.name}" for path in (self.run_directory / "tmp").glob("*")}
        return Outcome(
            code=code,
            out=(self._results / "out").read_text(errors="replace"),
            err=(self._results / "err").read_text(errors="replace"),
            calls=[Call(*each) for each in reported["made"]],
            fired=None if reported["fired"] is None else Call(*reported["fired"]),
            evidence=contents(self.data),
            output=contents(output) if output.exists() else None,
            left=tuple(sorted(left)),
        )

    def _options(self) -> list[str]:
        return [each.replace("../out", f"{self.run_directory}/out") for each in self.case.options]

    def child(self, arguments: list[str], fault: Fault | None = None) -> int:
        """The exit code of a verb in a child; negative if a signal ended it."""
        for name in ("out", "err", "calls"):
            (self._results / name).write_bytes(b"")
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            self._work(arguments, fault)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def _work(self, arguments: list[str], fault: Fault | None) -> None:
        code = _CRASHED
        calls = Calls(self.run_directory, fault)
        note = os.open(self._results / "calls", os.O_WRONLY)

        def tell() -> None:
            reported = {"made": [] if fault else calls.made, "fired": calls.fired}
            os.write(note, json.dumps(reported).encode())

        def leave(code: int) -> NoReturn:
            tell()
            os._exit(code)

        try:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(SECONDS)
            for number, name in ((1, "out"), (2, "err")):
                os.dup2(os.open(self._results / name, os.O_WRONLY), number)
            tempfile.tempdir = str(self.run_directory / "tmp")
            faulty_calls.os_exit = leave
            verb = import_module(f"jobs.{arguments[0]}")
            with calls:
                code = verb.main(arguments[1:])
                sys.stdout.flush()
        except BaseException:  # noqa: BLE001
            os.write(2, traceback.format_exc().encode())
        finally:
            sys.stderr.flush()
            leave(code)

    # ----------------------------------------------------------------------------- verdicts

    def judge(self, fault: Fault, outcome: Outcome) -> tuple[str, list[str]]:
        """What happened, in a word; and what is wrong about it."""
        wrong = list(self._always(fault, outcome))
        if outcome.fired is None:
            return "not reached", [*wrong, "the call was not made"]
        if fault.kind in _KILLS:
            word, more = self._after_kill(fault, outcome)
        elif fault.kind == "short":
            word, more = "same as undisturbed", self._differences(outcome)
        elif fault.kind in _CHANGES:
            word, more = self._after_change(fault, outcome)
        else:
            word, more = self._after_error(fault, outcome)
        return word, [*wrong, *more]

    def _always(self, fault: Fault, outcome: Outcome) -> Iterator[str]:
        if "Traceback" in outcome.err or "internal error" in outcome.err:
            yield "traceback"
        if outcome.code == -signal.SIGALRM:
            yield "hang"
        elif outcome.code not in ((_KILLED,) if fault.kind in _KILLS else (0, 1, 3)):
            yield f"exit code {outcome.code}"
        is_ours = self.case.is_in_place or fault.kind in _CHANGES
        if not is_ours and outcome.evidence != self.before:
            yield "evidence changed"
        fired = outcome.fired
        is_earlier = fault.kind in _CHANGES and fired is not None and not fired.is_opened
        is_whole = outcome.output == self.undisturbed.output or (is_earlier and outcome.code != 3)
        if outcome.output is not None and not is_whole:
            yield f"half output: {difference(self.undisturbed.output or {}, outcome.output)}"
        # Of a hidden directory that could not be removed something stays.
        is_cleaning = fired is not None and " _attempt" in fired.place.partition(" < ")[0]
        if outcome.left and fault.kind not in (*_KILLS, "DEAD") and not is_cleaning:
            yield f"left behind: {', '.join(outcome.left)}"

    def _is_same(self, outcome: Outcome) -> bool:
        return not self._differences(outcome)

    def _differences(self, outcome: Outcome) -> list[str]:
        undisturbed = self.undisturbed
        wrong = []
        if outcome.code != undisturbed.code:
            wrong.append(f"exit code {outcome.code}, undisturbed {undisturbed.code}")
        if outcome.out != undisturbed.out:
            wrong.append("other rows than undisturbed")
        if outcome.output != undisturbed.output:
            wrong.append("other output than undisturbed")
        if self.case.is_in_place and outcome.evidence != undisturbed.evidence:
            wrong.append("other files than undisturbed")
        return wrong

    def _after_error(self, fault: Fault, outcome: Outcome) -> tuple[str, list[str]]:
        fired = outcome.fired
        wrong = []
        word = "exit code 3"
        if outcome.code == 3:
            if not self._names(fault, fired, outcome.err):
                wrong.append("path not named")
        elif self._is_same(outcome):
            word = "same as undisturbed"
            if fired is not None and fired.name in ("fsync", "fdatasync"):
                wrong.append("a failed sync is passed over")
        else:
            wrong += self._differences(outcome)
        if self.case.is_in_place:
            wrong += self._repairs()
        return word, wrong

    def _names(self, fault: Fault, fired: Call | None, err: str) -> bool:
        if fired is None:
            return False
        path = Path(fired.path)
        names = {str(path)}
        hidden = f"{self.run_directory}/.out.attempt-"
        if str(path).startswith((hidden, f"{self.run_directory}/tmp")) or path == self.data.parent:
            # A place of ours: the output, or the directory it is made in, says where.
            names |= {str(self.run_directory / "out"), f"{self.run_directory}: "}
            names |= {str(self.run_directory / "tmp")}
        if path == self.run_directory / "out":
            names |= {f"{self.run_directory}: "}
        if fault.kind in _LASTING:  # what it could do without comes first, perhaps
            names |= {f"{self.run_directory}"}
        return any(each in err for each in names)

    def _after_change(self, fault: Fault, outcome: Outcome) -> tuple[str, list[str]]:
        fired = outcome.fired
        if fired is None:
            return "not reached", []
        if outcome.code == 3:
            return "exit code 3", [] if fired.path in outcome.err else ["path not named"]
        if self._is_same(outcome):
            is_seen = fired.is_opened and not Path(fired.path).is_dir()
            wrong = "a change of a file that was open is passed over"
            return "same as undisturbed", [wrong] if is_seen else []
        if fired.is_opened:
            return "other rows", [f"exit code {outcome.code} after a change of a file read"]
        return "changed before it was opened", []

    def _after_kill(self, fault: Fault, outcome: Outcome) -> tuple[str, list[str]]:
        del fault
        if self.case.is_in_place:
            return "repaired", self._repairs()
        if not self.case.has_output:
            return "killed", []
        if outcome.output is not None:
            return "killed, output whole", []
        again = self.run(again=True)
        wrong = self._differences(again)
        return "killed, then run again", wrong

    def _repairs(self) -> list[str]:
        """After a fault in place: a start repairs it, and the verb again ends as undisturbed."""
        wrong = []
        kept = self.run_directory / "kept"
        shutil.copytree(self.data, kept)
        for lock in kept.rglob(".lock"):
            lock.unlink()
        code = self.child(["recover", str(kept), *_ENGINE, "--in-place", "--quiet"])
        if code not in (0, 1):
            err = (self._results / "err").read_text(errors="replace")
            wrong.append(f"recover after it: exit code {code}: {err[-200:]}")
        else:
            wrong += self._lost(kept)
        shutil.rmtree(kept)
        again = self.run(again=True)
        if again.code not in (0, self.undisturbed.code):  # 0: the first run did it
            wrong.append(f"run again: exit code {again.code}: {again.err[-200:]}")
        elif self._state(again.evidence) != self._state(self.undisturbed.evidence):
            said = difference(self._state(self.undisturbed.evidence), self._state(again.evidence))
            wrong.append(f"run again: other files than undisturbed: {said}")
        elif records(self.data) != self._records_undisturbed():
            wrong.append("run again: other records than undisturbed")
        return wrong

    def _state(self, files: dict[str, str]) -> dict[str, str]:
        """What must be the same: of a compaction not where its segments begin.

        A second round finds smaller segments than the first, and puts more of them into one.
        Files that are marked as deleted, and indexes and snapshots without their log, are removed
        by the next start of a broker. The marker of a clean stop is gone after a run that failed
        (so that a broker recovers what it left), and a second run does not make one.
        """
        return {
            name: each
            for name, each in files.items()
            if not name.endswith((".deleted", ".kafka_cleanshutdown", ".kafka_cleanshutdown.tmp"))
            and not (
                _is_of_segment(name)
                and (self.case.verb == "compact" or f"{name.rpartition('.')[0]}.log" not in files)
            )
        }

    def _lost(self, kept: Path) -> Iterator[str]:
        """Records that an undisturbed run leaves must be there, others must have been before."""
        before = records(self.source)
        least = self._records_undisturbed()
        for partition, left in records(kept).items():
            if missing := sorted(set(least[partition]) - set(left)):
                yield f"lost in {partition}: {missing[:3]}"
            if strange := sorted(set(left) - set(before[partition])):
                yield f"never was in {partition}: {strange[:3]}"

    def _records_undisturbed(self) -> dict[str, list[tuple[int, bytes]]]:
        if self._repaired is None:
            aside = self.run_directory.with_name("aside")
            self.run_directory.rename(aside)
            self.run()
            self._repaired = records(self.data)
            shutil.rmtree(self.run_directory)
            aside.rename(self.run_directory)
        return self._repaired


def contents(directory: Path) -> dict[str, str]:
    """Every file below by its path, with a digest; empty directories too.

    Zeros at the end of an index are room: a log that was not closed has some.
    """
    return {
        str(path.relative_to(directory)): _digest(path) if path.is_file() else "directory"
        for path in sorted(directory.rglob("*"))
    }


def _digest(path: Path) -> str:
    data = path.read_bytes()
    if path.suffix in (".index", ".timeindex"):
        data = data.rstrip(b"\0")
    return hashlib.sha256(data).hexdigest()[:16]


def _is_of_segment(name: str) -> bool:
    return name.endswith((".log", ".index", ".timeindex", ".txnindex", ".snapshot"))


def difference(expected: dict[str, str], found: dict[str, str]) -> str:
    missing = [f"-{each}" for each in sorted(expected.keys() - found.keys())]
    more = [f"+{each}" for each in sorted(found.keys() - expected.keys())]
    other = [
        f"!{each}" for each in sorted(expected) if found.get(each, expected[each]) != expected[each]
    ]
    return " ".join([*missing, *more, *other])


def records(log_dir: Path) -> dict[str, list[tuple[int, bytes]]]:
    """Offsets and values of each partition."""
    found = {}
    for directory in sorted(each for each in log_dir.iterdir() if each.is_dir()):
        found[directory.name] = [
            (record.offset, b"" if record.value is None else bytes(record.value))
            for path in sorted(directory.glob("*.log"))
            for batch in LogFile(path.read_bytes()).batches()
            if not batch.header.is_control
            for record in batch.records()
        ]
    return found


def warm_up(source: Path, base: Path) -> None:
    """Load and compile everything once, so that children need not."""
    warm = base / "warm"
    for case in CASES:
        shutil.rmtree(warm, ignore_errors=True)
        shutil.copytree(source.parent / case.directory, warm / "data")
        options = [each.replace("../out", f"{warm}/out") for each in case.options]
        with (
            contextlib.redirect_stdout(io.TextIOWrapper(io.BytesIO())),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            import_module(f"jobs.{case.verb}").main([str(warm / "data"), *options])
    shutil.rmtree(warm)
    gc.collect()
    gc.freeze()
    gc.disable()
