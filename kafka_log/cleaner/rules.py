"""Why a record or a batch stays or goes, a name each. The names are stable: docs/explain.md.

A sentence may hold fields of a row, in braces; those that end in `_ms` are times.
"""

from __future__ import annotations

import string
from enum import Enum
from functools import cached_property

KEPT, REMOVED = "kept", "removed"


class Rule(Enum):
    """In the order in which the codes of columns count."""

    # Records that were judged.
    LATEST = KEPT, "the newest record of its key"
    KEY_NOT_DIRTY = KEPT, "no record of the dirty part has its key"
    SUPERSEDED = REMOVED, "offset {superseded_by} has the same key"
    TOMBSTONE_GETS_HORIZON = (
        KEPT,
        "a tombstone that stays until {delete_horizon_ms}: this round sets that delete horizon",
    )
    TOMBSTONE_IN_HORIZON = KEPT, "a tombstone that stays until {delete_horizon_ms}"
    TOMBSTONE_PAST_HORIZON = REMOVED, "a tombstone whose delete horizon was {delete_horizon_ms}"
    TOMBSTONE_SUPERSEDED = REMOVED, "a tombstone, and offset {superseded_by} has the same key"
    TOMBSTONE_OF_YOUNG_SEGMENT = (
        KEPT,
        "a tombstone of magic 0 or 1, its segment not delete.retention.ms older than the clean end",
    )
    TOMBSTONE_OF_OLD_SEGMENT = (
        REMOVED,
        "a tombstone of magic 0 or 1: its segment is delete.retention.ms older than the clean end",
    )
    NO_KEY = REMOVED, "a record without a key"
    AFTER_MAP = KEPT, "the offset map was full before it: a later round judges it"
    ABORTED = (
        REMOVED,
        "producer {producer_id} aborted its transaction: the marker is at {marker_offset}",
    )
    # Control records that were judged.
    MARKER_KEPT = KEPT, "the marker of a transaction that still had batches"
    MARKER_GETS_HORIZON = (
        KEPT,
        "a marker without batches, stays until {delete_horizon_ms}: this round sets that horizon",
    )
    MARKER_IN_HORIZON = (
        KEPT,
        "the marker of a transaction without batches, stays until {delete_horizon_ms}",
    )
    MARKER_PAST_HORIZON = (
        REMOVED,
        "the marker of a transaction without batches, its delete horizon was {delete_horizon_ms}",
    )
    CONTROL_KEPT = KEPT, "a control record that ends no transaction"
    # Batches.
    EMPTY_BATCH_KEPT_LAST_OF_PRODUCER = (
        KEPT,
        "a batch without records: the last of producer {producer_id}, whose sequence it tells",
    )
    EMPTY_BATCH_KEPT_END_OF_ROUND = (
        KEPT,
        "a batch without records: where the cleanable part ends, an offset must not be forgotten",
    )
    EMPTY_BATCH_REMOVED = REMOVED, "a batch without records that nothing keeps"
    BATCH_DROPPED = REMOVED, "dropped whole, its records not looked at"
    # What no round came to.
    NOT_REACHED = KEPT, "the offset map was full before its segment: a later round judges it"
    NOT_DIRTY = KEPT, "nothing behind it is dirty, so that there is no round"
    NOT_DUE = KEPT, "dirty, but not enough, and not for long enough: no broker would clean it yet"
    NOT_CLEANABLE_ACTIVE_SEGMENT = KEPT, "not cleanable: it lies in the active segment"
    NOT_CLEANABLE_OPEN_TRANSACTION = (
        KEPT,
        "not cleanable: the open transaction of producer {held_by} holds the last stable offset",
    )
    NOT_CLEANABLE_HIGH_WATERMARK = KEPT, "not cleanable: not known to be replicated"
    NOT_CLEANABLE_COMPACTION_LAG = (
        KEPT,
        "not cleanable before {held_until_ms}: min.compaction.lag.ms, here or in a segment before",
    )

    def __init__(self, verdict: str, sentence: str) -> None:
        self.verdict = verdict
        self.sentence = sentence

    @property
    def is_kept(self) -> bool:
        return self.verdict == KEPT

    @property
    def is_judged(self) -> bool:
        """Whether a round came to it."""
        return not self.name.startswith("NOT")

    @cached_property
    def text(self) -> str:
        """As tables and documents have it."""
        return self.name.lower()

    @cached_property
    def code(self) -> int:
        return RULES.index(self)

    @cached_property
    def parts(self) -> tuple[tuple[str, str | None], ...]:
        """Of the sentence: text, and the field behind it."""
        parsed = string.Formatter().parse(self.sentence)
        return tuple((literal, field) for literal, field, _, _ in parsed)


RULES = tuple(Rule)
