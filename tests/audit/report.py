"""Writes the table of detection rates into docs/reliability.md.

    python -m tests.audit.report POSITIONS [--write]

The same changes for all columns: both changes at a sample of positions, some in every file. `all`
is every position; `make soak` does that for the audit only.
"""

import re
import sys
import tempfile
from collections import Counter
from pathlib import Path

from tests import golden
from tests.audit.bench import Bench
from tests.audit.changes import Change, all_changes, sample
from tests.audit.kafkas import DumpLog, Start
from tests.audit.kinds import KINDS, kind_of
from tests.audit.sweep import Sweep
from tests.audit.unseen import CLASSES
from tests.oracle.client import Oracle

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"
BEGIN, END = "<!-- sweep -->", "<!-- end of sweep -->"
HEADINGS = (
    "file",
    "changes",
    "audit",
    "kafka-dump-log",
    "start after a clean stop",
    "start after a crash",
)


def measured(bench: Bench, changes: list[Change], scratch: Path) -> tuple[Sweep, list[Counter]]:
    """What the audit reports of these changes, and what Kafka's tools see, by kind of file."""
    sweep = Sweep(bench)
    kafkas: list[Counter[str]] = [Counter(), Counter(), Counter()]
    with Oracle() as oracle:
        dump_log = DumpLog(oracle, bench)
        dump_log.look_at_healthy()
        starts = [
            Start(oracle, bench, scratch / str(is_clean), is_clean=is_clean)
            for is_clean in (True, False)
        ]
        for change in changes:
            sweep.look_at(change)
            kind = kind_of(change.file)
            with bench.with_files({change.file: change.apply(bench.files[change.file])}):
                kafkas[0][kind] += dump_log.sees(change)
                for seen, start in zip(kafkas[1:], starts, strict=True):
                    seen[kind] += start.sees(change)
    return sweep, kafkas


def table(sweep: Sweep, kafkas: list[Counter]) -> str:
    lines = [f"| {' | '.join(HEADINGS)} |", f"|{'---|' * len(HEADINGS)}"]
    rows = [(kind, [kind]) for kind in KINDS] + [("**all**", list(KINDS))]
    for name, kinds in rows:
        total = sum(sweep.changes[kind] for kind in kinds)
        cells = [_rate(counts, kinds, total) for counts in (sweep.reported, *kafkas)]
        lines.append(f"| {' | '.join((name, f'{total:,}', *cells))} |")
    lines += ["", "| nobody can see | changes | because |", "|---|---|---|"]
    for each in CLASSES:
        lines.append(f"| {each.name} | {sweep.unseen[each.name]} | {each.reason} |")
    return "\n".join(lines)


def _rate(counts: Counter, kinds: list[str], total: int) -> str:
    rate = 100 * sum(counts[kind] for kind in kinds) / total
    return f"{rate:.0f} %" if rate in (0, 100) else f"{rate:.1f} %"


def write(text: str) -> None:
    page = PAGE.read_text("utf-8")
    block = f"{BEGIN}\n{text}\n{END}"
    pattern = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    PAGE.write_text(pattern.sub(lambda _: block, page), "utf-8")


def main(arguments: list[str]) -> int:
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(golden.shared("small-4.3.1") / "data", Path(scratch, "bench"))
        is_all = arguments[:1] == ["all"]
        changes = [*all_changes(bench.files)] if is_all else sample(bench.files, int(arguments[0]))
        sweep, kafkas = measured(bench, changes, Path(scratch))
    text = table(sweep, kafkas)
    print(text)
    for change in sweep.missed:
        print(f"not reported: {change}", file=sys.stderr)
    if "--write" in arguments:
        write(text)
    return bool(sweep.missed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
