"""`compact` when it is asked why, and what if: nothing is cleaned."""

import os
import signal
import tempfile
from collections import Counter
from functools import partial
from pathlib import Path

import pytest
from pyarrow import parquet

from jobs import compact
from jobs.compaction_explained import shown_key
from jobs.options import CLEAN, COULD_NOT_RUN, HUNG_UP, INTERRUPTED, USAGE
from tests.golden import earlier
from tests.jobs.trees import contents
from tests.jobs.verbs import rows_of_verb, run_verb

NOW = f"--now={earlier.NOW}"
COMPACT = "--set=cleanup.policy=compact"


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory):
    return earlier.log_dir(tmp_path_factory.mktemp("explained"))


run = partial(run_verb, compact.main)
rows = partial(rows_of_verb, compact.main)


def test_the_life_of_a_key_is_told_record_by_record(capsys, log_dir):
    before = contents(log_dir)
    topic = ("--topic", "compacted.aborted", NOW)
    code, out, _ = run(capsys, log_dir, *topic, "--explain-key", "key-3")
    assert code == CLEAN
    lines = [line.split(maxsplit=7) for line in out.splitlines()]
    assert lines[0][:4] == ["PARTITION", "ROUND", "OFFSET", "TIME"]
    assert [line[1:3] + line[5:] for line in lines[1:]] == [
        ["1", "3", "removed", "superseded", "offset 13 has the same key"],
        ["1", "7", "removed", "aborted", "producer 4 aborted its transaction: the marker is at 9"],
        ["1", "13", "kept", "latest", "the newest record of its key"],
        [
            *("1", "18", "removed", "aborted"),
            "producer 4 aborted its transaction: the marker is at 19",
        ],
    ]
    for key in ("0x6b65792d33", "base64:a2V5LTM="):
        found = rows(capsys, log_dir, *topic, "--explain-key", key)
        assert [row["offset"] for row in found] == [3, 7, 13, 18]
    assert contents(log_dir) == before


def test_a_key_that_is_not_there_is_told_as_it_could_be_typed(capsys, log_dir):
    code, out, err = run(capsys, log_dir, NOW, "--explain-key", "0x00ff")
    assert (code, out) == (CLEAN, "")
    assert err == "no record of a compacted topic has the key 0x00ff\n"


@pytest.mark.parametrize(
    ("key", "shown"),
    [
        *((b"key", "key"), (b"\xff", "0xff"), (b"a\nb", "0x610a62"), (b"0x61", "0x30783631")),
        (b"", "0x"),
    ],
)
def test_a_key_is_shown_as_text_where_that_says_it(key, shown):
    assert shown_key(key) == shown


def test_the_table_is_written_whole_and_sums_agree_with_the_statistics(capsys, log_dir, tmp_path):
    target = tmp_path / "explained"
    reported = rows(capsys, log_dir, NOW, "--explain", target)
    found = parquet.read_table(target).to_pylist()
    assert len(list(target.glob("*.parquet"))) == len(reported) - 1  # all but the metadata log
    rules = Counter(row["rule"] for row in found)
    assert sum((Counter(row["rules"]) for row in reported), Counter()) == rules
    done = [row for row in rows(capsys, log_dir, NOW) if row["kind"] == "round"]
    records = [
        row for row in found if row["offset"] is not None and not row["rule"].startswith("not_")
    ]
    kept = sum(row["verdict"] == "kept" for row in records)
    assert kept == sum(row["messages_written"] for row in done)
    unread = sum(row["record_count"] for row in found if row["rule"] == "batch_dropped")
    assert len(records) - unread == sum(row["messages_read"] for row in done)
    assert rules["no_key"] == sum(row["invalid_messages_read"] for row in done) > 0
    assert rules["aborted"] == sum(row["removed_aborted"] for row in done) > 0
    superseded = rules["superseded"] + rules["tombstone_superseded"]
    assert superseded == sum(row["removed_superseded"] for row in done) > 0


def test_rules_are_counted_on_the_terminal(capsys, log_dir, tmp_path):
    topic = ("--topic", "compacted-later")
    code, out, err = run(capsys, log_dir, NOW, *topic, "--explain", tmp_path / "here")
    assert code == CLEAN
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["VERDICT", "RULE", "ROWS"]
    assert ["kept", "not_cleanable_active_segment", "1"] in lines
    assert err.endswith(f"rows for 1 partition written to {tmp_path / 'here'}\n")


def test_where_it_would_be_written_into_the_evidence_nothing_is(capsys, log_dir, tmp_path):
    before = contents(log_dir)
    code, _, err = run(capsys, log_dir, NOW, "--explain", log_dir / "explained")
    assert code == COULD_NOT_RUN
    assert "output must not be inside the evidence" in err
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    code, _, err = run(capsys, log_dir, NOW, "--explain", tmp_path / "full")
    assert code == COULD_NOT_RUN
    assert "found a directory with files" in err
    assert contents(log_dir) == before


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (
            ("--explain", "x", "--explain-key", "k"),
            "--explain and --explain-key exclude each other",
        ),
        (("--explain-key", "k", "--output", "x"), "--explain-key writes no log"),
        (("--what-if", "delete.retention.m=0"), "did you mean delete.retention.ms"),
        (("--what-if", "nothing"), "nothing"),
        (("--what-if", " "), "expected NAME=VALUE"),
        (("--what-if", "delete.retention.ms=0", "--passes", "2"), "without --passes"),
        (("--what-if", "delete.retention.ms=0", "--when-due"), "without --passes and --when-due"),
        (("--explain-key", "0xzz"), "'0xzz': expected text, 0x and hexadecimal digits"),
        (("--explain-key", "base64:§"), "base64:§"),
    ],
)
def test_what_makes_no_sense_is_refused(capsys, log_dir, arguments, reported):
    code, out, err = run(capsys, log_dir, NOW, *arguments)
    assert (code, out) == (USAGE, "")
    assert reported in err.splitlines()[0]


def test_all_settings_are_judged_by_one_clock(capsys, log_dir):
    topic = ("--topic", "compacted.codecs", "--partition", 0)
    found = rows(capsys, log_dir, *topic, "--what-if", "delete.retention.ms=0")
    (due,) = {row["due_at_ms"] for row in found if row["kind"] == "what_if"}
    assert due > earlier.NOW


def test_settings_stand_side_by_side_with_a_chart(capsys, log_dir):
    before = contents(log_dir)
    lag = "min.compaction.lag.ms=3600000000000"
    code, out, _ = run(capsys, log_dir, NOW, "--what-if", "delete.retention.ms=0", "--what-if", lag)
    assert code == CLEAN
    lines = out.splitlines()
    assert lines[0].split() == ["as", "it", "is", "delete.retention.ms=0", lag]
    measures = {line[:16].strip(): line[16:].split() for line in lines[1:13]}
    before_, same, kept_all = measures["records before"]
    assert before_ == same == kept_all == measures["records after"][2]
    survivors = sum(map(len, earlier.survivors().values()))
    assert measures["records after"][:2] == [str(survivors)] * 2
    assert measures["reduction"][4:] == ["0.0", "%"]
    bars = [line.count("█") for line in lines[-3:]]
    assert bars[0] == bars[1] < bars[2] == 40
    assert contents(log_dir) == before


def test_scenarios_are_rows_of_json_and_totals_are_their_sums(capsys, log_dir):
    found = rows(
        capsys, log_dir, NOW, "--topic", "compacted.codecs", "--what-if", "segment.bytes=1048576"
    )
    partitions = [row for row in found if row["kind"] == "what_if"]
    total = [row for row in found if row["kind"] == "total"]
    assert [row["scenario"] for row in total] == ["as it is", "segment.bytes=1048576"]
    assert len(partitions) == 10
    first = [row for row in partitions if row["scenario"] == "as it is"]
    # The live cleaner left 45 of 60 records in each, and one in the active segment.
    assert [(row["records_before"], row["records_after"]) for row in first] == [(61, 46)] * 5
    assert total[0]["records_after"] == 5 * 46
    assert first[0]["next_cleaning_at_ms"] is None
    assert "active segment" in first[0]["next_cleaning_reason"]


def test_without_a_compacted_topic_it_says_how_to_force_it(capsys, tmp_path):
    partition = tmp_path / "data" / "plain-0"
    partition.mkdir(parents=True)
    (partition / f"{0:020}.log").touch()
    code, out, err = run(capsys, tmp_path / "data", NOW, "--what-if", "delete.retention.ms=0")
    assert (code, out) == (CLEAN, "")
    assert err.splitlines()[-1] == (
        "no topic is known to have cleanup.policy=compact; use --set cleanup.policy=compact"
    )


@pytest.mark.parametrize(
    "reported", [["--what-if", "delete.retention.ms=0"], ["--explain-key", "k", "--passes", "2"]]
)
@pytest.mark.parametrize(
    ("number", "expected"), [(signal.SIGTERM, INTERRUPTED), (signal.SIGHUP, HUNG_UP)]
)
def test_ended_from_outside_it_leaves_nothing(
    capsys, log_dir, tmp_path, monkeypatch, reported, number, expected
):
    def end(*_, **__):
        assert list(tmp_path.iterdir())  # what a pass leaves
        os.kill(os.getpid(), number)

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("pipelines.compaction.compaction.opened_log", end)
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup may have started us
    try:
        code, _, _ = run(capsys, log_dir / "compacted.codecs-0", NOW, COMPACT, *reported)
    finally:
        signal.signal(signal.SIGHUP, before)
    assert code == expected
    assert list(tmp_path.iterdir()) == []


def test_delta_is_written_by_spark(delta_spark, capsys, log_dir, tmp_path):
    target = tmp_path / "lake"
    reported = rows(
        capsys,
        *(log_dir, NOW, "--topic", "compacted-later"),
        *("--explain", target, "--explain-format", "delta"),
    )
    found = delta_spark.read.format("delta").load(str(target))
    assert found.count() == sum(row["rows"] for row in reported) > 0
    assert Path(target, "_delta_log").is_dir()
