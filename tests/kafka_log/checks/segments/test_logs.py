"""Every cut and every flipped bit of a log: the check ends, and finds what can be found."""

import io

from kafka_format.batch import encode_batch
from kafka_format.record import SimpleRecord
from kafka_log.checks.finding import About, Finding
from kafka_log.checks.segments.logs import check_log
from tests.kafka_format.damage import flips

ABOUT = About("some-0/file", "some", 0)
TIME = 1_700_000_000_000
LOG = b"".join(
    encode_batch([SimpleRecord(TIME, b"k", b"v")], base_offset=offset)
    for offset in (1 << 56, (1 << 56) + 1)  # so that no byte of a batch may be one of a zeroed tail
)
BATCH = 70
OUTSIDE_THE_CHECKSUM = {*range(8), *range(12, 17)}
"""Base offset, leader epoch and magic; a length is checked by what follows."""


def log_findings(data: bytes) -> list[Finding]:
    return list(check_log(io.BytesIO(data), ABOUT))


def test_a_sound_log_has_no_finding():
    assert log_findings(LOG) == []


def test_a_cut_log_is_torn_where_its_last_batch_begins():
    for end in range(len(LOG)):
        found = [(each.id, each.position) for each in log_findings(LOG[:end])]
        assert found == ([("LOG004", end // BATCH * BATCH)] if end % BATCH else [])


def test_every_flipped_bit_below_the_checksum_is_found_in_its_batch():
    for bit, data in flips(LOG):
        position = bit // 8
        found = log_findings(data)
        if position % BATCH not in OUTSIDE_THE_CHECKSUM:
            assert found, position
            begin = position // BATCH * BATCH
            assert begin <= (found[0].position or 0) < begin + BATCH
