"""Seeded workloads: what may happen to a partition log, as steps for Kafka's log and for ours.

A workload is a list of sessions (steps.py). Nothing in it depends on an answer: offsets are
relative to the log's own offsets at that time, so a step makes sense whatever happened before.
Many steps are refused. An error is also an answer, so every step may fail.

    draw_workload(7).sessions  ->  oracle.call("run_sessions", runs=[{"path": …, "sessions": …}])
                               ->  tests.kafka_log.compare.Comparison.sessions
"""

import random
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kafka_format.batch import assemble, decode_batch, encode_batch, encode_empty_batch
from kafka_format.compression import Codec
from kafka_format.control import ControlRecordType, encode_control_record, end_transaction_marker
from kafka_format.legacy import encode_legacy_batch
from kafka_format.record import Header, SimpleRecord, TimestampType
from tests.kafka_log.steps import (
    Action,
    Append,
    AssignEpoch,
    DeleteOldSegments,
    EndOffsetForEpoch,
    Flush,
    HighWatermark,
    LateTransaction,
    LogStartOffset,
    MaybeIncrementHighWatermark,
    MaybeUpdateHighWatermark,
    OffsetForTimestamp,
    Opening,
    ProducerSnapshot,
    Read,
    RelativeOffset,
    RemoveExpiredProducers,
    Roll,
    RunPending,
    SessionPlan,
    StartVerification,
    State,
    Step,
    TruncateFullyAndStartAt,
    TruncateTo,
    UpdateConfig,
)

START = 1_700_000_000_000
LONG_MAX = 2**63 - 1
TOPIC_ID = "b2JqZWN0aW9uLXNlZWRlZA"
LARGE_SEGMENT = 40_000  # has room for batches that are worth a kernel
ISOLATIONS = ("LOG_END", "HIGH_WATERMARK", "TXN_COMMITTED")


class Workload(NamedTuple):
    """Sessions of one log."""

    seed: int
    sessions: list[SessionPlan]
    suite: str = "log"
    """The suite by which `python -m tests.show` draws it again."""

    @property
    def steps(self) -> list[Step]:
        return [step for session in self.sessions for step in session.steps]


class Mode(NamedTuple):
    """What is the same for a whole workload."""

    is_legacy: bool = False
    """Whether the log is kept in magic 0 or 1, and gets such records."""
    verifies: bool = False
    """Whether transactions are verified before their first append."""


def mode_of(seed: int) -> Mode:
    """Return the mode of a seed: every sixth log is an old one, every fourth one verifies."""
    return Mode(is_legacy=seed % 6 == 5, verifies=seed % 4 == 3)


@dataclass(slots=True)
class _Producer:
    """A client. It knows what it sent, but not what the log did with it."""

    producer_id: int
    transaction_version: int = 0  # 0: only idempotent
    epoch: int = 0
    next_sequence: int = 0
    in_transaction: bool = False
    sent: list[bytes] = field(default_factory=list)  # for duplicates

    def bump(self) -> None:
        self.epoch += 1
        self.next_sequence = 0
        self.sent.clear()


class _Drawing:
    """A workload while it is drawn."""

    def __init__(self, seed: int, mode: Mode, codecs: Sequence[Codec]) -> None:
        self.random = random.Random(seed)
        self.now = START
        self.leader_epoch = 0
        self.coordinator_epoch = 0
        self.is_legacy = mode.is_legacy
        self.verifies = mode.verifies
        self.codecs = codecs
        self.producers = [
            _Producer(100 + i, transaction_version=version)
            for i, version in enumerate((0, 0, 1, 1, 2))
        ]
        self.config = _draw_config(self.random)

    def chance(self, probability: float) -> bool:
        return self.random.random() < probability

    def codec(self) -> Codec:
        return self.random.choice(self.codecs)


def draw_workload(
    seed: int,
    *,
    sessions: int = 3,
    steps: int = 30,
    crashes: bool = True,
    mode: Mode | None = None,
    codecs: Sequence[Codec] = tuple(Codec),
) -> Workload:
    """Draw a workload. With `crashes`, a session may end without a close.

    Without a `mode`, the seed decides.
    """
    drawing = _Drawing(seed, mode_of(seed) if mode is None else mode, codecs)
    drawn = []
    is_clean = True
    for _ in range(sessions):
        opening, taken = _draw_session(drawing, steps)
        if not is_clean and drawing.chance(0.4):
            opening = replace(opening, recovery_point=0)  # it was not written in time
        if drawing.chance(0.1):
            opening = replace(opening, log_start_offset=0)
        opening = replace(opening, clean_shutdown=is_clean)
        is_clean = not (crashes and drawing.chance(0.35))
        close = "clean" if is_clean else "crash"
        if drawing.chance(0.1):
            is_clean = not crashes  # a broker that died before it wrote its marker
        drawn.append(SessionPlan(opening=opening, steps=taken, close=close))
    return Workload(seed, drawn, "log" if crashes else "log-without-crashes")


def draw_long_workload(seed: int) -> Workload:
    return draw_workload(seed, sessions=6, steps=300)._replace(suite="log-long")


def _draw_config(rng: random.Random) -> dict[str, Any]:
    config: dict[str, Any] = {
        "segment.bytes": rng.choice((700, 1500, 3000, 6000, LARGE_SEGMENT)),
        "index.interval.bytes": rng.choice((0, 60, 300, 1000)),
        "segment.index.bytes": rng.choice((40, 120, 1000)),
        "message.timestamp.type": rng.choice(("CreateTime", "CreateTime", "LogAppendTime")),
        "message.timestamp.after.max.ms": rng.choice((3_600_000, LONG_MAX)),
        "segment.ms": rng.choice((4_000, 60_000, 604_800_000)),
        "retention.ms": rng.choice((-1, 20_000, 7_200_000)),
        "retention.bytes": rng.choice((-1, -1, 2000, 9000)),
        "cleanup.policy": rng.choice(("delete", "delete", "delete", "compact", "compact,delete")),
        "compression.type": rng.choice(("producer",) * 4 + ("uncompressed", "gzip", "lz4", "zstd")),
    }
    rare: dict[str, tuple[Any, ...]] = {
        "max.message.bytes": (250, 600),
        "message.timestamp.before.max.ms": (4_000,),
        "preallocate": (True,),
        "file.delete.delay.ms": (0,),
        "flush.messages": (1, 7),
    }
    return config | {
        name: rng.choice(values) for name, values in rare.items() if rng.random() < 0.2
    }


def _draw_session(drawing: _Drawing, steps: int) -> tuple[Opening, tuple[Step, ...]]:
    """Draw how a log is opened, and a number of steps."""
    opening = Opening(
        config=drawing.config,
        time=drawing.now,
        topic_id=TOPIC_ID,
        producer_id_expiration_ms=1_800_000,
        max_transaction_timeout_ms=60_000,
        transaction_verification=drawing.verifies,
    )
    return opening, tuple(_draw_steps(drawing, steps))


def _draw_steps(drawing: _Drawing, count: int) -> Iterator[Step]:
    """Draw steps. Time passes between them, and now and then there is a new leader."""
    makers = [maker for maker, _ in _ACTIONS]
    weights = [weight for _, weight in _ACTIONS]
    for maker in drawing.random.choices(makers, weights, k=count):
        drawing.now += drawing.random.choice((0, 1, 40, 900, 2500))
        if drawing.chance(0.02):
            drawing.now += drawing.random.choice((61_000, 2_000_000, 7_300_000))
        if drawing.chance(0.05):
            drawing.leader_epoch += drawing.random.randint(1, 2)
        yield Step(maker(drawing), drawing.now, may_fail=True)


# ------------------------------------------------------------------------------------ records


def _draw_records(drawing: _Drawing, *, magic: int = 2, gaps: bool = False) -> list[SimpleRecord]:
    rng = drawing.random
    records, offset = [], 0
    sizes = (1, 8, 50) if drawing.config["segment.bytes"] == LARGE_SEGMENT else (1, 1, 2, 3, 8)
    for _ in range(rng.choice(sizes)):
        headers: tuple[Header, ...] = ()
        if magic == 2 and drawing.chance(0.2):
            headers = (Header("trace", rng.choice((None, b"", b"1"))),)
        records.append(
            SimpleRecord(
                timestamp=-1 if magic == 0 else _draw_timestamp(drawing),
                key=_draw_key(drawing),
                value=_draw_value(drawing),
                headers=headers,
                offset=offset if gaps else None,
            )
        )
        offset += 1 + (rng.randrange(3) if gaps else 0)
    return records


def _draw_timestamp(drawing: _Drawing) -> int:
    if drawing.chance(0.01):
        return drawing.now + 4_000_000  # too far ahead for most topics
    return drawing.now - drawing.random.choice((0, 0, 3, 700, 6000))


def _draw_key(drawing: _Drawing) -> bytes | None:
    if drawing.chance(0.02 if "compact" in drawing.config["cleanup.policy"] else 0.3):
        return None
    return b"key-%d" % drawing.random.randrange(20)


def _draw_value(drawing: _Drawing) -> bytes | None:
    rng = drawing.random
    if drawing.chance(0.1):
        return rng.choice((None, b""))
    size = rng.choice((5, 30, 90, 200))
    return (
        rng.randbytes(size)
        if drawing.chance(0.4)
        else (b"value %d " % rng.randrange(9) * size)[:size]
    )


def _encode(drawing: _Drawing, producer: _Producer | None, **more: Any) -> bytes:
    """Encode a batch of a client. A producer's batch takes its next sequence."""
    gaps = more.pop("gaps", False)
    records = _draw_records(drawing, gaps=gaps)
    if producer is None:
        return encode_batch(records, codec=drawing.codec(), **more)
    producer.in_transaction = producer.transaction_version > 0
    batch = encode_batch(
        records,
        codec=drawing.codec(),
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        base_sequence=producer.next_sequence,
        is_transactional=producer.transaction_version > 0,
        **more,
    )
    producer.next_sequence += decode_batch(batch).header.last_offset_delta + 1
    return batch


def _encode_marker(drawing: _Drawing, producer: _Producer, **more: Any) -> bytes:
    """Encode the end of a transaction, even of one that never began. Version 2 raises the epoch."""
    rng = drawing.random
    if drawing.chance(0.1):
        drawing.coordinator_epoch += 1
    if producer.transaction_version == 2:
        producer.bump()
    producer.in_transaction = False
    epoch = drawing.coordinator_epoch - (1 if drawing.chance(0.03) else 0)
    type_ = rng.choice((ControlRecordType.COMMIT, ControlRecordType.ABORT, ControlRecordType.ABORT))
    key, value = encode_control_record(end_transaction_marker(type_, epoch))
    return encode_batch(
        [SimpleRecord(drawing.now, key, value)],
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch - (1 if drawing.chance(0.03) and producer.epoch else 0),
        is_transactional=True,
        is_control=True,
        **more,
    )


# -------------------------------------------------------------------------------------- steps


def _append(drawing: _Drawing, data: bytes, **more: Any) -> Append:
    return Append(data=data, leader_epoch=drawing.leader_epoch, **more)


def _plain(drawing: _Drawing) -> Append:
    if drawing.is_legacy:
        return _legacy(drawing)
    return _append(drawing, _encode(drawing, None))


def _legacy(drawing: _Drawing) -> Append:
    """Append old magics: kept if the log has that version, otherwise converted by the leader."""
    rng = drawing.random
    magic = rng.choice((0, 1))
    # Not snappy: what a leader recompresses with it may differ from the bytes of Kafka's library.
    codec = rng.choice((Codec.NONE, Codec.GZIP, Codec.LZ4))
    data = encode_legacy_batch(_draw_records(drawing, magic=magic), magic=magic, codec=codec)
    version = {"record_version": rng.choice((0, 1, 1))} if drawing.is_legacy else {}
    return _append(drawing, data, **version)


def _idempotent(drawing: _Drawing) -> Append:
    rng = drawing.random
    producer = rng.choice(drawing.producers)
    if producer.sent and drawing.chance(0.15):
        return _append(drawing, rng.choice(producer.sent))  # a retry: still known, or not
    if drawing.chance(0.06):
        producer.bump()
    if drawing.chance(0.05):
        producer.next_sequence += rng.choice((-1, 1, 5)) if producer.next_sequence else 1
    if drawing.chance(0.03) and producer.epoch:
        fenced = _Producer(producer.producer_id, producer.transaction_version, producer.epoch - 1)
        return _append(drawing, _encode(drawing, fenced))
    data = _encode(drawing, producer)
    producer.sent = [*producer.sent[-6:], data]
    # There is a guard if a verification was started; without one the log may refuse the append.
    guard = {"verified": producer.producer_id} if drawing.verifies and drawing.chance(0.9) else {}
    return _append(drawing, data, **guard)


def _start_verification(drawing: _Drawing) -> Append | StartVerification:
    if not drawing.verifies:
        return _idempotent(drawing)
    producer = drawing.random.choice(drawing.producers[2:])
    return StartVerification(
        producer_id=producer.producer_id,
        producer_epoch=max(0, producer.epoch - (1 if drawing.chance(0.1) else 0)),
        sequence=producer.next_sequence + drawing.random.choice((0, 0, 0, 1)),
        supports_epoch_bump=producer.transaction_version == 2,
    )


def _marker(drawing: _Drawing) -> Append:
    transactional = [each for each in drawing.producers if each.transaction_version]
    open_ones = [each for each in transactional if each.in_transaction]
    producer = drawing.random.choice(open_ones or transactional)
    data = _encode_marker(drawing, producer)
    version = (
        producer.transaction_version if drawing.chance(0.95) else 3 - producer.transaction_version
    )
    return _append(drawing, data, origin="COORDINATOR", transaction_version=version)


def _damaged(drawing: _Drawing) -> Append:
    """Append what a leader refuses, or accepts only in part."""
    rng = drawing.random
    data = _encode(drawing, None)
    damages: list[Callable[[], bytes]] = [
        lambda: data[:-1] + bytes([data[-1] ^ 1]),  # checksum
        lambda: data + data,  # two batches
        lambda: data + data[: rng.randrange(1, 40)],  # a torn second one
        lambda: data[: rng.randrange(len(data))],
        lambda: struct.pack(">q", 5) + data[8:],  # base offset not 0
        lambda: data[:16] + b"\x03" + data[17:],  # an unknown magic
        lambda: data[:8] + struct.pack(">i", 5) + data[12:],  # too short for any batch
        lambda: b"",
    ]
    return _append(drawing, rng.choice(damages)())


def _follower(drawing: _Drawing) -> Append:
    """Append batches as fetched from a leader: of any producer, with gaps between them."""
    rng = drawing.random
    if drawing.is_legacy and drawing.chance(0.5):
        records = _draw_records(drawing, magic=1)
        chunk = encode_legacy_batch(records, magic=1, codec=rng.choice((Codec.NONE, Codec.GZIP)))
        return _append(drawing, chunk, origin="REPLICATION", at_end=rng.choice((0, 0, 0, 5, -1)))
    chunk, next_offset = b"", 0
    for _ in range(rng.choice((1, 2, 4))):
        base_offset = next_offset + (rng.randrange(4) if drawing.chance(0.2) else 0)
        if drawing.chance(0.02):
            base_offset = max(0, base_offset - 2)  # offsets that go back
        batch = _follower_batch(drawing, base_offset)
        next_offset = base_offset + decode_batch(batch).header.last_offset_delta + 1
        chunk += batch
    if drawing.chance(0.05):
        chunk = chunk[: -rng.randrange(1, 20)]
    at_end = rng.choice((-2, 1, 30, 30, 3_000_000_000)) if drawing.chance(0.08) else 0
    step = _append(drawing, chunk, origin="REPLICATION", at_end=at_end)
    if drawing.chance(0.05):
        # A replica that does not know the newest leader yet.
        return replace(step, leader_epoch=step.leader_epoch - 1)
    return step


def _follower_batch(drawing: _Drawing, base_offset: int) -> bytes:
    rng = drawing.random
    producer = rng.choice([None, None, *drawing.producers])
    stamped: dict[str, Any] = {"partition_leader_epoch": drawing.leader_epoch}
    if producer and producer.transaction_version and drawing.chance(0.4):
        batch = _encode_marker(drawing, producer, **stamped)
    else:
        if drawing.chance(0.2):
            stamped |= {
                "timestamp_type": TimestampType.LOG_APPEND_TIME,
                "log_append_time": drawing.now,
            }
        batch = _encode(drawing, producer, gaps=drawing.chance(0.2), **stamped)
    if drawing.chance(0.05):
        batch = encode_empty_batch(decode_batch(batch).header)  # as the cleaner leaves it
    return struct.pack(">q", base_offset) + batch[8:]


def _raft_leader(drawing: _Drawing) -> Append:
    """Append as the metadata log's leader: offsets and epoch are already in the batch."""
    epoch = drawing.leader_epoch + (1 if drawing.chance(0.1) else 0)
    data = _encode(drawing, None, partition_leader_epoch=epoch)
    return _append(drawing, data, origin="RAFT_LEADER", at_end=0)


def _update_config(drawing: _Drawing) -> UpdateConfig:
    drawing.config = _draw_config(drawing.random)
    return UpdateConfig(drawing.config)


def _odd_header(drawing: _Drawing) -> Append:
    """Append a batch with a correct checksum and an odd header, which a follower accepts."""
    rng = drawing.random
    batch = decode_batch(_follower_batch(drawing, 0))
    fields: dict[str, tuple[int, ...]] = {
        "last_offset_delta": (-1, 0, 5, 2**31 - 1),
        "base_timestamp": (-1, 0, LONG_MAX),
        "max_timestamp": (-1, 0, drawing.now + 10**9, LONG_MAX),
        "producer_id": (-1, 100, LONG_MAX),
        "producer_epoch": (-1, 0, 2**15 - 1),
        "base_sequence": (-1, 0, 2**31 - 1),
        "record_count": (0, 1, 7),
        "attributes": (0, 0x10, 0x20, 0x30, 0x48, 6),
        "partition_leader_epoch": (-1, 0),
    }
    name = rng.choice(list(fields))
    header = batch.header._replace(**{name: rng.choice(fields[name])})
    return _append(drawing, assemble(header, batch.payload), origin="REPLICATION", at_end=0)


def _truncate(drawing: _Drawing) -> TruncateTo:
    return TruncateTo(RelativeOffset(delta=-drawing.random.choice((0, 1, 2, 5, 9, 30))))


def _truncate_fully(drawing: _Drawing) -> TruncateFullyAndStartAt:
    place = RelativeOffset(delta=drawing.random.choice((-3, 0, 10)))
    return TruncateFullyAndStartAt(place, 1 if drawing.chance(0.2) else None)


def _truncate_below(drawing: _Drawing) -> TruncateTo:
    return TruncateTo(RelativeOffset("start", drawing.random.choice((-1, 0, 2))))


def _log_start(drawing: _Drawing) -> LogStartOffset:
    where = drawing.random.choice(("high_watermark", "start", "last_stable", "active"))
    return LogStartOffset(RelativeOffset(where, drawing.random.choice((-2, 0, 0, 1, 4, 20))))


def _high_watermark(drawing: _Drawing) -> Action:
    move = drawing.random.choice(
        (HighWatermark, MaybeUpdateHighWatermark, MaybeIncrementHighWatermark)
    )
    if drawing.chance(0.7):
        return move(RelativeOffset(delta=drawing.random.choice((0, 0, -1, -4, 5))))
    return move(RelativeOffset("high_watermark", drawing.random.choice((-3, 2, 9))))


def _read(drawing: _Drawing) -> Read:
    rng = drawing.random
    where = rng.choice(("start", "start", "end", "high_watermark", "last_stable", "active"))
    return Read(
        place=RelativeOffset(where, rng.choice((-3, -1, 0, 0, 1, 4, 12))),
        max_length=rng.choice((0, 40, 150, 700, 1 << 20)),
        isolation=rng.choice(ISOLATIONS),
        min_one_message=drawing.chance(0.7),
    )


def _offset_for_timestamp(drawing: _Drawing) -> OffsetForTimestamp:
    special = drawing.random.choice((-1, -2, -3, -3, -4, -5, -6))
    near = drawing.now - drawing.random.choice((0, 500, 5_000, 20_000, 90_000))
    return OffsetForTimestamp(special if drawing.chance(0.5) else near)


def _end_offset_for_epoch(drawing: _Drawing) -> EndOffsetForEpoch:
    epoch = drawing.random.randint(-1, drawing.leader_epoch + 1)
    return EndOffsetForEpoch(epoch)


def _assign_epoch(drawing: _Drawing) -> AssignEpoch:
    drawing.leader_epoch += 1
    return AssignEpoch(drawing.leader_epoch)


def _always(action: Action) -> Callable[[_Drawing], Action]:
    return lambda _: action


_ACTIONS: tuple[tuple[Callable[[_Drawing], Action], float], ...] = (
    (_plain, 14),
    (_idempotent, 24),
    (_start_verification, 8),
    (_marker, 10),
    (_follower, 10),
    (_legacy, 1.5),
    (_damaged, 1.5),
    (_high_watermark, 7),
    (_read, 10),
    (_offset_for_timestamp, 4),
    (_end_offset_for_epoch, 1),
    (_assign_epoch, 1),
    (_odd_header, 0.7),
    (_raft_leader, 1),
    (_update_config, 0.3),
    (_truncate, 1.5),
    (_truncate_below, 0.2),
    (_truncate_fully, 0.3),
    (_log_start, 2),
    (_always(Roll()), 1.5),
    (_always(Flush()), 1),
    (_always(DeleteOldSegments()), 2),
    (_always(RemoveExpiredProducers()), 1),
    (_always(ProducerSnapshot()), 0.7),
    (_always(RunPending()), 1.5),
    (_always(LateTransaction()), 0.5),
    (_always(State()), 1.5),
)
