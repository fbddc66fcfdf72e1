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
    "REC005": Rule(
        _E,
        "a record of tiered storage that cannot be decoded",
        "The broker stops reading __remote_log_metadata at the record. It neither copies nor "
        "deletes segments of the partitions that are tracked there, and does not serve them from "
        "remote storage.",
        "Restore the partition of __remote_log_metadata from another replica.",
    ),
    "REC006": Rule(
        _N,
        "a record of tiered storage with an unknown type or version",
        "The broker stops reading __remote_log_metadata at the record.",
        "After a downgrade, upgrade again.",
    ),
    "GRP001": Rule(
        _W,
        "a committed offset beyond the end of its partition",
        "The coordinator loads the commit as it is. The consumer finds its offset out of range and "
        "starts where auto.offset.reset says; if the log has grown past the offset by then, it "
        "skips the new records without an error.",
        "Find out what the log lost: `kafka-forensics recover`, and the other replicas. Then reset "
        "the group's offset with kafka-consumer-groups.",
    ),
    "GRP002": Rule(
        _N,
        "committed offsets for a topic that is gone",
        "The coordinator loads them. They expire after offsets.retention.minutes.",
        "Nothing, unless the topic is created again: delete the offsets first, because a commit "
        "without a topic id then applies to the new topic.",
    ),
    "GRP003": Rule(
        _N,
        "committed offsets below the start of their partitions",
        "The coordinator loads them. The consumer finds its offset out of range and starts where "
        "auto.offset.reset says.",
        "Nothing, if the group is no longer used. Otherwise its consumers are slower than "
        "retention: raise retention.ms or retention.bytes.",
    ),
    "GRP004": Rule(
        _N,
        "a partition of __consumer_offsets that is filled by one group",
        "The coordinator reads the whole partition before it serves any of its groups. They wait "
        "longer.",
        "Check how often the group commits, how long its metadata is, and whether the cleaner "
        "cleans the partition (CLN001, CLN003).",
    ),
}
