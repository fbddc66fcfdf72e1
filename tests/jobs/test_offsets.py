"""`offsets` on real brokers' directories: what consumers and Kafka's own log saw there."""

import json
import shutil
from functools import partial

import pytest

from jobs import cli, offsets
from jobs.options import CLEAN, FINDINGS, USAGE
from tests import golden
from tests.jobs.verbs import rows_of_verb, run_verb

FIELDS = [
    "topic",
    "partition",
    "log_start_offset",
    "recovery_point",
    "high_watermark",
    "last_stable_offset",
    "log_end_offset",
    "held_by",
]


run = partial(run_verb, offsets.main)
rows = partial(rows_of_verb, offsets.main)


@pytest.mark.parametrize("replay", [(), ("--replay",)], ids=["snapshots", "replay"])
@pytest.mark.parametrize("pack", golden.names())
def test_consumers_saw_the_same_offsets(capsys, pack, replay):
    found = {
        (row["topic"], row["partition"]): row
        for row in rows(capsys, golden.shared(pack), *replay)
        if row["state"] == "live"
    }
    compared = 0
    for line in golden.expected(pack):
        if "end_offset" not in line:
            continue
        row = found[line["topic"], line["partition"]]
        assert row["log_start_offset"] == line["beginning_offset"], row
        is_committed = line["isolation"] == "read_committed"
        end = row["last_stable_offset"] if is_committed else row["high_watermark"]
        assert end == line["end_offset"], row
        compared += 1
    assert compared >= 10


@pytest.mark.parametrize("name", ["transactions-0", "transactions-1", "__consumer_offsets-0"])
def test_the_transaction_that_kafka_finds_open_holds_it(oracle, capsys, name):
    (log_dir,) = golden.log_dirs(golden.shared("unclean-4.3.1"))
    (row,) = rows(capsys, log_dir / name)
    state = oracle.open_log(log_dir / name, clean_shutdown=False)["state"]
    assert row["last_stable_offset"] == state["last_stable_offset"]
    assert row["log_end_offset"] == state["log_end_offset"]
    open_at = {
        each["current_txn_first_offset"]: each
        for each in state["producers"]
        if each["current_txn_first_offset"] >= 0
    }
    first = open_at[min(open_at)]
    assert row["held_by"] == {
        "producer_id": first["producer_id"],
        "producer_epoch": first["producer_epoch"],
        "first_offset": first["current_txn_first_offset"],
        "last_timestamp": first["timestamp"],
        "end_offset": None,
    }


def test_a_row_has_the_fields_of_the_contract_first(capsys):
    (log_dir,) = golden.log_dirs(golden.shared("unclean-4.3.1"))
    (row,) = rows(capsys, log_dir, "--topic", "rolled-by.time")
    assert list(row)[: len(FIELDS)] == FIELDS
    assert [row[name] for name in FIELDS] == ["rolled-by.time", 0, 7, 15, 18, 18, 18, None]


def test_a_table_tells_who_holds_the_last_stable_offset(capsys):
    (log_dir,) = golden.log_dirs(golden.shared("unclean-4.3.1"))
    now = ("--now", "2023-11-17T02:30:00Z")
    code, out, err = run(capsys, log_dir, "--topic", "transactions", *now)
    assert code == CLEAN
    lines = out.splitlines()
    assert lines[0].split("  ")[0] == "PARTITION"
    assert lines[0].endswith("  BLOCKED BY")
    last_seen = "last seen 2023-11-14T22:13:20.000Z, 2 d 4 h ago"
    assert lines[1].endswith(f"  producer 16 epoch 2, open since offset 45, {last_seen}")
    assert err == (
        "2 partitions; 2 blocked by a transaction, 0 with a high watermark below the log end\n"
    )


def test_damage_hides_the_last_stable_offset_and_nothing_else(capsys, tmp_path):
    (log_dir,) = golden.log_dirs(golden.shared("unclean-4.3.1"))
    copy = shutil.copytree(log_dir / "transactions-0", tmp_path / "transactions-0")
    log = copy / "00000000000000000000.log"
    content = bytearray(log.read_bytes())
    content[8:12] = (3).to_bytes(4, "big")  # a length that no batch has
    log.write_bytes(content)
    code, out, err = run(capsys, copy, "--replay", "--format", "json")
    assert code == FINDINGS
    row = json.loads(out)
    assert row["last_stable_offset"] is None
    assert (row["log_start_offset"], row["log_end_offset"]) == (0, 52)
    assert row["damage"].startswith(f"{log}@")
    assert row["damage"] in err


def test_a_partition_without_segments_does_not_hide_the_others(capsys, tmp_path):
    (log_dir,) = golden.log_dirs(golden.shared("unclean-4.3.1"))
    shutil.copytree(log_dir / "append-time-0", tmp_path / "data" / "append-time-0")
    (tmp_path / "data" / "empty-0").mkdir()
    (tmp_path / "data" / "empty-0" / "leader-epoch-checkpoint").write_text("0\n0\n")
    code, out, err = run(capsys, tmp_path / "data", "--format", "json")
    assert code == FINDINGS
    assert json.loads(out)["topic"] == "append-time"
    assert "empty-0: found no segment" in err


def test_a_mistyped_option_is_refused(capsys, tmp_path):
    code, _, err = run(capsys, tmp_path, "--replays")
    assert code == USAGE
    assert "did you mean --replay?" in err


def test_the_verb_is_known(capsys):
    assert cli.main(["offsets", "--help"]) == CLEAN
    assert "--replay" in capsys.readouterr().out


def test_a_log_that_ends_before_its_checkpoints_is_reported(capsys, tmp_path):
    """The columns show what a starting broker has; what it no longer has is a finding."""
    (source,) = golden.log_dirs(golden.shared("unclean-4.3.1"))
    data = shutil.copytree(source, tmp_path / "data")
    log = data / "codecs.librdkafka-2" / f"{0:020d}.log"
    log.write_bytes(log.read_bytes()[:5])
    code, _, err = run(capsys, data, "--topic", "codecs.librdkafka")
    assert code == FINDINGS
    said = f"{log.parent}: the high watermark checkpoint says 60, the log ends at 0"
    assert err.splitlines()[0] == said
    (row,) = rows(capsys, log.parent, expect=FINDINGS)
    assert row["promised_offset"] == 60
    assert row["promised_by"] == "replication-offset-checkpoint"
