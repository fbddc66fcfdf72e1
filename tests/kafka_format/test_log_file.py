"""Walking a segment: every batch, and an end that is reported."""

import io
import itertools
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafka_format.batch import RecordBatch, encode_batch
from kafka_format.compression import Codec
from kafka_format.errors import CorruptError, Location, TruncatedError, UnsupportedError
from kafka_format.legacy import LegacyBatch, encode_legacy_batch
from kafka_format.log_file import LogFile, SegmentEnd, iter_batches
from kafka_format.record import SimpleRecord
from tests.kafka_format.damage import value_or_error

MODERN = encode_batch([SimpleRecord(1, b"k", b"v")], base_offset=10)
PACKED = encode_batch([SimpleRecord(1, b"k", b"v" * 99)] * 3, base_offset=11, codec=Codec.LZ4)
OLD = encode_legacy_batch([SimpleRecord(1, b"k", b"v")], magic=0, base_offset=1)
WRAPPED = encode_legacy_batch(
    [SimpleRecord(1, b"k", b"v")] * 2, magic=1, base_offset=2, codec=Codec.GZIP
)
SEGMENT = OLD + WRAPPED + MODERN + PACKED
STARTS = [0, len(OLD), len(OLD + WRAPPED), len(OLD + WRAPPED + MODERN), len(SEGMENT)]


class Trickle(io.RawIOBase):
    """A file that gives seven bytes at a time, as an unbuffered one may."""

    def __init__(self, data: bytes) -> None:
        self._inner = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, position: int, whence: int = 0) -> int:
        return self._inner.seek(position, whence)

    def readinto(self, buffer: Any) -> int:
        return self._inner.readinto(memoryview(buffer)[:7])


def walk(source, **options) -> tuple[list[int], SegmentEnd]:
    log = LogFile(source, **options)
    positions = [batch.position for batch in log.batches()]
    return positions, log.end


@pytest.mark.parametrize("make", [bytes, bytearray, memoryview, io.BytesIO, Trickle])
def test_a_segment_of_every_magic_is_walked_to_its_end(make) -> None:
    log = LogFile(make(SEGMENT), path="x.log")
    batches = list(log.batches())
    assert [type(batch) for batch in batches] == [LegacyBatch] * 2 + [RecordBatch] * 2
    assert [batch.magic for batch in batches] == [0, 1, 2, 2]
    assert [batch.location for batch in batches] == [Location("x.log", p) for p in STARTS[:-1]]
    assert [record.offset for batch in batches for record in batch.records()] == [
        *(1, 2, 3),
        *(10, 11, 12, 13),
    ]
    assert b"".join(bytes(batch.raw) for batch in batches) == SEGMENT
    assert log.end == SegmentEnd(len(SEGMENT), "end_of_file")


def test_a_file_on_disk_is_walked_twice_alike(tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(SEGMENT)
    with path.open("rb") as file:
        log = LogFile(file, path=str(path))
        assert log.end is None
        first = [bytes(batch.raw) for batch in log.batches()]
        assert [bytes(batch.raw) for batch in log.batches()] == first
    assert b"".join(first) == SEGMENT


def test_a_walk_may_begin_and_end_at_any_batch() -> None:
    assert walk(SEGMENT, start=STARTS[1], end=STARTS[3]) == (
        STARTS[1:3],
        SegmentEnd(STARTS[3], "end_of_file"),
    )
    assert walk(SEGMENT, start=STARTS[4], end=10**9) == ([], SegmentEnd(STARTS[4], "end_of_file"))
    assert walk(b"") == ([], SegmentEnd(0, "end_of_file"))


def test_every_cut_leaves_the_whole_batches_before_it() -> None:
    for size in range(len(SEGMENT)):
        positions, end = walk(SEGMENT[:size])
        whole = [start for start, stop in itertools.pairwise(STARTS) if stop <= size]
        assert positions == whole
        assert end.position == STARTS[len(whole)]
        if size in STARTS:
            assert end.reason == "end_of_file"
        elif not any(SEGMENT[end.position : size]):
            assert end.reason == "zeroed_tail"  # the first bytes of an offset: nothing lost
        else:
            assert end.reason == "truncated_batch"
            assert isinstance(end.error, TruncatedError)


@pytest.mark.parametrize("zeros", [1, 17, 18, 5000, 3 * 1024 * 1024])
@pytest.mark.parametrize("make", [bytes, io.BytesIO])
def test_a_preallocated_tail_is_told_from_damage(zeros: int, make) -> None:
    positions, end = walk(make(SEGMENT + bytes(zeros)))
    assert positions == STARTS[:-1]
    assert end[:2] == (len(SEGMENT), "zeroed_tail")


def test_zeros_before_other_bytes_are_damage() -> None:
    positions, end = walk(SEGMENT + bytes(2_000_000) + b"\x01")
    assert positions == STARTS[:-1]
    assert end.reason == "corrupt_batch"
    assert str(end.error) == f"<memory>@{len(SEGMENT)}: found batch length 0, expected 14 or more"


def changed(position: int, data: bytes) -> bytes:
    return SEGMENT[:position] + data + SEGMENT[position + len(data) :]


@pytest.mark.parametrize(
    ("data", "error", "where"),
    [
        (changed(STARTS[2] + 8, b"\xff\xff\xff\xff"), CorruptError, 0),  # length -1
        (changed(STARTS[2] + 8, b"\0\0\0\x0d"), CorruptError, 0),  # length 13
        (changed(STARTS[2] + 8, b"\0\0\0\x0e"), CorruptError, 0),
        (changed(STARTS[2] + 8, b"\0\0\0\x30"), CorruptError, 0),  # 48, too short for magic 2
        (changed(STARTS[2] + 16, b"\x80"), UnsupportedError, 16),  # magic -128
    ],
)
def test_a_header_that_cannot_be_ends_the_walk_as_corrupt(data: bytes, error, where: int) -> None:
    positions, end = walk(data, path="x.log")
    assert positions == STARTS[:2]
    assert end[:2] == (STARTS[2], "corrupt_batch")
    assert type(end.error) is error
    assert end.error.location == Location("x.log", STARTS[2] + where)
    with pytest.raises(error, match=r"^x\.log@"):
        list(iter_batches(data, path="x.log"))


def test_a_magic_above_2_is_read_as_2_as_by_kafka() -> None:
    positions, end = walk(changed(STARTS[2] + 16, b"\x07"))
    assert positions == STARTS[:-1]
    assert end.reason == "end_of_file"


def test_a_wrong_checksum_does_not_end_the_walk() -> None:
    data = bytearray(SEGMENT)
    data[STARTS[3] - 1] ^= 1
    batches = list(iter_batches(data))
    assert [batch.is_valid for batch in batches] == [True, True, False, True]


@pytest.mark.parametrize("tail", [b"", MODERN[:-1], MODERN[:5], bytes(100)])
def test_iterating_ends_in_silence_where_kafka_does(tail: bytes) -> None:
    assert len(list(iter_batches(SEGMENT + tail))) == 4


def test_a_claimed_size_is_refused_before_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    path.write_bytes(MODERN + MODERN[:8] + b"\x7f\xff\xff\xff" + MODERN[12:] + bytes(100_000))
    tracemalloc.start()
    try:
        with path.open("rb") as file:
            positions, end = walk(file)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert positions == [0]
    assert end[:2] == (len(MODERN), "truncated_batch")
    assert peak < 400_000


def test_a_walk_holds_one_batch_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    one = encode_batch([SimpleRecord(1, None, bytes(100_000))])
    path.write_bytes(one * 100)
    tracemalloc.start()
    try:
        with path.open("rb") as file:
            assert sum(len(batch.raw) for batch in iter_batches(file)) == 100 * len(one)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * len(one)


def test_a_file_that_shrinks_meanwhile_ends_in_a_truncated_batch(tmp_path: Path) -> None:
    path = tmp_path / "0.log"
    for size in (STARTS[2] + 5, STARTS[2] + 40):
        path.write_bytes(SEGMENT)
        with path.open("rb", buffering=0) as file:
            log = LogFile(file)
            with path.open("r+b") as writer:
                writer.truncate(size)
            assert [batch.position for batch in log.batches()] == STARTS[:2]
            assert log.end[:2] == (STARTS[2], "truncated_batch")


@given(
    st.lists(st.sampled_from([OLD, WRAPPED, MODERN, PACKED]), max_size=5), st.binary(max_size=90)
)
@settings(deadline=None)
def test_any_tail_is_walked_or_told(parts: list[bytes], tail: bytes) -> None:
    data = b"".join(parts) + tail
    log = LogFile(data)
    for batch in log.batches():
        value_or_error(lambda _: batch.records(limit=2**20), data)  # noqa: B023 - called at once
    assert log.end.position >= len(data) - len(tail)
    assert (log.end.reason == "end_of_file") == (log.end.position == len(data))
