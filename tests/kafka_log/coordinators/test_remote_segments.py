"""Segments in tiered storage: the same as Kafka's own store has after each event."""

import random
from pathlib import Path

import pytest

from kafka_format.java_text import uuid_text
from kafka_log.coordinators.remote_segments import Lineage, RemoteState, read_events
from kafka_log.disk.files import DiskFiles
from tests.kafka_log.coordinators.internal_logs import (
    DELETED,
    DELETING,
    FINISHED,
    STARTED,
    TOPIC_ID,
    copy_started,
    partition_deleted,
    remote_log,
    segment_id,
    updated,
)
from tests.oracle.client import Oracle, b64

LINEAGE = {0: 0, 2: 40, 3: 90}


def states_after_each(directory: Path, events: list[bytes]) -> list[dict[str, str]]:
    remote_log(events).write(directory)
    state, found = RemoteState(), []
    for offset, event in read_events(DiskFiles(directory)):
        state.apply(offset, event)
        partition = state.partitions.get((TOPIC_ID, 0))
        segments = {} if partition is None else partition.segments
        found.append({uuid_text(each): segments[each].state.name for each in segments})
    return found


def drawn_events(seed: int) -> list[bytes]:
    draw = random.Random(seed)
    events = []
    for _ in range(60):
        number = draw.randrange(4)
        kind = draw.random()
        if kind < 0.3:
            start = draw.randrange(-1, 120)
            end = start + draw.randrange(-1, 60)
            count = draw.randrange(4)
            epochs = dict.fromkeys(sorted(draw.sample(range(5), count)), 0)
            at = max(start, 0)
            for epoch in epochs:
                epochs[epoch] = at
                at += draw.randrange(30)
            state = STARTED if draw.random() < 0.9 else draw.choice([FINISHED, DELETING])
            fields = {"epochs": epochs, "remote_log_segment_state": state}
            events.append(copy_started(number, start, end, **fields))
        elif kind < 0.97:
            states = [STARTED, FINISHED, FINISHED, DELETING, DELETED]
            events.append(updated(number, draw.choice(states)))
        else:
            events.append(partition_deleted(draw.randrange(3)))
    return events


@pytest.mark.parametrize("seed", range(12))
def test_after_each_event_kafka_has_the_same_segments(seed: int, tmp_path: Path, oracle: Oracle):
    events = drawn_events(seed)
    answers = oracle.call("remote_segments", events=[b64(each) for each in events], lineage=LINEAGE)
    expected, last = [], {}
    for answer in answers:
        if "segments" in answer:  # without them Kafka could not even make the event
            last = {each["id"]: each["state"] for each in answer["segments"]}
        expected.append(last)
    assert states_after_each(tmp_path, events) == expected


@pytest.mark.parametrize("seed", range(12))
def test_kafka_has_the_same_segments_in_its_lineage(seed: int, tmp_path: Path, oracle: Oracle):
    draw = random.Random(seed)
    events, offset = [], 0
    for number in range(40):
        length = draw.randrange(1, 50)
        epochs, at = {}, offset
        for epoch in sorted(draw.sample(range(5), draw.randrange(1, 4))):
            epochs[epoch] = at
            at = draw.choice([at, at + length // 2, LINEAGE.get(epoch + 1, at)])
        events.append(copy_started(number, offset, offset + length, epochs=epochs))
        offset = draw.choice([offset, offset + length // 2, *LINEAGE.values()])
    for lineage in (LINEAGE, {2: 51, 3: 90}, {1: 10}):
        answers = oracle.call(
            "remote_segments", events=[b64(each) for each in events], lineage=lineage
        )
        expected = {each["id"]: each["in_lineage"] for each in answers[-1]["segments"]}
        state = RemoteState()
        remote_log(events).write(tmp_path)
        for at, event in read_events(DiskFiles(tmp_path)):
            state.apply(at, event)
        ours = Lineage(lineage)
        segments = state.partitions[TOPIC_ID, 0].segments
        assert {uuid_text(each): ours.has(segments[each]) for each in segments} == expected


def test_the_last_event_of_a_segment_is_its_state(tmp_path):
    remote_log([copy_started(1, 0, 9), updated(1, FINISHED), copy_started(2, 10, 19)]).write(
        tmp_path
    )
    state = RemoteState()
    refusals = [state.apply(offset, event) for offset, event in read_events(DiskFiles(tmp_path))]
    assert refusals == [None, None, None]
    partition = state.partitions[TOPIC_ID, 0]
    assert partition.topic == "tiered"
    assert [(each.start_offset, each.log_offset) for each in partition.finished()] == [(0, 1)]
    assert partition.segments[segment_id(2)].state is STARTED
    assert partition.last_copy == 2


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        ([updated(1, FINISHED)], "COPY_SEGMENT_FINISHED of an unknown segment"),
        (
            [copy_started(1, 0, 9), updated(1, DELETED)],
            "DELETE_SEGMENT_FINISHED after COPY_SEGMENT_STARTED",
        ),
        ([copy_started(1, 0, 9), updated(1, STARTED)], "an update to COPY_SEGMENT_STARTED"),
        (
            [copy_started(1, 0, 9, remote_log_segment_state=FINISHED)],
            "a new segment in state COPY_SEGMENT_FINISHED",
        ),
        ([copy_started(1, 9, 0)], "a segment of offsets 9 to 0"),
        ([copy_started(1, 0, 9, epochs={})], "a segment without leader epochs"),
        ([copy_started(1, 0, 9), updated(1, 9)], "segment state 9"),
        ([partition_deleted(7)], "partition state 7"),
    ],
)
def test_an_event_that_kafka_drops_has_a_reason(events, reason, tmp_path):
    remote_log(events).write(tmp_path)
    state = RemoteState()
    refusals = [state.apply(offset, event) for offset, event in read_events(DiskFiles(tmp_path))]
    assert refusals[:-1] == [None] * (len(events) - 1)
    assert refusals[-1] is not None
    assert refusals[-1].reason == reason
