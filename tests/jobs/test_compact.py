"""`compact`: what it writes is what Kafka's own cleaner leaves, and what it cannot do it says."""

import fcntl
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import uuid
from pathlib import Path

import pytest

from jobs import cli, compact
from jobs.options import CLEAN, COULD_NOT_RUN, FINDINGS, INTERRUPTED, USAGE
from kafka_format.batch import BatchHeader, assemble, encode_batch
from kafka_format.log_file import LogFile
from kafka_format.record import SimpleRecord
from kafka_log.clock import FixedClock, Scheduler
from kafka_log.config import LogConfig
from kafka_log.disk.files import DiskFiles
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.log import PartitionLog
from tests import golden
from tests.jobs.test_retain import contents, tree
from tests.kafka_log.cleaner.cleaning import draw_plan
from tests.kafka_log.disk.test_output import small_disk
from tests.kafka_log.driver import files_of

NOW = 1_794_820_000_000
BEGIN = 1_700_000_000_000
COMPACT = "--set=cleanup.policy=compact"
CHECKPOINTS = {
    "cleaner-offset-checkpoint",
    "log-start-offset-checkpoint",
    "recovery-point-offset-checkpoint",
    "replication-offset-checkpoint",
}


def run(capsys, *arguments):
    code = compact.main([str(each) for each in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def rows(capsys, *arguments, code=CLEAN):
    found, out, err = run(capsys, *arguments, "--format", "json")
    assert found == code, err
    return [json.loads(line) for line in out.splitlines()]


def of_kind(found, kind):
    return [row for row in found if row["kind"] == kind]


def one(found, kind="partition"):
    (row,) = of_kind(found, kind)
    return row


@pytest.fixture
def data(tmp_path):
    """A log dir of one's own, cleanly stopped."""
    (log_dir,) = golden.log_dirs(golden.shared("clean-3.9.1"))
    return Path(shutil.copytree(log_dir, tmp_path / "data"))


def write_log(directory, batches, *, roll_each=2, keys=None):
    """A log dir with one partition `orders-0`: batches of one record, a second apart."""
    partition = directory / "orders-0"
    partition.mkdir(parents=True)
    clock = FixedClock(BEGIN)
    config = LogConfig(segment_index_bytes=4096)
    log = PartitionLog.open(
        DiskFiles(partition), config, clock, Scheduler(clock), topic_id=uuid.UUID(int=7)
    )
    for number in range(batches):
        clock.now_ms = BEGIN + number * 1000
        key = f"key-{number % 3}".encode() if keys is None else keys[number]
        record = SimpleRecord(clock.now_ms, key, f"value-{number}".encode())
        log.append_as_leader(encode_batch([record]), 0)
        if number % roll_each == roll_each - 1:
            log.roll()
    log.flush()
    log.close()
    for path in partition.glob("*.log"):
        written_s = BEGIN // 1000 + min(int(path.stem) + roll_each, batches) - 1
        os.utime(path, (written_s, written_s))
    (directory / ".kafka_cleanshutdown").write_bytes(b"")
    (directory / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=x\n")
    for name in ("recovery-point", "replication"):
        (directory / f"{name}-offset-checkpoint").write_text(f"0\n1\norders 0 {batches}\n")
    return directory


@pytest.fixture
def log_dir(tmp_path):
    return write_log(tmp_path / "data", 10)


def values(directory):
    """Offsets and values of all records, in order."""
    return [
        (record.offset, None if record.value is None else bytes(record.value))
        for path in sorted(directory.glob("*.log"))
        for batch in LogFile(path.read_bytes()).batches()
        for record in batch.records()
    ]


def damage(path, position):
    """A bit of a value, where nothing but the checksum can know."""
    content = bytearray(path.read_bytes())
    content[position] ^= 1
    path.write_bytes(content)


def batch_positions(path):
    return [batch.position for batch in LogFile(path.read_bytes()).batches()]


# ------------------------------------------------------------------------------- against Kafka

SIZES = {"segment.index.bytes": 65536, "index.interval.bytes": 4096}


@pytest.mark.parametrize("retention_ms", [0, 86_400_000])
def test_a_copy_is_what_kafkas_cleaner_leaves(oracle, capsys, data, tmp_path, retention_ms):
    names = ["tiny.segments-0", "tiny-indexed-0", "transactions-0"]
    settings = SIZES | {"cleanup.policy": "compact", "delete.retention.ms": retention_ms}
    ours = [f"--set={name}={value}" for name, value in settings.items()]
    out = tmp_path / "out"
    arguments = [data, *ours, "--set=internal.segment.bytes=3000", "--now", NOW, "--output", out]
    told = {row["path"]: row for row in of_kind(rows(capsys, *arguments), "round")}
    for name in names:
        start = 5 if name == "tiny.segments-0" else 0
        kafka = tmp_path / "kafka" / name
        kafka.parent.mkdir(exist_ok=True)
        (answer,) = oracle.call(
            "clean_logs",
            runs=[
                {
                    "path": kafka,
                    "copy_from": data / name,
                    "config": settings | {"segment.bytes": 3000},
                    "time": NOW,
                    "clean_shutdown": True,
                    "recovery_point": 10_000,
                    "log_start_offset": start,
                    "close": "clean",
                    "passes": [{"time": NOW, "dedupe_buffer_size": 1 << 27}],
                }
            ],
            timeout=60,
        )
        (cleaned,) = answer["passes"]
        row = told[str(data / name)]
        assert row["next_dirty_offset"] == cleaned["next_dirty_offset"]
        assert row["cleanable_ratio"] == cleaned["cleanable_ratio"]
        assert row["is_due"] == cleaned["is_eligible"]
        for each, value in cleaned["stats"].items():
            assert row[each] == value, each
        theirs = {
            each: told for each, told in files_of(kafka).items() if not each.endswith(".deleted")
        }
        assert files_of(out / name) == theirs, name


@pytest.mark.parametrize("seed", range(12))
def test_what_a_seed_wrote_is_compacted_as_by_kafka(oracle, capsys, tmp_path, seed):
    """Through all layers of the verb: settings, checkpoint, map that fills, several passes."""
    rng = random.Random(seed)
    plan = draw_plan(seed)
    partition = tmp_path / "data" / "orders-0"
    built = oracle.build_log(partition, plan)
    end = built.state["log_end_offset"]
    now = BEGIN + plan.batches * 1000
    settings = plan.settings() | {"cleanup.policy": "compact", "delete.retention.ms": 100}
    settings |= {"min.cleanable.dirty.ratio": 0, "segment.ms": 2**63 - 1}
    passes = rng.choice((1, 2))
    memory, checkpoint = rng.choice((1200, 1 << 20)), rng.choice((None, end // 3))
    keys = rng.choice(((), ("--exact-keys",)))
    run_of_kafka = {
        "path": tmp_path / "kafka" / "orders-0",
        "copy_from": partition,
        "config": settings,
        "time": now,
        "clean_shutdown": True,
        "recovery_point": end,
        "close": "clean",
        "passes": [
            {"time": now, "dedupe_buffer_size": memory, "only_if_eligible": True}
        ] * passes,
    } | ({} if checkpoint is None else {"checkpoint": checkpoint})  # fmt: skip
    (tmp_path / "kafka").mkdir()
    (answer,) = oracle.call("clean_logs", runs=[run_of_kafka], timeout=60)
    (partition.parent / ".kafka_cleanshutdown").write_bytes(b"")
    (partition.parent / "recovery-point-offset-checkpoint").write_text(f"0\n1\norders 0 {end}\n")
    if checkpoint is not None:
        text = f"0\n1\norders 0 {checkpoint}\n"
        (partition.parent / "cleaner-offset-checkpoint").write_text(text)
    settings["internal.segment.bytes"] = settings.pop("segment.bytes")
    out = tmp_path / "out"
    found, _, err = run(
        capsys, partition.parent, *(f"--set={name}={value}" for name, value in settings.items()),
        "--now", now, "--passes", passes, "--dedupe-buffer-size", memory, "--when-due", *keys,
        "--output", out, "--format", "json",
    )  # fmt: skip
    done = [each for each in answer["passes"] if "next_dirty_offset" in each]
    if any("error" in each for each in answer["passes"]):
        assert found == COULD_NOT_RUN
        return
    assert found == CLEAN, err
    theirs = {
        name: told
        for name, told in files_of(run_of_kafka["path"]).items()
        if not name.endswith(".deleted")
    }
    ours = files_of(out / "orders-0")
    if "snappy" in plan.codecs:
        ours, theirs = set(ours), set(theirs)
    assert ours == theirs
    if done:
        text = (out / "cleaner-offset-checkpoint").read_text()
        assert text == f"0\n1\norders 0 {done[-1]['next_dirty_offset']}\n"


def test_a_log_manager_starts_on_a_copy(oracle, capsys, data, tmp_path):
    out = tmp_path / "out"
    found = rows(capsys, data, COMPACT, "--first-dirty", 0, "--now", NOW, "--output", out)
    logs = {path.relative_to(out): path.read_bytes() for path in out.rglob("*.log")}
    answer = oracle.call("start_log_manager", paths=[out], config={}, time=NOW, timeout=120)
    assert "error" not in answer
    assert not answer["offline"]
    cleaned = [row for row in of_kind(found, "partition") if row["is_compacted"]]
    assert len(cleaned) >= 4
    for row in cleaned:
        told = answer["logs"][row["path"].rpartition("/")[2]]
        assert told["log_end_offset"] == row["log_end_offset"]
        assert told["log_start_offset"] == row["new_log_start_offset"]
    for path, content in logs.items():
        if "__cluster_metadata" not in str(path):
            assert (out / path).read_bytes() == content  # nothing had to be repaired


# ---------------------------------------------------------------------------------- what is told


def test_nothing_is_written_unless_asked_for(capsys, log_dir):
    before = tree(log_dir)
    run(capsys, log_dir, COMPACT, "--now", NOW)
    run(capsys, log_dir, COMPACT, "--dry-run", "--passes", "until-clean", "--exact-keys")
    assert tree(log_dir) == before


def test_a_dry_run_tells_what_a_copy_has(capsys, log_dir, tmp_path):
    options = [log_dir, COMPACT, "--now", NOW]
    dry = one(rows(capsys, *options))
    for passes in (1, 2, "until-clean"):
        out = tmp_path / f"out-{passes}"
        wet = one(rows(capsys, *options, "--passes", passes, "--output", out))
        assert wet == dry
    sizes = [path.stat().st_size for path in (out / "orders-0").glob("*.log")]
    assert (sum(sizes), len(sizes)) == (dry["bytes_after"], dry["segments_after"])


def test_of_each_key_the_last_value_is_told_kept_and_the_others_removed(capsys, log_dir, tmp_path):
    """Ten records of three keys, all in segments behind which the log goes on."""
    found = rows(capsys, log_dir, COMPACT, "--now", NOW, "--output", tmp_path / "out")
    row = one(found, "round")
    assert values(tmp_path / "out" / "orders-0") == [
        (7, b"value-7"), (8, b"value-8"), (9, b"value-9"),
    ]  # fmt: skip
    assert (row["messages_read"], row["messages_written"]) == (10, 3)
    assert row["removed_superseded"] == 7
    assert (row["first_dirty_offset"], row["next_dirty_offset"]) == (0, 10)
    assert (row["is_due"], row["due_reason"]) == (True, "dirty ratio 1.00, above 0.5")


def test_a_table_and_the_cleaners_own_figures(capsys, log_dir):
    code, out, err = run(capsys, log_dir, COMPACT, "--now", NOW)
    assert code == CLEAN
    header, line = out.splitlines()
    assert header.split()[:3] == ["PARTITION", "DIRTY", "FROM"]
    assert line.split()[:3] == ["orders-0", "0", "10"]
    assert "7 superseded" in line
    assert "yes: dirty ratio 1.00, above 0.5, held by active segment" in line
    told = dict(line.split("  ", 1) for line in err.splitlines()[1:])
    assert set(told) == {
        "log processed", "indexed", "buffer", "start size", "end size", "reduction", "removed"
    }  # fmt: skip
    assert told["start size"].strip() == "800 B (10 messages)"
    assert told["end size"].strip() == "240 B (3 messages)"
    assert told["reduction"].strip() == "70.0 % of the size, 70.0 % of the messages"


def test_json_has_the_same_fields_whatever_happens(capsys, log_dir):
    found = rows(capsys, log_dir, COMPACT, "--now", NOW)
    due = rows(capsys, log_dir, COMPACT, "--now", NOW, "--first-dirty", 10)
    assert one(found).keys() == one(due).keys()
    assert of_kind(due, "round") == []


# -------------------------------------------------------------------------- whether it is cleaned


def test_a_topic_that_is_not_compacted_is_left_alone_and_told_how_to_force(capsys, log_dir):
    code, out, err = run(capsys, log_dir, "--now", NOW)
    assert code == CLEAN
    assert "cleanup.policy is delete: not compacted (--set cleanup.policy=compact)" in out
    assert "--set cleanup.policy=compact cleans all of them" in err


def test_a_copy_has_the_other_topics_as_they_are(capsys, data, tmp_path):
    rows(capsys, data, "--now", NOW, "--output", tmp_path / "out")
    for name in ("codecs-0", "tiny.segments-0", "__cluster_metadata-0"):
        assert contents(tmp_path / "out" / name) == contents(data / name)
    (marked,) = [each for each in data.iterdir() if each.name.endswith("-delete")]
    assert not (tmp_path / "out" / marked.name).exists()


def test_when_due_restricts_to_what_a_broker_would_clean(capsys, log_dir):
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 6\n")
    options = [log_dir, COMPACT, "--now", NOW]
    row = one(rows(capsys, *options, "--when-due"))
    assert (row["is_compacted"], row["due_reason"]) == (False, "dirty ratio 0.40, not above 0.5")
    row = one(rows(capsys, *options, "--when-due", "--set=min.cleanable.dirty.ratio=0.3"))
    assert (row["is_compacted"], row["is_due"]) == (True, True)
    row = one(rows(capsys, *options))
    assert (row["is_compacted"], row["is_due"]) == (True, False)


def test_a_log_that_is_dirty_for_too_long_is_due(capsys, log_dir):
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 6\n")
    options = [log_dir, COMPACT, "--set=max.compaction.lag.ms=5000", "--when-due", "--now"]
    first_dirty_ms = BEGIN + 6000
    assert not one(rows(capsys, *options, first_dirty_ms + 5000))["is_due"]
    row = one(rows(capsys, *options, first_dirty_ms + 5001))
    assert row["is_compacted"]
    assert row["due_reason"] == "dirty ratio 0.40, but dirty 1 ms longer than max.compaction.lag.ms"


def test_what_is_too_young_is_not_cleaned(capsys, log_dir):
    row = one(
        rows(capsys, log_dir, COMPACT, "--set=min.compaction.lag.ms=4000", "--now", BEGIN + 9500)
    )  # the segments of 6, 7 and 8, 9 are young
    assert (row["held_by"], row["first_uncleanable_offset"]) == ("min.compaction.lag.ms", 6)


def test_what_is_not_replicated_is_not_cleaned(capsys, log_dir):
    (log_dir / "replication-offset-checkpoint").write_text("0\n1\norders 0 5\n")
    row = one(rows(capsys, log_dir, COMPACT, "--now", NOW))
    assert (row["high_watermark"], row["held_by"]) == (5, "high watermark")
    assert row["first_uncleanable_offset"] == 4
    row = one(rows(capsys, log_dir, COMPACT, "--now", NOW, "--high-watermark", "end"))
    assert (row["high_watermark"], row["new_cleaner_checkpoint"]) == (10, 10)


def test_without_a_high_watermark_the_end_of_the_log_is_taken_and_said_so(capsys, log_dir):
    (log_dir / "replication-offset-checkpoint").unlink()
    row = one(rows(capsys, log_dir, COMPACT, "--now", NOW))
    assert row["high_watermark"] == 10
    assert row["note"] == "no high watermark is known: taken to be the log end"


@pytest.mark.parametrize("checkpoint", [11, 99])
def test_a_checkpoint_behind_the_end_of_the_log_counts_as_the_log_start(
    capsys, log_dir, checkpoint
):
    (log_dir / "cleaner-offset-checkpoint").write_text(f"0\n1\norders 0 {checkpoint}\n")
    code, out, err = run(capsys, log_dir, COMPACT, "--now", NOW)
    assert code == CLEAN
    assert out.splitlines()[1].split()[:3] == ["orders-0", "0", "10"]
    assert f"{checkpoint} lies outside of the log: cleaned from its start, 0, as Kafka" in err


def test_an_invalid_checkpoint_is_written_anew_even_if_nothing_is_due(capsys, log_dir, tmp_path):
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 99\n")
    out = tmp_path / "out"
    rows(
        capsys, log_dir, COMPACT, "--now", NOW, "--when-due",
        "--set=min.cleanable.dirty.ratio=1", "--output", out,
    )  # fmt: skip
    assert (out / "cleaner-offset-checkpoint").read_text() == "0\n1\norders 0 0\n"


def test_first_dirty_stands_in_for_the_checkpoint(capsys, log_dir):
    row = one(rows(capsys, log_dir, COMPACT, "--now", NOW, "--first-dirty", 6))
    assert (row["first_dirty_offset"], row["new_cleaner_checkpoint"]) == (6, 10)


# -------------------------------------------------------------------------------------- rounds


def test_a_small_map_takes_several_rounds_and_the_same_records_stay(capsys, log_dir, tmp_path):
    options = [log_dir, COMPACT, "--now", NOW, "--dedupe-buffer-size", 72]  # two keys
    found = rows(capsys, *options, "--passes", "until-clean", "--output", tmp_path / "out")
    rounds = of_kind(found, "round")
    assert len(rounds) > 2
    assert [row["is_map_full"] for row in rounds] == [True] * (len(rounds) - 1) + [False]
    starts = [row["first_dirty_offset"] for row in rounds]
    assert starts[1:] == [row["next_dirty_offset"] for row in rounds[:-1]]
    assert [offset for offset, _ in values(tmp_path / "out" / "orders-0")] == [7, 8, 9]


def test_one_pass_ends_where_the_map_is_full_and_says_so(capsys, log_dir):
    code, _, err = run(capsys, log_dir, COMPACT, "--now", NOW, "--set=log.cleaner.threads=2",
                       "--set=log.cleaner.dedupe.buffer.size=144")  # fmt: skip
    assert code == CLEAN
    assert "the map was full: still dirty from 2 on (--passes until-clean)" in err


@pytest.mark.parametrize("told", [[], ["--explain-key", "key-0"]])
def test_a_dry_run_may_end_in_the_middle_of_a_segment(capsys, log_dir, told):
    found = rows(capsys, log_dir, COMPACT, "--now", NOW, "--dedupe-buffer-size", 50, *told)
    assert [row["next_dirty_offset"] for row in of_kind(found, "round")] == ([] if told else [1])
    rules = [row["rule"] for row in of_kind(found, "record")]
    assert rules == (["latest", "not_reached", "not_reached", "not_reached"] if told else [])


@pytest.mark.parametrize(
    "option",
    [
        "--dedupe-buffer-size=24",
        "--set=log.cleaner.dedupe.buffer.size=47",
        "--set=log.cleaner.io.buffer.load.factor=0",
        "--set=log.cleaner.io.buffer.load.factor=1e30",
        "--set=log.cleaner.threads=0",
        "--set=log.cleaner.io.buffer.size=1",
    ],
)
def test_a_map_without_room_is_refused_in_a_line(capsys, log_dir, option):
    code, _, err = run(capsys, log_dir, COMPACT, option)
    assert code == USAGE
    assert "expected" in err.splitlines()[0]


def test_exact_keys_and_hashed_ones_lead_to_the_same_bytes(capsys, log_dir, tmp_path):
    rows(capsys, log_dir, COMPACT, "--now", NOW, "--output", tmp_path / "hashed")
    rows(capsys, log_dir, COMPACT, "--now", NOW, "--exact-keys", "--output", tmp_path / "exact")
    assert tree(tmp_path / "hashed" / "orders-0") == tree(tmp_path / "exact" / "orders-0")
    assert contents(tmp_path / "hashed") == contents(tmp_path / "exact")


def test_records_without_a_key_go_and_are_counted(capsys, tmp_path):
    keys = [None, b"a", None, b"b"]
    log_dir = write_log(tmp_path / "data", 4, keys=keys)
    found = rows(capsys, log_dir, COMPACT, "--now", NOW, "--output", tmp_path / "out")
    row = one(found, "round")
    assert (row["removed_without_key"], row["invalid_messages_read"]) == (2, 2)
    assert [offset for offset, _ in values(tmp_path / "out" / "orders-0")] == [1, 3]


# ---------------------------------------------------------------------------- retention as well


def test_compact_and_delete_deletes_old_segments_after_cleaning(capsys, tmp_path, oracle):
    log_dir = write_log(tmp_path / "data", 10)
    settings = {"cleanup.policy": "compact,delete", "retention.ms": 4000}
    arguments = [f"--set={name}={value}" for name, value in settings.items()]
    now = BEGIN + 9500
    out = tmp_path / "out"
    found = rows(
        capsys, log_dir, *arguments, "--set=internal.segment.bytes=160", "--now", now,
        "--output", out,
    )  # fmt: skip
    kafka = tmp_path / "kafka" / "orders-0"
    kafka.parent.mkdir()
    oracle.call(
        "clean_logs",
        runs=[
            {
                "path": kafka,
                "copy_from": log_dir / "orders-0",
                "config": settings | {"segment.bytes": 160, "segment.index.bytes": 10485760},
                "time": now,
                "clean_shutdown": True,
                "recovery_point": 10,
                "close": "clean",
                "passes": [
                    {"time": now, "dedupe_buffer_size": 1 << 20},
                    {
                        "time": now,
                        "only_if_eligible": True,
                        "steps": [{"do": "delete_old_segments"}, {"do": "run_pending"}],
                    },
                ],
            }
        ],
    )
    row = one(found)
    assert row["deleted_segments"] == 3
    assert row["new_log_start_offset"] == 6
    assert files_of(out / "orders-0") == files_of(kafka)
    assert not (out / "log-start-offset-checkpoint").exists()  # a segment begins there


def test_retention_alone_goes_on_when_nothing_is_due(capsys, log_dir):
    row = one(
        rows(
            capsys, log_dir, "--set=cleanup.policy=compact,delete", "--set=retention.ms=4000",
            "--now", BEGIN + 9500, "--first-dirty", 10,
        )
    )  # fmt: skip
    assert (row["rounds"], row["deleted_segments"]) == (0, 3)


# --------------------------------------------------------------------------------- what is written


def test_a_copy_has_what_a_broker_needs_beside_its_partitions(capsys, data, tmp_path):
    out = tmp_path / "out"
    (data / ".lock").write_bytes(b"")
    rows(capsys, data, "--topic", "tiny*", COMPACT, "--now", NOW, "--output", out)
    assert (out / "meta.properties").read_bytes() == (data / "meta.properties").read_bytes()
    assert (out / ".kafka_cleanshutdown").exists()
    assert not (out / ".lock").exists()
    assert sorted(each.name for each in out.iterdir() if each.is_dir()) == [
        "tiny-indexed-0", "tiny.segments-0",
    ]  # fmt: skip
    lines = (out / "cleaner-offset-checkpoint").read_text().splitlines()
    assert sorted(lines[2:]) == ["tiny-indexed 0 76", "tiny.segments 0 78"]
    assert (out / "log-start-offset-checkpoint").read_text() == "0\n1\ntiny.segments 0 5\n"


def test_in_place_ends_as_a_copy_does_and_keeps_other_rows_of_checkpoints(capsys, data, tmp_path):
    options = [data, "--topic", "tiny*", COMPACT, "--now", NOW]
    before = {name: (data / name).read_text().splitlines() for name in CHECKPOINTS}
    run(capsys, *options, "--output", tmp_path / "out")
    code, _, err = run(capsys, *options, "--in-place")
    assert code == CLEAN, err
    for name in ("tiny.segments-0", "tiny-indexed-0"):
        assert contents(data / name) == contents(tmp_path / "out" / name)
    after = (data / "cleaner-offset-checkpoint").read_text().splitlines()
    assert after[2:] == [*before["cleaner-offset-checkpoint"][2:],
                         "tiny-indexed 0 76", "tiny.segments 0 78"]  # fmt: skip
    for name in CHECKPOINTS - {"cleaner-offset-checkpoint"}:
        assert (data / name).read_text().splitlines() == before[name]
    assert not (data / ".lock").exists()
    assert of_kind(rows(capsys, *options), "round") == []  # nothing is dirty any more


def test_modification_times_are_those_of_what_was_cleaned(capsys, log_dir, tmp_path):
    rows(capsys, log_dir, COMPACT, "--now", NOW, "--output", tmp_path / "out")
    first, active = sorted((tmp_path / "out" / "orders-0").glob("*.log"))
    assert (first.name, first.stat().st_mtime) == ("00000000000000000000.log", BEGIN // 1000 + 9)
    assert active.stat().st_mtime == BEGIN // 1000 + 9


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_every_engine_writes_the_same(capsys, data, tmp_path, engine, request):
    if engine == "spark":
        request.getfixturevalue("spark")
    options = [data, COMPACT, "--now", NOW, "--output"]
    run(capsys, *options, tmp_path / "auto")
    code, _, err = run(capsys, *options, tmp_path / "out", "--engine", engine)
    assert code == CLEAN, err
    assert contents(tmp_path / "out") == contents(tmp_path / "auto")
    for name in ("tiny.segments-0", "transactions-0"):  # with their times
        assert tree(tmp_path / "out" / name) == tree(tmp_path / "auto" / name)


# ------------------------------------------------------------------------------ unclean directories


def test_a_torn_write_at_the_end_is_cut_as_by_a_restart_and_told(capsys, log_dir, tmp_path):
    (log_dir / ".kafka_cleanshutdown").unlink()
    partition = log_dir / "orders-0"
    active = max(partition.glob("*.log"))
    torn = encode_batch([SimpleRecord(0, b"k", b"v")])[:-1]
    active.write_bytes(active.read_bytes() + torn)
    (log_dir / "recovery-point-offset-checkpoint").write_text("0\n1\norders 0 8\n")
    code, _, err = run(capsys, log_dir, COMPACT, "--now", NOW, "--output", tmp_path / "out")
    assert code == CLEAN
    assert f"{len(torn)} bytes at its end are no batch: a restart cuts them off" in err
    assert max((tmp_path / "out" / "orders-0").glob("*.log")).stat().st_size == 0


@pytest.mark.parametrize("mode", ["--dry-run", "--in-place"])
def test_a_log_that_a_restart_would_cut_in_its_middle_is_refused(capsys, log_dir, mode):
    (log_dir / ".kafka_cleanshutdown").unlink()
    (log_dir / "recovery-point-offset-checkpoint").unlink()
    second = sorted((log_dir / "orders-0").glob("*.log"))[1]
    damage(second, batch_positions(second)[0] + 70)
    before = tree(log_dir)
    code, _, err = run(capsys, log_dir, COMPACT, "--now", NOW, mode)
    assert code == COULD_NOT_RUN
    assert f"{second}@0: found damage" in err
    assert "see `recover`" in err
    assert tree(log_dir) == before


@pytest.mark.parametrize("mode", [[], ["--explain-key=key-0"], ["--in-place"]])
def test_a_segment_that_a_start_splits_is_split_on_the_view_too(capsys, log_dir, mode):
    """Offsets too far apart for one index: 9 becomes 2^32, which no checksum covers."""
    far, partition = 2**32, log_dir / "orders-0"
    log = sorted(partition.glob("*.log"))[-2]
    content = bytearray(log.read_bytes())
    position = batch_positions(log)[1]
    content[position : position + 8] = far.to_bytes(8)
    log.write_bytes(content)
    for path in sorted(partition.iterdir()):
        if path.name.startswith(f"{10:020}."):
            path.rename(partition / path.name.replace(f"{10:020}", f"{far + 1:020}"))
        elif path.suffix in (".index", ".timeindex", ".snapshot"):
            path.unlink()
    for name in ("recovery-point", "replication"):
        (log_dir / f"{name}-offset-checkpoint").write_text(f"0\n1\norders 0 {far + 1}\n")
    found = rows(capsys, log_dir, COMPACT, "--now", NOW, *mode)
    if "--in-place" in mode:
        assert [offset for offset, _ in values(partition)] == [7, 8, far]
    elif mode:
        assert [row["offset"] for row in of_kind(found, "record")] == [0, 3, 6, far]
    else:
        assert one(found)["new_cleaner_checkpoint"] == far + 1


def test_a_partition_directory_alone_is_loaded_as_after_a_crash(capsys, log_dir, tmp_path):
    partition = tmp_path / "elsewhere" / "orders-0"
    shutil.copytree(log_dir / "orders-0", partition)
    found = rows(capsys, partition, COMPACT, "--now", NOW, "--output", tmp_path / "out")
    assert one(found)["new_cleaner_checkpoint"] == 10
    assert [offset for offset, _ in values(tmp_path / "out" / "orders-0")] == [7, 8, 9]


# --------------------------------------------------------------------------------------- damage


def test_a_damaged_batch_ends_it_and_is_named(capsys, log_dir, tmp_path):
    log = sorted((log_dir / "orders-0").glob("*.log"))[1]
    position = batch_positions(log)[1]
    damage(log, position + 70)
    before = tree(log_dir)
    for where in (["--dry-run"], ["--output", tmp_path / "out"], ["--in-place"]):
        code, out, err = run(capsys, log_dir, COMPACT, "--now", NOW, *where)
        assert (code, out) == (COULD_NOT_RUN, "")
        assert err.startswith(f"{log}@{position}: found stored crc 0x")
        assert "Traceback" not in err
    assert tree(log_dir) == before
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


def test_damage_behind_what_is_cleaned_is_nobodys_business(capsys, log_dir, tmp_path):
    log = sorted((log_dir / "orders-0").glob("*.log"))[3]
    damage(log, 70)
    (log_dir / "replication-offset-checkpoint").write_text("0\n1\norders 0 6\n")
    rows(capsys, log_dir, COMPACT, "--now", NOW, "--output", tmp_path / "out")
    assert (tmp_path / "out" / "orders-0" / log.name).read_bytes() == log.read_bytes()


def test_skip_damaged_leaves_the_batch_out_and_reports_its_offsets(capsys, log_dir, tmp_path):
    """Offset 7 is the last of its key: 4 takes its place."""
    log = sorted((log_dir / "orders-0").glob("*.log"))[3]  # 6 and 7
    position = batch_positions(log)[1]
    damage(log, position + 70)
    before = tree(log_dir)
    options = [log_dir, COMPACT, "--now", NOW, "--skip-damaged", "--output", tmp_path / "out"]
    found = rows(capsys, *options, code=FINDINGS)
    finding = one(found, "finding")
    assert (finding["id"], finding["file"]) == ("LOG001", str(log))
    assert (finding["position"], finding["size_in_bytes"]) == (position, 80)
    assert (finding["first_offset"], finding["next_offset"]) == (7, None)
    assert [offset for offset, _ in values(tmp_path / "out" / "orders-0")] == [4, 8, 9]
    assert one(found)["findings"] == 1
    assert tree(log_dir) == before
    code, _, err = run(capsys, *options[:-2])
    assert code == FINDINGS
    assert f"{log}@{position}: LOG001: found stored crc" in err
    assert "left out: 80 bytes, from offset 7 up to the end of the file" in err


TOLD = (
    ["--explain={out}"],
    ["--explain-key=key-1"],
    ["--what-if=delete.retention.ms=0", "--what-if=delete.retention.ms=1"],
)


@pytest.mark.parametrize("told", TOLD)
def test_who_only_tells_stops_at_damage_too_and_says_nothing_else(capsys, log_dir, tmp_path, told):
    log = sorted((log_dir / "orders-0").glob("*.log"))[1]
    damage(log, 70)
    options = [each.format(out=tmp_path / "out") for each in told]
    code, out, err = run(capsys, log_dir, COMPACT, "--now", NOW, *options)
    assert (code, out) == (COULD_NOT_RUN, "")
    damaged, *more = err.splitlines()
    assert damaged.startswith(f"{log}@0: found stored crc 0x")
    unwritten = [f"{tmp_path / 'out'}: not written, for it would not be whole"]
    assert more == (unwritten if told == TOLD[0] else [])
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("told", TOLD)
def test_who_only_tells_leaves_damage_out_where_asked_and_reports_it_once(
    capsys, log_dir, tmp_path, told
):
    log = sorted((log_dir / "orders-0").glob("*.log"))[1]
    damage(log, 70)
    for style in ("json", "text"):
        out = tmp_path / style
        options = [each.format(out=out) for each in told]
        options += ["--skip-damaged", "--quiet", "--format", style]
        code, stdout, err = run(capsys, log_dir, COMPACT, "--now", NOW, *options)
        assert code == FINDINGS
        told_of = err if style == "text" else stdout
        assert told_of.count("LOG001") == 1
        assert (style == "text") == err.startswith(f"{log}@0: LOG001: found stored crc 0x")
        assert out.exists() == (told == TOLD[0])


def test_skip_damaged_looks_at_what_a_start_would_swap_in(capsys, log_dir, tmp_path):
    """A `.swap` takes the place of its log: damage of the one counts, of the other does not."""
    log = sorted((log_dir / "orders-0").glob("*.log"))[3]  # 6 and 7
    swap = log.with_name(f"{log.name}.swap")
    shutil.copy(log, swap)
    damage(log, 70)
    options = [log_dir, COMPACT, "--now", NOW, "--skip-damaged"]
    rows(capsys, *options, "--output", tmp_path / "sound")
    assert [offset for offset, _ in values(tmp_path / "sound" / "orders-0")] == [7, 8, 9]
    damage(log, 70)  # sound again
    damage(swap, batch_positions(swap)[1] + 70)
    found = rows(capsys, *options, "--output", tmp_path / "less", code=FINDINGS)
    assert one(found, "finding")["first_offset"] == 7
    assert [offset for offset, _ in values(tmp_path / "less" / "orders-0")] == [4, 8, 9]


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_is_torn_at_the_end_is_damage_after_a_stop_in_order(
    capsys, log_dir, tmp_path, is_clean
):
    """After a crash it is what a start cuts off by itself."""
    if not is_clean:
        (log_dir / ".kafka_cleanshutdown").unlink()
    active = max((log_dir / "orders-0").glob("*.log"))
    active.write_bytes(bytes(7) + b"torn")
    options = [log_dir, COMPACT, "--now", NOW, "--skip-damaged", "--output", tmp_path / "out"]
    found = rows(capsys, *options, code=FINDINGS if is_clean else CLEAN)
    partition = one(found)
    assert (partition["findings"], partition["cut_bytes"]) == ((1, 0) if is_clean else (0, 11))
    assert (tmp_path / "out" / "orders-0" / active.name).read_bytes() == b""


def test_bytes_that_cannot_be_a_batch_are_left_out_up_to_the_next_sound_one(capsys, tmp_path):
    log_dir = write_log(tmp_path / "data", 10, roll_each=5)
    log = min((log_dir / "orders-0").glob("*.log"))
    content = bytearray(log.read_bytes())
    first, second = batch_positions(log)[1:3]
    content[first + 8 : first + 12] = b"\x7f\xff\xff\xff"  # its length, beyond all files
    log.write_bytes(content)
    code, _, err = run(capsys, log_dir, COMPACT, "--now", NOW)
    assert code == COULD_NOT_RUN
    assert err.startswith(f"{log}@{first}: ")
    found = rows(
        capsys, log_dir, COMPACT, "--now", NOW, "--skip-damaged", "--output", tmp_path / "out",
        code=FINDINGS,
    )  # fmt: skip
    finding = one(found, "finding")
    assert (finding["position"], finding["size_in_bytes"]) == (first, second - first)
    assert (finding["first_offset"], finding["next_offset"]) == (1, 2)
    assert [offset for offset, _ in values(tmp_path / "out" / "orders-0")] == [7, 8, 9]


def test_records_that_do_not_decode_under_a_right_checksum_are_named_and_left_out(capsys, tmp_path):
    log_dir = write_log(tmp_path / "data", 4)
    log = min((log_dir / "orders-0").glob("*.log"))
    raw = bytearray(log.read_bytes())
    batch = next(iter(LogFile(bytes(raw)).batches()))
    payload = b"\x01" + bytes(batch.payload)[1:]  # a record with a negative length
    forged = assemble(BatchHeader.unpack(batch.raw), payload)
    assert len(forged) == len(batch.raw)
    raw[: len(forged)] = forged
    log.write_bytes(raw)
    before = tree(log_dir)
    code, _, err = run(capsys, log_dir, COMPACT, "--now", NOW, "--in-place")
    assert code == COULD_NOT_RUN
    assert err.startswith(f"{log}@")
    assert tree(log_dir) == before
    found = rows(
        capsys, log_dir, COMPACT, "--now", NOW, "--skip-damaged", "--output", tmp_path / "out",
        code=FINDINGS,
    )  # fmt: skip
    assert one(found, "finding")["id"] == "LOG003"


def test_skip_damaged_and_in_place_exclude_each_other(capsys, log_dir):
    code, _, err = run(capsys, log_dir, COMPACT, "--skip-damaged", "--in-place")
    assert code == USAGE
    assert "use --output" in err


# -------------------------------------------------------------------------------------- trouble


def test_in_place_is_refused_while_a_broker_lives(capsys, log_dir):
    (log_dir / ".lock").write_bytes(b"")
    before = tree(log_dir)
    hold = "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX); "
    hold += "print('held', flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(log_dir / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert holder.stdout.readline() == b"held\n"
        code, _, err = run(capsys, log_dir, COMPACT, "--in-place")
    finally:
        holder.communicate()
    assert code == COULD_NOT_RUN
    assert "expected no live broker" in err
    assert tree(log_dir) == before
    with (log_dir / ".lock").open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("place", ["out", "orders-0/out"])
def test_output_inside_the_evidence_is_refused(capsys, log_dir, place):
    before = tree(log_dir)
    code, _, err = run(capsys, log_dir / "orders-0", COMPACT, "--output", log_dir / place)
    assert code == COULD_NOT_RUN
    assert "outside the evidence" in err
    assert tree(log_dir) == before


def test_a_disk_that_is_too_small_is_left_empty(capsys, log_dir, tmp_path):
    before = tree(log_dir)
    with small_disk(tmp_path / "disk", "16k"):
        out = tmp_path / "disk" / "out"
        code, _, err = run(capsys, log_dir, COMPACT, "--now", NOW, "--output", out)
        assert code == COULD_NOT_RUN
        assert "No space left on device where the copy is written" in err
        assert list((tmp_path / "disk").iterdir()) == []
    assert tree(log_dir) == before


def test_a_dry_run_of_several_passes_tells_which_disk_is_full(
    capsys, log_dir, tmp_path, monkeypatch
):
    with small_disk(tmp_path / "disk", "8k"):
        (tmp_path / "disk" / "filler").write_bytes(bytes(8192))
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "disk"))
        code, _, err = run(capsys, log_dir, COMPACT, "--now", NOW, "--passes", 2)
        monkeypatch.undo()
        assert code == COULD_NOT_RUN
        assert f"No space left on device in {tmp_path / 'disk'}, for what a pass leaves" in err
        assert [each.name for each in (tmp_path / "disk").iterdir()] == ["filler"]


def test_a_full_disk_in_place_leaves_a_log_that_loads(capsys, tmp_path, oracle):
    source = write_log(tmp_path / "source", 60, roll_each=6)
    expected = values(source / "orders-0")
    with small_disk(tmp_path / "disk", "512k"):
        log_dir = Path(shutil.copytree(source, tmp_path / "disk" / "data"))
        free = os.statvfs(log_dir)
        filler = log_dir.parent / "filler"
        filler.write_bytes(bytes(free.f_bavail * free.f_frsize))
        code, _, err = run(
            capsys, log_dir, COMPACT, "--now", NOW, "--in-place",
            "--set=internal.segment.bytes=200",
        )  # fmt: skip
        assert code == COULD_NOT_RUN
        assert "No space left on device" in err
        filler.unlink()
        assert not list((log_dir / "orders-0").glob("*.cleaned"))
        left_over = Path(shutil.copytree(log_dir, tmp_path / "left-over"))
    answer = oracle.call("start_log_manager", paths=[left_over], config={}, time=NOW)
    assert answer["logs"]["orders-0"]["log_end_offset"] == 60
    left = values(left_over / "orders-0")
    assert set(left) <= set(expected)
    assert left[-3:] == expected[-3:]


def test_ctrl_c_leaves_nothing(capsys, log_dir, tmp_path, monkeypatch):
    def interrupt(self, directory):
        raise KeyboardInterrupt

    monkeypatch.setattr(OverlayFiles, "write_to", interrupt)
    code, _, _ = run(capsys, log_dir, COMPACT, "--output", tmp_path / "out")
    assert code == INTERRUPTED
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data"]


def test_a_partition_that_cannot_be_compacted_keeps_the_copy_from_being_written(
    capsys, data, tmp_path
):
    log = min((data / "tiny-indexed-0").glob("*.log"))
    damage(log, 80)
    code, out, err = run(
        capsys, data, "--topic", "tiny*", COMPACT, "--now", NOW, "--output", tmp_path / "out"
    )
    assert code == COULD_NOT_RUN
    assert "would not be whole" in err
    assert "tiny.segments-0" in out
    assert not (tmp_path / "out").exists()


def test_in_place_does_not_write_through_a_link(capsys, log_dir, tmp_path):
    log = min((log_dir / "orders-0").glob("*.log"))
    elsewhere = Path(shutil.move(log, tmp_path / "elsewhere"))
    log.symlink_to(elsewhere)
    before = tree(log_dir), elsewhere.read_bytes()
    code, _, err = run(capsys, log_dir, COMPACT, "--now", NOW, "--in-place")
    assert (code, (tree(log_dir), elsewhere.read_bytes())) == (COULD_NOT_RUN, before)
    assert f"{log}: found a symbolic link" in err


def test_in_place_does_not_write_in_a_partition_that_lies_elsewhere(capsys, log_dir, tmp_path):
    partition = log_dir / "orders-0"
    elsewhere = Path(shutil.move(partition, tmp_path / "elsewhere"))
    partition.symlink_to(elsewhere)
    before = tree(elsewhere)
    code, _, err = run(capsys, log_dir, COMPACT, "--now", NOW, "--in-place")
    assert (code, tree(elsewhere)) == (COULD_NOT_RUN, before)
    assert f"{partition}: found a symbolic link" in err


def test_tiered_storage_is_refused(capsys, log_dir):
    code, _, err = run(capsys, log_dir, COMPACT, "--set=remote.storage.enable=true")
    assert code == COULD_NOT_RUN
    assert "remote.storage.enable=true" in err


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "no PATH given"),
        (["{data}", "--passes", "0"], "expected 1 or more, or `until-clean`"),
        (["{data}", "--passes", "all"], "expected 1 or more, or `until-clean`"),
        (["{data}", "--first-dirty", "-1"], "expected an offset"),
        (["{data}", "--first-dirty", "7"], "an offset is of one partition"),
        (["{data}", "--high-watermark", "last"], "expected an offset"),
        (["{data}", "--dedupe-buffer-size", "1M"], "expected a number of bytes"),
        (["{data}", "--set=log.cleaner.dedup.buffer.size=1"], "did you mean log.cleaner.dedupe"),
        (["{data}", "--output", "x", "--in-place"], "not allowed with"),
        (["{data}", "--output", ""], "found nothing, expected a directory"),
        (["{data}", "--explain", ""], "found nothing, expected a directory"),
        (["{data}/meta.properties"], "found a file"),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_line(capsys, data, arguments, problem):
    code, _, err = run(capsys, *(each.format(data=data) for each in arguments))
    assert code == USAGE
    assert problem in err.splitlines()[0]


@pytest.mark.parametrize("mode", ["--output", "--in-place"])
def test_a_checkpoint_that_is_garbage_is_told_before_anything_is_written(
    capsys, log_dir, tmp_path, mode
):
    (log_dir / "cleaner-offset-checkpoint").write_bytes(b"0\n1\nno row\n")
    before = tree(log_dir)
    where = [mode, tmp_path / "out"] if mode == "--output" else [mode]
    code, _, err = run(capsys, log_dir, COMPACT, "--now", NOW, *where)
    assert code == COULD_NOT_RUN
    assert "cleaner-offset-checkpoint@4: found 'no row'" in err
    assert tree(log_dir) == before


def test_the_verb_is_known(capsys):
    assert cli.main(["compact", "--help"]) == CLEAN
    out = capsys.readouterr().out
    for option in ("--first-dirty", "--passes", "--when-due", "--skip-damaged", "--exact-keys"):
        assert option in out
