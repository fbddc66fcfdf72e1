"""Sound directories that Kafka wrote: of all magics, closed and killed, whole and trimmed."""

import random
import shutil
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from tests import golden
from tests.oracle.client import Oracle, record
from tests.oracle.logs import START, LogPlan

SETTINGS = {
    "segment.bytes": 2048,
    "index.interval.bytes": 300,
    "segment.index.bytes": 1024,
    "message.timestamp.after.max.ms": 2**63 - 1,
    "retention.ms": -1,
}
GOLDEN = (
    ("clean-3.9.1", "transactions-0"),
    ("cleaner-4.3.1", "compacted.codecs-0"),
    ("groups-4.3.1", "__consumer_offsets-1"),
    ("legacy-2.8.2", "magic-0.mixed-0"),
)
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A sound directory, how it was closed, and where it ends."""

    name: str
    path: Path
    log_end_offset: int
    settings: dict[str, Any] = field(default_factory=lambda: dict(SETTINGS))

    def bases(self) -> list[int]:
        return sorted(int(path.stem) for path in self.path.glob("*.log"))


def build_sources(
    oracle: Oracle, folder: Path, only: Collection[str] | None = None
) -> list[Source]:
    """All of them, or those that are named."""
    plans = {
        "crashed": LogPlan(seed=1, batches=60, records_per_batch=5, close="crash"),
        "clean": LogPlan(seed=2, batches=60, records_per_batch=5),
        "gaps": LogPlan(seed=3, batches=50, records_per_batch=5, gaps=True, close="crash"),
        "gaps-clean": LogPlan(seed=4, batches=50, records_per_batch=5, gaps=True),
        "magic0": LogPlan(
            seed=5, batches=40, records_per_batch=4, magic=0, codecs=("none", "gzip")
        ),
        "magic1": LogPlan(
            seed=6,
            batches=40,
            records_per_batch=4,
            magic=1,
            close="crash",
            codecs=("none", "gzip", "snappy", "lz4"),
        ),
        "plain": LogPlan(
            seed=7, batches=40, idempotent_producers=0, transactional_producers=0, codecs=("none",)
        ),
        "log-append-time": LogPlan(
            seed=8, batches=40, timestamp_type="LogAppendTime", records_per_batch=4, close="crash"
        ),
        "transactions": LogPlan(
            seed=9,
            batches=80,
            records_per_batch=2,
            value_size=20,
            idempotent_producers=1,
            transactional_producers=5,
            open_transactions=2,
            codecs=("none",),
            close="crash",
        ),
        "one-segment": LogPlan(
            seed=10, batches=20, records_per_batch=3, config={"segment.bytes": 100_000}
        ),
        "preallocated": LogPlan(
            seed=11, batches=30, records_per_batch=4, close="crash", config={"preallocate": "true"}
        ),
    }
    builders: dict[str, Callable[[], Source]] = {
        name: partial(_build, oracle, folder / name / "orders-0", name, plan)
        for name, plan in plans.items()
    }
    builders["empty"] = partial(_empty, oracle, folder)
    builders["trimmed"] = partial(_trimmed, oracle, folder)
    builders |= {f"overflow-{i}": partial(_overflowing, oracle, folder, i) for i in (1, 2, 3)}
    builders["mixed"] = partial(_mixed_magics, oracle, folder)
    builders |= {pack: partial(_golden, folder, pack, name) for pack, name in GOLDEN}
    return [build() for name, build in builders.items() if only is None or name in only]


def _build(oracle: Oracle, path: Path, name: str, plan: LogPlan) -> Source:
    built = oracle.build_log(path, plan)
    settings = {**SETTINGS, **plan.settings()}
    end = built.state["log_end_offset"]
    return Source(name=name, path=path, log_end_offset=end, settings=settings)


def _empty(oracle: Oracle, folder: Path) -> Source:
    path = folder / "empty" / "orders-0"
    oracle.run_log(path, config=SETTINGS, time=START, close="crash")
    return Source(name="empty", path=path, log_end_offset=0)


def _trimmed(oracle: Oracle, folder: Path) -> Source:
    """Records deleted in the middle of a segment, older segments gone."""
    path = folder / "trimmed" / "orders-0"
    plan = LogPlan(seed=12, batches=50, records_per_batch=5)
    built = oracle.build_log(path, plan)
    end = built.state["log_end_offset"]
    steps = [
        {"do": "high_watermark"},
        {"do": "log_start_offset", "offset": end * 2 // 3},
        {"do": "delete_old_segments"},
    ]
    oracle.run_log(path, config=SETTINGS, time=START + 60_000, steps=steps, close="crash")
    return Source(name="trimmed", path=path, log_end_offset=end)


def _overflowing(oracle: Oracle, folder: Path, seed: int) -> Source:
    """One segment whose offsets are further apart than four bytes can say, as old cleaners left."""
    rng = random.Random(seed)
    path = folder / f"overflow-{seed}" / "orders-0"
    path.mkdir(parents=True)
    parts, offset, sequence = [], rng.choice((0, 5)), 0
    base = offset
    for i in range(rng.randint(3, 12)):
        batch = {
            "base_offset": offset,
            "codec": rng.choice(("none", "lz4")),
            "partition_leader_epoch": i // 3,
            "records": [
                record(START + i * 10 + j, b"k%d" % j, rng.randbytes(60), offset=offset + j)
                for j in range(2)
            ],
        }
        if seed > 1:
            batch |= {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
            sequence += 2
        parts.append(oracle.build_batch(batch))
        offset += 2 + rng.choice((0, 100, _INT32_MAX - 1, 2**31, 2**32))
    offset += 2**32
    parts.append(
        oracle.build_batch(
            {
                "base_offset": offset,
                "partition_leader_epoch": 9,
                "records": [record(START + 900, b"last", b"one", offset=offset)],
            }
        )
    )
    (path / f"{base:020d}.log").write_bytes(b"".join(parts))
    if seed == 3:  # with an index, so that it is the recovery of the log that finds out
        (path / f"{base:020d}.index").write_bytes(b"")
    return Source(name=f"overflow-{seed}", path=path, log_end_offset=offset + 1)


def _mixed_magics(oracle: Oracle, folder: Path) -> Source:
    """A log that was written by brokers of three ages."""
    path = folder / "mixed" / "orders-0"
    path.mkdir(parents=True)
    offset, data = 0, b""
    for magic in (0, 1, 2):
        for i in range(8):
            records = [
                record(START + offset + j, b"key", b"value %d" % j * 9, offset=offset + j)
                for j in range(3)
            ]
            batch: dict[str, Any] = {"magic": magic, "base_offset": offset, "records": records}
            batch |= {"codec": "gzip" if i % 3 == 2 else "none", "partition_leader_epoch": 4}
            data += oracle.build_batch(batch)
            offset += 3
    (path / f"{0:020d}.log").write_bytes(data)
    return Source(name="mixed", path=path, log_end_offset=offset)


def _golden(folder: Path, pack: str, partition: str) -> Source:
    """A small partition that a broker wrote; its indexes are small too."""
    path = folder / pack / "orders-0"
    shutil.copytree(next(golden.shared(pack).rglob(partition)), path)
    settings = {"segment.index.bytes": 4096, "index.interval.bytes": 500}
    end = int(max(path.glob("*.log")).stem) + 30
    return Source(name=pack, path=path, log_end_offset=end, settings=settings)
