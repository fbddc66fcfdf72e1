"""Write the table of docs/findings/README.md: `python -m tests.kafka_log.checks.findings_page`."""

from __future__ import annotations

import re
from pathlib import Path

from kafka_log.checks.rules import RULES

PAGE = Path(__file__).parents[3] / "docs" / "findings" / "README.md"


def table() -> str:
    rows = [
        f"| [{rule}]({rule}.md) | {each.severity} | {each.title} |" for rule, each in RULES.items()
    ]
    return "\n".join(["| id | severity | problem |", "|---|---|---|", *rows]) + "\n"


def write() -> None:
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(re.sub(r"\| id \|.*?\|\n(?!\|)", table(), text, flags=re.DOTALL), "utf-8")


if __name__ == "__main__":
    write()
