"""Lengths and counts that promise gigabytes, and compressed bytes that hold them."""

import dataclasses
import gzip
import io
import os
import random
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cramjam
import lz4.frame
import pytest
import zstandard

from jobs import dump as job
from kafka_format.batch import BatchHeader, assemble
from kafka_format.columnar.records import RecordScan
from kafka_format.compression import Codec, decompress
from kafka_format.errors import FormatError, MalformedRecordError
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


# Record bombs. Decompressed bytes are bounded, but seven of them may be a record, which takes two
# hundred as a Python value, fifty as a row of columns, and five hundred as a line of JSON.

SMALLEST_RECORD = bytes.fromhex("0c000000010100")


def record_bomb(plain_size: int, *, last: bytes = b"") -> bytes:
    """As many records as fit, in some hundred bytes; `last` is what follows them."""
    count = plain_size // len(SMALLEST_RECORD)
    plain = SMALLEST_RECORD * count + last
    return batch_of(
        Codec.ZSTD, zstandard.ZstdCompressor().compress(plain), count=count + bool(last)
    )


def message_bomb(plain_size: int) -> bytes:
    """The same of magic 0, whose smallest message has 26 bytes."""
    message = encode_message(LegacyMessage(LegacyHeader(0, 0, 0, 0, 0, -1), None, None))
    return wrapper_of(Codec.GZIP, gzip.compress(message * (plain_size // len(message)), mtime=0))


def walk_rows(data: bytes, directory: Path) -> int:
    (batch,) = LogFile(data).batches()
    return sum(1 for _ in batch.iter_records())


def walk_columns(data: bytes, directory: Path) -> int:
    count = 0
    for columns in RecordScan(data):
        assert not columns.damage
        assert columns.batch[-1] == 0
        assert columns.sequence[-1] == -1
        assert columns.record_position[-1] < columns.key_position[-1]
        assert columns.attributes[-1] == 0
        count += len(columns)
    return count


def dump(data: bytes, directory: Path, engine: Any, *flags: str) -> int:
    """How many lines; nothing is kept of them."""
    path = directory / f"{0:020d}.log"
    path.write_bytes(data)
    lines: Any = _LineCount()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stdout", io.TextIOWrapper(lines))
        patch.setattr(sys, "stderr", io.StringIO())
        options = job._options
        patch.setattr(
            job, "_options", lambda words: dataclasses.replace(options(words), engine=engine)
        )
        assert job.main([str(path), "--print-data-log", *flags]) == 0
    return lines.count


class _LineCount(io.RawIOBase):
    count = 0

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.count += bytes(data).count(b"\n")
        return len(data)


JSON = ("--format", "json")
OTHER_LINES = 4
"""The rows of a dump: file, batch, the finding that all offsets are equal, and the end."""
# How a bomb is read, how large a one takes some seconds, and what it may cost beyond its bytes.
READERS: dict[str, tuple[Callable[[bytes, Path], int], int, float]] = {
    "rows": (walk_rows, MIB, 12),
    "columns": (walk_columns, 12 * MIB, 32),
    "text by rows": (lambda *to: dump(*to, "rows"), MIB // 2, 12),
    "JSON by rows": (lambda *to: dump(*to, "rows", *JSON), MIB // 2, 12),
    "text by columns": (lambda *to: dump(*to, "columns"), 12 * MIB, 64),
    "JSON by columns": (lambda *to: dump(*to, "columns", *JSON), 12 * MIB, 64),
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("times", [1, 3])
def test_a_record_bomb_costs_its_bytes_and_a_fixed_number_of_rows(
    name: str, times: int, tmp_path: Path
) -> None:
    """At the default limit. A list of these records would be 30 times their bytes, columns 6."""
    read, size, fixed = READERS[name]
    data = record_bomb(times * size)
    assert len(data) < 5000
    read(record_bomb(MIB // 4), tmp_path)  # codecs are loaded and kernels compiled
    with guard.resident_limit(name, 1.25 * times * size / MIB + fixed), guard.watchdog(300):
        count = read(data, tmp_path)
    records = times * size // len(SMALLEST_RECORD)
    assert records <= count <= records + OTHER_LINES


@pytest.mark.parametrize(
    ("read", "size", "fixed"),
    [
        pytest.param(walk_rows, 4 * MIB, 16, id="rows"),
        pytest.param(walk_columns, 48 * MIB, 32, id="columns"),
        pytest.param(lambda *to: dump(*to, "rows", *JSON), 4 * MIB, 16, id="JSON by rows"),
    ],
)
def test_a_bomb_of_legacy_messages_costs_no_more(
    read: Callable[[bytes, Path], int], size: int, fixed: float, tmp_path: Path
) -> None:
    read(message_bomb(MIB // 4), tmp_path)
    with guard.resident_limit("messages", 1.25 * size / MIB + fixed), guard.watchdog(300):
        count = read(message_bomb(size), tmp_path)
    assert size // 26 <= count <= size // 26 + OTHER_LINES


@pytest.mark.parametrize(
    ("last", "found"),
    [
        (b"\0", "at 1048572: the end of the records in record 149796 of 149797"),
        (SMALLEST_RECORD[:-1], "at 1048572: record of 6 bytes"),
        (SMALLEST_RECORD[:-1] + b"\1", "at 1048578: -1 headers"),
        (SMALLEST_RECORD + b"?", "at 1048579: 1 bytes after record 149796"),
    ],
)
def test_a_record_bomb_that_is_damaged_at_its_end_gives_no_record(last: bytes, found: str) -> None:
    """Whole or not at all; in the same words by rows and by columns."""
    data = record_bomb(MIB, last=last)
    (batch,) = LogFile(data, path="a.log").batches()
    with (
        guard.resident_limit("damaged", 1.25 + 12),
        pytest.raises(MalformedRecordError) as caught,
    ):
        batch.iter_records()
    (columns,) = RecordScan(data, path="a.log", piece_rows=50_000)
    assert len(columns) == 0
    assert str(columns.damage[0].error) == str(caught.value)
    assert caught.value.location == ("a.log", 61)
    assert caught.value.found == f"in the decompressed records, {found}"


def test_uncompiled_columns_are_bounded_too() -> None:
    """A smaller one, since this is slow: the rows of a piece are what is held."""
    data = record_bomb(MIB // 8)
    scan = RecordScan(data, piece_rows=2048, compiled=False)
    lengths = [columns.longs.shape[1] for columns in scan]
    assert sum(lengths) == MIB // 8 // 7
    assert max(lengths) == 2048


def test_a_record_of_tiny_headers_costs_its_bytes() -> None:
    """Two bytes are the least a header has, a Python tuple of it is some eighty."""
    size = 2 * MIB
    body = b"\0\0\0\1\1" + _varint(size // 2) + b"\0\1" * (size // 2)
    data = batch_of(Codec.ZSTD, zstandard.ZstdCompressor().compress(_varint(len(body)) + body))
    (batch,) = LogFile(data).batches()
    with guard.resident_limit("headers", 3 * size / MIB + 4):
        (record,) = batch.iter_records()
        assert sum(1 for _ in record.headers) == size // 2


@pytest.mark.parametrize("numba", ["0", "1"])
def test_the_command_itself_dumps_a_bomb_in_bounded_memory(tmp_path: Path, numba: str) -> None:
    """Started anew, with and without compiled code; what the imports cost is what `--help` does."""
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(record_bomb(2 * MIB))
    words = [sys.executable, "-m", "jobs.cli", "dump"]
    environment = os.environ | {"KAFKA_FORENSICS_NUMBA": numba}
    least = _peak_of([*words, "--help"], environment)
    grown = _peak_of([*words, "--deep-iteration", str(path)], environment) - least
    compiled_code = 200 if numba == "1" else 0
    assert grown < 1.25 * 2 + 24 + compiled_code


def _peak_of(words: list[str], environment: dict[str, str]) -> float:
    """MiB that a process held at most."""
    with subprocess.Popen(words, stdout=subprocess.DEVNULL, env=environment) as process:
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0
    return usage.ru_maxrss / 1024


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
