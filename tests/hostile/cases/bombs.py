"""Batches that are small on disk and large in memory, and compressed data that lies about sizes."""

import struct
from functools import partial
from pathlib import Path

from tests.hostile import logs
from tests.hostile.case import Case, codes, partition
from tests.hostile.logs import MIB, batch, message, record, varint

_OVER_LIMIT = codes(0, dump=1, compact=1)
_UNSOUND = codes(0, dump=1, recover=1, compact=1)


def _bomb(codec: str, magic: int, size: int, path: Path) -> None:
    partition(path, logs.bomb(codec, magic, size))


def _log(log: bytes, path: Path) -> None:
    partition(path, log)


def _many_small(path: Path) -> None:
    """100 batches of 1 MiB each, in 100 KiB."""
    batches = [logs.bomb("gzip", 2, MIB, base_offset=number) for number in range(100)]
    partition(path, b"".join(batches))


def _many_records(path: Path) -> None:
    """A million empty records in some kilobytes; the offsets of all of them are 0."""
    plain = record(key=None, value=None) * 1_000_000
    partition(path, batch(logs.gzip_bytes(plain), attributes=1, record_count=1_000_000))


def _many_headers(path: Path) -> None:
    """One record with a million headers without names."""
    count = 1_000_000
    body = (
        b"\0" + varint(0) + varint(0) + varint(-1) + varint(-1) + varint(count) + bytes(2 * count)
    )
    partition(path, batch(logs.gzip_bytes(varint(len(body)) + body), attributes=1))


def _wrapper(payload: bytes, *, magic: int = 1, codec: int = 1) -> bytes:
    return message(payload, magic=magic, attributes=codec)


def _nested(depth: int, path: Path) -> None:
    """Wrappers in wrappers, which Kafka refuses; the innermost is a bomb."""
    inner = message(logs.gzip_bytes(bytes(MIB)), attributes=1)
    for _ in range(depth):
        inner = _wrapper(logs.gzip_bytes(inner))
    partition(path, inner)


def _nested_gzip(path: Path) -> None:
    """gzip in gzip in gzip: only the first is to be undone."""
    data = bytes(64 * MIB)
    for _ in range(3):
        data = logs.gzip_bytes(data)
    partition(path, batch(data, attributes=1))


def _many_gzip_members(path: Path) -> None:
    plain = record()
    members = b"".join(logs.gzip_bytes(plain[i : i + 1]) for i in range(len(plain)))
    partition(path, batch(members + logs.gzip_bytes(b"") * 10_000, attributes=1))


def _snappy(*blocks: tuple[int, bytes]) -> bytes:
    head = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    return head + b"".join(struct.pack(">i", length) + block for length, block in blocks)


_RAW = b"\xff\xff\xff\xff\x0f"  # a snappy block that claims 2^32 - 1 bytes
_CLAIMS = {
    "snappy-block-of-4GiB": (2, _snappy((len(_RAW) + 1, _RAW + b"\0"))),
    "snappy-block-of-2GiB": (2, _snappy((6, b"\xff\xff\xff\xff\x07\0"))),
    "snappy-chunk-of-2GiB": (2, _snappy((2**31 - 1, b"\0"))),
    "snappy-chunk-negative": (2, _snappy((-1, b"\0"))),
    "snappy-raw": (2, _RAW),
    "zstd-of-1TiB": (4, bytes.fromhex("28b52ffde0") + struct.pack("<Q", 2**40) + b"\x01\0\0"),
    "zstd-window-of-2GiB": (4, bytes.fromhex("28b52ffd00a8") + b"\x01\0\0"),
    "zstd-skippable": (4, bytes.fromhex("502a4d18") + struct.pack("<I", 2**32 - 1)),
    "zstd-rle": (4, bytes.fromhex("28b52ffd0058") + b"\x02\0\x40\0" * 2000 + b"\x01\0\0"),
    "lz4-content-of-1TiB": (
        3,
        bytes.fromhex("04224d186840") + struct.pack("<Q", 2**40) + b"\0" + bytes(4),
    ),
    "lz4-block-of-2GiB": (3, bytes.fromhex("04224d18604082") + b"\xff\xff\xff\x7f\0"),
    "gzip-cut": (1, logs.gzip_bytes(bytes(MIB))[:40]),
    "gzip-extra": (1, b"\x1f\x8b\x08\x1c" + bytes(6) + b"\xff\xff" + b"a" * 100),
    "gzip-lies": (1, logs.gzip_bytes(b"abc")[:-4] + b"\xff\xff\xff\xff"),
    "nothing": (1, b""),
}

CASES = [
    Case(
        name=f"bombs/{codec}-magic{magic}-300MiB",
        build=partial(_bomb, codec, magic, 300 * MIB),
        codes=_OVER_LIMIT,
    )
    for magic in (2, 1, 0)
    for codec in logs.CODECS
    if magic == 2 or codec != "zstd"
]
CASES += [
    Case(
        name=f"bombs/{codec}-magic2-1GiB",
        build=partial(_bomb, codec, 2, 1024 * MIB),
        codes=_OVER_LIMIT,
    )
    for codec in ("gzip", "zstd")
]
CASES += [
    Case(
        name=f"bombs/{codec}-3MiB-limit-1MiB",
        build=partial(_bomb, codec, 2, 3 * MIB),
        options=("--max-decompressed-bytes", str(MIB)),
        codes=_OVER_LIMIT,
    )
    for codec in logs.CODECS
]
CASES += [
    Case(name=f"bombs/{what}", build=partial(_log, batch(data, attributes=codec)), codes=_UNSOUND)
    for what, (codec, data) in _CLAIMS.items()
]
CASES += [
    Case(
        name=f"bombs/wrapper-magic{magic}-{what}",
        build=partial(_log, _wrapper(data, magic=magic, codec=codec)),
        codes=_UNSOUND,
    )
    for magic in (0, 1)
    for what, (codec, data) in _CLAIMS.items()
    if codec != 4
]
CASES += [
    Case(name="bombs/zstd-200MiB-below-limit", build=partial(_bomb, "zstd", 2, 200 * MIB)),
    Case(name="bombs/many-small", build=_many_small),
    Case(name="bombs/a-million-records", build=_many_records, codes=_UNSOUND),
    Case(name="bombs/a-million-headers", build=_many_headers),
    Case(name="bombs/nested-2", build=partial(_nested, 1), codes=_UNSOUND),
    Case(name="bombs/nested-50", build=partial(_nested, 50), codes=_UNSOUND),
    Case(name="bombs/gzip-in-gzip", build=_nested_gzip, codes=_UNSOUND),
    Case(name="bombs/gzip-10000-members", build=_many_gzip_members),
]
