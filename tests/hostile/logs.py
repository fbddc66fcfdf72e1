"""Bytes of logs that harm, lie or overflow: their checksums are right unless a name says otherwise.

Nothing here asks the decoders under test. Headers are packed from the format's own layout, and
large zeros are compressed in pieces, so that a bomb costs little to make.
"""

import gzip
import struct
import zlib
from collections.abc import Iterator

import crc32c
import zstandard

MIB = 1024 * 1024
BASE_TIMESTAMP = 1_763_300_000_000
_FIELDS = struct.Struct(">qiibIhiqqqhii")
_ZEROS = bytes(MIB)


def varint(number: int) -> bytes:
    """Zigzag, at most ten bytes."""
    pattern = ((number << 1) ^ (number >> 63)) & (2**64 - 1)
    out = bytearray()
    while pattern > 0x7F:
        out.append(pattern & 0x7F | 0x80)
        pattern >>= 7
    out.append(pattern)
    return bytes(out)


def nullable(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def record(
    delta: int = 0,
    key: bytes | None = b"key",
    value: bytes | None = b"value",
    headers: tuple[tuple[bytes, bytes | None], ...] = (),
) -> bytes:
    body = b"\0" + varint(0) + varint(delta) + nullable(key) + nullable(value)
    body += varint(len(headers))
    for name, content in headers:
        body += varint(len(name)) + name + nullable(content)
    return varint(len(body)) + body


def batch(payload: bytes = record(), *, seal: bool = True, **fields: int) -> bytes:
    """A batch of magic 2; `fields` overrule what would be right for one record."""
    values = {
        "base_offset": 0,
        "batch_length": 49 + len(payload),
        "leader_epoch": 0,
        "magic": 2,
        "crc": 0,
        "attributes": 0,
        "last_offset_delta": 0,
        "base_timestamp": BASE_TIMESTAMP,
        "max_timestamp": BASE_TIMESTAMP,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "record_count": 1,
    }
    assert fields.keys() <= values.keys(), fields
    raw = _FIELDS.pack(*(values | fields).values()) + payload
    if not seal:
        return raw
    return raw[:17] + struct.pack(">I", crc32c.crc32c(raw[21:])) + raw[21:]


def message(
    value: bytes | None,
    *,
    offset: int = 0,
    magic: int = 1,
    attributes: int = 0,
    key: bytes | None = None,
    size: int | None = None,
    lengths: tuple[int, int] | None = None,
) -> bytes:
    """An entry of magic 0 or 1; `size` and `lengths` of key and value may lie."""
    body = struct.pack(">bb", magic, attributes)
    if magic:
        body += struct.pack(">q", BASE_TIMESTAMP)
    for number, data in enumerate((key, value)):
        length = -1 if data is None else len(data)
        body += struct.pack(">i", length if lengths is None else lengths[number]) + (data or b"")
    sealed = struct.pack(">I", zlib.crc32(body)) + body
    return struct.pack(">qi", offset, len(sealed) if size is None else size) + sealed


# --------------------------------------------------------------------------------------- bombs

CODECS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


def zero_record(size: int, delta: int = 0) -> tuple[bytes, int, bytes]:
    """A record whose value is zeros: what comes before them, how many, and what follows."""
    before = b"\0" + varint(0) + varint(delta) + varint(-1) + varint(size)
    return varint(len(before) + size + 1) + before, size, b"\0"


def zero_message(size: int, magic: int) -> tuple[bytes, int, bytes]:
    """The same as an entry of magic 0 or 1, to be put inside a wrapper."""
    body = struct.pack(">bb", magic, 0) + (struct.pack(">q", BASE_TIMESTAMP) if magic else b"")
    body += struct.pack(">ii", -1, size)
    crc = zlib.crc32(body)
    for piece in _zeros(size):
        crc = zlib.crc32(piece, crc)
    return struct.pack(">qiI", 0, len(body) + size + 4, crc) + body, size, b""


def _zeros(size: int) -> Iterator[bytes]:
    for start in range(0, size, MIB):
        yield _ZEROS[: min(MIB, size - start)]


def squeezed(codec: str, before: bytes, zeros: int, after: bytes, *, magic: int = 2) -> bytes:
    """`before`, so many zeros, `after`: compressed in pieces, in Kafka's framing of the codec."""
    pieces = (before, *_zeros(zeros), after)
    if codec == "gzip":
        stream = zlib.compressobj(1, zlib.DEFLATED, 31)
        return b"".join(map(stream.compress, pieces)) + stream.flush()
    if codec == "zstd":
        compressor = zstandard.ZstdCompressor(level=1).compressobj()
        return b"".join(map(compressor.compress, pieces)) + compressor.flush()
    if codec == "lz4":
        return _lz4(pieces, magic)
    return _snappy(pieces)


def _lz4(pieces: tuple[bytes, ...], magic: int) -> bytes:
    """Independent blocks of 64 KiB. In magic 0 the header ends with a wrong checksum, as then."""
    from cramjam import lz4

    out = bytearray(bytes.fromhex("04224d186040") + (b"\x82" if magic else b"\x1a"))
    known: dict[bytes, bytes] = {}
    for piece in pieces:
        for start in range(0, len(piece), 65536):
            plain = piece[start : start + 65536]
            if plain not in known:
                known[plain] = bytes(lz4.compress_block(plain, store_size=False))
            block = known[plain]
            if len(block) < len(plain):
                out += struct.pack("<I", len(block)) + block
            else:
                out += struct.pack("<I", len(plain) | 1 << 31) + plain
    return bytes(out + bytes(4))


def _snappy(pieces: tuple[bytes, ...]) -> bytes:
    from cramjam import snappy

    out = bytearray(b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1))
    known: dict[bytes, bytes] = {}
    for piece in pieces:
        for start in range(0, len(piece), 32768):
            plain = piece[start : start + 32768]
            if plain not in known:
                known[plain] = bytes(snappy.compress_raw(plain))
            out += struct.pack(">i", len(known[plain])) + known[plain]
    return bytes(out)


def gzip_bytes(data: bytes) -> bytes:
    return gzip.compress(data, 1, mtime=0)


def bomb(codec: str, magic: int, size: int, *, base_offset: int = 0) -> bytes:
    """One record of `size` zeros."""
    if magic == 2:
        payload = squeezed(codec, *zero_record(size))
        return batch(payload, attributes=CODECS[codec], base_offset=base_offset)
    inner = squeezed(codec, *zero_message(size, magic), magic=magic)
    return message(inner, offset=base_offset, magic=magic, attributes=CODECS[codec])
