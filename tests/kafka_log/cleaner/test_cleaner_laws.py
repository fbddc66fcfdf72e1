"""Laws of cleaning, on any log: what a reader is entitled to, whatever the passes were.

The model is the list of what was written; it knows nothing of segments, maps or horizons.
"""

import heapq
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from kafka_format.batch import RecordBatch, encode_batch
from kafka_format.compression import Codec
from kafka_format.control import ControlRecordType, encode_control_record, end_transaction_marker
from kafka_format.record import Header, Record, SimpleRecord
from kafka_log.appends.origin import AppendOrigin
from kafka_log.cleaner.offset_map import Keys
from kafka_log.clock import FixedClock, Scheduler
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.log.unified_log import PartitionLog
from tests.kafka_log.cleaner.cleaners import batches_of, new_cleaner
from tests.kafka_log.cleaner.stories import Story
from tests.kafka_log.workload import START
from tests.oracle.client import Oracle

RETENTION = 1000
SEGMENT_BYTES = (300, 1000, 2**30)
CODECS = (Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD)
TRANSACTIONAL, IDEMPOTENT = (1, 2), 3

State = dict[bytes, bytes]
"""The value of each key; deleted keys are left out."""


class Put(NamedTuple):
    producer_id: int | None
    records: list[SimpleRecord]
    codec: Codec


class End(NamedTuple):
    producer_id: int
    type: ControlRecordType


class Roll(NamedTuple):
    pass


class Pass(NamedTuple):
    """A round from the beginning (`is_whole`) or from where the last one ended."""

    later: int
    entries: int
    is_whole: bool


Event = Put | End | Roll


@st.composite
def records(draw: st.DrawFn) -> list[SimpleRecord]:
    key = st.sampled_from((b"", b"a", b"b", b"c", b"d", None))
    value = st.sampled_from((None, b"", b"1", b"22", b"333"))
    header = st.sampled_from(((), (), (Header("h", None),), (Header("größe", b"1"),)))
    timestamp = st.integers(START - 5000, START)
    one = st.builds(SimpleRecord, timestamp, key, value, header, st.none())
    return draw(st.lists(one, min_size=1, max_size=5))


puts = st.builds(
    Put,
    st.sampled_from((None, None, *TRANSACTIONAL, IDEMPOTENT)),
    records(),
    st.sampled_from(CODECS),
)
ends = st.builds(
    End,
    st.sampled_from(TRANSACTIONAL),
    st.sampled_from((ControlRecordType.COMMIT, ControlRecordType.ABORT)),
)
histories: st.SearchStrategy[list[Event]] = st.lists(
    st.one_of(puts, puts, puts, ends, st.just(Roll())), min_size=1, max_size=25
)
passes = st.lists(
    st.builds(
        Pass,
        st.sampled_from((0, 1, RETENTION - 1, RETENTION, 5 * RETENTION)),
        st.sampled_from((1, 2, 4, 1000)),
        st.booleans(),
    ),
    min_size=1,
    max_size=4,
)


class Written(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    producer_id: int | None


@dataclass(slots=True)
class Model:
    """What was written, and what became of it."""

    written: list[Written] = field(default_factory=list)
    aborted: set[int] = field(default_factory=set)
    open: dict[int, list[int]] = field(default_factory=dict)  # producer to offsets

    def put(self, offset: int, event: Put) -> None:
        offsets = range(offset, offset + len(event.records))
        for at, record in zip(offsets, event.records, strict=True):
            self.written.append(Written(at, record.key, record.value, event.producer_id))
        if event.producer_id in TRANSACTIONAL:
            self.open.setdefault(event.producer_id, []).extend(offsets)

    def end(self, event: End) -> None:
        offsets = self.open.pop(event.producer_id, [])
        if event.type is ControlRecordType.ABORT:
            self.aborted.update(offsets)

    def committed(self) -> list[Written]:
        """What a read_committed consumer gets: nothing from the first open transaction on."""
        end = min((offsets[0] for offsets in self.open.values()), default=2**63)
        return [
            each for each in self.written if each.offset < end if each.offset not in self.aborted
        ]


class Topic:
    """A log over an empty directory, all in memory."""

    def __init__(self, directory: Path, history: list[Event], segment_bytes: int) -> None:
        self.clock = FixedClock(START)
        self.model = Model()
        self.checkpoint: int | None = None
        config = LogConfig(
            delete_retention_ms=RETENTION,
            segment_bytes=segment_bytes,
            segment_index_bytes=400,
            index_interval_bytes=100,
            transaction_partition_verification_enable=False,
        )
        self.files = OverlayFiles(directory)
        self.log = PartitionLog.open(self.files, config, Scheduler(self.clock))
        self._sequences: dict[int, int] = {}
        for event in history:
            self._do(event)
        if self.log.active_segment.size:
            self.log.roll()
        self.log.update_high_watermark(self.log.log_end_offset)

    def _do(self, event: Event) -> None:
        match event:
            case Put():
                self.model.put(self.log.log_end_offset, event)
                self.log.append_as_leader(_batch(event, self._sequences), 0)
            case End():
                self.model.end(event)
                self.log.append_as_leader(
                    _marker(event), 0, origin=AppendOrigin.COORDINATOR, transaction_version=1
                )
            case Roll():
                if self.log.active_segment.size:
                    self.log.roll()

    def clean(self, one: Pass, **how: Any) -> None:
        self.clock.now_ms += one.later
        slots = next(each for each in range(2, 2000) if int(each * 0.9) >= one.entries)
        cleaner = new_cleaner(self.log.config, self.clock, dedupe_buffer_size=24 * slots, **how)
        found = cleaner.clean(self.log, None if one.is_whole else self.checkpoint)
        self.checkpoint = found.next_dirty_offset

    # ------------------------------------------------------------------------------- reading

    def batches(self) -> list[RecordBatch]:
        return batches_of(self.log)

    def records(self) -> list[Record]:
        return [record for batch in self.batches() for record in batch.records()]

    def received(self) -> list[Written]:
        """By a read_committed consumer, who goes by the index of aborted transactions."""
        end = self.log.last_stable_offset
        aborted = self.log.collect_aborted_transactions(0, end)
        waiting = [(txn.first_offset, txn.producer_id) for txn in aborted]
        heapq.heapify(waiting)
        skipped: set[int] = set()
        found = []
        for batch in self.batches():
            header = batch.header
            if header.base_offset >= end:
                break
            while waiting and waiting[0][0] <= header.last_offset:
                skipped.add(heapq.heappop(waiting)[1])
            if header.is_control:
                if header.record_count and batch.records()[0].key == b"\0\0\0\0":
                    skipped.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in skipped):
                producer_id = None if header.producer_id < 0 else header.producer_id
                found += [
                    Written(each.offset, each.key, each.value, producer_id)
                    for each in batch.records()
                ]
        return found

    def content(self) -> dict[str, bytes]:
        """Every file but snapshots, which cleaning does not write."""
        self.log.flush()
        found = {}
        for segment in self.log.log_segments:
            found[f"{segment.base_offset} log"] = bytes(segment.log.read_exactly(0, segment.size))
            found[f"{segment.base_offset} index"] = repr(
                [segment.offset_index.entry(i) for i in range(segment.offset_index.entries)]
            ).encode()
            found[f"{segment.base_offset} timeindex"] = repr(
                [segment.time_index.entry(i) for i in range(segment.time_index.entries)]
            ).encode()
            aborted = segment.transaction_index.all_aborted_txns()
            found[f"{segment.base_offset} txnindex"] = repr(aborted).encode()
        return found


def _batch(event: Put, sequences: dict[int, int]) -> bytes:
    if event.producer_id is None:
        return encode_batch(event.records, codec=event.codec)
    sequence = sequences.get(event.producer_id, 0)
    sequences[event.producer_id] = sequence + len(event.records)
    return encode_batch(
        event.records,
        codec=event.codec,
        producer_id=event.producer_id,
        producer_epoch=0,
        base_sequence=sequence,
        is_transactional=event.producer_id in TRANSACTIONAL,
    )


def _marker(event: End) -> bytes:
    key, value = encode_control_record(end_transaction_marker(event.type, 0))
    return encode_batch(
        [SimpleRecord(START, key, value)],
        producer_id=event.producer_id,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )


def state_of(received: list[Written]) -> State:
    state: State = {}
    for each in received:
        if each.key is not None:
            if each.value is None:
                state.pop(each.key, None)
            else:
                state[each.key] = each.value
    return state


laws = hypothesis_settings(max_examples=60)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Empty, and stays so."""
    return tmp_path_factory.mktemp("topic-0")


@laws
@given(histories, st.sampled_from(SEGMENT_BYTES), passes)
def test_a_read_committed_consumer_sees_the_same_latest_state(
    directory: Path, history: list[Event], segment_bytes: int, rounds: list[Pass]
) -> None:
    topic = Topic(directory, history, segment_bytes)
    assert topic.received() == topic.model.committed()
    before = state_of(topic.model.committed())
    for one in rounds:
        topic.clean(one)
        assert state_of(topic.received()) == before


@laws
@given(histories, st.sampled_from(SEGMENT_BYTES), passes)
def test_the_last_value_of_each_key_survives_at_its_offset(
    directory: Path, history: list[Event], segment_bytes: int, rounds: list[Pass]
) -> None:
    topic = Topic(directory, history, segment_bytes)
    last = {each.key: each for each in topic.model.committed() if each.key is not None}
    for one in rounds:
        topic.clean(one)
    left = {each.offset: each for each in topic.received()}
    for each in last.values():
        if each.value is not None:
            assert left[each.offset] == each


@laws
@given(histories, st.sampled_from(SEGMENT_BYTES), passes)
def test_offsets_and_order_never_change_and_nothing_is_invented(
    directory: Path, history: list[Event], segment_bytes: int, rounds: list[Pass]
) -> None:
    topic = Topic(directory, history, segment_bytes)
    before = {each.offset: each for each in topic.records()}
    batches = {each.header.base_offset: each.header for each in topic.batches()}
    end = topic.log.log_end_offset
    for one in rounds:
        topic.clean(one)
        offsets = [each.offset for each in topic.records()]
        assert offsets == sorted(set(offsets))
        for record in topic.records():
            source = before[record.offset]
            assert (record.key, record.value, record.timestamp, tuple(record.headers)) == (
                source.key,
                source.value,
                source.timestamp,
                tuple(source.headers),
            )
        for batch in topic.batches():
            source_header = batches[batch.header.base_offset]
            for name in ("last_offset", "producer_id", "producer_epoch", "base_sequence"):
                assert getattr(batch.header, name) == getattr(source_header, name), name
        assert topic.log.log_end_offset == end


@laws
@given(histories, st.sampled_from(SEGMENT_BYTES))
def test_with_the_same_clock_a_second_pass_drops_no_record_and_the_fourth_changes_nothing(
    directory: Path, history: list[Event], segment_bytes: int
) -> None:
    """The second may give markers a horizon, and join segments that have become small."""
    topic = Topic(directory, history, segment_bytes)
    one = Pass(0, 1000, is_whole=True)
    topic.clean(one)
    first = [each.offset for each in topic.records()]
    topic.clean(one)
    assert [each.offset for each in topic.records()] == first
    topic.clean(one)
    third = [bytes(batch.raw) for batch in topic.batches()]
    topic.clean(one)
    assert [bytes(batch.raw) for batch in topic.batches()] == third


@laws
@given(histories, st.sampled_from(SEGMENT_BYTES), passes)
def test_columns_rows_and_exact_keys_leave_the_same_bytes(
    directory: Path, history: list[Event], segment_bytes: int, rounds: list[Pass]
) -> None:
    found = []
    for how in ({}, {"columnar": False}, {"keys": Keys.EXACT}, {"keys": Keys.MD5}):
        topic = Topic(directory, history, segment_bytes)
        for one in rounds:
            topic.clean(one, **how)
        found.append(topic.content())
    assert found[0] == found[1] == found[2] == found[3]


@laws
@given(histories)
def test_many_small_rounds_leave_what_one_large_round_leaves_to_a_reader(
    directory: Path,
    history: list[Event],
) -> None:
    small, large = (Topic(directory, history, SEGMENT_BYTES[-1]) for _ in range(2))
    large.clean(Pass(0, 1000, is_whole=True))
    for _ in range(len(small.model.written) + 1):
        small.clean(Pass(0, 1, is_whole=False))
        if small.checkpoint == large.checkpoint:
            break
    assert small.checkpoint == large.checkpoint
    assert state_of(small.received()) == state_of(large.received())


@hypothesis_settings(max_examples=15)
@given(histories, st.sampled_from((0, 1, RETENTION)))
def test_twice_with_the_same_clock_changes_nothing_more_than_kafka_changes(
    oracle: Oracle, history: list[Event], retention_ms: int
) -> None:
    story = Story(cleanup_policy="delete", delete_retention_ms=retention_ms)
    sequences: dict[int, int] = {}
    for event in history:
        match event:
            case Put():
                story.append(_batch(event, sequences))
            case End():
                story.append(_marker(event), origin="COORDINATOR", transaction_version=1)
            case Roll():
                story.roll()
    story.roll().clean().clean(checkpoint=0).clean(checkpoint=0)
    story.reported(oracle)  # compares every byte after every pass
