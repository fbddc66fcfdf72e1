"""The rules about records of Kafka's own topics."""

from kafka_log.checks.rules.rule import Rule, Severity

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

INTERNAL_TOPIC_RULES: dict[str, Rule] = {
    "REC001": Rule(
        _E,
        "a coordinator record that cannot be decoded",
        "The coordinator cannot load this partition: its groups or share groups are not served. "
        "From a transaction log, nothing after the record is loaded.",
        "A tombstone for that key removes the record, or the cleaner after a newer value. Until "
        "then, the coordinator of the partition does not load on 4.x.",
    ),
    "REC002": Rule(
        _N,
        "a coordinator record with an unknown type or version",
        "An unknown type is skipped. An unknown version stops the loading of a partition of "
        "groups or share groups; in the transaction log it is skipped.",
        "After a downgrade, upgrade again. Otherwise, do nothing.",
    ),
    "REC003": Rule(
        _E,
        "a metadata record that cannot be decoded",
        "The node fails when it replays the metadata.",
        "Restore the metadata log from another controller.",
    ),
    "REC004": Rule(
        _N,
        "a metadata record with an unknown type or version",
        "An unknown type stops the replay of the metadata. An unknown version is read as the "
        "newest known version.",
        "After a downgrade, upgrade again. Otherwise, do nothing.",
    ),
}
