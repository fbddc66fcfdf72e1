"""The rules about producers: transaction indexes, snapshots, leader epochs."""

from kafka_log.checks.rules.rule import Rule, Severity

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

_THROWN_AWAY = (
    "The broker deletes the file and rebuilds the producer state from an older snapshot and the "
    "log."
)
_USED_AS_IT_IS = (
    "The index is used as it is, unless the segment is recovered (after an unclean shutdown, from "
    "the recovery point on): then it is rebuilt from the markers."
)
_REBUILD = (
    "While the broker is stopped, delete the `.index` of the segment: the next start then recovers "
    "the segment, and rebuilds its transaction index from the markers."
)
_SNAPSHOT_USED = (
    "The broker loads the newest snapshot, and reads only the log after it. An older one is not "
    "read."
)
_EPOCHS_STAY = (
    "The broker uses the file as it is. Epochs of batches are only added for segments that are "
    "recovered, and only if they are newer."
)
_EPOCHS_ADVICE = (
    "A follower that asks this broker where an epoch ends gets a wrong answer, and may truncate "
    "too much or too little. Delete the partition's directory on this broker if other replicas "
    "are in sync."
)
_NOT_CHECKED = "Nothing happens: sequences are checked when a leader appends, not when it loads."
DOES_NOT_LOAD = (
    "The partition does not load: the broker does not start, or takes the log dir offline."
)

PRODUCER_RULES: dict[str, Rule] = {
    "TXN001": Rule(
        _E,
        "a transaction index entry with an unknown version",
        "The broker does not start if the first byte of the version is positive. Otherwise the "
        "entry is read as version 0.",
        "While the broker is stopped, remove this file and the `.index` of the segment: the "
        "segment is then recovered, and both are rebuilt.",
    ),
    "TXN002": Rule(
        _W,
        "a transaction index entry that is out of order",
        "The entries are read in any order. If an entry ends before the segment begins, the "
        "segment is recovered and its index rebuilt.",
        "Compare with the markers in the log (table `records` with `includeControl`). A "
        "read_committed consumer may receive aborted records, or miss records.",
    ),
    "TXN003": Rule(
        _W,
        "a partial entry or zeros at the end of a transaction index",
        "A partial entry is not read; zeros are read as a transaction of producer 0. The index is "
        "rebuilt if the segment is recovered.",
        "Compare with the markers in the log (table `records` with `includeControl`): an abort "
        "may be missing, and its records are then served as committed.",
    ),
    "TXN004": Rule(
        _E,
        "no transaction index, although transactions were aborted in the segment",
        _USED_AS_IT_IS,
        _REBUILD + " Until then, read_committed consumers receive aborted records.",
    ),
    "TXN005": Rule(
        _E,
        "an aborted transaction that its transaction index does not have, or has differently",
        _USED_AS_IT_IS,
        _REBUILD + " Until then, read_committed consumers may receive aborted records.",
    ),
    "TXN006": Rule(
        _E,
        "a transaction index entry without an aborted transaction",
        _USED_AS_IT_IS,
        _REBUILD + " Until then, read_committed consumers may miss committed records.",
    ),
    "TXN007": Rule(
        _W,
        "a transaction index that does not match the markers, and that a restart rebuilds",
        "The segment is recovered, and its transaction index is rebuilt from the markers.",
        "Nothing. Do not mark the log dir as stopped cleanly.",
    ),
    "TXN008": Rule(
        _E,
        "a transaction index entry with a last stable offset that is too high",
        _USED_AS_IT_IS,
        _REBUILD + " Until then, a search may stop at this entry and miss later ones, so "
        "read_committed consumers may receive aborted records.",
    ),
    "TXN009": Rule(
        _N,
        "a transaction index entry with a last stable offset that is too low",
        _USED_AS_IT_IS,
        "Nothing: a search for aborted transactions reads further than it must.",
    ),
    "SNP001": Rule(
        _W,
        "a producer snapshot with a wrong checksum",
        _THROWN_AWAY,
        "Nothing: the log has everything that is needed. If older segments were deleted, "
        "producers that wrote only to them are forgotten, and may be refused or duplicated once.",
    ),
    "SNP002": Rule(
        _W,
        "a producer snapshot that is truncated or has a wrong entry count",
        _THROWN_AWAY,
        "Nothing: the log has everything that is needed. If older segments were deleted, "
        "producers that wrote only to them are forgotten, and may be refused or duplicated once.",
    ),
    "SNP003": Rule(
        _W,
        "a producer snapshot with an unknown version",
        _THROWN_AWAY,
        "Nothing: the log has everything that is needed. If older segments were deleted, "
        "producers that wrote only to them are forgotten, and may be refused or duplicated once.",
    ),
    "SNP004": Rule(
        _N,
        "bytes after the entries of a producer snapshot",
        "The bytes are ignored.",
        "Nothing.",
    ),
    "SNP005": Rule(
        _W,
        "a producer snapshot that differs from the log",
        _SNAPSHOT_USED,
        "If it is the newest, delete it while the broker is stopped, but only if an older one "
        "exists: the producers are then rebuilt from that and the log.",
    ),
    "SNP006": Rule(
        _E,
        "the producer snapshot that a restart loads has other open transactions than the log",
        "The broker loads this snapshot. The last stable offset is then wrong, and an abort may "
        "not be indexed.",
        "Delete it while the broker is stopped, but only if an older one exists: the open "
        "transactions are then found again in the log.",
    ),
    "SNP007": Rule(
        _N,
        "a segment without the producer snapshot that Kafka takes when it starts one",
        "Nothing happens: the broker loads a newer snapshot, or reads more of the log.",
        "Nothing, unless it was deleted by hand. A recovery of an earlier segment removes them.",
    ),
    "SNP008": Rule(
        _W,
        "no producer snapshot at the log end after a clean stop",
        "The broker loads an older snapshot and reads the log after it. Without any snapshot it "
        "starts without producers and open transactions.",
        "If there is no other snapshot, delete `.kafka_cleanshutdown`: the producers are then "
        "rebuilt from the log.",
    ),
    "SNP009": Rule(
        _E,
        "a producer snapshot beyond the log end",
        "The broker deletes the snapshot. The offsets up to it are assigned again.",
        "The log once reached this offset, so records are missing at its end. Compare with "
        "another replica before the start.",
    ),
    "LEP001": Rule(
        _E,
        "a leader epoch checkpoint that cannot be read",
        DOES_NOT_LOAD,
        "Delete the file while the broker is stopped: it is rebuilt from the segments that are "
        "recovered. Followers may then truncate more than necessary.",
    ),
    "LEP002": Rule(
        _W,
        "a leader epoch checkpoint that does not match the batches",
        _EPOCHS_STAY,
        _EPOCHS_ADVICE,
    ),
    "LEP003": Rule(
        _W,
        "a leader epoch that starts beyond the log end",
        "The broker removes the entry.",
        "The log once reached this offset, or an election was recorded there. Compare the log end "
        "with another replica.",
    ),
    "LEP004": Rule(
        _W,
        "leader epochs that are out of order",
        "The broker drops the entries that contradict a later one.",
        _EPOCHS_ADVICE,
    ),
    "LEP005": Rule(
        _W,
        "no leader epochs, although the batches have some",
        "The broker starts without them. Only segments that are recovered add their epochs.",
        _EPOCHS_ADVICE,
    ),
    "PRD001": Rule(
        _W,
        "a gap in the sequences of a producer",
        _NOT_CHECKED,
        "Records of this producer may be missing. Compare the offsets with another replica.",
    ),
    "PRD002": Rule(
        _E,
        "a batch of a producer that is in the log twice",
        _NOT_CHECKED,
        "Consumers receive its records twice. Compare with another replica; a broker that lost its "
        "producer state accepts a batch again.",
    ),
    "PRD003": Rule(
        _W,
        "a sequence of a producer that goes back",
        _NOT_CHECKED,
        "Compare the records of the producer around the offset: some may be there twice.",
    ),
    "PRD004": Rule(
        _W,
        "a producer epoch that goes back",
        "The broker logs a warning when it reads the batch, and uses the older epoch.",
        "Find the writer of the batch: a fenced producer may have written after its successor.",
    ),
    "PRD005": Rule(
        _W,
        "a coordinator epoch that goes back",
        "The broker uses the older epoch when it reads the marker.",
        "Find out whether the transaction log lost data: two coordinators may have been active.",
    ),
    "PRD006": Rule(
        _N,
        "a marker that ends no transaction",
        "It changes nothing.",
        "Nothing: a producer that fails before its first batch leaves one.",
    ),
    "PRD007": Rule(
        _E,
        "a batch that a broker cannot replay into its producer state",
        "If the broker reads the batch while it loads the log (after an unclean shutdown, or "
        "without a newer snapshot), the partition does not load.",
        "Restore the partition from another replica. Keep the newest producer snapshot: with it "
        "the batch is not read after a clean stop.",
    ),
}
