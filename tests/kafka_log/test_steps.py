"""Typed steps are the oracle's requests, and come back from them."""

import dataclasses

import pytest

from tests.kafka_log.steps import (
    ACTIONS,
    Append,
    Nothing,
    Read,
    RelativeOffset,
    Step,
    TruncateTo,
    step_of,
)
from tests.kafka_log.workload import draw_workload


def test_a_step_is_a_request_of_the_oracle() -> None:
    read = Read(
        place=RelativeOffset("high_watermark", -3), max_length=700, isolation="TXN_COMMITTED"
    )
    assert Step(read, 5, may_fail=True).request() == {
        "do": "read",
        "from": "high_watermark",
        "delta": -3,
        "max_length": 700,
        "isolation": "TXN_COMMITTED",
        "min_one_message": True,
        "time": 5,
        "may_fail": True,
    }
    append = Append(data=b"batch", leader_epoch=0, at_end=0)
    assert Step(append).request() == {
        "do": "append",
        "bytes": b"batch",
        "leader_epoch": 0,
        "at_end": 0,
    }


def test_requests_that_are_written_by_hand_become_steps() -> None:
    assert step_of({"do": "truncate_to", "offset": 4}) == Step(TruncateTo(RelativeOffset(offset=4)))
    assert step_of({"time": 9}) == Step(Nothing(), 9)
    with pytest.raises(KeyError):
        step_of({"do": "nonsense"})


def test_drawn_steps_come_back_from_their_requests_and_are_of_every_kind() -> None:
    drawn = [step for seed in range(60) for step in draw_workload(seed).steps]
    assert [step_of(step.request()) for step in drawn] == drawn
    assert {type(step.action) for step in drawn} == {*ACTIONS.values()} - {Nothing}
    with pytest.raises(dataclasses.FrozenInstanceError):
        drawn[0].time = 0  # type: ignore[misc]
