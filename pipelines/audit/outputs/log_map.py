"""Drawings of damaged logs: segments to scale, damage in its place, lanes of open transactions.

Coordinates are numbers that the template puts into inline SVG; texts are escaped there.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.shown_text import escaped
from pipelines.report.text import human_size, iso_time

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kafka_log.checks.facts import PartitionFacts, SegmentSummary
    from pipelines.audit.report import Row

WIDTH = 960
_MOST_SEGMENTS = 400
_MOST_MARKS = 500
_MOST_LANES = 20
_LEAST = 1.5
_LANE = 14


class Box(NamedTuple):
    """A segment."""

    x: float
    width: float
    label: str


class Mark(NamedTuple):
    """A finding at its place."""

    x: float
    severity: str
    label: str


class Lane(NamedTuple):
    """A transaction that is open up to the log end."""

    x: float
    width: float
    y: int
    label: str


@dataclass(slots=True)
class LogMap:
    """The drawing of a log."""

    boxes: list[Box] = field(default_factory=list)
    marks: list[Mark] = field(default_factory=list)
    lanes: list[Lane] = field(default_factory=list)
    width: int = WIDTH
    size: str = ""
    offsets: str = ""
    times: str = ""
    more: int = 0
    """Segments that are not drawn, the oldest."""

    @property
    def height(self) -> int:
        return 52 + _LANE * len(self.lanes)


def log_map(facts: PartitionFacts, findings: Iterable[Row]) -> LogMap | None:
    """Return the drawing of a partition's log; None if it has no segment."""
    segments = facts.segments[-_MOST_SEGMENTS:]
    if not segments:
        return None
    scale = _Scale(segments)
    drawn = LogMap(more=len(facts.segments) - len(segments))
    drawn.boxes = [
        Box(scale.starts[number], max(_LEAST, scale.width(number) - 1), _segment_text(each))
        for number, each in enumerate(segments)
    ]
    drawn.size = str(human_size(sum(each.size_in_bytes for each in facts.segments)))
    drawn.offsets = f"offsets {facts.segments[0].base_offset} to {segments[-1].next_offset}"
    drawn.times = _times(facts.segments)
    for row in findings:
        if len(drawn.marks) < _MOST_MARKS and (x := scale.of_finding(row)) is not None:
            label = escaped(f"{row['id']} {Path(row['path']).name}: found {row['found']}")
            drawn.marks.append(Mark(x, row["severity"], label))
    for number, each in enumerate(facts.open_transactions[:_MOST_LANES]):
        x = scale.of_offset(each.first_offset)
        label = f"producer {each.producer_id} epoch {each.producer_epoch}, open since offset"
        drawn.lanes.append(
            Lane(x, max(_LEAST, WIDTH - x), 48 + _LANE * number, f"{label} {each.first_offset}")
        )
    return drawn


class _Scale:
    """From positions and offsets to the width of the drawing."""

    def __init__(self, segments: Sequence[SegmentSummary]) -> None:
        self._segments = segments
        sizes = [max(1, each.size_in_bytes) for each in segments]
        total = sum(sizes)
        edges = [WIDTH * each / total for each in accumulate(sizes, initial=0)]
        self.starts, self._ends = edges[:-1], edges[1:]
        self._numbers = {Path(each.path).stem: n for n, each in enumerate(segments)}
        self._bases = [each.base_offset for each in segments]

    def width(self, number: int) -> float:
        return self._ends[number] - self.starts[number]

    def of_finding(self, row: Row) -> float | None:
        """Return where a finding is; None if it is in no segment that is drawn."""
        path = Path(row["path"])
        number = self._numbers.get(path.stem)
        if number is None:
            return None if row["offset"] is None else self.of_offset(row["offset"])
        size = self._segments[number].size_in_bytes
        if path.suffix == ".log" and row["position"] is not None and size:
            share: float = min(1.0, max(0.0, row["position"] / size))
            return self.starts[number] + share * self.width(number)
        return self.starts[number]

    def of_offset(self, offset: int) -> float:
        number = min(max(0, bisect_right(self._bases, offset) - 1), len(self._bases) - 1)
        segment = self._segments[number]
        length = max(1, segment.next_offset - segment.base_offset)
        share = min(1.0, max(0.0, (offset - segment.base_offset) / length))
        return self.starts[number] + share * self.width(number)


def _segment_text(segment: SegmentSummary) -> str:
    return (
        f"{Path(segment.path).name}: {human_size(segment.size_in_bytes)}, offsets"
        f" {segment.base_offset} to {segment.next_offset}{_after(_times((segment,)))}"
    )


def _after(text: str) -> str:
    return f", {text}" if text else ""


def _times(segments: Sequence[SegmentSummary]) -> str:
    """Return the range of timestamps; empty if there are none."""
    known = [each for each in segments if each.max_timestamp >= 0]
    if not known:
        return ""
    least = min((each.min_timestamp for each in known if each.min_timestamp >= 0), default=-1)
    last = iso_time(max(each.max_timestamp for each in known))
    return f"up to {last}" if least < 0 else f"{iso_time(least)} to {last}"
