"""The rules about tiered storage: RMT."""

from kafka_log.checks.rules.rule import Rule, Severity

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

REMOTE_STORAGE_RULES: dict[str, Rule] = {
    "RMT001": Rule(
        _W,
        "a copy to remote storage that never finished",
        "The leader copies the segment again, under a new id. Nothing reads what was copied "
        "before; it is deleted when retention reaches its offsets.",
        "Nothing is lost. If remote storage has an object with this segment id, it takes space "
        "until then.",
    ),
    "RMT002": Rule(
        _W,
        "a deletion from remote storage that never finished",
        "The leader deletes the segment again when it next looks for expired segments. Nothing "
        "reads it.",
        "If it stays, check the logs of the leader for errors of its remote storage.",
    ),
    "RMT003": Rule(
        _W,
        "an event of tiered storage that Kafka drops",
        "The broker logs an error and ignores the event. If it is the first event of a segment, "
        "the broker stops reading __remote_log_metadata there.",
        "Check whether records before it are missing: damage in the log of __remote_log_metadata, "
        "or retention on that topic.",
    ),
    "RMT004": Rule(
        _E,
        "a gap between segments in remote storage",
        "Once the local log no longer has the offsets of the gap, readers find them out of range "
        "and start where auto.offset.reset says.",
        "Look for the segment in remote storage and on other replicas before local retention "
        "deletes it.",
    ),
    "RMT005": Rule(
        _N,
        "segments in remote storage that overlap",
        "For an offset in both, the segment that begins later is read. The other is deleted when "
        "retention reaches its offsets.",
        "Nothing: after a change of leaders, the new one may copy offsets again.",
    ),
    "RMT006": Rule(
        _W,
        "a segment in remote storage outside the leader epochs of its partition",
        "Readers do not find it, because they look for the leader epochs of the partition. It is "
        "deleted when all of its epochs are older than those.",
        "If there was an unclean leader election, these are records that it lost: copy the object "
        "from remote storage if they are needed.",
    ),
    "RMT007": Rule(
        _W,
        "a partition whose deletion from remote storage never finished",
        "Its segments stay in remote storage.",
        "Delete the objects of this topic id from remote storage.",
    ),
}
