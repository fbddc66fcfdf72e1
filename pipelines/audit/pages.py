"""The page of a rule (docs/findings), as Markdown. The wheel has the pages as well."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

from kafka_log.checks.rules import RULES

_PACKED = "finding_pages"


def page(rule: str) -> str:
    """Return the page of a rule; without one, what the rule itself says."""
    name = f"{rule}.md"
    packed = resources.files("pipelines") / _PACKED / name
    if packed.is_file():
        return packed.read_text(encoding="utf-8")
    source = Path(__file__).parents[2] / "docs" / "findings" / name
    return source.read_text(encoding="utf-8") if source.is_file() else _of_rule(rule)


def _of_rule(rule: str) -> str:
    found = RULES[rule]
    return (
        f"# {rule}: {found.title}\n\nSeverity: {found.severity}.\n\n## On a restart\n\n"
        f"{found.on_restart}\n\n## What to do\n\n{found.what_to_do}\n"
    )
