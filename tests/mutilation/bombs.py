"""Lengths that lie, with checksums that do not: what is damaged is sealed again.

Numbers are planted at every position, whether or not a length is there, so none is forgotten: into
headers, into records (decompressed first, compressed again), into messages inside wrappers.
"""

from collections.abc import Iterator

from kafka_format.batch import HEADER_SIZE, BatchHeader, RecordBatch, assemble
from kafka_format.checksum import crc32, crc32c
from kafka_format.compression import compress
from kafka_format.legacy import LegacyBatch, encode_message
from kafka_format.log_file import LogFile
from kafka_log.names import FileKind
from tests.mutilation.readers import LIMIT, LOGS, kind_of

NUMBERS = (
    bytes.fromhex("7fffffff"),  # the largest int
    bytes.fromhex("ffffffff"),  # -1
    bytes.fromhex("80000000"),  # the smallest
    bytes.fromhex("00000000"),
    bytes.fromhex("7fff"),  # the largest short
    bytes.fromhex("feffffff0f"),  # varint 2147483647, unsigned 4294967294
    bytes.fromhex("ffffffff0f"),  # varint -2147483648, unsigned 4294967295
    bytes.fromhex("fffffffffffffffffe01"),  # a varlong of ten bytes
    bytes.fromhex("ffffffffffffffffffff"),  # a varint that does not end
)
TEXT_NUMBERS = (b"2147483647", b"-1", b"99999999999999999999", b"9" * 4000)


def planted(data: bytes, numbers: tuple[bytes, ...] = NUMBERS) -> Iterator[tuple[str, bytes]]:
    """A number written over, at every position (and between two bytes, for texts)."""
    for position in range(len(data)):
        for number in numbers:
            end = position + (1 if numbers is TEXT_NUMBERS else len(number))
            if end <= len(data):
                what = f"{number[:20].hex()} at {position}"
                yield what, data[:position] + number + data[end:]


def bombs(path: str, data: bytes) -> Iterator[tuple[str, bytes]]:
    kind = kind_of(path)
    if kind in LOGS:
        yield from _logs(data)
    elif kind is FileKind.PRODUCER_SNAPSHOT:
        for what, body in planted(data[6:]):
            yield what, data[:2] + crc32c(body).to_bytes(4, "big") + body
    elif kind in {FileKind.OFFSET_INDEX, FileKind.TIME_INDEX, FileKind.TRANSACTION_INDEX}:
        yield from planted(data)
    else:
        yield from planted(data, TEXT_NUMBERS)


def _logs(data: bytes) -> Iterator[tuple[str, bytes]]:
    for batch in LogFile(data).batches():
        before, behind = data[: batch.position], data[batch.position + len(batch.raw) :]
        found = _batch(batch) if isinstance(batch, RecordBatch) else _message(batch)
        for what, raw in found:
            yield f"batch at {batch.position}, {what}", before + raw + behind


def _batch(batch: RecordBatch) -> Iterator[tuple[str, bytes]]:
    raw, header = bytes(batch.raw), batch.header
    for what, fields in planted(raw[:HEADER_SIZE]):
        yield f"header: {what}", _sealed(fields + raw[HEADER_SIZE:])
    if header.record_count:
        for what, payload in planted(batch.decompressed_payload(limit=LIMIT)):
            yield f"records: {what}", assemble(header, compress(header.codec, payload))


def _sealed(raw: bytes) -> bytes:
    header = BatchHeader.unpack(raw)._replace(crc=crc32c(raw[21:]))
    return header.pack() + raw[HEADER_SIZE:]


def _message(batch: LegacyBatch) -> Iterator[tuple[str, bytes]]:
    raw = bytes(batch.raw)
    for what, fields in planted(raw):
        yield what, _sealed_message(fields)
    if batch.header.codec_id:
        key_size = 4 + len(batch.message().key or b"")
        start = batch.header.size_of_fixed_part + key_size + 4
        inner = b"".join(map(encode_message, batch.inner_messages(limit=LIMIT)))
        for what, plain in planted(inner):
            value = compress(batch.header.codec, plain, magic=batch.magic)
            fields = raw[: start - 4] + len(value).to_bytes(4, "big") + value
            size = (len(fields) - 12).to_bytes(4, "big")
            yield f"inside: {what}", _sealed_message(fields[:8] + size + fields[12:])


def _sealed_message(raw: bytes) -> bytes:
    return raw[:12] + crc32(raw[16:]).to_bytes(4, "big") + raw[16:]
