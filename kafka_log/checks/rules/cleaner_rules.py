"""The rules about compaction: CLN."""

from __future__ import annotations

from kafka_log.checks.rules.rule import Rule

CLEANER_RULES: dict[str, Rule] = {}
