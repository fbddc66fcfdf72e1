"""The rules about `.log` files."""

from kafka_log.checks.rules.rule import Rule, Severity

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

LOG_RULES: dict[str, Rule] = {
    "LOG001": Rule(
        _E,
        "a batch has a wrong checksum",
        "After an unclean shutdown the log is truncated before this batch if the batch is at or "
        "beyond the recovery point. After a clean shutdown the batch is not checked, and "
        "consumers reject it.",
        "Restore the partition from another replica. `kafka-forensics recover --dry-run` shows "
        "what a start would cut.",
    ),
    "LOG002": Rule(
        _E,
        "bytes that are not a batch",
        "After an unclean shutdown the log is truncated here if this is at or beyond the recovery "
        "point. After a clean shutdown the bytes stay, and every reader that reaches them fails, "
        "including the broker.",
        "Restore the partition from another replica. The tables `records` and `batches` continue "
        "at the next sound batch.",
    ),
    "LOG003": Rule(
        _E,
        "records that cannot be decoded in a batch with a correct checksum",
        "The batch stays: recovery checks checksums, not the records of data batches. Every "
        "reader of the records (consumers, the cleaner, a coordinator that loads) fails here.",
        "Find the writer: `producer_id` in the table `batches`. No restart and no recovery "
        "removes the batch. A consumer must seek past it, and the cleaner marks the partition as "
        "uncleanable.",
    ),
    "LOG004": Rule(
        _W,
        "the last batch is torn",
        "After an unclean shutdown the torn batch is truncated. After a clean shutdown it stays, "
        "and readers stop before it; if an index entry points at it, the log ends at the base "
        "offset of the segment.",
        "After a crash, do nothing. After a clean stop, or in any segment but the last, bytes "
        "were lost: compare with another replica.",
    ),
    "LOG005": Rule(
        _W,
        "zeros after the last batch",
        "After an unclean shutdown the zeros are truncated. After a clean shutdown a broker that "
        "reads this segment while it loads the log (it does read the last one) does not start.",
        "After a crash, do nothing. In a directory that is marked as stopped cleanly, remove "
        "`.kafka_cleanshutdown`, so that the log is recovered.",
    ),
    "LOG006": Rule(
        _W,
        "a batch that was not decoded because its records exceed the limit",
        "Nothing happens: Kafka has no such limit. A client or broker that decompresses the batch "
        "needs the memory for it.",
        "Check the batch first: `kafka-forensics dump` prints its header, with its producer.",
    ),
    "LOG007": Rule(
        _E,
        "a batch with offsets outside its segment, or below those of the batch before it",
        "The batch stays. If recovery reads it (after an unclean shutdown) and no index entry can "
        "hold its offset, the segment is split or the log dir fails. Readers that ask for its "
        "offsets may not find them.",
        "`kafka-forensics dump` prints the batch at its position.",
    ),
}
