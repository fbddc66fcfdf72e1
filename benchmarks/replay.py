"""Replay of producer state over batch headers: active producers and open transactions.

Every batch has a producer; with transactions one batch in twenty is a marker. `columns` is only the
replay, with headers already read; `headers of a segment` includes reading them.
"""

import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from kafka_format.batch import HEADER_SIZE, BatchHeader, decode_batch, encode_batch
from kafka_format.columnar.headers import HeaderWalk
from kafka_format.control import ControlRecordType, encode_control_record, end_transaction_marker
from kafka_format.record import SimpleRecord
from kafka_log.clock import FixedClock
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles, opened
from kafka_log.producers.producer_state import ProducerReplay, ProducerStateManager

START = 1_700_000_000_000
MARKERS = 0.05
ROUNDS = 5


class Replayed(NamedTuple):
    batches: int
    size: int
    seconds: float

    @property
    def batches_per_second(self) -> float:
        return self.batches / self.seconds

    @property
    def megabytes_per_second(self) -> float:
        return self.size / self.seconds / 1e6


def write_segment(
    path: Path,
    *,
    batches: int = 300_000,
    producers: int = 100,
    transactional: bool = True,
    value_size: int = 1000,
) -> None:
    """Write batches of one record. Their checksums are wrong: a replay does not check them."""
    rng = random.Random(1)
    data = encode_batch([SimpleRecord(START, None, bytes(value_size))])
    markers = [
        encode_batch(
            [SimpleRecord(START, *encode_control_record(end_transaction_marker(type_, 1)))],
            producer_id=0,
            producer_epoch=0,
            is_control=True,
            is_transactional=True,
        )
        for type_ in (ControlRecordType.ABORT, ControlRecordType.COMMIT)
    ]
    attributes = 0x10 if transactional else 0
    sequences = [0] * producers
    with path.open("wb") as file:
        for offset in range(batches):
            producer = rng.randrange(producers)
            if transactional and rng.random() < MARKERS:
                file.write(_patched(rng.choice(markers), base_offset=offset, producer_id=producer))
                continue
            file.write(
                _patched(
                    data,
                    base_offset=offset,
                    producer_id=producer,
                    producer_epoch=0,
                    base_sequence=sequences[producer],
                    attributes=attributes,
                )
            )
            sequences[producer] += 1


def _patched(batch: bytes, **fields: int) -> bytes:
    header: BatchHeader = decode_batch(batch).header._replace(**fields)
    return header.pack() + batch[HEADER_SIZE:]


def replay_columns(path: Path, *, by_batch: bool = True) -> Replayed:
    """Replay headers; `by_batch` completes transactions at markers, as recovery does."""
    with path.open("rb") as file:
        pieces = list(HeaderWalk(file, path=str(path)))
    data = memoryview(path.read_bytes())
    manager = _manager(path)
    begin = time.perf_counter()
    if by_batch:
        for batches in pieces:
            manager.replay_batches(batches, lambda at, size: data[at : at + size])
    else:
        replay = ProducerReplay(manager)
        for batches in pieces:
            replay.add(batches, lambda at, size: data[at : at + size])
        replay.finish()
    seconds = time.perf_counter() - begin
    return Replayed(sum(map(len, pieces)), len(data), seconds)


def replay_segment(path: Path) -> Replayed:
    manager = _manager(path)
    begin = time.perf_counter()
    count = 0
    with opened(DiskFiles(path.parent), path.name) as file, path.open("rb", buffering=0) as raw:
        for batches in HeaderWalk(raw, path=str(path)):
            manager.replay_batches(batches, file.read_at)
            count += len(batches)
    return Replayed(count, path.stat().st_size, time.perf_counter() - begin)


def _manager(path: Path) -> ProducerStateManager:
    return ProducerStateManager(DiskFiles(path.parent), LogConfig(), FixedClock(START))


def table(batches: int) -> Iterator[str]:
    yield "| producers | columns M batches/s | headers of a segment M batches/s | MB/s of log |"
    yield "|---|---|---|---|"
    for transactional in (False, True):
        for producers in (1, 10, 100, 1000):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "00000000000000000000.log"
                write_segment(
                    path, batches=batches, producers=producers, transactional=transactional
                )
                columns = min((replay_columns(path) for _ in range(ROUNDS)), key=_seconds)
                whole = min((replay_segment(path) for _ in range(ROUNDS)), key=_seconds)
            kind = "transactional, 1 of 20 a marker" if transactional else "idempotent"
            yield (
                f"| {producers} {kind} | {columns.batches_per_second / 1e6:.2f} "
                f"| **{whole.batches_per_second / 1e6:.2f}** | {whole.megabytes_per_second:.0f} |"
            )


def _seconds(replayed: Replayed) -> float:
    return replayed.seconds
