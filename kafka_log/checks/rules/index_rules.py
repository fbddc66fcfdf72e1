"""The rules about offset and time indexes."""

from kafka_log.checks.rules.rule import Rule, Severity

_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

_USED_AS_IT_IS = (
    "After an unclean shutdown the index is rebuilt if the segment ends beyond the recovery "
    "point. After a clean shutdown it is used as it is."
)

INDEX_RULES: dict[str, Rule] = {
    "IDX001": Rule(
        _W,
        "an offset index entry that is out of order or impossible",
        _USED_AS_IT_IS,
        "Delete the index while the broker is stopped: a missing `.index` is rebuilt at the next "
        "start. `kafka-forensics recover --dry-run` shows what a start would do.",
    ),
    "IDX002": Rule(
        _W,
        "a partial entry at the end of an offset index",
        _USED_AS_IT_IS,
        "Delete the index while the broker is stopped: a missing `.index` is rebuilt at the next "
        "start. `kafka-forensics recover --dry-run` shows what a start would do.",
    ),
    "IDX003": Rule(
        _W,
        "data after the zeros of an offset index",
        _USED_AS_IT_IS,
        "Delete the index while the broker is stopped: a missing `.index` is rebuilt at the next "
        "start. `kafka-forensics recover --dry-run` shows what a start would do.",
    ),
    "IDX004": Rule(
        _E,
        "an offset index entry that leads readers to a wrong position",
        _USED_AS_IT_IS,
        "Delete the index while the broker is stopped: a missing `.index` is rebuilt at the next "
        "start. Until then, readers that look up an offset may skip records, or fail.",
    ),
    "IDX005": Rule(
        _W,
        "an offset index entry for an offset or a position that is not in the log",
        _USED_AS_IT_IS,
        "Find out whether the log lost its end: compare its last offset with the checkpoints and "
        "with another replica. Then delete the index while the broker is stopped.",
    ),
    "IDX006": Rule(
        _W,
        "a long stretch of a log without an entry in its offset index",
        _USED_AS_IT_IS,
        "Nothing, or delete the index while the broker is stopped: a missing `.index` is rebuilt "
        "at the next start. Until then, a search by offset reads the whole stretch.",
    ),
    "IDX007": Rule(
        _W,
        "a missing offset index",
        "The segment is recovered, and its indexes are rebuilt. Producer snapshots above its base "
        "offset are deleted and partly written again.",
        "Nothing. To know what the recovery will find, run `kafka-forensics recover --dry-run`.",
    ),
    "TIX001": Rule(
        _W,
        "a time index entry that is out of order or impossible",
        _USED_AS_IT_IS,
        "The index is rebuilt when the segment is recovered. Until then, a search by time may end "
        "at a wrong position. Searches by offset are not affected.",
    ),
    "TIX002": Rule(
        _W,
        "a partial entry at the end of a time index",
        _USED_AS_IT_IS,
        "The index is rebuilt when the segment is recovered. Until then, a search by time may "
        "miss the last entry.",
    ),
    "TIX003": Rule(
        _W,
        "data after the zeros of a time index",
        _USED_AS_IT_IS,
        "The index is rebuilt when the segment is recovered. Until then, a search by time may end "
        "at a wrong position.",
    ),
    "TIX004": Rule(
        _W,
        "a time index that does not cover its whole log",
        _USED_AS_IT_IS,
        "The index is rebuilt when the segment is recovered. Until then, a search by time may "
        "skip this segment, and retention by time may delete it too early. Searches by offset are "
        "not affected.",
    ),
    "TIX005": Rule(
        _W,
        "a time index entry that is not the largest timestamp up to its offset",
        _USED_AS_IT_IS,
        "The index is rebuilt when the segment is recovered. Until then, a search by time may "
        "skip records, and retention by time may delete the segment too early or too late.",
    ),
    "TIX006": Rule(
        _W,
        "a missing time index",
        "If the offset index is there, the broker creates an empty time index. Otherwise the "
        "segment is recovered, and both are rebuilt.",
        "Remove the `.index` of the segment as well while the broker is stopped, so that both are "
        "rebuilt. Otherwise a search by time skips the segment, and retention uses the "
        "modification time of the `.log`.",
    ),
}
