"""Logs reported in a line and cleaned by Kafka and by us, with what is left after every pass.

    (a,b)     a batch with keys a and b: of nobody; I1(a,b) of producer 1, T1(a,b) in a transaction
    K1(a)     as a coordinator writes it: in a transaction, every batch with sequence 0
    C1 A1     commit, abort of producer 1; C1+ A1+ by transaction version 2: the epoch goes up
    a! ?      a tombstone of key a, a record without a key
    |         a new segment

    story = Story().write("(a,b) (a) |").clean()
    (left,) = story.reported(oracle)
    assert left.keys == "b a"

Kafka's directory is what is reported of; ours must be the same, byte for byte, after each pass.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, Self

from kafka_format.batch import RecordBatch, encode_batch
from kafka_format.compression import Codec
from kafka_format.control import ControlRecordType, encode_control_record, end_transaction_marker
from kafka_format.log_file import LogFile
from kafka_format.record import Record, SimpleRecord
from kafka_log.cleaner.offset_map import Keys
from kafka_log.cleaner.releases import KAFKA_4_3
from tests.kafka_log.cleaner.cleaning import CleaningCase, compare, set_modified
from tests.kafka_log.cleaner.passes import CleaningPass
from tests.kafka_log.compare import scratch
from tests.kafka_log.steps import Action, Append, HighWatermark, Roll, Step
from tests.kafka_log.workload import LONG_MAX, START
from tests.oracle.client import Oracle

RETENTION = 1000
_CONFIG = {
    "cleanup.policy": "compact",
    "delete.retention.ms": RETENTION,
    "segment.index.bytes": 4000,
    "segment.ms": LONG_MAX,
    "retention.ms": -1,
}
_WORD = re.compile(
    r"(?P<kind>[TIK]?)(?P<pid>\d*)\((?P<keys>[^)]*)\)|(?P<end>[CA])(?P<of>\d+)(?P<bump>\+?)|\|"
)


class Way(NamedTuple):
    """One of the ways in which we clean."""

    keys: Keys = Keys.HASHED
    columnar: bool | None = None
    """By columns, by records, or as the size of a batch says."""
    cores: int = 1


_EVERY_WAY = (Way(), Way(columnar=False), Way(keys=Keys.EXACT), Way(cores=3))


@dataclass(slots=True)
class _Producer:
    epoch: int = 0
    next_sequence: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanedLog:
    """Kafka's directory after a pass."""

    batches: list[RecordBatch]
    files: dict[str, int]
    """Name to size."""
    done: Mapping[str, Any]
    """What the oracle tells of the pass."""
    state: Mapping[str, Any]

    @property
    def records(self) -> list[Record]:
        return [record for batch in self.batches for record in batch.records()]

    @property
    def offsets(self) -> list[int]:
        """The offsets of all records, including markers."""
        return [record.offset for record in self.records]

    @property
    def bases(self) -> list[int]:
        return [batch.header.base_offset for batch in self.batches]

    @property
    def lasts(self) -> list[int]:
        return [batch.header.last_offset for batch in self.batches]

    @property
    def empty(self) -> list[int]:
        """Last offsets of batches without records."""
        return [each.header.last_offset for each in self.batches if not each.header.record_count]

    @property
    def keys(self) -> str:
        """The data records in order; a tombstone has its mark."""
        return " ".join(
            ("?" if record.key is None else record.key.decode()) + "!" * (record.value is None)
            for batch in self.batches
            if not batch.header.is_control
            for record in batch.records()
        )

    @property
    def horizons(self) -> dict[int, int]:
        """Base offset to the delete horizon, in milliseconds after the start."""
        return {
            batch.header.base_offset: batch.header.delete_horizon_ms - START
            for batch in self.batches
            if batch.header.delete_horizon_ms is not None
        }

    @property
    def segments(self) -> list[int]:
        return sorted(int(name[:20]) for name in self.files if name.endswith(".log"))

    @property
    def aborted(self) -> list[tuple[int, ...]]:
        names = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
        found = self.state["aborted_transactions"]
        return [tuple(each[name] for name in names) for each in found]

    @property
    def sequences(self) -> dict[int, int]:
        """The last one of each producer."""
        return {each["producer_id"]: each["last_sequence"] for each in self.state["producers"]}

    @property
    def next_dirty(self) -> int:
        return self.done["next_dirty_offset"]

    @property
    def stats(self) -> Mapping[str, Any]:
        return self.done["stats"]

    def batch(self, base_offset: int) -> RecordBatch:
        return next(each for each in self.batches if each.header.base_offset == base_offset)


class Story:
    def __init__(self, **settings: Any) -> None:
        """Settings with underscores for dots, over those of all stories."""
        given = {name.replace("_", "."): value for name, value in settings.items()}
        self.config = _CONFIG | given
        self.arguments: dict[str, Any] = {}
        self.files: dict[str, bytes] = {}
        self._modified: dict[str, int] = {}
        self._steps: list[Step] = []
        self.passes: list[CleaningPass] = []
        self._producers: dict[int, _Producer] = {}
        self._written = 0
        self.is_exact = True
        self.rules = KAFKA_4_3

    def file(self, name: str, data: bytes, *, modified: int | None = None) -> Self:
        """What lies in the directory at first; `modified` in milliseconds after the start."""
        self.files[name] = data
        if modified is not None:
            self._modified[name] = START + modified
        return self

    def write(
        self, text: str, *, codec: Codec = Codec.NONE, at: int = 0, value: bytes = b""
    ) -> Self:
        """`at` is the records' time after the start; values are numbered, behind `value`."""
        for word in text.split():
            found = _WORD.fullmatch(word)
            assert found, word
            if word == "|":
                self.roll()
            elif found["end"]:
                self._end(found["end"], int(found["of"]), at, bumps=bool(found["bump"]))
            else:
                producer_id = int(found["pid"]) if found["pid"] else -1
                keys = found["keys"].split(",")
                records = [self._record(key, START + at, value) for key in keys]
                self._data(found["kind"], producer_id, records, codec)
        return self

    def _record(self, key: str, timestamp: int, value: bytes) -> SimpleRecord:
        self._written += 1
        return SimpleRecord(
            timestamp,
            None if key == "?" else key.rstrip("!").encode(),
            None if key.endswith("!") else value + b"%d" % self._written,
        )

    def _data(self, kind: str, producer_id: int, records: list[SimpleRecord], codec: Codec) -> None:
        producer = self._producers.setdefault(producer_id, _Producer())
        if kind == "K":
            producer.next_sequence = 0
        has_producer = producer_id >= 0
        batch = encode_batch(
            records,
            codec=codec,
            producer_id=producer_id,
            producer_epoch=producer.epoch if has_producer else -1,
            base_sequence=producer.next_sequence if has_producer else -1,
            is_transactional=kind in {"T", "K"},
        )
        producer.next_sequence += len(records)
        self.append(batch, origin="COORDINATOR" if kind == "K" else "CLIENT")

    def _end(self, letter: str, producer_id: int, at: int, *, bumps: bool) -> None:
        producer = self._producers[producer_id]
        if bumps:
            producer.epoch, producer.next_sequence = producer.epoch + 1, 0
        type_ = ControlRecordType.COMMIT if letter == "C" else ControlRecordType.ABORT
        key, value = encode_control_record(end_transaction_marker(type_, 0))
        marker = encode_batch(
            [SimpleRecord(START + at, key, value)],
            producer_id=producer_id,
            producer_epoch=producer.epoch,
            is_transactional=True,
            is_control=True,
        )
        self.append(marker, origin="COORDINATOR", transaction_version=2 if bumps else 1)

    def append(self, batch: bytes, **more: Any) -> Self:
        return self.step(Append(data=batch, leader_epoch=0, **more))

    def at(self, offset: int, *keys: str, last_offset: int | None = None) -> Self:
        """A batch at an offset, as a follower gets it."""
        batch = encode_batch(
            [self._record(key, START, b"") for key in keys],
            base_offset=offset,
            last_offset=last_offset,
            partition_leader_epoch=0,
        )
        return self.append(batch, origin="REPLICATION")

    def roll(self) -> Self:
        return self.step(Roll())

    def step(self, action: Action, *, at: int | None = None) -> Self:
        """`at` is its time after the start."""
        self._steps.append(Step(action, None if at is None else START + at))
        return self

    def clean(self, at: int = 0, *, entries: int | None = None, **options: Any) -> Self:
        """A pass at a time after the start, from the last pass on if no `checkpoint` is given.

        `entries`: so many keys have room in the map.
        """
        if options.pop("moves_high_watermark", True):
            self.step(HighWatermark())
        if entries is not None:
            slots = next(each for each in range(2, 10**6) if int(each * 0.9) == entries)
            options["dedupe_buffer_size"] = 24 * slots
        self.passes.append(CleaningPass(time=START + at, steps=self._steps, **options))
        self._steps = []
        return self

    def reported(self, oracle: Oracle, keys: Keys = Keys.HASHED) -> list[CleanedLog]:
        """After every pass what Kafka left, which is what we leave in every way that we have."""
        ways = _EVERY_WAY if keys is Keys.HASHED else (Way(keys),)
        count = len(self.passes)
        with scratch() as folder:
            cases = [
                self._case(folder, f"passes-{passes}", passes, ways[0])
                for passes in range(1, count + 1)
            ]
            cases += [self._case(folder, f"way-{i}", count, ways[i]) for i in range(1, len(ways))]
            compare(oracle, folder, cases)
            return [_left(folder / "kafka" / each.source.name, each) for each in cases[:count]]

    def _case(self, folder: Path, name: str, passes: int, way: Way) -> CleaningCase:
        source = folder / "source" / name
        source.mkdir(parents=True)
        for file, data in self.files.items():
            (source / file).write_bytes(data)
        for file, modified_ms in self._modified.items():
            set_modified(source / file, modified_ms)
        arguments = {"config": self.config, "time": START, "close": "clean"} | self.arguments
        return CleaningCase(
            name=name,
            source=source,
            arguments=arguments,
            passes=[
                replace(each, columnar=way.columnar, cores=way.cores)
                for each in self.passes[:passes]
            ],
            is_exact=self.is_exact,
            keys=way.keys,
            rules=self.rules,
        )


def _left(directory: Path, case: CleaningCase) -> CleanedLog:
    assert "error" not in case.reported, case.reported
    batches: list[Any] = []
    for path in sorted(directory.glob("*.log")):
        batches += LogFile(path.read_bytes()).batches()
    return CleanedLog(
        batches=batches,
        files={path.name: path.stat().st_size for path in directory.iterdir()},
        done=case.reported["passes"][-1],
        state=case.reported.get("state", {}),  # 3.9.1's oracle tells none
    )
