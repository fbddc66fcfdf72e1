"""The rules about producers: transaction indexes, snapshots, leader epochs."""

from kafka_log.checks.rules.rule import Rule, Severity

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

_THROWN_AWAY = (
    "The broker deletes the file and rebuilds the producer state from an older snapshot and the "
    "log."
)
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
    "LEP001": Rule(
        _E,
        "a leader epoch checkpoint that cannot be read",
        DOES_NOT_LOAD,
        "Delete the file while the broker is stopped: it is rebuilt from the segments that are "
        "recovered. Followers may then truncate more than necessary.",
    ),
}
