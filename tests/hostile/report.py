"""The table of attempts and verdicts, for docs/reliability.md."""

from collections import defaultdict
from collections.abc import Iterable, Sequence

from tests.hostile.attempts import Attempt, problems
from tests.hostile.case import VERBS

_GROUPS = {
    "names": "Names and texts with controls, forged lines, no UTF-8, or in place of options",
    "links": "Links out, inside, to nothing, in circles, to devices",
    "special": "Named pipes, sockets, directories and devices in place of files",
    "sparse": "Sparse files of 2^31-1 bytes to 1 TiB",
    "bombs": "Compression bombs of every codec and magic, and sizes that lie",
    "lengths": "Lengths and counts that lie",
    "lies": "Lies with right checksums",
    "places": "Poisoned, deep, crowded and empty directories",
}


def summary(attempts: Sequence[Attempt]) -> list[str]:
    """One row for each class of cases, in Markdown."""
    lines = [
        "| class | cases | attempts | as documented | slowest | most memory |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for group, what in _GROUPS.items():
        found = [each for each in attempts if each["case"].startswith(f"{group}/")]
        if found:
            lines.append(_summary_row(what, found))
    lines.append(_summary_row("all", attempts))
    return lines


def _summary_row(what: str, attempts: Sequence[Attempt]) -> str:
    cases = len({each["case"] for each in attempts})
    good = sum(not problems(each) for each in attempts)
    slowest = max(each.get("seconds", 0) for each in attempts)
    memory = max(each.get("peak_mib", 0) for each in attempts)
    return f"| {what} | {cases} | {len(attempts)} | {good} | {slowest:.1f} s | {memory} MiB |"


def details(attempts: Iterable[Attempt]) -> list[str]:
    """One row for each case: the exit code of every verb, and its slowest one."""
    by_case: dict[str, list[Attempt]] = defaultdict(list)
    for each in attempts:
        by_case[each["case"]].append(each)
    lines = [
        f"| case | {' | '.join(VERBS)} | slowest | verdict |",
        f"|---|{':---:|' * len(VERBS)}---:|---|",
    ]
    for case, found in by_case.items():
        code = {each["verb"]: each["code"] for each in found}
        cells = ["-" if code.get(verb) is None else str(code[verb]) for verb in VERBS]
        slowest = max(each.get("seconds", 0) for each in found)
        bad = [f"{each['verb']}: {problem}" for each in found for problem in problems(each)]
        verdict = "; ".join(bad) or "ok"
        lines.append(f"| {case} | {' | '.join(cells)} | {slowest:.1f} s | {verdict} |")
    return lines
