"""Functions of C libraries in compiled kernels, and what stands for them in plain Python."""

import numpy as np
import pytest

from kafka_format.columnar import kernels, native_codecs
from kafka_format.columnar.compilation import can_compile
from kafka_format.compression import Codec, compress
from tests.compiled import BOTH_WAYS

FRAME = compress(Codec.ZSTD, b"kafka " * 50)
# What a compressed block may hold; the empty one that ends Kafka's frames adds nothing.
SOME = 128 * 1024


def _room(data: bytes, *, compiled: bool) -> int:
    source = np.frombuffer(data, np.uint8)
    source.flags.writeable = False
    kernel = kernels.load(compiled=compiled).zstd_room
    return int(kernel(source if compiled else source.data, 0, len(data)))


@pytest.mark.parametrize("compiled", BOTH_WAYS)
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (FRAME, SOME),
        (compress(Codec.ZSTD, bytes(300_000)), 300_000),  # two of the three are one byte repeated
        (FRAME + FRAME, -1),
        (FRAME[:-1], -1),
        (FRAME + b"x", -1),
        (b"\x28\xb5\x2f\xfd", -1),
        (b"\x29" + FRAME[1:], -1),
        (FRAME[:4] + b"\x04" + FRAME[5:], -1),  # with a checksum
        (FRAME[:4] + b"\x20" + FRAME[5:], -1),  # of one segment, which tells its size
        (bytes.fromhex("28b52ffd0058 070000"), -1),  # a block of no type
        (bytes.fromhex("28b52ffd0058 2b0000 61"), 5),  # five times one byte
        (bytes.fromhex("28b52ffd0058 190000 616263"), 3),  # three bytes as they are
    ],
)
def test_only_a_frame_of_kafkas_kind_is_unpacked_by_a_kernel(
    *, compiled: bool, data: bytes, expected: int
) -> None:
    assert _room(data, compiled=compiled) == expected


def test_plain_python_stands_for_what_is_not_linked() -> None:
    out = np.zeros(6, np.uint8)
    assert native_codecs.copy_range(np.arange(9, dtype=np.uint8), 2, 5, out, 1) == 4
    assert out.tolist() == [0, 2, 3, 4, 0, 0]
    assert native_codecs.word(b"\x00\xff" + b"\xff" * 7, 1) == -1
    assert native_codecs.zstd_unpack(1, b"", 0, 0, out, 0, 6) == -1
    native_codecs.fetch(out, 0)


@pytest.mark.skipif(
    not can_compile(), reason="needs compiled kernels: numba is missing or switched off"
)
def test_compiled_functions_know_the_same_answers() -> None:
    linked, data, out = native_codecs.linked(), np.arange(9, dtype=np.uint8), np.zeros(6, np.uint8)
    assert linked["copy_range"](data, 2, 5, out, 1) == 4
    assert out.tolist() == [0, 2, 3, 4, 0, 0]
    assert linked["word"](data, 1) == 0x0807_0605_0403_0201
    assert linked["fetch"](data, 0) is None
