"""The rules of retention: which segments it deletes.

    steps       by policy: log start offset, then (policy has `delete`) size, then time
    one step    goes through the segments from the oldest on, and ends at the first that stays; so
                an old segment after a young one stays
    a segment   is deleted if all of it is below the high watermark and the step's rule says so

Each step sees what the one before left. If every segment is deleted, the log rolls first, because a
log always has a segment. log_removal.py rolls and deletes.

Mirrors UnifiedLog.deleteOldSegments, deletableSegments and the three predicates of 4.3. Tiered
storage changes each of them and is refused (`ensure_local`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from kafka_log.errors import TieredStorageError
from kafka_log.names import CLUSTER_METADATA_TOPIC, DirectoryKind

if TYPE_CHECKING:
    from kafka_log.config.log_config import LogConfig


class SegmentLike(Protocol):
    """What the rules need to know about a segment."""

    @property
    def base_offset(self) -> int: ...

    @property
    def size(self) -> int:
        """The size of its `.log` file; indexes do not count."""

    def largest_timestamp(self) -> int:
        """The largest timestamp of its records; if none has one, the file's modification time."""


AnySegment = TypeVar("AnySegment", bound=SegmentLike)


class Breach(Enum):
    """The three steps, in order."""

    LOG_START_OFFSET = "log start offset"
    RETENTION_BYTES = "retention.bytes"
    RETENTION_MS = "retention.ms"


class Verdict(NamedTuple, Generic[AnySegment]):
    """The decision of one step about one segment, with its reason."""

    segment: AnySegment
    is_deleted: bool
    reason: str


class LogPosition(NamedTuple):
    """The offsets of a log when a step begins."""

    log_start_offset: int
    high_watermark: int
    log_end_offset: int


_EXEMPT = {
    DirectoryKind.DELETE: "the replica was deleted: a broker removes the whole directory",
    DirectoryKind.STRAY: "not a replica of this broker: a broker does not touch it",
}

_Rule = Callable[[AnySegment, AnySegment | None], tuple[bool, str]]


def ensure_local(config: LogConfig) -> None:
    """Refuse a topic with tiered storage: what may be deleted depends on what was copied."""
    if config.remote_storage_enable:
        raise TieredStorageError(
            "remote.storage.enable=true: which segments may be deleted depends on what was copied"
            " to remote storage, which a log directory does not record"
        )


def why_exempt(kind: DirectoryKind, topic: str) -> str | None:
    """Return why a directory is not subject to retention; None if it is."""
    if topic == CLUSTER_METADATA_TOPIC:
        return "the metadata log is trimmed by snapshots, not by retention"
    return _EXEMPT.get(kind)


def breaches(config: LogConfig) -> tuple[Breach, ...]:
    """Return the steps of a policy. An empty policy only deletes below the log start."""
    ensure_local(config)
    return tuple(Breach) if config.delete else (Breach.LOG_START_OFFSET,)


def iter_verdicts(
    breach: Breach,
    segments: Iterable[AnySegment],
    *,
    config: LogConfig,
    now_ms: int,
    position: LogPosition,
) -> Iterator[Verdict[AnySegment]]:
    """Yield a verdict on each segment up to the first that stays; none if the step has no limit."""
    ordered = list(segments)
    rule: _Rule[AnySegment] | None
    if breach is Breach.LOG_START_OFFSET:
        rule = _below_start(position.log_start_offset)
    elif breach is Breach.RETENTION_BYTES:
        rule = _beyond_size(config.retention_bytes, sum(segment.size for segment in ordered))
    else:
        rule = _older_than(config.retention_ms, now_ms)
    if rule is None:
        return
    followers = [*ordered[1:], None]
    for segment, following in zip(ordered, followers, strict=False):
        end = position.log_end_offset if following is None else following.base_offset
        if position.high_watermark < end:
            # Unreplicated records are never deleted: the log start does not pass the watermark.
            reason = f"high watermark {position.high_watermark} is below the segment end {end}"
            yield Verdict(segment, is_deleted=False, reason=reason)
            return
        is_deleted, reason = rule(segment, following)
        if following is None and segment.size == 0:
            yield Verdict(segment, is_deleted=False, reason="the active segment is empty")
            return
        yield Verdict(segment, is_deleted, reason)
        if not is_deleted:
            return


def _below_start(log_start_offset: int) -> _Rule[AnySegment]:
    def rule(_: AnySegment, following: AnySegment | None) -> tuple[bool, str]:
        if following is None:
            return False, "the active segment contains the log start offset"
        is_below = following.base_offset <= log_start_offset
        relation = "at or below" if is_below else "above"
        return (
            is_below,
            f"segment end {following.base_offset} is {relation} log start {log_start_offset}",
        )

    return rule


def _beyond_size(retention_bytes: int, log_size: int) -> _Rule[AnySegment] | None:
    """Delete while at least the limit remains: the log may be up to one segment larger."""
    if retention_bytes < 0 or log_size < retention_bytes:
        return None
    remaining = log_size

    def rule(segment: AnySegment, _: AnySegment | None) -> tuple[bool, str]:
        nonlocal remaining
        without = remaining - segment.size
        if without < retention_bytes:
            return (
                False,
                f"deleting it would leave {without} bytes, below retention.bytes {retention_bytes}",
            )
        remaining = without
        return True, f"{without} bytes remain, at least retention.bytes {retention_bytes}"

    return rule


def _older_than(retention_ms: int, now_ms: int) -> _Rule[AnySegment] | None:
    if retention_ms < 0:
        return None

    def rule(segment: AnySegment, _: AnySegment | None) -> tuple[bool, str]:
        largest = segment.largest_timestamp()
        age = now_ms - largest
        if age < 0:
            return False, f"timestamp {largest} is {-age} ms in the future"
        is_older = age > retention_ms
        relation = "above" if is_older else "within"
        return is_older, f"{age} ms old, {relation} retention.ms {retention_ms}"

    return rule
