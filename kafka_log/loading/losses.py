"""Count exactly what is lost when a restart truncates a log: bytes, records and offsets.

    losses = Losses()
    losses.add(file, start, base_offset=…, fallback_offset=…)    one file's bytes from `start` on
    losses.bytes, losses.records, losses.first_offset, losses.last_offset

Lost bytes reach from the cut to the end of the last batch that begins after it. Zeros inside a
batch count, because its length field covers them. Zeros after the last batch do not: the file was
preallocated. A torn batch counts with the bytes that exist. Where no batch can be recognized, bytes
count up to the last one that is not zero.

A batch with a correct checksum counts with the records and offsets of its header. So does a batch
with a wrong checksum if Kafka could have written its header and the next batch begins where its
length says. Anything else makes the number of records unknown (None).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast

import numpy as np

from kafka_format.access import access
from kafka_format.attributes import CODEC_MASK, UNUSED_BITS
from kafka_format.batch import HEADER_SIZE, BatchHeader
from kafka_format.columnar.headers import BatchScan
from kafka_format.compression import Codec
from kafka_format.errors import FormatError
from kafka_format.legacy import LegacyBatch, decode_legacy_header
from kafka_log.damage.resync import BatchSearch

if TYPE_CHECKING:
    import numpy.typing as npt

    from kafka_format.columnar.headers import BatchColumns
    from kafka_log.disk.files import File

    Bools = npt.NDArray[np.bool_]

_CHUNK = 1024 * 1024
_MODERN = 2
_UNUSED_ATTRIBUTES = UNUSED_BITS[_MODERN]
_CODECS = len(Codec)


@dataclass(slots=True)
class Losses:
    """The losses of one partition. Files are added in the order of their offsets."""

    bytes: int = 0
    records: int | None = 0
    """None if some of the bytes cannot be recognized as records."""
    first_offset: int | None = None
    last_offset: int | None = None
    """The last offset that is lost, inclusive; None if it is unknown."""

    def add(self, file: File, start: int, *, base_offset: int, fallback_offset: int) -> None:
        """Add the bytes of the `.log` file of this base offset from `start` on.

        `fallback_offset` is the first lost offset if no header says which one it is.
        """
        walk = _Walk(file, start, base_offset)
        walk.run()
        size = walk.data_end - start
        if size <= 0:
            return
        self.bytes += size
        if self.first_offset is None:
            first = fallback_offset if walk.first_offset is None else walk.first_offset
            self.first_offset = first
        if walk.has_unknown or self.records is None:
            self.records = None
        else:
            self.records += walk.records
        self.last_offset = None if walk.ends_unknown else walk.last_offset


class _Walk:
    """One walk over the bytes of a file from a position on."""

    def __init__(self, file: File, start: int, base_offset: int) -> None:
        self._file = file
        self._base_offset = base_offset
        self._size = file.size
        self._start = start
        self._search: BatchSearch | None = None
        self.data_end = start
        self.records = 0
        self.first_offset: int | None = None
        self.last_offset: int | None = None
        self.has_unknown = False
        self.ends_unknown = False

    def run(self) -> None:
        position: int | None = self._start
        while position is not None and position < self._size:
            position = self._run_from(position)

    def _run_from(self, position: int) -> int | None:
        """Count batches up to damage; return where the next valid batch begins."""
        scan = BatchScan(
            cast("BinaryIO", self._file.reader()), path=self._file.path, start=position
        )
        pending: list[BatchColumns] = []  # wrong checksums, lengths not confirmed yet
        reached = position
        for batches in scan:
            good = batches.is_valid | _is_plausible(batches)
            count = len(batches) if good.all() else int(np.argmin(good))
            valid = np.flatnonzero(batches.is_valid[:count])
            confirmed = int(valid[-1]) + 1 if len(valid) else 0
            if confirmed:
                self._count_all(pending)
                self._count(batches[:confirmed])
            if count > confirmed:
                pending.append(batches[confirmed:count])
            if count:
                reached = int(batches.position[count - 1] + batches.size_in_bytes[count - 1])
            if count < len(batches):
                return self._resume(pending, reached)
        end = scan.end
        if end is None or end.reason in ("end_of_file", "zeroed_tail"):
            self._count_all(pending)
            return None
        return self._resume(pending, end.position, is_torn=end.reason == "truncated_batch")

    def _resume(
        self, pending: list[BatchColumns], damage: int, *, is_torn: bool = False
    ) -> int | None:
        """Skip damage up to the next valid batch, or to the end of the data."""
        first = int(pending[0].position[0]) if pending else damage
        found = self._search_from(first)
        if found is None or found >= damage:  # no valid batch begins inside: the lengths are right
            self._count_all(pending)
        if found is None and is_torn:
            self._count_torn(damage)
            return None
        if found is None:
            self._set_unknown(self._last_non_zero(damage))
            return None
        self._set_unknown(found)
        return found

    def _search_from(self, position: int) -> int | None:
        if self._search is None:
            source = cast("BinaryIO", self._file.reader())
            self._search = BatchSearch(source, self._start, base_offset=self._base_offset)
        return self._search.find(position + 1)

    # ------------------------------------------------------------------------------ counting

    def _count_all(self, pieces: list[BatchColumns]) -> None:
        for batches in pieces:
            self._count(batches)
        pieces.clear()

    def _count(self, batches: BatchColumns) -> None:
        is_wrapper = batches.is_legacy & (batches.codec != 0)
        plausible = _is_plausible(batches)
        if not plausible.all():  # a correct checksum does not make a header plausible
            self.has_unknown = True
        self.records += int(batches.record_count[~batches.is_legacy & plausible].sum())
        self.records += int((batches.is_legacy & ~is_wrapper).sum())
        first: int | None = int(batches.base_offset[0])
        for index in np.flatnonzero(is_wrapper).tolist():
            base = self._count_wrapper(
                int(batches.position[index]), int(batches.size_in_bytes[index])
            )
            if index == 0:
                first = base
        if self.first_offset is None and not self.has_unknown:
            self.first_offset = first
        self.last_offset = int(batches.last_offset.max())
        self.data_end = int(batches.position[-1] + batches.size_in_bytes[-1])
        self.ends_unknown = False

    def _count_wrapper(self, position: int, size: int) -> int | None:
        """Count the messages in a compressed legacy message; return the first one's offset."""
        raw = memoryview(self._file.read_at(position, size))
        try:
            batch = LegacyBatch(decode_legacy_header(raw), self._file.path, position, raw)
            limit = access().max_decompressed_bytes
            first, count = None, 0
            for record in batch.iter_records(limit=limit):
                first = record.offset if first is None else first
                count += 1
        except FormatError:
            self.has_unknown = True
            return None
        self.records += count
        return first

    def _count_torn(self, position: int) -> None:
        """Count a batch whose length reaches beyond the end of the file."""
        head = self._file.read_at(position, HEADER_SIZE)
        if len(head) < HEADER_SIZE:
            self._set_unknown(self._size)
            return
        header = BatchHeader.unpack(head)
        if header.magic < _MODERN or not _is_plausible_header(header):
            is_header = 0 <= header.magic < _MODERN
            self._set_unknown(self._size if is_header else self._last_non_zero(position))
            return
        if self.first_offset is None and not self.has_unknown:
            self.first_offset = header.base_offset
        self.last_offset = header.last_offset
        self.records += header.record_count
        self.data_end, self.ends_unknown = self._size, False

    def _set_unknown(self, data_end: int) -> None:
        if data_end > self.data_end:
            self.has_unknown = self.ends_unknown = True
            self.data_end = data_end

    def _last_non_zero(self, start: int) -> int:
        """Return the position after the last byte that is not zero."""
        end = self._size
        while end > start:
            begin = max(start, end - _CHUNK)
            data = self._file.read_at(begin, end - begin).rstrip(b"\0")
            if data:
                return begin + len(data)
            end = begin
        return start


def _is_plausible(batches: BatchColumns) -> Bools:
    """Return which headers Kafka could have written, whatever their checksums say."""
    count, delta = batches.record_count, batches.last_offset_delta
    modern: Bools = (batches.attributes & _UNUSED_ATTRIBUTES) == 0
    modern &= ((batches.attributes & CODEC_MASK) < _CODECS) & (batches.magic == _MODERN)
    modern &= (delta >= 0) & (count >= 0) & (count <= delta + 1)
    modern &= (batches.producer_id >= -1) & (batches.producer_epoch >= -1)
    legacy = batches.is_legacy & (batches.magic >= 0)
    plausible: Bools = (modern | legacy) & (batches.base_offset >= 0)
    return plausible


def _is_plausible_header(header: BatchHeader) -> bool:
    attributes = header.attributes & 0xFFFF
    return (
        header.magic == _MODERN
        and header.base_offset >= 0
        and attributes & _UNUSED_ATTRIBUTES == 0
        and attributes & CODEC_MASK < _CODECS
        and 0 <= header.record_count <= header.last_offset_delta + 1
        and header.producer_id >= -1
        and header.producer_epoch >= -1
    )
