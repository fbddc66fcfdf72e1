"""Replay of producers over batch headers: who they are, which transactions are open.

    python -m benchmarks.replay [--batches 300000]

Every batch has a producer; with transactions one of twenty is a marker. `columns` is the replay
alone, with headers already read; `segment` reads a file's headers too, and steps over its records.
CPU time is counted, not the clock's: machines are shared.
"""

import argparse
import random
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from kafka_format.batch import HEADER_SIZE, BatchHeader, decode_batch, encode_batch
from kafka_format.columnar.headers import HeaderWalk
from kafka_format.control import ControlRecordType, encode_control_record, end_transaction_marker
from kafka_format.record import SimpleRecord
from kafka_log.clock import FixedClock
from kafka_log.config import LogConfig
from kafka_log.files import DiskFiles, opened
from kafka_log.producer_state import ProducerReplay, ProducerStateManager

START = 1_700_000_000_000
MARKERS = 0.05


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
    """Batches of one record each. Their checksums are left alone: a replay does not look."""
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
    """`by_batch`: transactions complete at their markers, as in recovery; else at the end."""
    with path.open("rb") as file:
        pieces = list(HeaderWalk(file, path=str(path)))
    data = memoryview(path.read_bytes())
    manager = _manager(path)
    begin = time.process_time()
    if by_batch:
        for batches in pieces:
            manager.replay_batches(batches, lambda at, size: data[at : at + size])
    else:
        replay = ProducerReplay(manager)
        for batches in pieces:
            replay.add(batches, lambda at, size: data[at : at + size])
        replay.finish()
    seconds = time.process_time() - begin
    return Replayed(sum(map(len, pieces)), len(data), seconds)


def replay_segment(path: Path) -> Replayed:
    manager = _manager(path)
    begin = time.process_time()
    count = 0
    with opened(DiskFiles(path.parent), path.name) as file, path.open("rb", buffering=0) as raw:
        for batches in HeaderWalk(raw, path=str(path)):
            manager.replay_batches(batches, file.read_at)
            count += len(batches)
    return Replayed(count, path.stat().st_size, time.process_time() - begin)


def _manager(path: Path) -> ProducerStateManager:
    return ProducerStateManager(DiskFiles(path.parent), LogConfig(), FixedClock(START))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=300_000)
    options = parser.parse_args()
    for transactional in (False, True):
        for producers in (1, 10, 100, 1000):
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "00000000000000000000.log"
                write_segment(
                    path,
                    batches=options.batches,
                    producers=producers,
                    transactional=transactional,
                )
                columns, at_end = replay_columns(path), replay_columns(path, by_batch=False)
                segment = replay_segment(path)
            kind = "transactional" if transactional else "idempotent"
            print(
                f"{producers:5} {kind:13} producers:"
                f" columns {columns.batches_per_second / 1e6:5.2f} M batches/s"
                f" ({at_end.batches_per_second / 1e6:5.2f} completed at the end),"
                f" segment {segment.batches_per_second / 1e6:5.2f} M batches/s,"
                f" {segment.megabytes_per_second:6.0f} MB/s"
            )


if __name__ == "__main__":
    main()
