"""Every decision as a table: all combinations of what it depends on, and the reason by name.

Each table is run through the plain functions, which rows call, and through the compiled loops.
"""

from itertools import product
from typing import Any

import numpy as np
import pytest

from kafka_format.columnar import kernels as k
from kafka_format.columnar.compilation import can_compile
from kafka_log.cleaner import decision
from kafka_log.cleaner.decision import (
    BATCH_DROPPED,
    BY_ROWS,
    EMPTY_BATCH_REMOVED,
    RECORD_BY_RECORD,
    ActiveProducers,
    BatchDecision,
    Limits,
    PieceArrays,
)
from kafka_log.cleaner.reasons import BY_CODE, IS_KEPT, REMOVED_FROM, Reason, removed_counts
from kafka_log.cleaner.stats import Removed
from tests.compiled import needs_numba

NOW, MAP_END = 1000, 50

TOMBSTONES = {
    # magic, stored delete horizon, what applies to magic 0 and 1
    (2, None, "tombstone_of_old_segment"): "tombstone_gets_horizon",
    (2, NOW + 1, "tombstone_of_old_segment"): "tombstone_in_horizon",
    (2, NOW, "tombstone_of_old_segment"): "tombstone_past_horizon",
    (2, NOW - 1, "tombstone_of_young_segment"): "tombstone_past_horizon",
    (2, -5, "tombstone_of_young_segment"): "tombstone_past_horizon",
    (1, None, "tombstone_of_old_segment"): "tombstone_of_old_segment",
    (1, None, "tombstone_of_young_segment"): "tombstone_of_young_segment",
    (0, None, "tombstone_gets_horizon"): "tombstone_gets_horizon",
}

OFFSETS = (10, MAP_END, MAP_END + 1)
KEYS = (-1, 0, 3)
VALUES = (-1, 0, 7)
LATEST = (-1, 0, +1)  # no key like it, or the distance of the latest one from the record

RECORDS = {
    # is after the map, has a key, has a value, the latest of its key
    (False, True, True, "unknown"): "key_not_dirty",
    (False, True, True, "itself"): "latest",
    (False, True, True, "later"): "superseded",
    (False, True, False, "unknown"): None,  # as TOMBSTONES has it
    (False, True, False, "itself"): None,
    (False, True, False, "later"): "tombstone_superseded",
    (False, False, True, "unknown"): "no_key",
    (False, False, False, "unknown"): "no_key",
    (True, True, True, "unknown"): "after_map",
    (True, True, True, "itself"): "after_map",
    (True, True, True, "later"): "after_map",
    (True, True, False, "unknown"): "after_map",
    (True, True, False, "itself"): "after_map",
    (True, True, False, "later"): "after_map",
    (True, False, True, "unknown"): "after_map",
    (True, False, False, "unknown"): "after_map",
}

MARKERS = {
    # whether its transaction has no batch left, stored delete horizon
    (False, None): "marker_kept",
    (False, NOW + 1): "marker_kept",
    (False, NOW): "marker_kept",
    (True, None): "marker_gets_horizon",
    (True, NOW + 1): "marker_in_horizon",
    (True, NOW): "marker_past_horizon",
    (True, NOW - 1): "marker_past_horizon",
}

BATCHES = {
    # is the last of the round, is the last of its producer, what becomes of its records
    (False, False, RECORD_BY_RECORD): "empty_batch_removed",
    (False, False, Reason.ABORTED.code): "batch_dropped",
    (False, False, Reason.MARKER_PAST_HORIZON.code): "batch_dropped",
    (False, False, Reason.MARKER_KEPT.code): "empty_batch_removed",
    (False, False, Reason.MARKER_GETS_HORIZON.code): "empty_batch_removed",
    (False, False, Reason.MARKER_IN_HORIZON.code): "empty_batch_removed",
    (False, True, RECORD_BY_RECORD): "empty_batch_kept_last_of_producer",
    (False, True, Reason.ABORTED.code): "empty_batch_kept_last_of_producer",
    (False, True, Reason.MARKER_PAST_HORIZON.code): "empty_batch_kept_last_of_producer",
    (False, True, Reason.MARKER_KEPT.code): "empty_batch_kept_last_of_producer",
    (True, False, RECORD_BY_RECORD): "empty_batch_kept_end_of_round",
    (True, False, Reason.ABORTED.code): "empty_batch_kept_end_of_round",
    (True, False, Reason.MARKER_PAST_HORIZON.code): "empty_batch_kept_end_of_round",
    (True, True, RECORD_BY_RECORD): "empty_batch_kept_end_of_round",
    (True, True, Reason.ABORTED.code): "empty_batch_kept_end_of_round",
}

PRODUCERS = ActiveProducers(np.array([3, 7]), np.array([20, -1]), np.array([0, 5]))
LAST_OF_PRODUCER = {
    # producer id, last offset, is a control batch, producer epoch
    (-1, 20, False, 0): False,
    (2, 20, False, 0): False,
    (5, 20, False, 0): False,
    (9, 20, False, 0): False,
    (3, 20, False, 0): True,
    (3, 19, False, 0): False,
    (3, 20, True, 0): True,
    (3, 21, True, 0): False,
    (7, 20, True, 5): True,
    (7, 20, True, 4): False,
    (7, 20, False, 5): False,
    (7, -1, False, 5): False,
}


def names(codes: np.ndarray | list[int]) -> list[str]:
    return [BY_CODE[int(code)].text for code in codes]


def code(name: str) -> int:
    return Reason[name.upper()].code


def executors() -> list[Any]:
    found = [pytest.param(decision, id="plain")]
    if can_compile():
        found.append(pytest.param(decision.load(), id="compiled"))
    return found


@pytest.mark.parametrize("executor", executors())
def test_tombstones(executor) -> None:
    for (magic, horizon, of_legacy), expected in TOMBSTONES.items():
        found = executor.tombstone_reason(
            magic < 2, horizon is not None, horizon or 0, NOW, code(of_legacy)
        )
        assert names([found]) == [expected], (magic, horizon, of_legacy)


def rows() -> list[tuple[tuple[int, int, int, int], tuple[bool, bool, bool, str]]]:
    """Every combination: offset, key and value length, latest of key; and what they amount to."""
    found = []
    for offset, key, value, distance in product(OFFSETS, KEYS, VALUES, LATEST):
        is_known = key >= 0 and distance >= 0
        latest = offset + 5 * distance if is_known else -1
        of_key = ("itself", "later")[distance] if is_known else "unknown"
        found.append(
            ((offset, key, value, latest), (offset > MAP_END, key >= 0, value >= 0, of_key))
        )
    return found


@pytest.mark.parametrize("executor", executors())
def test_records(executor) -> None:
    met = set()
    for given, case in rows():
        for tombstone in set(TOMBSTONES.values()):
            found = executor.record_reason(*given, MAP_END, code(tombstone))
            assert names([found]) == [RECORDS[case] or tombstone], (given, case)
        met.add(case)
    assert met == set(RECORDS)


@needs_numba
@pytest.mark.parametrize(("batch", "tombstone"), TOMBSTONES.items())
def test_records_of_a_piece(batch: tuple[int, int | None, str], tombstone: str) -> None:
    """Two batches: the first is decided on record by record, the second as a whole."""
    magic, horizon, of_legacy = batch
    given = [row for row, _ in rows()]
    expected = [RECORDS[case] or tombstone for _, case in rows()]
    count = len(given)
    table = np.zeros((k.HEADER_FIELDS, 2), np.int64)
    table[k.MAGIC] = magic
    if horizon is not None:
        table[k.ATTRIBUTES], table[k.BASE_TIMESTAMP] = 0x40, horizon
    longs, ints = np.zeros((k.LONG_FIELDS, count + 2), np.int64), np.zeros((3, count + 2), np.int32)
    longs[k.OFFSET, :count] = [row[0] for row in given]
    ints[k.KEY_LENGTH, :count] = [row[1] for row in given]
    ints[k.VALUE_LENGTH, :count] = [row[2] for row in given]
    latest_of = np.array([*(row[3] for row in given), -1, -1], np.int64)
    for whole in (Reason.ABORTED.code, BY_ROWS):
        reasons = np.zeros(count + 2, np.uint8)
        counts = np.zeros((2, decision.COUNT_FIELDS), np.int64)
        decision.load().decide_rows(
            PieceArrays(table, longs, ints, np.array([0, count, count + 2], np.int64)),
            latest_of,
            np.array([RECORD_BY_RECORD, whole], np.uint8),
            Limits(MAP_END, NOW, code(of_legacy), 0),
            reasons,
            counts,
        )
        assert names(reasons[:count]) == expected
        assert reasons[count:].tolist() == [whole, whole]
        kept = [Reason[name.upper()].is_kept for name in expected]
        nulls = [is_kept and row[2] < 0 for is_kept, row in zip(kept, given, strict=True)]
        assert counts.tolist() == [[sum(kept), sum(nulls), expected.count("no_key")], [0, 0, 0]]


@pytest.mark.parametrize("executor", executors())
def test_markers(executor) -> None:
    for (can_discard, horizon), expected in MARKERS.items():
        found = executor.marker_reason(can_discard, horizon is not None, horizon or 0, NOW)
        assert names([found]) == [expected], (can_discard, horizon)


@pytest.mark.parametrize("executor", executors())
def test_batches(executor) -> None:
    for given, expected in BATCHES.items():
        assert names([executor.batch_reason(*given)]) == [expected], given


@pytest.mark.parametrize("executor", executors())
def test_the_last_batch_of_a_producer(executor) -> None:
    for given, expected in LAST_OF_PRODUCER.items():
        assert executor.ends_producer(PRODUCERS, *given) == expected, given


@needs_numba
def test_batches_of_a_block() -> None:
    given = [
        (ends_round, ends_producer, of_records, expected)
        for (ends_round, ends_producer, of_records), expected in BATCHES.items()
        if of_records in (RECORD_BY_RECORD, Reason.ABORTED.code)
    ]
    round_end = 21
    producers = PRODUCERS._replace(last_data_offset=np.array([20, 30]))
    ids = {(False, False): 9, (True, False): 9, (False, True): 7, (True, True): 3}
    ends = {(False, False): 25, (True, False): 20, (False, True): 30, (True, True): 20}
    reasons = np.zeros(len(given), np.uint8)
    decision.load().decide_batches(
        np.array([ids[each[:2]] for each in given]),
        np.array([ends[each[:2]] for each in given]),
        producers,
        round_end,
        np.array([each[2] for each in given], np.uint8),
        reasons,
    )
    assert names(reasons) == [each[3] for each in given]


@pytest.mark.parametrize(
    ("has_horizon", "null_values_kept", "expected"),
    [(False, 0, False), (False, 1, True), (False, 9, True), (True, 0, False), (True, 1, False)],
)
@pytest.mark.parametrize("executor", executors())
def test_a_batch_gets_a_horizon_with_its_first_null_value(
    executor, *, has_horizon: bool, null_values_kept: int, expected: bool
) -> None:
    assert executor.needs_horizon(has_horizon, null_values_kept) is expected


@pytest.mark.parametrize(
    ("reason", "records", "expected"),
    [
        (Reason.EMPTY_BATCH_KEPT_END_OF_ROUND.code, 0, Reason.EMPTY_BATCH_KEPT_END_OF_ROUND),
        (Reason.EMPTY_BATCH_KEPT_END_OF_ROUND.code, 3, Reason.EMPTY_BATCH_KEPT_END_OF_ROUND),
        (BATCH_DROPPED, 3, Reason.BATCH_DROPPED),
        (BATCH_DROPPED, 0, Reason.EMPTY_BATCH_REMOVED),
        (EMPTY_BATCH_REMOVED, 0, Reason.EMPTY_BATCH_REMOVED),
        (EMPTY_BATCH_REMOVED, 3, None),  # the reasons of its records say it
    ],
)
def test_a_batch_without_kept_records(reason: int, records: int, expected: Reason | None) -> None:
    decided = BatchDecision(reason, RECORD_BY_RECORD)
    assert decided.reason_without_records(records) is expected


def test_codes_say_kept_or_removed_and_what_is_counted() -> None:
    codes = [reason.code for reason in Reason]
    assert len(set(codes)) == len(codes)
    assert not {RECORD_BY_RECORD, BY_ROWS} & set(codes)
    for reason in Reason:
        assert IS_KEPT[reason.code] == reason.is_kept == (reason.code < REMOVED_FROM)
    counted = {reason.text: reason.counter for reason in Reason if reason.counter}
    assert counted == {
        "superseded": "superseded",
        "tombstone_superseded": "superseded",
        "tombstone_past_horizon": "tombstone",
        "tombstone_of_old_segment": "tombstone",
        "no_key": "without_key",
        "aborted": "aborted",
        "marker_past_horizon": "marker",
    }
    occurrences = np.zeros(256, np.int64)
    occurrences[[each.code for each in Reason]] = 1
    assert Removed(**removed_counts(occurrences)) == Removed(
        superseded=2, tombstone=2, without_key=1, aborted=1, marker=1
    )
