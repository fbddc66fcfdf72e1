"""Steps of a partition log's life, for Kafka's log and for ours.

An action is what is done; a `Step` adds when, and whether a refusal is an answer too. Actions have
the names and fields of the oracle's `run_sessions` (tests/oracle/README.md): `request` is what it
takes, `step_of` reads that again, for steps that a test writes by hand.

    Step(Append(data=batch, leader_epoch=3), time=START, may_fail=True)
    Step(Read(Place("high_watermark", delta=-3), max_length=700))
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Self

from tests.kafka_log.requests import Request


@dataclass(frozen=True, slots=True)
class Place:
    """An offset: one of the log's own and a distance from it, or simply a number."""

    origin: str = "end"
    """`start`, `end`, `high_watermark`, `last_stable`, or `active`: where that segment begins."""
    delta: int = 0
    offset: int | None = None

    def request(self) -> dict[str, Any]:
        if self.offset is not None:
            return {"offset": self.offset}
        return {"from": self.origin, "delta": self.delta}

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Self:
        return cls(request.get("from", "end"), request.get("delta", 0), request.get("offset"))


class Action(Request):
    """One thing that is done to a log."""

    __slots__ = ()

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Self:
        """`place` is spread over the names of a request."""
        has_place = any(each.name == "place" for each in fields(cls))  # type: ignore[arg-type]
        return super().of(dict(request) | ({"place": Place.of(request)} if has_place else {}))


_END = Place()


@dataclass(frozen=True, slots=True, kw_only=True)
class Append(Action):
    data: bytes
    leader_epoch: int
    origin: str | None = None
    """Of the append: `CLIENT` unless it says another."""
    at_end: int | None = None
    """The batches are moved to the log end, or so far from it."""
    record_version: int | None = None
    verified: int | None = None
    """The producer whose verification guard goes with it."""
    transaction_version: int | None = None


@dataclass(frozen=True, slots=True)
class StartVerification(Action):
    producer_id: int
    producer_epoch: int = 0
    sequence: int = 0
    supports_epoch_bump: bool = False


@dataclass(frozen=True, slots=True)
class Roll(Action):
    pass


@dataclass(frozen=True, slots=True)
class Flush(Action):
    pass


@dataclass(frozen=True, slots=True)
class HighWatermark(Action):
    place: Place = _END


@dataclass(frozen=True, slots=True)
class MaybeUpdateHighWatermark(Action):
    place: Place = _END


@dataclass(frozen=True, slots=True)
class MaybeIncrementHighWatermark(Action):
    place: Place = _END


@dataclass(frozen=True, slots=True)
class LogStartOffset(Action):
    place: Place = _END


@dataclass(frozen=True, slots=True)
class TruncateTo(Action):
    place: Place = _END


@dataclass(frozen=True, slots=True)
class TruncateFullyAndStartAt(Action):
    place: Place = _END
    log_start_offset: int | None = None


@dataclass(frozen=True, slots=True)
class DeleteOldSegments(Action):
    pass


@dataclass(frozen=True, slots=True)
class RemoveExpiredProducers(Action):
    pass


@dataclass(frozen=True, slots=True)
class ProducerSnapshot(Action):
    pass


@dataclass(frozen=True, slots=True)
class RunPending(Action):
    pass


@dataclass(frozen=True, slots=True)
class LateTransaction(Action):
    pass


@dataclass(frozen=True, slots=True)
class AssignEpoch(Action):
    leader_epoch: int
    place: Place = _END


@dataclass(frozen=True, slots=True)
class UpdateConfig(Action):
    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read(Action):
    place: Place = _END
    max_length: int = 2**31 - 1
    isolation: str = "LOG_END"
    min_one_message: bool = True


@dataclass(frozen=True, slots=True)
class OffsetForTimestamp(Action):
    timestamp: int


@dataclass(frozen=True, slots=True)
class EndOffsetForEpoch(Action):
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class State(Action):
    pass


@dataclass(frozen=True, slots=True)
class Nothing(Action):
    """Only time goes by."""


ACTIONS: dict[str, type[Action]] = {each.name(): each for each in Action.__subclasses__()}


@dataclass(frozen=True, slots=True)
class Step:
    action: Action
    time: int | None = None
    """Of the clock from then on; None: as it was."""
    may_fail: bool = False

    def request(self) -> dict[str, Any]:
        request = self.action.request()
        if self.time is not None:
            request["time"] = self.time
        return request | ({"may_fail": True} if self.may_fail else {})


def step_of(request: Step | Mapping[str, Any]) -> Step:
    if isinstance(request, Step):
        return request
    action = ACTIONS[request.get("do", "nothing")].of(request)
    return Step(action, request.get("time"), request.get("may_fail", False))
