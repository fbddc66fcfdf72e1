"""How far a broker reads damaged compressed data before it fails.

Kafka decompresses as it reads, so records come out of a stream that fails later. If one of them is
refused first, the error is about the record and not about the stream. So it matters how much each
codec returns before it fails: gzip 16 KiB at a time and before it checks its trailer, zstd 16 KiB
at a time, lz4 and snappy block by block.
"""

import io
import struct
import zlib
from collections.abc import Callable, Iterator

from kafka_format.batch import RecordBatch, iter_payload_slices
from kafka_format.compression import Codec, codec_of, decompress, default_limit
from kafka_format.errors import FormatError
from kafka_format.primitives import Buffer
from kafka_format.record import Record

_GZIP_HEADER = bytes.fromhex("1f8b0800")  # no flags: six more bytes, then deflated ones
_GZIP_HEADER_SIZE = 10
_GZIP_INPUT, _OUTPUT = 8 * 1024, 16 * 1024
_LZ4_HEADER_SIZE = 7
_LZ4_LENGTH = struct.Struct("<I")
_LZ4_END = bytes(4)
_SNAPPY_HEADER_SIZE = 16
_SNAPPY_LENGTH = struct.Struct(">I")


def read_stream(codec: Codec, data: Buffer, magic: int) -> tuple[bytes, FormatError | None]:
    """Return the decompressed bytes, and the error if the stream is damaged."""
    try:
        return decompress(codec, data, magic=magic), None
    except FormatError as error:
        return _prefix(codec, memoryview(data), magic), error


def iter_until_damage(batch: RecordBatch) -> Iterator[Record]:
    """Yield records like Kafka's streaming iterator: those before the damage, then raise."""
    header = batch.header
    try:
        records = batch.records()
    except FormatError as error:
        damage = error
    else:
        yield from records
        return
    try:
        payload = bytes(batch.payload)
        if header.codec_id:
            payload = read_stream(codec_of(header.attributes), payload, batch.magic)[0]
        for one in iter_payload_slices(header, payload, header.log_append_time, size=1):
            yield from one
    except FormatError:
        pass  # the same damage
    raise damage


def _prefix(codec: Codec, data: memoryview, magic: int) -> bytes:
    out = io.BytesIO()
    limit = default_limit()
    for chunk in _PREFIXES[codec](data, magic):
        if out.tell() + len(chunk) > limit:
            break
        out.write(chunk)
    return out.getvalue()


def _gzip_chunks(data: memoryview, _: int) -> Iterator[bytes]:
    if bytes(data[:4]) != _GZIP_HEADER:
        return
    inflate = zlib.decompressobj(-zlib.MAX_WBITS)
    position = _GZIP_HEADER_SIZE
    while not inflate.eof:
        step: Buffer = inflate.unconsumed_tail
        if not step:
            step = data[position : position + _GZIP_INPUT]
            position += len(step)
        if not step:
            return
        try:
            yield inflate.decompress(step, _OUTPUT)
        except zlib.error:
            return


def _lz4_chunks(data: memoryview, magic: int) -> Iterator[bytes]:
    """Yield each block, decompressed in its own frame: blocks are independent."""
    header = bytes(data[:_LZ4_HEADER_SIZE])
    for block in _blocks(data, _LZ4_HEADER_SIZE, _LZ4_LENGTH, 0x7FFF_FFFF):
        try:
            yield decompress(Codec.LZ4, b"".join((header, block, _LZ4_END)), magic=magic)
        except FormatError:
            return


def _snappy_chunks(data: memoryview, _: int) -> Iterator[bytes]:
    header = bytes(data[:_SNAPPY_HEADER_SIZE])
    for block in _blocks(data, _SNAPPY_HEADER_SIZE, _SNAPPY_LENGTH, 0xFFFF_FFFF):
        try:
            yield decompress(Codec.SNAPPY, header + block)
        except FormatError:
            return


def _blocks(
    data: memoryview, position: int, length_field: struct.Struct, mask: int
) -> Iterator[bytes]:
    """Yield the complete blocks, with their length fields."""
    while len(data) - position > length_field.size:
        end = position + length_field.size + (length_field.unpack_from(data, position)[0] & mask)
        if end > len(data) or end == position + length_field.size:
            return
        yield bytes(data[position:end])
        position = end


def _zstd_chunks(data: memoryview, _: int) -> Iterator[bytes]:
    import zstandard

    with zstandard.ZstdDecompressor().stream_reader(data) as reader:
        while True:
            try:
                chunk: bytes = reader.read1(_OUTPUT)
            except zstandard.ZstdError:
                return
            if not chunk:
                return
            yield chunk


_PREFIXES: dict[Codec, Callable[[memoryview, int], Iterator[bytes]]] = {
    Codec.NONE: lambda _data, _magic: iter(()),
    Codec.GZIP: _gzip_chunks,
    Codec.SNAPPY: _snappy_chunks,
    Codec.LZ4: _lz4_chunks,
    Codec.ZSTD: _zstd_chunks,
}
