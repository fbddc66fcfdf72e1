"""Which rules an audit reports: `--only` and `--skip`."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafka_log.checks.rules import RULES

if TYPE_CHECKING:
    from collections.abc import Iterable


class UnknownRuleError(ValueError):
    """There is no rule with this id."""


def rule_id(text: str) -> str:
    """Return the id of a rule, in capitals. Raises UnknownRuleError with the nearest id."""
    word = text.strip().upper()
    if word in RULES:
        return word
    close = difflib.get_close_matches(word, RULES, n=1)
    hint = f": did you mean {close[0]}?" if close else ""
    raise UnknownRuleError(f"unknown rule {text}{hint}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleSelection:
    """The rules to report. Without `only`, all of them."""

    only: frozenset[str] = frozenset()
    skip: frozenset[str] = frozenset()

    @classmethod
    def of(cls, only: Iterable[str] = (), skip: Iterable[str] = ()) -> RuleSelection:
        """Build from ids, or from lists of ids with commas. Raises UnknownRuleError."""
        return cls(only=_ids(only), skip=_ids(skip))

    def includes(self, rule: str) -> bool:
        return rule not in self.skip and (not self.only or rule in self.only)

    @property
    def is_everything(self) -> bool:
        return not self.only and not self.skip


def _ids(texts: Iterable[str]) -> frozenset[str]:
    return frozenset(rule_id(word) for text in texts for word in text.split(",") if word.strip())
