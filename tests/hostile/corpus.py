"""All cases, and how one is built on disk.

with built(CASES["special/index-fifo"], tmp_path) as base: …     base / "evidence"
"""

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from tests.hostile import healthy
from tests.hostile.case import Case, codes
from tests.hostile.cases import bombs, lengths, lies, links, names, places, sparse_files
from tests.hostile.cases import special_files as special
from tests.hostile.expected import EXPECTED

EVIDENCE = "evidence"
_MODULES = (names, links, special, sparse_files, bombs, lengths, lies, places)


def _collected() -> dict[str, Case]:
    cases = [case for module in _MODULES for case in module.CASES]
    found = {case.name: case for case in cases}
    assert len(found) == len(cases), "two cases of one name"
    for text, cases_of_it in EXPECTED.items():
        wanted = dict(each.split("=") for each in text.split())
        parsed = {verb: {*map(int, code.split("/"))} for verb, code in wanted.items()}
        for name in cases_of_it:
            found[name] = replace(found[name], codes=codes(**parsed))
    return found


CASES = _collected()


@contextlib.contextmanager
def built(case: Case, scratch: Path) -> Iterator[Path]:
    """The directory around the evidence; removed afterwards, however deep."""
    base = scratch / case.name.replace("/", "+")
    base.mkdir()
    evidence = base / EVIDENCE
    try:
        if case.empty:
            evidence.mkdir()
        else:
            healthy.make(evidence)
        case.build(evidence)
        yield base
    finally:
        subprocess.run(["rm", "-rf", base], check=True)
