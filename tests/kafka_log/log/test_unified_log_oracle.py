"""Our log against Kafka's UnifiedLog: the same steps, the same clock, the same everything.

After every step the answers (or the class of the refusal), offsets, producers, transactions, epochs
and every byte of every file are compared.
"""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_format.batch import encode_batch
from kafka_format.checkpoint_file import read_offset_checkpoint
from kafka_format.record import SimpleRecord
from kafka_log.disk.files import DiskFiles
from tests import golden
from tests.kafka_log.compare import (
    Comparison,
    OracleAnswer,
    compare_workloads,
    run_kafka,
    scratch,
    unfolded,
)
from tests.kafka_log.driver import Session, files_of
from tests.kafka_log.steps import SessionPlan
from tests.kafka_log.workload import START, Workload, draw_long_workload, draw_workload
from tests.oracle.client import Oracle
from tests.show import seen_by

BLOCK = 40  # workloads in one call of the oracle


@pytest.mark.parametrize("block", range(6))
def test_our_log_is_kafkas_after_every_step(oracle: Oracle, block: int) -> None:
    compare_workloads(oracle, workloads(block))


@pytest.mark.soak
@pytest.mark.parametrize("block", range(6, 110))
def test_our_log_is_kafkas_after_every_step_in_thousands(oracle: Oracle, block: int) -> None:
    compare_workloads(oracle, workloads(block))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(50_000, 50_030))
def test_long_lives_end_as_kafkas(oracle: Oracle, seed: int) -> None:
    compare_workloads(oracle, [draw_long_workload(seed)])


def workloads(block: int) -> list[Workload]:
    return [draw_workload(seed) for seed in range(block * BLOCK, (block + 1) * BLOCK)]


def test_what_kafka_wrote_lives_on_in_our_log_as_in_kafkas(oracle: Oracle) -> None:
    """The first session is Kafka's, the rest ours: compared with Kafka alone."""
    drawn = [draw_workload(seed) for seed in range(60_000, 60_040)]
    with scratch() as folder:
        alone = run_all(oracle, folder, "alone", drawn)
        begun = run_all(oracle, folder, "begun", [first_session(each) for each in drawn])
        for workload, whole, first in zip(drawn, alone, begun, strict=True):
            if "closed" not in first[0]:
                continue  # a log that Kafka cannot load has no second session
            directory = log_in(folder / "begun", workload)
            comparison = Comparison(
                f"seed {workload.seed} from its second session on",
                directory,
                log_start_offset=first[0]["closed"]["log_start_offset"],
                recovery_point=first[0]["closed"]["recovery_point"],
                files=files_of(directory),
            )
            with seen_by(workload.suite, workload.seed):
                comparison.sessions(workload.sessions[1:], whole[1:])


def test_what_our_log_wrote_lives_on_in_kafkas_as_its_own(oracle: Oracle) -> None:
    """The first session is ours, the rest Kafka's: compared with Kafka alone."""
    drawn = [draw_workload(seed, crashes=seed % 2 == 0) for seed in range(70_000, 70_040)]
    with scratch() as folder:
        alone = run_all(oracle, folder, "alone", drawn)
        starts = [run_ours(log_in(folder / "ours", each), each.sessions[0]) for each in drawn]
        continued = run_kafka(
            oracle,
            (
                {
                    "path": log_in(folder / "continued", workload),
                    "copy_from": log_in(folder / "ours", workload),
                    "sessions": [after(start, workload.sessions[1]), *workload.sessions[2:]],
                }
                for workload, start in zip(drawn, starts, strict=True)
            ),
        )
        for workload, whole, rest in zip(drawn, alone, continued, strict=True):
            files = unfolded(whole[:1])[-1][2]
            found = unfolded(rest)
            with seen_by(workload.suite, workload.seed):
                for i, (event, expected) in enumerate(
                    zip(found, unfolded(whole[1:], files), strict=True)
                ):
                    assert event == expected, f"seed {workload.seed}, event {i}"


def run_all(
    oracle: Oracle, folder: Path, name: str, drawn: list[Workload]
) -> list[list[OracleAnswer]]:
    return run_kafka(
        oracle,
        ({"path": log_in(folder / name, each), "sessions": each.sessions} for each in drawn),
    )


def log_in(folder: Path, workload: Workload) -> Path:
    """The same name in any folder, because messages contain it."""
    return folder / f"log-{workload.seed}"


def first_session(workload: Workload) -> Workload:
    return workload._replace(sessions=workload.sessions[:1])


def after(checkpoints: dict[str, int], session: SessionPlan) -> SessionPlan:
    return replace(session, opening=session.opening.after(**checkpoints))


def run_ours(directory: Path, plan: SessionPlan) -> dict[str, int]:
    """Run a session without a comparison; return the checkpoints for the next one."""
    directory.mkdir(parents=True)
    session = Session(DiskFiles(directory), plan.opening)
    for step in plan.steps:
        session.try_step(step)
    session.close(plan.close)
    log = session.log
    return {"log_start_offset": log.log_start_offset, "recovery_point": log.recovery_point}


# ------------------------------------------------------------- what docs/log.md is surprised by


def batch(count: int, **fields: Any) -> dict[str, Any]:
    records = [SimpleRecord(START, b"k", b"v") for _ in range(count)]
    return {"do": "append", "leader_epoch": 0, "bytes": encode_batch(records, **fields)}


def in_transaction(count: int) -> dict[str, Any]:
    return batch(count, producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        pytest.param(
            [
                batch(2),
                batch(4),
                {"do": "high_watermark", "offset": 4},
                {"do": "read", "offset": 0, "isolation": "HIGH_WATERMARK"},
            ],
            {"high_watermark": 2},
            id="a read sets a high watermark inside a batch back to its beginning",
        ),
        pytest.param(
            [
                batch(2),
                in_transaction(4),
                {"do": "high_watermark"},
                {"do": "log_start_offset", "offset": 4},
            ],
            {"log_start_offset": 4, "first_unstable_offset": 2, "last_stable_offset": 2},
            id="a log start inside an open transaction is above the last stable offset",
        ),
        pytest.param(
            [
                batch(2),
                {"do": "high_watermark"},
                batch(3),
                in_transaction(2),
                {"do": "truncate_to", "offset": 4},
            ],
            {"log_end_offset": 4, "first_unstable_offset": 5},
            id="a cut above the high watermark forgets no first unstable offset",
        ),
        pytest.param(
            [
                batch(2) | {"leader_epoch": 3},
                batch(200) | {"leader_epoch": 4, "may_fail": True},
            ],
            {"log_end_offset": 2, "leader_epochs": [
                {"epoch": 3, "start_offset": 0}, {"epoch": 4, "start_offset": 2},
            ]},
            id="an append that is too large leaves its epoch behind",
        ),
    ],
)  # fmt: skip
def test_surprises_are_kafkas_and_ours(
    oracle: Oracle, steps: list[dict[str, Any]], expected: dict[str, Any]
) -> None:
    config = {"segment.bytes": 1000, "segment.index.bytes": 120}
    session = {"config": config, "time": START, "steps": steps, "close": "crash"}
    with scratch() as folder:
        (answers,) = run_kafka(oracle, [{"path": folder / "kafka-0", "sessions": [session]}])
        (folder / "ours").mkdir()
        comparison = Comparison("surprise", folder / "ours")
        comparison.sessions([session], answers)
        assert {name: comparison.state[name] for name in expected} == expected


# --------------------------------------------------------------------------------------- golden

QUESTIONS: list[dict[str, Any]] = [
    {"do": "state"},
    {"do": "high_watermark"},
    *(
        {"do": "read", "from": place, "max_length": size, "isolation": isolation, "may_fail": True}
        for place, size in (("start", 1 << 20), ("start", 300), ("last_stable", 999), ("active", 0))
        for isolation in ("LOG_END", "HIGH_WATERMARK", "TXN_COMMITTED")
    ),
    *({"do": "offset_for_timestamp", "timestamp": name} for name in range(-6, 0)),
    *({"do": "offset_for_timestamp", "timestamp": 1_700_000_000_000 + day * 86_400_000}
      for day in (0, 300, 900, 1_000, 2_000)),
    *({"do": "end_offset_for_epoch", "leader_epoch": epoch} for epoch in range(4)),
    {"do": "delete_old_segments"},
    {"do": "truncate_to", "delta": -1, "may_fail": True},
    {"do": "roll"},
    {"do": "run_pending"},
]  # fmt: skip


@pytest.mark.parametrize("name", golden.names())
def test_what_real_brokers_left_opens_in_our_log_as_in_kafkas(oracle: Oracle, name: str) -> None:
    with scratch() as folder:
        partitions = list(golden_partitions(name))
        runs = [
            {
                "path": folder / "kafka" / partition.name,
                "copy_from": partition,
                "sessions": [session],
            }
            for partition, session in partitions
        ]
        assert runs
        answers = run_kafka(oracle, runs)
        for (partition, session), theirs in zip(partitions, answers, strict=True):
            ours = folder / "ours" / partition.name
            shutil.copytree(partition, ours)
            Comparison(f"{name} {partition.name}", ours).sessions([session], theirs)


def golden_partitions(name: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    for log_dir in golden.log_dirs(golden.shared(name)):
        starts = offsets_in(log_dir / "log-start-offset-checkpoint")
        points = offsets_in(log_dir / "recovery-point-offset-checkpoint")
        for partition in sorted(log_dir.iterdir()):
            if (
                partition.is_dir()
                and "-" in partition.name
                and not partition.name.endswith("-delete")
            ):
                yield (
                    partition,
                    {
                        "config": {"segment.index.bytes": 65536, "retention.ms": -1},
                        "time": 1_800_000_000_000,
                        "clean_shutdown": (log_dir / ".kafka_cleanshutdown").exists(),
                        "log_start_offset": starts.get(partition.name, 0),
                        "recovery_point": points.get(partition.name, 0),
                        "steps": QUESTIONS,
                        "close": "clean",
                    },
                )


def offsets_in(path: Path) -> dict[str, int]:
    if not path.exists():
        return {}
    found = read_offset_checkpoint(path).offsets()
    return {f"{topic}-{partition}": offset for (topic, partition), offset in found.items()}
