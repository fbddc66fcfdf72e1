"""`--in-place` on a hostile log dir: refused before any change, and nothing outside is written."""

import os
from pathlib import Path
from typing import Any

import pytest

from jobs import compact, recover, retain
from jobs.options import COULD_NOT_RUN
from kafka_log.disk.files import DiskFiles
from kafka_log.disk.output import OutputError, exclusive
from tests.hostile import healthy
from tests.jobs.trees import tree
from tests.jobs.verbs import run_verb

VERBS: dict[str, tuple[Any, ...]] = {
    "retain": (retain.main, "--set=retention.ms=1"),
    "recover": (recover.main, "--clean-shutdown=no", "--set=retention.ms=1"),
    "compact": (compact.main, "--first-dirty=0", "--set=cleanup.policy=compact"),
}
OPTIONS = ("--now=2026-11-17T00:00:00Z", "--engine=local", "--in-place")
CHECKPOINTS = (
    *("recovery-point-offset-checkpoint", "log-start-offset-checkpoint"),
    *("replication-offset-checkpoint", "cleaner-offset-checkpoint"),
)
WRITTEN = (
    *(f"{name}.tmp" for name in CHECKPOINTS),
    *(".kafka_cleanshutdown", ".kafka_cleanshutdown.tmp", ".lock"),
    *("compacted-0/leader-epoch-checkpoint", "compacted-0/leader-epoch-checkpoint.tmp"),
    "compacted-0/00000000000000000000.log",
)
VICTIM = b"not yours\n"


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    """A healthy log dir, and a file outside that nobody may touch."""
    healthy.make(tmp_path / "evidence")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "victim").write_bytes(VICTIM)
    return tmp_path / "evidence"


def victim_of(evidence: Path) -> Path:
    return evidence.parent / "outside" / "victim"


def link(path: Path, victim: Path) -> None:
    path.symlink_to(victim)


def dangling(path: Path, victim: Path) -> None:
    path.symlink_to(victim.with_name("created"))


def hard_link(path: Path, victim: Path) -> None:
    path.hardlink_to(victim)


def named_pipe(path: Path, victim: Path) -> None:  # as the others
    os.mkfifo(path)


def directory(path: Path, victim: Path) -> None:  # as the others
    path.mkdir()


KINDS = {
    "a symbolic link, expected a file": link,
    "a symbolic link, expected": dangling,
    "2 hard links to this file, expected 1": hard_link,
    "a named pipe, expected a regular file": named_pipe,
    "a directory, expected a regular file": directory,
}


def names_below(path: Path) -> list[str]:
    return sorted(str(each.relative_to(path)) for each in path.rglob("*"))


@pytest.mark.parametrize(("found", "make"), KINDS.items())
@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("verb", VERBS)
def test_a_trap_under_a_name_that_is_written_is_refused(capsys, evidence, verb, name, make, found):
    """It was written through: the file outside was overwritten, and the exit code was 0."""
    victim = victim_of(evidence)
    (evidence / name).unlink(missing_ok=True)
    make(evidence / name, victim)
    before = tree(evidence), names_below(evidence.parent)
    main, *settings = VERBS[verb]
    code, _, err = run_verb(main, capsys, evidence, *settings, *OPTIONS, "--follow-links")
    assert code == COULD_NOT_RUN
    assert f"{evidence / name}: " in err
    assert f": found {found}" in err or "nothing was written" in err  # the reason was given before
    assert (tree(evidence), names_below(evidence.parent)) == before
    assert victim.read_bytes() == VICTIM


@pytest.mark.parametrize("name", [".lock", ".kafka_cleanshutdown.tmp"])
@pytest.mark.parametrize("verb", VERBS)
def test_it_is_refused_too_where_only_a_partition_is_given(capsys, evidence, verb, name):
    dangling(evidence / name, victim_of(evidence))
    before = tree(evidence), names_below(evidence.parent)
    main, *settings = VERBS[verb]
    code, _, err = run_verb(main, capsys, evidence / "compacted-0", *settings, *OPTIONS)
    assert code == COULD_NOT_RUN
    assert f"{evidence / name}: " in err
    assert (tree(evidence), names_below(evidence.parent)) == before


@pytest.mark.parametrize("verb", VERBS)
def test_one_partition_with_a_trap_keeps_the_others_as_they_are(capsys, evidence, verb):
    """The one before it was changed already when its turn came."""
    hard_link(evidence / "transactions-0" / "leader-epoch-checkpoint.tmp", victim_of(evidence))
    before = tree(evidence)
    main, *settings = VERBS[verb]
    code, out, err = run_verb(main, capsys, evidence, *settings, *OPTIONS)
    assert (code, out, tree(evidence)) == (COULD_NOT_RUN, "", before), err


@pytest.mark.parametrize("verb", VERBS)
def test_a_stale_temporary_file_is_no_trap(capsys, evidence, verb):
    for name in (*CHECKPOINTS, ".kafka_cleanshutdown"):
        (evidence / f"{name}.tmp").write_bytes(
            b"half of something longer than what replaces it" * 9
        )
    main, *settings = VERBS[verb]
    code, _, err = run_verb(main, capsys, evidence, *settings, *OPTIONS)
    assert code != COULD_NOT_RUN, err
    assert (evidence / ".kafka_cleanshutdown").read_bytes().startswith(b"{")


# ------------------------------------------------------- what takes its place after the check


@pytest.mark.parametrize("make", [link, dangling, named_pipe])
def test_a_temporary_file_is_never_written_through_what_stands_there(tmp_path, make):
    victim = tmp_path / "victim"
    victim.write_bytes(VICTIM)
    make(tmp_path / "checkpoint.tmp", victim)
    before = names_below(tmp_path)
    with pytest.raises(FileExistsError):
        DiskFiles(tmp_path).replace("checkpoint", b"new")
    assert (victim.read_bytes(), names_below(tmp_path)) == (VICTIM, before)


def test_a_temporary_file_with_another_name_is_made_again(tmp_path):
    (tmp_path / "victim").write_bytes(VICTIM)
    hard_link(tmp_path / "checkpoint.tmp", tmp_path / "victim")
    DiskFiles(tmp_path).replace("checkpoint", b"new")
    assert (tmp_path / "victim").read_bytes() == VICTIM
    assert (tmp_path / "checkpoint").read_bytes() == b"new"


@pytest.mark.parametrize("make", [link, dangling, hard_link])
def test_no_file_is_opened_to_write_that_is_also_elsewhere(tmp_path, make):
    victim = tmp_path / "victim"
    victim.write_bytes(VICTIM)
    make(tmp_path / "00000000000000000000.log", victim)
    before = names_below(tmp_path)
    with pytest.raises(OSError, match=r"a symbolic link, not written|it has 2 hard links"):
        DiskFiles(tmp_path).open("00000000000000000000.log", create=True)
    assert (victim.read_bytes(), names_below(tmp_path)) == (VICTIM, before)


@pytest.mark.parametrize("make", [link, dangling, hard_link, named_pipe])
def test_the_lock_is_a_file_of_the_log_dir(tmp_path, make):
    (tmp_path / "data").mkdir()
    (tmp_path / "victim").write_bytes(VICTIM)
    make(tmp_path / "data" / ".lock", tmp_path / "victim")
    before = names_below(tmp_path)
    with pytest.raises((OutputError, OSError)), exclusive(tmp_path / "data"):
        raise AssertionError("not reached")
    assert names_below(tmp_path) == before
