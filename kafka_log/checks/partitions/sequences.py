"""The sequences and epochs of each producer, from batch headers.

A producer numbers its records in each epoch from 0, and after 2147483647 comes 0. A leader appends
a batch only if its sequence follows the last one, so what is not in sequence was not appended by a
leader that knew the producer:

    gap          only reported where no offset is missing, because compaction removes batches
    duplicate    epoch, sequences and timestamp of one of the last five batches
    back         neither, and not 0: a producer that is forgotten starts again

A broker that has forgotten a producer (it expired, or its snapshots were lost) accepts any
sequence. The coordinators of Kafka's own topics do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_format.attributes import CONTROL
from kafka_format.record import NO_SEQUENCE
from kafka_log.checks.finding import Finding
from kafka_log.names import INTERNAL_TOPICS
from kafka_log.producers.entry import BATCHES_TO_RETAIN, BatchMetadata
from kafka_log.producers.replay import last_sequences

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy.typing as npt

    from kafka_format.columnar.headers import BatchColumns
    from kafka_log.checks.finding import About
    from kafka_log.producers.entry import ProducerStateEntry

    Int64s = npt.NDArray[np.int64]
    Producers = Mapping[int, ProducerStateEntry]

_SEQUENCES = 2**31
_UNKNOWN = -1


def check_sequences(
    batches: BatchColumns,
    since: Int64s,
    producers: Producers,
    about: About,
    *,
    is_never_compacted: bool,
) -> Iterator[Finding]:
    """Yield the findings of batches that follow `producers`; `since` is Continuity's."""
    ordered = _ordered_rows(batches)
    if not len(ordered):
        return
    piece = _Piece(batches, ordered, producers)
    yield from piece.epochs_back(about)
    if about.topic not in INTERNAL_TOPICS:
        yield from piece.out_of_sequence(since, about, is_never_compacted=is_never_compacted)


def _ordered_rows(batches: BatchColumns) -> Int64s:
    """Return the rows of producers, by producer and then in log order.

    Control batches that compaction emptied have no effect.
    """
    is_empty_control = (batches.attributes & CONTROL).astype(np.bool_) & (batches.record_count == 0)
    rows = np.flatnonzero((batches.producer_id >= 0) & ~is_empty_control)
    ordered: Int64s = rows[np.argsort(batches.producer_id[rows], kind="stable")]
    return ordered


class _Expected(NamedTuple):
    """What is expected of data batches, one row per batch."""

    sequence: Int64s
    """-1 if any sequence may come."""
    previous_offset: Int64s
    """The last offset of the producer's batch before it."""


class _Piece:
    """The batches of one piece by producer, with what is known of each producer before it."""

    def __init__(self, batches: BatchColumns, ordered: Int64s, producers: Producers) -> None:
        self._batches = batches
        self._ordered = ordered
        self._producers = producers
        self._producer_id = batches.producer_id[ordered]
        self._epoch = batches.producer_epoch[ordered]
        self._is_first = np.ones(len(ordered), np.bool_)  # of its producer
        self._is_first[1:] = self._producer_id[1:] != self._producer_id[:-1]
        firsts = self._producer_id[self._is_first].tolist()
        self._before = [producers.get(producer_id) for producer_id in firsts]
        epochs = [_UNKNOWN if each is None else each.producer_epoch for each in self._before]
        self._epoch_before = np.empty(len(ordered), np.int64)
        self._epoch_before[1:] = self._epoch[:-1]
        self._epoch_before[self._is_first] = epochs

    def epochs_back(self, about: About) -> Iterator[Finding]:
        for place in np.flatnonzero(self._epoch < self._epoch_before).tolist():
            row = int(self._ordered[place])
            producer_id = int(self._producer_id[place])
            yield Finding.of(
                "PRD004",
                about,
                f"epoch {int(self._epoch[place])} of producer {producer_id}",
                f"at least {int(self._epoch_before[place])}, its epoch before",
                position=int(self._batches.position[row]),
                offset=int(self._batches.base_offset[row]),
                entry=f"producer {producer_id}",
            )

    def out_of_sequence(
        self, since: Int64s, about: About, *, is_never_compacted: bool
    ) -> Iterator[Finding]:
        batches = self._batches
        is_control = (batches.attributes[self._ordered] & CONTROL).astype(np.bool_)
        data = np.flatnonzero(~is_control)
        if not len(data):
            return
        rows = self._ordered[data]
        base = batches.base_sequence[rows]
        last = np.array(last_sequences(base, batches.last_offset_delta[rows]), np.int64)
        expected = self._expected(data, last)
        is_out = (expected.sequence >= 0) & (base >= 0) & (base != expected.sequence)
        for place in np.flatnonzero(is_out).tolist():
            row = int(rows[place])
            batch = _metadata(batches, row, int(last[place]))
            if self._is_duplicate(data, last, place, batch):
                rule = "PRD002"
            elif not base[place]:
                continue
            elif (base[place] - expected.sequence[place]) % _SEQUENCES >= _SEQUENCES // 2:
                rule = "PRD003"
            elif is_never_compacted or since[row] <= expected.previous_offset[place] + 1:
                rule = "PRD001"
            else:
                continue
            producer_id = int(batches.producer_id[row])
            yield Finding.of(
                rule,
                about,
                f"sequences {int(base[place])} to {int(last[place])} of producer {producer_id}",
                f"sequence {int(expected.sequence[place])}",
                position=int(batches.position[row]),
                offset=int(batches.base_offset[row]),
                entry=f"producer {producer_id}",
            )

    def _expected(self, data: Int64s, last: Int64s) -> _Expected:
        epoch_change = self._is_first | (self._epoch != self._epoch_before)
        runs = np.cumsum(epoch_change)
        run = runs[data]
        follows = np.zeros(len(data), np.bool_)  # the batch before it in the same epoch
        follows[1:] = run[1:] == run[:-1]
        sequence = np.zeros(len(data), np.int64)  # a new epoch begins at 0
        sequence[1:][follows[1:]] = (last[:-1][follows[1:]] + 1) % _SEQUENCES
        previous = np.full(len(data), _UNKNOWN, np.int64)
        offsets = self._batches.last_offset[self._ordered]
        has_previous = ~self._is_first[data]
        previous[has_previous] = offsets[data[has_previous] - 1]
        previous[follows] = offsets[data[:-1][follows[1:]]]
        first_run = runs[self._is_first][np.cumsum(self._is_first)[data] - 1]
        first_of_all = np.flatnonzero(~follows & (run == first_run))
        self._expect_from_before(data, first_of_all, sequence, previous)
        return _Expected(sequence, previous)

    def _expect_from_before(
        self, data: Int64s, places: Int64s, sequence: Int64s, previous: Int64s
    ) -> None:
        """Fill in what follows from the producers before the piece, for their first batches."""
        producer = np.cumsum(self._is_first)[data] - 1
        for place in places.tolist():
            entry = self._before[int(producer[place])]
            epoch = int(self._epoch[data[place]])
            if entry is None or entry.producer_epoch < 0:
                sequence[place] = _UNKNOWN
            elif entry.producer_epoch == epoch:
                known = entry.last_seq if entry.batch_metadata else NO_SEQUENCE
                sequence[place] = _UNKNOWN if known < 0 else (known + 1) % _SEQUENCES
                previous[place] = entry.last_data_offset
            else:
                previous[place] = entry.last_data_offset

    def _is_duplicate(self, data: Int64s, last: Int64s, place: int, batch: BatchMetadata) -> bool:
        """Whether one of the producer's last batches has the same sequences and timestamp."""
        at = int(data[place])
        epoch, producer_id = int(self._epoch[at]), int(self._producer_id[at])
        for earlier in range(place - 1, max(-1, place - 1 - BATCHES_TO_RETAIN), -1):
            there = int(data[earlier])
            if int(self._producer_id[there]) != producer_id or int(self._epoch[there]) != epoch:
                return False
            row = int(self._ordered[there])
            if _is_same(_metadata(self._batches, row, int(last[earlier])), batch):
                return True
        entry = self._producers.get(producer_id)
        if entry is None or entry.producer_epoch != epoch:
            return False
        return any(_is_same(each, batch) for each in entry.batch_metadata)


def _metadata(batches: BatchColumns, row: int, last_sequence: int) -> BatchMetadata:
    return BatchMetadata(
        last_sequence,
        int(batches.last_offset[row]),
        int(batches.last_offset_delta[row]),
        int(batches.max_timestamp[row]),
    )


def _is_same(one: BatchMetadata, other: BatchMetadata) -> bool:
    return (one.first_seq, one.last_seq, one.timestamp) == (
        other.first_seq,
        other.last_seq,
        other.timestamp,
    )
