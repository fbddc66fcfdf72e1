"""`compact`: what it writes is what Kafka's own cleaner leaves."""

import random
import re

import pytest

from jobs.options import CLEAN, COULD_NOT_RUN, USAGE
from tests.jobs.compact.compacting import (
    BEGIN,
    CHECKPOINTS,
    COMPACT,
    NOW,
    of_kind,
    one,
    rows,
    run,
    values,
    write_log,
)
from tests.jobs.trees import contents, tree
from tests.kafka_log.cleaner.cleaning import draw_plan
from tests.kafka_log.cleaner.test_offset_map_collisions import PAIRS
from tests.kafka_log.driver import files_of

# ------------------------------------------------------------------------------- against Kafka

SIZES = {"segment.index.bytes": 65536, "index.interval.bytes": 4096}


@pytest.mark.parametrize("retention_ms", [0, 86_400_000])
def test_a_copy_is_what_kafkas_cleaner_leaves(oracle, capsys, data, tmp_path, retention_ms):
    names = ["tiny.segments-0", "tiny-indexed-0", "transactions-0"]
    settings = SIZES | {"cleanup.policy": "compact", "delete.retention.ms": retention_ms}
    ours = [f"--set={name}={value}" for name, value in settings.items()]
    out = tmp_path / "out"
    arguments = [data, *ours, "--set=internal.segment.bytes=3000", "--now", NOW, "--output", out]
    reported = {row["path"]: row for row in of_kind(rows(capsys, *arguments), "round")}
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
        row = reported[str(data / name)]
        assert row["next_dirty_offset"] == cleaned["next_dirty_offset"]
        assert row["cleanable_ratio"] == cleaned["cleanable_ratio"]
        assert row["is_due"] == cleaned["is_eligible"]
        for each, value in cleaned["stats"].items():
            assert row[each] == value, each
        theirs = {
            each: reported
            for each, reported in files_of(kafka).items()
            if not each.endswith(".deleted")
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
        name: reported
        for name, reported in files_of(run_of_kafka["path"]).items()
        if not name.endswith(".deleted")
    }
    ours = files_of(out / "orders-0")
    if "snappy" in plan.codecs:
        assert set(ours) == set(theirs)
    else:
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
        reported = answer["logs"][row["path"].rpartition("/")[2]]
        assert reported["log_end_offset"] == row["log_end_offset"]
        assert reported["log_start_offset"] == row["new_log_start_offset"]
    for path, content in logs.items():
        if "__cluster_metadata" not in str(path):
            assert (out / path).read_bytes() == content  # nothing had to be repaired


# -------------------------------------------------------------------------------- what is reported


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
    assert re.search("yes: dirty ratio 1.00, above 0.5  +active segment$", line)
    reported = dict(line.split("  ", 1) for line in err.splitlines()[1:])
    assert set(reported) == {
        "log processed", "indexed", "buffer", "cleaned", "start size", "end size", "reduction",
        "removed",
    }  # fmt: skip
    assert reported["start size"].strip() == "800 B (10 messages)"
    assert reported["end size"].strip() == "240 B (3 messages)"
    assert reported["reduction"].strip() == "70.0 % of the size, 70.0 % of the messages"


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
    assert "--set cleanup.policy=compact cleans all topics" in err


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
    assert run(capsys, *options, "--when-due")[2] == "nothing is due in 1 partition\n"
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
    assert row["note"] == "no high watermark is known: the log end is used"


@pytest.mark.parametrize("checkpoint", [11, 99])
def test_a_checkpoint_behind_the_end_of_the_log_counts_as_the_log_start(
    capsys, log_dir, checkpoint
):
    (log_dir / "cleaner-offset-checkpoint").write_text(f"0\n1\norders 0 {checkpoint}\n")
    code, out, err = run(capsys, log_dir, COMPACT, "--now", NOW)
    assert code == CLEAN
    assert out.splitlines()[1].split()[:3] == ["orders-0", "0", "10"]
    assert f"{checkpoint} is outside the log: cleaned from the log start, 0, as in Kafka" in err


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
    assert "the offset map was full: still dirty from offset 2 (use --passes until-clean or" in err


@pytest.mark.parametrize("reported", [[], ["--explain-key", "key-0"]])
def test_a_dry_run_may_end_in_the_middle_of_a_segment(capsys, log_dir, reported):
    found = rows(capsys, log_dir, COMPACT, "--now", NOW, "--dedupe-buffer-size", 50, *reported)
    assert [row["next_dirty_offset"] for row in of_kind(found, "round")] == (
        [] if reported else [1]
    )
    rules = [row["rule"] for row in of_kind(found, "record")]
    assert rules == (["latest", "not_reached", "not_reached", "not_reached"] if reported else [])


@pytest.mark.parametrize(
    "option",
    [
        "--dedupe-buffer-size=10",
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


def test_several_cores_lead_to_the_same_bytes(capsys, tmp_path):
    log_dir = write_log(tmp_path / "data", 40, roll_each=39, value_size=500_000)
    copies = []
    for cores in (1, 3):
        copies.append(tmp_path / f"copy-{cores}")
        reported = rows(capsys, log_dir, COMPACT, f"--cores={cores}", f"--output={copies[-1]}")
        assert one(reported, "round")["removed_superseded"] == 36
    assert contents(copies[0]) == contents(copies[1])


def test_keys_crafted_to_have_one_md5_lose_a_record_only_where_they_are_known_by_it(
    capsys, tmp_path
):
    """As in Kafka: see tests/kafka_log/cleaner/test_offset_map_collisions.py."""
    for number, pair in enumerate(PAIRS.values()):
        log_dir = write_log(tmp_path / f"data-{number}", 2, keys=pair)
        for option, kept in ((None, [0, 1]), ("--exact-keys", [0, 1]), ("--md5-keys", [1])):
            out = tmp_path / f"out-{number}-{option}"
            rows(capsys, log_dir, COMPACT, "--now", NOW, *filter(None, [option]), "--output", out)
            assert [offset for offset, _ in values(out / "orders-0")] == kept


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


@pytest.mark.parametrize("words", [(), ("--output", "OUT"), ("--in-place",)])
def test_the_table_shows_what_retention_leaves(capsys, log_dir, tmp_path, words):
    """Of 10 records 3 stay by compaction; all of them are older than retention.ms."""
    out = tmp_path / "out"
    words = [str(out) if word == "OUT" else word for word in words]
    policy = ["--set=cleanup.policy=compact,delete", "--set=retention.ms=1000", "--now", NOW]
    code, table, err = run(capsys, log_dir, *policy, *words)
    assert code == CLEAN
    cells = re.split("  +", table.splitlines()[1])
    assert cells[4:9] == ["0 B", "100.0 %", "10", "0", "7 superseded, 3 by retention.ms"]
    assert "end size        0 B (0 messages)" in err
    assert "by retention.ms; 0 B of the log are left" in err
    if words:
        assert values((log_dir if words == ["--in-place"] else out) / "orders-0") == []
        return
    (round_,) = [row for row in rows(capsys, log_dir, *policy) if row["kind"] == "round"]
    assert (round_["messages_written"], round_["kept_messages"], round_["kept_bytes"]) == (3, 0, 0)


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
