"""Whole partition directories from a seed: the plan is drawn here, Kafka's UnifiedLog writes it.

A plan is a list of `run_log` steps (one append each, with the clock's time) and, beside it, every
record that the log must then hold. The expectation is drawn with the plan, before any byte exists:
offsets are counted here, and checked against those that Kafka gave.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
START = 1_700_000_000_000  # the clock's first time, and near it every record's
TOPIC_ID = "b2JqZWN0aW9uLXNlZWRlZA"  # any; fixed, so that partition.metadata is the same


class ExpectedRecord(NamedTuple):
    """One record of a built log, as every reader must find it."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    producer_id: int
    producer_epoch: int
    sequence: int
    partition_leader_epoch: int
    is_transactional: bool
    control: str | None  # COMMIT or ABORT
    codec: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlan:
    """What a built log holds; the defaults have a little of everything in dozens of segments."""

    seed: int = 0
    batches: int = 200
    records_per_batch: int = 8  # at most
    value_size: int = 120  # at most
    codecs: Sequence[str] = CODECS
    magic: int = 2
    timestamp_type: str = "CreateTime"
    nulls: bool = True
    headers: bool = True
    idempotent_producers: int = 2
    transactional_producers: int = 3
    open_transactions: int = 1  # left open at the end
    leader_epochs: int = 4
    gaps: bool = False  # offsets with gaps, as compaction leaves them: appended as a follower does
    close: str = "clean"  # or "crash"
    config: Mapping[str, Any] = field(default_factory=dict)

    def settings(self) -> dict[str, Any]:
        return {
            "segment.bytes": 2048,
            "index.interval.bytes": 300,
            "segment.index.bytes": 1024,
            "message.timestamp.type": self.timestamp_type,
            "message.timestamp.after.max.ms": 2**63 - 1,
            "retention.ms": -1,
            **self.config,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class BuiltLog:
    """A directory that Kafka wrote, what is in it, and how Kafka saw it before it was closed."""

    path: Path
    records: list[ExpectedRecord]
    state: dict[str, Any]
    files: list[str]

    def segments(self) -> list[Path]:
        return sorted(self.path.glob("*.log"))


@dataclass(slots=True)
class _Producer:
    producer_id: int
    transactional: bool = False
    bumps_epoch: bool = False  # transaction version 2: every marker raises the epoch
    epoch: int = 0
    next_sequence: int = 0
    in_transaction: bool = False


@dataclass(slots=True)
class _Draw:
    """The state of a plan being drawn."""

    plan: LogPlan
    random: random.Random
    now: int = START
    next_offset: int = 0
    leader_epoch: int = 0
    steps: list[dict[str, Any]] = field(default_factory=list)
    records: list[ExpectedRecord] = field(default_factory=list)


def draw(plan: LogPlan) -> tuple[list[dict[str, Any]], list[ExpectedRecord]]:
    """The steps of `run_log` and the records that they leave behind."""
    drawing = _Draw(plan, random.Random(plan.seed))
    producers = list(_producers(plan))
    for turn in range(plan.batches):
        drawing.now += drawing.random.randrange(1000)
        drawing.leader_epoch = turn * plan.leader_epochs // plan.batches * 2
        choices: list[_Producer | None] = [None, *producers]
        producer = drawing.random.choice(choices)
        if producer and producer.in_transaction and drawing.random.random() < 0.4:
            _end_transaction(drawing, producer)
        else:
            _append(drawing, producer)
    _settle(drawing, [producer for producer in producers if producer.transactional])
    drawing.steps.append({"do": "high_watermark"})
    return drawing.steps, drawing.records


def _producers(plan: LogPlan) -> Iterator[_Producer]:
    if plan.magic < 2:
        return
    for i in range(plan.idempotent_producers):
        yield _Producer(1000 + i)
    for i in range(plan.transactional_producers):
        yield _Producer(2000 + i, transactional=True, bumps_epoch=i % 2 == 1)


def _settle(drawing: _Draw, transactional: list[_Producer]) -> None:
    """As many open transactions at the end as the plan wants."""
    for i, producer in enumerate(transactional):
        stays_open = i < drawing.plan.open_transactions
        if stays_open and not producer.in_transaction:
            _append(drawing, producer)
        elif producer.in_transaction and not stays_open:
            _end_transaction(drawing, producer)


def _append(drawing: _Draw, producer: _Producer | None) -> None:
    plan, rng = drawing.plan, drawing.random
    codec = rng.choice(plan.codecs)
    base_offset = offset = drawing.next_offset + (rng.randrange(3) if plan.gaps else 0)
    described, expected = [], []
    for i in range(rng.randint(1, plan.records_per_batch)):
        if i and plan.gaps:
            offset += rng.randrange(3)
        timestamp = drawing.now - rng.randrange(5000)
        key, value, headers = _key(drawing), _value(drawing), _headers(drawing)
        described.append(
            {"offset": offset, "timestamp": timestamp, "key": key, "value": value}
            | ({"headers": [list(header) for header in headers]} if headers else {})
        )
        expected.append(
            ExpectedRecord(
                offset=offset,
                timestamp=_stored_timestamp(drawing, timestamp),
                key=key,
                value=value,
                headers=headers,
                producer_id=producer.producer_id if producer else -1,
                producer_epoch=producer.epoch if producer else -1,
                # A sequence is the base plus the offset's delta: after compaction it has gaps too.
                sequence=producer.next_sequence + offset - base_offset if producer else -1,
                partition_leader_epoch=drawing.leader_epoch if plan.magic == 2 else -1,
                is_transactional=producer is not None and producer.transactional,
                control=None,
                codec=codec,
            )
        )
        offset += 1
    batch = {"base_offset": base_offset, "codec": codec, "records": described}
    if producer:
        batch |= {"producer_id": producer.producer_id, "producer_epoch": producer.epoch}
        batch |= {"base_sequence": producer.next_sequence, "transactional": producer.transactional}
        producer.next_sequence += offset - base_offset
        producer.in_transaction = producer.transactional
    _add_step(drawing, batch, "CLIENT", expected)


def _end_transaction(drawing: _Draw, producer: _Producer) -> None:
    control = drawing.random.choice(("COMMIT", "ABORT"))
    coordinator_epoch = 1 + len(drawing.steps) // 40  # it may not go back
    if producer.bumps_epoch:
        producer.epoch += 1
        producer.next_sequence = 0
    producer.in_transaction = False
    batch = {
        "base_offset": drawing.next_offset,
        "timestamp": drawing.now,
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
        "transactional": True,
        "control": {"type": control, "coordinator_epoch": coordinator_epoch},
    }
    expected = ExpectedRecord(
        offset=drawing.next_offset,
        timestamp=_stored_timestamp(drawing, drawing.now),
        key=b"\0\0" + (b"\0\1" if control == "COMMIT" else b"\0\0"),
        value=b"\0\0" + coordinator_epoch.to_bytes(4, "big"),
        headers=(),
        producer_id=producer.producer_id,
        producer_epoch=producer.epoch,
        sequence=-1,
        partition_leader_epoch=drawing.leader_epoch,
        is_transactional=True,
        control=control,
        codec="none",
    )
    version = 2 if producer.bumps_epoch else 1
    _add_step(drawing, batch, "COORDINATOR", [expected], transaction_version=version)


def _add_step(
    drawing: _Draw,
    batch: dict[str, Any],
    origin: str,
    expected: list[ExpectedRecord],
    **more: Any,
) -> None:
    plan = drawing.plan
    batch["magic"] = plan.magic
    step = {
        "do": "append",
        "time": drawing.now,
        "leader_epoch": drawing.leader_epoch,
        "batch": batch,
    }
    if plan.gaps:
        # A follower writes what it is given: what the leader decides is decided here.
        batch |= {"partition_leader_epoch": drawing.leader_epoch}
        batch |= {"timestamp_type": plan.timestamp_type, "log_append_time": drawing.now}
        origin = "REPLICATION"
    else:
        # A client's batch begins at 0 and a leader gives the offsets.
        batch["base_offset"] = 0
        for described in batch.get("records", ()):
            del described["offset"]
        if plan.magic < 2:
            step["record_version"] = plan.magic
    drawing.steps.append(step | {"origin": origin, **more})
    drawing.records += expected
    drawing.next_offset = expected[-1].offset + 1


def _stored_timestamp(drawing: _Draw, timestamp: int) -> int:
    if drawing.plan.magic == 0:
        return -1
    return drawing.now if drawing.plan.timestamp_type == "LogAppendTime" else timestamp


def _key(drawing: _Draw) -> bytes | None:
    chance = drawing.random.random()
    if drawing.plan.nulls and chance < 0.1:
        return None
    return b"" if chance < 0.15 else b"key-%03d" % drawing.random.randrange(200)


def _value(drawing: _Draw) -> bytes | None:
    rng = drawing.random
    chance = rng.random()
    if drawing.plan.nulls and chance < 0.1:
        return None
    if chance < 0.15:
        return b""
    size = rng.randrange(1, drawing.plan.value_size)
    return rng.randbytes(size) if chance < 0.4 else (b"value %d " % rng.randrange(9) * size)[:size]


def _headers(drawing: _Draw) -> tuple[tuple[str, bytes | None], ...]:
    rng = drawing.random
    if not drawing.plan.headers or drawing.plan.magic < 2 or rng.random() < 0.6:
        return ()
    values: tuple[bytes | None, ...] = (None, b"", b"trace", rng.randbytes(5))
    return tuple(
        (rng.choice(("", "trace-id", "größe")), rng.choice(values))
        for _ in range(rng.randint(1, 3))
    )
