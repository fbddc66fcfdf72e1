"""Parts, sets, traces and the capacity of a map that nobody has, each against the plain way."""

import pickle
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_format.batch import RecordBatch, encode_batch
from kafka_format.columnar.headers import HeaderWalk
from kafka_format.control import (
    ControlRecordType,
    encode_control_record,
    end_transaction_marker,
)
from kafka_format.log_file import LogFile
from kafka_format.record import SimpleRecord
from kafka_format.transaction_index import AbortedTransaction
from kafka_log.cleaner.offset_map import OffsetMap
from kafka_log.cleaner.parallel.capacity import last_key, offset_of
from kafka_log.cleaner.parallel.key_index import KeyIndex
from kafka_log.cleaner.parallel.offset_set import OffsetSet, encode_offsets
from kafka_log.cleaner.parallel.scan import KeyRows, _blocks
from kafka_log.cleaner.parallel.trace import Tracer, replay
from kafka_log.cleaner.transactions import CleanedTransactionMetadata

BYTES_A_KEY = 24


# ------------------------------------------------------------------------------------ capacity


def refused_by_a_map(keys: list[int], most: int) -> int | None:
    """The row that a map of so many keys refuses, by having one."""
    offset_map = OffsetMap(BYTES_A_KEY * most, load_factor=1.0)
    for row, key in enumerate(keys):
        if offset_map.is_full:
            return row
        offset_map.put(b"%d" % key, row)
    return None


def refused_by_first_occurrences(keys: list[int], most: int, part_rows: int) -> int | None:
    """The same from what parts know: where their keys occur first."""
    firsts = sorted({key: row for row, key in reversed(list(enumerate(keys)))}.values())
    parts = -(-len(keys) // part_rows)
    counts = np.bincount(np.array(firsts, np.int64) // part_rows, minlength=parts)
    last = last_key(counts, most)
    if last is None:
        return None
    base = last.part * part_rows
    within = [row - base for row in firsts if row // part_rows == last.part]
    shuffled = np.array(within, np.int32)
    np.random.default_rng(most).shuffle(shuffled)
    row = offset_of(last, [shuffled[::2], shuffled[1::2]], base)
    return row + 1 if row + 1 < len(keys) else None


@pytest.mark.parametrize("seed", range(60))
def test_first_occurrences_tell_where_a_map_is_full(seed):
    rng = random.Random(seed)
    keys = [rng.randrange(rng.choice((3, 20, 60))) for _ in range(rng.randrange(2, 80))]
    distinct = len(set(keys))
    part_rows = rng.randrange(1, 30)
    for most in {2, 3, distinct - 1, distinct, distinct + 1} - {-1, 0, 1}:
        expected = refused_by_a_map(keys, most)
        assert refused_by_first_occurrences(keys, most, part_rows) == expected, most


def test_a_map_with_room_for_all_keys_refuses_the_record_behind_the_last_of_them():
    assert refused_by_a_map([1, 2, 1], 2) == 2
    assert refused_by_first_occurrences([1, 2, 1], 2, part_rows=2) == 2


def test_a_map_whose_last_room_went_to_the_last_record_refuses_none():
    assert refused_by_first_occurrences([1, 1, 2], 2, part_rows=2) is None


# ---------------------------------------------------------------------------------------- sets


@given(
    st.lists(st.sets(st.integers(0, 2**18), max_size=50), max_size=4),
    st.lists(st.tuples(st.integers(0, 2**18), st.integers(1, 30_000)), max_size=2),
)
def test_a_set_holds_what_was_put_into_it_and_nothing_else(few, many):
    members = [sorted(each) for each in few]
    members += [[*range(start, start + size)] for start, size in many]
    encoded = [encode_offsets(np.array(each, np.int64)) for each in members]
    found = OffsetSet(encoded)
    asked = np.arange(2**18 + 40_000, dtype=np.int64)
    everything = {offset for each in members for offset in each}
    assert set(np.flatnonzero(found.holds(asked)).tolist()) == everything
    assert len(found) == len(everything)


def test_offsets_far_apart_and_beyond_four_bytes_are_held():
    offsets = np.array([0, 2**31, 2**40 + 1, 2**62], np.int64)
    found = OffsetSet([encode_offsets(offsets)])
    assert found.holds(offsets).all()
    assert not found.holds(offsets + 1).any()


def test_a_set_of_every_offset_takes_a_bit_each():
    assert len(encode_offsets(np.arange(10 * 65_536))) < 10 * 65_536 / 8 + 200


# ---------------------------------------------------------------------------------------- keys


def test_keys_are_numbered_in_the_order_in_which_they_are_met():
    rng = np.random.default_rng(1)
    known: dict[tuple[int, int], int] = {}
    index = KeyIndex()
    for _ in range(5):
        hashes = rng.integers(0, 300, (4000, 2))
        expected = [known.setdefault((low, high), len(known)) for low, high in hashes.tolist()]
        assert index.numbers(hashes).tolist() == expected
    assert index.count == len(known)
    assert index.find(np.array([[-5, 7]])).tolist() == [-1]


def test_every_row_goes_into_the_block_of_one_range():
    rng = np.random.default_rng(2)
    hashes = rng.integers(-(2**63), 2**63 - 1, (5000, 2))
    relative = np.arange(5000, dtype=np.int32)
    blocks = [KeyRows.decode(data) for data in _blocks(hashes, relative, relative, 7)]
    assert sorted(np.concatenate([each.relative for each in blocks]).tolist()) == [*range(5000)]
    assert all(np.all(np.diff(each.relative) > 0) for each in blocks)
    assert all(500 < len(each.relative) < 900 for each in blocks)
    assert all((hashes[each.relative] == each.hashes).all() for each in blocks)


# -------------------------------------------------------------------------------------- traces


def drawn_log(rng: random.Random) -> tuple[bytes, list[AbortedTransaction]]:
    """Batches of three producers in and out of transactions, and those that were aborted."""
    log, aborted, offset = b"", [], 0
    first: dict[int, int] = {}
    for _ in range(rng.randrange(5, 60)):
        producer = rng.randrange(3)
        kind = rng.choice(("plain", "data", "data", "data", "end"))
        if kind == "end" and producer in first:
            is_abort = rng.random() < 0.5
            type_ = ControlRecordType.ABORT if is_abort else ControlRecordType.COMMIT
            log += encode_batch(
                [SimpleRecord(1, *encode_control_record(end_transaction_marker(type_, 0)))],
                base_offset=offset,
                producer_id=producer,
                producer_epoch=0,
                is_transactional=True,
                is_control=True,
            )
            if is_abort:
                aborted.append(AbortedTransaction(0, producer, first[producer], offset, offset))
            del first[producer]
            offset += 1
            continue
        size = rng.randrange(1, 4)
        is_transactional = kind == "data"
        if is_transactional:
            first.setdefault(producer, offset)
        log += encode_batch(
            [SimpleRecord(1, b"k", b"v")] * size,
            base_offset=offset,
            producer_id=producer if is_transactional else -1,
            producer_epoch=0 if is_transactional else -1,
            base_sequence=0 if is_transactional else -1,
            is_transactional=is_transactional,
        )
        offset += size
    return log, aborted


def state(transactions: CleanedTransactionMetadata) -> object:
    aborted = {
        producer: (each.txn, each.was_observed) for producer, each in transactions._aborted.items()
    }
    return sorted(transactions._waiting), aborted, transactions._committed


@pytest.mark.parametrize("seed", range(80))
def test_a_trace_leaves_what_going_through_all_batches_leaves(seed):
    rng = random.Random(seed)
    log, aborted = drawn_log(rng)
    batches = list(LogFile(log).batches())
    at = rng.randrange(len(batches) + 1)
    cut = batches[at].position if at < len(batches) else len(log)
    by_batches, by_traces = CleanedTransactionMetadata(), CleanedTransactionMetadata()
    for each in (by_batches, by_traces):
        each.add_aborted_transactions(aborted)
    for start, end in ((0, cut), (cut, len(log))):
        for batch in batches:
            if start <= batch.position < end:
                assert isinstance(batch, RecordBatch)
                if batch.header.is_control:
                    by_batches.on_control_batch_read(batch)
                else:
                    by_batches.on_batch_read(batch)
        tracer = Tracer("log", lambda position, size: log[position : position + size])
        for columns in HeaderWalk(log, start=start, end=end):
            tracer.add(columns)
        replay(by_traces, tracer.trace())
        by_traces = pickle.loads(pickle.dumps(by_traces))
        assert state(by_traces) == state(by_batches)
