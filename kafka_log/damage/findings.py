"""The one table from damage to the id of a finding (docs/findings).

A rule for a class of errors also applies to its subclasses; the first match counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_format.errors import CrcMismatchError, FormatError, OverLimitError, UnsupportedError

if TYPE_CHECKING:
    from kafka_log.damage.walk import Gap

    Table = tuple[tuple[type[FormatError], str], ...]

WRONG_CHECKSUM = "LOG001"
"""A batch whose stored checksum is not the computed one."""
NOT_A_BATCH = "LOG002"
"""Bytes that cannot be a batch."""
NOT_DECODABLE = "LOG003"
"""Records that cannot be decoded, in a batch with a correct checksum."""
OVER_LIMIT = "LOG006"
"""Records larger than the reader's limit."""
OUT_OF_PLACE = "LOG007"
"""A batch outside its segment's offsets, or with offsets below those of the batch before it."""
UNKNOWN_MAGIC = "LOG008"
"""A batch with a magic that no Kafka writes."""
UNKNOWN_ATTRIBUTES = "LOG009"
"""A batch with attributes that no Kafka writes."""
WRONG_OFFSETS = "LOG010"
"""A batch with records outside its offsets, or not in order."""
WRONG_MAX_TIMESTAMP = "LOG011"
"""A batch whose largest timestamp is not that of its records."""
WRONG_CONTROL = "LOG012"
"""A control batch of a form that no Kafka writes."""
EPOCH_GOES_BACK = "LOG013"
"""A batch with a negative leader epoch, or one below that of the batch before it."""
HIDDEN_BYTES = "LOG014"
"""Bytes in a batch that no reader looks at."""

END_IDS = frozenset({"LOG004", "LOG005"})
"""The end of a log is torn or zeroed."""
UNREAD_IDS = frozenset({WRONG_CHECKSUM, NOT_A_BATCH, NOT_DECODABLE}) | END_IDS
"""Something in a log could not be read."""

_IN_A_BATCH: Table = (
    (CrcMismatchError, WRONG_CHECKSUM),
    (OverLimitError, OVER_LIMIT),
    (FormatError, NOT_DECODABLE),
)
_IN_A_SNAPSHOT: Table = (
    (UnsupportedError, "SNP003"),
    (CrcMismatchError, "SNP001"),
    (FormatError, "SNP002"),
)
_AT_THE_END_OF_A_LOG = {
    "corrupt_batch": NOT_A_BATCH,
    "truncated_batch": "LOG004",
    "zeroed_tail": "LOG005",
}


def batch_finding_id(error: FormatError) -> str:
    """Return the id for an error in a batch that is where a batch should be."""
    return _look_up(_IN_A_BATCH, error)


def snapshot_finding_id(error: FormatError) -> str:
    """Return the id for an error in a producer snapshot."""
    return _look_up(_IN_A_SNAPSHOT, error)


def gap_finding_id(gap: Gap, *, is_at_end: bool) -> str:
    """Return the id for bytes between batches, or after the last one if the log ends with them."""
    return _AT_THE_END_OF_A_LOG[gap.reason] if is_at_end else NOT_A_BATCH


def _look_up(table: Table, error: FormatError) -> str:
    return next(finding_id for kind, finding_id in table if isinstance(error, kind))
