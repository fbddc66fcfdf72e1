"""Why a record or a batch is kept or removed: one name, one code and one sentence per reason.

The names are stable: docs/explain.md lists them. Codes are bytes, so that kernels write one per
record; codes from REMOVED_FROM on mean removed, so that kept or removed is one comparison.

    BY_CODE[code]        the reason
    IS_KEPT[codes]       which of many records stay
    removed_counts(...)  the counters of a summary, from the number of occurrences of each code

A sentence may contain fields of a row, in braces; those that end in `_ms` are times.
"""

from __future__ import annotations

import string
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

KEPT, REMOVED = "kept", "removed"
REMOVED_FROM = 128
CODES = 256


class Reason(Enum):
    """Reasons in the order of the documentation. A value is code, sentence, and counter."""

    # Records that were decided on.
    LATEST = 0, "the newest record of its key"
    KEY_NOT_DIRTY = 1, "no record of the dirty part has its key"
    SUPERSEDED = 128, "offset {superseded_by} has the same key", "superseded"
    TOMBSTONE_GETS_HORIZON = (
        2,
        "a tombstone that stays until {delete_horizon_ms}: this round sets that delete horizon",
    )
    TOMBSTONE_IN_HORIZON = 3, "a tombstone that stays until {delete_horizon_ms}"
    TOMBSTONE_PAST_HORIZON = (
        129,
        "a tombstone whose delete horizon was {delete_horizon_ms}",
        "tombstone",
    )
    TOMBSTONE_SUPERSEDED = (
        130,
        "a tombstone, and offset {superseded_by} has the same key",
        "superseded",
    )
    TOMBSTONE_OF_YOUNG_SEGMENT = (
        4,
        "a tombstone of magic 0 or 1, its segment not delete.retention.ms older than the clean end",
    )
    TOMBSTONE_OF_OLD_SEGMENT = (
        131,
        "a tombstone of magic 0 or 1: its segment is delete.retention.ms older than the clean end",
        "tombstone",
    )
    NO_KEY = 132, "a record without a key", "without_key"
    AFTER_MAP = 5, "the offset map was full before it: a later round judges it"
    ABORTED = (
        133,
        "producer {producer_id} aborted its transaction: the marker is at {marker_offset}",
        "aborted",
    )
    # Control records that were decided on.
    MARKER_KEPT = 6, "the marker of a transaction that still had batches"
    MARKER_GETS_HORIZON = (
        7,
        "a marker without batches, stays until {delete_horizon_ms}: this round sets that horizon",
    )
    MARKER_IN_HORIZON = (
        8,
        "the marker of a transaction without batches, stays until {delete_horizon_ms}",
    )
    MARKER_PAST_HORIZON = (
        134,
        "the marker of a transaction without batches, its delete horizon was {delete_horizon_ms}",
        "marker",
    )
    CONTROL_KEPT = 9, "a control record that ends no transaction"
    # Batches that keep no record.
    EMPTY_BATCH_KEPT_LAST_OF_PRODUCER = (
        10,
        "a batch without records: the last of producer {producer_id}, which holds its sequence",
    )
    EMPTY_BATCH_KEPT_END_OF_ROUND = (
        11,
        "a batch without records: it ends the cleanable part, and its last offset must be kept",
    )
    EMPTY_BATCH_REMOVED = 135, "a batch without records that nothing keeps"
    BATCH_DROPPED = 136, "dropped whole, its records were not read"
    # Records and batches that no round reached.
    NOT_REACHED = 12, "the offset map was full before its segment: a later round judges it"
    NOT_DIRTY = 13, "nothing after it is dirty, so there is no round"
    NOT_DUE = 14, "dirty, but not enough, and not for long enough: no broker would clean it yet"
    NOT_CLEANABLE_ACTIVE_SEGMENT = 15, "not cleanable: it is in the active segment"
    NOT_CLEANABLE_OPEN_TRANSACTION = (
        16,
        "not cleanable: the open transaction of producer {held_by} holds the last stable offset",
    )
    NOT_CLEANABLE_HIGH_WATERMARK = 17, "not cleanable: not known to be replicated"
    NOT_CLEANABLE_COMPACTION_LAG = (
        18,
        "not cleanable before {held_until_ms}: min.compaction.lag.ms, here or in a segment before",
    )

    def __init__(self, code: int, sentence: str, counter: str | None = None) -> None:
        self.code = code
        self.sentence = sentence
        self.counter = counter
        """The field of `stats.Removed` that a removed record adds one to."""

    @property
    def is_kept(self) -> bool:
        return self.code < REMOVED_FROM

    @property
    def verdict(self) -> str:
        """The column `verdict` of the table `compaction`."""
        return KEPT if self.is_kept else REMOVED

    @property
    def is_decided(self) -> bool:
        """Whether a round reached the record or batch."""
        return not self.name.startswith("NOT")

    @cached_property
    def text(self) -> str:
        """The name as tables and documents have it."""
        return self.name.lower()

    @cached_property
    def parts(self) -> tuple[tuple[str, str | None], ...]:
        """The sentence as pairs of text and the field that follows it."""
        parsed = string.Formatter().parse(self.sentence)
        return tuple((literal, field) for literal, field, _, _ in parsed)


BY_CODE = {reason.code: reason for reason in Reason}
IS_KEPT = np.arange(CODES) < REMOVED_FROM


def removed_counts(occurrences: npt.NDArray[np.int64]) -> dict[str, int]:
    """Return the counters of a summary; `occurrences` says how often each code occurs."""
    counts: dict[str, int] = {}
    for reason in Reason:
        if reason.counter is not None:
            found = int(occurrences[reason.code])
            counts[reason.counter] = counts.get(reason.counter, 0) + found
    return counts
