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
    "LOG008": Rule(
        _E,
        "a batch with a magic that no Kafka writes",
        "The batch stays: the broker reads every magic above 1 as 2 from a file. Consumers and "
        "followers refuse it: they get nothing from here on.",
        "Restore the partition from another replica. The checksum does not cover the magic: if it "
        "is correct, the batch is of magic 2, and only this byte is wrong.",
    ),
    "LOG009": Rule(
        _N,
        "a batch with attributes that no Kafka writes",
        "The batch stays, and the bits are ignored. They are lost when the cleaner rewrites it.",
        "Nothing. `producer_id` in the table `batches` names the writer, if it has one.",
    ),
    "LOG010": Rule(
        _E,
        "records with offsets that their batch does not have, or that do not increase",
        "The batch stays: recovery reads headers only. Consumers get the records with these "
        "offsets, commit them, and then skip or repeat records.",
        "Restore the partition from another replica, if its batch is right. Otherwise find the "
        "writer: `producer_id` in the table `batches`.",
    ),
    "LOG011": Rule(
        _W,
        "a batch with a largest timestamp that is not that of its records",
        "The batch stays. Retention by time and searches by time use the timestamp in the header.",
        "Compare with another replica. If the timestamp is too early, retention may delete the "
        "segment too early; if it is too late, the segment stays longer.",
    ),
    "LOG012": Rule(
        _E,
        "a control batch of a form that no Kafka writes",
        "The batch stays. A loader that reads it fails if its record is not a marker, and the "
        "partition does not load. A batch without a producer id ends no transaction.",
        "Restore the partition from another replica. `kafka-forensics dump` prints the batch at "
        "its position.",
    ),
    "LOG013": Rule(
        _E,
        "a batch with a leader epoch that is negative, or below that of the batch before it",
        "The batch stays. Where segments are recovered, the epochs of their batches become those "
        "of the partition: followers and consumers may then truncate or reset to a wrong offset.",
        "Compare with another replica. The checksum does not cover the leader epoch: this batch "
        "or those before it may have a flipped bit.",
    ),
    "LOG014": Rule(
        _W,
        "bytes in a batch that no reader looks at",
        "The bytes stay with the batch, and are ignored. They are lost when the cleaner rewrites "
        "it.",
        "Somebody wrote them on purpose, or changed the record count: `kafka-forensics dump` "
        "prints the batch at its position. Compare with another replica.",
    ),
    "LOG015": Rule(
        _N,
        "a metadata snapshot with other offsets than Kafka gives its batches",
        "Nothing: a snapshot is read from its first to its last record, whatever their offsets.",
        "Compare the snapshot with that of another node: something changed the file after Kafka "
        "wrote it.",
    ),
}
