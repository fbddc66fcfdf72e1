"""Kafka's OffsetIndex, TimeIndex and TransactionIndex, step by step, against ours."""

import base64
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from kafka_format.errors import FormatError, UnsupportedError
from kafka_format.transaction_index import AbortedTransaction
from kafka_log.disk.crash_points import Crash, CrashingFiles
from kafka_log.disk.files import DiskFiles, Files
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.errors import (
    CorruptIndexError,
    IndexFullError,
    IndexOffsetOverflowError,
    InvalidOffsetError,
    LogError,
)
from kafka_log.indexes.aborted_transactions import TransactionIndex
from kafka_log.indexes.index_files import (
    LazyIndex,
    OffsetIndex,
    OffsetPosition,
    TimeIndex,
    TimestampOffset,
)
from tests.kafka_log.kafka_exceptions import answers_to
from tests.oracle.client import Oracle
from tests.show import seen_by

Step = dict[str, Any]
BASE = 1000
NAME = "00000000000000001000.index"


# ------------------------------------------------------------------------- what is written by hand


def test_a_new_offset_index_is_zeros_to_its_largest_size_in_whole_entries(tmp_path: Path) -> None:
    OffsetIndex(DiskFiles(tmp_path), NAME, BASE, max_index_size=30)
    assert (tmp_path / NAME).read_bytes() == bytes(24)


def test_a_new_time_index_is_zeros_to_its_largest_size_in_whole_entries(tmp_path: Path) -> None:
    TimeIndex(DiskFiles(tmp_path), NAME, BASE, max_index_size=30)
    assert (tmp_path / NAME).read_bytes() == bytes(24)


def test_an_entry_is_in_the_file_at_once(tmp_path: Path) -> None:
    index = OffsetIndex(DiskFiles(tmp_path), NAME, BASE, max_index_size=16)
    index.append(BASE + 7, 100)
    assert (tmp_path / NAME).read_bytes() == bytes.fromhex("00000007 00000064 00000000 00000000")


def test_entries_that_were_dropped_lie_behind_the_last_one_until_the_trim(tmp_path: Path) -> None:
    index = OffsetIndex(DiskFiles(tmp_path), NAME, BASE, max_index_size=24)
    index.append(BASE + 7, 100)
    index.append(BASE + 9, 200)
    index.truncate_to(BASE + 9)
    assert index.entries == 1
    assert (tmp_path / NAME).read_bytes() == bytes.fromhex("0000000700000064 00000009000000c8") + (
        bytes(8)
    )
    index.close()
    assert (tmp_path / NAME).read_bytes() == bytes.fromhex("0000000700000064")


def test_an_index_that_is_there_is_full_of_entries_zeros_too(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(bytes.fromhex("0000000700000064") + bytes(8))
    index = OffsetIndex(DiskFiles(tmp_path), NAME, BASE, max_index_size=1024)
    assert (index.entries, index.max_entries, index.is_full) == (2, 2, True)
    assert index.last_entry == OffsetPosition(BASE, 0)


def test_the_last_entry_of_an_empty_index_is_its_base(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    assert OffsetIndex(files, "a", BASE, 64).last_entry == OffsetPosition(BASE, 0)
    assert TimeIndex(files, "b", BASE, 64).last_entry == TimestampOffset(-1, BASE)


def test_a_time_index_keeps_its_last_slot_for_the_roll(tmp_path: Path) -> None:
    index = TimeIndex(DiskFiles(tmp_path), NAME, BASE, max_index_size=24)
    index.maybe_append(5, BASE)
    assert index.is_full
    with pytest.raises(IndexFullError):
        index.maybe_append(6, BASE + 1)
    index.maybe_append(6, BASE + 1, skip_full_check=True)
    assert (tmp_path / NAME).read_bytes() == bytes.fromhex(
        "0000000000000005 00000000 0000000000000006 00000001"
    )


def test_an_index_too_small_for_an_entry_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="max index size 7"):
        OffsetIndex(DiskFiles(tmp_path), NAME, BASE, max_index_size=7)


def test_a_closed_index_says_so(tmp_path: Path) -> None:
    index = OffsetIndex(DiskFiles(tmp_path), NAME, BASE, max_index_size=64)
    index.append(BASE + 1, 1)
    index.close()
    index.close()
    with pytest.raises(LogError, match="found closed"):
        index.lookup(BASE)


def test_many_entries_in_one_write_are_entries(tmp_path: Path) -> None:
    index = OffsetIndex(DiskFiles(tmp_path), NAME, BASE, max_index_size=64)
    index.append_packed(bytes.fromhex("0000000100000064 00000002000000c8"))
    assert (index.entries, index.last_offset) == (2, BASE + 2)
    assert index.entry(0) == OffsetPosition(BASE + 1, 100)
    with pytest.raises(ValueError, match="slot 2"):
        index.entry(2)


def test_a_lazy_index_makes_its_file_when_it_is_asked_for(tmp_path: Path) -> None:
    files = DiskFiles(tmp_path)
    lazy = LazyIndex(OffsetIndex, files, NAME, BASE, 64)
    lazy.close()
    assert files.names() == []
    lazy.rename_to("other.index")
    assert files.names() == []
    assert not lazy.delete_if_exists()
    index = lazy.get()
    assert lazy.get() is index
    assert files.names() == ["other.index"]
    lazy.rename_to(NAME)
    assert (files.names(), lazy.name, index.name) == ([NAME], NAME, NAME)
    lazy.close_handler()
    assert files.size(NAME) == 64
    assert lazy.delete_if_exists()
    assert files.names() == []


def test_a_lazy_index_that_was_not_asked_for_renames_its_file(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(bytes(8))
    lazy = LazyIndex(TimeIndex, DiskFiles(tmp_path), NAME, BASE, 64)
    lazy.rename_to(NAME + ".deleted")
    assert [path.name for path in tmp_path.iterdir()] == [NAME + ".deleted"]


def test_a_transaction_index_is_there_from_its_first_entry_on(tmp_path: Path) -> None:
    index = TransactionIndex(DiskFiles(tmp_path), NAME, BASE)
    index.reset()
    index.truncate_to(0)
    index.flush()
    assert not (tmp_path / NAME).exists()
    assert index.is_empty
    index.append(AbortedTransaction(0, 7, BASE, BASE + 3, BASE))
    assert (tmp_path / NAME).read_bytes() == bytes.fromhex(
        "0000 0000000000000007 00000000000003e8 00000000000003eb 00000000000003e8"
    )


def test_the_second_byte_of_a_transaction_index_version_is_not_looked_at(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"\x00\x09" + bytes(32))
    index = TransactionIndex(DiskFiles(tmp_path), NAME, 0)
    assert index.all_aborted_txns() == [AbortedTransaction(9, 0, 0, 0, 0)]
    (tmp_path / NAME).write_bytes(b"\x01\x00" + bytes(32))
    with pytest.raises(UnsupportedError, match="version byte 1"):
        TransactionIndex(DiskFiles(tmp_path), NAME, 0).sanity_check()


def test_a_crash_between_making_and_extending_an_index_leaves_an_empty_file(tmp_path: Path) -> None:
    files = CrashingFiles(DiskFiles(tmp_path), crash_at=2)
    with pytest.raises(Crash):
        OffsetIndex(files, NAME, BASE, 64)
    assert (tmp_path / NAME).read_bytes() == b""


# ----------------------------------------------------------------------- what Kafka's classes write


class OurIndex:
    """One index of ours, taking the steps that run_indexes takes."""

    def __init__(self, files: Files, run: dict[str, Any]) -> None:
        self._files = files
        self._name = Path(run["path"]).name
        self._run = run
        self._index: Any = None

    def step(self, step: Step) -> Any:
        arguments = {name: value for name, value in step.items() if name != "do"}
        done: Any = getattr(self, "_" + step["do"])(**arguments)
        return done

    def content(self) -> bytes | None:
        if not self._files.exists(self._name):
            return None
        return self._files.read(self._name, limit=2**20)

    def shape(self) -> dict[str, Any]:
        index = self._index
        if index is None or self._run["kind"] == "transaction":
            return {}
        return {
            "entries": index.entries,
            "max_entries": index.max_entries,
            "length": index.length,
            "is_full": index.is_full,
        }

    def _open(self) -> None:
        if self._run["kind"] == "transaction":
            self._index = TransactionIndex(self._files, self._name, self._run["base_offset"])
        else:
            kind = {"offset": OffsetIndex, "time": TimeIndex}[self._run["kind"]]
            size = self._run["max_index_size"]
            self._index = kind(self._files, self._name, self._run["base_offset"], size)

    def _append(self, **entry: Any) -> None:
        if self._run["kind"] == "offset":
            self._index.append(entry["offset"], entry["position"])
        elif self._run["kind"] == "time":
            skip = entry.get("skip_full_check", False)
            self._index.maybe_append(entry["timestamp"], entry["offset"], skip_full_check=skip)
        else:
            self._index.append(AbortedTransaction(0, **entry))

    def _lookup(self, target: int) -> list[int]:
        return list(self._index.lookup(target))

    def _upper_bound(self, position: int, size: int) -> list[int] | None:
        found = self._index.fetch_upper_bound_offset(OffsetPosition(0, position), size)
        return None if found is None else list(found)

    def _last(self) -> list[int]:
        if self._run["kind"] == "offset":
            return [self._index.last_offset]
        return list(self._index.last_entry)

    def _truncate_to(self, offset: int) -> None:
        self._index.truncate_to(offset)

    def _resize(self, size: int) -> list[bool]:
        return [self._index.resize(size)]

    def _reset(self) -> None:
        self._index.reset()

    def _trim(self) -> None:
        self._index.trim_to_valid_size()

    def _sanity_check(self) -> None:
        self._index.sanity_check()

    def _close(self) -> None:
        self._index.close()

    def _crash(self) -> None:
        self._index.close_handler()

    def _write(self, bytes: bytes) -> None:  # noqa: A002  # the oracle's word
        self._files.write(self._name, bytes, sync=False)

    def _all(self) -> list[list[int]]:
        return [list(aborted[1:]) for aborted in self._index.all_aborted_txns()]

    def _collect(self, fetch_offset: int, upper_bound_offset: int) -> list[Any]:
        found = self._index.collect_aborted_txns(fetch_offset, upper_bound_offset)
        return [[list(aborted[1:]) for aborted in found.aborted_transactions], found.is_complete]

    def _is_empty(self) -> list[bool]:
        return [self._index.is_empty]


def _garbage(rng: random.Random, entry_size: int) -> bytes:
    """What may lie on a disk in the place of an index."""
    whole = rng.randrange(5) * entry_size
    return rng.choice((rng.randbytes(whole), bytes(whole), b""))


_EXTREMES = (BASE - 1, BASE + 2**31 - 1, BASE + 2**31)


def _offset_steps(rng: random.Random) -> list[Step]:
    steps: list[Step] = [{"do": "open"}]
    last, position = BASE, 0
    while len(steps) < 40:
        last += rng.choice((0, 1, 1, 5, 5, 5, 2**20))
        position += rng.choice((0, 100, 5000))
        target = max(0, last + rng.randint(-20, 5))
        drawn: Step = rng.choice(
            (
                {"do": "append", "offset": last, "position": position},
                {"do": "append", "offset": last + 1, "position": position},
                {"do": "append", "offset": rng.choice(_EXTREMES), "position": 1},
                {"do": "lookup", "target": target},
                {"do": "upper_bound", "position": rng.randrange(9000), "size": rng.randrange(9000)},
                {"do": "last"},
                {"do": "truncate_to", "offset": target},
                {"do": "resize", "size": rng.randrange(40, 140)},
                {"do": "trim"},
                {"do": "sanity_check"},
                {"do": "reset"},
                {"do": rng.choice(("close", "crash"))},
            )
        )  # fmt: skip
        steps.append(drawn)
        if drawn["do"] == "reset":
            last, position = BASE, 0
        _maybe_reopen(rng, steps, 8)
    return steps


def _time_steps(rng: random.Random) -> list[Step]:
    steps: list[Step] = [{"do": "open"}]
    last, timestamp = BASE, 50
    while len(steps) < 40:
        last += rng.choice((0, 1, 5, 2**20))
        timestamp += rng.choice((0, 0, 3, 10))
        # Not below the base: that leaves Kafka's map half an entry further, of no use any more.
        back = max(BASE, last - rng.randrange(4))
        drawn: Step = rng.choice(
            (
                {"do": "append", "timestamp": timestamp, "offset": last},
                {"do": "append", "timestamp": timestamp, "offset": last, "skip_full_check": True},
                {"do": "append", "timestamp": timestamp - rng.randrange(4), "offset": back},
                {"do": "append", "timestamp": timestamp, "offset": back},
                {"do": "append", "timestamp": -1, "offset": last},
                {"do": "lookup", "target": timestamp + rng.randint(-30, 5)},
                {"do": "last"},
                {"do": "truncate_to", "offset": max(0, last + rng.randint(-20, 5))},
                {"do": "resize", "size": rng.randrange(60, 200)},
                {"do": "trim"},
                {"do": "sanity_check"},
                {"do": "reset"},
                {"do": rng.choice(("close", "crash"))},
            )
        )  # fmt: skip
        steps.append(drawn)
        if drawn["do"] == "reset":
            last = BASE
        _maybe_reopen(rng, steps, 12)
    return steps


def _maybe_reopen(rng: random.Random, steps: list[Step], entry_size: int) -> None:
    if steps[-1]["do"] in {"close", "crash"}:
        if rng.random() < 0.2:
            steps.append({"do": "write", "bytes": _garbage(rng, entry_size)})
        steps.append({"do": "open"})


def _transaction_steps(rng: random.Random) -> list[Step]:
    steps: list[Step] = [{"do": "open"}]
    last = BASE
    while len(steps) < 40:
        last += rng.choice((0, 1, 7))
        low = max(0, last - rng.randrange(40))
        high = rng.choice((low, last)) + rng.randrange(9)
        entry = {"producer_id": rng.randrange(9), "first_offset": low, "last_offset": last}
        drawn: Step = rng.choice(
            (
                {"do": "append", "last_stable_offset": low, **entry},
                {"do": "append", "last_stable_offset": low, **entry},
                {"do": "all"},
                {"do": "collect", "fetch_offset": low, "upper_bound_offset": high},
                {"do": "is_empty"},
                {"do": "truncate_to", "offset": max(0, last - rng.randrange(20))},
                {"do": "sanity_check"},
                rng.choice(({"do": "close"}, {"do": "reset"})),
            )
        )  # fmt: skip
        steps.append(drawn)
        _maybe_reopen(rng, steps, 17)
    return steps


DRAW: dict[str, Callable[[random.Random], list[Step]]] = {
    "offset": _offset_steps,
    "time": _time_steps,
    "transaction": _transaction_steps,
}


def _compare(ours: OurIndex, run: dict[str, Any], reported: list[dict[str, Any]]) -> None:
    for place, (step, kafkas) in enumerate(zip(run["steps"], reported, strict=True)):
        error: Exception | None = None
        answer = None
        try:
            answer = ours.step(step)
        except (LogError, FormatError, OSError) as problem:
            error = problem
        where = f"step {place} of {run['path']}: {step}, {error!r}, {kafkas}"
        assert answers_to(error, kafkas.get("error")), where
        if error is None:
            assert answer == kafkas["answer"], where
        content = kafkas["bytes"]
        assert ours.content() == (None if content is None else base64.b64decode(content)), where
        shape = ours.shape()
        assert shape == {name: kafkas[name] for name in shape}, where
        if error is not None and step["do"] == "open":
            return  # there is none


def run_of(
    directory: Path, kind: str, steps: Sequence[Step], max_index_size: int = 96
) -> dict[str, Any]:
    """A run of the oracle's `run_indexes`; makes its directory."""
    directory.mkdir()
    return {
        "kind": kind,
        "path": str(directory / f"{BASE:020}.index"),
        "base_offset": BASE,
        "max_index_size": max_index_size,
        "steps": steps,
    }


def _run_both(
    oracle: Oracle, kind: str, runs: list[dict[str, Any]], seeds: Sequence[int] | None = None
) -> None:
    """`seeds`: by which the runs were drawn, if they were."""
    reported = oracle.call("run_indexes", runs=runs)
    for run, steps_told, seed in zip(runs, reported, seeds or [None] * len(runs), strict=True):
        for kind_of_files in (DiskFiles, OverlayFiles):
            directory = Path(run["path"]).parent / kind_of_files.__name__
            directory.mkdir()
            with seen_by(f"{kind}-index", seed):
                _compare(OurIndex(kind_of_files(directory), run), run, steps_told)


def _run_seeds(oracle: Oracle, tmp_path: Path, kind: str, seeds: Sequence[int]) -> None:
    runs = [
        run_of(tmp_path / f"{kind}-{seed}", kind, DRAW[kind](random.Random(seed))) for seed in seeds
    ]
    _run_both(oracle, kind, runs, seeds)


@pytest.mark.parametrize("kind", ["offset", "time", "transaction"])
def test_random_steps_leave_the_bytes_that_kafka_leaves(
    oracle: Oracle, tmp_path: Path, kind: str
) -> None:
    _run_seeds(oracle, tmp_path, kind, range(150))


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["offset", "time", "transaction"])
def test_many_random_steps_leave_the_bytes_that_kafka_leaves(
    oracle: Oracle, tmp_path: Path, kind: str
) -> None:
    _run_seeds(oracle, tmp_path, kind, range(-1, -2001, -1))


@pytest.mark.parametrize(("kind", "size"), [("offset", 8), ("time", 12)])
def test_lookups_in_an_index_beyond_the_warm_end_probe_what_kafka_probes(
    oracle: Oracle, tmp_path: Path, kind: str, size: int
) -> None:
    """Sorted, and not: after damage the answer depends on the order of the probes."""
    rng = random.Random(0)
    values = sorted(rng.randrange(2**20) for _ in range(3000))
    runs = []
    for damage in (0, 300):
        entries = list(values)
        for _ in range(damage):
            entries[rng.randrange(3000)] = rng.randrange(2**20)
        packed = b"".join(
            value.to_bytes(size - 4, "big") + value.to_bytes(4, "big") for value in entries
        )
        lookups: list[Step] = [
            {"do": "lookup", "target": rng.choice((BASE, 0)) + rng.randrange(2**20)}
            for _ in range(200)
        ]
        bounds: list[Step] = [
            {"do": "upper_bound", "position": rng.randrange(2**20), "size": rng.randrange(9)}
            for _ in range(200)
        ]
        more = bounds if kind == "offset" else []
        cut: Step = {"do": "truncate_to", "offset": BASE + rng.randrange(2**20)}
        steps: list[Step] = [{"do": "write", "bytes": packed}, {"do": "open"}, *lookups, *more, cut]
        runs.append(run_of(tmp_path / f"{kind}-{damage}", kind, steps))
    _run_both(oracle, kind, runs)


@pytest.mark.parametrize("kind", ["offset", "time"])
@pytest.mark.parametrize("size", [1, 7, 11, 13, 25])
def test_an_index_of_an_odd_size_fails_the_check_and_is_trimmed(
    oracle: Oracle, tmp_path: Path, kind: str, size: int
) -> None:
    steps = ["open", "sanity_check", "last", "trim", "sanity_check", "close"]
    written: Step = {"do": "write", "bytes": bytes(range(size))}
    run = run_of(tmp_path / kind, kind, [written, *({"do": step} for step in steps)])
    _run_both(oracle, kind, [run])


def test_an_entry_out_of_order_or_range_is_refused(tmp_path: Path) -> None:
    index = OffsetIndex(DiskFiles(tmp_path), NAME, BASE, 64)
    index.append(BASE + 5, 10)
    with pytest.raises(InvalidOffsetError, match=r"found offset 1005 for slot 1"):
        index.append(BASE + 5, 20)
    with pytest.raises(IndexOffsetOverflowError, match=r"found offset 2147484648"):
        index.append(BASE + 2**31, 20)


def test_a_transaction_index_of_another_segment_is_corrupt(tmp_path: Path) -> None:
    index = TransactionIndex(DiskFiles(tmp_path), NAME, BASE)
    index.append(AbortedTransaction(0, 7, 1, BASE - 1, 1))
    with pytest.raises(
        CorruptIndexError, match=r"@0: found last offset 999, expected at least 1000"
    ):
        index.sanity_check()
