"""`recover` on real brokers' directories: a copy is what Kafka's own loader leaves."""

import contextlib
import errno
import json
import os
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from jobs import cli, recover
from jobs.options import CLEAN, COULD_NOT_RUN, FINDINGS, USAGE
from kafka_format.batch import encode_batch
from kafka_format.producer_snapshot import read_producer_snapshot
from kafka_format.record import SimpleRecord
from kafka_log.disk import overlay_files
from tests import golden
from tests.jobs.trees import tree
from tests.jobs.verbs import rows_of_verb, run_verb
from tests.kafka_log.loading.test_partition_recovery import segment
from tests.unreadable import open_the_way, unreadable

NOW = 1_794_820_000_000
LOG = "00000000000000000005.log"


@pytest.fixture
def data(tmp_path):
    """A log dir of a killed broker, one's own."""
    (log_dir,) = golden.log_dirs(golden.unpack("unclean-4.3.1", tmp_path))
    return log_dir.rename(tmp_path / "data")


run = partial(run_verb, recover.main)


def rows(capsys, *arguments, expect=CLEAN):
    return rows_of_verb(recover.main, capsys, *arguments, "--now", NOW, expect=expect)


def partition_row(found, name):
    (row,) = [r for r in found if r["kind"] == "partition" and Path(r["path"]).name == name]
    return row


def contents(directory):
    """Files by name; snapshots as sets, for Kafka writes them in the order of a hash map."""
    return {
        path.name: sorted(read_producer_snapshot(path).entries.tolist())
        if path.suffix == ".snapshot"
        else path.read_bytes()
        for path in directory.iterdir()
    }


# ----------------------------------------------------------------------------- against Kafka


@pytest.mark.parametrize("pack", ["unclean-4.3.1", "clean-3.9.1"])
def test_a_recovered_copy_is_what_kafka_s_loader_leaves(oracle, capsys, tmp_path, pack):
    (source,) = golden.log_dirs(golden.shared(pack))
    found = rows(capsys, source, "--output", tmp_path / "out")
    points = dict(checkpoint(source / "recovery-point-offset-checkpoint"))
    starts = dict(checkpoint(source / "log-start-offset-checkpoint"))
    seen = 0
    for ours in sorted(each for each in (tmp_path / "out").iterdir() if each.is_dir()):
        topic, _, partition = ours.name.rpartition("-")
        if topic == "__cluster_metadata":
            continue
        kafka = oracle.open_log(
            source / ours.name,
            tmp_path / "kafka",
            high_watermark=False,
            clean_shutdown=pack.startswith("clean"),
            recovery_point=points.get((topic, partition), 0),
            log_start_offset=starts.get((topic, partition), 0),
            time=NOW,
            producer_id_expiration_ms=86_400_000,
            steps=[{"do": "run_pending"}],
        )
        assert contents(ours) == contents(tmp_path / "kafka" / ours.name), ours.name
        row = partition_row(found, ours.name)
        for name in ("log_start_offset", "log_end_offset"):
            assert row[name] == kafka["state"][name], ours.name
        seen += 1
    assert seen > 10
    ends = {
        (row["topic"], str(row["partition"])): row["log_end_offset"]
        for row in found
        if row["kind"] == "partition" and row["fate"] == "current"
    }
    if pack.startswith("unclean"):
        assert dict(checkpoint(tmp_path / "out" / "recovery-point-offset-checkpoint")) == ends


def checkpoint(path):
    for line in path.read_text().splitlines()[2:]:
        topic, partition, offset = line.split()
        yield (topic, partition), int(offset)


def test_in_place_ends_as_a_copy_does(capsys, data, tmp_path):
    rows(capsys, data, "--output", tmp_path / "out")
    code, _, _ = run(capsys, data, "--in-place", "--now", NOW)
    assert code == CLEAN
    for each in (tmp_path / "out").iterdir():
        if each.is_dir():
            assert contents(data / each.name) == contents(each), each.name
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert sorted(checkpoint(data / name)) == sorted(checkpoint(tmp_path / "out" / name))


# -------------------------------------------------------------------------------- what is lost


def test_a_sound_directory_loses_nothing_and_is_left_alone(capsys, data):
    before = tree(data)
    code, out, err = run(capsys, data)
    assert code == CLEAN
    assert out == ""
    assert err.startswith("26 partitions, no data lost; a broker would read 152 KiB of logs")
    code, out, _ = run(capsys, data, "--files")
    assert code == CLEAN
    assert "missing: every log is recovered" in out
    assert tree(data) == before


def test_a_torn_batch_is_cut_and_counts_as_lost(oracle, capsys, data):
    log = data / "transactions-0" / LOG
    size = log.stat().st_size
    last = oracle.read_batches(log, records=False)["batches"][-1]
    os.truncate(log, size - 10)
    found = rows(capsys, data, expect=FINDINGS)
    (cut,) = [
        row
        for row in found
        if row["kind"] == "file" and row["file"] == LOG and row["topic"] == "transactions"
        and row["partition"] == 0
    ]  # fmt: skip
    assert cut["action"] == "truncated"
    assert (cut["size_before"], cut["size_after"]) == (size - 10, cut["position"])
    row = partition_row(found, "transactions-0")
    assert row["log_end_offset"] == last["base_offset"]
    assert row["lost_bytes"] == last["size_in_bytes"] - 10
    offsets = (row["lost_from_offset"], row["lost_to_offset"])
    assert offsets == (last["base_offset"], last["last_offset"])
    assert row["lost_records"] == last["count"]


def test_the_table_has_a_row_for_each_partition_that_loses_data(capsys, data):
    log = data / "transactions-0" / LOG
    os.truncate(log, log.stat().st_size - 10)
    code, out, err = run(capsys, data)
    assert code == FINDINGS
    header, row = out.splitlines()
    assert header.split("  ")[0] == "DIRECTORY"
    assert row.split()[:6] == [
        "transactions-0",
        "49",
        "51",
        "3",
        "168",
        f"transactions-0/{LOG}@2617",
    ]
    assert "found 168 bytes up to the end, expected a batch of 178" in row
    assert "the high watermark checkpoint says 52, the log ends at 49" in row
    assert err.startswith("1 partition would lose 168 B (3 records); 1 partition ends before")
    assert "no data lost" not in err


def test_zeros_of_a_value_are_lost_bytes(capsys, tmp_path):
    directory = tmp_path / "orders-0"
    directory.mkdir()
    value = encode_batch([SimpleRecord(NOW, b"k", bytes(1_000_000))], base_offset=1)
    damaged = value[:100] + b"!" + value[101:]
    log = segment(directory, [0])
    log.write_bytes(log.read_bytes() + damaged + bytes(5000))
    row = partition_row(rows(capsys, tmp_path, expect=FINDINGS), "orders-0")
    lost = [row[f"lost_{each}"] for each in ("bytes", "records", "from_offset", "to_offset")]
    assert lost == [1_000_073, 1, 1, 1]
    assert (row["lost_file"], row["lost_position"]) == (str(log), 100)


# ------------------------------------------------------------- what the checkpoints say


def test_logs_that_are_missing_are_no_sound_partition(capsys, data):
    for log in (data / "append-time-0").glob("*.log"):
        log.unlink()
    code, out, err = run(capsys, data, "--topic", "append-time")
    assert code == FINDINGS
    assert out.splitlines()[1].split()[:3] == ["append-time-0", "0", "9"]
    assert "the high watermark checkpoint says 10, the log ends at 0" in out
    assert "no data lost" not in err
    assert "1 partition ends before the offset in its checkpoints" in err


def test_a_recovery_point_beyond_the_log_end_is_a_promise_too(capsys, data):
    arguments = [data, "--topic", "index-default", "--recovery-point", 7]
    row = partition_row(rows(capsys, *arguments, expect=FINDINGS), "index-default-0")
    assert (row["promised_offset"], row["log_end_offset"]) == (7, 4)
    assert row["promised_by"] == "recovery-point-offset-checkpoint"


def test_a_partition_without_a_directory_has_a_row(capsys, data):
    shutil.rmtree(data / "append-time-1")
    code, out, err = run(capsys, data, "--topic", "append-time")
    assert code == FINDINGS
    assert out.splitlines()[1].split()[:3] == ["append-time-1", "0", "9"]
    assert "no directory; the high watermark checkpoint says 10" in out
    assert "1 partition in the checkpoints has no directory" in err
    row = partition_row(rows(capsys, data, expect=FINDINGS), "append-time-1")
    assert (row["fate"], row["promised_offset"], row["lost_bytes"]) == ("missing", 10, 0)
    # It is not about to be looked for by whoever gives another partition.
    assert rows(capsys, data / "append-time-0")[-1]["promised_offset"] is None


def test_checkpoints_alone_are_enough_to_miss_partitions(capsys, data):
    for each in data.iterdir():
        if each.is_dir():
            shutil.rmtree(each)
    code, out, _ = run(capsys, data)
    assert code == FINDINGS
    assert len(out.splitlines()) == 1 + 25


def test_a_partition_in_another_log_dir_of_the_broker_is_not_missing(capsys, data, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    for name in ("meta.properties", ".kafka_cleanshutdown"):
        if (data / name).exists():
            shutil.copy(data / name, other / name)
    shutil.move(data / "append-time-1", other / "append-time-1")
    code, out, _ = run(capsys, data, other, "--topic", "append-time")
    assert (code, out) == (CLEAN, "")


def test_zeros_of_a_preallocated_log_are_no_loss(capsys, data):
    log = data / "transactions-0" / LOG
    os.truncate(log, log.stat().st_size + 100_000)
    found = rows(capsys, data, "--topic", "transactions")
    row = partition_row(found, "transactions-0")
    assert (row["lost_bytes"], row["log_end_offset"]) == (0, 52)


def test_segments_behind_damage_are_lost_as_a_whole(capsys, data):
    directory = data / "rolled-by.time-0"
    log = directory / "00000000000000000009.log"
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    behind = [directory / f"{base:020d}.log" for base in (12, 15)]
    lost = len(content) + sum(each.stat().st_size for each in behind)
    arguments = [data, "--topic", "rolled-by.time", "--recovery-point", 6]
    found = rows(capsys, *arguments, expect=FINDINGS)
    row = partition_row(found, "rolled-by.time-0")
    assert (row["log_end_offset"], row["lost_bytes"]) == (9, lost)
    assert (row["lost_records"], row["lost_from_offset"], row["lost_to_offset"]) == (9, 9, 17)
    # Below the recovery point nobody looks.
    assert rows(capsys, data, "--topic", "rolled-by.time")[-1]["lost_bytes"] == 0


def test_a_clean_stop_can_be_supposed(capsys, data):
    log = data / "transactions-0" / LOG
    os.truncate(log, log.stat().st_size - 10)
    found = rows(capsys, data / "transactions-0", "--clean-shutdown", "yes", expect=FINDINGS)
    row = partition_row(found, "transactions-0")
    assert (row["lost_bytes"], row["promised_offset"]) == (0, 52)  # but the checkpoint knows more


def test_a_marker_that_is_overruled_is_not_told(capsys, data):
    marker = ".kafka_cleanshutdown"
    assert marker in [row.get("file") for row in rows(capsys, data, "--topic", "index-default")]
    found = rows(capsys, data, "--topic", "index-default", "--clean-shutdown", "yes")
    assert marker not in [row.get("file") for row in found]


def test_a_log_start_beyond_the_log_loses_all(capsys, data):
    arguments = [data, "--topic", "index-default", "--log-start", 100]
    row = partition_row(rows(capsys, *arguments, expect=FINDINGS), "index-default-0")
    log = data / "index-default-0" / "00000000000000000000.log"
    assert row["lost_bytes"] == log.stat().st_size
    assert (row["log_start_offset"], row["log_end_offset"]) == (100, 100)


def test_a_directory_at_which_a_broker_would_not_start_is_told(capsys, data):
    (data / "lost+found").mkdir()
    found = rows(capsys, data, expect=FINDINGS)
    (row,) = [row for row in found if row["kind"] == "log_dir" and row["action"] == "stop"]
    assert row["file"] == "lost+found"


def test_a_partition_that_kafka_would_not_load_is_told_and_not_copied(capsys, data, tmp_path):
    (data / "index-default-0" / "leader-epoch-checkpoint").write_text("what?\n")
    found = rows(capsys, data, "--topic", "index-default", expect=FINDINGS)
    assert "leader-epoch-checkpoint" in partition_row(found, "index-default-0")["error"]
    code, _, err = run(capsys, data, "--output", tmp_path / "out")
    assert code == COULD_NOT_RUN
    assert "would be incomplete" in err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data", "unclean-4.3.1"]


# ------------------------------------------------------------------------------------ trouble


def test_a_file_that_cannot_be_read_could_not_be_recovered(capsys, data, monkeypatch):
    def refuse(path, _position, _target, *, size):
        assert size >= 0
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)

    monkeypatch.setattr(overlay_files, "_read_exactly", refuse)
    code, _, err = run(capsys, data, "--topic", "index-default")
    assert code == COULD_NOT_RUN
    assert "index-default-0" in err
    assert "Permission denied" in err


def test_a_partition_that_may_not_be_read_is_one_place(capsys, data, tmp_path_factory):
    run(capsys, data)  # all that the verb imports is loaded: nobody may not read that either
    open_the_way(tmp_path_factory.getbasetemp(), data)
    whole, parts = data / "append-time-0", data / "append-time-1"
    with unreadable(whole, parts / f"{0:020}.log", parts / "partition.metadata"):
        code, _, err = run(capsys, data, "--topic", "append-time")
    assert code == COULD_NOT_RUN
    assert "; 2 paths could not be read;" in err


def test_a_log_of_more_segments_than_a_shell_allows_open_files(tmp_path):
    (tmp_path / "orders-0").mkdir()
    for base in range(80):
        segment(tmp_path / "orders-0", [base])
    command = (sys.executable, "-m", "jobs.cli", "recover", str(tmp_path), "--in-place")
    done = subprocess.run(
        ("bash", "-c", 'ulimit -Sn 100 && exec "$0" "$@"', *command),
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == CLEAN, done.stderr
    assert len(list((tmp_path / "orders-0").glob("*.snapshot"))) == 80


@pytest.mark.parametrize("option", ["--recovery-point", "--log-start"])
def test_an_offset_is_not_negative(capsys, data, option):
    code, _, err = run(capsys, data, option, -5)
    assert code == USAGE
    assert "'-5': expected an offset, 0 to 9223372036854775807" in err


def test_a_checkpoint_that_does_not_read_costs_the_log_dir(capsys, data):
    (data / "recovery-point-offset-checkpoint").write_text("what?\n")
    code, out, err = run(capsys, data, "--topic", "index-default", "--format", "json")
    offline = [
        row["file"] for row in map(json.loads, out.splitlines()) if "offline" in row.values()
    ]
    assert offline == ["recovery-point-offset-checkpoint"]
    assert code == FINDINGS
    assert "; 1 log dir would not load;" in err


def test_where_nothing_was_done_nothing_is_said_to_be_whole(capsys, data):
    code, _, err = run(capsys, data, "--output", data / "out")
    assert code == COULD_NOT_RUN
    assert len(err.splitlines()) == 1
    assert "no data lost" not in err


def test_a_log_dir_that_a_broker_holds_has_no_plan_in_place(capsys, data):
    with exclusive_in_another_process(data):
        code, out, err = run(capsys, data, "--in-place")
    assert (code, out) == (COULD_NOT_RUN, "")
    running, *refused = err.splitlines()
    assert running.startswith(f"{data}: a broker is running on this directory")
    assert refused == [
        f"{data}/.lock: found a lock that another process holds, expected no live broker"
    ]


@contextlib.contextmanager
def exclusive_in_another_process(log_dir):
    """A lock of this process would be no hindrance to itself."""
    script = (
        "import fcntl, os, sys; fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT);"
        "fcntl.lockf(fd, fcntl.LOCK_EX); print('held', flush=True); sys.stdin.read()"
    )
    command = [sys.executable, "-c", script, str(log_dir / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout.readline() == b"held\n"
        yield
        holder.stdin.close()


def test_one_offset_is_not_of_many_partitions(capsys, data):
    code, _, err = run(capsys, data, "--recovery-point", 5)
    assert code == USAGE
    assert "an offset applies to one partition" in err


def test_the_clean_marker_is_kept_in_a_copy_of_what_was_stopped_cleanly(capsys, tmp_path):
    (source,) = golden.log_dirs(golden.shared("clean-3.9.1"))
    data = Path(shutil.copytree(source, tmp_path / "data"))
    rows(capsys, data, "--topic", "tiny*", "--output", tmp_path / "out")
    marker = ".kafka_cleanshutdown"
    assert (tmp_path / "out" / marker).read_bytes() == (data / marker).read_bytes()
    assert not (tmp_path / "out" / ".lock").exists()


def test_the_verb_is_known(capsys):
    assert cli.main(["recover", "--help"]) == CLEAN
    assert "--clean-shutdown" in capsys.readouterr().out


def test_what_could_not_be_read_is_not_said_to_be_whole(tmp_path, capsys):
    shutil.copytree(golden.log_dirs(golden.shared("clean-3.9.1"))[0], tmp_path / "data")
    (tmp_path / "data" / "meta.properties").write_text("version=abc\n")
    code, _, err = run_verb(recover.main, capsys, tmp_path / "data", "--engine=local")
    assert code == 1
    assert "no data lost" not in err
    assert "no loss found in what could be read" in err
