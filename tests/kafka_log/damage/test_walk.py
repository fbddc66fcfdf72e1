"""The one walk over damaged logs: which batches it gives, and what lies between them."""

import io
import random
import struct
from functools import partial

import pytest

from kafka_format.batch import BatchHeader, assemble, encode_batch
from kafka_format.columnar.headers import BatchScan, HeaderWalk
from kafka_format.columnar.records import RecordScan
from kafka_format.compression import Codec
from kafka_format.record import SimpleRecord
from kafka_log.damage.resync import BatchSearch
from kafka_log.damage.walk import BatchWalk, Gap, resume_by_length, stop_at_damage

SCANS = {"records": RecordScan, "batches": BatchScan, "headers": HeaderWalk}


def batch_at(offset: int, value: bytes = b"value") -> bytes:
    return encode_batch([SimpleRecord(1000, b"key", value)], base_offset=offset)


BATCHES = [batch_at(offset) for offset in range(6)]
SIZE = len(BATCHES[0])
LOG = b"".join(BATCHES)


def with_length(batch: bytes, length: int) -> bytes:
    return batch[:8] + struct.pack(">i", length) + batch[12:]


def undecodable(value: bytes) -> bytes:
    """A batch with the right checksum, whose codec cannot read its payload."""
    batch = batch_at(1, value)
    header = BatchHeader.unpack(batch)._replace(attributes=Codec.ZSTD)
    return assemble(header, batch[61:])


def walk(data: bytes, scan: str = "batches", resume=None):
    """Positions of batches, and gaps as (position, reason, where batches go on)."""
    file = io.BytesIO(data)
    found = []
    resume = resume or BatchSearch(file, base_offset=0).resume
    for part in BatchWalk(lambda start: SCANS[scan](file, start=start), resume):
        if isinstance(part, Gap):
            found.append((part.position, part.reason, part.resumes_at))
        else:
            found += getattr(part, "batches", part).position.tolist()
    return found


@pytest.mark.parametrize("scan", SCANS)
def test_a_sound_log_has_no_gap(scan):
    assert walk(LOG, scan) == [each * SIZE for each in range(6)]


@pytest.mark.parametrize("scan", SCANS)
def test_the_walk_goes_on_after_a_batch_that_cannot_be_one(scan):
    data = LOG[:SIZE] + with_length(BATCHES[1], -1) + LOG[2 * SIZE :]
    gap = (SIZE, "corrupt_batch", 2 * SIZE)
    assert walk(data, scan) == [0, gap, *(each * SIZE for each in range(2, 6))]


@pytest.mark.parametrize("scan", SCANS)
def test_a_length_that_lies_does_not_hide_the_batches_it_leads_past(scan):
    """The second batch says that it is three batches and a half long."""
    data = LOG[:SIZE] + with_length(BATCHES[1], 3 * SIZE + SIZE // 2 - 12) + LOG[2 * SIZE :]
    found = walk(data, scan)
    assert found[:2] == [0, SIZE]
    assert found[2][2] == 2 * SIZE
    assert found[3:] == [each * SIZE for each in range(2, 6)]


@pytest.mark.parametrize("scan", SCANS)
def test_a_right_checksum_vouches_for_the_length_of_a_batch_that_cannot_be_decoded(scan):
    """So a batch that somebody stored in its value is not taken for one of the log."""
    outer = undecodable(BATCHES[3])
    garbage = b"\xff" * 100
    data = BATCHES[0] + outer + garbage + BATCHES[2]
    after = SIZE + len(outer)
    gap = (after, "corrupt_batch", after + len(garbage))
    assert walk(data, scan) == [0, SIZE, gap, after + len(garbage)]


def _scan(kind, file, start):
    return kind(file, start=start)


def test_a_gap_is_reported_with_the_damaged_batch_whose_length_led_there():
    data = LOG[:SIZE] + with_length(BATCHES[1], 3 * SIZE + SIZE // 2 - 12) + LOG[2 * SIZE :]
    file = io.BytesIO(data)
    reported = {}
    for name, kind in SCANS.items():
        search = BatchSearch(file, base_offset=0)
        parts = BatchWalk(partial(_scan, kind, file), search.resume)
        (gap,) = [part for part in parts if isinstance(part, Gap)]
        reported[name] = gap.is_reported
    assert reported == {"records": True, "batches": False, "headers": False}


@pytest.mark.parametrize("scan", SCANS)
def test_zeros_up_to_the_end_are_a_gap_with_nothing_after_it(scan):
    assert walk(LOG[:SIZE] + bytes(500), scan) == [0, (SIZE, "zeroed_tail", None)]


@pytest.mark.parametrize("scan", SCANS)
def test_a_torn_batch_at_the_end_is_a_gap_with_nothing_after_it(scan):
    gap = (SIZE, "truncated_batch", None)
    assert walk(LOG[: 2 * SIZE - 1], scan) == [0, gap]


def test_a_walk_may_stop_at_damage():
    data = LOG[:SIZE] + with_length(BATCHES[1], -1) + LOG[2 * SIZE :]
    assert walk(data, resume=stop_at_damage) == [0, (SIZE, "corrupt_batch", None)]


def test_a_dump_goes_on_where_the_length_says():
    """A batch of magic 2 that is too short for its header, and one whose length says nothing."""
    short = with_length(BATCHES[1], 20)[:32]
    data = BATCHES[0] + short + LOG[2 * SIZE : 4 * SIZE] + with_length(BATCHES[4], -1)
    assert walk(data, resume=resume_by_length(io.BytesIO(data), len(data))) == [
        0,
        (SIZE, "corrupt_batch", SIZE + 32),
        SIZE + 32,
        2 * SIZE + 32,
        (3 * SIZE + 32, "corrupt_batch", None),
    ]


def test_the_end_of_the_last_scan_is_known_afterwards():
    file = io.BytesIO(LOG)
    parts = BatchWalk(lambda start: BatchScan(file, start=start), stop_at_damage)
    assert parts.end is None
    assert len(list(parts)) == 1
    assert parts.end is not None
    assert (parts.end.position, parts.end.reason) == (len(LOG), "end_of_file")


@pytest.mark.parametrize("seed", range(60))
def test_every_batch_that_is_not_touched_is_found_by_every_scan(seed):
    drawn = random.Random(seed)
    data = bytearray(LOG)
    touched = sorted(drawn.sample(range(6), drawn.randint(1, 4)))
    for each in touched:
        place = each * SIZE + drawn.choice([8, 9, 10, 11, 16, drawn.randrange(17, SIZE)])
        data[place] ^= 1 << drawn.randrange(8)
    sound = {each * SIZE for each in range(6) if each not in touched}
    for scan in SCANS:
        assert sound <= {part for part in walk(bytes(data), scan) if isinstance(part, int)}, scan
