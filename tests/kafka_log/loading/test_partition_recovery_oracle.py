"""Our loader against Kafka's, on the same damaged directories: the same files, the same state.

Every case is a directory (damaged/) in three copies: one that Kafka's UnifiedLog.create
opens and leaves as a dying broker would, one that our loader recovers in place, and the evidence,
which is only planned for; the plan is then written elsewhere.
"""

import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from kafka_format.errors import FormatError
from kafka_format.producer_snapshot import decode_producer_snapshot, iter_producer_snapshot
from kafka_log.checkpoints import LastRun
from kafka_log.clock import FixedClock
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles
from kafka_log.errors import LogError
from kafka_log.loading.log_dir_recovery import LoadedPartition, load_partition, plan_partition
from tests.kafka_log.damaged.cases import Case, draw_case, make
from tests.kafka_log.damaged.sources import Source, build_sources
from tests.oracle.client import Oracle
from tests.oracle.logs import START

_NEVER = 2**31 - 1
REFUSED = "in the decompressed records"
"""Kafka checks only the offsets of old messages inside a wrapper (docs/recovery.md)."""


@pytest.fixture(scope="module")
def sources(oracle: Oracle, tmp_path_factory: pytest.TempPathFactory) -> list[Source]:
    return build_sources(oracle, tmp_path_factory.mktemp("sources"))


def config_of(arguments: dict[str, Any]) -> LogConfig:
    """Kafka's names and texts as our settings."""
    settings: dict[str, Any] = {}
    for name, value in arguments["config"].items():
        settings[name.replace(".", "_")] = {"true": True, "false": False}.get(value, value)
    expiration = arguments.get("producer_id_expiration_ms", _NEVER)
    return LogConfig(**settings, producer_id_expiration_ms=expiration)


def last_run_of(case: Case) -> LastRun:
    names = ("clean_shutdown", "log_start_offset", "recovery_point")
    return LastRun(**{name: case.arguments[name] for name in names})


def content(directory: Path) -> dict[str, Any]:
    """Every file's bytes; of a snapshot its rows, which Kafka writes in the order of a hash map."""
    found: dict[str, Any] = {}
    for path in sorted(directory.iterdir()):
        data = path.read_bytes() if path.is_file() else b"a folder"
        found[path.name] = data
        if ".snapshot" in path.name:
            try:
                snapshot = decode_producer_snapshot(data)
                found[path.name] = sorted(iter_producer_snapshot(snapshot)), len(data)
            except FormatError:
                pass
    return found


def digest(directory: Path) -> dict[str, Any]:
    """Bytes and times of every file."""
    return {
        path.name: (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in directory.iterdir()
    }


def state_of(loaded: LoadedPartition) -> dict[str, Any]:
    """As the oracle tells it, as far as it is the loader's."""
    manager = loaded.producer_state_manager
    return {
        "log_start_offset": loaded.log_start_offset,
        "log_end_offset": loaded.log_end_offset,
        "recovery_point": loaded.recovery_point,
        "first_unstable_offset": loaded.first_unstable_offset,
        "leader_epochs": [
            {"epoch": entry.epoch, "start_offset": entry.start_offset}
            for entry in loaded.leader_epoch_cache.epoch_entries
        ],
        "segments": [
            {
                "base_offset": segment.base_offset,
                "next_offset": segment.read_next_offset(),
                "size_in_bytes": segment.size,
                "offset_index_entries": segment.offset_index.entries,
                "time_index_entries": segment.time_index.entries,
            }
            for segment in loaded.segments
        ],
        "producers": sorted(manager.active_producers),
    }


def compare(case: Case, kafka: dict[str, Any], folder: Path) -> str | None:
    """What differs between Kafka's directory and ours; None if nothing does."""
    config, last_run = config_of(case.arguments), last_run_of(case)
    clock = FixedClock(case.arguments["time"])
    evidence = folder / "before" / case.directory
    before = digest(evidence)
    planned = plan_partition(evidence, config, last_run, clock=clock)
    if digest(evidence) != before:
        return "the evidence was written to"
    try:
        files = DiskFiles(folder / "ours" / case.directory)
        loaded = load_partition(files, config, last_run, clock=clock)
    except (LogError, OSError) as error:
        if "error" not in kafka:
            return None if REFUSED in str(error) else f"ours does not load it: {error!r}"
        if planned.error is None:
            return f"the plan does not fail: {error!r}"
        return None
    if "error" in kafka:
        loaded.close_handlers()
        return f"Kafka does not load it: {kafka['error']}"
    problem = _compare_states(kafka, loaded)
    loaded.close_handlers()
    expected = content(folder / "kafka" / case.directory)
    return (
        problem
        or _compare_files(expected, content(folder / "ours" / case.directory))
        or _compare_plan(case, planned, expected, folder)
    )


def _compare_states(kafka: dict[str, Any], loaded: LoadedPartition) -> str | None:
    if "state_error" in kafka:
        return None
    expected = kafka["opened"]
    try:
        found = state_of(loaded)
    except (LogError, FormatError) as error:
        return f"ours has no state: {error!r}"
    expected["producers"] = sorted(each["producer_id"] for each in expected["producers"])
    for segment in expected["segments"]:
        del segment["largest_timestamp"]
    for key, value in found.items():
        if expected[key] != value:
            return f"{key}: found {value}, expected {expected[key]}"
    return None


def _compare_files(expected: dict[str, Any], found: dict[str, Any]) -> str | None:
    if expected.keys() != found.keys():
        ours, kafkas = found.keys() - expected.keys(), expected.keys() - found.keys()
        return f"files: only ours {ours}, only Kafka's {kafkas}"
    for name, value in expected.items():
        if found[name] != value:
            return f"{name}: found {_shown(found[name])}, expected {_shown(value)}"
    return None


def _compare_plan(case: Case, planned: Any, expected: dict[str, Any], folder: Path) -> str | None:
    if planned.error is not None:
        return f"the plan fails: {planned.error!r}"
    unexplained = [row for row in planned.rows() if not row.why]
    if unexplained:
        return f"without a reason: {unexplained}"
    if case.directory.endswith("-delete"):
        with suppress(FormatError):
            state_of(planned.loaded)  # asked for their entries, indexes are made, as in Kafka
    written = folder / "written"
    written.mkdir()
    planned.write_to(written)
    files = {name: value for name, value in expected.items() if value != b"a folder"}
    problem = _compare_files(files, content(written))
    return f"plan: {problem}" if problem else None


def _shown(value: Any) -> str:
    return f"{len(value)} bytes {value[:200].hex()}" if isinstance(value, bytes) else repr(value)


def run_cases(
    oracle: Oracle, sources: Sequence[Source], seeds: Sequence[int], folder: Path
) -> list[str]:
    """Draw cases, make their directories, and tell what differs."""
    cases = [draw_case(seed, sources) for seed in seeds]
    for case in cases:
        make(case, folder / str(case.seed) / "before")
    return open_and_compare(oracle, cases, folder)


def open_and_compare(oracle: Oracle, cases: Sequence[Case], folder: Path) -> list[str]:
    """What differs, case by case; many directories are opened by one call."""
    for case in cases:
        home = folder / str(case.seed)
        for copy in ("kafka", "ours"):
            shutil.copytree(home / "before" / case.directory, home / copy / case.directory)
    answers = oracle.call(
        "open_logs",
        logs=[
            {**case.arguments, "path": folder / str(case.seed) / "kafka" / case.directory}
            for case in cases
        ],
        timeout=300,
    )
    problems = []
    for case, answer in zip(cases, answers, strict=True):
        problem = compare(case, answer, folder / str(case.seed))
        if problem:
            problems.append(f"{case}: {problem}{case.how_to_see}")
        shutil.rmtree(folder / str(case.seed))
    return problems


def _chunks(count: int, size: int = 25) -> Iterator[range]:
    for start in range(0, count, size):
        yield range(start, min(count, start + size))


@pytest.mark.parametrize("seeds", list(_chunks(600)), ids=lambda seeds: f"{seeds[0]}-{seeds[-1]}")
def test_a_damaged_directory_is_recovered_to_the_bytes_that_kafka_leaves(
    oracle: Oracle, sources: list[Source], seeds: range, tmp_path: Path
) -> None:
    assert run_cases(oracle, sources, seeds, tmp_path) == []


SUFFIXES = ("", ".deleted", ".cleaned", ".swap", None)
"""The states of a file: live, deleted, cleaned, swap; or missing."""


@pytest.mark.parametrize("log_suffix", SUFFIXES)
def test_every_combination_of_suffixes_is_sorted_out_as_kafka_does(
    oracle: Oracle, sources: list[Source], log_suffix: str | None, tmp_path: Path
) -> None:
    """The log, offset index and time index of the second of three segments."""
    (source,) = [source for source in sources if source.name == "plain"]
    cases = []
    for seed, (index_suffix, time_suffix) in enumerate(product(SUFFIXES, SUFFIXES)):
        directory = tmp_path / str(seed) / "before" / "orders-0"
        directory.mkdir(parents=True)
        for base in source.bases()[:3]:
            for path in source.path.glob(f"{base:020d}.*"):
                shutil.copyfile(path, directory / path.name)
        suffixes = {".log": log_suffix, ".index": index_suffix, ".timeindex": time_suffix}
        for ending, suffix in suffixes.items():
            path = directory / f"{source.bases()[1]:020d}{ending}"
            if suffix is None:
                path.unlink()
            else:
                path.rename(f"{path}{suffix}")
        arguments = {
            "config": source.settings,
            "time": START,
            "clean_shutdown": seed % 2 == 0,
            "recovery_point": 0,
            "log_start_offset": 0,
        }
        cases.append(
            Case(
                seed=seed,
                source=source,
                directory="orders-0",
                arguments=arguments,
                damage=[str(suffixes)],
            )
        )
    assert open_and_compare(oracle, cases, tmp_path) == []


@pytest.mark.soak
@pytest.mark.parametrize("start", range(10_000, 20_000, 500))
def test_thousands_of_damaged_directories_are_recovered_as_kafka_does(
    oracle: Oracle, sources: list[Source], start: int, tmp_path: Path
) -> None:
    problems = []
    for chunk in _chunks(500):
        problems += run_cases(oracle, sources, [start + seed for seed in chunk], tmp_path)
    assert problems == []
