"""Several threads on one file give what the row decoder gives, in any chunks, and leave nothing."""

import errno
import io
import os
import random
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_format.batch import encode_batch
from kafka_format.columnar import ahead
from kafka_format.columnar.records import PIECE_ROWS, RecordScan
from kafka_format.compression import Codec
from kafka_format.log_file import LogFile
from kafka_format.record import SimpleRecord
from tests import golden
from tests.kafka_format.columnar.agreement import (
    LIMIT,
    PATH,
    by_rows,
    told_all,
    told_end,
)
from tests.kafka_format.columnar.test_agreement import batches, segment_of

CHUNK = 2048  # two of them make a page, which a thread takes at once
LEAST = 4 * 4096  # what is smaller is not worth a second thread

pytestmark = pytest.mark.skipif(
    not hasattr(os, "preadv"), reason="one thread, where a file cannot be read by position"
)


@pytest.fixture(autouse=True)
def _nothing_is_left_behind():
    before = _descriptors()
    yield
    assert [t.name for t in threading.enumerate() if t.name.startswith("kafka-scan")] == []
    assert _descriptors() == before


def _descriptors():
    """How many are open, where the system tells."""
    reported = Path("/proc/self/fd")
    return len(list(reported.iterdir())) if reported.is_dir() else 0


@pytest.fixture
def scans(monkeypatch):
    """How many scans went by threads."""
    seen = []

    class Seen(ahead.Ahead):
        def __iter__(self):
            seen.append(self)
            return super().__iter__()

    monkeypatch.setattr("kafka_format.columnar.records.Ahead", Seen)
    return seen


@pytest.fixture
def log(tmp_path):
    return tmp_path / "00000000000000000000.log"


def assert_same(log, segment, *, verify=True, piece_rows=PIECE_ROWS, chunk_bytes=CHUNK, threads=2):
    expected, end = by_rows(segment, verify=verify)
    log.write_bytes(segment)
    with log.open("rb", buffering=0) as file:
        scan = RecordScan(
            file,
            path=PATH,
            verify=verify,
            chunk_bytes=chunk_bytes,
            piece_rows=piece_rows,
            decompressed_limit=LIMIT,
            threads=threads,
        )
        assert told_all(scan, piece_rows) == expected
        assert told_end(scan.end) == end


@pytest.mark.parametrize("threads", [2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_every_magic_and_codec_decodes_to_the_same_records(seed, threads, log, scans):
    segment = segment_of(seed, batches=160)
    assert len(segment) > LEAST
    assert_same(log, segment, threads=threads)
    assert_same(log, segment, threads=threads, piece_rows=2)
    assert len(scans) == 2


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(segment=st.lists(batches, min_size=1, max_size=4).map(b"".join))
def test_whatever_kafka_may_write_decodes_to_the_same_records(segment, log):
    assert_same(log, segment * (LEAST // len(segment) + 1))


def test_every_segment_of_every_golden_directory_decodes_alike(log, scans):
    roots = [golden.shared(name) for name in golden.names()]
    segments = [path.read_bytes() for root in roots for path in root.rglob("*.log*")]
    written = [segment for segment in segments if segment]
    for segment in written:
        assert_same(log, segment * (LEAST // len(segment) + 1))
    assert len(scans) == len(written) > 20


@pytest.mark.parametrize("verify", [True, False])
def test_a_flipped_bit_is_seen_alike(log, verify):
    rng = random.Random(5)
    segment = segment_of(3, batches=130)
    for _ in range(60):
        damaged = bytearray(segment)
        bit = rng.randrange(len(damaged) * 8)
        damaged[bit // 8] ^= 1 << bit % 8
        assert_same(log, bytes(damaged), verify=verify)


def test_a_length_that_is_damaged_ends_the_walk_in_the_same_place(log):
    segment = segment_of(3, batches=130)
    positions = [batch.position for batch in LogFile(segment).batches()]
    for position in positions[::9]:
        for length in (0, 13, 50, 5000, 9_000, 2**31 - 1):
            damaged = bytearray(segment)
            damaged[position + 8 : position + 12] = length.to_bytes(4, "big")
            assert_same(log, bytes(damaged))


def test_a_cut_is_seen_alike(log, scans):
    """Also within the header that lies across two chunks."""
    segment = encode_batch([SimpleRecord(1, b"k", b"v" * 300)]) * 80
    assert len(segment) > 7 * 4096 + 80
    for edge in range(5 * 4096, 8 * 4096, 4096):
        for size in range(edge - 80, edge + 80, 7):
            assert_same(log, segment[:size])
    assert len(scans) > 60
    assert_same(log, segment + bytes(9000))


@pytest.mark.parametrize("at", range(4096 - 64, 4096 + 3, 6))
def test_a_header_across_two_chunks_is_whole(log, at):
    """The first batch ends so that the next one's header lies across the edge."""
    first = encode_batch([SimpleRecord(1, None, b"a" * 4000)])
    padded = encode_batch([SimpleRecord(1, None, b"a" * (4000 + at - len(first)))])
    assert abs(len(padded) - at) <= 2
    assert_same(log, padded + encode_batch([SimpleRecord(1, None, b"b" * 999)]) * 20)


@pytest.mark.parametrize("chunk_bytes", [1, CHUNK, 1 << 15])
def test_batches_larger_than_many_chunks_are_whole(chunk_bytes, log, scans):
    values = [b"a" * 10, b"b" * 300_000, b"c" * 90_000, b"", bytes(1_500_000)]
    segment = b"".join(
        encode_batch([SimpleRecord(1, None, value)] * 2, base_offset=2 * i, codec=codec)
        for i, (codec, value) in enumerate((codec, v) for codec in Codec for v in values)
    )
    assert_same(log, segment, chunk_bytes=chunk_bytes)
    assert len(scans) == 1


def test_more_batches_than_a_table_holds_come_in_pieces(log, monkeypatch):
    monkeypatch.setattr(ahead, "TABLE_ROWS", 3)
    assert_same(log, segment_of(2, batches=200))


def test_a_part_of_a_file_is_what_the_row_reader_finds_there(log, scans):
    segment = segment_of(1, batches=300)
    log.write_bytes(segment)
    positions = [batch.position for batch in LogFile(segment).batches()]
    for start, end in ((positions[40], None), (positions[3], positions[250] + 20), (0, 30_000)):
        rows = LogFile(segment, path=PATH, start=start, end=end)
        expected = [batch.position for batch in rows.batches()]
        with log.open("rb") as file:  # buffered, for once
            options: dict[str, Any] = {
                "start": start,
                "end": end,
                "chunk_bytes": CHUNK,
                "threads": 2,
            }
            scan = RecordScan(file, path=PATH, **options)
            found = [p for columns in scan for p in columns.batches.position.tolist()]
        assert found == expected
        assert told_end(scan.end) == told_end(rows.end)
    assert len(scans) == 3


def test_with_decode_invalid_a_wrong_checksum_is_told_and_its_records_come(log):
    batch = encode_batch([SimpleRecord(1, b"k", b"v" * 500)])
    broken = bytearray(batch * 60)
    for number in (0, 17, 59):
        broken[number * len(batch) + 17] ^= 1
    log.write_bytes(broken)
    with log.open("rb", buffering=0) as file:
        scan = RecordScan(file, decode_invalid=True, chunk_bytes=CHUNK, threads=2)
        pieces = [(len(c), c.batches.is_valid.tolist(), c.damage) for c in scan]
    assert sum(records for records, _, _ in pieces) == 60
    valid = [each for _, flags, _ in pieces for each in flags]
    assert [i for i, each in enumerate(valid) if not each] == [0, 17, 59]
    assert not any(damage for _, _, damage in pieces)


def test_who_stops_early_leaves_no_thread(log):
    log.write_bytes(segment_of(1, batches=400))
    for pieces in (0, 1, 2, 5):
        with log.open("rb", buffering=0) as file:
            scan = RecordScan(file, chunk_bytes=CHUNK, threads=2)
            columns: Any = iter(scan)
            for _ in range(pieces):
                next(columns)
            columns.close()
            assert scan.end is None


def test_who_closes_the_file_gets_what_the_file_holds(log):
    """The number of its descriptor may be another file's then."""
    segment = segment_of(1, batches=300)
    log.write_bytes(segment)
    expected = [batch.position for batch in LogFile(segment).batches()]
    other = log.with_name("other")
    other.write_bytes(bytes(len(segment)))
    with log.open("rb", buffering=0) as file:
        columns = iter(RecordScan(file, chunk_bytes=CHUNK, threads=2))
        found = next(columns).batches.position.tolist()
    with other.open("rb", buffering=0), pytest.raises(ValueError, match="closed file"):
        for piece in columns:
            found += piece.batches.position.tolist()
    assert found == expected  # and only the end cannot be asked for


@pytest.mark.parametrize("failing", [0, 3, 7])
def test_what_cannot_be_read_is_raised_behind_what_could(log, failing, monkeypatch):
    batch = encode_batch([SimpleRecord(1, b"k", b"v" * 900)])
    log.write_bytes(batch * 60)
    read = os.preadv

    def preadv(descriptor, buffers, position):
        if position <= failing * 4096 < position + len(buffers[0]):
            raise OSError(errno.EIO, "bad sector")
        return read(descriptor, buffers, position)

    monkeypatch.setattr(os, "preadv", preadv)
    found = 0
    with log.open("rb", buffering=0) as file:
        scan = RecordScan(file, chunk_bytes=CHUNK, threads=2)
        with pytest.raises(OSError, match="bad sector"):
            for columns in scan:
                found += len(columns)
    assert max(0, failing - 2) * 4096 <= found * len(batch) <= failing * 4096 + len(batch)


def test_what_fails_in_a_thread_is_raised_where_it_is_asked_for(log, monkeypatch):
    log.write_bytes(segment_of(1, batches=300))

    def fail(self, piece):
        if piece.base > 8000:
            raise MemoryError("no room")
        return decode(self, piece)

    decode = RecordScan.columns
    monkeypatch.setattr(RecordScan, "columns", fail)
    with log.open("rb", buffering=0) as file:
        columns = iter(RecordScan(file, chunk_bytes=CHUNK, threads=2))
        assert len(next(columns)) > 0
        with pytest.raises(MemoryError, match="no room"):
            list(columns)


def test_a_file_that_shrinks_meanwhile_ends_where_it_ends(log):
    batch = encode_batch([SimpleRecord(1, b"k", b"v" * 300)])
    log.write_bytes(batch * 3000)
    with log.open("rb", buffering=0) as file:
        scan = RecordScan(file, chunk_bytes=CHUNK, threads=2)
        pieces = iter(scan)
        first = len(next(pieces))
        os.truncate(log, len(batch) * 100 + 30)
        assert first + sum(len(columns) for columns in pieces) == 100
        assert (scan.end.reason, scan.end.position) == ("truncated_batch", len(batch) * 100)


def test_a_file_that_is_emptied_meanwhile_ends_with_what_was_read(log):
    batch = encode_batch([SimpleRecord(1, b"k", b"v" * 300)])
    log.write_bytes(batch * 3000)
    with log.open("rb", buffering=0) as file:
        scan = RecordScan(file, chunk_bytes=CHUNK, threads=2)
        pieces = iter(scan)
        first = len(next(pieces))
        os.truncate(log, 0)
        found = first + sum(len(columns) for columns in pieces)
        assert 0 < found <= 5 * 4096 // len(batch)
        assert (scan.end.reason, scan.end.position) == ("end_of_file", found * len(batch))


def test_a_batch_that_is_cut_while_it_is_read_is_not_given(log, monkeypatch):
    """Its header was there; the rest of it is gone when it is asked for."""
    small, large = (encode_batch([SimpleRecord(1, None, b"v" * n)]) for n in (300, 50_000))
    log.write_bytes(small * 5 + large + small * 100)
    read = os.preadv

    def preadv(descriptor, buffers, position):
        if position >= 8192:
            os.truncate(log, 9000)
        return read(descriptor, [buffers[0][:1000]], position)  # and little at a time

    monkeypatch.setattr(os, "preadv", preadv)
    with log.open("rb", buffering=0) as file:
        scan = RecordScan(file, chunk_bytes=CHUNK, threads=2)
        found = [p for columns in scan for p in columns.batches.position.tolist()]
        assert found == [number * len(small) for number in range(5)]
        assert (scan.end.reason, scan.end.position) == ("truncated_batch", 5 * len(small))


def test_a_file_that_grows_meanwhile_is_read_as_long_as_it_was(log):
    batch = encode_batch([SimpleRecord(1, b"k", b"v" * 300)])
    log.write_bytes(batch * 100)
    with log.open("rb", buffering=0) as file:
        scan = RecordScan(file, chunk_bytes=CHUNK, threads=2)
        with log.open("ab") as other:
            other.write(batch * 50)
        assert sum(len(columns) for columns in scan) == 100
    assert scan.end.position == 100 * len(batch)


def test_one_thread_reads_what_has_no_pages_to_be_read_from(log, scans):
    class Other(io.FileIO):
        def readinto(self, buffer):
            return super().readinto(buffer)

    segment = segment_of(1, batches=300)
    log.write_bytes(segment)
    expected = sum(1 for _ in LogFile(segment).batches())
    options: dict[str, Any] = {"chunk_bytes": CHUNK, "threads": 2}
    with Other(log) as file, log.open("rb") as small, log.open("rb") as plain:
        for scan in (
            RecordScan(segment, **options),
            RecordScan(io.BytesIO(segment), **options),
            RecordScan(file, **options),
            RecordScan(small, threads=2),
            RecordScan(plain, compiled=False, **options),
        ):
            assert sum(len(c.batches) for c in scan if not c.is_continuation) == expected
    assert scans == []


def test_no_header_is_read_before_a_chunk(tmp_path, monkeypatch):
    """Chunks after the end of the batches were: a long preallocated tail ended the process."""
    path = tmp_path / "log"
    path.write_bytes(encode_batch([SimpleRecord(timestamp=0, key=b"k", value=b"v")], base_offset=0))
    os.truncate(path, 64 * LEAST)
    starts = []
    real = ahead.Ahead.__init__

    def recording(self, *args, **named):
        real(self, *args, **named)
        read_headers = self._read_headers

        def seen(data, base, position, *rest):
            starts.append(position)
            return read_headers(data, base, position, *rest)

        self._read_headers = seen

    monkeypatch.setattr(ahead.Ahead, "__init__", recording)
    with path.open("rb", buffering=0) as file:
        scan = RecordScan(file, threads=2, chunk_bytes=CHUNK)
        assert sum(len(piece) for piece in scan) == 1
        assert scan.end.reason == "zeroed_tail"
    assert starts
    assert min(starts) >= 0
