"""The first record of a time in a batch, and what of it is found before damage."""

import pytest

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.errors import FormatError
from kafka_format.record import SimpleRecord
from kafka_log.segment.record_search import Match, at_or_after, exactly_at, search_batch

TIMES = [1000, 3000, 2000, 3000]


def batch(codec=Codec.NONE):
    records = [SimpleRecord(time, b"k", b"v" * 9) for time in TIMES]
    return encode_batch(records, base_offset=10, codec=codec)


@pytest.mark.parametrize("codec", Codec)
def test_the_first_record_of_this_time_or_later_from_an_offset_on(codec):
    raw = batch(codec)
    assert search_batch(raw, at_or_after(2000, 0), streams=False) == Match(3000, 11)
    assert search_batch(raw, at_or_after(2000, 12), streams=False) == Match(2000, 12)
    assert search_batch(raw, at_or_after(3001, 0), streams=False) is None


def test_the_first_record_of_this_very_time():
    assert search_batch(batch(), exactly_at(2000), streams=True) == Match(2000, 12)
    assert search_batch(batch(), exactly_at(2001), streams=True) is None


def test_a_record_before_damage_is_found_and_one_behind_it_is_not():
    raw = bytearray(batch())
    raw[-11] = 0x7F  # the length of the last value
    assert search_batch(bytes(raw), at_or_after(2500, 0), streams=False) == Match(3000, 11)
    with pytest.raises(FormatError):
        search_batch(bytes(raw), at_or_after(2500, 12), streams=False)
