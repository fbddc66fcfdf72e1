"""Every rule has a page that says the same, and a test that produces it."""

import re
from pathlib import Path

import pytest

from kafka_log.checks.rules import RULES

ROOT = Path(__file__).parents[3]
PAGES = ROOT / "docs" / "findings"


@pytest.mark.parametrize("rule", RULES)
def test_every_rule_has_a_page_that_says_what_the_rule_says(rule):
    page = (PAGES / f"{rule}.md").read_text(encoding="utf-8")
    text = " ".join(page.split())
    assert page.startswith(f"# {rule}: {RULES[rule].title}\n")
    assert f"Severity: {RULES[rule].severity}." in text
    assert f"## On a restart {RULES[rule].on_restart} ## What to do" in text
    assert f"## What to do {RULES[rule].what_to_do}" in text
    listed = (PAGES / "README.md").read_text(encoding="utf-8")
    assert f"| [{rule}]({rule}.md) | {RULES[rule].severity} | {RULES[rule].title} |" in listed


def test_there_is_no_page_without_a_rule():
    assert {page.stem for page in PAGES.glob("*.md")} == RULES.keys() | {"README"}


def test_ids_have_a_prefix_and_three_digits():
    assert [rule for rule in RULES if not re.fullmatch(r"[A-Z]{3}\d{3}", rule)] == []


def test_every_rule_is_named_by_a_test():
    tests = [path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    text = "\n".join(path.read_text(encoding="utf-8") for path in tests)
    assert [rule for rule in RULES if rule not in text] == []
