"""`retain` on real brokers' directories: Kafka's own log says which segments must go."""

import errno
import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from jobs import cli, retain
from jobs.options import CLEAN, COULD_NOT_RUN, FINDINGS, INTERRUPTED
from kafka_log.disk.overlay_files import OverlayFiles
from tests import golden
from tests.jobs.trees import contents, tree
from tests.jobs.verbs import rows_of_verb, run_verb
from tests.kafka_log.disk.test_output import small_disk
from tests.unreadable import open_the_way, unreadable

NOW = 1_794_820_000_000  # some time after the packs were made
run = partial(run_verb, retain.main)
rows = partial(rows_of_verb, retain.main)


def deleted(found, topic, partition=0):
    return [
        row["base_offset"]
        for row in found
        if row["kind"] == "segment"
        and (row["topic"], row["partition"]) == (topic, partition)
        and row["is_deleted"]
    ]


# ----------------------------------------------------------------------------- against Kafka

PARTITIONS = ["tiny.segments-0", "tiny-indexed-0", "transactions-0", "compacted-0", "codecs-3"]
SETTINGS = [
    {"retention.ms": "1000"},
    {"retention.ms": "-1", "retention.bytes": "0"},
    {"retention.ms": "-1", "retention.bytes": "5000"},
    {"retention.ms": str(NOW - 1_700_000_000_009)},
    {"cleanup.policy": "delete", "retention.ms": "10", "retention.bytes": "2000"},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_the_segments_go_that_kafka_deletes(oracle, capsys, data, tmp_path, settings):
    arguments = [f"--set={name}={value}" for name, value in settings.items()]
    # Topics of the pack have a policy of their own; what is set comes before it.
    arguments.append(f"--set=cleanup.policy={settings.get('cleanup.policy', 'delete')}")
    found = rows(capsys, data, *arguments, "--now", NOW)
    for name in PARTITIONS:
        topic, _, partition = name.rpartition("-")
        answer = oracle.run_log(
            tmp_path / "kafka" / name,
            copy_from=data / name,
            config=settings,
            time=NOW,
            steps=[{"do": "high_watermark"}, {"do": "delete_old_segments"}],
        )
        before = [each["base_offset"] for each in answer["opened"]["segments"]]
        after = [each["base_offset"] for each in answer["state"]["segments"]]
        expected = [base for base in before if base not in after]
        assert deleted(found, topic, int(partition)) == expected, name
        (row,) = [
            row for row in found if row["kind"] == "partition" and row["path"] == str(data / name)
        ]
        assert row["new_log_start_offset"] == answer["state"]["log_start_offset"]
        assert row["log_end_offset"] == answer["state"]["log_end_offset"]


def test_a_retained_copy_is_what_kafka_leaves(oracle, capsys, data, tmp_path):
    out = tmp_path / "out"
    code, _, err = run(
        capsys, data, "--topic", "tiny*", "--set=retention.bytes=3000", "--set=retention.ms=-1",
        "--now", NOW, "--output", out,
    )  # fmt: skip
    assert code == CLEAN
    assert f"written to {out}" in err
    for name in ("tiny.segments-0", "tiny-indexed-0"):
        kafka = tmp_path / "kafka" / name
        oracle.run_log(
            kafka,
            copy_from=data / name,
            config={"retention.bytes": 3000, "retention.ms": -1},
            time=NOW,
            steps=[{"do": "high_watermark"}, {"do": "delete_old_segments"}, {"do": "run_pending"}],
        )
        ours, theirs = contents(out / name), contents(kafka)
        # Kafka also opened and closed the log, which removes what belongs to no segment.
        assert set(theirs) <= set(ours)
        assert all(each.endswith((".snapshot", ".deleted")) for each in set(ours) - set(theirs))
        differing = {each for each in theirs if ours[each] != theirs[each]}
        assert differing <= {"leader-epoch-checkpoint"}


def test_a_copy_has_what_a_broker_needs_beside_its_partitions(capsys, data, tmp_path):
    out = tmp_path / "out"
    (data / ".lock").write_bytes(b"")
    code, _, _ = run(
        capsys, data, "--topic", "tiny.segments", "--set=retention.bytes=0", "--now", NOW,
        "--output", out,
    )  # fmt: skip
    assert code == CLEAN
    assert (out / "meta.properties").read_bytes() == (data / "meta.properties").read_bytes()
    assert not (out / ".lock").exists()
    assert (out / ".kafka_cleanshutdown").exists()
    assert [each.name for each in out.iterdir() if each.is_dir()] == ["tiny.segments-0"]
    for name in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
        assert (out / name).read_text() == "0\n1\ntiny.segments 0 80\n"
    assert (out / "log-start-offset-checkpoint").read_text() == "0\n0\n"
    files = sorted(each.name for each in (out / "tiny.segments-0").glob("*.log"))
    assert files == ["00000000000000000080.log"]


def test_a_log_start_inside_a_segment_stays_in_the_checkpoint(capsys, tmp_path):
    (source,) = golden.log_dirs(golden.unpack("unclean-4.3.1", tmp_path))
    (source / ".lock").unlink(missing_ok=True)
    before = "0\n1\nrolled-by.time 0 7\n"
    assert (source / "log-start-offset-checkpoint").read_text() == before
    code, _, _ = run(
        capsys, source, "--topic", "rolled*", "--set=retention.ms=-1", "--output", tmp_path / "out"
    )
    assert code == CLEAN
    assert (tmp_path / "out" / "log-start-offset-checkpoint").read_text() == before
    found = rows(capsys, source, "--topic", "rolled*", "--log-start", 12, "--set=retention.ms=-1")
    assert deleted(found, "rolled-by.time") == [6, 9]


# -------------------------------------------------------------------------------- what is reported


def test_nothing_is_written_unless_asked_for(capsys, data):
    before = tree(data)
    run(capsys, data, "--set=retention.bytes=0", "--high-watermark", "end")
    run(capsys, data, "--set=retention.bytes=0", "--dry-run")
    assert tree(data) == before


def test_a_table_tells_each_segment_with_its_reason(capsys, data):
    code, out, err = run(
        capsys, data, "--topic", "tiny-indexed", "--now", NOW, "--set=retention.ms=-1",
        "--set=retention.bytes=4000",
    )  # fmt: skip
    assert code == CLEAN
    lines = out.splitlines()
    assert lines[0].split()[:5] == ["PARTITION", "SEGMENT", "END", "OFFSET", "SIZE"]
    assert "delete (retention.bytes)" in lines[1]
    assert "keep" in lines[2]
    assert "the earlier segment 38 is kept" in lines[3]
    assert err.startswith("1 segment (3.8 KiB) would be deleted, 2 (4.1 KiB) kept, in 1 partition")


def test_a_directory_that_is_to_be_deleted_is_told_and_left_out_of_a_copy(capsys, data, tmp_path):
    (marked,) = [each for each in data.iterdir() if each.name.endswith("-delete")]
    found = rows(capsys, data, "--set=retention.ms=-1", "--output", tmp_path / "out")
    (note,) = [row["note"] for row in found if row["path"] == str(marked)]
    assert note == "the replica was deleted: a broker removes the whole directory"
    assert not (tmp_path / "out" / marked.name).exists()
    assert (tmp_path / "out" / "__cluster_metadata-0").is_dir()


def test_without_a_high_watermark_nothing_may_go(capsys, data):
    (data / "replication-offset-checkpoint").write_text("0\n0\n")
    found = rows(capsys, data, "--topic", "tiny.segments", "--set=retention.bytes=0")
    assert deleted(found, "tiny.segments") == []
    assert "--high-watermark" in found[-1]["note"]
    found = rows(
        capsys, data, "--topic", "tiny.segments", "--set=retention.bytes=0", "--high-watermark", 9
    )
    assert deleted(found, "tiny.segments") == [4, 6]


def test_tiered_storage_is_refused_for_its_topics_alone(capsys, data):
    code, out, err = run(
        capsys, data, "--topic", "tiny*", "--set=topic.tiny.segments.remote.storage.enable=true"
    )
    assert code == COULD_NOT_RUN
    assert "tiny.segments-0: remote.storage.enable=true" in err
    assert "tiny-indexed-0" in out


# --------------------------------------------------------------------------------- in place


def test_in_place_ends_as_a_copy_does(capsys, data, tmp_path):
    options = [data, "--topic", "tiny*", "--set=retention.bytes=3000", "--now", NOW]
    run(capsys, *options, "--output", tmp_path / "out")
    code, _, err = run(capsys, *options, "--in-place")
    assert code == CLEAN
    assert "segments" in err
    for name in ("tiny.segments-0", "tiny-indexed-0"):
        assert contents(data / name) == contents(tmp_path / "out" / name)
    assert not (data / ".lock").exists()
    found = rows(capsys, *options)
    assert [row for row in found if row.get("is_deleted")] == []


# ------------------------------------------------------------------------------------ trouble


def test_a_copy_that_does_not_fit_leaves_nothing(capsys, data, tmp_path, monkeypatch):
    def full(self, directory):
        (Path(directory) / "half").write_bytes(b"abc")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(directory))

    monkeypatch.setattr(OverlayFiles, "write_to", full)
    code, _, err = run(capsys, data, "--topic", "tiny*", "--output", tmp_path / "out")
    assert code == COULD_NOT_RUN
    assert "No space left on device where the copy is written; nothing was written" in err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data"]


def test_a_disk_that_is_too_small_is_left_empty(capsys, data, tmp_path):
    before = tree(data)
    with small_disk(tmp_path / "disk", "64k"):
        code, _, err = run(
            capsys, data, "--set=retention.ms=-1", "--output", tmp_path / "disk" / "out"
        )
        assert code == COULD_NOT_RUN
        assert "No space left on device where the copy is written" in err
        assert list((tmp_path / "disk").iterdir()) == []
    assert tree(data) == before


def test_what_may_not_be_read_is_told_and_the_rest_is_done(capsys, data, tmp_path_factory):
    run(capsys, data)  # all that the verb imports is loaded: nobody may not read that either
    open_the_way(tmp_path_factory.getbasetemp(), data)
    with unreadable(data / "tiny.segments-0"):
        code, out, err = run(capsys, data, "--topic", "tiny*")
    assert code == COULD_NOT_RUN
    assert "tiny.segments-0: Permission denied" in err
    assert "tiny-indexed-0" in out


def test_ctrl_c_leaves_nothing(capsys, data, tmp_path, monkeypatch):
    def interrupt(self, directory):
        raise KeyboardInterrupt

    monkeypatch.setattr(OverlayFiles, "write_to", interrupt)
    code, _, _ = run(capsys, data, "--topic", "tiny*", "--output", tmp_path / "out")
    assert code == INTERRUPTED
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data"]


def test_a_partition_that_cannot_be_retained_keeps_the_copy_from_being_written(
    capsys, data, tmp_path
):
    shutil.rmtree(data / "tiny-indexed-0")
    (data / "tiny-indexed-0").mkdir()
    code, out, err = run(capsys, data, "--topic", "tiny*", "--output", tmp_path / "out")
    assert code == COULD_NOT_RUN
    assert "found no segment" in err
    assert "tiny.segments-0" in out
    assert not (tmp_path / "out").exists()


def test_a_name_from_the_disk_says_nothing_to_a_terminal(capsys, data):
    (data / "\x1b[31m").mkdir()
    (data / "\x1b[31m" / "00000000000000000000.log").touch()
    (data / "codecs-0" / "\x1b[31m.log").write_bytes(b"")
    code, _, err = run(capsys, data, "--now", NOW)
    assert code == FINDINGS
    assert "\x1b" not in err


def test_globs_that_mean_nothing_are_told_as_such(capsys, data):
    code, out, err = run(capsys, data, "--topic", "nope*", "--partition", 7)
    assert (code, out) == (COULD_NOT_RUN, "")
    assert err == "no partition matches --topic nope* --partition 7 (18 partitions found)\n"


def test_a_path_that_is_not_there_could_not_be_read(capsys, tmp_path):
    code, _, err = run(capsys, tmp_path / "nowhere")
    assert code == COULD_NOT_RUN
    assert "No such file" in err


def test_the_verb_is_known(capsys):
    assert cli.main(["retain", "--help"]) == CLEAN
    assert "--high-watermark" in capsys.readouterr().out


def test_ages_and_limits_are_for_people_in_a_table_and_milliseconds_in_json(capsys):
    (log_dir,) = golden.log_dirs(golden.shared("unclean-4.3.1"))
    words = (log_dir / "far-timestamps-0", "--set=retention.ms=3600000", "--now", 1794830400000)
    _, out, _ = run(capsys, *words)
    assert out.splitlines()[2].endswith("  3 y 2 d old, above retention.ms 3600000 (1 h)")
    _, out, _ = run(capsys, *words, "--format", "json")
    assert '"reason": "94830400000 ms old, above retention.ms 3600000"' in out


def test_sizes_are_for_people_in_a_table(capsys, data):
    words = ("--topic", "tiny-indexed", "--set=retention.ms=-1", "--set=retention.bytes=4000")
    _, out, _ = run(capsys, data, *words)
    assert out.splitlines()[1].endswith("  4.1 KiB remain, at least retention.bytes 4000 (3.9 KiB)")
