"""What `compact` tells beside its rows: the cleaner's own figures, and what one should know."""

import re

import pytest

from jobs import compact
from jobs.options import CLEAN, COULD_NOT_RUN, USAGE
from tests.jobs.compact.compacting import BEGIN, COMPACT, NOW, one, rows, run, write_log
from tests.jobs.running import broker_on
from tests.jobs.trees import tree

# ------------------------------------------------------------------------------------- figures

KAFKAS = (  # LogCleaner$CleanerThread.recordStats of 4.3.1, and our line for each
    ("%,.1f MB of log processed in %,.1f seconds (%,.1f MB/sec)", "log processed"),
    ("Indexed %,.1f MB in %.1f seconds (%,.1f Mb/sec, %.1f%% of total time)", "indexed"),
    ("Buffer utilization: %.1f%%", "buffer"),
    ("Cleaned %,.1f MB in %.1f seconds (%,.1f Mb/sec, %.1f%% of total time)", "cleaned"),
    ("Start size: %,.1f MB (%,d messages)", "start size"),
    ("End size: %,.1f MB (%,d messages)", "end size"),
    ("%.1f%% size reduction (%.1f%% fewer messages)", "reduction"),
)


PUNCTUAL = {"compaction_delay_ms": 0, "is_due": True}


def summary(rounds, *, partitions=(PUNCTUAL,), end=""):
    """Return the heading, which names the scope, and the text of each labelled line."""
    heading, *lines = compact._summary(rounds, partitions, end)
    labelled = {line[:16].strip(): line[16:] for line in lines}
    assert len(labelled) == len(lines)
    return heading, labelled


def a_round(**given):
    row = dict.fromkeys(compact._SUMMED, 0) | {"buffer_utilization": 0.0, "retention": []} | given
    kept = {"kept_bytes": row["bytes_written"], "kept_messages": row["messages_written"]}
    return kept | row | {key: given.get(key, value) for key, value in kept.items()}


def test_every_quantity_of_kafkas_own_line_is_told_as_it_counts():
    """Two MB in four seconds, of which one for the map; 12 of 40 records in batches that went."""
    heading, reported = summary(
        [
            a_round(
                bytes_read=2 * 1024 * 1024,
                map_bytes_read=1024 * 1024,
                bytes_written=1024 * 1024 // 2,
                elapsed_seconds=4.0,
                elapsed_index_seconds=1.0,
                messages_read=28,
                messages_unread=12,
                messages_written=21,
                buffer_utilization=0.125,
                removed_superseded=6,
                removed_without_key=1,
                removed_aborted=12,
                invalid_messages_read=1,
            )
        ],
        end=", by the rules of Kafka 3.9.1; written to /copy",
    )
    assert heading == "1 partition, 1 round, by the rules of Kafka 3.9.1; written to /copy"
    assert reported == {
        "log processed": "2.0 MiB in 4.0 s (0.5 MB/s)",
        "indexed": "1.0 MiB in 1.0 s (1.0 MB/s, 25.0 % of the time)",
        "buffer": "12.5 % of the offset map used",
        "cleaned": "2.0 MiB in 3.0 s (0.7 MB/s, 75.0 % of the time)",
        "start size": "2.0 MiB (28 messages; 12 more in batches that were removed unread)",
        "end size": "512 KiB (21 messages)",
        "reduction": "75.0 % of the size, 25.0 % of the messages",
        "removed": "6 superseded, 12 aborted, 1 without a key",
        "invalid": "1 message without a key",
    }
    for format_, ours in KAFKAS:
        wanted = len(re.findall(r"%[,.\d]*[df]", format_))
        assert len(re.findall(r"\d+(?:\.\d+)?", reported[ours].partition(";")[0])) == wanted, ours


def test_what_retention_deletes_is_not_in_the_end_size():
    deleted = {"rule": "retention.ms", "segments": 3, "size_in_bytes": 900, "records": 21}
    _, reported = summary(
        [
            a_round(
                bytes_read=2048,
                bytes_written=900,
                messages_read=40,
                messages_written=21,
                removed_superseded=19,
                kept_bytes=0,
                kept_messages=0,
                retention=[deleted | {"cleaned_records": 21}],
            )
        ]
    )
    assert reported["end size"] == "0 B (0 messages)"
    assert reported["reduction"] == "100.0 % of the size, 100.0 % of the messages"
    assert reported["removed"] == "19 superseded, 21 by retention.ms"


def test_the_heading_counts_partitions_and_rounds():
    heading, reported = summary(
        [a_round(bytes_read=1), a_round(bytes_read=2)], partitions=[PUNCTUAL] * 3
    )
    assert heading == "3 partitions, 2 rounds"
    assert reported["log processed"] == "3 B in 0.0 s"


def test_the_heading_says_where_the_copy_was_written(capsys, log_dir, tmp_path):
    words = [log_dir, COMPACT, "--now", NOW]
    copied = run(capsys, *words, "--output", tmp_path / "out")[2]
    assert f"1 partition, 1 round; written to {tmp_path / 'out'}\n" in copied
    assert "1 partition, 1 round\n" in run(capsys, *words)[2]


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (10_000_000, 582, "> 99.9 %"),
        (10_000_000, 0, "100.0 %"),
        (10_000_000, 9_999_999, "< 0.1 %"),
        (10_000_000, 10_000_000, "0.0 %"),
        (1000, 339, "66.1 %"),
        (1000, 1100, "-10.0 %"),
    ],
)
def test_all_and_nothing_are_only_said_of_all_and_nothing(before, after, text):
    assert compact._percent(before, after) == text


def test_partitions_that_are_dirty_for_too_long_are_told_as_kafka_tells_them(capsys, log_dir):
    words = [log_dir, COMPACT, "--set=max.compaction.lag.ms=5000", "--now", BEGIN + 7500]
    err = run(capsys, *words)[2]  # the first dirty record is of BEGIN
    assert "delayed         1 of 1 partition due, by up to 2.5 s" in err
    assert one(rows(capsys, *words))["compaction_delay_ms"] == 2500
    assert "delayed" not in run(capsys, log_dir, COMPACT, "--now", BEGIN + 7500)[2]


# --------------------------------------------------------------------- options without an effect


@pytest.mark.parametrize(
    ("words", "why"),
    [
        ((), "--dry-run (the default)"),
        (("--dry-run",), "--dry-run (the default)"),
        (("--in-place",), "--in-place"),
        (("--explain-key", "k"), "--explain-key"),
        (("--exact-keys", "--output", "OUT"), "--exact-keys"),
        (("--md5-keys", "--output", "OUT"), "--md5-keys"),
        (("--explain", "OUT"), "--explain"),
    ],
)
def test_options_of_many_tasks_that_have_no_effect_are_told(capsys, log_dir, tmp_path, words, why):
    given = [str(tmp_path / "out") if word == "OUT" else word for word in words]
    code, _, err = run(capsys, log_dir, COMPACT, *given, "--parallel-above", 0)
    assert code == CLEAN
    assert f"--parallel-above: no effect with {why}, which runs one task per partition\n" in err


def test_both_are_told_in_one_line_and_none_where_they_count(capsys, log_dir, tmp_path):
    both = ("--parallel-above", 0, "--task-memory", 20000)
    assert "--parallel-above, --task-memory: no effect" in run(capsys, log_dir, COMPACT, *both)[2]
    err = run(capsys, log_dir, COMPACT, *both, "--output", tmp_path / "out")[2]
    assert "no effect" not in err
    assert "no effect" not in run(capsys, log_dir, COMPACT)[2]


# ------------------------------------------------------------------------------ a running broker


@pytest.fixture
def live(log_dir):
    with broker_on(log_dir):
        yield log_dir


@pytest.mark.parametrize("words", [(), ("--output", "OUT"), ("--explain", "OUT")])
def test_a_running_broker_is_told_and_its_directory_read(capsys, live, tmp_path, words):
    given = [str(tmp_path / "out") if word == "OUT" else word for word in words]
    before = tree(live)
    code, _, err = run(capsys, live, COMPACT, "--now", NOW, *given)
    assert code == CLEAN
    assert (
        err.count(
            f"{live}: a broker is running on this directory;"
            " its files may change while they are read\n"
        )
        == 1
    )
    assert tree(live) == before


def test_in_place_is_refused_while_a_broker_runs(capsys, live):
    code, _, err = run(capsys, live, COMPACT, "--now", NOW, "--in-place")
    assert code == COULD_NOT_RUN
    assert "expected no live broker" in err


def test_a_lock_that_nobody_holds_is_not_told(capsys, log_dir):
    (log_dir / ".lock").touch()
    assert "broker is running" not in run(capsys, log_dir, COMPACT, "--now", NOW)[2]


# ---------------------------------------------------------------------------------- checkpoints


def test_a_high_watermark_beyond_the_log_end_is_the_log_end(capsys, log_dir, tmp_path):
    words = [log_dir, COMPACT, "--now", NOW, "--high-watermark", 99]
    note = "high watermark 99 is beyond the log end: the log end 10 is used"
    assert note in run(capsys, *words, "--output", tmp_path / "out")[2]
    text = (tmp_path / "out" / "replication-offset-checkpoint").read_text()
    assert text == "0\n1\norders 0 10\n"
    row = one(rows(capsys, *words))
    assert (row["high_watermark"], row["note"]) == (10, note)


def test_in_place_drops_checkpoint_rows_of_partitions_without_a_log(capsys, log_dir):
    """As LogCleanerManager.updateCheckpoints does; the other checkpoints are not the cleaner's."""
    rows_of_two = "0\n2\ngone 3 7\norders 0 0\n"
    for name in ("cleaner", "recovery-point"):
        (log_dir / f"{name}-offset-checkpoint").write_text(rows_of_two)
    rows(capsys, log_dir, COMPACT, "--now", NOW, "--in-place")
    assert (log_dir / "cleaner-offset-checkpoint").read_text() == "0\n1\norders 0 10\n"
    kept = (log_dir / "recovery-point-offset-checkpoint").read_text()
    assert kept == "0\n2\ngone 3 7\norders 0 10\n"


def test_rows_of_a_neighbour_stay_when_a_partition_is_given_alone(capsys, log_dir, tmp_path):
    write_log(tmp_path / "other", 4)
    (tmp_path / "other" / "orders-0").rename(log_dir / "orders-1")
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n2\norders 1 2\norders 0 0\n")
    rows(capsys, log_dir / "orders-0", COMPACT, "--now", NOW, "--in-place")
    text = (log_dir / "cleaner-offset-checkpoint").read_text()
    assert text == "0\n2\norders 1 2\norders 0 10\n"


def test_nothing_cleaned_leaves_the_checkpoint_as_it_was(capsys, log_dir):
    text = "0\n2\ngone 3 7\norders 0 10\n"
    (log_dir / "cleaner-offset-checkpoint").write_text(text)
    rows(capsys, log_dir, COMPACT, "--now", NOW, "--in-place")
    assert (log_dir / "cleaner-offset-checkpoint").read_text() == text


# ---------------------------------------------------------------------------------------- usage


def test_a_map_that_is_too_small_is_told_with_all_that_divides_it(capsys, log_dir):
    code, _, err = run(
        capsys, log_dir, COMPACT, "--dedupe-buffer-size", 96, "--set=log.cleaner.threads=4"
    )
    assert code == USAGE
    assert "24 bytes for the offset map" in err
    assert "96 bytes by log.cleaner.dedupe.buffer.size, shared by 4 of log.cleaner.threads" in err
