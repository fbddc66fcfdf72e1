"""Changes that nobody can see, by class, each with its reason.

`unseen_class(change, before)` returns the class of a change that may go unnoticed, None for all
others. A class says what the bytes are, not what the audit does with them: many changes in a class
are reported all the same.
"""

import re
from collections.abc import Callable
from pathlib import PurePosixPath
from typing import NamedTuple

from tests.audit.changes import Change


class UnseenClass(NamedTuple):
    """What the bytes are, and why nobody can see that they have changed."""

    name: str
    reason: str
    includes: Callable[[Change, bytes, bytes], bool]
    """By the change, and the file before and after it."""


def unseen_class(change: Change, before: bytes) -> UnseenClass | None:
    after = change.apply(before)
    return next((each for each in CLASSES if each.includes(change, before, after)), None)


def _name(change: Change) -> str:
    return PurePosixPath(change.file).name


def _is_comment(change: Change, before: bytes, after: bytes) -> bool:
    if _name(change) != "meta.properties":
        return False
    lines = [data.splitlines() for data in (before, after)]
    contents = [[line for line in each if not line.lstrip().startswith(b"#")] for each in lines]
    return contents[0] == contents[1] or before[: change.position + 1].count(b"\n") < 2


def _is_cluster_id(change: Change, before: bytes, _: bytes) -> bool:
    if _name(change) != "meta.properties":
        return False
    start = before.index(b"cluster.id=") + len(b"cluster.id=")
    return start <= change.position


def _is_name_before_colon(change: Change, before: bytes, _: bytes) -> bool:
    if _name(change) != "partition.metadata":
        return False
    start = before.rfind(b"\n", 0, change.position) + 1
    return change.position < before.index(b":", start)


def _is_newer_version(change: Change, _: bytes, after: bytes) -> bool:
    return _name(change) == "partition.metadata" and bool(re.match(rb"version: [1-9]\n", after))


def _is_lower_high_watermark(change: Change, before: bytes, after: bytes) -> bool:
    return _name(change) == "replication-offset-checkpoint" and _is_lower_row(before, after)


def _is_other_log_start(change: Change, before: bytes, after: bytes) -> bool:
    return _name(change) == "log-start-offset-checkpoint" and _is_lower_row(before, after)


def _is_lower_row(before: bytes, after: bytes) -> bool:
    """Whether all rows are the same, but for one offset that is lower."""
    rows = [_rows(before), _rows(after)]
    if rows[0] is None or rows[1] is None or rows[0].keys() != rows[1].keys():
        return False
    changed = [key for key in rows[0] if rows[0][key] != rows[1][key]]
    return all(rows[1][key] < rows[0][key] for key in changed)


def _rows(data: bytes) -> dict[bytes, int] | None:
    lines = data.split(b"\n")
    found = {}
    for line in lines[2:-1]:
        row = re.fullmatch(rb"(\S+ \d+) (\d+)", line)
        if row is None:
            return None
        found[row[1]] = int(row[2])
    return found if lines[0] == b"0" and lines[1] == b"%d" % len(found) else None


def _is_last_space(change: Change, before: bytes, after: bytes) -> bool:
    is_text = _name(change).endswith("checkpoint") or _name(change) == "partition.metadata"
    return (
        is_text
        and change.position == len(before) - 1
        and before[-1:] == b"\n"
        and after[-1:] in b"\t\n\v\f\r\x1c\x1d\x1e\x1f "
    )


def _is_shutdown_version(change: Change, before: bytes, _: bytes) -> bool:
    return _name(change) == ".kafka_cleanshutdown" and change.position < before.index(b",")


def _is_vote(change: Change, before: bytes, after: bytes) -> bool:
    if _name(change) != "quorum-state":
        return False
    pattern = re.compile(
        rb'\{"leaderId":\d,"leaderEpoch":(\d+),"votedId":-[01],'
        rb'"votedDirectoryId":"[\w-]{22}","data_version":1\}'
    )
    found = [pattern.fullmatch(data) for data in (before, after)]
    return all(found) and found[0][1] == found[1][1]


CLASSES = (
    UnseenClass(
        "comment in `meta.properties`",
        "Kafka writes the time there, and nothing reads it.",
        _is_comment,
    ),
    UnseenClass(
        "`cluster.id` in `meta.properties`",
        "No other file of a log dir has the id. Two log dirs or brokers are compared.",
        _is_cluster_id,
    ),
    UnseenClass(
        "words before the colons of `partition.metadata`",
        "Kafka reads only what follows the colons.",
        _is_name_before_colon,
    ),
    UnseenClass(
        "a higher version in `partition.metadata`",
        "Kafka accepts it and reads the file as its own version.",
        _is_newer_version,
    ),
    UnseenClass(
        "a lower high watermark",
        "It may lag behind the log on every healthy broker.",
        _is_lower_high_watermark,
    ),
    UnseenClass(
        "a lower log start",
        "Any offset down to the start of the first segment may be one.",
        _is_other_log_start,
    ),
    UnseenClass(
        "white space after the last line of a text file",
        "Kafka ignores which character it is.",
        _is_last_space,
    ),
    UnseenClass(
        "the version in `.kafka_cleanshutdown`",
        "Kafka does not read it.",
        _is_shutdown_version,
    ),
    UnseenClass(
        "leader and vote in `quorum-state`",
        "The leader of an epoch, or a vote that was not given, is in no other file.",
        _is_vote,
    ),
)
