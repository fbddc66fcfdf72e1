"""A verb in this process: what it says on both streams, and how it ends."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from jobs import audit, compact, dump, offsets, recover, retain, transactions
from jobs import list as list_verb
from jobs.options import CLEAN

VERBS = {
    "audit": audit.main,
    "list": list_verb.main,
    "dump": dump.main,
    "offsets": offsets.main,
    "transactions": transactions.main,
    "recover": recover.main,
    "retain": retain.main,
    "compact": compact.main,
}
"""Those that read a log dir."""


def run_verb(
    main: Callable[[list[str]], int], capsys: pytest.CaptureFixture[str], *arguments: object
) -> tuple[int, str, str]:
    """Exit code, stdout, stderr."""
    code = main([str(each) for each in arguments])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def rows_of_verb(
    main: Callable[[list[str]], int],
    capsys: pytest.CaptureFixture[str],
    *arguments: object,
    expect: int = CLEAN,
) -> list[dict[str, Any]]:
    code, out, err = run_verb(main, capsys, *arguments, "--format", "json")
    assert code == expect, err
    return [json.loads(line) for line in out.splitlines()]
