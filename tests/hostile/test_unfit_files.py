"""Files that cannot be read as what their names say: every verb says the same of them."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jobs import dump
from jobs.options import CLEAN, COULD_NOT_RUN, FINDINGS
from kafka_format.errors import FormatError
from pipelines.source.options import parse_options
from pipelines.source.storage import Storage
from pipelines.source.tables import reader_of
from pipelines.source.tables.side_files import DamageError
from tests import golden
from tests.jobs.verbs import VERBS, run_verb

NAME = f"{0:020}.log"
TALKING = [verb for verb in VERBS if verb != "audit"]
"""Verbs that report on stderr; an audit has findings on stdout."""


@pytest.fixture
def evidence(tmp_path: Path) -> Path:
    (source,) = golden.log_dirs(golden.shared("clean-3.9.1"))
    shutil.copytree(source / "transactions-0", tmp_path / "data" / "t-0")
    shutil.copy(source / "meta.properties", tmp_path / "data")
    return tmp_path / "data"


SMALL_FILES = {
    "meta.properties": 1024 * 1024,
    "recovery-point-offset-checkpoint": 64 * 1024 * 1024,
    "t-0/leader-epoch-checkpoint": 16 * 1024 * 1024,
    "t-0/partition.metadata": 8 * 1024,
}


@pytest.mark.parametrize("name", SMALL_FILES)
@pytest.mark.parametrize("verb", TALKING)
def test_a_file_that_is_too_large_has_one_limit_and_one_line(
    capsys: pytest.CaptureFixture[str], evidence: Path, verb: str, name: str
) -> None:
    path = evidence / name
    path.touch()
    os.truncate(path, 8 * 2**30)
    code, _, err = run_verb(VERBS[verb], capsys, evidence)
    (line,) = [line for line in err.splitlines() if str(path) in line]
    assert f"found {8 * 2**30} bytes, expected at most {SMALL_FILES[name]}, the largest" in line
    assert code == FINDINGS


def _fifo(path: Path) -> str:
    os.mkfifo(path)
    return "a named pipe"


def _directory(path: Path) -> str:
    path.mkdir()
    return "a directory"


@pytest.mark.parametrize("make", [_fifo, _directory])
@pytest.mark.parametrize("verb", TALKING)
def test_something_else_under_the_name_of_the_only_segment_is_a_finding(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, verb: str, make: Callable[[Path], str]
) -> None:
    (tmp_path / "t-0").mkdir()
    path = tmp_path / "t-0" / NAME
    found = make(path)
    for given in (path.parent, tmp_path, path):
        code, _, err = run_verb(VERBS[verb], capsys, given)
        assert code == FINDINGS
        assert f"{path}: found {found}, expected a regular file\n" in err
        assert "nothing of Kafka's" not in err


@pytest.mark.parametrize("verb", VERBS)
def test_a_text_file_is_nothing_of_kafkas(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, verb: str
) -> None:
    path = tmp_path / "text.txt"
    path.write_text("hello")
    code, out, err = run_verb(VERBS[verb], capsys, path)
    assert code == COULD_NOT_RUN
    assert f"{path}: no Kafka files found\n" in err
    assert "TOPIC" not in out


@pytest.mark.parametrize("verb", TALKING)
def test_a_named_pipe_under_the_name_of_the_lock_is_a_finding(
    capsys: pytest.CaptureFixture[str], evidence: Path, verb: str
) -> None:
    os.mkfifo(evidence / ".lock")
    code, _, err = run_verb(VERBS[verb], capsys, evidence)
    assert code == FINDINGS
    assert f"{evidence / '.lock'}: found a named pipe, expected a regular file\n" in err


@pytest.mark.parametrize("name", SMALL_FILES)
def test_an_audit_has_a_finding_for_a_file_that_is_too_large(
    capsys: pytest.CaptureFixture[str], evidence: Path, name: str
) -> None:
    path = evidence / name
    path.touch()
    os.truncate(path, 8 * 2**30)
    found = findings_of(capsys, evidence, str(path))
    assert [row["id"] for row in found] == ["DIR006"]
    assert found[0]["found"] == f"{8 * 2**30} bytes"


@pytest.mark.parametrize("make", [_fifo, _directory])
@pytest.mark.parametrize("name", [".lock", f"t-0/{NAME}"])
def test_an_audit_has_a_finding_for_something_else_than_a_file(
    capsys: pytest.CaptureFixture[str], evidence: Path, make: Callable[[Path], str], name: str
) -> None:
    path = evidence / name
    path.unlink(missing_ok=True)
    what = make(path)
    found = findings_of(capsys, evidence, str(path))
    assert ("DIR005", what) in [(row["id"], row["found"]) for row in found]


def findings_of(
    capsys: pytest.CaptureFixture[str], evidence: Path, path: str
) -> list[dict[str, Any]]:
    """The findings about one path, which an audit prints to stdout."""
    code, out, _ = run_verb(VERBS["audit"], capsys, evidence, "--format", "json")
    assert code in (FINDINGS, COULD_NOT_RUN)
    rows = map(json.loads, out.splitlines())
    return [row for row in rows if row["kind"] == "finding" and row["path"] == path]


def test_dump_does_not_call_a_lock_unknown(
    capsys: pytest.CaptureFixture[str], evidence: Path
) -> None:
    (evidence / ".lock").touch()
    code, out, err = run_verb(dump.main, capsys, evidence)
    assert (code, f"Dumping {evidence / '.lock'}\n" in out) == (CLEAN, True)
    assert "unknown" not in err


# ------------------------------------------------------------------------------------- tables


def _rows(table: str, path: Path, **options: str) -> list[dict[str, Any]]:
    chosen = parse_options({"table": table, "path": str(path), **options})
    reader = reader_of(table)
    splits = reader.plan(chosen, Storage(chosen.paths))
    return [
        row for split in splits for batch in reader.read(split, chosen) for row in batch.to_pylist()
    ]


def test_tables_have_a_row_for_a_log_that_is_a_named_pipe(evidence: Path) -> None:
    (evidence / "fifo-0").mkdir()
    log = evidence / "fifo-0" / NAME
    os.mkfifo(log)
    (row,) = [row for row in _rows("records", evidence) if row["topic"] == "fifo"]
    said = f"{log}@0: DIR005: found a named pipe, expected a regular file"
    assert row["_corrupt_record"] == said
    with pytest.raises(FormatError, match="found a named pipe, expected a regular file"):
        _rows("records", evidence, mode="FAILFAST")


def test_tables_have_a_row_for_a_log_behind_a_link(evidence: Path, tmp_path: Path) -> None:
    (evidence / "t-0").rename(tmp_path / "t-0")
    (evidence / "t-0").symlink_to("../t-0")
    (evidence / "file-0").mkdir()
    (evidence / "file-0" / NAME).symlink_to(f"../../t-0/{NAME}")
    rows = [row for row in _rows("records", evidence) if row["_corrupt_record"] is not None]
    paths = {"t": str(evidence / "t-0"), "file": str(evidence / "file-0" / NAME)}
    assert {row["topic"] for row in rows} == {*paths}
    for row in rows:
        assert row["_corrupt_record"].startswith(f"{paths[row['topic']]}@0: DIR007: found ")
    findings = {(row["id"], row["topic"], row["path"]) for row in _rows("findings", evidence)}
    assert findings == {("DIR007", topic, path) for topic, path in paths.items()}


NAMED_PIPES = (
    *("meta.properties", ".lock", "recovery-point-offset-checkpoint", f"t-0/{5:020}.log"),
    *(f"t-0/{7:020}.index", "t-0/leader-epoch-checkpoint", "t-0/partition.metadata"),
)


def test_every_named_pipe_is_a_finding(evidence: Path) -> None:
    for name in NAMED_PIPES:
        (evidence / name).unlink(missing_ok=True)
        os.mkfifo(evidence / name)
    found = [row for row in _rows("findings", evidence) if row["id"] == "DIR005"]
    assert {row["path"] for row in found} == {str(evidence / name) for name in NAMED_PIPES}
    assert {row["found"] for row in found} == {"a named pipe"}
    assert not [row for row in _rows("findings", evidence) if row["id"] == "DIR004"]


@pytest.mark.parametrize("table", ["offset_index", "checkpoints", "leader_epochs"])
def test_failfast_fails_at_a_named_pipe(evidence: Path, table: str) -> None:
    for name in NAMED_PIPES:
        (evidence / name).unlink(missing_ok=True)
        os.mkfifo(evidence / name)
    with pytest.raises(DamageError, match="found a named pipe"):
        _rows(table, evidence, mode="FAILFAST")
