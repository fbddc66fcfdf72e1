"""Summarize log directories on one screen, as text or as HTML for a notebook."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.shown_text import escaped
from kafka_log.names import DirectoryKind
from pipelines.report.text import counted, human_size

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafka_log.inventory.inventory import Inventory, LogDir, Topic

MOST_TOPICS = 30
"""The largest topics that are listed; the others are only counted."""
_HEADER = ("topic", "partitions", "segments", "size", "not live")


class Summary(NamedTuple):
    lines: list[str]
    """One line per log dir."""
    rows: list[tuple[str, ...]]
    """One row per topic, the largest first."""
    more: int
    """The number of topics that are not in `rows`."""
    problems: int

    @classmethod
    def of(cls, inventory: Inventory) -> Summary:
        largest = sorted(inventory.topics(), key=lambda topic: -topic.size_in_bytes)
        return cls(
            lines=[_log_dir_line(log_dir) for log_dir in inventory.log_dirs],
            rows=[_topic_row(topic) for topic in largest[:MOST_TOPICS]],
            more=max(0, len(largest) - MOST_TOPICS),
            problems=sum(1 for _ in inventory.all_problems()),
        )

    def text(self) -> str:
        widths = [max(map(len, column)) for column in zip(_HEADER, *self.rows, strict=True)]
        lines = [*self.lines, ""]
        lines += [_aligned(row, widths) for row in (_HEADER, *self.rows)]
        return "\n".join([*lines, *self._notes()])

    def html(self) -> str:
        """Return HTML, with names from the disk escaped."""
        heading = "<br>".join(map(escape, self.lines))
        body = "".join(_html_row("td", row) for row in self.rows)
        notes = "".join(f"<p>{escape(note)}</p>" for note in self._notes())
        return (
            f"<p>{heading}</p><table><thead>{_html_row('th', _HEADER)}</thead>"
            f"<tbody>{body}</tbody></table>{notes}"
        )

    def _notes(self) -> list[str]:
        more = [f"and {counted(self.more, 'topic')} more"] if self.more else []
        problems = [f"{counted(self.problems, 'problem')}: see the table findings"]
        return more + (problems if self.problems else [])


def _log_dir_line(log_dir: LogDir) -> str:
    meta = log_dir.meta
    who = "node unknown" if meta is None else f"node {meta.node_id}"
    stop = {
        None: "no sign of a broker",
        True: "stopped cleanly",
        False: "not stopped cleanly",
    }[log_dir.is_clean]
    if log_dir.is_running:
        stop = "a broker is running on it"
    topics = {partition.topic for partition in log_dir.partitions}
    return (
        f"{escaped(log_dir.path)}: {who}, {stop}, {counted(len(topics), 'topic')}, "
        f"{counted(len(log_dir.partitions), 'partition')}, {human_size(log_dir.size_in_bytes)}"
    )


def _topic_row(topic: Topic) -> tuple[str, ...]:
    live = sum(each.state is DirectoryKind.PARTITION for each in topic.partitions)
    others = len(topic.partitions) - live
    segments = sum(len(each.segments) for each in topic.partitions)
    return (
        escaped(topic.name),
        str(live),
        str(segments),
        str(human_size(topic.size_in_bytes)),
        str(others) if others else "",
    )


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    first, *rest = zip(row, widths, strict=True)
    cells = [first[0].ljust(first[1]), *(text.rjust(width) for text, width in rest)]
    return "  ".join(cells).rstrip()


def _html_row(tag: str, row: Sequence[str]) -> str:
    cells = "".join(f"<{tag}>{escape(text)}</{tag}>" for text in row)
    return f"<tr>{cells}</tr>"
