"""Seeded steps on one segment, for Kafka's LogSegment (`run_segments`) and for ours.

`draw_run(seed)` draws a run; the oracle and tests.kafka_log.segment_driver take the same steps.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.legacy import encode_legacy_batch
from kafka_format.record import SimpleRecord
from tests.kafka_log.requests import Request

START = 1_700_000_000_000
BASE = 500
LOG, INDEX, TIME_INDEX, TXN_INDEX = (
    f"{BASE:020}.{ending}" for ending in ("log", "index", "timeindex", "txnindex")
)
_MARKERS = (b"\0\0\0\0", b"\0\0\0\1")  # keys of ABORT and COMMIT


# -------------------------------------------------------------------------------------- steps


class Step(Request):
    """A change of a segment, or a question about it."""

    __slots__ = ()
    names: ClassVar[Mapping[str, str]] = {"data": "bytes", "source": "from", "file": "name"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Open(Step):
    exists: bool | None = None
    init_file_size: int | None = None
    preallocate: bool | None = None
    time: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Append(Step):
    largest_offset: int
    data: bytes
    time: int | None = None


@dataclass(frozen=True, slots=True)
class AppendFromFile(Step):
    source: str
    start: int


@dataclass(frozen=True, slots=True)
class State(Step):
    pass


@dataclass(frozen=True, slots=True)
class Translate(Step):
    offset: int
    starting_file_position: int | None = None


@dataclass(frozen=True, slots=True)
class Read(Step):
    offset: int
    max_size: int
    max_position: int | None = None
    min_one_message: bool = False


@dataclass(frozen=True, slots=True)
class FindTimestamp(Step):
    timestamp: int
    starting_offset: int


@dataclass(frozen=True, slots=True)
class UpperBound(Step):
    position: int
    size: int


@dataclass(frozen=True, slots=True)
class CollectAborted(Step):
    fetch_offset: int
    upper_bound_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShouldRoll(Step):
    max_segment_ms: int
    max_segment_bytes: int
    max_timestamp: int
    max_offset: int
    messages_size: int


@dataclass(frozen=True, slots=True)
class TruncateTo(Step):
    offset: int
    time: int | None = None


@dataclass(frozen=True, slots=True)
class BecomeInactive(Step):
    pass


@dataclass(frozen=True, slots=True)
class ResizeIndexes(Step):
    size: int


@dataclass(frozen=True, slots=True)
class Flush(Step):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateTxnIndex(Step):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int
    is_aborted: bool


@dataclass(frozen=True, slots=True)
class SanityCheck(Step):
    time_index_newly_created: bool


@dataclass(frozen=True, slots=True)
class Recover(Step):
    pass


@dataclass(frozen=True, slots=True)
class ChangeSuffixes(Step):
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Delete(Step):
    pass


@dataclass(frozen=True, slots=True)
class WriteFile(Step):
    """Changes a file from outside: bytes at a position, a new size, or the file is deleted."""

    file: str
    position: int | None = None
    data: bytes | None = None
    size: int | None = None
    gone: bool | None = None


@dataclass(frozen=True, slots=True)
class Close(Step):
    pass


@dataclass(frozen=True, slots=True)
class Crash(Step):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentRun:
    """The steps of one segment."""

    steps: tuple[Step, ...]
    config: Mapping[str, int]
    """The settings, in Kafka's names."""
    magic: int = 2
    """The magic of the batches."""
    base_offset: int = BASE
    time: int = START

    def request(self, path: Path) -> dict[str, Any]:
        """Return the run as the oracle takes it, in a directory."""
        return {
            "base_offset": self.base_offset,
            "config": self.config,
            "time": self.time,
            "steps": list(self.steps),
            "magic": self.magic,
            "path": str(path),
        }


# ------------------------------------------------------------------------------------ drawing


@dataclass
class SegmentDrawing:
    """A run while it is drawn, with what the next step must know about the log."""

    rng: random.Random
    magic: int = 2
    next_offset: int = BASE
    now: int = START
    size: int = 0
    epoch: int = 0
    sequences: dict[int, int] = field(default_factory=dict)
    open_since: dict[int, int] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def offset(self) -> int:
        return max(
            0, self.next_offset - self.rng.choice((0, 1, 3, 10, 40)) + self.rng.randint(-3, 3)
        )

    def timestamp(self) -> int:
        if self.rng.random() < 0.1:
            return -1
        return self.now + self.rng.randint(-3000, 3000)

    # ---------------------------------------------------------------------------------- batches

    def batch(self) -> bytes:
        """Draw a batch at the end of the log; the next one follows it."""
        rng = self.rng
        self.now += rng.randrange(2000)
        self.next_offset += rng.choice((0, 0, 0, 2))
        base = self.next_offset
        if self.magic == 2 and rng.random() < 0.2 and self.open_since:
            return self._marker()
        records = self._records()
        self.next_offset = records[-1].offset + 1
        codec = rng.choice((Codec.NONE, Codec.NONE, Codec.GZIP, Codec.LZ4))
        if self.magic < 2:
            return encode_legacy_batch(records, magic=self.magic, base_offset=base, codec=codec)
        self.epoch += rng.random() < 0.1
        last = records[-1].offset + rng.choice((0, 0, 0, 2))
        self.next_offset = last + 1
        return encode_batch(
            records,
            base_offset=base,
            codec=codec,
            partition_leader_epoch=rng.choice((self.epoch, self.epoch, -1)),
            last_offset=last,
            **self._producer(last + 1 - base),
        )

    def _records(self) -> list[SimpleRecord]:
        offset, records = self.next_offset, []
        for _ in range(self.rng.randint(1, 5)):
            timestamp = -1 if self.magic == 0 else self.timestamp()
            value = self.rng.randbytes(self.rng.randrange(60))
            records.append(SimpleRecord(timestamp, b"key", value, offset=offset))
            offset += 1 if self.magic < 2 else self.rng.choice((1, 1, 1, 3))
        return records

    def _producer(self, count: int) -> dict[str, Any]:
        if self.rng.random() < 0.4:
            return {}
        producer_id = self.rng.randrange(4)
        is_transactional = producer_id >= 2
        if is_transactional:
            self.open_since.setdefault(producer_id, self.next_offset - count)
        sequence = self.sequences.get(producer_id, 0)
        self.sequences[producer_id] = sequence + count
        return {
            "producer_id": producer_id,
            "producer_epoch": 0,
            "base_sequence": sequence,
            "is_transactional": is_transactional,
        }

    def _marker(self) -> bytes:
        producer_id = self.rng.choice(sorted(self.open_since))
        del self.open_since[producer_id]
        base, self.next_offset = self.next_offset, self.next_offset + 1
        record = SimpleRecord(self.now, self.rng.choice(_MARKERS), b"\0\0\0\0\0\1", offset=base)
        return encode_batch(
            [record],
            base_offset=base,
            producer_id=producer_id,
            producer_epoch=0,
            is_transactional=True,
            is_control=True,
            partition_leader_epoch=self.epoch,
        )

    def append(self) -> None:
        """Draw an append of one batch, or of several."""
        data = b"".join(self.batch() for _ in range(self.rng.choice((1, 1, 1, 4))))
        self.size += len(data)
        largest = self.next_offset - 1
        if self.rng.random() < 0.01:
            largest = self.rng.choice((BASE - 1, BASE + 2**31))
        self.steps.append(Append(largest_offset=largest, data=data, time=self.now))

    # ------------------------------------------------------------------------------------ steps

    def ask(self) -> None:
        """Draw a question."""
        rng = self.rng
        offset, earlier = self.offset(), self.now - rng.randrange(9999)
        position, size = rng.randrange(self.size + 1), rng.randrange(999)
        draws: tuple[Step, ...] = (
            State(),
            Translate(offset),
            Translate(offset, starting_file_position=0),
            self._read(),
            self._read(),
            FindTimestamp(self.timestamp(), starting_offset=offset),
            FindTimestamp(earlier, starting_offset=BASE),
            UpperBound(position, size),
            CollectAborted(fetch_offset=offset, upper_bound_offset=offset + 9),
            ShouldRoll(
                max_segment_ms=rng.choice((1000, 10**9)),
                max_segment_bytes=rng.choice((self.size + 50, 10**9)),
                max_timestamp=self.timestamp(),
                max_offset=self.next_offset + rng.choice((0, 0, 2**31)),
                messages_size=rng.randrange(100),
            ),
        )
        self.steps.append(rng.choice(draws))

    def _read(self) -> Read:
        return Read(
            self.offset(),
            max_size=self.rng.choice((0, 50, 500)),
            max_position=self.size + 10**6 if self.rng.random() < 0.9 else None,
            min_one_message=self.rng.random() < 0.5,
        )

    def change(self) -> None:
        """Draw a change other than an append."""
        rng = self.rng
        last_offset = self.next_offset + rng.randrange(9)
        draws: tuple[Step, ...] = (
            TruncateTo(self.offset(), time=self.now),
            BecomeInactive(),
            ResizeIndexes(rng.choice((4000, 4100))),
            Flush(),
            UpdateTxnIndex(
                producer_id=7,
                first_offset=self.next_offset,
                last_offset=last_offset,
                last_stable_offset=self.next_offset,
                is_aborted=rng.random() < 0.8,
            ),
        )
        self.steps.append(rng.choice(draws))

    def reopen(self, *, damage: bool) -> None:
        """Close the segment or crash, damage its files, open it again, and perhaps recover it."""
        rng = self.rng
        self.end()
        if damage:
            for _ in range(rng.randint(1, 2)):
                self.steps.append(self._damage())
        self.steps.append(Open(exists=True, time=self.now))
        if rng.random() < 0.3:
            self.steps.append(SanityCheck(time_index_newly_created=rng.random() < 0.1))
        if damage or rng.random() < 0.5:
            self.ask()
            self.steps.append(Recover())

    def end(self) -> None:
        self.steps.append(self.rng.choice((Close(), Crash())))

    def _damage(self) -> WriteFile:
        rng = self.rng
        at = rng.randrange(self.size + 1)
        name = rng.choice((INDEX, TIME_INDEX, TXN_INDEX))
        draws = (
            WriteFile(LOG, position=at, data=rng.randbytes(1)),
            WriteFile(LOG, position=at, data=rng.randbytes(4)),
            WriteFile(LOG, size=at),
            WriteFile(LOG, size=self.size + rng.choice((5, 30, 3000))),
            WriteFile(LOG, position=self.size, data=rng.randbytes(rng.randrange(200))),
            WriteFile(LOG, position=6, data=rng.randbytes(2)),  # the first base offset
            WriteFile(LOG, position=12, data=rng.randbytes(4)),  # its leader epoch
            WriteFile(name, gone=True),
            WriteFile(name, position=rng.choice((0, 8, 34)), data=rng.randbytes(34)),
            WriteFile(name, size=rng.randrange(100)),
        )
        return rng.choice(draws)


def draw_run(seed: int) -> SegmentRun:
    """Draw a run: appends, questions and changes, and a damaged file at the end."""
    rng = random.Random(seed)
    draw = SegmentDrawing(rng, magic=rng.choice((2, 2, 2, 2, 1, 0)))
    is_preallocated = rng.random() < 0.15
    draw.steps.append(Open(init_file_size=5000, preallocate=True) if is_preallocated else Open())
    for _ in range(rng.randint(10, 30)):
        kind = rng.random()
        if kind < 0.5:
            draw.append()
        elif kind < 0.8:
            draw.ask()
        elif kind < 0.9:
            draw.change()
        else:
            draw.reopen(damage=rng.random() < 0.5)
    draw.steps.append(State())
    draw.reopen(damage=rng.random() < 0.7)
    draw.steps.append(State())
    draw.end()
    config = {
        "index.interval.bytes": rng.choice((0, 100, 100, 400, 4096)),
        "segment.index.bytes": rng.choice((50, 400, 4000)),
    }
    return SegmentRun(steps=tuple(draw.steps), config=config, magic=draw.magic)


def steps_with(*steps: Step, **config: int) -> SegmentRun:
    """Return a run of these steps after the segment is opened."""
    settings = {"index_interval_bytes": 4096, "segment_index_bytes": 4000} | config
    return SegmentRun(
        steps=(Open(exists=True), *steps),
        config={name.replace("_", "."): value for name, value in settings.items()},
    )
