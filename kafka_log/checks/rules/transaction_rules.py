"""The rules about transactions and their coordinator: TRN."""

from kafka_log.checks.rules.rule import Rule

TRANSACTION_RULES: dict[str, Rule] = {}
