"""The rules about compaction: CLN."""

from kafka_log.checks.rules.rule import Rule

CLEANER_RULES: dict[str, Rule] = {}
