"""Which field of an undamaged file each byte belongs to, in the words of docs/formats."""

import re
from collections.abc import Generator, Iterator
from typing import NamedTuple

from kafka_format.log_file import LogFile
from kafka_log.names import FileKind
from tests.mutilation.readers import CHECKPOINTS, LOGS, kind_of


class Field(NamedTuple):
    name: str
    start: int
    end: int


BATCH = {
    "baseOffset": 8,
    "batchLength": 4,
    "partitionLeaderEpoch": 4,
    "magic": 1,
    "crc": 4,
    "attributes": 2,
    "lastOffsetDelta": 4,
    "baseTimestamp": 8,
    "maxTimestamp": 8,
    "producerId": 8,
    "producerEpoch": 2,
    "baseSequence": 4,
    "recordCount": 4,
}
MESSAGE = {"offset": 8, "size": 4, "crc": 4, "magic": 1, "attributes": 1}
ENTRIES = {
    FileKind.OFFSET_INDEX: {"relative_offset": 4, "position": 4},
    FileKind.TIME_INDEX: {"timestamp": 8, "relative_offset": 4},
    FileKind.TRANSACTION_INDEX: {
        "version": 2,
        "producer_id": 8,
        "first_offset": 8,
        "last_offset": 8,
        "last_stable_offset": 8,
    },
    FileKind.PRODUCER_SNAPSHOT: {"an entry": 46},
}
SNAPSHOT_HEADER = {"version": 2, "crc": 4, "count": 4}

_HEAD = r"(?P<version>\d+)\n(?P<count>\d+)\n"
TEXTS = {
    **dict.fromkeys(CHECKPOINTS, r"(?P<topic>\S+) (?P<partition>\d+) (?P<offset>\d+)\n"),
    FileKind.LEADER_EPOCH_CHECKPOINT: r"(?P<epoch>\d+) (?P<start_offset>\d+)\n",
    FileKind.PARTITION_METADATA: r"(?P<word>\w+): (?:(?P<version>\d)\n|(?P<topic_id>\S{22}))",
    FileKind.META_PROPERTIES: r"(?P<comment>#.*)\n|(?P<key>[^=\n]+)=(?P<value>.*)\n",
    FileKind.CLEAN_SHUTDOWN: r'(?P<name>"\w+"):|(?P<number>-?\d+)',
    FileKind.QUORUM_STATE: r'(?P<name>"\w+"):|(?P<number>-?\d+)|(?P<text>"\w*")',
}


def fields(path: str, data: bytes) -> list[Field]:
    """One behind the other, from the first byte to the last."""
    kind = kind_of(path)
    if kind in LOGS:
        found = list(_log(data))
    elif kind in ENTRIES:
        found = list(_entries(kind, data))
    else:
        found = list(_text(kind, data))
    assert [each.start for each in found] == [0, *(each.end for each in found)][: len(found)]
    assert not found or found[-1].end == len(data)
    return found


def _log(data: bytes) -> Iterator[Field]:
    for batch in LogFile(data).batches():
        end = batch.position + len(batch.raw)
        if batch.magic >= 2:
            sizes, rest = BATCH, "records"
        else:
            sizes, rest = MESSAGE | ({"timestamp": 8} if batch.magic else {}), "key and value"
        at = yield from _fixed(sizes, batch.position)
        if at < end:
            yield Field(rest, at, end)


def _entries(kind: FileKind, data: bytes) -> Iterator[Field]:
    at = 0
    if kind is FileKind.PRODUCER_SNAPSHOT:
        at = yield from _fixed(SNAPSHOT_HEADER, 0)
    slot = sum(ENTRIES[kind].values())
    while at < len(data):
        if data[at : at + slot] == bytes(slot):
            yield Field("zeros", at, at + slot)
            at += slot
        else:
            at = yield from _fixed(ENTRIES[kind], at)


def _fixed(sizes: dict[str, int], at: int) -> Generator[Field, None, int]:
    for name, size in sizes.items():
        yield Field(name, at, at + size)
        at += size
    return at


def _text(kind: FileKind, data: bytes) -> Iterator[Field]:
    """What no group of the pattern covers is punctuation: colons, spaces, line ends."""
    text = data.decode()
    at = 0
    has_head = kind in CHECKPOINTS or kind is FileKind.LEADER_EPOCH_CHECKPOINT
    for pattern in (_HEAD, TEXTS[kind]) if has_head else (TEXTS[kind],):
        while found := re.compile(pattern).search(text, at):
            for name, group in found.groupdict().items():
                if group is not None:
                    start, end = found.span(name)
                    yield from _punctuation(at, start)
                    yield Field(name, start, end)
                    at = end
            yield from _punctuation(at, found.end())
            at = found.end()
            if pattern is _HEAD:
                break
    yield from _punctuation(at, len(text))


def _punctuation(start: int, end: int) -> Iterator[Field]:
    if start < end:
        yield Field("punctuation", start, end)
