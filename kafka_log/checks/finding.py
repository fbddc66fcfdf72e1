"""A finding says what is wrong, where, and by which rule (kafka_log.checks.rules)."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka_log.checks.rules import RULES
from kafka_log.checks.rules.rule import Severity

if TYPE_CHECKING:
    from kafka_format.errors import FormatError


class About(NamedTuple):
    """The file, topic and partition of a finding."""

    path: str
    topic: str | None = None
    partition: int | None = None


class Finding(NamedTuple):
    """Something that is wrong, where, and by which rule."""

    id: str
    severity: Severity
    topic: str | None
    partition: int | None
    path: str
    position: int | None
    offset: int | None
    found: str
    expected: str
    restart: str = ""
    """What a restart does in this case, if the rule's sentence is not exact enough."""
    entry: str = ""
    """What the finding is about if neither file nor offset says so, such as `producer 7`."""

    @classmethod
    def of(  # noqa: PLR0913  # one argument per field
        cls,
        rule: str,
        about: About,
        found: str,
        expected: str,
        *,
        position: int | None = None,
        offset: int | None = None,
        restart: str = "",
        entry: str = "",
    ) -> Finding:
        """Build a finding; `offset` is in the log, `position` in the file."""
        severity = RULES[rule].severity
        return cls(
            rule,
            severity,
            *about[1:],
            about.path,
            position,
            offset,
            found,
            expected,
            restart,
            entry,
        )

    @classmethod
    def of_error(
        cls, rule: str, about: About, error: FormatError, *, offset: int | None = None
    ) -> Finding:
        return cls.of(
            rule,
            about,
            error.found,
            error.expected,
            position=error.location.position,
            offset=offset,
        )

    @property
    def on_restart(self) -> str:
        return self.restart or RULES[self.id].on_restart

    @property
    def what_to_do(self) -> str:
        return RULES[self.id].what_to_do

    @property
    def is_damage(self) -> bool:
        """Whether a reader in mode FAILFAST fails at it."""
        return self.severity is not Severity.NOTE

    def __str__(self) -> str:
        at = self.path if self.position is None else f"{self.path}@{self.position}"
        return f"{at}: {self.id}: found {self.found}, expected {self.expected}"
