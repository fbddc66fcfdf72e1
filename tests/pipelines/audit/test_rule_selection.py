"""Ids of rules as people type them."""

import pytest

from pipelines.audit.rule_selection import RuleSelection, UnknownRuleError, rule_id


def test_ids_are_taken_in_any_case_and_as_lists():
    selection = RuleSelection.of(["log001, LOG002"], ["LOG002"])
    assert [selection.includes(rule) for rule in ("LOG001", "LOG002", "LOG003")] == [
        True,
        False,
        False,
    ]
    assert RuleSelection.of().is_everything
    assert not selection.is_everything


def test_an_unknown_id_is_an_error_with_the_nearest():
    with pytest.raises(UnknownRuleError, match=r"^unknown rule LOG01: did you mean LOG0\d1\?$"):
        rule_id("LOG01")
    with pytest.raises(UnknownRuleError, match=r"^unknown rule nonsense$"):
        rule_id("nonsense")
