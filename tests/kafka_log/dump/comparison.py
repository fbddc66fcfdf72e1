"""Our dump beside the original's: what both say, in a form that can be compared."""

import dataclasses
import io
import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from jobs import dump as job
from tests.oracle.client import Oracle

ENGINES = ("rows", "columns")


class Dumped(NamedTuple):
    code: int
    stdout: str
    stderr: str

    @property
    def rows(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stdout.split("\n")[:-1]]

    def of_kind(self, kind: str) -> list[dict[str, Any]]:
        return [row for row in self.rows if row["kind"] == kind]


def run(*argv: object, engine: Any = "auto") -> Dumped:
    """The job in this process, by one engine."""
    out, err = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", out)
        patch.setattr(sys, "stderr", err)
        options = job._options
        patch.setattr(
            job, "_options", lambda words: dataclasses.replace(options(words), engine=engine)
        )
        code = job.main([str(word) for word in argv])
    return Dumped(code, out.buffer.getvalue().decode("utf-8", "replace"), err.getvalue())


def reports(stderr: str) -> dict[str, list[str]]:
    """The original's reports by their headings; it prints files in the order of a hash map."""
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in stderr.splitlines():
        if line.startswith(("  ", "Indexed offset: ")):
            lines.append(line)
        else:
            lines = found.setdefault(line, [])
    return found


def assert_same(oracle: Oracle, files: list[Path], *flags: str, engine: str = "auto") -> None:
    """The same lines in the same order on stdout, and the same reports on stderr."""
    original = oracle.dump("--files", ",".join(map(str, files)), *flags)
    ours = run(*files, *flags, "--all-findings", engine=engine)
    assert ours.stdout.split("\n") == original.stdout.split("\n")
    assert reports(ours.stderr) == reports(original.stderr)
    assert ours.code == 0, ours.stderr
