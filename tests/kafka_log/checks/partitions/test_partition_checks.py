"""Whole partitions: healthy ones of brokers and of Kafka's classes, edited ones, and any bytes."""

import random
import shutil
from pathlib import Path

import pytest

from kafka_format.errors import FormatError
from kafka_log.checks.facts import AuditedPartition, PartitionFacts
from kafka_log.checks.finding import Finding
from kafka_log.checks.partitions.partition_checks import check_partition
from kafka_log.checks.rules.rule import Severity
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles
from kafka_log.inventory.scan import scan
from tests import golden
from tests.kafka_log.checks.edits import named
from tests.kafka_log.checks.partition_audit import audit, audit_directory, audit_log_dir, ids
from tests.kafka_log.cleaner.cleaning import kafka_runs, planned_case
from tests.oracle.client import BuiltLog, Oracle
from tests.oracle.logs import START, LogPlan

DAY_MS = 24 * 60 * 60 * 1000

# ------------------------------------------------------------------ healthy


@pytest.mark.parametrize("pack", golden.names())
def test_no_broker_leaves_what_is_reported(pack: str) -> None:
    for log_dir in golden.log_dirs(golden.shared(pack)):
        assert audit_log_dir(log_dir) == []


@pytest.mark.parametrize("seed", range(6))
def test_a_drawn_log_is_healthy_and_has_kafkas_producers(
    oracle: Oracle, tmp_path: Path, seed: int
) -> None:
    plan = LogPlan(
        seed=seed,
        batches=150,
        transactional_producers=5,
        open_transactions=seed % 4,
        gaps=seed % 3 == 2,
        close="crash" if seed % 2 else "clean",
    )
    built = oracle.build_log(tmp_path / "orders-0", plan)
    for is_clean in (None, not seed % 2):
        findings, facts = audit_directory(
            built.path, is_clean=is_clean, now_ms=START, knows_settings=True, never_cleaned=True
        )
        assert findings == []
        assert facts.log_end_offset == built.state["log_end_offset"]
        assert len(facts.open_transactions) == seed % 4
        expected = {
            (each["producer_id"], each["producer_epoch"], each["last_sequence"])
            for each in built.state["producers"]
        }
        assert {each[:3] for each in facts.producers} == expected


def test_cleaned_logs_are_healthy(oracle: Oracle, tmp_path: Path) -> None:
    """Up to three rounds of Kafka's cleaner, some after retention."""
    cases = [planned_case(oracle, tmp_path, seed) for seed in range(20)]
    oracle.call("clean_logs", runs=kafka_runs(tmp_path, cases), timeout=600)
    config = LogConfig(cleanup_policy=frozenset({"compact"}))
    for case in cases:
        path = tmp_path / "kafka" / case.source.name
        path = path.rename(path.with_name(f"orders-{case.seed}"))
        findings, _ = audit_directory(
            path, now_ms=START + 3 * DAY_MS, config=config, knows_settings=True
        )
        assert [each for each in findings if each.severity is not Severity.NOTE] == [], case.name


def test_logs_without_anything_next_to_them_miss_nothing(log: Path, tmp_path: Path) -> None:
    whole, expected = audit_directory(log, now_ms=START)
    assert whole == []
    for path in log.iterdir():
        if path.suffix != ".log":
            path.unlink()
    findings, facts = audit_directory(log, now_ms=START)
    assert findings == []
    assert set(facts.producers) == set(expected.producers)
    one = tmp_path / "one" / "orders-0" / "00000000000000000158.log"
    one.parent.mkdir(parents=True)
    shutil.copy(log / one.name, one)
    assert audit_directory(one.parent, now_ms=START)[0] == []


@pytest.mark.parametrize("base", [0, 158, 516])
def test_one_segment_of_a_partition_misses_nothing(log: Path, base: int) -> None:
    ((_, partition),) = scan([named(log, base, ".log")]).partitions()
    assert [each.base_offset for each in partition.segments] == [base]
    audited = AuditedPartition(
        partition=partition,
        log_dir=str(log.parent),
        config=LogConfig(),
        now_ms=START,
        is_clean=True,
    )
    assert ids(audit(audited)[0]) == []


# ------------------------------------------------------------------ small files


@pytest.mark.parametrize(
    ("name", "data", "rule"),
    [
        ("partition.metadata", b"version: x\n", "MET001"),
        ("leader-epoch-checkpoint", b"0\nx\n", "LEP001"),
        ("00000000000000000339.txnindex", b"\x00" * 33, "TXN003"),
        ("00000000000000000373.snapshot", b"", "SNP002"),
        ("00000000000000000374.snapshot", b"", "SNP002"),
    ],
)
def test_small_files_are_checked_once(log: Path, name: str, data: bytes, rule: str) -> None:
    (log / name).write_bytes(data)
    assert ids(audit_directory(log, now_ms=START)[0]).count(rule) == 1


def test_every_file_that_is_removed_is_missed(log: Path, tmp_path: Path) -> None:
    """Except `partition.metadata`, which only the directories' checks know, and indexes."""
    for path in sorted(log.iterdir()):
        if path.suffix in {".index", ".timeindex"} or path.name == "partition.metadata":
            continue
        copy = tmp_path / "copy" / "orders-0"
        shutil.copytree(log, copy)
        (copy / path.name).unlink()
        findings, _ = audit_directory(
            copy, is_clean=True, now_ms=START, knows_settings=True, never_cleaned=True
        )
        assert findings, path.name
        shutil.rmtree(copy)


def test_a_file_that_cannot_be_read_is_raised_after_everything_else(log: Path) -> None:
    ((_, partition),) = scan([log]).partitions()
    named(log, 339, ".snapshot").unlink()  # after the directory was listed
    named(log, 158, ".txnindex").write_bytes(b"")
    audited = AuditedPartition(
        partition=partition, log_dir=str(log.parent), config=LogConfig(), now_ms=START
    )
    found: list[Finding | PartitionFacts] = []
    with pytest.raises(FileNotFoundError):
        found.extend(check_partition(audited, DiskFiles(log), ()))
    assert [each.id for each in found[:-1] if isinstance(each, Finding)] == ["TXN005", "TXN005"]
    assert isinstance(found[-1], PartitionFacts)


# ------------------------------------------------------------------ any bytes


@pytest.mark.parametrize("seed", range(40))
def test_any_bytes_give_findings_and_facts(built: BuiltLog, tmp_path: Path, seed: int) -> None:
    log = Path(shutil.copytree(built.path, tmp_path / "orders-0"))
    rng = random.Random(seed)
    for path in rng.sample(sorted(log.iterdir()), 8):
        data = bytearray(path.read_bytes()[:4096])
        for _ in range(rng.choice((1, 3, 30)) if data else 0):
            data[rng.randrange(len(data))] = rng.choice((0, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        path.write_bytes(data[: rng.choice((len(data), rng.randrange(len(data) + 1)))])
    for is_clean in (True, False):
        try:
            _, facts = audit_directory(log, is_clean=is_clean, now_ms=START)
        except FormatError:
            raise AssertionError(f"seed {seed}") from None
        assert facts.path == str(log)
