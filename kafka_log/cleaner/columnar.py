"""The offset map and the judgement of records over columns, a kernel call for many batches.

Decides as offset_map.py and verdict.py do, and leaves to them what is rare: control batches, old
magics, damage. Needs numba.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kafka_format.batch import BatchHeader, RecordBatch, assemble, attributes_of
from kafka_format.columnar.records import RecordColumns, RecordScan
from kafka_format.columnar.rewrite import encode_kept_records
from kafka_format.columnar.window import readonly
from kafka_format.compression import codec_of, compress
from kafka_log.cleaner import map_kernels
from kafka_log.cleaner.offset_map import BYTES_PER_ENTRY, NOT_FOUND
from kafka_log.cleaner.rewrite import FilterResult, Kept, emptied, filter_batch
from kafka_log.cleaner.verdict import BatchRetention

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from kafka_format.log_file import AnyBatch
    from kafka_log.cleaner.offset_map import LatestOffsets
    from kafka_log.cleaner.read_buffer import Chunk
    from kafka_log.cleaner.stats import CleanerStats
    from kafka_log.cleaner.transactions import CleanedTransactionMetadata
    from kafka_log.cleaner.verdict import BatchVerdict, Verdicts
    from kafka_log.cleaner.witness import Witness

    Int64s = npt.NDArray[np.int64]
    Uint8s = npt.NDArray[np.uint8]

_INT32_MAX = 2**31 - 1
_KEY, _TOMBSTONES, _WITHOUT_KEY = 0, 1, 2  # columns of counts
_NO_ID = -1
_CONTROL = 0x20
_FIRST_SLOTS = 1 << 12


class Piece(NamedTuple):
    """Batches and their records; those of batch i are the rows from edges[i] to edges[i + 1]."""

    batches: list[AnyBatch]
    records: RecordColumns
    edges: Int64s

    @property
    def by_rows(self) -> npt.NDArray[np.bool_]:
        """Batches that are judged record by record: control, magic 0 and 1, damaged ones."""
        columns = self.records.batches
        by_rows: npt.NDArray[np.bool_] = columns.is_legacy | (columns.attributes & _CONTROL != 0)
        for damage in self.records.damage:
            by_rows[damage.batch] = True
        return by_rows

    def first(self, count: int) -> Piece:
        """The first batches alone."""
        if count == len(self.batches):
            return self
        records, rows = self.records, int(self.edges[count])
        some = RecordColumns(
            records.data,
            records.batches[:count],
            (records.longs[:, :rows], records.ints[:, :rows]),
            (records._starts[:count], records._counts[:count]),  # noqa: SLF001
            [damage for damage in records.damage if damage.batch < count],
            compiled=True,
        )
        return Piece(self.batches[:count], some, self.edges[: count + 1])


def iter_pieces(chunk: Chunk) -> Iterator[Piece]:
    data = memoryview(chunk.data)[: chunk.size_in_bytes]
    first = 0
    for records in RecordScan(data, verify=False, piece_rows=_INT32_MAX, compiled=True):
        count = len(records.batches)
        edges = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(records.batch, minlength=count), out=edges[1:])
        yield Piece(chunk.batches[first : first + count], records, edges)
        first += count


def _new_table(slots: int) -> tuple[Int64s, Int64s]:
    """Of zeros, which take no memory before they are written to."""
    return np.zeros((slots, 2), np.int64), np.zeros(slots, np.int64)


class KeyTable:
    """An OffsetMap over columns: keys by a hash of 128 bits with a secret."""

    def __init__(
        self, memory: int, *, load_factor: float = 0.9, secret: bytes | None = None
    ) -> None:
        self.slots = min(memory, _INT32_MAX) // BYTES_PER_ENTRY
        if self.slots * load_factor <= 1:
            raise ValueError(f"{memory} bytes: too small an offset map to hold a key")
        self.max_desired_size = int(self.slots * load_factor)
        self.latest_offset = NOT_FOUND
        self.size = 0
        drawn = os.urandom(16) if secret is None else secret
        self._secret = (
            int.from_bytes(drawn[:8], "little", signed=True),
            int.from_bytes(drawn[8:16], "little", signed=True),
        )
        self._kernels = map_kernels.load(compiled=True)
        self._table = _new_table(_FIRST_SLOTS)

    def __repr__(self) -> str:
        return f"KeyTable({self.size} of {self.slots} slots, up to offset {self.latest_offset})"

    def _make_room(self, keys: int) -> None:
        """A table grows with its keys: pages that few keys are strewn over cost more than moves."""
        most = min(self.size + keys, self.max_desired_size)
        wanted = 1 << (most * 4 // 3).bit_length()
        if wanted > len(self._table[1]):
            larger = _new_table(wanted)
            self._kernels.move_keys(*self._table, *larger)
            self._table = larger

    @property
    def is_full(self) -> bool:
        return self.size >= self.max_desired_size

    @property
    def utilization(self) -> float:
        return self.size / self.slots

    def clear(self) -> None:
        if self.size:
            self._table = _new_table(_FIRST_SLOTS)
        self.size = 0
        self.latest_offset = NOT_FOUND

    def put(self, key: bytes, offset: int) -> None:
        self._make_room(1)
        slot, (low, high) = self._slot(key)
        hashes, offsets = self._table
        if not offsets[slot]:
            hashes[slot] = low, high
            self.size += 1
        offsets[slot] = offset + 1
        self.latest_offset = offset

    def get(self, key: bytes) -> int:
        return int(self._table[1][self._slot(key)[0]]) - 1

    def _slot(self, key: bytes) -> tuple[int, tuple[int, int]]:
        data = np.frombuffer(key, np.uint8)
        hashed = self._kernels.siphash(data, 0, len(key), *self._secret)
        return self._kernels.find_slot(*self._table, *hashed), hashed

    def put_piece(self, piece: Piece, is_left_out: Uint8s, start: int) -> tuple[int, int, int]:
        """Batch and row at which it was full, and the last offset put of that batch, or -1."""
        self._make_room(len(piece.records))
        batch, row, size, latest = self._kernels.put_rows(
            readonly(piece.records.data),
            piece.records.longs,
            piece.records.ints,
            piece.edges,
            is_left_out,
            start,
            self.max_desired_size,
            self.size,
            *self._secret,
            *self._table,
        )
        self.size = int(size)
        return int(batch), int(row), int(latest)

    def latest_of(self, piece: Piece) -> Int64s:
        """For each row the latest offset known of its key; -1 if none is, or it has no key."""
        latest = np.empty(len(piece.records), np.int64)
        self._kernels.find_rows(
            readonly(piece.records.data),
            piece.records.longs,
            piece.records.ints,
            *self._secret,
            *self._table,
            latest,
        )
        return latest


def map_piece(
    table: KeyTable,
    piece: Piece,
    start: int,
    transactions: CleanedTransactionMetadata,
    stats: CleanerStats,
) -> bool:
    """All keys of some sound batches into the map; whether it was full before."""
    is_left_out = np.zeros(len(piece.batches), np.uint8)
    read = np.diff(piece.edges)
    for i, batch in enumerate(piece.batches):
        if isinstance(batch, RecordBatch) and batch.header.is_control:
            transactions.on_control_batch_read(batch)
            is_left_out[i], read[i] = 1, 1
        elif transactions.on_batch_read(batch) and isinstance(batch, RecordBatch):
            is_left_out[i], read[i] = 1, batch.header.record_count
    full_at, row, latest = table.put_piece(piece, is_left_out, start)
    for batch in reversed(piece.batches[:full_at]):
        if batch.header.last_offset >= start:
            table.latest_offset = batch.header.last_offset
            break
    stats.map_messages_read += int(read[:full_at].sum())
    if full_at == len(piece.batches):
        return False
    if latest >= 0:
        table.latest_offset = latest
    stats.map_messages_read += row - int(piece.edges[full_at])
    return True


class Judgement(NamedTuple):
    """Of the rows of a piece."""

    latest_of: Int64s
    retains_deletes: Uint8s
    """Of each batch."""
    is_kept: Uint8s
    counts: Int64s
    """Of each batch: how many stay, how many of those are tombstones, how many lack a key."""


def judge(piece: Piece, verdicts: Verdicts, latest: LatestOffsets) -> Judgement:
    retains = np.array([verdicts.retains_deletes(batch) for batch in piece.batches], np.uint8)
    latest_of = latest.latest_of(piece)
    is_kept = np.zeros(len(piece.records), np.uint8)
    counts = np.zeros((len(piece.batches), 3), np.int64)
    map_kernels.load(compiled=True).judge_rows(
        piece.records.longs,
        piece.records.ints,
        piece.edges,
        latest_of,
        retains,
        latest.latest_offset,
        is_kept,
        counts,
    )
    return Judgement(latest_of, retains, is_kept, counts)


def filter_chunk(
    chunk: Chunk,
    verdicts: Verdicts,
    latest: LatestOffsets,
    stats: CleanerStats,
    *,
    new_horizon: int,
    capacity: int,
    witness: Witness | None = None,
) -> FilterResult:
    """As rewrite.filter_to."""
    result = FilterResult()
    for piece in iter_pieces(chunk):
        judged = judge(piece, verdicts, latest)
        told = _filter_piece(piece, judged, verdicts, stats, result, new_horizon, capacity, witness)
        if witness is not None:
            seen, rows = piece.first(len(told)), int(piece.edges[len(told)])
            witness.on_piece(
                seen,
                told,
                judged.is_kept[:rows],
                judged.latest_of[:rows],
                judged.retains_deletes[: len(told)],
            )
        if len(result.data) > capacity:
            break
    return result


def _filter_piece(
    piece: Piece,
    judged: Judgement,
    verdicts: Verdicts,
    stats: CleanerStats,
    result: FilterResult,
    new_horizon: int,
    capacity: int,
    witness: Witness | None,
) -> list[BatchVerdict]:
    """The verdicts of those batches that were looked at."""
    told = []
    by_rows = piece.by_rows
    for i, batch in enumerate(piece.batches):
        verdict = verdicts.on_batch(batch)
        told.append(verdict)
        result.bytes_read += len(batch.raw)
        whose = witness if by_rows[i] else None  # a batch is told once
        if verdict.retention is BatchRetention.DELETE:
            if whose is not None:
                whose.on_batch(batch, verdict, (), ())
            continue
        counts = judged.counts[i]
        if by_rows[i] or not _filter(
            piece, i, verdict, judged.is_kept, counts, new_horizon, result
        ):
            latest_of = judged.latest_of[piece.edges[i] : piece.edges[i + 1]].tolist()
            filter_batch(
                batch, verdict, verdicts, new_horizon, result, latest_of=latest_of, witness=whose
            )
        elif not verdict.discards_records:
            stats.invalid_messages_read += int(counts[_WITHOUT_KEY])
        if len(result.data) > capacity:
            break
    return told


def _filter(
    piece: Piece,
    i: int,
    verdict: BatchVerdict,
    is_kept: Uint8s,
    counts: Int64s,
    new_horizon: int,
    result: FilterResult,
) -> bool:
    """What is left of a batch; False if the rows must be asked."""
    batch = piece.batches[i]
    assert isinstance(batch, RecordBatch)  # the others are for rows
    first, last = int(piece.edges[i]), int(piece.edges[i + 1])
    kept = 0 if verdict.discards_records else int(counts[_KEY])
    if kept:
        header = batch.header
        horizon = header.delete_horizon_ms
        wants_horizon = bool(counts[_TOMBSTONES]) and horizon is None
        if kept == last - first and not wants_horizon:
            result.add(Kept(batch.raw, header.last_offset, kept))
        else:
            horizon = new_horizon if wants_horizon else horizon
            rebuilt = _rebuilt(piece, (first, last), batch, is_kept, kept, horizon)
            if rebuilt is None:
                return False
            result.add(rebuilt)
    elif verdict.retention is BatchRetention.RETAIN_EMPTY:
        result.add(emptied(batch))
    result.messages_read += last - first
    return True


def _rebuilt(
    piece: Piece,
    rows: tuple[int, int],
    batch: RecordBatch,
    is_kept: Uint8s,
    kept: int,
    horizon: int | None,
) -> Kept | None:
    header, some = batch.header, slice(*rows)
    chosen = is_kept[some].astype(np.bool_)
    timestamps = piece.records.timestamp[some][chosen]
    has_horizon = horizon is not None and horizon >= 0
    base_timestamp = horizon if horizon is not None and has_horizon else int(timestamps[0])
    if not _is_writable(header):
        return None
    payload = encode_kept_records(
        piece.records,
        is_kept,
        rows,
        base_offset=header.base_offset,
        base_timestamp=base_timestamp,
        compiled=True,
    )
    if payload is None:
        return None
    is_append_time = bool(header.timestamp_type)
    codec = codec_of(header.attributes)
    new = header._replace(
        attributes=attributes_of(
            codec,
            header.timestamp_type,
            is_transactional=header.is_transactional,
            has_delete_horizon=has_horizon,
        ),
        magic=2,
        base_timestamp=base_timestamp,
        max_timestamp=header.max_timestamp if is_append_time else int(timestamps.max()),
        record_count=kept,
    )
    largest = int(piece.records.offset[some][chosen].max())
    return Kept(assemble(new, compress(codec, payload)), largest, kept)


def _is_writable(header: BatchHeader) -> bool:
    """Whether Kafka's builder takes these fields; what it says otherwise the row encoder knows."""
    if header.producer_id == _NO_ID:
        return not header.is_transactional
    return header.producer_epoch != _NO_ID and header.base_sequence >= 0
