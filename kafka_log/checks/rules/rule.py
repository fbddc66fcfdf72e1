"""A rule: a kind of finding, what it means for a restart, and what to do about it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Severity(StrEnum):
    """How serious a finding is."""

    ERROR = "error"
    """Data is lost, will be lost or is served wrong, or a broker or partition does not start."""
    WARNING = "warning"
    """Damage that a broker repairs or tolerates."""
    NOTE = "note"
    """Unusual, but nothing breaks."""


class Rule(NamedTuple):
    """A kind of damage, and its consequence."""

    severity: Severity
    title: str
    on_restart: str
    """What a broker does when it starts on this directory."""
    what_to_do: str
    """The first advice; the rule's page has the rest."""
