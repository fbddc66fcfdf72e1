"""Replaying the traces of parts leaves the state that reading every batch leaves."""

import pickle
import random

import pytest

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
from kafka_log.cleaner.parallel.trace import Tracer, replay
from kafka_log.cleaner.transactions import CleanedTransactionMetadata


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
