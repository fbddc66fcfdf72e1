"""C functions of installed wheels for compiled kernels that write batches.

    copy_range      memcpy
    word            load eight bytes, little-endian, at any address
    fetch           prefetch hint for the processor
    lz4_pack        LZ4_compress_default of the lz4 package: the bytes that lz4-java writes
    zstd_pack       one frame as Kafka's stream writes it, with a context that is reused
    zstd_unpack     one frame

As in native.py, each is tested on a known input first. A function that is not available is missing
from `linked`, and its caller uses Python instead. A zstd context is an address from
`zstd_contexts`, one per thread.
"""

from __future__ import annotations

import ctypes
import importlib.util
import threading
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from kafka_format.columnar.native import can_link, compile_bound, external

_LEVEL, _CONTENT_SIZE_FLAG, _CHECKSUM_FLAG = 100, 200, 201  # ZSTD_cParameter
_KAFKAS_LEVEL = 3
_ZSTD_VERSION = 10506  # 1.5.6, which writes the bytes of Kafka's zstd-jni (docs/decisions/0004)
_TEXT = b"kafka kafka kafka kafka kafka kafka kafka kafka"
# The lz4 block that lz4-java writes for that text.
_LZ4_BLOCK = bytes.fromhex("6f6b61666b6120060011506b61666b61")
_per_thread = threading.local()

# Globals of the underscored functions below, which only run compiled, with these names bound.
c_memcpy: Any = None
c_load: Any = None
c_prefetch: Any = None
c_lz4: Any = None
c_zstd_stream: Any = None
c_zstd_decompress: Any = None
c_zstd_reset: Any = None


class ZstdContexts(NamedTuple):
    compressing: int
    decompressing: int


def copy_range(data: Any, start: int, end: int, out: Any, at: int) -> int:
    """Copy bytes into another array; return where they end there."""
    out[at : at + end - start] = data[start:end]
    return at + end - start


def _copy_range(data: Any, start: int, end: int, out: Any, at: int) -> int:  # pragma: no cover
    c_memcpy(out.ctypes.data + at, data.ctypes.data + start, np.uint64(end - start))
    return at + end - start


def word(data: Any, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little", signed=True)


def _word(data: Any, at: int) -> int:  # pragma: no cover  # runs compiled
    return c_load(data.ctypes.data + at)  # type: ignore[no-any-return]


def fetch(data: Any, at: int) -> None:
    """Prefetch the bytes at a position into the cache; does nothing in plain Python."""


def _fetch(data: Any, at: int) -> None:  # pragma: no cover  # runs compiled
    c_prefetch(data.ctypes.data + at)


def _lz4_pack(data: Any, start: int, end: int, out: Any, at: int, room: int) -> int:
    """Compress one block; return its size, 0 if there is no room."""  # pragma: no cover
    return c_lz4(  # type: ignore[no-any-return]
        data.ctypes.data + start, out.ctypes.data + at, np.int32(end - start), np.int32(room)
    )


def _zstd_pack(  # noqa: PLR0913 - numba functions take arrays one by one  # pragma: no cover
    context: int, data: Any, start: int, end: int, out: Any, at: int, room: int, places: Any
) -> int:
    """Compress one frame as Java's stream does: continue, flush, end. Return its size, or -1.

    -1 means lack of room. `places` holds the two positions that C updates.
    """
    places[0] = 0
    places[1] = 0
    source = data.ctypes.data + start
    target = out.ctypes.data + at
    written = places.ctypes.data
    size = np.uint64(end - start)
    for step in range(3):
        while True:
            before = places[1]
            left = c_zstd_stream(
                context, target, np.uint64(room), written, source, size, written + 8, np.int32(step)
            )
            if left > np.uint64(0xFFFF_FFFF_FFFF_FF00):
                c_zstd_reset(context, np.int32(1))
                return -1
            if step == 0 and places[1] == end - start:
                break
            if step > 0 and left == 0:
                break
            if places[0] >= room or (step == 0 and places[1] == before):
                c_zstd_reset(context, np.int32(1))
                return -1
    return places[0] + 0  # type: ignore[no-any-return]


def zstd_unpack(*_: Any) -> int:
    """Return -1: zstd is not linked, and the caller uses Python instead."""
    return -1


def _no_zstd(  # pragma: no cover  # runs compiled
    context: int,  # noqa: ARG001
    data: Any,  # noqa: ARG001
    start: int,  # noqa: ARG001
    end: int,  # noqa: ARG001
    out: Any,  # noqa: ARG001
    at: int,  # noqa: ARG001
    room: int,  # noqa: ARG001
) -> int:
    return -1


def _zstd_unpack(  # pragma: no cover  # runs compiled
    context: int, data: Any, start: int, end: int, out: Any, at: int, room: int
) -> int:
    """Decompress one frame; return the bytes written, -1 for damage or lack of room."""
    written = c_zstd_decompress(
        context,
        out.ctypes.data + at,
        np.uint64(room),
        data.ctypes.data + start,
        np.uint64(end - start),
    )
    if written > np.uint64(0xFFFF_FFFF_FFFF_FF00):
        return -1
    return np.int64(written)  # type: ignore[return-value]


@cache
def linked() -> dict[str, Any]:
    """Return compiled functions by name, without those that could not be linked."""
    found = {
        "copy_range": compile_bound(
            _copy_range, {"c_memcpy": external("memcpy", _MEMCPY)}, "memcpy"
        ),
        "word": compile_bound(_word, {"c_load": _load_intrinsic()}, "load"),
        "fetch": compile_bound(_fetch, {"c_prefetch": _prefetch_intrinsic()}, "fetch"),
        "zstd_unpack": compile_bound(_no_zstd, {}, "none"),
    }
    if can_link("lz4.block._block", "LZ4_compress_default"):
        function = compile_bound(
            _lz4_pack, {"c_lz4": external("LZ4_compress_default", _LZ4)}, "lz4"
        )
        if _packs_lz4(function):
            found["lz4_pack"] = function
    library = _zstd_library()
    if library is not None:
        names = {
            "c_zstd_stream": external("ZSTD_compressStream2_simpleArgs", _STREAM),
            "c_zstd_reset": external("ZSTD_CCtx_reset", "uintp(intp, int32)"),
        }
        found["zstd_pack"] = compile_bound(_zstd_pack, names, "zstd")
        unpacking = {"c_zstd_decompress": external("ZSTD_decompressDCtx", _DECOMPRESS)}
        found["zstd_unpack"] = compile_bound(_zstd_unpack, unpacking, "zstd")
    return found


_MEMCPY = "intp(intp, intp, uintp)"
_LZ4 = "int32(intp, intp, int32, int32)"
_STREAM = "uintp(intp, intp, uintp, intp, intp, uintp, intp, int32)"
_DECOMPRESS = "uintp(intp, intp, uintp, intp, uintp)"
_ZSTD_SYMBOLS = (
    "ZSTD_compressStream2_simpleArgs",
    "ZSTD_CCtx_reset",
    "ZSTD_CCtx_setParameter",
    "ZSTD_createCCtx",
    "ZSTD_createDCtx",
    "ZSTD_decompressDCtx",
    "ZSTD_versionNumber",
)


def zstd_contexts() -> ZstdContexts:
    """Return the contexts of this thread; zeros if zstd is not linked."""
    contexts: ZstdContexts | None = getattr(_per_thread, "zstd", None)
    if contexts is None:
        library = _zstd_library()
        contexts = ZstdContexts(0, 0) if library is None else _new_contexts(library)
        _per_thread.zstd = contexts
    return contexts


def _new_contexts(library: ctypes.CDLL) -> ZstdContexts:
    library.ZSTD_createCCtx.restype = ctypes.c_void_p
    library.ZSTD_createDCtx.restype = ctypes.c_void_p
    compressing, decompressing = library.ZSTD_createCCtx(), library.ZSTD_createDCtx()
    settings = ((_LEVEL, _KAFKAS_LEVEL), (_CONTENT_SIZE_FLAG, 0), (_CHECKSUM_FLAG, 0))
    for parameter, value in settings:
        library.ZSTD_CCtx_setParameter(ctypes.c_void_p(compressing), parameter, value)
    return ZstdContexts(compressing, decompressing)


@cache
def _zstd_library() -> ctypes.CDLL | None:
    module = "zstandard._cffi"
    if not all(can_link(module, symbol) for symbol in _ZSTD_SYMBOLS):
        return None
    spec = importlib.util.find_spec(module)
    library = ctypes.CDLL(str(spec.origin if spec else None))
    return library if library.ZSTD_versionNumber() == _ZSTD_VERSION else None


def _packs_lz4(function: Any) -> bool:
    data, out = np.frombuffer(_TEXT, np.uint8), np.zeros(100, np.uint8)
    size = int(function(data, 0, len(data), out, 0, len(out)))
    return out[:size].tobytes() == _LZ4_BLOCK


def _load_intrinsic() -> Any:
    from llvmlite import ir
    from numba.core import types
    from numba.extending import intrinsic

    @intrinsic
    def load(_: Any, address: Any) -> Any:
        def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], ir.IntType(64).as_pointer())
            loaded = builder.load(pointer)
            loaded.align = 1
            return loaded

        return types.int64(address), generate

    return load


def _prefetch_intrinsic() -> Any:
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    @intrinsic
    def prefetch(_: Any, address: Any) -> Any:
        def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
            number = ir.IntType(32)
            pointer = ir.IntType(8).as_pointer()
            kind = ir.FunctionType(ir.VoidType(), [pointer, number, number, number])
            get: Any = cgutils.get_or_insert_function
            function = get(builder.module, kind, "llvm.prefetch.p0")
            place = builder.inttoptr(arguments[0], pointer)
            builder.call(function, [place, number(0), number(3), number(1)])
            return arguments[0]

        return types.int64(address), generate

    return prefetch
