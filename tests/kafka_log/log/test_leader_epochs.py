"""Leader epochs: every answer and every byte against Kafka's LeaderEpochFileCache."""

import random
from pathlib import Path
from typing import Any

import pytest

from kafka_format.errors import FormatError
from kafka_format.leader_epoch_file import EpochEntry
from kafka_log.clock import FixedClock, Scheduler
from kafka_log.disk.files import DiskFiles, Files
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.errors import IllegalArgumentError
from kafka_log.log.leader_epochs import LeaderEpochFileCache
from tests.oracle.client import Oracle, b64
from tests.show import seen_by

EPOCHS = range(-2, 14)
OFFSETS = range(-1, 62, 3)
LOG_END_OFFSET = 1000  # the oracle's


def cache_of(folder: Path) -> LeaderEpochFileCache:
    return LeaderEpochFileCache(DiskFiles(folder), Scheduler(FixedClock()))


def draw_operations(seed: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    epoch = offset = 0
    operations: list[dict[str, Any]] = []
    for _ in range(25):
        epoch = max(0, epoch + rng.choice((0, 1, 1, 2, -1)))
        offset = max(0, offset + rng.choice((0, 3, 5, 8, -6)))
        chance = rng.random()
        if chance < 0.5:
            operations.append({"do": "assign", "epoch": epoch, "offset": offset})
        elif chance < 0.6:
            entries = [[epoch + i, offset + i * rng.randrange(4)] for i in range(rng.randrange(4))]
            operations.append({"do": "assign_all", "entries": entries})
        elif chance < 0.75:
            operations.append({"do": "truncate_from_end", "offset": offset - rng.randrange(12)})
        elif chance < 0.9:
            operations.append({"do": "truncate_from_start", "offset": offset - rng.randrange(12)})
        elif chance < 0.94:
            operations.append({"do": "assign", "epoch": rng.choice((-1, epoch)), "offset": -1})
        elif chance < 0.96:
            operations.append({"do": rng.choice(("clear", "clear_and_flush"))})
        if chance > 0.9:
            epoch = offset = 0
    return operations


def apply(cache: LeaderEpochFileCache, operation: dict[str, Any]) -> None:
    offset = operation.get("offset", 0)
    match operation["do"]:
        case "assign":
            cache.assign(operation["epoch"], offset)
        case "assign_all":
            cache.assign_all(EpochEntry(*entry) for entry in operation["entries"])
        case "truncate_from_end":
            cache.truncate_from_end_async_flush(offset)
        case "truncate_from_start":
            cache.truncate_from_start_async_flush(offset)
        case "clear":
            cache.clear()
        case "clear_and_flush":
            cache.clear_and_flush()


def reported(cache: LeaderEpochFileCache, files: Files) -> dict[str, Any]:
    """The oracle's `leader_epochs`, from ours."""
    earliest = cache.earliest_entry
    return {
        "entries": _rows(cache.epoch_entries),
        "bytes": b64(files.read("leader-epoch-checkpoint", limit=10_000)),
        "non_empty": cache.non_empty,
        "latest_epoch": cache.latest_epoch,
        "before_latest": cache.previous_epoch(),
        "earliest_offset": earliest.start_offset if earliest else None,
        "epochs": [_of_epoch(cache, epoch) for epoch in EPOCHS],
        "offsets": [
            [
                cache.epoch_for_offset(offset),
                _rows(cache.epoch_entries_in_range(offset, offset + 10)),
                _rows(cache.epoch_entries_in_range(-1, offset)),
            ]
            for offset in OFFSETS
        ],
    }


def _rows(entries: Any) -> list[list[int]]:
    return [list(entry) for entry in entries]


def _of_epoch(cache: LeaderEpochFileCache, epoch: int) -> list[int | None]:
    previous, entry = cache.previous_entry(epoch), cache.epoch_entry(epoch)
    return [
        *cache.end_offset_for(epoch, LOG_END_OFFSET),
        cache.previous_epoch(epoch),
        previous.start_offset if previous else None,
        cache.next_epoch(epoch),
        entry.start_offset if entry else None,
    ]


def run_of(
    path: Path, operations: list[dict[str, Any]], data: bytes | None = None
) -> dict[str, Any]:
    return {
        "path": path,
        "bytes": data,
        "operations": operations,
        "epochs": list(EPOCHS),
        "offsets": list(OFFSETS),
    }


def _compare_run(files: OverlayFiles, run: dict[str, Any], answers: list[Any]) -> int:
    """How many operations both refused. In memory: thousands of flushes to a disk take minutes."""
    refused = 0
    cache = LeaderEpochFileCache(files, Scheduler(FixedClock()))
    assert reported(cache, files) == answers[0]
    for operation, expected in zip(run["operations"], answers[1:], strict=True):
        error = expected.pop("error", None)
        if error is None:
            apply(cache, operation)
        else:
            assert error["class"] == "java.lang.IllegalArgumentException"
            refused += 1
            with pytest.raises(IllegalArgumentError):
                apply(cache, operation)
        assert reported(cache, files) == expected, f"{operation}"
    assert files.names() == ["leader-epoch-checkpoint"]
    return refused


def test_random_assignments_and_truncations_answer_as_kafka(
    oracle: Oracle, memory_path: Path
) -> None:
    seeds = range(300)
    empty = memory_path / "ours"
    empty.mkdir()
    runs = [run_of(memory_path / f"{seed}-kafka", draw_operations(seed)) for seed in seeds]
    errors = 0
    for seed, run, answers in zip(
        seeds, runs, oracle.call("leader_epochs", runs=runs, timeout=300), strict=True
    ):
        with seen_by("epochs", seed):
            errors += _compare_run(OverlayFiles(empty), run, answers)
    assert errors > 10


FILES = {
    b"": [],
    b"0\n": [],
    b"0\n0\n": [],
    b"0\n2\n0 0\n3 17\n": [[0, 0], [3, 17]],
    b"0\r\n1\r\n4 9": [[4, 9]],
    b"0\n3\n0 0\n5 10\n2 20\n": [[0, 0], [2, 20]],  # an epoch that goes back removes the later one
    b"0\n3\n0 10\n1 10\n2 5\n": [[2, 5]],  # and so does an offset
    b"0\n2\n1 3\n1 7\n": [[1, 3]],
}


def test_a_checkpoint_is_read_as_kafka_reads_it(oracle: Oracle, tmp_path: Path) -> None:
    runs = [run_of(tmp_path / f"{place}-kafka", [], data) for place, data in enumerate(FILES)]
    answers = oracle.call("leader_epochs", runs=runs)
    for place, (data, entries) in enumerate(FILES.items()):
        folder = tmp_path / f"{place}-ours"
        folder.mkdir()
        (folder / "leader-epoch-checkpoint").write_bytes(data)
        cache = cache_of(folder)
        assert _rows(cache.epoch_entries) == entries
        assert reported(cache, DiskFiles(folder)) == answers[place][0]


@pytest.mark.parametrize(
    ("data", "error"),
    [
        (b"1\n0\n", FormatError),
        (b"0\n2\n0 0\n", FormatError),
        (b"0\n1\nx y\n", FormatError),
        (b"\xff\n", FormatError),
        (b"0\n1\n-1 0\n", IllegalArgumentError),
        (b"0\n1\n0 -1\n", IllegalArgumentError),
    ],
)
def test_a_partition_whose_checkpoint_kafka_refuses_does_not_load(
    oracle: Oracle, tmp_path: Path, data: bytes, error: type[Exception]
) -> None:
    answer = oracle.call("leader_epochs", runs=[run_of(tmp_path / "kafka", [], data)])[0]
    assert "error" in answer
    (tmp_path / "leader-epoch-checkpoint").write_bytes(data)
    with pytest.raises(error):
        cache_of(tmp_path)


def test_a_new_cache_makes_an_empty_file(tmp_path: Path) -> None:
    assert not cache_of(tmp_path).non_empty
    assert (tmp_path / "leader-epoch-checkpoint").read_bytes() == b""


def test_a_truncation_after_the_directory_was_renamed_is_not_written(tmp_path: Path) -> None:
    folder, renamed = tmp_path / "orders-0", tmp_path / "orders-0.x-delete"
    folder.mkdir()
    cache = cache_of(folder)
    cache.assign(0, 0)
    cache.assign(1, 10)
    folder.rename(renamed)
    cache.truncate_from_end_async_flush(5)
    assert _rows(cache.epoch_entries) == [[0, 0]]
    assert (renamed / "leader-epoch-checkpoint").read_bytes() == b"0\n2\n0 0\n1 10\n"


def test_the_same_epochs_go_on_in_another_directory(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.mkdir()
    new.mkdir()
    cache = cache_of(old)
    cache.assign(3, 30)
    moved = cache.with_checkpoint(DiskFiles(new))
    assert (new / "leader-epoch-checkpoint").read_bytes() == b""
    moved.assign(4, 40)
    assert (new / "leader-epoch-checkpoint").read_bytes() == b"0\n2\n3 30\n4 40\n"
    assert (old / "leader-epoch-checkpoint").read_bytes() == b"0\n1\n3 30\n"
    assert _rows(cache.epoch_entries) == [[3, 30]]


def test_evidence_is_not_written_to(tmp_path: Path) -> None:
    cache = LeaderEpochFileCache(OverlayFiles(tmp_path), Scheduler(FixedClock()))
    cache.assign(1, 2)
    assert not list(tmp_path.iterdir())
