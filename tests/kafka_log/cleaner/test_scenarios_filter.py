"""Four batches of which some records go, or some batches whole, in every magic and codec.

offset     0    1  2    3  4  5    6
batch     (1)  (2  3)  (4  5  6)  (7)
time       10   11 12   13 20 15   16
"""

import pytest

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.legacy import encode_legacy_batch
from kafka_format.record import SimpleRecord
from tests.kafka_log.cleaner.stories import CleanedLog, Story
from tests.kafka_log.workload import START
from tests.oracle.client import Oracle

BATCHES = ((10,), (11, 12), (13, 20, 15), (16,))
WAYS = [
    *((2, codec) for codec in (Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD)),
    *((magic, codec) for magic in (0, 1) for codec in (Codec.NONE, Codec.GZIP, Codec.LZ4)),
]


def _form(magic: int, codec: Codec) -> str:
    """A message of an old magic that is not in a wrapper is alone in its batch."""
    return "batches" if magic == 2 or codec is not Codec.NONE else "messages"


def four_batches(
    magic: int,
    codec: Codec,
    without_key: tuple[int, ...] = (),
    tombstones: tuple[int, ...] = (),
) -> Story:
    """The four batches in a segment; keys are b"1" to b"7"."""
    data, offset = b"", 0
    for times in BATCHES:
        records = [
            SimpleRecord(
                START + time if magic else -1,
                None if offset + i in without_key else b"%d" % (offset + i + 1),
                None if offset + i in tombstones else b"value",
                offset=offset + i,
            )
            for i, time in enumerate(times)
        ]
        if magic == 2:
            data += encode_batch(records, base_offset=offset, codec=codec, partition_leader_epoch=0)
        else:
            data += encode_legacy_batch(records, magic=magic, base_offset=offset, codec=codec)
        offset += len(times)
    story = Story()
    for suffix, content in (("log", data), ("index", b""), ("timeindex", b"")):
        story.file(f"{0:020d}.{suffix}", content, modified=0)
    story.arguments = {"recovery_point": 7}
    return story.roll()


def _old(left: CleanedLog) -> list[tuple[int, int]]:
    """First and last offset of what is left of the four."""
    headers = [each.header for each in left.batches]
    return [(each.base_offset, each.last_offset) for each in headers if each.last_offset < 7]


@pytest.mark.parametrize(("magic", "codec"), WAYS)
def test_of_batches_some_are_discarded_whole_and_the_others_stay_as_they_are(
    oracle: Oracle, magic: int, codec: Codec
) -> None:
    form = _form(magic, codec)
    again = {"batches": "(2,3,7,end)", "messages": "(3,7,end)"}[form]
    (left,) = four_batches(magic, codec).write(f"{again} |").clean().reported(oracle)
    assert {each.magic for each in left.batches} == {2}
    assert (
        _old(left)
        == {
            "batches": [(0, 0), (3, 5)],
            "messages": [(0, 0), (1, 1), (3, 3), (4, 4), (5, 5)],
        }[form]
    )


@pytest.mark.parametrize(("magic", "codec"), WAYS)
def test_of_seven_records_the_four_that_stay_keep_their_batches_offsets_and_times(
    oracle: Oracle, magic: int, codec: Codec
) -> None:
    """Those without a key go: the first batch whole, of the others some records."""
    form = _form(magic, codec)
    (left,) = four_batches(magic, codec, without_key=(0, 2, 3)).clean().reported(oracle)
    assert (left.stats["messages_read"], left.stats["messages_written"]) == (7, 4)
    assert left.stats["invalid_messages_read"] == 3
    assert left.offsets == [1, 4, 5, 6]
    assert {each.magic for each in left.batches} == {2}
    if form == "messages":
        expected = [(1, 1), (4, 4), (5, 5), (6, 6)]
    else:  # an old batch forgets where it began and ended
        expected = [(1, 2), (3, 5), (6, 6)] if magic == 2 else [(1, 1), (4, 5), (6, 6)]
    assert _old(left) == expected
    largest = [11, 20, 15, 16] if form == "messages" else [11, 20, 16]
    times = [each.header.max_timestamp for each in left.batches]
    assert times == ([START + each for each in largest] if magic else [-1] * len(largest))
