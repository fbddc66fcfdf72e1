"""Compare the transaction index of a segment with its markers.

Each ABORT that ends a transaction has an entry in the index of the segment that contains it.
Differences that Kafka leaves are no findings:

    compaction removes the data of an aborted transaction before its entry and its marker
    a transaction may have begun before the first batch that is left
    a follower writes the last stable offset of a whole chunk: the start of a later transaction
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_format.transaction_index import (
    ENTRY_SIZE,
    AbortedTransaction,
    decode_transaction_index_columns,
)
from kafka_log.checks.finding import Finding

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_format.primitives import Buffer
    from kafka_log.checks.finding import About

_REFUSED_VERSION = 1 << 8  # Kafka reads only the first byte


class EndedInSegment(NamedTuple):
    """A transaction that a marker of the segment aborts."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    since: int
    """From here on, no offset up to the marker is missing."""


class BareMarker(NamedTuple):
    """A marker without data before it."""

    producer_id: int
    is_abort: bool
    since: int


class SegmentTransactions:
    """What the markers of one segment say, collected while it is replayed."""

    def __init__(self) -> None:
        self.aborted: dict[int, EndedInSegment] = {}
        """By the offset of the marker."""
        self.bare: dict[int, BareMarker] = {}
        self.starts: set[int] = set()
        """The first offsets of transactions."""
        self.is_damaged = False
        """Whether markers may be missing."""


class IndexToCheck(NamedTuple):
    """The index of a segment: where it is, and how it is used."""

    about: About
    """The path is that of the index, also if it is missing."""
    data: Buffer | None
    """None if there is no file."""
    is_whole: bool
    """Whether its form has no findings."""
    will_be_rebuilt: bool
    """Whether a restart recovers the segment."""
    log_start_offset: int
    next_offset: int
    """The offset after the last batch of the segment."""


class TransactionIndexCheck:
    """Compares the indexes of a partition, segment by segment."""

    def __init__(self) -> None:
        self._too_high: dict[int, Finding] = {}
        """Entries whose last stable offset lies beyond their segment, by that offset."""

    def check(self, index: IndexToCheck, markers: SegmentTransactions) -> Iterator[Finding]:
        for offset in markers.starts & self._too_high.keys():
            del self._too_high[offset]
        expected = {
            last: txn for last, txn in markers.aborted.items() if last >= index.log_start_offset
        }
        if index.data is None:
            if expected:
                first = next(iter(expected.values()))
                found, wanted = "no file", f"{len(expected)} entries, the first {_shown(first)}"
                yield _finding("TXN004", index, first, found, wanted)
            return
        entries = _entries(index.data)
        for last, txn in expected.items():
            yield from self._compare(index, markers, txn, entries.get(last))
        if index.is_whole and not markers.is_damaged:
            for last, (position, entry) in entries.items():
                if last not in markers.aborted:
                    yield from _extra(index, markers, entry, position)

    def finish(self) -> Iterator[Finding]:
        """Yield what no later batch has explained."""
        yield from self._too_high.values()

    def _compare(
        self,
        index: IndexToCheck,
        markers: SegmentTransactions,
        txn: EndedInSegment,
        found: tuple[int, AbortedTransaction] | None,
    ) -> Iterator[Finding]:
        if found is None or found[1].producer_id != txn.producer_id:
            shown = "no entry" if found is None else _shown(found[1])
            yield _finding("TXN005", index, txn, shown, _shown(txn))
            return
        position, entry = found
        if markers.is_damaged:
            return
        if entry.first_offset != txn.first_offset:
            first = min(entry.first_offset, txn.first_offset)
            is_possible = 0 <= entry.first_offset <= entry.last_offset
            if not is_possible or (txn.since <= first and first >= index.log_start_offset):
                yield _finding("TXN005", index, txn, _shown(entry), _shown(txn), position)
            return
        yield from self._compare_stable(index, markers, txn, found)

    def _compare_stable(
        self,
        index: IndexToCheck,
        markers: SegmentTransactions,
        txn: EndedInSegment,
        found: tuple[int, AbortedTransaction],
    ) -> Iterator[Finding]:
        position, entry = found
        stored, implied = entry.last_stable_offset, txn.last_stable_offset
        if stored == implied or 0 <= min(stored, implied) < index.log_start_offset:
            return
        if 0 <= stored < min(implied, txn.since):
            return  # the transaction that was open then was aborted later, and compacted
        rule = "TXN008" if stored > implied else "TXN009"
        shown = f"last stable offset {stored}"
        finding = _finding(rule, index, txn, shown, f"{implied}", position)
        is_after = implied == txn.last_offset + 1 and stored > implied
        if is_after and stored in markers.starts:
            return
        if is_after and stored >= index.next_offset:
            self._too_high.setdefault(stored, finding)
            return
        yield finding


def _entries(data: Buffer) -> dict[int, tuple[int, AbortedTransaction]]:
    """Return the entries that Kafka reads, with their positions, by last offset."""
    slots = decode_transaction_index_columns(data)
    refused = np.flatnonzero(slots["version"] >= _REFUSED_VERSION)
    readable = slots[: refused[0]] if len(refused) else slots
    return {
        row[3]: (place * ENTRY_SIZE, AbortedTransaction._make(row))
        for place, row in enumerate(readable.tolist())
    }


def _extra(
    index: IndexToCheck, markers: SegmentTransactions, entry: AbortedTransaction, position: int
) -> Iterator[Finding]:
    if entry.last_offset < index.log_start_offset:
        return
    marker = markers.bare.get(entry.last_offset)
    if marker is None or marker.producer_id != entry.producer_id or not marker.is_abort:
        expected = "an ABORT of the producer at the last offset"
    elif marker.since > entry.first_offset:
        return  # compacted, or begun before what is left
    else:
        expected = "data of the producer before the ABORT"
    yield _finding("TXN006", index, entry, _shown(entry), expected, position)


def _shown(txn: EndedInSegment | AbortedTransaction) -> str:
    return f"producer {txn.producer_id}, offsets {txn.first_offset} to {txn.last_offset}"


def _finding(
    rule: str,
    index: IndexToCheck,
    txn: EndedInSegment | AbortedTransaction,
    found: str,
    expected: str,
    position: int | None = None,
) -> Finding:
    """Return the finding; an index that a restart rebuilds is damage that Kafka repairs."""
    if index.will_be_rebuilt and rule != "TXN009":
        rule = "TXN007"
    return Finding.of(
        rule,
        index.about,
        found,
        expected,
        position=position,
        offset=txn.last_offset,
        entry=f"producer {txn.producer_id}, marker {txn.last_offset}",
    )
