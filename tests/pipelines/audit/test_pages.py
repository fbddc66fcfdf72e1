"""Every rule has a page to print, also from a zip."""

import pytest

from kafka_log.checks.rules import RULES
from pipelines.audit import pages


@pytest.mark.parametrize("rule", RULES)
def test_a_page_is_about_its_rule(rule):
    assert pages.page(rule).startswith(f"# {rule}: ")


def test_without_pages_the_rule_itself_is_printed(monkeypatch):
    monkeypatch.setattr(pages, "__file__", "/nowhere/pipelines/audit/pages.py")
    text = pages.page("LOG001")
    assert text.startswith("# LOG001: a batch has a wrong checksum\n\nSeverity: error.")
    assert RULES["LOG001"].what_to_do in text
