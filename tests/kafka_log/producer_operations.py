"""Seeded operations on a ProducerStateManager, for Kafka's and for ours.

`draw_run(seed)` draws a run: producers that mostly behave, and batches, markers, files and calls
that do not. The oracle's `producer_states` and tests.kafka_log.producer_driver take the same
operations.
"""

import random
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from kafka_format.batch import (
    HEADER_SIZE,
    assemble,
    decode_batch,
    encode_batch,
    encode_empty_batch,
)
from kafka_format.compression import Codec
from kafka_format.legacy import encode_legacy_batch
from kafka_format.producer_snapshot import (
    ProducerSnapshotEntry,
    ProducerSnapshotFile,
    encode_producer_snapshot,
)
from kafka_format.record import SimpleRecord, TimestampType
from tests.kafka_log.requests import Request

START = 1_700_000_000_000
DAY = 86_400_000
LATE = 20 * 60_000  # the longest transaction plus five minutes
MAX_SEQUENCE = 2**31 - 1
ABORT, COMMIT = 0, 1

ODD_NAMES = [
    "1000007.snapshot",
    "+1000008.x.snapshot",
    "00000000000000000009.snapshot.deleted",
    "notes.snapshot",
    ".snapshot",
    "5.snapshot.tmp",
]

# ---------------------------------------------------------------------------------- operations


class Operation(Request):
    """A call of a ProducerStateManager, or a change of its files from outside."""

    __slots__ = ()
    names: ClassVar[Mapping[str, str]] = {"data": "bytes", "file": "name"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Append(Operation):
    data: bytes
    origin: str
    transaction_version: int


@dataclass(frozen=True, slots=True)
class Recover(Operation):
    data: bytes


@dataclass(frozen=True, slots=True)
class Duplicate(Operation):
    data: bytes


@dataclass(frozen=True, slots=True)
class HighWatermark(Operation):
    offset: int


@dataclass(frozen=True, slots=True)
class LogStartOffset(Operation):
    offset: int


@dataclass(frozen=True, slots=True)
class MapEndOffset(Operation):
    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify(Operation):
    producer_id: int
    sequence: int
    epoch: int
    supports_epoch_bump: bool
    time: int


@dataclass(frozen=True, slots=True)
class ClearVerification(Operation):
    producer_id: int


@dataclass(frozen=True, slots=True)
class Expire(Operation):
    time: int


@dataclass(frozen=True, slots=True)
class Late(Operation):
    time: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete(Operation):
    producer_id: int
    offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class Snapshot(Operation):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Truncate(Operation):
    start: int
    end: int
    time: int


@dataclass(frozen=True, slots=True)
class TruncateFully(Operation):
    offset: int


@dataclass(frozen=True, slots=True)
class TruncateFullyAndReload(Operation):
    pass


@dataclass(frozen=True, slots=True)
class RemoveStrays(Operation):
    bases: list[int]


@dataclass(frozen=True, slots=True)
class DeleteBefore(Operation):
    offset: int


@dataclass(frozen=True, slots=True)
class Mark(Operation):
    offset: int


@dataclass(frozen=True, slots=True)
class Reopen(Operation):
    pass


@dataclass(frozen=True, slots=True)
class Write(Operation):
    file: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Unlink(Operation):
    file: str


# Each call is drawn as often as it is listed.
CALLS: list[type[Operation]] = [
    *[HighWatermark] * 2,
    LogStartOffset,
    MapEndOffset,
    *[Verify] * 2,
    ClearVerification,
    Expire,
    Late,
    Complete,
    *[Duplicate] * 2,
]
FILE_CALLS: list[type[Operation]] = [
    *[Snapshot] * 6,
    *[Truncate] * 4,
    TruncateFully,
    TruncateFullyAndReload,
    RemoveStrays,
    DeleteBefore,
    *[Mark] * 2,
    Reopen,
    *[Write] * 3,
    Unlink,
]

# ------------------------------------------------------------------------------------- batches


def data_batch(
    base_offset: int,
    *,
    producer_id: int,
    epoch: int,
    sequence: int,
    delta: int = 0,
    timestamp: int = START,
    is_transactional: bool = False,
) -> bytes:
    """Encode one record, with any header."""
    data = encode_batch([SimpleRecord(timestamp, None, b"v")], base_offset=base_offset)
    header = decode_batch(data).header._replace(
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        last_offset_delta=delta,
        max_timestamp=timestamp,
        attributes=0x10 if is_transactional else 0,
    )
    return assemble(header, data[HEADER_SIZE:])


def control_batch(
    base_offset: int,
    *,
    producer_id: int,
    epoch: int,
    type_: int = COMMIT,
    coordinator_epoch: int = 0,
    timestamp: int = START,
    log_append_time: int | None = None,
    records: list[SimpleRecord] | None = None,
    codec: Codec = Codec.NONE,
) -> bytes:
    marker = SimpleRecord(
        timestamp, struct.pack(">hh", 0, type_), struct.pack(">hi", 0, coordinator_epoch)
    )
    is_append_time = log_append_time is not None
    return encode_batch(
        [marker] if records is None else records,
        base_offset=base_offset,
        codec=codec,
        producer_id=producer_id,
        producer_epoch=epoch,
        is_transactional=True,
        is_control=True,
        timestamp_type=(
            TimestampType.LOG_APPEND_TIME if is_append_time else TimestampType.CREATE_TIME
        ),
        log_append_time=log_append_time if is_append_time else -1,
    )


def _odd_records(rng: random.Random, timestamp: int) -> list[SimpleRecord]:
    """Draw records that no coordinator writes."""
    key, value = struct.pack(">hh", 0, COMMIT), struct.pack(">hi", 0, 3)
    odd: list[tuple[bytes | None, bytes | None]] = [
        (None, value),
        (b"", value),
        (key[:3], value),
        (struct.pack(">hh", -1, COMMIT), value),
        (struct.pack(">hh", 7, COMMIT) + b"more", value),
        (struct.pack(">hh", 0, rng.choice((-1, 2, 3, 6, 7))), value),
        (key, None),
        (key, b""),
        (key, value[:1]),
        (key, value[:4]),
        (key, struct.pack(">hi", -5, 3)),
        (key, struct.pack(">h", -5)),
        (key, struct.pack(">hi", 9, 3) + b"more"),
    ]
    first = SimpleRecord(timestamp, *rng.choice(odd))
    second = SimpleRecord(timestamp, key, value)
    return [first, second] if rng.random() < 0.3 else [first]


@dataclass(slots=True)
class _Producer:
    """A producer, with the state that a client knows."""

    producer_id: int
    epoch: int = 0
    sequence: int = 0
    in_transaction: bool = False
    transactional: bool = False
    version: int = 1
    sent: list[bytes] = field(default_factory=list)


class _Drawing:
    """A run while it is drawn."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = START
        self.next_offset = self.random.choice((0, 0, 100))
        self.coordinator_epoch = 1
        self.times = [START]  # times from which something may expire
        self.oddness = self.random.choice((0.002, 0.02, 0.15, 0.4))
        self.producers = [
            _Producer(
                producer_id,
                epoch=self.random.choice((0, 0, 5, 32766)),
                sequence=self.random.choice((0, 0, 7, MAX_SEQUENCE - 3)),
                transactional=self.random.random() < 0.6,
                version=self.random.choice((0, 1, 2)),
            )
            for producer_id in self.random.sample((0, 1, 2, 7, 1000, 2**40), 4)
        ]

    def odd(self) -> bool:
        """Draw whether something unusual happens."""
        return self.random.random() < self.oddness

    def tick(self) -> int:
        """Let time pass, and return it."""
        self.now += self.random.choice((0, 1, 50, 1000))
        self.times.append(self.now)
        return self.now

    # ------------------------------------------------------------------ one batch

    def batch(self) -> bytes:
        rng = self.random
        producer = rng.choice(self.producers)
        chance = rng.random()
        if chance < 0.05:
            data = self._without_producer()
        elif producer.transactional and (chance < 0.25 or (producer.in_transaction and self.odd())):
            data = self._marker(producer)
        else:
            data = self._data(producer)
        if rng.random() < 0.1:
            self.next_offset += rng.randrange(4)
        return data

    def _without_producer(self) -> bytes:
        offset = self._take(1)
        record = SimpleRecord(self.tick(), b"k", b"v", offset=offset)
        if self.random.random() < 0.4:
            return encode_legacy_batch([record], magic=1, base_offset=offset)
        return encode_batch([record], base_offset=offset)

    def _take(self, count: int) -> int:
        offset = self.next_offset
        self.next_offset += count
        return offset

    def _data(self, producer: _Producer) -> bytes:
        rng = self.random
        if producer.sent and self.odd():
            return rng.choice(producer.sent[-7:])
        count = rng.choice((1, 1, 2, 5))
        epoch, sequence, delta = producer.epoch, producer.sequence, count - 1
        is_transactional = producer.transactional
        if self.odd():
            epoch = max(-1, min(32767, epoch + rng.choice((-1, 1, 2))))
            sequence = rng.choice((0, sequence))
            if rng.random() < 0.5:
                producer.epoch = epoch
        if self.odd():
            sequence = rng.choice((-1, 0, 1, sequence + 1, MAX_SEQUENCE)) % 2**31
        if self.odd() and rng.random() < 0.2:
            delta = rng.choice((-1, -5, 2**31 - 1, -(2**31)))
        if self.odd() and rng.random() < 0.3:
            is_transactional = not is_transactional
        data = data_batch(
            self._take(count),
            producer_id=producer.producer_id,
            epoch=epoch,
            sequence=-1 if rng.random() < 0.02 else sequence,
            delta=delta,
            timestamp=self.tick() if rng.random() < 0.95 else rng.choice((-1, 0, 5)),
            is_transactional=is_transactional,
        )
        if self.odd() and rng.random() < 0.3:
            data = encode_empty_batch(decode_batch(data).header)
        producer.sequence = (sequence + count) % 2**31
        producer.in_transaction = is_transactional
        producer.sent.append(data)
        return data

    def _marker(self, producer: _Producer) -> bytes:
        rng = self.random
        if producer.version == 2 and not self.odd():
            producer.epoch = min(producer.epoch + 1, 32767)
            producer.sequence = 0
        epoch = producer.epoch + (rng.choice((-1, 0, 1)) if self.odd() else 0)
        if self.odd():
            self.coordinator_epoch += rng.choice((-1, 1, 3))
        timestamp = self.tick()
        records = _odd_records(rng, timestamp) if self.odd() and rng.random() < 0.3 else None
        data = control_batch(
            self._take(1),
            producer_id=producer.producer_id,
            epoch=max(-1 + (records is None), min(epoch, 32767)) if epoch >= 0 else 0,
            type_=rng.choice((ABORT, COMMIT)),
            coordinator_epoch=self.coordinator_epoch,
            timestamp=timestamp,
            log_append_time=timestamp + 5 if rng.random() < 0.1 else None,
            records=records,
            codec=rng.choice((Codec.NONE,) * 9 + (Codec.LZ4,)),
        )
        producer.in_transaction = False
        if self.odd():
            return encode_empty_batch(decode_batch(data).header)
        return self._damaged(data) if self.odd() else data

    def _damaged(self, data: bytes) -> bytes:
        """Damage a marker in a way that no coordinator does; its checksum stays correct."""
        rng = self.random
        header, payload = decode_batch(data).header, bytearray(data[HEADER_SIZE:])
        chance = rng.random()
        if chance < 0.3:  # a second record, or none after the first
            payload += rng.choice((b"", b"\x01", bytes(payload)))
            header = header._replace(record_count=rng.choice((-1, 2, 3)))
        elif chance < 0.5:
            header = header._replace(max_timestamp=header.max_timestamp + rng.choice((-7, 7)))
        else:
            payload[rng.randrange(len(payload))] ^= 1 << rng.randrange(8)
        return assemble(header, bytes(payload))

    # ------------------------------------------------------------------ one operation

    def operation(self) -> Operation:
        rng = self.random
        chance = rng.random()
        if chance < 0.4:
            return self._append()
        if chance < 0.55:
            return Recover(self._batches(rng.randint(1, 8)))
        if chance < 0.8:
            return self._call()
        return self._file_call()

    def _batches(self, count: int) -> bytes:
        """Draw batches: sometimes many at a time, if little is odd."""
        if self.oddness < 0.01 and self.random.random() < 0.2:
            count *= 40
        return b"".join(self.batch() for _ in range(count))

    def _append(self) -> Append:
        rng = self.random
        origin = rng.choice(("CLIENT", "CLIENT", "COORDINATOR", "REPLICATION"))
        return Append(
            data=self._batches(rng.choice((1, 1, 1, 2, 6))),
            origin=origin,
            transaction_version=rng.choice((0, 1, 2, 2) if not self.odd() else (-1, 3)),
        )

    def _call(self) -> Operation:
        """Draw a call. All arguments are drawn for every kind, so that later draws do not move."""
        rng = self.random
        producer = rng.choice(self.producers)
        kind = rng.choice(CALLS)
        offset = max(0, self.next_offset - rng.choice((0, 1, 3, 10, 30)))
        if kind is Duplicate:
            if producer.sent:
                return Duplicate(rng.choice(producer.sent[-7:]))
            kind = Late
        time = self._time_of(kind)
        sequence = min(producer.sequence + rng.choice((-2, 0, 0, 3)), MAX_SEQUENCE)
        epoch = min(32767, producer.epoch + rng.choice((0, 0, 1)))
        supports_epoch_bump = rng.random() < 0.5
        calls: dict[type[Operation], Operation] = {
            HighWatermark: HighWatermark(offset),
            LogStartOffset: LogStartOffset(offset),
            MapEndOffset: MapEndOffset(offset),
            ClearVerification: ClearVerification(producer.producer_id),
            Expire: Expire(time),
            Late: Late(time),
            Verify: Verify(
                producer_id=producer.producer_id,
                sequence=sequence,
                epoch=epoch,
                supports_epoch_bump=supports_epoch_bump,
                time=time,
            ),
            Complete: Complete(
                producer_id=producer.producer_id, offset=offset, last_offset=self.next_offset
            ),
        }
        return calls[kind]

    def _time_of(self, kind: type[Operation]) -> int:
        """Draw a time: when something may expire or be late, or after all others."""
        if kind in (Expire, Late):
            past = self.random.choice(self.times[-9:])
            time = past + self.random.choice((0, LATE, LATE + 1, DAY - 1, DAY))
            self.now = max(self.now, time)
            return time
        return self.tick() if kind is Verify else self.now

    def _file_call(self) -> Operation:
        rng = self.random
        near = [max(0, self.next_offset - rng.randrange(30)) for _ in range(4)]
        kind = rng.choice(FILE_CALLS)
        if kind is Truncate:
            end = rng.choice((near[0], near[1], self.next_offset, 2_000_000))
            return Truncate(start=rng.choice((0, 0, min(near))), end=end, time=self.now)
        if kind in (Write, Unlink):
            name, data = self._snapshot_name(near[0]), self._snapshot()
            return Write(name, data) if kind is Write else Unlink(name)
        if kind is RemoveStrays:
            return RemoveStrays([] if rng.random() < 0.1 else near[1:])
        if kind in (Snapshot, TruncateFullyAndReload, Reopen):
            return kind()
        return kind(near[0])  # type: ignore[call-arg]

    def _snapshot_name(self, offset: int) -> str:
        if self.random.random() < 0.85:
            return f"{offset:020d}.snapshot"
        return self.random.choice(ODD_NAMES)

    def _snapshot(self) -> bytes:
        rng = self.random
        rows = [
            ProducerSnapshotEntry(
                producer.producer_id,
                producer.epoch,
                producer.sequence,
                rng.choice((-1, self.next_offset)),
                rng.choice((0, 4)),
                self.now - rng.choice((0, DAY - 1, DAY)),
                rng.choice((-1, 2)),
                rng.choice((-1, -1, max(0, self.next_offset - 5))),
            )
            for producer in self.producers[: rng.randrange(5)]
        ]
        data = bytearray(encode_producer_snapshot(ProducerSnapshotFile.of(rows)))
        chance = rng.random()
        if chance < 0.2:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
        elif chance < 0.3:
            del data[rng.randrange(len(data)) :]
        elif chance < 0.4:
            data += b"tail"
        return bytes(data)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerRun:
    """Operations on one manager, whose snapshots are in `path`."""

    path: Path
    operations: tuple[Operation, ...]
    time: int = START

    def request(self) -> dict[str, Any]:
        """Return the run as the oracle's `producer_states` takes it."""
        return {"path": self.path, "time": self.time, "operations": list(self.operations)}


def draw_run(seed: int, path: Path, *, operations: int = 40) -> ProducerRun:
    """Draw a run of so many operations."""
    drawing = _Drawing(seed)
    return ProducerRun(path=path, operations=tuple(drawing.operation() for _ in range(operations)))
