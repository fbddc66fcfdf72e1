"""The life of a partition log, for Kafka's log and for ours: sessions, and the steps in them.

A session opens a log (`Opening`), takes steps, and closes it or crashes. A `Step` is an action, its
time, and whether it may fail. Actions have the names and fields of the oracle's `run_sessions`
(tests/oracle/README.md): `request` returns what the oracle takes; `step_of` and `session_of` read
that back, for steps and sessions that a test writes by hand.

    Step(Append(data=batch, leader_epoch=3), time=START, may_fail=True)
    Step(Read(place=RelativeOffset("high_watermark", delta=-3), max_length=700))
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from tests.kafka_log.requests import Request

NEVER = 2**31 - 1


@dataclass(frozen=True, slots=True)
class RelativeOffset:
    """An offset relative to one of the log's own offsets; or a number."""

    origin: str = "end"
    """`start`, `end`, `high_watermark`, `last_stable`, or `active`, the active segment's base."""
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
    """Something that is done to a log."""

    __slots__ = ()

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> Self:
        """Read an action back from its request, which has the fields of `place` at its top."""
        has_place = any(each.name == "place" for each in fields(cls))  # type: ignore[arg-type]
        return super().of(
            dict(request) | ({"place": RelativeOffset.of(request)} if has_place else {})
        )


_END = RelativeOffset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Append(Action):
    data: bytes
    leader_epoch: int
    origin: str | None = None
    """The origin of the append; `CLIENT` if None."""
    at_end: int | None = None
    """If set, the batches are moved to the log end plus this distance."""
    record_version: int | None = None
    verified: int | None = None
    """The producer whose verification guard the append presents."""
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
    place: RelativeOffset = _END


@dataclass(frozen=True, slots=True)
class MaybeUpdateHighWatermark(Action):
    place: RelativeOffset = _END


@dataclass(frozen=True, slots=True)
class MaybeIncrementHighWatermark(Action):
    place: RelativeOffset = _END


@dataclass(frozen=True, slots=True)
class LogStartOffset(Action):
    place: RelativeOffset = _END


@dataclass(frozen=True, slots=True)
class TruncateTo(Action):
    place: RelativeOffset = _END


@dataclass(frozen=True, slots=True)
class TruncateFullyAndStartAt(Action):
    place: RelativeOffset = _END
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
    place: RelativeOffset = _END


@dataclass(frozen=True, slots=True)
class UpdateConfig(Action):
    config: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Read(Action):
    place: RelativeOffset = _END
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
    """Only time passes."""


ACTIONS: dict[str, type[Action]] = {each.name(): each for each in Action.__subclasses__()}


@dataclass(frozen=True, slots=True)
class Step:
    """An action at a time."""

    action: Action
    time: int | None = None
    """The time of the clock from this step on; None leaves it unchanged."""
    may_fail: bool = False
    """Whether an error is an answer to compare; otherwise it ends the session."""

    def request(self) -> dict[str, Any]:
        request = self.action.request()
        if self.time is not None:
            request["time"] = self.time
        return request | ({"may_fail": True} if self.may_fail else {})


def step_of(request: Step | Mapping[str, Any]) -> Step:
    """Return a step as it is, or read one from its request."""
    if isinstance(request, Step):
        return request
    action = ACTIONS[request.get("do", "nothing")].of(request)
    return Step(action, request.get("time"), request.get("may_fail", False))


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How a log is opened."""

    config: Mapping[str, Any] = field(default_factory=dict)
    """The settings, in Kafka's names."""
    time: int = 0
    clean_shutdown: bool = True
    log_start_offset: int | None = None
    recovery_point: int | None = None
    """The checkpoints. None is where the session before closed; in the first session 0."""
    topic_id: str | None = None
    producer_id_expiration_ms: int = NEVER
    max_transaction_timeout_ms: int = 15 * 60 * 1000
    transaction_verification: bool = False

    def after(self, *, log_start_offset: int, recovery_point: int) -> Self:
        """Return the opening after a session that closed with these checkpoints."""
        start, point = self.log_start_offset, self.recovery_point
        return replace(
            self,
            log_start_offset=log_start_offset if start is None else start,
            recovery_point=recovery_point if point is None else point,
        )

    def request(self) -> dict[str, Any]:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        return {name: value for name, value in values.items() if value is not None}


def opening_of(request: Opening | Mapping[str, Any]) -> Opening:
    """Return an opening as it is, or read one from the arguments of a session."""
    if isinstance(request, Opening):
        return request
    names = {each.name for each in fields(Opening)}
    return Opening(**{name: value for name, value in request.items() if name in names})


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionPlan:
    """A log is opened, takes steps, and is closed."""

    opening: Opening
    steps: tuple[Step, ...]
    close: str
    """`clean`, or `crash`: without flushing or closing anything."""

    def request(self) -> dict[str, Any]:
        return self.opening.request() | {"steps": list(self.steps), "close": self.close}


def session_of(request: SessionPlan | Mapping[str, Any]) -> SessionPlan:
    """Return a session as it is, or read one from its request."""
    if isinstance(request, SessionPlan):
        return request
    steps = tuple(step_of(each) for each in request["steps"])
    return SessionPlan(opening=opening_of(request), steps=steps, close=request["close"])
