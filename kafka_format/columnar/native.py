"""C functions of installed wheels that compiled kernels call without a Python call per batch.

crc32c and lz4 are dependencies anyway, and their extension modules export the C functions that they
wrap. numba links to them by name, so that compiled kernels can be cached on disk. Each function is
tested on a known input before it is used. If a build hides the symbol, or the test fails, CRC-32C
is computed with tables, and lz4 blocks are decompressed by the Python package, batch by batch.
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
_CRC_CHECK = (b"123456789", 0xE306_9283)  # the standard check value of CRC-32C
_LZ4_CHECK = (b"\x1fa\x01\x00\x0b\x50aaaaa", b"a" * 36)  # a literal, a match of 30, five literals


# Globals of the underscored twins below, which only run compiled, with these names bound.
c_function: Any = None
tables: Any = None


def crc32c_range(data: Any, start: int, end: int) -> int:
    return crc32c.crc32c(data[start:end])


def crc32_range(data: Any, start: int, end: int) -> int:
    return zlib.crc32(data[start:end])


def lz4_block(data: Any, start: int, end: int, out: Any, at: int, room: int) -> int:
    """Decompress one block into `out`; return the bytes written, -1 for damage or lack of room."""
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
    """Compute a CRC, eight bytes per step, with the eight tables of its polynomial."""
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
    """Return the tables: row n is the effect of a byte on the checksum n bytes later."""
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
    """Return the functions of this module for compiled kernels, by name. Linked ones are tested."""
    found = {
        "crc32_range": compile_bound(_crc_range, {"tables": _crc_tables(_CRC32)}, "crc32"),
        "crc32c_range": compile_bound(_crc_range, {"tables": _crc_tables(_CRC32C)}, "crc32c"),
    }
    for symbol in _CRC_SYMBOLS:
        function = _link(_crc32c_range, symbol, "crc32c._crc32c", "uint32(uint32, intp, uintp)")
        if function is not None and _computes_crc(function):
            found["crc32c_range"] = function
            break
    signature = "int32(intp, intp, int32, int32)"
    function = _link(_lz4_block, _LZ4_SYMBOL, "lz4.block._block", signature)
    if function is not None and _decompresses_lz4(function):
        found["lz4_block"] = function
    return found


def _computes_crc(function: Callable[..., int]) -> bool:
    text, expected = _CRC_CHECK
    data = np.frombuffer(text, np.uint8)
    return int(function(data, 0, len(data))) == expected


def _decompresses_lz4(function: Callable[..., int]) -> bool:
    block, expected = _LZ4_CHECK
    data = np.frombuffer(block, np.uint8)
    out = np.zeros(len(expected), np.uint8)
    written = function(data, 0, len(data), out, 0, len(out))
    return written == len(expected) and out.tobytes() == expected


def _link(caller: Callable[..., int], symbol: str, module: str, signature: str) -> Any | None:
    """Compile `caller` with `c_function` bound to a symbol of an extension module, or None."""
    if not can_link(module, symbol):
        return None
    return compile_bound(caller, {"c_function": external(symbol, signature)}, symbol)


def can_link(module: str, symbol: str) -> bool:
    """Return whether an extension module exports a symbol; load the module if it does."""
    import llvmlite.binding as llvm

    try:
        spec = importlib.util.find_spec(module)
        if spec is None or spec.origin is None:
            return False
        llvm.load_library_permanently(spec.origin)
    except (ImportError, RuntimeError):
        return False
    return bool(llvm.address_of_symbol(symbol))


def external(symbol: str, signature: str) -> Any:
    """Return a C function that compiled code can call."""
    from numba.core import sigutils, types

    arguments, result = sigutils.normalize_signature(signature)  # type: ignore[no-untyped-call]
    return types.ExternalFunction(symbol, result(*arguments))


def compile_bound(function: Callable[..., Any], names: dict[str, Any], symbol: str) -> Any:
    """Compile a function whose globals are numpy and `names`."""
    bound = FunctionType(function.__code__, {"np": np, **names}, function.__name__)
    bound.__module__ = function.__module__
    # The linked symbol is part of the name, and so of the key in numba's cache.
    bound.__qualname__ = f"{function.__qualname__}{symbol}"
    return njit(bound, nogil=True)
