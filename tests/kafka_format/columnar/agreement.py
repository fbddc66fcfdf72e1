"""The columnar decoder reported in the row decoder's words, so that the two can be compared.

The row decoder is itself held against Apache Kafka; here it is the simple model of the fast one.
"""

import io
from typing import Any

from kafka_format.columnar.headers import BatchColumns, BatchScan, HeaderWalk
from kafka_format.columnar.record_columns import RecordColumns
from kafka_format.columnar.records import PIECE_ROWS, RecordScan
from kafka_format.errors import FormatError
from kafka_format.legacy import LegacyBatch
from kafka_format.log_file import LogFile
from kafka_format.record import Header, Record

PATH = "orders-0/00000000000000000000.log"
LIMIT = 1 << 20


def assert_agreement(
    segment: bytes,
    *,
    compiled: bool,
    chunk_bytes: int = 4096,
    arena_bytes: int = 1 << 17,
    verify: bool = True,
) -> None:
    """Same batches, records, damage and end, from memory and from a file, whatever the chunks."""
    expected, end = by_rows(segment, verify=verify)
    options: dict[str, Any] = {"path": PATH, "compiled": compiled}
    source: Any
    for source, piece_rows in ((segment, PIECE_ROWS), (io.BytesIO(segment), 2)):
        scan = RecordScan(
            source,
            **options,
            verify=verify,
            chunk_bytes=chunk_bytes,
            arena_bytes=arena_bytes,
            piece_rows=piece_rows,
            decompressed_limit=LIMIT,
        )
        assert told_all(scan, piece_rows) == expected
        assert told_end(scan.end) == end
    headers = [header for header, _ in expected]
    walk = HeaderWalk(io.BytesIO(segment), **options)
    assert [header for columns in walk for header in told_headers(columns)] == headers
    assert told_end(walk.end) == end
    scanned = BatchScan(io.BytesIO(segment), **options, chunk_bytes=chunk_bytes)
    assert [header for columns in scanned for header in told_headers(columns)] == headers
    for columns in BatchScan(segment, **options):
        assert (
            columns.is_valid.tolist()
            == [batch.is_valid for batch in LogFile(segment).batches()][: len(columns)]
        )


def by_rows(segment: bytes, *, verify: bool = True) -> tuple[list[tuple[Any, Any]], Any]:
    log = LogFile(segment, path=PATH)
    batches = []
    for batch in log.batches():
        try:
            if verify:
                batch.ensure_valid()
            content: list[Record] | str = batch.records(limit=LIMIT)
        except FormatError as error:
            content = str(error)
        batches.append((header_of(batch), content))
    return batches, told_end(log.end)


def header_of(batch: Any) -> tuple[int, ...]:
    header = batch.header
    if isinstance(batch, LegacyBatch):
        place = (batch.position, header.offset, header.size_in_bytes, -1, header.magic)
        attributes = header.attributes & 0xFF
        times = (header.timestamp, header.timestamp)
        return (*place, header.crc, attributes, 0, *times, -1, -1, -1, -1)
    return (
        batch.position,
        header.base_offset,
        header.size_in_bytes,
        header.partition_leader_epoch,
        header.magic,
        header.crc,
        header.attributes,
        header.last_offset_delta,
        header.base_timestamp,
        header.max_timestamp,
        header.producer_id,
        header.producer_epoch,
        header.base_sequence,
        header.record_count,
    )


def told_headers(batches: BatchColumns) -> list[tuple[int, ...]]:
    return list(
        zip(
            batches.position.tolist(),
            batches.base_offset.tolist(),
            batches.size_in_bytes.tolist(),
            batches.partition_leader_epoch.tolist(),
            batches.magic.tolist(),
            batches.crc.tolist(),
            batches.attributes.tolist(),
            batches.last_offset_delta.tolist(),
            batches.base_timestamp.tolist(),
            batches.max_timestamp.tolist(),
            batches.producer_id.tolist(),
            batches.producer_epoch.tolist(),
            batches.base_sequence.tolist(),
            batches.record_count.tolist(),
            strict=True,
        )
    )


def told_all(scan: RecordScan, piece_rows: int) -> list[tuple[Any, Any]]:
    """(header, records or damage) of each batch of a scan, put together from its pieces."""
    found: list[tuple[Any, Any]] = []
    for columns in scan:
        assert len(columns) <= piece_rows
        batches = reported(columns)
        if columns.is_continuation:
            ((header, records),) = batches
            assert found[-1][0] == header
            found[-1][1].extend(records)
        else:
            found += batches
    return found


def reported(columns: RecordColumns) -> list[tuple[Any, Any]]:
    """(header, records or damage) of each batch of a piece."""
    content: list[Any] = [[] for _ in range(len(columns.batches))]
    headers = _headers_by_record(columns)
    for row in range(len(columns)):
        content[columns.batch[row]].append(
            Record(
                int(columns.offset[row]),
                int(columns.timestamp[row]),
                columns.key(row),
                columns.value(row),
                tuple(headers[row]),
                int(columns.sequence[row]),
                int(columns.attributes[row]),
            )
        )
    for batch, error in columns.damage:
        assert content[batch] == []
        content[batch] = str(error)
    return list(zip(told_headers(columns.batches), content, strict=True))


def _headers_by_record(columns: RecordColumns) -> list[list[Header]]:
    headers: list[list[Header]] = [[] for _ in range(len(columns))]
    data = columns.data.tobytes()
    found = columns.headers()
    for record, key_at, key_size, value_at, value_size in zip(
        *(column.tolist() for column in found), strict=True
    ):
        key = data[key_at : key_at + key_size].decode("utf-8", "surrogateescape")
        value = None if value_size < 0 else data[value_at : value_at + value_size]
        headers[record].append(Header(key, value))
    return headers


def told_end(end: Any) -> Any:
    return end.position, end.reason, str(end.error)


class CountingFile(io.BytesIO):
    """A file that counts the bytes that are read, and is never written to."""

    read_bytes = 0

    def readinto(self, buffer):
        got = super().readinto(buffer)
        self.read_bytes += got
        return got

    def write(self, data):
        raise AssertionError("evidence is read-only")
