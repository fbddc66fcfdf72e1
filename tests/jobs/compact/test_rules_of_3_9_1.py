"""`compact --kafka-version 3.9.1`: the files that 3.9.1's own Cleaner leaves, in every mode."""

import shutil

import pytest
from pyarrow import parquet

from jobs.options import CLEAN, FINDINGS
from kafka_format.log_file import LogFile
from tests.jobs.compact.compacting import (
    COMPACT,
    NOW,
    batch_positions,
    damage,
    of_kind,
    one,
    rows,
    run,
    values,
    write_log,
)
from tests.jobs.compact.sources import Left, Source
from tests.jobs.trees import contents, tree
from tests.pipelines.compaction.test_parallel_compaction import untimed

VERSION = ("--kafka-version", "3.9.1")
MANY_TASKS = ("--parallel-above", 0, "--task-memory", 20_000)
MAGIC_0, MAGIC_1 = 6, 27
SOURCES = [3, 5, 53, MAGIC_0, 24, MAGIC_1]  # seeds: of magic 2, 2, 2, 0, 1, 1
PACKS = [
    ("clean-3.9.1", "compacted-0"),
    ("clean-3.9.1", "transactions-0"),
    ("legacy-2.8.2", "magic-1.compacted-0"),
    ("legacy-0.10.2.2", "magic-0.compacted-0"),
    ("cleaner-4.3.1", "compacted.tombstones-0"),
]
MOST = 8


@pytest.fixture
def made(oracle, oracle_3_9, tmp_path):
    """A log of a seed or a golden pack."""
    return lambda which: Source(oracle, tmp_path, which, cleaned_by=oracle_3_9, words=VERSION)


def log_bytes(partition):
    return {path.name: path.read_bytes() for path in partition.glob("*.log")}


def magics(partition):
    return {batch.magic for data in log_bytes(partition).values() for batch in batches(data)}


def batches(data):
    return LogFile(data).batches()


# ------------------------------------------------------------------------------------- files


@pytest.mark.parametrize("which", [*SOURCES, *PACKS], ids=str)
def test_a_dry_run_a_copy_many_tasks_and_in_place_leave_what_3_9_1_leaves(made, capsys, which):
    source = made(which)
    theirs, passes = source.by_kafka(3)
    before = tree(source.log_dir)
    dry = source.by_ours(capsys, 3)
    for row, each in zip(of_kind(dry, "round"), passes, strict=True):
        assert {name: row[name] for name in each["stats"]} == each["stats"]
        assert row["is_due"] == each["is_eligible"]
    out = [source.folder / name for name in ("one", "many")]
    by_one = source.by_ours(capsys, 3, "--output", out[0], "--engine", "local")
    by_many = source.by_ours(capsys, 3, "--output", out[1], "--engine", "local", *MANY_TASKS)
    assert tree(source.log_dir) == before
    assert contents(out[1]) == contents(out[0])
    in_place = source.by_ours(capsys, 3, "--in-place")
    for each in (*(where / source.partition.name for where in out), source.partition):
        theirs.ensure_in(each)
    assert untimed(by_one) == untimed(by_many) == untimed(in_place) == untimed(dry)
    assert one(dry)["kafka_version"] == "3.9.1"
    assert one(dry)["new_cleaner_checkpoint"] == passes[-1]["next_dirty_offset"]


@pytest.mark.parametrize(("which", "magic"), [(MAGIC_0, 0), (MAGIC_1, 1)])
def test_old_magics_stay_by_its_rules_and_become_magic_2_by_those_of_4_3(
    made, capsys, which, magic
):
    source = made(which)
    source.by_ours(capsys, 1, "--output", source.folder / "older")
    source.by_ours(capsys, 1, "--output", source.folder / "newer", "--kafka-version", "4.3.1")
    left = [magics(source.folder / name / source.partition.name) for name in ("older", "newer")]
    assert left == [{magic}, {magic, 2}]  # the active segment is not cleaned


@pytest.mark.parametrize("which", [5, MAGIC_1])
def test_spark_leaves_the_same_by_one_task_and_by_many(made, capsys, spark, which):
    del spark  # the session that the verb finds
    source = made(which)
    theirs, _ = source.by_kafka(1)
    for name, more in (("one", ()), ("many", MANY_TASKS)):
        out = source.folder / name
        source.by_ours(capsys, 1, "--engine", "spark", "--output", out, *more)
        theirs.ensure_in(out / source.partition.name)


@pytest.mark.parametrize("which", [3, MAGIC_0, ("clean-3.9.1", "transactions-0")], ids=str)
def test_passes_end_when_one_of_3_9_1_would_change_nothing_more(made, capsys, which):
    source = made(which)
    by_kafka = [source.by_kafka(passes)[0] for passes in range(MOST)]
    expected = next(
        number for number in range(1, MOST) if by_kafka[number].files == by_kafka[number - 1].files
    )
    reported = source.by_ours(capsys, "until-unchanged", "--in-place")
    by_kafka[-1].ensure_in(source.partition)
    assert (one(reported)["rounds"], one(reported)["is_settled"]) == (expected, True)


def test_retention_behind_a_round_takes_what_it_takes_in_3_9_1(made, capsys):
    source = made(3)
    source.settings |= {"cleanup.policy": "compact,delete", "retention.ms": 60_000}
    source.settings["min.cleanable.dirty.ratio"] = 1
    theirs, _ = source.by_kafka(1, retains=True)
    reported = one(source.by_ours(capsys, 1, "--in-place"))
    theirs.ensure_in(source.partition)
    assert reported["deleted_segments"] > 0


@pytest.mark.parametrize("which", [5, MAGIC_1, ("unclean-3.9.1", "rolled-0")], ids=str)
def test_after_an_unclean_stop_it_is_recovered_as_3_9_1_recovers_it(made, capsys, which):
    source = made(which)
    source.was_clean = False
    for name in (".kafka_cleanshutdown", "recovery-point-offset-checkpoint"):
        (source.log_dir / name).unlink()
    for path in sorted(source.partition.glob("*index"))[::2]:
        path.unlink()
    theirs, _ = source.by_kafka(1)
    source.by_ours(capsys, 1, "--in-place")
    theirs.ensure_in(source.partition)


def test_of_a_round_without_survivors_nothing_stays(capsys, tmp_path):
    """4.3 keeps the last batch, empty, so that the end of the cleaned part is not forgotten."""
    log_dir = write_log(tmp_path / "data", 5, keys=[None] * 5)
    left = {}
    for version in ("3.9.1", "4.3"):
        out = tmp_path / version
        rows(capsys, log_dir, COMPACT, "--now", NOW, "--output", out, "--kafka-version", version)
        cleaned = (out / "orders-0" / f"{0:020d}.log").read_bytes()
        left[version] = [each.header.last_offset for each in batches(cleaned)]
        assert values(out / "orders-0") == [(4, b"value-4")]  # of the active segment
    assert left == {"3.9.1": [], "4.3": [3]}


# ------------------------------------------------------------------------------- what is reported


@pytest.mark.parametrize("which", [3, MAGIC_0, MAGIC_1])
def test_what_is_explained_to_stay_is_what_3_9_1_leaves(made, capsys, which):
    source = made(which)
    source.by_kafka(1)
    reported = one(source.by_ours(capsys, 1, "--explain", source.folder / "reported"), "explained")
    assert reported["kafka_version"] == "3.9.1"
    found = parquet.read_table(source.folder / "reported").to_pylist()
    kept = [row for row in found if row["verdict"] == "kept"]
    left = [
        batch
        for data in log_bytes(source.folder / "kafka-1" / source.partition.name).values()
        for batch in batches(data)
    ]
    offsets = sorted(row["offset"] for row in kept if row["offset"] is not None)
    assert offsets == sorted(record.offset for batch in left for record in batch.records())
    empty = sorted(row["base_offset"] for row in kept if row["offset"] is None)
    assert empty == sorted(each.header.base_offset for each in left if not each.records())
    if which != 3:
        assert reported["rules"]["tombstone_of_young_segment"] > 0
        assert all(row["delete_horizon_ms"] is None for row in found)


def test_the_life_of_a_key_and_other_settings_are_told_by_its_rules(made, capsys):
    source = made(MAGIC_0)
    source.by_kafka(1)
    source.by_ours(capsys, 1, "--explain", source.folder / "reported")
    found = parquet.read_table(source.folder / "reported").to_pylist()
    tombstone = next(row for row in found if row["rule"] == "tombstone_of_young_segment")
    life = source.by_ours(capsys, 1, "--explain-key", f"0x{tombstone['key'].hex()}")
    (reported,) = (row for row in life if row["offset"] == tombstone["offset"])
    assert (reported["rule"], reported["kafka_version"]) == ("tombstone_of_young_segment", "3.9.1")
    scenarios = source.by_ours(capsys, 1, "--what-if", "delete.retention.ms=60000")
    left = log_bytes(source.folder / "kafka-1" / source.partition.name)
    for row in of_kind(scenarios, "what_if"):
        assert row["kafka_version"] == "3.9.1"
        assert row["bytes_after"] == sum(map(len, left.values()))
        assert row["oldest_tombstone_may_go_ms"] is None
        assert row["oldest_tombstone_reason"] == "tombstone_of_young_segment"


def test_only_what_is_due_in_3_9_1_is_cleaned(made, capsys):
    source = made(MAGIC_1)
    source.settings["min.cleanable.dirty.ratio"] = 1
    for passes, lag_ms in ((1, 2**63 - 1), (2, 1)):
        source.settings["max.compaction.lag.ms"] = lag_ms
        _, chosen = source.by_kafka(passes)
        assert chosen[0]["is_eligible"] == (lag_ms == 1)
        assert one(source.by_ours(capsys, 1, "--when-due"))["rounds"] == (lag_ms == 1)


def test_of_a_damaged_log_the_rest_is_what_3_9_1_leaves_of_it(made, capsys):
    source = made(MAGIC_1)
    first = min(source.partition.glob("*.log"))
    position, end = batch_positions(first)[1:3]
    whole = first.read_bytes()
    without = shutil.copytree(source.partition, source.folder / "without" / "orders-0")
    (without / first.name).write_bytes(whole[:position] + whole[end:])
    shutil.copystat(first, without / first.name)
    for kind in (".index", ".timeindex"):
        (without / first.with_suffix(kind).name).unlink()
    damage(first, end - 1)
    out = source.folder / "out"
    reported = source.by_ours(capsys, 1, "--skip-damaged", "--output", out, expect=FINDINGS)
    assert len(of_kind(reported, "finding")) == 1
    source.partition = without
    theirs, _ = source.by_kafka(1)
    assert Left(out / "orders-0").files == theirs.files


def test_who_reads_along_is_told_of_the_rules_unless_they_are_the_newest(capsys, log_dir):
    for more, reported in (
        (VERSION, "1 partition, 1 round, by the rules of Kafka 3.9.1\n"),
        ((*VERSION, "--high-watermark", 0), "in 1 partition, by the rules of Kafka 3.9.1\n"),
        ((*VERSION, "--explain-key", "key-1"), "by the rules of Kafka 3.9.1\n"),
        ((*VERSION, "--what-if", "delete.retention.ms=0"), "by the rules of Kafka 3.9.1\n"),
        ((), "1 partition, 1 round\n"),
        ((*VERSION, "--quiet"), ""),
    ):
        status, _, said = run(capsys, log_dir, COMPACT, "--now", NOW, *more)
        assert status == CLEAN
        assert reported in said if reported else not said, said
