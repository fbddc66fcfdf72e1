"""The rules about what lies between the segments of a log."""

from kafka_log.checks.rules.rule import Rule, Severity

_E = Severity.ERROR

SEGMENT_RULES: dict[str, Rule] = {
    "LOG020": Rule(
        _E,
        "offsets are missing between two segments of a log that was never compacted",
        "The log loads with the gap. Consumers that reach it continue at the next segment, and "
        "the missing records are not reported.",
        "Restore the partition from another replica: move this directory away, and let the broker "
        "copy it again.",
    ),
    "LOG021": Rule(
        _E,
        "index files without their `.log`",
        "The broker deletes the index files. The records of the segment stay missing.",
        "Restore the partition from another replica. Search the disk for the `.log` first: only "
        "this file is missing.",
    ),
    "LOG022": Rule(
        _E,
        "two segments that contain the same offsets",
        "Both stay. A reader gets the offsets from the first segment, then from the second.",
        "Find out which of the two does not belong there (`kafka-forensics dump`), and move its "
        "files away.",
    ),
}
