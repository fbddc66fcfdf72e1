"""What the verbs over partitions share: what they refuse, and how they tell of trouble."""

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobs import compact, offsets, recover, retain, transactions
from jobs.options import CLEAN, COULD_NOT_RUN, FINDINGS, USAGE
from tests.jobs.trees import tree
from tests.jobs.verbs import run_verb
from tests.kafka_log.disk.test_output import small_disk
from tests.unreadable import open_the_way, unreadable

NOW = "--now=1794820000000"
COMPACT = ("--set=cleanup.policy=compact", NOW)
REWRITING: dict[str, tuple[Any, ...]] = {
    "retain": (retain.main, "--set=retention.bytes=0", NOW),
    "recover": (recover.main, NOW),
    "compact": (compact.main, *COMPACT),
}
ALL: dict[str, tuple[Any, ...]] = REWRITING | {
    "offsets": (offsets.main,),
    "transactions": (transactions.main,),
    "explain-key": (compact.main, *COMPACT, "--explain-key=k"),
    "what-if": (compact.main, *COMPACT, "--what-if=delete.retention.ms=0"),
}
EVERYWHERE = {
    "no PATH given": [],
    "PATH must not be empty": [""],
    "found a file": ["{data}/meta.properties"],
    "did you mean retention.ms": ["{data}", "--set=retention.msec=1"],
    "retention.ms": ["{data}", "--set=retention.ms=soon"],
    "--config: {data}/nowhere: No such file": ["{data}", "--config={data}/nowhere"],
    "--config: {data}: found a directory": ["{data}", "--config={data}"],
    "argument --config: found an empty string, expected a file": ["{data}", "--config="],
    ".log@0: found byte 0x00, expected text": [
        *("{data}", "--config={data}/codecs-0/00000000000000000000.log"),
    ],
}
OF_WRITERS = {
    "not allowed with": ["{data}", "--output", "x", "--in-place"],
    "found an empty string, expected a new directory": ["{data}", "--output", ""],
}
HIGH_WATERMARK = {
    "an offset applies to one partition": ["{data}", "--high-watermark", "7"],
    "expected an offset, or `end`": ["{data}", "--high-watermark", "last"],
}
OF_COMPACT = {
    "'0': expected 1 or more, `until-clean` or `until-unchanged`": ["{data}", "--passes", "0"],
    "'all': expected 1 or more, `until-clean` or `until-unchanged`": ["{data}", "--passes", "all"],
    "'-1': expected an offset": ["{data}", "--first-dirty", "-1"],
    "an offset applies to one partition": ["{data}", "--first-dirty", "7"],
    "'9223372036854775808': expected an offset": ["{data}", "--first-dirty", str(2**63)],
    "'0': expected a size of 16384 bytes or more, such as 128m or 134217728": [
        "{data}",
        "--task-memory",
        "0",
    ],
    "--explain-format needs --explain": ["{data}", "--explain-format", "parquet"],
    "'1Q': expected a size, such as 128m or 134217728": ["{data}", "--dedupe-buffer-size", "1Q"],
    "did you mean log.cleaner.dedupe": ["{data}", "--set=log.cleaner.dedup.buffer.size=1"],
    "found an empty string, expected a new directory": ["{data}", "--explain", ""],
    "'0': expected 1 or more": ["{data}", "--cores", "0"],
    "argument --md5-keys: not allowed with": ["{data}", "--exact-keys", "--md5-keys"],
}
REFUSED = [
    (verb, arguments, problem)
    for verbs, cases in (
        (("retain", "recover", "compact", "offsets", "transactions"), EVERYWHERE),
        (REWRITING, OF_WRITERS),
        (("retain", "compact"), HIGH_WATERMARK),
        (("compact",), OF_COMPACT),
    )
    for verb in verbs
    for problem, arguments in cases.items()
]


@pytest.mark.parametrize(("verb", "arguments", "problem"), REFUSED)
def test_what_makes_no_sense_is_refused_in_a_line(capsys, data, verb, arguments, problem):
    main, *_ = ALL[verb]
    code, out, err = run_verb(main, capsys, *(each.format(data=data) for each in arguments))
    assert (code, out) == (USAGE, "")
    first, usage = err.splitlines()
    assert problem.format(data=data) in first
    assert usage == f"usage: kafka-forensics {verb} PATH... [options]"


# ---------------------------------------------------------------------------------- checkpoints


def garbage(data, name):
    """Seven bytes of it, behind a version and a count."""
    (data / name).write_bytes(b"0\n1\nno row\n")


@pytest.mark.parametrize("name", ["replication-offset-checkpoint", "cleaner-offset-checkpoint"])
@pytest.mark.parametrize("mode", ["--output={out}", "--in-place"])
@pytest.mark.parametrize("verb", REWRITING)
def test_with_a_malformed_checkpoint_nothing_is_written(capsys, data, tmp_path, verb, mode, name):
    garbage(data, name)
    before = tree(data)
    main, *settings = REWRITING[verb]
    where = mode.format(out=tmp_path / "out")
    code, _, err = run_verb(main, capsys, data, *settings, where)
    assert code == COULD_NOT_RUN
    reported = [line for line in err.splitlines() if name in line]
    where = f"{data / name}@4: found 'no row', expected topic partition offset"
    assert reported == [f"{where}; nothing was written: repair the file, or move it away"]
    assert tree(data) == before
    assert [each.name for each in tmp_path.iterdir()] == ["data"]


@pytest.mark.parametrize("verb", ALL)
def test_a_malformed_checkpoint_is_a_finding_where_nothing_is_written(capsys, data, verb):
    """Kafka takes the log dir offline, which it has to be reported apart from."""
    name = "cleaner-offset-checkpoint"
    garbage(data, name)
    main, *settings = ALL[verb]
    code, out, err = run_verb(main, capsys, data, *settings, "--format", "json")
    assert code == FINDINGS
    (reported,) = [line for line in err.splitlines() if name in line]
    assert reported.startswith(
        f"{data / name}@4: CKP001: found 'no row', expected topic partition offset;"
    )
    assert "a broker takes the log dir offline" in reported
    findings = [row for row in map(json.loads, out.splitlines()) if row.get("kind") == "finding"]
    if verb not in ("offsets", "transactions"):  # whose rows are of other kinds
        (row,) = findings
        assert (row["id"], row["file"], row["position"]) == ("CKP001", str(data / name), 4)
        assert (row["path"], row["found"]) == (str(data), "'no row'")


def test_a_checkpoint_of_a_log_dir_that_is_not_meant_changes_nothing(capsys, data, tmp_path):
    other = Path(shutil.copytree(data, tmp_path / "other"))
    shutil.rmtree(other / "tiny.segments-0")
    garbage(other, "cleaner-offset-checkpoint")
    out = tmp_path / "out"
    topic = ("--topic", "tiny.segments")
    code, _, err = run_verb(compact.main, capsys, data, other, *topic, *COMPACT, "--output", out)
    assert (code, out.exists()) == (CLEAN, True)
    assert "other/cleaner-offset-checkpoint: at 4: found 'no row'" in err


# ----------------------------------------------------------------------- what may not be read


@pytest.mark.parametrize(
    "name", ["tiny.segments-0", "tiny.segments-0/partition.metadata", "cleaner-offset-checkpoint"]
)
@pytest.mark.parametrize("verb", ALL)
def test_what_may_not_be_read_is_told_once(capsys, data, tmp_path_factory, verb, name):
    main, *settings = ALL[verb]
    words = (data, "--topic", "tiny*", *settings)
    if not (data / name).exists():
        (data / name).write_text("0\n0\n")
    run_verb(main, capsys, *words)  # all that it imports is loaded: nobody may not read that either
    open_the_way(tmp_path_factory.getbasetemp(), data)
    with unreadable(data / name):
        code, _, err = run_verb(main, capsys, *words)
    assert code == COULD_NOT_RUN
    reported = [line for line in err.splitlines() if line.startswith(f"{data / name}: ")]
    assert reported == [f"{data / name}: Permission denied"]


@pytest.mark.parametrize("verb", REWRITING)
def test_a_checkpoint_that_may_not_be_read_is_told_once_and_that_nothing_was_written(
    capsys, data, tmp_path, tmp_path_factory, verb
):
    main, *settings = REWRITING[verb]
    words = (data, "--topic", "tiny*", *settings)
    run_verb(main, capsys, *words)
    open_the_way(tmp_path_factory.getbasetemp(), data)
    path = data / "replication-offset-checkpoint"
    with unreadable(path):
        code, _, err = run_verb(main, capsys, *words, "--output", tmp_path / "out")
    assert code == COULD_NOT_RUN
    assert err.splitlines()[:2] == [f"{path}: Permission denied", "nothing was written"]
    assert not (tmp_path / "out").exists()


def test_a_log_dir_that_may_not_be_read_is_not_said_to_be_empty(capsys, data, tmp_path_factory):
    run_verb(compact.main, capsys, data, *COMPACT)
    open_the_way(tmp_path_factory.getbasetemp(), data)
    with unreadable(data):
        code, _, err = run_verb(compact.main, capsys, data, *COMPACT)
    assert (code, err) == (COULD_NOT_RUN, f"{data}: Permission denied\n")


# ------------------------------------------------------------------------- where it may be written


@pytest.mark.parametrize("verb", REWRITING)
def test_in_place_is_refused_while_a_broker_lives(capsys, data, verb):
    (data / ".lock").write_bytes(b"")
    before = tree(data)
    hold = "import fcntl, sys; f = open(sys.argv[1], 'r+b'); fcntl.lockf(f, fcntl.LOCK_EX); "
    hold += "print('held', flush=True); sys.stdin.read()"
    holder = subprocess.Popen(
        [sys.executable, "-c", hold, str(data / ".lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    main, *settings = REWRITING[verb]
    try:
        assert holder.stdout.readline() == b"held\n"
        code, _, err = run_verb(main, capsys, data, *settings, "--in-place")
    finally:
        holder.communicate()
    assert code == COULD_NOT_RUN
    assert "expected no live broker" in err
    assert tree(data) == before
    with (data / ".lock").open("r+b") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


@pytest.mark.parametrize("place", [".", "out", "tiny.segments-0", "tiny.segments-0/out"])
@pytest.mark.parametrize("verb", REWRITING)
def test_output_inside_the_evidence_is_refused(capsys, data, verb, place):
    before = tree(data)
    main, *settings = REWRITING[verb]
    words = (data / "tiny.segments-0", *settings, "--output", data / place)
    code, _, err = run_verb(main, capsys, *words)
    assert code == COULD_NOT_RUN
    assert "must not be inside the evidence" in err
    assert tree(data) == before


@pytest.mark.parametrize("room", ["8k", "64k", "256k"])
@pytest.mark.parametrize("verb", sorted(REWRITING))
def test_a_full_output_disk_is_one_line_and_leaves_nothing(capsys, data, tmp_path, verb, room):
    before = tree(data)
    main, *settings = REWRITING[verb]
    with small_disk(tmp_path / "disk", room):
        out = tmp_path / "disk" / "out"
        code, table, err = run_verb(main, capsys, data, *settings, "--output", out)
        assert code == COULD_NOT_RUN
        assert table == ""
        assert err.splitlines() == [
            f"{out}: No space left on device where the copy is written; nothing was written"
        ]
        assert list((tmp_path / "disk").iterdir()) == []
    assert tree(data) == before


@pytest.mark.parametrize("verb", sorted(REWRITING))
def test_in_place_does_not_change_a_backup_of_hard_links(capsys, data, tmp_path, verb):
    """As `cp -al` makes it."""
    partition = data / "tiny.segments-0"
    backup = Path(shutil.copytree(partition, tmp_path / "backup", copy_function=os.link))
    before = tree(data), tree(backup)
    main, *settings = REWRITING[verb]
    code, _, err = run_verb(main, capsys, partition, *settings, "--in-place")
    assert (code, (tree(data), tree(backup))) == (COULD_NOT_RUN, before)
    assert re.search(rf"{partition}/\S+: found 2 hard links to this file, expected 1", err)


@pytest.mark.parametrize("verb", ["retain", "compact"])
def test_in_place_does_not_write_through_a_link(capsys, data, tmp_path, verb):
    partition = data / "tiny.segments-0"
    log = min(partition.glob("*.log"))
    elsewhere = Path(shutil.move(log, tmp_path / "elsewhere"))
    log.symlink_to(elsewhere)
    before = tree(partition), elsewhere.read_bytes()
    main, *settings = REWRITING[verb]
    code, _, err = run_verb(main, capsys, partition, *settings, "--in-place")
    assert (code, (tree(partition), elsewhere.read_bytes())) == (COULD_NOT_RUN, before)
    assert f"{log}: {log.name} -> {elsewhere}: a link out of the given paths" in err


@pytest.mark.parametrize("name", ["o\x1b[2J\nFORGED", "x" * 250, "\N{SNOWMAN}" * 85])
@pytest.mark.parametrize("verb", [*REWRITING, "explain"])
def test_any_name_of_an_output_is_taken_and_shown_on_one_line(capsys, data, tmp_path, verb, name):
    """A control character went to the terminal; a long name was `too long`, of its parent."""
    main, *settings = REWRITING.get(verb, REWRITING["compact"])
    option = "--explain" if verb == "explain" else "--output"
    words = (data / "tiny.segments-0", *settings, option, tmp_path / name)
    code, _, err = run_verb(main, capsys, *words)
    assert code == CLEAN, err
    assert (tmp_path / name).is_dir()
    assert "\x1b" not in err
    assert not any(line.startswith("FORGED") for line in err.splitlines())


def test_a_name_that_no_file_system_takes_is_blamed_itself(capsys, data, tmp_path):
    main, *settings = REWRITING["retain"]
    code, _, err = run_verb(main, capsys, data, *settings, "--output", tmp_path / ("x" * 256))
    assert code == COULD_NOT_RUN
    assert f"{tmp_path / ('x' * 256)}: File name too long" in err
