"""C functions of installed wheels, called from compiled kernels without a Python call a batch.

crc32c and lz4 are dependencies anyway, and their extension modules export the C functions they
wrap. numba links against them by name, so that compiled kernels stay cacheable on disk. Each is
tried on a known answer before it is used: where a build hides the symbol, or it means something
else there, CRC-32C goes through tables, and lz4 through the same library batch by batch.
"""

from __future__ import annotations

import importlib.util
import zlib
from types import FunctionType
from typing import TYPE_CHECKING, Any

import crc32c
import lz4.block
import numpy as np

from kafka_format.columnar.compilation import njit

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

_CRC_SYMBOLS = ("_crc32c_hw_adler", "_crc32c_hw_arm64")
_CRC32, _CRC32C = 0xEDB8_8320, 0x82F6_3B78  # polynomials, bits reversed
_LZ4_SYMBOL = "LZ4_decompress_safe"
_CRC_CHECK = (b"123456789", 0xE306_9283)  # the check value that every catalogue of CRCs lists
_LZ4_CHECK = (b"\x1fa\x01\x00\x0b\x50aaaaa", b"a" * 36)  # a literal, a match of 30, five literals


# What the underscored twins below call: they run compiled only, with these bound.
c_function: Any = None
tables: Any = None


def crc32c_range(data: Any, start: int, end: int) -> int:
    return crc32c.crc32c(data[start:end])


def crc32_range(data: Any, start: int, end: int) -> int:
    return zlib.crc32(data[start:end])


def lz4_block(data: Any, start: int, end: int, out: Any, at: int, room: int) -> int:
    """Decompress one block into `out`: bytes written, or -1 if it is damaged or has no room."""
    try:
        plain = lz4.block.decompress(data[start:end], uncompressed_size=room)
    except lz4.block.LZ4BlockError:
        return -1
    out[at : at + len(plain)] = np.frombuffer(plain, np.uint8)
    return len(plain)


def _crc32c_range(data: Any, start: int, end: int) -> int:  # pragma: no cover  # runs compiled
    ones = np.uint32(0xFFFF_FFFF)
    crc = c_function(ones, data.ctypes.data + start, np.uint64(end - start))
    return np.int64(crc ^ ones)  # type: ignore[return-value]


def _lz4_block(  # pragma: no cover  # runs compiled
    data: Any, start: int, end: int, out: Any, at: int, room: int
) -> int:
    return c_function(  # type: ignore[no-any-return]
        data.ctypes.data + start, out.ctypes.data + at, np.int32(end - start), np.int32(room)
    )


def _crc_range(data: Any, start: int, end: int) -> int:  # pragma: no cover  # runs compiled
    """Eight bytes a step through eight tables, which decide which CRC it is."""
    crc = np.uint32(0xFFFF_FFFF)
    at = start
    while end - at >= 8:
        crc = np.uint32(
            crc ^ (data[at] | data[at + 1] << 8 | data[at + 2] << 16 | data[at + 3] << 24)
        )
        crc = np.uint32(
            tables[7, crc & 0xFF]
            ^ tables[6, crc >> 8 & 0xFF]
            ^ tables[5, crc >> 16 & 0xFF]
            ^ tables[4, crc >> 24]
            ^ tables[3, data[at + 4]]
            ^ tables[2, data[at + 5]]
            ^ tables[1, data[at + 6]]
            ^ tables[0, data[at + 7]]
        )
        at += 8
    while at < end:
        crc = np.uint32(tables[0, (crc ^ data[at]) & 0xFF] ^ crc >> 8)
        at += 1
    return np.int64(crc ^ np.uint32(0xFFFF_FFFF))  # type: ignore[return-value]


def _crc_tables(polynomial: int) -> npt.NDArray[np.uint32]:
    """Row n: what a byte does to the checksum n bytes later."""
    tables = np.zeros((8, 256), np.uint32)
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (polynomial if crc & 1 else 0)
        tables[0, byte] = crc
    for row in range(1, 8):
        tables[row] = tables[row - 1] >> 8 ^ tables[0][tables[row - 1] & 0xFF]
    return tables


def compiled_functions() -> dict[str, Any]:
    """The functions of this module for compiled kernels, by name; linked ones know their answer."""
    found = {
        "crc32_range": _compile(_crc_range, {"tables": _crc_tables(_CRC32)}, "crc32"),
        "crc32c_range": _compile(_crc_range, {"tables": _crc_tables(_CRC32C)}, "crc32c"),
    }
    for symbol in _CRC_SYMBOLS:
        function = _link(_crc32c_range, symbol, "crc32c._crc32c", "uint32(uint32, intp, uintp)")
        if function is not None and _knows_crc(function):
            found["crc32c_range"] = function
            break
    signature = "int32(intp, intp, int32, int32)"
    function = _link(_lz4_block, _LZ4_SYMBOL, "lz4.block._block", signature)
    if function is not None and _knows_lz4(function):
        found["lz4_block"] = function
    return found


def _knows_crc(function: Callable[..., int]) -> bool:
    text, expected = _CRC_CHECK
    data = np.frombuffer(text, np.uint8)
    return int(function(data, 0, len(data))) == expected


def _knows_lz4(function: Callable[..., int]) -> bool:
    block, expected = _LZ4_CHECK
    data = np.frombuffer(block, np.uint8)
    out = np.zeros(len(expected), np.uint8)
    written = function(data, 0, len(data), out, 0, len(out))
    return written == len(expected) and out.tobytes() == expected


def _link(caller: Callable[..., int], symbol: str, module: str, signature: str) -> Any | None:
    """`caller` compiled with `c_function` bound to a symbol of an extension module, or None."""
    spec = importlib.util.find_spec(module)
    if spec is None or spec.origin is None:
        return None
    import llvmlite.binding as llvm
    from numba.core import sigutils, types

    try:
        llvm.load_library_permanently(spec.origin)
    except RuntimeError:
        return None
    if not llvm.address_of_symbol(symbol):
        return None
    arguments, result = sigutils.normalize_signature(signature)  # type: ignore[no-untyped-call]
    external = types.ExternalFunction(symbol, result(*arguments))
    return _compile(caller, {"c_function": external}, symbol)


def _compile(function: Callable[..., int], names: dict[str, Any], symbol: str = "") -> Any:
    bound = FunctionType(function.__code__, {"np": np, **names}, function.__name__)
    bound.__module__ = __name__
    # What it links to is part of the name, and so of the cache's key.
    bound.__qualname__ = f"{function.__qualname__}{symbol}"
    return njit(bound, nogil=True)
