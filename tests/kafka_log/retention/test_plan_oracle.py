"""The same segments go, and the same files are left, as after Kafka's own deleteOldSegments."""

import os
import random
import shutil
from typing import Any, NamedTuple

import pytest

from kafka_log.clock import FixedClock, Scheduler
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.log.unified_log import PartitionLog
from kafka_log.retention.plan import RetentionPlan, delete_planned, plan_on_overlay
from tests.oracle.client import record
from tests.oracle.logs import START, TOPIC_ID
from tests.show import command

HOUR = 3_600_000
LOGS = 80
CASES_PER_LOG = 4
BUILD_CONFIG = {
    "segment.bytes": 1_000_000,
    "index.interval.bytes": 100,
    "segment.index.bytes": 240,
    "message.timestamp.after.max.ms": 2**63 - 1,
    "retention.ms": -1,
}
POLICIES = ("delete", "delete", "delete", "delete", "compact", "compact,delete", "")


class Case(NamedTuple):
    """One run of retention over a built log."""

    now: int
    policy: str
    retention_ms: int
    retention_bytes: int
    high_watermark: int | None
    log_start_offset: int
    unlinks: bool

    def config(self) -> LogConfig:
        return LogConfig(
            cleanup_policy=frozenset(filter(None, self.policy.split(","))),
            retention_ms=self.retention_ms,
            retention_bytes=self.retention_bytes,
            index_interval_bytes=BUILD_CONFIG["index.interval.bytes"],
            segment_index_bytes=BUILD_CONFIG["segment.index.bytes"],
            producer_id_expiration_ms=2**31 - 1,
        )

    def settings(self) -> dict[str, Any]:
        return BUILD_CONFIG | {
            "cleanup.policy": self.policy,
            "retention.ms": self.retention_ms,
            "retention.bytes": self.retention_bytes,
        }

    def steps(self) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]] = []
        if self.high_watermark is not None:
            steps.append({"do": "high_watermark", "offset": self.high_watermark})
        if self.log_start_offset:
            steps.append({"do": "log_start_offset", "offset": self.log_start_offset})
        steps.append({"do": "delete_old_segments"})
        return [*steps, {"do": "run_pending"}] if self.unlinks else steps


# ------------------------------------------------------------------------------ drawing logs


def draw_log(rng: random.Random) -> list[dict[str, Any]]:
    """Appends and rolls: timestamps that go back, lie ahead or are missing; producers, epochs."""
    steps: list[dict[str, Any]] = []
    epoch, coordinator_epoch, sequences = 0, 0, {1: 0, 2: 0}
    is_legacy = rng.random() < 0.15
    for number in range(rng.randint(1, 6)):
        timestamp = rng.choice((START, START + 5000, START - HOUR, START + 9 * HOUR, -1))
        for _ in range(rng.randint(1, 4)):
            epoch += rng.random() < 0.2
            step: dict[str, Any] = {"do": "append", "leader_epoch": epoch, "time": START}
            batch: dict[str, Any] = {"records": _records(rng, timestamp), "unchecked": True}
            kind = rng.random()
            if is_legacy:
                step["record_version"] = batch["magic"] = rng.choice((0, 1)) if number else 1
            elif kind < 0.5:
                producer = rng.choice((1, 2))
                batch |= _of_producer(producer, sequences, len(batch["records"]))
                batch["transactional"] = producer == 2
            steps.append(step | {"batch": batch})
        if not is_legacy and rng.random() < 0.5:
            coordinator_epoch += 1
            control = {
                "type": rng.choice(("ABORT", "COMMIT")),
                "coordinator_epoch": coordinator_epoch,
            }
            marker = {"producer_id": 2, "producer_epoch": 0, "transactional": True}
            append = {"do": "append", "origin": "COORDINATOR", "leader_epoch": epoch}
            steps.append(append | {"batch": marker | {"control": control}})
        steps.append({"do": "roll"})
    if rng.random() < 0.7:
        steps.pop()  # else the active segment is empty
    return steps


def _records(rng: random.Random, timestamp: int) -> list[dict[str, Any]]:
    spread = rng.choice((0, 1, 700))
    return [
        record(
            timestamp if timestamp < 0 else timestamp + rng.randint(-spread, spread),
            b"key",
            bytes(rng.randint(0, 90)),
        )
        for _ in range(rng.randint(1, 4))
    ]


def _of_producer(producer: int, sequences: dict[int, int], count: int) -> dict[str, Any]:
    sequence = sequences[producer]
    sequences[producer] += count
    return {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequence}


def draw_case(rng: random.Random, state: dict[str, Any], modified: list[int]) -> Case:
    """Limits at the very edges of what the log has, and a little beside them."""
    segments, end = state["segments"], state["log_end_offset"]
    now = START + rng.choice((0, HOUR, 20 * HOUR))
    bases = [each["base_offset"] for each in segments]
    sizes = [each["size_in_bytes"] for each in segments]
    timestamps = [
        each["largest_timestamp"] if each["time_index_entries"] else time
        for each, time in zip(segments, modified, strict=True)
    ]
    near = (-1, 0, 1)
    age = now - rng.choice(timestamps) + rng.choice(near)
    tail = sum(sizes[rng.randint(0, len(sizes)) :]) + rng.choice(near)
    watermarks = (end, end, end, rng.choice(bases), rng.randint(0, end), None)
    high_watermark = rng.choice(watermarks)
    starts = (0, 0, rng.choice(bases), rng.randint(0, end))
    return Case(
        now=now,
        policy=rng.choice(POLICIES),
        retention_ms=max(-1, rng.choice((-1, -1, 0, age, age))),
        retention_bytes=max(-1, rng.choice((-1, -1, 0, tail, tail))),
        high_watermark=high_watermark,
        log_start_offset=min(rng.choice(starts), high_watermark or 0),
        unlinks=rng.random() < 0.8,
    )


# ------------------------------------------------------------------------------------- tests


class Run(NamedTuple):
    """A case, what Kafka made of it, and what we did."""

    seed: int
    case: Case
    bases: list[int]
    deleted: int
    states: list[dict[str, Any]]
    kafka: dict[str, bytes]
    plan: RetentionPlan
    ours: dict[str, bytes]
    logged: int
    """What our own log says it deleted, and below what it left."""
    log: dict[str, bytes]

    @property
    def where(self) -> str:
        return f"{self.case}; both sides of it: {command('retention', self.seed)}"


@pytest.fixture(scope="module")
def runs(oracle, tmp_path_factory):
    return run_cases(oracle, tmp_path_factory.mktemp("retention"), range(LOGS))


def run_cases(oracle, root, seeds):
    logs = [
        {"path": root / f"log{seed}-0", "sessions": [_building(random.Random(seed))]}
        for seed in seeds
    ]
    answers = oracle.call("run_sessions", runs=logs, timeout=300)
    cases = [
        (seed, log["path"], case)
        for seed, log, (session,) in zip(seeds, logs, answers, strict=True)
        for case in _cases(seed, log["path"], session)
    ]
    retained = [
        {"path": root / f"kafka{i}-0", "copy_from": path, "sessions": [_retaining(case)]}
        for i, (_, path, case) in enumerate(cases)
    ]
    reported = oracle.call("run_sessions", runs=retained, timeout=300)
    return [
        _compare(seed, path, case, run["path"], session)
        for (seed, path, case), run, (session,) in zip(cases, retained, reported, strict=True)
    ]


def _building(rng):
    steps = [*draw_log(rng), {"do": "state"}]
    return {"config": BUILD_CONFIG, "time": START, "topic_id": TOPIC_ID, "steps": steps}


def _retaining(case):
    return {"config": case.settings(), "time": case.now, "steps": case.steps()}


def _cases(seed, path, session):
    """Cases for a log; its files get times of their own first, for where records have none."""
    rng = random.Random(seed + 1_000_000)
    modified = []
    for name in sorted(path.glob("*.log")):
        modified.append(START + rng.choice((0, 1, -HOUR, 2 * HOUR)))
        os.utime(name, ns=(modified[-1] * 1_000_000,) * 2)
    state = session["steps"][-1]["answer"]
    return [draw_case(rng, state, modified) for _ in range(CASES_PER_LOG)]


def _compare(seed, path, case, kafka_path, session):
    """Ours on an overlay, or in place as far as the renames: the unlinking is for later."""
    clock = FixedClock(case.now)
    files = OverlayFiles(path, clock)
    bases = [int(name[:20]) for name in files.names() if name.endswith(".log")]
    plan = plan_on_overlay(
        files,
        case.config(),
        clock,
        high_watermark=case.high_watermark,
        log_start_offset=case.log_start_offset,
    )
    ours = kafka_path.with_name(kafka_path.name.replace("kafka", "ours"))
    ours.mkdir()
    if case.unlinks:
        files.write_to(ours)
    else:
        OverlayFiles(path, clock).write_to(ours)
        delete_planned(plan, DiskFiles(ours), case.config(), Scheduler(clock))
    (deleted,) = [
        step["answer"]["deleted"]
        for step in session["steps"]
        if "deleted" in (step["answer"] or {})
    ]
    states = [step["state"] for step in session["steps"]]
    run = Run(
        seed,
        case,
        bases,
        deleted,
        states,
        content(kafka_path),
        plan,
        content(ours),
        *_retain_open_log(OverlayFiles(path, clock), case, clock),
    )
    for each in (kafka_path, ours):
        shutil.rmtree(each)
    return run


def _retain_open_log(files, case, clock):
    """The same through a log that is open, as in a broker."""
    scheduler = Scheduler(clock)
    log = PartitionLog.open(files, case.config(), scheduler)
    if case.high_watermark is not None:
        log.update_high_watermark(case.high_watermark)
    if case.log_start_offset:
        log.maybe_increment_log_start_offset(case.log_start_offset)
    deleted = log.delete_old_segments()
    if case.unlinks:
        scheduler.run_all()
    log.flush()  # as a broker that stops: this makes the lazy indexes of a new segment
    log.close()
    return deleted, {name: files.read(name, limit=1_000_000) for name in files.names()}


def content(directory):
    return {each.name: each.read_bytes() for each in directory.iterdir()}


def test_there_are_enough_cases_and_they_are_of_every_kind(runs):
    assert len(runs) >= 300
    gone = [run.deleted for run in runs]
    assert sum(count > 0 for count in gone) > 100
    assert sum(count == 0 for count in gone) > 50
    assert sum(run.plan.roll_offset is not None for run in runs) > 10
    by = [verdict.breach for run in runs for verdict in run.plan.verdicts]
    assert min(by.count(breach) for breach in set(by)) > 20
    assert len(set(by)) == 4
    marked = [run for run in runs if any(name.endswith(".deleted") for name in run.kafka)]
    assert len(marked) > 20


def test_the_same_segments_go(runs):
    for run in runs:
        left = sorted(int(name[:20]) for name in run.kafka if name.endswith(".log"))
        gone = [base for base in run.bases if base not in left]
        assert [facts.base_offset for facts in run.plan.deleted] == gone, run.where
        assert len(gone) == run.deleted, run.where


def test_the_directory_is_the_same_afterwards(runs):
    for run in runs:
        assert run.ours == run.kafka, run.where


def test_a_log_that_is_open_does_the_same(runs):
    for run in runs:
        assert run.logged == run.deleted, run.where
        assert run.log == run.kafka, run.where


def test_the_log_start_and_epochs_are_the_same_afterwards(runs):
    for run in runs:
        state: dict[str, Any] = {}
        for changed in run.states:
            state |= changed
        if "log_start_offset" in state:
            assert run.plan.new_log_start_offset == state["log_start_offset"], run.where
        if "leader_epochs" in state:
            epochs = [(each["epoch"], each["start_offset"]) for each in state["leader_epochs"]]
            assert [tuple(entry) for entry in run.plan.leader_epochs] == epochs, run.where


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1000, 2000, 100))
def test_the_same_in_thousands_of_cases(oracle, tmp_path, first):
    runs = run_cases(oracle, tmp_path, range(first, first + 100))
    test_the_same_segments_go(runs)
    test_the_directory_is_the_same_afterwards(runs)
    test_a_log_that_is_open_does_the_same(runs)
    test_the_log_start_and_epochs_are_the_same_afterwards(runs)
