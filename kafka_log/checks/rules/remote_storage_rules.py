"""The rules about tiered storage: RMT."""

from kafka_log.checks.rules.rule import Rule

REMOTE_STORAGE_RULES: dict[str, Rule] = {}
