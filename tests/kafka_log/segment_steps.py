"""Seeded work on one segment, for Kafka's LogSegment (`run_segments`) and for ours."""

import random
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.legacy import encode_legacy_batch
from kafka_format.record import SimpleRecord
from kafka_log.clock import FixedClock, Scheduler
from kafka_log.config import LogConfig
from kafka_log.disk.files import DiskFiles, Files
from kafka_log.file_records import FileRecords
from kafka_log.indexes.index_files import OffsetPosition
from kafka_log.leader_epochs import LeaderEpochFileCache
from kafka_log.producer_state import ProducerStateManager
from kafka_log.producers.entry import CompletedTxn
from kafka_log.segment import LogSegment, RollParams

Step = dict[str, Any]
START = 1_700_000_000_000
BASE = 500
LOG, INDEX, TIME_INDEX, TXN_INDEX = (
    f"{BASE:020}.{ending}" for ending in ("log", "index", "timeindex", "txnindex")
)
_MARKERS = (b"\0\0\0\0", b"\0\0\0\1")  # keys of ABORT and COMMIT


@dataclass
class Draw:
    """A run being drawn: what the log holds so far, as far as the next step needs it."""

    rng: random.Random
    magic: int = 2
    next_offset: int = BASE
    now: int = START
    size: int = 0
    epoch: int = 0
    sequences: dict[int, int] = field(default_factory=dict)
    open_since: dict[int, int] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    def add(self, do: str, **more: Any) -> None:
        self.steps.append({"do": do, **more})

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
        """One batch at the end, and what it leaves behind for the next."""
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
        data = b"".join(self.batch() for _ in range(self.rng.choice((1, 1, 1, 4))))
        self.size += len(data)
        largest = self.next_offset - 1
        if self.rng.random() < 0.01:
            largest = self.rng.choice((BASE - 1, BASE + 2**31))
        self.add("append", largest_offset=largest, bytes=data, time=self.now)

    # ------------------------------------------------------------------------------------ steps

    def ask(self) -> None:
        rng = self.rng
        offset, earlier = self.offset(), self.now - rng.randrange(9999)
        position, size = rng.randrange(self.size + 1), rng.randrange(999)
        draws: tuple[Step, ...] = (
            {"do": "state"},
            {"do": "translate", "offset": offset},
            {"do": "translate", "offset": offset, "starting_file_position": 0},
            self._read(),
            self._read(),
            {"do": "find_timestamp", "timestamp": self.timestamp(), "starting_offset": offset},
            {"do": "find_timestamp", "timestamp": earlier, "starting_offset": BASE},
            {"do": "upper_bound", "position": position, "size": size},
            {"do": "collect_aborted", "fetch_offset": offset, "upper_bound_offset": offset + 9},
            {
                "do": "should_roll",
                "max_segment_ms": rng.choice((1000, 10**9)),
                "max_segment_bytes": rng.choice((self.size + 50, 10**9)),
                "max_timestamp": self.timestamp(),
                "max_offset": self.next_offset + rng.choice((0, 0, 2**31)),
                "messages_size": rng.randrange(100),
            },
        )
        self.steps.append(rng.choice(draws))

    def _read(self) -> Step:
        step: Step = {
            "do": "read",
            "offset": self.offset(),
            "max_size": self.rng.choice((0, 50, 500)),
        }
        if self.rng.random() < 0.9:
            step["max_position"] = self.size + 10**6
        step["min_one_message"] = self.rng.random() < 0.5
        return step

    def change(self) -> None:
        rng = self.rng
        last_offset = self.next_offset + rng.randrange(9)
        draws: tuple[Step, ...] = (
            {"do": "truncate_to", "offset": self.offset(), "time": self.now},
            {"do": "become_inactive"},
            {"do": "resize_indexes", "size": rng.choice((4000, 4100))},
            {"do": "flush"},
            {
                "do": "update_txn_index",
                "producer_id": 7,
                "first_offset": self.next_offset,
                "last_offset": last_offset,
                "last_stable_offset": self.next_offset,
                "is_aborted": rng.random() < 0.8,
            },
        )
        self.steps.append(rng.choice(draws))

    def reopen(self, *, damage: bool) -> None:
        rng = self.rng
        self.add(rng.choice(("close", "crash")))
        if damage:
            for _ in range(rng.randint(1, 2)):
                self.steps.append(self._damage())
        self.add("open", exists=True, time=self.now)
        if rng.random() < 0.3:
            self.add("sanity_check", time_index_newly_created=rng.random() < 0.1)
        if damage or rng.random() < 0.5:
            self.ask()
            self.add("recover")

    def _damage(self) -> Step:
        rng = self.rng
        at = rng.randrange(self.size + 1)
        name = rng.choice((INDEX, TIME_INDEX, TXN_INDEX))
        draws: tuple[Step, ...] = (
            {"name": LOG, "position": at, "bytes": rng.randbytes(1)},
            {"name": LOG, "position": at, "bytes": rng.randbytes(4)},
            {"name": LOG, "size": at},
            {"name": LOG, "size": self.size + rng.choice((5, 30, 3000))},
            {"name": LOG, "position": self.size, "bytes": rng.randbytes(rng.randrange(200))},
            {"name": LOG, "position": 6, "bytes": rng.randbytes(2)},  # the first base offset
            {"name": LOG, "position": 12, "bytes": rng.randbytes(4)},  # its leader epoch
            {"name": name, "gone": True},
            {"name": name, "position": rng.choice((0, 8, 34)), "bytes": rng.randbytes(34)},
            {"name": name, "size": rng.randrange(100)},
        )
        return {"do": "write_file", **rng.choice(draws)}


def draw_run(seed: int) -> dict[str, Any]:
    """The arguments of one run, without its path."""
    rng = random.Random(seed)
    draw = Draw(rng, magic=rng.choice((2, 2, 2, 2, 1, 0)))
    if rng.random() < 0.15:
        draw.add("open", init_file_size=5000, preallocate=True)
    else:
        draw.add("open")
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
    draw.add("state")
    draw.reopen(damage=rng.random() < 0.7)
    draw.add("state")
    draw.add(rng.choice(("close", "crash")))
    config = {
        "index.interval.bytes": rng.choice((0, 100, 100, 400, 4096)),
        "segment.index.bytes": rng.choice((50, 400, 4000)),
    }
    return {
        "base_offset": BASE,
        "config": config,
        "time": START,
        "steps": draw.steps,
        "magic": draw.magic,
    }


def steps_with(*steps: Step, **config: int) -> dict[str, Any]:
    """A run of these steps on a segment that is there (or not yet)."""
    settings = {"index_interval_bytes": 4096, "segment_index_bytes": 4000} | config
    return {
        "base_offset": BASE,
        "config": {name.replace("_", "."): value for name, value in settings.items()},
        "time": START,
        "steps": [{"do": "open", "exists": True}, *steps],
    }


class OurSegment:
    """One segment of ours, taking the steps that run_segments takes."""

    def __init__(self, files: Files, run: Mapping[str, Any]) -> None:
        self.files = files
        self.clock = FixedClock(run["time"])
        self.base_offset = run["base_offset"]
        self.config = LogConfig(
            index_interval_bytes=run["config"]["index.interval.bytes"],
            segment_index_bytes=run["config"]["segment.index.bytes"],
        )
        self.segment: Any = None

    def step(self, step: Step) -> Any:
        if "time" in step:
            self.clock.now_ms = step["time"]
        arguments = {name: value for name, value in step.items() if name not in {"do", "time"}}
        return getattr(self, "_" + step["do"])(**arguments)

    def digests(self) -> dict[str, str]:
        """Size and CRC-32 of every file, as the oracle tells them."""
        return {name: _digest(self.files.read(name, limit=2**24)) for name in self.files.names()}

    def _open(self, *, exists: bool = False, **more: Any) -> None:
        self.segment = LogSegment.open(
            self.files,
            self.base_offset,
            self.config,
            self.clock,
            file_already_exists=exists,
            **more,
        )

    def _append(self, largest_offset: int, bytes: bytes) -> list[int]:  # noqa: A002
        self.segment.append(largest_offset, bytes)
        return [self.segment.size]

    def _should_roll(self, max_timestamp: int, max_offset: int, **more: int) -> list[bool]:
        params = RollParams(
            max_timestamp_in_messages=max_timestamp,
            max_offset_in_messages=max_offset,
            now=self.clock(),
            **more,
        )
        return [self.segment.should_roll(params)]

    def _read(
        self,
        offset: int,
        max_size: int,
        *,
        max_position: int | None = None,
        min_one_message: bool = False,
    ) -> Any:
        found = self.segment.read(offset, max_size, max_position, min_one_message=min_one_message)
        if found is None:
            return None
        data = found.records.read()
        whole = [*found.fetch_offset_metadata, len(data), zlib.crc32(data)]
        return [*whole, found.first_entry_incomplete]

    def _translate(self, offset: int, starting_file_position: int = 0) -> Any:
        found = self.segment.translate_offset(offset, starting_file_position)
        return None if found is None else list(found)

    def _find_timestamp(self, timestamp: int, starting_offset: int) -> Any:
        found = self.segment.find_offset_by_timestamp(timestamp, starting_offset)
        if found is None:
            return None
        return [found.timestamp, found.offset, -1 if found.leader_epoch is None else found[2]]

    def _upper_bound(self, position: int, size: int) -> list[int]:
        found = self.segment.fetch_upper_bound_offset(OffsetPosition(0, position), size)
        return [-1 if found is None else found]

    def _state(self) -> list[Any]:
        segment = self.segment
        return [  # in this order: asking for a timestamp makes the time index
            segment.size,
            segment.read_next_offset(),
            segment.max_timestamp_so_far(),
            -1 if (largest := segment.largest_record_timestamp()) is None else largest,
            segment.offset_of_max_timestamp_so_far(),
            segment.get_first_batch_timestamp(),
            segment.time_waited_for_roll(self.clock(), self.clock()),
            segment.has_overflow(),
        ]

    def _truncate_to(self, offset: int) -> list[int]:
        return [self.segment.truncate_to(offset)]

    def _update_txn_index(self, *, last_stable_offset: int, **completed: Any) -> None:
        self.segment.update_txn_index(CompletedTxn(**completed), last_stable_offset)

    def _collect_aborted(self, fetch_offset: int, upper_bound_offset: int) -> list[Any]:
        found = self.segment.collect_aborted_txns(fetch_offset, upper_bound_offset)
        return [[list(aborted[1:]) for aborted in found.aborted_transactions], found.is_complete]

    def _sanity_check(self, *, time_index_newly_created: bool) -> None:
        self.segment.sanity_check(time_index_newly_created=time_index_newly_created)

    def _resize_indexes(self, size: int) -> None:
        self.segment.resize_indexes(size)

    def _become_inactive(self) -> None:
        self.segment.on_become_inactive_segment()

    def _flush(self) -> None:
        self.segment.flush()

    def _change_suffixes(self, old: str, new: str) -> None:
        self.segment.change_file_suffixes(old, new)

    def _delete(self) -> None:
        self.segment.delete_if_exists()

    def _recover(self) -> list[Any]:
        producers = ProducerStateManager(self.files, self.config, self.clock)
        self.files.delete_if_exists("leader-epoch-checkpoint")
        epochs = LeaderEpochFileCache(self.files, Scheduler(self.clock))
        truncated = self.segment.recover(producers, epochs)
        return [truncated, producers.map_end_offset, sorted(producers.active_producers)]

    def _append_from_file(self, start: int, **source: str) -> list[int]:
        path = Path(source["from"])
        records = FileRecords(DiskFiles(path.parent), path.name, file_already_exists=True)
        return [self.segment.append_from_file(records, start)]

    def _close(self) -> None:
        self.segment.close()

    def _crash(self) -> None:
        self.segment.close_handlers()

    def _write_file(
        self,
        name: str,
        *,
        position: int = 0,
        bytes: bytes = b"",  # noqa: A002
        size: int | None = None,
        gone: bool = False,
    ) -> None:
        if gone:
            self.files.delete_if_exists(name)
            return
        file = self.files.open(name, create=True)
        if bytes:
            file.write_at(position, bytes)
        if size is not None:
            file.truncate(size)
        file.close()


def _digest(data: bytes) -> str:
    return f"{len(data)} {zlib.crc32(data)}"
