"""Kafka's LogCleanerManager and ours, on copies of the same log dirs, call by call.

    world = World().log("a/orders-0", "(x) | (x) |").log("b/orders-1", "(y)", policy="delete")
    first, second = world.reported(oracle, Grab(), DoneCleaning("orders-0", "a", offset=2))
    assert first["states"] == {"orders-0": "in progress"}

After every operation (operations.py) both report the same: its answer or refusal, the states, what
is uncleanable (count and bytes), the checkpoints, which log dirs are offline. At the end all files
are the same.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import Any, Self

from kafka_format.batch import encode_batch
from kafka_format.errors import FormatError
from kafka_format.record import SimpleRecord
from kafka_log.cleaner.cleanable import LogToClean
from kafka_log.cleaner.cleaner import Cleaner
from kafka_log.cleaner.errors import (
    IllegalStateError,
    LogCleaningAbortedError,
    LogCleaningError,
    LogDirFailedError,
)
from kafka_log.cleaner.manager import LogCleanerManager, LogCleaning, LogCleaningPaused, do_work
from kafka_log.clock import FixedClock
from kafka_log.disk.files import DiskFiles
from kafka_log.disk.output import TopicPartition
from kafka_log.log.unified_log import PartitionLog
from tests.kafka_log.cleaner.cleaners import new_cleaner
from tests.kafka_log.cleaner.operations import (
    Abort,
    AbortAndPause,
    AddLog,
    AlterDir,
    Check,
    Deletable,
    DirFailure,
    DoneCleaning,
    DoneDeleting,
    Grab,
    Maintain,
    MarkUncleanable,
    Operation,
    PauseNonCompacted,
    RemoveCheckpoint,
    RemoveLog,
    Resume,
    TakeStep,
    TruncateCheckpoint,
    UpdateCheckpoint,
    Work,
    WriteCheckpoint,
)
from tests.kafka_log.compare import scratch
from tests.kafka_log.driver import Session, files_of
from tests.kafka_log.workload import LONG_MAX, START
from tests.oracle.client import Oracle
from tests.show import seen_by

Told = dict[str, Any]
CHECKPOINT = "cleaner-offset-checkpoint"
DIRS = ("a", "b")

_CONFIG = {
    "min.cleanable.dirty.ratio": 0.0,
    "segment.index.bytes": 1000,
    "segment.ms": LONG_MAX,
    "retention.ms": -1,
}
_REFUSALS: dict[type[Exception], str] = {
    IllegalStateError: "IllegalStateException",
    LogCleaningAbortedError: "LogCleaningAbortedException",
    LogCleaningError: "LogCleaningException",
    LogDirFailedError: "KafkaStorageException",
    KeyError: "NullPointerException",
}


def batch(*keys: str) -> bytes:
    return encode_batch([SimpleRecord(START, key.encode(), b"value") for key in keys])


class World:
    """Log dirs `a` and `b`, and logs in them."""

    def __init__(self, io_buffer_size: int = 1 << 16) -> None:
        self.io_buffer_size = io_buffer_size
        self.configs: dict[str, dict[str, Any]] = {}
        self._batches: dict[str, str] = {}
        self._damage: dict[Path, tuple[int, bytes]] = {}
        self._checkpoints: dict[str, str] = {}

    def log(self, path: str, batches: str, *, policy: str = "compact", **settings: Any) -> Self:
        """`(x,y) | (x)`: batches of keys, and a new segment."""
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.configs[path] = _CONFIG | {"cleanup.policy": policy} | given
        self._batches[path] = batches
        return self

    def damaged(self, path: str, position: int, data: bytes) -> Self:
        """The first segment of a log."""
        self._damage[Path(path) / f"{0:020d}.log"] = (position, data)
        return self

    def checkpoint(self, directory: str, rows: Mapping[str, int]) -> Self:
        self._checkpoints[directory] = text_of(rows)
        return self

    def reported(self, oracle: Oracle, *operations: Operation) -> list[Told]:
        """What Kafka reported, which is what ours tells."""
        return compare(oracle, [(self, operations)], drawn=False)[0]

    def write(self, root: Path) -> None:
        for directory in DIRS:
            (root / directory).mkdir(parents=True)
        for path, text in self._batches.items():
            (root / path).mkdir()
            session = Session(DiskFiles(root / path), self._arguments(path))
            for word in text.split():
                if word == "|":
                    session.log.roll()
                else:
                    session.log.append_as_leader(batch(*word.strip("()").split(",")), 0)
            session.close("clean")
        for damaged, (position, data) in self._damage.items():
            with (root / damaged).open("r+b") as file:
                file.seek(position)
                file.write(data)
        for directory, text in self._checkpoints.items():
            (root / directory / CHECKPOINT).write_text(text)

    def run(self) -> dict[str, Any]:
        return {
            "dirs": DIRS,
            "time": START,
            "io_buffer_size": self.io_buffer_size,
            "logs": {path: self._arguments(path) for path in self.configs},
        }

    def _arguments(self, path: str) -> dict[str, Any]:
        return {
            "config": self.configs[path],
            "time": START,
            "log_start_offset": 0,
            "recovery_point": 0,
        }


def text_of(rows: Mapping[str, int]) -> str:
    lines = [f"{' '.join(name.rsplit('-', 1))} {offset}" for name, offset in rows.items()]
    return "".join(f"{line}\n" for line in ("0", str(len(lines)), *lines))


def compare(
    oracle: Oracle, cases: Sequence[tuple[World, Sequence[Operation]]], *, drawn: bool = True
) -> list[list[Told]]:
    """`drawn`: by seeds from 0 on."""
    with scratch() as folder:
        runs = []
        for number, (world, operations) in enumerate(cases):
            source = folder / f"source-{number}"
            world.write(source)
            run = world.run() | {"copy_from": source, "root": folder / f"kafka-{number}"}
            runs.append(run | {"operations": operations})
        reported = oracle.call("run_cleaner_states", runs=runs, timeout=600)
        for number, (run, theirs) in enumerate(zip(runs, reported, strict=True)):
            root = folder / f"ours-{number}"
            shutil.copytree(run["copy_from"], root)
            seed = number if drawn else None
            with seen_by("manager", seed), Managed(root, run) as ours:
                for operation, expected in zip(run["operations"], theirs, strict=True):
                    found = ours.after(operation)
                    _compare(f"case {number}, {operation}", found, expected)
            for path in run["logs"]:
                assert files_of(root / path) == files_of(run["root"] / path), f"{number}: {path}"
        return reported


def tidied(expected: Told, found: Told) -> tuple[Told, Told]:
    """Both without what is Kafka's own business."""
    for each in DIRS:
        theirs = expected["uncleanable"][each]
        if theirs["bytes"] is None:  # of a partition without a row Kafka's gauge fails
            theirs["bytes"] = found["uncleanable"][each]["bytes"]
        for side in (found, expected):
            side["checkpoints"][each] = _in_order(side["checkpoints"][each])
    return expected, found


def _compare(where: str, found: Told, expected: Told) -> None:
    expected, found = tidied(expected, found)
    for part in found.keys() | expected.keys():
        ours, theirs = found.get(part), expected.get(part)
        assert ours == theirs, f"{where}: {part} {ours!r}, Kafka: {theirs!r}"


def _in_order(text: str) -> str:
    """Rows come in the order of a hash map, and that of its Java: all else is compared."""
    lines = text.splitlines(keepends=True)
    return "".join(lines[:2] + sorted(lines[2:]))


class Managed:
    """Our manager on the logs of a root, driven as the oracle drives Kafka's."""

    def __init__(self, root: Path, run: Mapping[str, Any]) -> None:
        self._root = root
        self.clock = FixedClock(run["time"])
        self._io_buffer_size = run["io_buffer_size"]
        self._sessions = {
            path: Session(DiskFiles(root / path), arguments)
            for path, arguments in run["logs"].items()
        }
        for session in self._sessions.values():
            session.log.update_high_watermark(session.log.log_end_offset)
        by_name = {path.split("/")[1]: each.log for path, each in self._sessions.items()}
        self._known = {_partition(name): log for name, log in sorted(by_name.items())}
        self._logs = dict(self._known)
        self._offline: set[str] = set()
        self._aborting: dict[TopicPartition, Thread] = {}
        self.manager = LogCleanerManager(
            [DiskFiles(root / each) for each in run["dirs"]],
            self._logs,
            lambda directory, _: self._offline.add(Path(directory).name),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in list(self._aborting):
            self.manager.done_deleting([each])
            self._settle()
        for session in self._sessions.values():
            session.close("crash")

    def after(self, operation: Operation) -> Told:
        reported: Told = {}
        try:
            reported["answer"] = self._operate(operation)
        except tuple(_REFUSALS) as problem:
            reported["error"] = _REFUSALS[type(problem)]
        self._settle()
        manager = self.manager
        states = ((each, manager.cleaning_state(each)) for each in self._known)
        reported["states"] = {
            _name(each): _state(state) for each, state in states if state is not None
        }
        reported["uncleanable"], reported["checkpoints"] = {}, {}
        for directory in DIRS:
            path = str(self._root / directory)
            partitions = manager.uncleanable_partitions(path)
            reported["uncleanable"][directory] = {
                "partitions": _names(partitions),
                "count": len(partitions),
                "bytes": self._uncleanable_bytes(path),
            }
            reported["checkpoints"][directory] = (self._root / directory / CHECKPOINT).read_text()
        reported["offline"] = sorted(self._offline)
        return reported

    def _uncleanable_bytes(self, path: str) -> int | None:
        try:
            return self.manager.uncleanable_bytes(path, self.clock())
        except (IllegalStateError, FormatError):
            return None

    def _operate(self, operation: Operation) -> Any:
        if isinstance(operation, Grab) and operation.time is not None:
            self.clock.now_ms = operation.time
        manager = self.manager
        match operation:
            case Grab():
                return self._grab()
            case PauseNonCompacted():
                return _names(manager.pause_cleaning_for_non_compacted_partitions())
            case Deletable():
                return _names(manager.deletable_logs())
            case Work():
                do_work(manager, self.make_cleaner, self.clock)
            case Abort(name):
                self._in_thread(_partition(name), manager.abort_cleaning)
            case AbortAndPause(name):
                self._in_thread(_partition(name), manager.abort_and_pause_cleaning)
            case Resume(name):
                manager.resume_cleaning([_partition(name)])
            case Check(name):
                manager.check_cleaning_aborted(_partition(name))
            case DoneCleaning(name, directory, offset):
                manager.done_cleaning(_partition(name), self._dir(directory), offset)
            case DoneDeleting(name):
                manager.done_deleting([_partition(name)])
            case MarkUncleanable(name, directory):
                manager.mark_partition_uncleanable(self._dir(directory), _partition(name))
            case Maintain():
                manager.maintain_uncleanable_partitions()
            case _:
                self._change_checkpoint_or_log(operation)
        return None

    def _change_checkpoint_or_log(self, operation: Operation) -> None:
        manager = self.manager
        match operation:
            case UpdateCheckpoint(name, directory, offset):
                row = _partition(name), offset
                manager.update_checkpoints(self._dir(directory), update=row)
            case RemoveCheckpoint(name, directory):
                removed = None if name is None else _partition(name)
                manager.update_checkpoints(self._dir(directory), remove=removed)
            case TruncateCheckpoint(name, directory, offset):
                manager.maybe_truncate_checkpoint(self._dir(directory), _partition(name), offset)
            case AlterDir(name, directory, to):
                manager.alter_checkpoint_dir(_partition(name), self._dir(directory), self._dir(to))
            case DirFailure(directory):
                manager.handle_log_dir_failure(self._dir(directory))
            case WriteCheckpoint(directory, text):
                (self._root / directory / CHECKPOINT).write_text(text)
            case RemoveLog(name):
                self._logs.pop(_partition(name), None)
            case AddLog(name):
                self._add_log(_partition(name))
            case TakeStep(log, step):
                self._sessions[log].try_step(step)
            case _:
                raise AssertionError(operation)

    def _dir(self, name: str) -> str:
        return str(self._root / name)

    def _grab(self) -> Any:
        grabbed = self.manager.grab_filthiest_compacted_log(self.clock())
        return None if grabbed is None else _grabbed(*grabbed)

    def _in_thread(self, partition: TopicPartition, call: Any) -> None:
        """Until it is done, or has to wait for whoever cleans."""
        problems: list[Exception] = []

        def run() -> None:
            try:
                call(partition)
            except IllegalStateError as problem:
                problems.append(problem)

        thread = Thread(target=run)
        is_waiting = partition in self._aborting
        thread.start()
        while thread.is_alive():
            state = self.manager.cleaning_state(partition)
            if state is LogCleaning.ABORTED and not is_waiting:
                self._aborting[partition] = thread
                return
            thread.join(0.001)
        if problems:
            raise problems[0]

    def _settle(self) -> None:
        for each in list(self._aborting):
            if self.manager.cleaning_state(each) is not LogCleaning.ABORTED:
                self._aborting.pop(each).join()

    def _add_log(self, partition: TopicPartition) -> None:
        self._logs[partition] = self._known[partition]
        in_order = sorted(self._logs.items())
        self._logs.clear()
        self._logs.update(in_order)

    def make_cleaner(self, log: PartitionLog, check_done: Any) -> Cleaner:
        return new_cleaner(
            log.config,
            self.clock,
            dedupe_buffer_size=1 << 20,
            io_buffer_size=self._io_buffer_size,
            message_max_bytes=1 << 20,
            check_done=check_done,
        )


def _partition(name: str) -> TopicPartition:
    topic, number = name.rsplit("-", 1)
    return topic, int(number)


def _name(partition: TopicPartition) -> str:
    return f"{partition[0]}-{partition[1]}"


def _names(partitions: Any) -> list[str]:
    return sorted(map(_name, partitions))


def _state(state: LogCleaning | LogCleaningPaused) -> str:
    if isinstance(state, LogCleaningPaused):
        return f"paused({state.paused_count})"
    return state.value


def _grabbed(partition: TopicPartition, found: LogToClean) -> dict[str, Any]:
    return {
        "partition": _name(partition),
        "first_dirty_offset": found.first_dirty_offset,
        "first_uncleanable_offset": found.first_uncleanable_offset,
        "cleanable_bytes": found.cleanable_bytes,
    }
