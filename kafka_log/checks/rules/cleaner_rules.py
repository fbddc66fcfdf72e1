"""The rules about compaction: CLN."""

from kafka_log.checks.rules.rule import Rule, Severity

_W, _N = Severity.WARNING, Severity.NOTE

CLEANER_RULES: dict[str, Rule] = {
    "CLN001": Rule(
        _W,
        "a batch at which the cleaner stops",
        "When the log is next due, the cleaner fails at this batch and marks the partition as "
        "uncleanable. It tries again only after the next restart. The log grows until then.",
        "If another replica is sound, delete this directory while the broker is stopped, so that "
        "it is copied again. Otherwise, `kafka-forensics compact --output DIR --skip-damaged` "
        "writes a copy without the damaged batches.",
    ),
    "CLN002": Rule(
        _W,
        "records without a key in a compacted topic",
        "The next round of the cleaner removes these records.",
        "If they are needed, copy them to another topic before the broker cleans the log. They "
        "were written before the topic was compacted: a broker now refuses such records.",
    ),
    "CLN003": Rule(
        _N,
        "a compacted log that is due for cleaning",
        "The cleaner cleans the log soon after the start.",
        "Nothing. `kafka-forensics compact --dry-run` shows what the round will remove.",
    ),
    "CLN004": Rule(
        _N,
        "tombstones that a round of the cleaner should have removed",
        "They stay until the next round of the cleaner over this log.",
        "Nothing: readers see the deletions again. If delete.retention.ms was not lowered in "
        "between, report it as a bug of the broker.",
    ),
    "CLN005": Rule(
        _W,
        "a compacted log that was due for more than a day and was not cleaned",
        "The cleaner cleans the log soon after the start, if nothing stops it (CLN001).",
        "Check the broker's logs for an uncleanable partition or a dead cleaner thread, and "
        "log.cleaner.enable.",
    ),
}
