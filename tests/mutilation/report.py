"""docs/formats/unnoticed.md: which flipped bits no checksum and no check of a file can notice.

    python -m tests.mutilation.report            writes the page anew

Every bit of every file of the small directories is flipped and the file read by the careful reader
(readers.read). What it finds is counted by field; why a field is blind is written here, by hand.
"""

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kafka_format.errors import FormatError
from kafka_format.index_end import Stop
from kafka_format.log_file import LogFile
from kafka_log.names import FileKind
from tests.kafka_format.damage import cuts, flips
from tests.mutilation import directories, guard, readers
from tests.mutilation.fields import fields

PAGE = Path(__file__).parents[2] / "docs" / "formats" / "unnoticed.md"
NOTICED = ("error", "stop")
UNNOTICED = ("same", "foreign", "silent")
OUTCOMES = NOTICED + UNNOTICED

BATCHES, MESSAGES = "batches of magic 2", "messages of magic 0 and 1"
TITLES = {
    **dict.fromkeys(readers.CHECKPOINTS, "offset checkpoints"),
    FileKind.OFFSET_INDEX: "`.index`",
    FileKind.TIME_INDEX: "`.timeindex`",
    FileKind.TRANSACTION_INDEX: "`.txnindex`",
    FileKind.PRODUCER_SNAPSHOT: "`.snapshot`",
    FileKind.LEADER_EPOCH_CHECKPOINT: "`leader-epoch-checkpoint`",
    FileKind.PARTITION_METADATA: "`partition.metadata`",
    FileKind.META_PROPERTIES: "`meta.properties`",
    FileKind.CLEAN_SHUTDOWN: "`.kafka_cleanshutdown`",
    FileKind.QUORUM_STATE: "`quorum-state`",
}

_DIGITS = "a digit for a digit is another number, and nothing repeats it"
_LETTERS = "a letter for a letter is another id"
_SPACE = "a lone CR ends a line as well as LF"
_ORDER = "guarded by nothing but its order"
_ANY = "compared with nothing"
WHY = {
    (BATCHES, "baseOffset"): "the broker assigns it after the producer computed the checksum",
    (BATCHES, "partitionLeaderEpoch"): "the leader stamps it, for the same reason",
    (BATCHES, "magic"): "outside the checksum; 3, 6, 10, 18, 34 and 66 are read as 2, as in Kafka",
    (MESSAGES, "offset"): "the broker assigns it after the producer computed the checksum; a "
    "wrapper of magic 1 may not lie below its last message, so there the sign is noticed",
    ("`.index`", "relative_offset"): _ORDER,
    ("`.index`", "position"): _ORDER,
    ("`.timeindex`", "timestamp"): _ORDER,
    ("`.timeindex`", "relative_offset"): _ORDER,
    ("`.txnindex`", "producer_id"): _ANY,
    ("`.txnindex`", "first_offset"): _ANY,
    ("`.txnindex`", "last_offset"): _ORDER,
    ("`.txnindex`", "last_stable_offset"): _ANY,
    ("offset checkpoints", "topic"): "any word is a topic",
    ("offset checkpoints", "partition"): _DIGITS,
    ("offset checkpoints", "offset"): _DIGITS,
    ("offset checkpoints", "punctuation"): "the last line needs no end, and white space there "
    "does not matter",
    ("`leader-epoch-checkpoint`", "epoch"): _DIGITS,
    ("`leader-epoch-checkpoint`", "start_offset"): _DIGITS,
    ("`leader-epoch-checkpoint`", "punctuation"): "as in offset checkpoints",
    ("`partition.metadata`", "word"): "Kafka does not look at the words before the colons",
    ("`partition.metadata`", "version"): "a newer version may add lines, so any is accepted",
    ("`partition.metadata`", "topic_id"): f"{_LETTERS}; the last one has four bits to spare",
    ("`meta.properties`", "comment"): "nobody reads comments",
    ("`meta.properties`", "key"): "an unknown key is ignored, and `directory.id` and `cluster.id` "
    "may be missing",
    ("`meta.properties`", "value"): f"{_LETTERS}, a digit for a digit another node or version",
    ("`meta.properties`", "punctuation"): "`:` and white space separate as well as `=`; a line "
    "that does not end goes on in the next",
    ("`.kafka_cleanshutdown`", "name"): "unknown names are ignored, and a missing version is 0",
    ("`.kafka_cleanshutdown`", "number"): f"{_DIGITS}; nobody looks at the version",
    ("`quorum-state`", "number"): _DIGITS,
    ("`quorum-state`", "text"): f"{_LETTERS}, or another cluster",
}
WHY_CUT = {
    BATCHES: "between two batches",
    MESSAGES: "between two messages",
    "`.index`": "between two slots, or in the zeros",
    "`.timeindex`": "between two slots, or in the zeros",
    "`.txnindex`": "between two slots",
    "offset checkpoints": "to nothing, behind the version, in or behind the last number",
    "`leader-epoch-checkpoint`": "to nothing, behind the version, behind the last number",
    "`meta.properties`": "before the version (without one it is 0, which requires nothing), "
    "in or behind the last value",
    "`.kafka_cleanshutdown`": "to nothing: what brokers before 3.7 wrote",
}


class Flip(NamedTuple):
    """What became of one flipped bit."""

    title: str
    field: str
    outcome: str
    told_by_dump: bool | None = None
    """For what is not noticed in the file alone: whether `dump --verify-index` of its directory
    does; None if there is no log and index, of which one could contradict the other.
    """


def measure() -> Iterator[Flip]:
    with tempfile.TemporaryDirectory(prefix="mutilated") as scratch:
        for directory, content in directories.directories().items():
            for path, data in content.items():
                file = Path(scratch, directory, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_bytes(data)
        for directory, path, data in directories.files():
            yield from measure_file(f"{directory}/{path}", data, Path(scratch))


def measure_file(path: str, data: bytes, root: Path) -> Iterator[Flip]:
    by_byte = [each.name for each in fields(path, data) for _ in range(each.start, each.end)]
    starts = _starts(path, data)
    whole = {start: readers.read(path, data, start=start) for start in dict.fromkeys(starts)}
    titles = {start: _title(path, data, start) for start in whole}
    for bit, flipped in flips(data):
        field = by_byte[bit // 8]
        start = starts[bit // 8]
        with guard.time_limit(f"{path} bit {bit}"):
            found = readers.read_checked(path, flipped, start=start)
            outcome = _outcome(path, found, whole[start], flipped)
            reported = None if outcome in NOTICED else _is_told(root / path, flipped, data)
        yield Flip(titles[start], field, outcome, reported)


def _starts(path: str, data: bytes) -> list[int]:
    """Return for each byte from where a file must be read to notice the change."""
    if readers.kind_of(path) not in readers.LOGS:
        return [0] * len(data)
    return [batch.position for batch in LogFile(data).batches() for _ in range(len(batch.raw))]


def _title(path: str, data: bytes, start: int) -> str:
    kind = readers.kind_of(path)
    if kind in readers.LOGS:
        return BATCHES if data[start + 16] >= 2 else MESSAGES
    return TITLES[kind]


def _outcome(path: str, found: object, whole: object, flipped: bytes) -> str:
    if isinstance(found, Stop):
        return "stop"
    if readers.is_noticed(found):
        return "error"
    if found == whole:
        return "same"
    return "silent" if _is_as_kafka_writes(path, flipped) else "foreign"


def _is_as_kafka_writes(path: str, data: bytes) -> bool:
    if readers.kind_of(path) in readers.LOGS:
        return all(batch.magic <= 2 for batch in LogFile(data).batches())
    try:
        return readers.write_again(path, data) == data
    except FormatError:
        return False


def _is_told(file: Path, flipped: bytes, data: bytes) -> bool | None:
    if not file.with_suffix(".log").exists() or not file.with_suffix(".index").exists():
        return None
    file.write_bytes(flipped)
    try:
        return readers.dump_paths(readers.dump_options("text"), file.parent)[0]
    finally:
        file.write_bytes(data)


def measure_cuts() -> Iterator[tuple[str, bool]]:
    """(title, whether noticed) of every cut of every file."""
    for directory, path, data in directories.files():
        starts = _starts(path, data)
        for size, cut in enumerate(cuts(data)):
            start = starts[size]
            with guard.time_limit(f"{directory}/{path} cut to {size}"):
                found = readers.read_checked(f"{directory}/{path}", cut, start=start)
            yield _title(path, data, start), readers.is_noticed(found)


# The page.


def page() -> str:
    flips_found, cuts_found = Counter(measure()), Counter(measure_cuts())
    return "\n".join([_TEXT, *_cut_table(cuts_found), "", *_tables(flips_found)])


def _cut_table(found: Counter[tuple[str, bool]]) -> Iterator[str]:
    yield "| cut | lengths | noticed | unnoticed | where |"
    yield "|---|---|---|---|---|"
    for title in dict.fromkeys(title for title, _ in found):
        noticed, unnoticed = found[title, True], found[title, False]
        where = WHY_CUT[title] if unnoticed else ""
        yield f"| {title} | {noticed + unnoticed} | {noticed} | {unnoticed} | {where} |"


def _tables(found: Counter[Flip]) -> Iterator[str]:
    for title in dict.fromkeys(flip.title for flip in found):
        rows = {flip: count for flip, count in found.items() if flip.title == title}
        names = dict.fromkeys(flip.field for flip in rows)
        blind = [name for name in names if _count(rows, name, UNNOTICED)]
        unnoticed = sum(_count(rows, name, UNNOTICED) for name in names)
        yield f"## {title[0].upper()}{title[1:]}"
        yield ""
        yield f"{sum(rows.values())} bits flipped, {unnoticed} unnoticed."
        yield ""
        if blind:
            yield "| field | bits | error | stop | same | foreign | silent | dump tells | why |"
            yield "|---|---|---|---|---|---|---|---|---|"
            for name in blind:
                counts = " | ".join(str(_count(rows, name, (each,))) for each in OUTCOMES)
                reported = _told(rows, name)
                cells = (name, _count(rows, name), counts, reported, WHY[title, name])
                yield f"| {' | '.join(map(str, cells))} |"
            yield ""
        if guarded := [name for name in names if name not in blind]:
            yield f"Every flip is noticed in: {', '.join(guarded)}."
            yield ""


def _count(rows: dict[Flip, int], name: str, outcomes: tuple[str, ...] = OUTCOMES) -> int:
    return sum(n for flip, n in rows.items() if flip.field == name and flip.outcome in outcomes)


def _told(rows: dict[Flip, int], name: str) -> str:
    asked = Counter[bool | None]()
    for flip, count in rows.items():
        if flip.field == name:
            asked[flip.told_by_dump] += count
    total = asked[True] + asked[False]
    return f"{asked[True]} of {total}" if total else ""


_TEXT = """\
# Damage that nobody can notice, by field

Written by `python -m tests.mutilation.report`; a test keeps it true. Every bit of every file of
three small log directories (`tests/mutilation/directories.py`: batches of every magic and codec,
every other kind of file) was flipped, one at a time, and the file read with every check there is.

| outcome | meaning |
|---|---|
| error | a `FormatError` tells where (or the content is called unreadable) |
| stop | the entries of an index end early, and the value says why |
| same | the flip changes nothing that is read |
| foreign | another value, but not in Kafka's bytes: `encode(decode(data)) != data` |
| silent | another value, and nothing in this file can tell |
| dump tells | of the last three, where log and index are there: found by `dump --verify-index` |

What could tell beyond that is on the page of each file. A cut leaves a file that is well only here:
"""


def main() -> None:
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
