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
}
