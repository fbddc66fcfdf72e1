"""Many chunks at once, by compiled kernels: what record by record gives, whatever the bytes are."""

import random
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kafka_format.batch import HEADER_SIZE, encode_batch
from kafka_format.columnar import native_codecs
from kafka_format.columnar.compilation import can_compile
from kafka_format.compression import Codec, compress
from kafka_format.errors import FormatError
from kafka_format.log_file import AnyBatch
from kafka_format.record import Header, Record, SimpleRecord, TimestampType
from kafka_log.checkpoints import LastRun
from kafka_log.cleaner.cleaner import CleanableSegment, RoundResult
from kafka_log.cleaner.columns.blocks import BlockPiece
from kafka_log.cleaner.columns.read_buffer import BlockBuffer, BlockReader, ReadBuffer
from kafka_log.cleaner.decision import (
    BatchDecision,
    BlockDecisions,
    PieceDecisions,
    RecordFilter,
)
from kafka_log.cleaner.reasons import IS_KEPT
from kafka_log.cleaner.witness import Removals, Witness
from kafka_log.clock import Scheduler, system_clock
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles
from kafka_log.disk.watched_files import WatchedDiskFiles
from kafka_log.errors import LogError
from kafka_log.log.unified_log import PartitionLog
from kafka_log.segment.file_records import FileRecords
from tests.kafka_log.cleaner.cleaners import new_cleaner

pytestmark = pytest.mark.skipif(not can_compile(), reason="numba is not here")

NOW = 1_700_000_100_000
CONFIG = LogConfig(cleanup_policy=frozenset({"compact"}), index_interval_bytes=300)
NAMES = ("a", "k" * 70, "größe", "")


def _record(rng: random.Random, offset: int) -> SimpleRecord:
    headers = tuple(
        Header(rng.choice(NAMES), rng.choice((None, b"", b"v" * 130)))
        for _ in range(rng.choice((0, 0, 0, 1, 3)))
    )
    key = rng.choice((None, b"", *(b"key %d" % i for i in range(12))))
    value = rng.choice((None, b"", rng.randbytes(rng.choice((1, 90, 9000)))))
    timestamp = NOW - rng.choice((0, 1, 100, 10**6, 10**12))
    return SimpleRecord(timestamp, key, value, headers, offset)


def _batch(rng: random.Random, base_offset: int) -> tuple[bytes, int]:
    offset, records = base_offset, []
    for _ in range(rng.choice((1, 2, 9, 40))):
        offset += rng.choice((0, 0, 0, 1, 90))
        records.append(_record(rng, offset))
        offset += 1
    is_append_time = rng.random() < 0.2
    has_producer = rng.random() < 0.5
    data = encode_batch(
        records,
        base_offset=base_offset,
        codec=rng.choice((Codec.NONE, Codec.NONE, *Codec)),
        timestamp_type=TimestampType(int(is_append_time)),
        log_append_time=NOW - 5 if is_append_time else -1,
        producer_id=rng.randrange(3) if has_producer else -1,
        producer_epoch=0 if has_producer else -1,
        base_sequence=base_offset if has_producer else -1,
        delete_horizon_ms=rng.choice((None, None, NOW, NOW + 1)),
        last_offset=offset + rng.choice((0, 0, 3)) - 1,
    )
    return data, offset + 3


def _touched(rng: random.Random, data: bytes) -> bytes:
    """A byte of the records is another; nothing that a cleaner looks at tells."""
    changed = bytearray(data)
    at = rng.randrange(HEADER_SIZE, min(len(data), HEADER_SIZE + 60))
    changed[at] = rng.choice((0, 1, 3, 0x80, 0x81, 0xFF))
    return bytes(changed)


def _write_log(directory: Path, seed: int) -> None:
    rng = random.Random(seed)
    directory.mkdir(parents=True)
    offset = 0
    for _ in range(rng.choice((1, 3))):
        with (directory / f"{offset:020}.log").open("wb") as file:
            for _ in range(rng.choice((1, 20, 60))):
                data, offset = _batch(rng, offset)
                if rng.random() < 0.01 * (seed % 3):
                    data = _touched(rng, data)
                file.write(data)
    (directory / f"{offset:020}.log").touch()


class _Told:
    """A witness that counts."""

    def __init__(self) -> None:
        self.kept = 0
        self.positions: list[int] = []

    is_ordered = True

    def on_round(self, log: PartitionLog) -> None:
        pass

    def on_segment(self, segment: CleanableSegment, record_filter: RecordFilter) -> None:
        self.positions.clear()

    def on_piece(
        self, piece: BlockPiece, decisions: BlockDecisions, records: PieceDecisions
    ) -> None:
        assert len(decisions) == len(piece.batches) == len(records.counts)
        assert len(records.reasons) == len(records.latest_of) == piece.edges[-1]
        for i in range(len(decisions)):
            if not piece.by_rows[i]:
                self.positions.append(piece.batches[i].position)
                reasons = records.reasons[piece.edges[i] : piece.edges[i + 1]]
                self.kept += int(IS_KEPT[reasons].sum())

    def on_batch(
        self,
        batch: AnyBatch,
        decision: BatchDecision,
        records: Sequence[Record],
        reasons: Sequence[int],
        latest_of: Sequence[int],
    ) -> None:
        self.positions.append(batch.position)
        self.kept += sum(bool(IS_KEPT[reason]) for reason in reasons)


def _cleaned(directory: Path, witness: Witness, **how: Any) -> RoundResult | str:
    """What came of a round, or what it ended with."""
    last_run = LastRun(recovery_point=2**62)
    log = PartitionLog.open(DiskFiles(directory), CONFIG, Scheduler(system_clock), last_run)
    log.update_high_watermark(log.log_end_offset)
    try:
        cleaned = new_cleaner(CONFIG, lambda: NOW, witness=witness, **how).clean(log, None)
    except (FormatError, LogError) as error:
        return str(error).replace(str(directory), "")
    finally:
        log.close_handlers()
    stats = cleaned.stats
    stats.start_time = stats.map_complete_time = stats.end_time = 0
    return cleaned


def _files(directory: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in sorted(directory.iterdir())
        if path.suffix != ".deleted"
    }


@pytest.mark.parametrize("seed", range(60))
def test_blocks_leave_the_bytes_that_records_one_by_one_leave(tmp_path: Path, seed: int) -> None:
    size = random.Random(seed).choice((600, 20_000, 512 * 1024))
    found = []
    for columnar in (True, False):
        directory = tmp_path / str(columnar) / "orders-0"
        _write_log(directory, seed)
        reported = _Told()
        cleaned = _cleaned(directory, reported, columnar=columnar, io_buffer_size=size)
        assert isinstance(cleaned, str) or reported.kept == cleaned.stats.messages_written
        found.append((cleaned, reported.kept, reported.positions, _files(directory)))
    by_columns, by_rows = found
    assert by_columns[0] == by_rows[0]
    assert by_columns[3] == by_rows[3]
    if not isinstance(by_rows[0], str):
        assert by_columns[1:3] == by_rows[1:3]


@pytest.mark.parametrize("seed", range(20))
def test_several_cores_leave_the_bytes_that_one_leaves(tmp_path: Path, seed: int) -> None:
    size = random.Random(seed).choice((600, 20_000))
    block = (1, size, 4 * size)[seed % 3]  # a chunk, or some of them: these are fetched ahead
    found = []
    for cores in (1, 3):
        directory = tmp_path / str(cores) / "orders-0"
        _write_log(directory, seed)
        removals = Removals()
        how = {"cores": cores, "block_bytes": block, "io_buffer_size": size}
        cleaned = _cleaned(directory, removals, **how)
        removed = None if isinstance(cleaned, str) else removals.take()
        found.append((cleaned, removed, _files(directory)))
    assert found[0] == found[1]


@pytest.mark.parametrize("is_fetched", [False, True])
@pytest.mark.parametrize("block_bytes", [1, 20_000, 200_000, 8 * 2**20])
@pytest.mark.parametrize("capacity", [100, 5000, 40_000, 3_000_000])
def test_a_block_ends_its_chunks_where_kafkas_buffer_ends_them(
    tmp_path: Path, capacity: int, block_bytes: int, is_fetched: bool
) -> None:
    _write_log(tmp_path / "orders-0", 1)
    (name, *_) = (path.name for path in sorted((tmp_path / "orders-0").glob("*.log")))
    log = FileRecords(DiskFiles(tmp_path / "orders-0"), name, file_already_exists=True)
    target = BlockBuffer(block_bytes)
    blocks = BlockReader(log, 0, ReadBuffer(capacity, 2**20), max_message_bytes=2**20)
    found: list[int] = []
    for number in count():
        if is_fetched:
            blocks.fetch(target, number)
        if blocks.are_over:
            break
        block = blocks.read(target, number)
        found += [block.end_of(end) for end in block.chunk_ends.tolist()]
    assert found == list(_chunk_ends(log, capacity))
    log.close()


def test_what_was_fetched_is_not_read_again(tmp_path: Path) -> None:
    _write_log(tmp_path / "orders-0", 1)
    files = WatchedDiskFiles(str(tmp_path / "orders-0"))
    (name, *_) = (path.name for path in sorted((tmp_path / "orders-0").glob("*.log")))
    log = FileRecords(files, name, file_already_exists=True)
    read: list[int] = []
    files.watch.on_read = read.append
    target, capacity = BlockBuffer(200_000), 70_000
    blocks = BlockReader(log, 0, ReadBuffer(capacity, 2**20), max_message_bytes=2**20)
    for number in count():
        blocks.fetch(target, number)
        if blocks.are_over:
            break
        before = len(read)
        blocks.read(target, number)
        assert len(read) == before
    assert number > 2
    assert sum(read) <= log.size + number * capacity
    log.close()


def _chunk_ends(log: FileRecords, capacity: int) -> Iterator[int]:
    buffer, position = ReadBuffer(capacity, 2**20), 0
    while position < log.size:
        position += buffer.read(log, position, max_message_bytes=2**20).size_in_bytes
        yield position


@pytest.mark.parametrize("size", [1, 40, 5000, 65_536, 131_072, 400_000])
def test_a_zstd_context_that_is_used_again_writes_kafkas_bytes(size: int) -> None:
    linked = native_codecs.linked()
    if "zstd_pack" not in linked:
        pytest.skip("this build of zstandard hides its functions")
    rng, contexts = random.Random(size), native_codecs.zstd_contexts()
    out, places = np.empty(2 * size + 1000, np.uint8), np.zeros(2, np.int64)
    for _ in range(5):
        plain = b"".join(rng.choices((b"kafka", b"log", rng.randbytes(9)), k=size // 3))[:size]
        data = np.frombuffer(plain or b"x", np.uint8)
        packed = int(
            linked["zstd_pack"](contexts.compressing, data, 0, len(data), out, 0, len(out), places)
        )
        assert out[:packed].tobytes() == compress(Codec.ZSTD, data.tobytes())
        no_room = (contexts.compressing, data, 0, len(data), out, 0, packed - 1, places)
        assert linked["zstd_pack"](*no_room) == -1
