"""The codecs: streams worked out by hand, bounds kept, nothing of the libraries leaks."""

import gzip
import random
import struct
import threading
import tracemalloc
import zlib

import cramjam
import lz4.block
import lz4.frame
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_format.access import Access, using
from kafka_format.codecs.lz4_frame import header_checksum
from kafka_format.compression import (
    Codec,
    codec_of,
    compress,
    decompress,
    default_limit,
)
from kafka_format.errors import (
    CorruptError,
    FormatError,
    OverLimitError,
    TruncatedError,
    UnsupportedError,
)
from tests.kafka_format.damage import value_or_error
from tests.strategies import blobs

COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
MIB = 1024 * 1024


def test_codecs_are_named_as_kafka_prints_them() -> None:
    assert [f"{codec}" for codec in Codec] == ["none", "gzip", "snappy", "lz4", "zstd"]


@pytest.mark.parametrize("number", [5, 6, 7])
def test_three_numbers_name_no_codec(number: int) -> None:
    with pytest.raises(UnsupportedError, match=rf"^x.log@21: found compression codec {number}, "):
        codec_of(0x10 | number, path="x.log", position=21)
    assert codec_of(0x7C) is Codec.ZSTD


# --- streams by hand: what Kafka writes for three letters, and how else they may be written

GZIP_ABC = "1f8b080000000000 00ff 4b4c4a0600 c2412435 03000000"
SNAPPY_HEADER = "82 534e41505059 00 00000001 00000001"
SNAPPY_ABC = SNAPPY_HEADER + "00000005 03 08 616263"  # length 3; literal of 3
LZ4_ABC = "04224d18 60 40 82 03000080 616263 00000000"  # stored: an lz4 block would be longer
LZ4_ABC_MAGIC_0 = "04224d18 60 40 1a 03000080 616263 00000000"
ZSTD_ABC = "28b52ffd 00 58 180000 616263 010000"  # raw block of 3, then an empty last one


@pytest.mark.parametrize(
    ("codec", "magic", "stream"),
    [
        (Codec.NONE, 2, "616263"),
        (Codec.GZIP, 2, GZIP_ABC),
        (Codec.SNAPPY, 2, SNAPPY_ABC),
        (Codec.LZ4, 2, LZ4_ABC),
        (Codec.LZ4, 1, LZ4_ABC),
        (Codec.LZ4, 0, LZ4_ABC_MAGIC_0),
        (Codec.ZSTD, 2, ZSTD_ABC),
    ],
)
def test_three_letters_are_written_and_read_as_by_hand(codec, magic, stream) -> None:
    assert compress(codec, b"abc", magic=magic) == bytes.fromhex(stream)
    assert decompress(codec, bytes.fromhex(stream), magic=magic) == b"abc"


@pytest.mark.parametrize(
    ("codec", "stream"),
    [
        (Codec.SNAPPY, SNAPPY_HEADER),
        (Codec.LZ4, "04224d18 60 40 82 00000000"),
        (Codec.GZIP, "1f8b080000000000 00ff 0300 00000000 00000000"),
    ],
)
def test_nothing_is_a_stream_without_blocks(codec: Codec, stream: str) -> None:
    assert compress(codec, b"") == bytes.fromhex(stream)
    assert decompress(codec, bytes.fromhex(stream)) == b""


OTHER_STREAMS = {  # other ways to say abc that Kafka reads; hex, codec, magic
    "gzip, stored block": ("1f8b080000000000 0000 01 0300 fcff 616263 c2412435 03000000", 1, 2),
    "gzip, two members": (
        gzip.compress(b"ab", mtime=0).hex() + gzip.compress(b"c", mtime=0).hex(),
        1,
        2,
    ),
    "gzip, all optional fields": (
        # extra 2 bytes "xy", name "n", comment "c"; then the crc of this header
        (fields := "1f8b08 1e 00000000 00 ff 0200 7879 6e00 6300")
        + struct.pack("<H", zlib.crc32(bytes.fromhex(fields)) & 0xFFFF).hex()
        + "4b4c4a0600 c2412435 03000000",
        1,
        2,
    ),
    "gzip, reserved flags": ("1f8b08e000000000 00ff 4b4c4a0600 c2412435 03000000", 1, 2),
    "gzip, 18 bytes behind": (GZIP_ABC + "00" * 18, 1, 2),
    "gzip, a page of zeros behind": (GZIP_ABC + "00" * 100, 1, 2),
    "snappy, one raw block": ("03 08 616263", 2, 2),
    "snappy, 17 raw bytes": ("11 40" + "61" * 17, 2, 2),
    "snappy, two blocks": (SNAPPY_HEADER + "00000004 02 04 6162 00000003 01 00 63", 2, 2),
    "snappy, two streams": (
        SNAPPY_HEADER + "00000004 02 04 6162" + SNAPPY_HEADER + "00000003 01 00 63",
        2,
        2,
    ),
    "snappy, any version first": (
        "82 534e41505059 00 00000000 7fffffff 00000005 03 08 616263",
        2,
        2,
    ),
    "snappy, part of a length behind": (SNAPPY_ABC + "000000", 2, 2),
    "snappy, other letters in a further header": (SNAPPY_ABC + "82534e41" + "00" * 12, 2, 2),
    "lz4, content size": ("04224d18 68 40 ffffffffffffffff ??", 3, 2),
    "lz4, wrong content checksum": ("04224d18 64 40 a7 03000080 616263 00000000 00000000", 3, 2),
    "lz4, bytes behind": (LZ4_ABC + "ff" * 40, 3, 2),
    "lz4, magic 0 with a right checksum": (LZ4_ABC, 3, 0),
    "lz4, magic 0 with any checksum": (LZ4_ABC.replace(" 82 ", " 00 "), 3, 0),
    "lz4, 4 MiB blocks": ("04224d18 60 70 73 03000080 616263 00000000", 3, 2),
    "zstd, single segment": ("28b52ffd 20 03 190000 616263", 4, 2),
    "zstd, two frames": ("28b52ffd 20 02 110000 6162 28b52ffd 20 01 090000 63", 4, 2),
    "zstd, skippable frames": (
        "502a4d18 02000000 ffff" + ZSTD_ABC + "5f2a4d18 00000000",
        4,
        2,
    ),
}


def _frame_with_content_size(stream: str) -> bytes:
    """Fill in the header checksum of the one frame whose descriptor is ten bytes long."""
    head = bytes.fromhex(stream.replace("??", ""))
    library = lz4.frame.compress(b"x" * 5, store_size=True)  # knows XXH32 of such a descriptor
    assert library[4] & 0x08
    return head + bytes([header_checksum(head[4:])]) + bytes.fromhex("03000080 616263 00000000")


@pytest.mark.parametrize("name", OTHER_STREAMS)
def test_other_streams_of_the_same_bytes_are_read(name: str) -> None:
    stream, codec, magic = OTHER_STREAMS[name]
    data = _frame_with_content_size(stream) if "??" in stream else bytes.fromhex(stream)
    expected = b"a" * 17 if "17" in name else b"abc"
    assert decompress(Codec(codec), data, magic=magic) == expected


def test_no_bytes_are_an_empty_zstd_stream_as_in_java() -> None:
    assert decompress(Codec.ZSTD, b"") == b""


BROKEN = {  # hex, codec, position of the error
    "gzip, nothing": ("", 1, 0),
    "gzip, another magic": ("1f8c" + GZIP_ABC[4:], 1, 0),
    "gzip, another method": ("1f8b07" + GZIP_ABC[6:], 1, 0),
    "gzip, no body": ("1f8b080000000000 00ff", 1, 10),
    "gzip, damaged body": ("1f8b080000000000 00ff ffff", 1, 10),
    "gzip, no trailer": ("1f8b080000000000 00ff 4b4c4a0600", 1, 15),
    "gzip, wrong crc": ("1f8b080000000000 00ff 4b4c4a0600 c2412436 03000000", 1, 15),
    "gzip, wrong size": ("1f8b080000000000 00ff 4b4c4a0600 c2412435 04000000", 1, 15),
    "gzip, name without end": ("1f8b080800000000 00ff 6e6f", 1, 10),
    "gzip, extra field cut off": ("1f8b080400000000 00ff ff00 00", 1, 0),
    "gzip, extra field cut off before a name": ("1f8b080c00000000 00ff ffff 00", 1, 0),
    "gzip, header crc cut off": ("1f8b080200000000 00ff 00", 1, 0),
    "gzip, wrong header crc": ("1f8b080200000000 00ff 0000 4b4c4a0600 c2412435 03000000", 1, 10),
    "snappy, nothing": ("", 2, 0),
    "snappy, no length": ("ff", 2, 0),
    "snappy, raw block too long": ("03 08 61626364", 2, 0),
    "snappy, impossible ratio": ("ffffffff0f 00 61", 2, 0),
    "snappy, block beyond the end": (SNAPPY_HEADER + "00000006 03 08 616263", 2, 16),
    "snappy, negative length": (SNAPPY_HEADER + "ffffffff 03 08 616263", 2, 16),
    "snappy, damaged block": (SNAPPY_HEADER + "00000005 03 ff 616263", 2, 20),
    "snappy, further header cut off": (SNAPPY_HEADER + "82534e41 50", 2, 16),
    "snappy, further header of version 0": (
        SNAPPY_HEADER + "82534e4150505900 00000000 00000001",
        2,
        16,
    ),
    "lz4, six bytes": ("04224d186040", 3, 0),
    "lz4, another magic": ("04224d19 60 40 82 00000000", 3, 0),
    "lz4, version 2": ("04224d18 a0 40 82 00000000", 3, 4),
    "lz4, dependent blocks": ("04224d18 40 40 c0 00000000", 3, 4),
    "lz4, reserved flag": ("04224d18 62 40 82 00000000", 3, 4),
    "lz4, block size 3": ("04224d18 60 30 82 00000000", 3, 5),
    "lz4, reserved size bits": ("04224d18 60 41 82 00000000", 3, 5),
    "lz4, content size cut off": ("04224d18 68 40 0102030405060708", 3, 0),
    "lz4, the checksum of magic 0": (LZ4_ABC_MAGIC_0, 3, 6),
    "lz4, no end mark": ("04224d18 60 40 82 03000080 616263", 3, 14),
    "lz4, block cut off": ("04224d18 60 40 82 03000080 6162", 3, 11),
    "lz4, block beyond its maximum": ("04224d18 60 40 82 01000180" + "00" * 65537, 3, 7),
    "lz4, damaged block": ("04224d18 60 40 82 03000000 ffffff 00000000", 3, 11),
    "lz4, content checksum cut off": ("04224d18 64 40 a7 00000000 00", 3, 11),
    "zstd, another magic": ("28b52ffe 00 58 180000 616263 010000", 4, 0),
    "zstd, five bytes": ("28b52ffd 00", 4, 0),
    "zstd, header cut off": ("28b52ffd c0 58 00 00", 4, 0),
    "zstd, block header cut off": ("28b52ffd 00 58 180000 616263 01", 4, 12),
    "zstd, block cut off": ("28b52ffd 00 58 180000 61", 4, 6),
    "zstd, last block cut off": ("28b52ffd 00 58 190000 61", 4, 6),
    "zstd, block of no type": ("28b52ffd 00 58 1e0000 616263 010000", 4, 6),
    "zstd, block beyond its maximum": ("28b52ffd 00 58 0bff3f 00", 4, 6),
    "zstd, reserved descriptor bit": ("28b52ffd 08 58 180000 616263 010000", 4, 0),
    "zstd, unknown dictionary": ("28b52ffd 01 58 07 180000 616263 010000", 4, 0),
    "zstd, content size above its blocks": ("28b52ffd a0 ffffffff 190000 616263", 4, 0),
    "zstd, content size below its blocks": ("28b52ffd 20 02 190000 616263", 4, 0),
    "zstd, checksum cut off": ("28b52ffd 24 03 190000 616263 00", 4, 0),
    "zstd, wrong checksum": ("28b52ffd 24 03 190000 616263 00000000", 4, 0),
    "zstd, letters behind": (ZSTD_ABC + "6162636465666768", 4, 15),
    "zstd, skippable frame cut off": ("502a4d18 05000000 ffff", 4, 0),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_streams_are_format_errors_with_a_position(name: str) -> None:
    stream, codec, position = BROKEN[name]
    with pytest.raises(FormatError) as caught:
        decompress(Codec(codec), bytes.fromhex(stream))
    assert caught.value.location.position == position, str(caught.value)


def testheader_checksums_are_the_second_byte_of_xxh32() -> None:
    assert header_checksum(b"") == 0x5D  # XXH32 of nothing is 0x02cc5d05
    assert header_checksum(b"a") == 0x74  # 0x550d7456
    assert header_checksum(b"abc") == 0x53  # 0x32d153ff
    assert header_checksum(bytes.fromhex("6040")) == 0x82
    for flags, options in [
        ("store_size", {"store_size": True}),
        ("block_checksum", {"block_checksum": True}),
        ("content_checksum", {"content_checksum": True}),
    ]:
        frame = lz4.frame.compress(b"abc", **({"store_size": False} | options))
        end = 14 if frame[4] & 0x08 else 6
        assert header_checksum(frame[4:end]) == frame[end], flags


@pytest.mark.parametrize("size", [1, 300, 65536, 200_000])
@pytest.mark.parametrize("block_size", [4, 5, 6, 7])
def test_lz4_frames_with_every_checksum_are_read(size: int, block_size: int) -> None:
    data = bytes(range(251)) * (size // 251 + 1)
    frame = lz4.frame.compress(
        data,
        block_size=block_size,
        block_linked=False,
        block_checksum=True,
        content_checksum=True,
    )
    assert decompress(Codec.LZ4, frame) == data
    damaged = bytearray(frame)
    damaged[-9] ^= 1  # the last block's checksum: before the end mark and the content checksum
    with pytest.raises(CorruptError, match="checksum"):
        decompress(Codec.LZ4, damaged)


def test_blocks_are_cut_as_kafka_cuts_them() -> None:
    data = bytes(200_000)
    snappy, position, sizes = compress(Codec.SNAPPY, data), 16, []
    while position < len(snappy):
        (length,) = struct.unpack_from(">i", snappy, position)
        block = snappy[position + 4 : position + 4 + length]
        sizes.append(len(cramjam.snappy.decompress_raw(block)))
        position += 4 + length
    assert sizes == [32768] * 6 + [200_000 - 6 * 32768]
    frame, position, sizes = compress(Codec.LZ4, data), 7, []
    while length := struct.unpack_from("<I", frame, position)[0]:
        block = frame[position + 4 : position + 4 + length]
        sizes.append(len(lz4.block.decompress(block, uncompressed_size=65536)))
        position += 4 + length
    assert sizes == [65536] * 3 + [200_000 - 3 * 65536]


@pytest.mark.parametrize("codec", COMPRESSING)
def test_the_libraries_read_what_we_write(codec: Codec) -> None:
    data = b"some text, some text and more of it" * 5000
    written = compress(codec, data)
    readers = {
        Codec.GZIP: gzip.decompress,
        Codec.LZ4: lz4.frame.decompress,
        Codec.ZSTD: lambda frame: zstandard.ZstdDecompressor().decompress(
            frame, max_output_size=len(data)
        ),
    }
    if codec in readers:
        assert readers[codec](written) == data
    assert len(written) < len(data) / 10


@pytest.mark.parametrize(("codec", "level"), [(Codec.GZIP, 9), (Codec.LZ4, 12), (Codec.ZSTD, 19)])
def test_a_level_is_a_matter_of_the_writer_alone(codec: Codec, level: int) -> None:
    data = b"".join(b"%d, " % (number * number) for number in range(9000))
    written = compress(codec, data, level=level)
    assert written != compress(codec, data)
    assert decompress(codec, written) == data


def test_the_default_level_of_lz4_is_nine_and_fast() -> None:
    data = b"the same again and again " * 500
    assert compress(Codec.LZ4, data, level=9) == compress(Codec.LZ4, data)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("magic", [0, 1, 2])
@given(data=st.lists(blobs, max_size=6).map(b"".join))
@settings(max_examples=25, deadline=None)
def test_what_is_compressed_comes_back(codec: Codec, magic: int, data: bytes) -> None:
    written = compress(codec, memoryview(data), magic=magic)
    assert decompress(codec, bytearray(written), magic=magic, limit=len(data)) == data
    if data:
        with pytest.raises(OverLimitError, match=f"at most {len(data) - 1} bytes"):
            decompress(codec, written, magic=magic, limit=len(data) - 1)


# --- bombs


def zstd_bomb(blocks: int) -> bytes:
    """Four bytes a block, each for 128 KiB of zeros."""
    block = (128 * 1024 << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    return bytes.fromhex("28b52ffd 00 58") + block * blocks + bytes.fromhex("010000")


def test_the_zstd_bomb_is_a_zstd_frame() -> None:
    assert decompress(Codec.ZSTD, zstd_bomb(3)) == bytes(3 * 128 * 1024)


BOMBS = {
    Codec.GZIP: lambda: compress(Codec.GZIP, bytes(100 * MIB)),
    Codec.SNAPPY: lambda: compress(Codec.SNAPPY, bytes(20 * MIB)),
    Codec.LZ4: lambda: compress(Codec.LZ4, bytes(100 * MIB)),
    Codec.ZSTD: lambda: zstd_bomb(8000),
}


@pytest.mark.parametrize("codec", BOMBS)
def test_a_bomb_is_refused_in_the_memory_of_its_limit(codec: Codec) -> None:
    bomb = BOMBS[codec]()
    limit = 4 * MIB
    tracemalloc.start()
    try:
        with pytest.raises(OverLimitError, match=f"at most {limit} bytes"):
            decompress(codec, bomb, limit=limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < limit * 9 / 8 + MIB  # a buffer that grows has an eighth to spare


@pytest.mark.parametrize("codec", list(Codec)[1:])
def test_a_large_blob_is_decompressed_once_and_not_copied(codec: Codec) -> None:
    plain = random.Random(3).randbytes(MIB) * 16
    compressed = compress(codec, plain)
    tracemalloc.start()
    try:
        assert decompress(codec, compressed) == plain
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < len(plain) * 9 / 8 + MIB


def test_a_zstd_bomb_that_says_how_large_it_is_is_refused_before_it_grows() -> None:
    size = 64 * MIB
    frame = bytes.fromhex("28b52ffd a0") + size.to_bytes(4, "little") + zstd_bomb(512)[6:]
    tracemalloc.start()
    try:
        with pytest.raises(OverLimitError, match=f"at most {MIB} bytes"):
            decompress(Codec.ZSTD, frame, limit=MIB)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MIB
    assert decompress(Codec.ZSTD, frame, limit=size) == bytes(size)


@pytest.mark.parametrize(
    ("codec", "stream"),
    [
        (Codec.SNAPPY, "ffffffff0f" + "00" * 20),  # says 4 GiB
        (Codec.ZSTD, "28b52ffd e0 ffffffffffffff7f 190000 616263"),  # says 8 EiB
        (Codec.ZSTD, "28b52ffd 60 ffff 190000 616263"),
    ],
)
def test_a_claimed_size_is_not_believed(codec: Codec, stream: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(CorruptError):
            decompress(codec, bytes.fromhex(stream))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < MIB // 4


def test_without_a_limit_there_is_a_generous_one() -> None:
    assert default_limit() == 256 * MIB
    with using(Access(max_decompressed_bytes=7)):
        assert decompress(Codec.GZIP, compress(Codec.GZIP, bytes(7))) == bytes(7)
        with pytest.raises(OverLimitError, match="at most 7 bytes"):
            decompress(Codec.GZIP, compress(Codec.GZIP, bytes(8)))


# --- any bytes


@pytest.mark.parametrize("codec", COMPRESSING)
@given(data=st.binary(max_size=100))
def test_any_bytes_are_a_value_or_a_format_error(codec: Codec, data: bytes) -> None:
    value_or_error(lambda stream: decompress(codec, stream, limit=MIB), data)


@pytest.mark.parametrize("codec", COMPRESSING)
def test_every_flip_and_cut_is_a_value_or_a_format_error(codec: Codec) -> None:
    stream = compress(codec, b"abcabcabcabcabcabc, kafka!" * 3)
    for bit in range(8 * len(stream)):
        flipped = bytearray(stream)
        flipped[bit // 8] ^= 1 << bit % 8
        value_or_error(lambda data: decompress(codec, data, limit=MIB), bytes(flipped))
    for size in range(len(stream)):
        if codec is Codec.ZSTD and size == 0:
            continue
        found = value_or_error(lambda data: decompress(codec, data, limit=MIB), stream[:size])
        if codec is Codec.SNAPPY and not isinstance(found, FormatError):
            assert size in range(16, 20)  # a whole header, then no whole length
            continue
        assert isinstance(found, CorruptError | TruncatedError)


def test_threads_do_not_share_a_zstd_context() -> None:
    data = [bytes([i]) * 300_000 + str(i).encode() * 1000 for i in range(8)]
    streams = [compress(Codec.ZSTD, one) for one in data]
    wrong = []

    def read(number: int) -> None:
        good = all(decompress(Codec.ZSTD, streams[number]) == data[number] for _ in range(20))
        if not good:
            wrong.append(number)

    threads = [threading.Thread(target=read, args=(i,)) for i in range(len(data))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
