"""Lengths and counts that promise gigabytes, and compressed bytes that hold them."""

import gzip
import random
import zlib
from collections.abc import Callable

import cramjam
import lz4.frame
import pytest
import zstandard

from kafka_format.batch import BatchHeader, assemble
from kafka_format.columnar.records import RecordScan
from kafka_format.compression import Codec, decompress
from kafka_format.errors import FormatError
from kafka_format.legacy import LegacyHeader, LegacyMessage, encode_message
from kafka_format.log_file import LogFile
from tests.mutilation import directories, guard, readers
from tests.mutilation.bombs import bombs

FILES = [file for file in directories.files() if file[2]]
IDS = [f"{directory}/{path}" for directory, path, _ in FILES]
SAMPLE = 12
MIB = 1 << 20
LIMIT = MIB
"""To which a batch may grow here."""


def examine(name: str, cases: list[tuple[str, bytes]]) -> None:
    for what, data in cases:
        with guard.time_limit(f"{name}, {what}"):
            readers.read_in_full(name, data)


@pytest.mark.parametrize(("directory", "path", "data"), FILES, ids=IDS)
def test_a_planted_number_is_a_value_or_a_coordinate_and_costs_no_memory(
    directory: str, path: str, data: bytes
) -> None:
    cases = list(bombs(path, data))
    chosen = random.Random(len(cases)).sample(cases, min(SAMPLE, len(cases)))
    examine(f"{directory}/{path}", chosen[:1])  # kernels are compiled once, and that costs memory
    with guard.memory_limit(f"{directory}/{path}"), guard.watchdog(300):
        examine(f"{directory}/{path}", chosen)


@pytest.mark.soak
@pytest.mark.parametrize(("directory", "path", "data"), FILES, ids=IDS)
def test_all_planted_numbers_are_values_or_coordinates(
    directory: str, path: str, data: bytes
) -> None:
    name = f"{directory}/{path}"
    examine(name, [("whole", data)])
    for what, case in bombs(path, data):
        with guard.resident_limit(f"{name}, {what}"):
            examine(name, [(what, case)])


# Decompression bombs. What Kafka would write is not the point: what a decoder would believe is.

PLAIN = bytes(64 * MIB)


def _snappy_block(plain: bytes) -> bytes:
    block = bytes(cramjam.snappy.compress_raw(plain))
    return len(block).to_bytes(4, "big") + block


def _xerial(plain: bytes) -> bytes:
    header = b"\x82SNAPPY\0" + (1).to_bytes(4, "big") * 2
    return header + _snappy_block(plain[:MIB]) * (len(plain) // MIB)


def _zstd_rle(plain: bytes) -> bytes:
    """Blocks of one byte that stand for 128 KiB each."""
    block, last = (128 * 1024 << 3 | 2), (0 << 3 | 1)
    return (
        bytes.fromhex("28b52ffd0058")
        + (block.to_bytes(3, "little") + b"\0") * (len(plain) // (128 * 1024))
        + last.to_bytes(3, "little")
    )


def _zstd_window(plain: bytes) -> bytes:
    """A frame that asks for a window of 2 GiB to begin with."""
    return bytes.fromhex("28b52ffd00a8") + _zstd_rle(plain)[6:]


BOMBS: dict[str, tuple[Codec, Callable[[bytes], bytes]]] = {
    "gzip": (Codec.GZIP, lambda plain: gzip.compress(plain, mtime=0)),
    "gzip of many members": (Codec.GZIP, lambda plain: gzip.compress(plain[:MIB], mtime=0) * 64),
    "snappy": (Codec.SNAPPY, lambda plain: bytes(cramjam.snappy.compress_raw(plain))),
    "snappy, xerial": (Codec.SNAPPY, _xerial),
    "snappy that claims 4 GiB": (Codec.SNAPPY, lambda _: bytes.fromhex("ffffffff0f") + bytes(99)),
    "lz4": (
        Codec.LZ4,
        lambda plain: lz4.frame.compress(
            plain, block_size=lz4.frame.BLOCKSIZE_MAX4MB, block_linked=False
        ),
    ),
    "zstd": (Codec.ZSTD, zstandard.ZstdCompressor().compress),
    "zstd of bare blocks": (Codec.ZSTD, _zstd_rle),
    "zstd with a window of 2 GiB": (Codec.ZSTD, _zstd_window),
}

HEADER = BatchHeader(0, 0, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1)


def batch_of(codec: Codec, compressed: bytes, *, count: int = 1) -> bytes:
    return assemble(HEADER._replace(attributes=int(codec), record_count=count), compressed)


def wrapper_of(codec: Codec, compressed: bytes) -> bytes:
    message = LegacyMessage(LegacyHeader(0, 0, 0, 1, int(codec), 0), None, compressed)
    return encode_message(message)


def bound(data: bytes) -> float:
    """In MiB: the bytes themselves, the limit, a block of lz4, and the columns' own tables."""
    return (3 * len(data) + LIMIT) / MIB + 3 * 4 + 6


@pytest.mark.parametrize("name", BOMBS)
def test_a_decompression_bomb_grows_to_the_limit_and_no_further(name: str) -> None:
    codec, compressor = BOMBS[name]
    compressed = compressor(PLAIN)
    data = batch_of(codec, compressed)
    for read in (_by_rows, _by_columns):
        read(data)  # codecs are loaded and kernels compiled
        with (
            guard.resident_limit(name, 32),
            guard.memory_limit(name, bound(data)),
            guard.time_limit(name),
        ):
            error = read(data)
        assert isinstance(error, FormatError)
        readers.assert_coordinate(error, len(data))


@pytest.mark.parametrize("name", [name for name in BOMBS if not name.startswith("zstd")])
def test_a_bomb_in_a_wrapper_grows_to_the_limit_and_no_further(name: str) -> None:
    codec, compressor = BOMBS[name]
    data = wrapper_of(codec, compressor(PLAIN))
    for read in (_by_rows, _by_columns):
        read(data)
        with guard.memory_limit(name, bound(data)), guard.time_limit(name):
            error = read(data)
        assert isinstance(error, FormatError)
        readers.assert_coordinate(error, len(data))


def test_a_batch_inside_the_limit_is_read_with_a_few_times_its_size() -> None:
    """One record that fills it: the decompressed bytes, the joined ones, the value."""
    size = 8 * MIB
    body = b"\0\0\0\x01" + _varint(size) + bytes(size) + b"\0"
    data = batch_of(Codec.ZSTD, zstandard.ZstdCompressor().compress(_varint(len(body)) + body))
    (batch,) = LogFile(data).batches()
    with guard.memory_limit("one record", 3 * 8 + 4):
        (record,) = batch.records(limit=size + 100)
    assert record.value == bytes(size)


def test_thousands_of_records_in_a_hundred_bytes_cost_a_row_each_and_no_more() -> None:
    """Seven bytes are the least a record has, a Python tuple of it is some two hundred."""
    limit = LIMIT // 4
    count = limit // 7
    plain = bytes.fromhex("0c000000010100") * count
    data = batch_of(Codec.ZSTD, zstandard.ZstdCompressor().compress(plain), count=count)
    assert len(data) < 1000
    (batch,) = LogFile(data).batches()
    with guard.memory_limit("rows", 48 * limit / MIB):
        assert len(batch.records(limit=limit)) == count
    list(RecordScan(data, decompressed_limit=limit))
    with guard.memory_limit("columns", 16 * limit / MIB + 6):
        (columns,) = RecordScan(data, decompressed_limit=limit)
        assert len(columns) == count


def _by_rows(data: bytes) -> FormatError | None:
    (batch,) = LogFile(data).batches()
    batch.ensure_valid()
    try:
        batch.records(limit=LIMIT)
    except FormatError as error:
        return error
    return None


def _by_columns(data: bytes) -> FormatError | None:
    (columns,) = RecordScan(data, decompressed_limit=LIMIT, compiled=True)
    return columns.damage[0].error if columns.damage else None


def _varint(value: int) -> bytes:
    value <<= 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def test_the_bombs_are_bombs() -> None:
    """Without the limit they do hold what they claim, but for those that only claim."""
    assert len(zlib.compress(PLAIN)) < len(PLAIN) // 500
    for name, (codec, compressor) in BOMBS.items():
        if "claims" not in name and "window" not in name:
            assert decompress(codec, compressor(PLAIN), limit=2 * len(PLAIN)) == PLAIN, name
