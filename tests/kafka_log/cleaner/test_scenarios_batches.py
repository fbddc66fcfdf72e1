"""What a batch looks like after cleaning, old magics, buffers, indexes and damage."""

import struct
import zlib

import pytest

from kafka_format.batch import RecordBatch, encode_batch
from kafka_format.compression import Codec, compress
from kafka_format.legacy import encode_legacy_batch
from kafka_format.record import Header, SimpleRecord, TimestampType
from tests.kafka_log.cleaner.stories import RETENTION, CleanedLog, Story
from tests.kafka_log.steps import Append, Nothing, UpdateConfig
from tests.kafka_log.workload import START
from tests.oracle.client import Oracle

BY_KAFKA = [Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD]  # of which we write the same bytes
OLD_CODECS = [Codec.NONE, Codec.GZIP, Codec.LZ4]


def _record(offset: int, timestamp: int, key: bytes, value: bytes | None) -> SimpleRecord:
    return SimpleRecord(timestamp, key, value, offset=offset)


# ------------------------------------------------------------------------------------ magic 2


def test_a_batch_that_is_kept_whole_is_copied_byte_for_byte(oracle: Oracle) -> None:
    """Even one of a level that nobody would compress to again."""
    records = [SimpleRecord(START, b"%d" % i, b"value " * 20) for i in range(5)]
    batch = encode_batch(records, codec=Codec.GZIP, level=1, partition_leader_epoch=0)
    (left,) = Story().append(batch).roll().clean().reported(oracle)
    assert bytes(left.batches[0].raw) == batch


@pytest.mark.parametrize("codec", BY_KAFKA)
def test_a_batch_with_a_record_less_is_compressed_again_at_the_default_level(
    oracle: Oracle, codec: Codec
) -> None:
    records = [SimpleRecord(START, b"%d" % i, b"value " * 20) for i in range(5)]
    fast = {Codec.NONE: None, Codec.GZIP: 1, Codec.LZ4: None, Codec.ZSTD: 1}[codec]
    batch = encode_batch(records, codec=codec, level=fast, partition_leader_epoch=0)
    story = Story().append(batch).write("(3) |").clean()
    (left,) = story.reported(oracle)
    placed = [each._replace(offset=i) for i, each in enumerate(records) if i != 3]
    expected = encode_batch(placed, codec=codec, partition_leader_epoch=0, last_offset=4)
    assert bytes(left.batches[0].raw) == expected


def test_offsets_sequences_epochs_and_producer_outlive_records(oracle: Oracle) -> None:
    story = Story()
    records = [SimpleRecord(START + i, b"%d" % i, b"v") for i in range(5)]
    batch = encode_batch(
        records, producer_id=9, producer_epoch=3, base_sequence=0, is_transactional=True
    )
    story.step(Append(data=batch, leader_epoch=7, origin="CLIENT"))
    marker = _marker(9, 3)
    story.step(Append(data=marker, leader_epoch=7, origin="COORDINATOR"))
    story.step(Append(data=_plain(b"0", b"4"), leader_epoch=7)).roll()
    (left,) = story.clean().reported(oracle)
    header = left.batches[0].header
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 4, 3)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (9, 3, 0)
    assert header.partition_leader_epoch == 7
    assert header.is_transactional
    assert header.last_sequence == 4
    assert [record.sequence for record in left.batches[0].records()] == [1, 2, 3]


def _plain(*keys: bytes) -> bytes:
    return encode_batch([SimpleRecord(START, key, b"v") for key in keys])


def _marker(producer_id: int, producer_epoch: int) -> bytes:
    return encode_batch(
        [SimpleRecord(START, b"\0\0\0\1", b"\0\0\0\0\0\0")],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )


def test_an_emptied_batch_is_61_bytes_with_its_times_and_sequences(oracle: Oracle) -> None:
    records = [SimpleRecord(START + 10 + i, b"%d" % i, b"v") for i in range(2)]
    batch = encode_batch(
        records, codec=Codec.GZIP, producer_id=9, producer_epoch=1, base_sequence=0
    )
    (left,) = Story().append(batch).write("(0,1) |").clean().reported(oracle)
    header = left.batches[0].header
    assert header.size_in_bytes == 61
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 1, 0)
    assert (header.base_timestamp, header.max_timestamp) == (-1, START + 11)
    assert (header.base_sequence, header.last_sequence, header.producer_epoch) == (0, 1, 1)
    assert header.attributes == 0


def test_an_empty_batch_stays_the_same_through_more_passes(oracle: Oracle) -> None:
    story = Story().write("I1(a) (a) |").clean().clean(RETENTION, checkpoint=0)
    first, second = story.reported(oracle)
    assert first.empty == second.empty == [0]
    assert bytes(first.batches[0].raw) == bytes(second.batches[0].raw)


def test_an_emptied_batch_loses_its_horizon(oracle: Oracle) -> None:
    story = Story().write("I1(a!) (b) |").clean().clean(RETENTION, checkpoint=0)
    first, second = story.reported(oracle)
    assert (first.horizons, first.empty) == ({0: RETENTION}, [])
    assert (second.horizons, second.empty) == ({}, [0])


def test_the_times_of_records_are_the_same_under_a_horizon(oracle: Oracle) -> None:
    records = [
        SimpleRecord(START + at, b"%d" % at, None if at == 10 else b"v") for at in (5, 10, 15)
    ]
    (left,) = Story().append(encode_batch(records)).write("(z) |").clean().reported(oracle)
    header = left.batches[0].header
    assert (header.delete_horizon_ms, header.base_timestamp) == (START + RETENTION,) * 2
    assert [each.timestamp - START for each in left.batches[0].records()] == [5, 10, 15]
    assert header.max_timestamp == START + 15


def test_without_horizon_the_base_time_is_that_of_the_first_record_kept(oracle: Oracle) -> None:
    records = [SimpleRecord(START + at, b"%d" % at, b"v") for at in (30, 5, 10)]
    (left,) = Story().append(encode_batch(records)).write("(30) |").clean().reported(oracle)
    header = left.batches[0].header
    assert (header.base_timestamp - START, header.max_timestamp - START) == (5, 10)


def test_a_rebuilt_batch_of_append_time_has_that_time_everywhere(oracle: Oracle) -> None:
    story = Story(message_timestamp_type="LogAppendTime")
    story.step(Nothing(), at=500).write("(a,b,c) (a) |").clean()
    (left,) = story.reported(oracle)
    header = left.batches[0].header
    assert header.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert (header.base_timestamp, header.max_timestamp) == (START + 500, START + 500)
    assert [each.timestamp for each in left.batches[0].records()] == [START + 500] * 2
    assert _timestamp_deltas(left.batches[0]) == [0, 0]


def _timestamp_deltas(batch: RecordBatch) -> list[int]:
    """As they lie there: a length of one byte, attributes, and the delta, of one byte too."""
    found, position, payload = [], 0, bytes(batch.payload)
    while position < len(payload):
        found.append(payload[position + 2] >> 1)
        position += 1 + (payload[position] >> 1)
    return found


def test_a_batch_with_gaps_keeps_its_first_and_last_offset(oracle: Oracle) -> None:
    records = [_record(offset, START, b"%d" % offset, b"v") for offset in (5, 8, 10)]
    batch = encode_batch(records, base_offset=0, last_offset=10, partition_leader_epoch=0)
    story = Story().append(batch, origin="REPLICATION").write("(5,10) |").clean()
    (left,) = story.reported(oracle)
    header = left.batches[0].header
    assert (header.base_offset, header.last_offset, header.record_count) == (0, 10, 1)
    assert left.offsets == [8, 11, 12]


def test_headers_of_records_stay_as_they_are(oracle: Oracle) -> None:
    headers = (Header("größe", None), Header("", b""), Header("trace", b"1"))
    records = [SimpleRecord(START, key, b"v", headers) for key in (b"a", b"b")]
    (left,) = Story().append(encode_batch(records)).write("(a) |").clean().reported(oracle)
    assert tuple(left.records[0].headers) == headers


def test_a_batch_of_21_records_keeps_offsets_and_sequences_after_its_tombstone_is_gone(
    oracle: Oracle,
) -> None:
    keys = [b"abcd"[i % 4 : i % 4 + 1] for i in range(21)]
    records = [
        SimpleRecord(START + i, key, None if i == 19 else b"%d" % i) for i, key in enumerate(keys)
    ]
    assert keys[16:] == [b"a", b"b", b"c", b"d", b"a"]
    batch = encode_batch(records, producer_id=5, producer_epoch=0, base_sequence=0)
    story = Story().write("(x) (x) (x) (x) (x) (x)").append(batch).write("(z) |")
    story.clean().clean(RETENTION, checkpoint=0)
    first, second = story.reported(oracle)
    kept = second.batch(6)
    assert (first.batch(6).header.record_count, kept.header.record_count) == (4, 3)
    assert (kept.header.base_offset, kept.header.last_offset) == (6, 26)
    assert [each.offset for each in kept.records()] == [23, 24, 26]
    assert [each.sequence for each in kept.records()] == [17, 18, 20]
    assert kept.header.delete_horizon_ms == kept.header.base_timestamp == START + RETENTION
    assert [each.timestamp - START for each in kept.records()] == [17, 18, 20]


# ------------------------------------------------------------------------------- magic 0 and 1


def _old(magic: int, codec: Codec = Codec.NONE, **more) -> bytes:
    """Keys k0 to k3 at offsets 10 to 13, that of 12 a tombstone."""
    records = [
        SimpleRecord(-1 if magic == 0 else 50 + i, b"k%d" % i, None if i == 2 else b"v%d" % i)
        for i in range(4)
    ]
    return encode_legacy_batch(records, magic=magic, base_offset=10, codec=codec, **more)


def _cleaned(oracle: Oracle, data: bytes, **settings) -> CleanedLog:
    """With the first record superseded in the active part; a time of 5000 and 100 of retention."""
    story = Story(delete_retention_ms=100, **settings)
    for suffix, content in (("log", data), ("index", b""), ("timeindex", b"")):
        story.file(f"{10:020d}.{suffix}", content, modified=0)
    story.arguments = {"recovery_point": 14, "log_start_offset": 10, "time": 5000}
    story.roll().write("(k0) (end) |", at=5000 - START).clean(5000 - START)
    (left,) = story.reported(oracle)
    return left


@pytest.mark.parametrize("magic", [0, 1])
def test_plain_messages_of_old_magics_become_batches_of_one_record(
    oracle: Oracle, magic: int
) -> None:
    left = _cleaned(oracle, _old(magic))
    old = left.batches[:3]
    assert {each.magic for each in left.batches} == {2}
    assert [each.header.base_offset for each in old] == [11, 12, 13]
    assert [each.header.size_in_bytes for each in old] == [72, 71, 72]
    times = [-1, -1, -1] if magic == 0 else [51, 52, 53]
    assert [each.header.max_timestamp for each in old] == times
    assert [each.header.delete_horizon_ms for each in old] == [None, 5100, None]
    for each in old:
        assert each.header.timestamp_type is TimestampType.CREATE_TIME
        assert each.header.partition_leader_epoch == each.header.producer_id == -1
        assert each.header.producer_epoch == each.header.base_sequence == -1


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", OLD_CODECS[1:])
def test_a_wrapper_of_an_old_magic_becomes_one_batch(
    oracle: Oracle, magic: int, codec: Codec
) -> None:
    left = _cleaned(oracle, _old(magic, codec))
    header = left.batches[0].header
    assert (header.base_offset, header.last_offset, header.record_count) == (11, 13, 3)
    assert header.delete_horizon_ms == 5100
    assert left.batches[0].magic == 2
    assert header.attributes & 7 == codec


def test_append_time_of_magic_1_stays_append_time(oracle: Oracle) -> None:
    kind = TimestampType.LOG_APPEND_TIME
    left = _cleaned(oracle, _old(1, timestamp_type=kind, log_append_time=1000))
    for each in left.batches[:3]:
        assert each.header.timestamp_type is kind
        assert each.header.max_timestamp == 1000


def test_old_messages_are_converted_though_nothing_is_dropped(oracle: Oracle) -> None:
    data = encode_legacy_batch([SimpleRecord(50, b"k", b"v")], magic=1, base_offset=10)
    left = _cleaned(oracle, data)
    assert (left.batches[0].magic, left.offsets[0]) == (2, 10)


def test_all_magics_in_one_log_leave_the_last_values_in_magic_2(oracle: Oracle) -> None:
    story = Story()
    for magic in (0, 1):
        for codec in OLD_CODECS:
            records = [
                SimpleRecord(-1 if magic == 0 else START, key, b"1") for key in (b"a", b"b", b"a")
            ]
            data = encode_legacy_batch(records, magic=magic, codec=codec)
            story.step(Append(data=data, leader_epoch=0, record_version=magic))
    story.write("(c) |").clean()
    (left,) = story.reported(oracle)
    assert {each.magic for each in left.batches} == {2}
    assert (left.keys, left.offsets) == ("b a c", [16, 17, 18])


def _kafka_4298(*keys: bytes) -> bytes:
    """A wrapper of magic 1 around messages of magic 0."""
    inner = b""
    for offset, key in enumerate(keys):
        message = struct.pack(">bbi", 0, 0, len(key)) + key + struct.pack(">i", 1) + b"v"
        inner += struct.pack(">qiI", offset, 4 + len(message), zlib.crc32(message)) + message
    value = compress(Codec.GZIP, inner, magic=1)
    message = struct.pack(">bbqii", 1, Codec.GZIP, 77, -1, len(value)) + value
    return struct.pack(">qiI", 9 + len(keys), 4 + len(message), zlib.crc32(message)) + message


@pytest.mark.parametrize(
    ("keys", "offsets"), [((b"k0", b"a", b"a", b"b"), [12, 13]), ((b"x", b"y"), [10, 11])]
)
def test_a_wrapper_of_magic_1_around_magic_0_becomes_one_batch(
    oracle: Oracle, keys: tuple[bytes, ...], offsets: list[int]
) -> None:
    data = _kafka_4298(*keys)
    if len(keys) < 4:
        data += encode_legacy_batch([SimpleRecord(1, b"e", b"")] * 2, magic=1, base_offset=12)
    left = _cleaned(oracle, data)
    first = left.batches[0]
    assert (first.magic, [each.offset for each in first.records()]) == (2, offsets)


def test_a_round_that_would_empty_an_old_last_batch_makes_the_log_uncleanable(
    oracle: Oracle,
) -> None:
    data = encode_legacy_batch([SimpleRecord(50, None, b"v")], magic=1)
    story = Story(cleanup_policy="delete")
    for suffix, content in (("log", data), ("index", b""), ("timeindex", b"")):
        story.file(f"{0:020d}.{suffix}", content)
    story.arguments = {"recovery_point": 1}
    (left,) = story.roll().clean().reported(oracle)
    assert "IllegalStateException" in str(left.done["error"])


@pytest.mark.parametrize(("modified", "stays"), [(-1, False), (0, False), (1, True)])
def test_an_old_tombstone_goes_by_the_time_of_its_file(
    oracle: Oracle, modified: int, *, stays: bool
) -> None:
    """Horizon: the time of the last clean segment's file less the retention, here 0."""
    story = Story()
    for base, key, value, time in ((0, b"a", None, modified), (1, b"b", b"1", RETENTION)):
        data = encode_legacy_batch([SimpleRecord(1, key, value)], magic=1, base_offset=base)
        story.file(f"{base:020d}.log", data, modified=time)
        story.file(f"{base:020d}.index", b"").file(f"{base:020d}.timeindex", b"")
    story.arguments = {"recovery_point": 2}
    (left,) = story.roll().write("(c) |").clean(checkpoint=2).reported(oracle)
    assert left.keys == ("a! b c" if stays else "b c")


# ----------------------------------------------------------------------------------- buffers


def test_a_batch_larger_than_the_buffer_makes_it_grow(oracle: Oracle) -> None:
    story = Story().write("(a,b)", value=b"x" * 60_000).write("(a) (c) |", value=b"y" * 40_000)
    (left,) = story.clean(io_buffer_size=200).reported(oracle)
    assert left.keys == "b a c"


def test_a_batch_larger_than_the_topic_now_allows_is_cleaned_still(oracle: Oracle) -> None:
    story = Story().write("(a,b)", value=b"x" * 5000).write("(a) (c) |", value=b"y" * 4000)
    smaller = story.config | {"max.message.bytes": 300}
    story.step(UpdateConfig(smaller))
    (left,) = story.clean(io_buffer_size=200, message_max_bytes=300).reported(oracle)
    assert left.keys == "b a c"


@pytest.mark.parametrize("io_buffer_size", [200, 700, 10**6])
def test_dropped_batches_alone_in_a_buffer_do_not_stop_the_cleaner(
    oracle: Oracle, io_buffer_size: int
) -> None:
    story = Story().write("T1(1) A1 T1(2) T1(2) C1 |")
    story.clean(io_buffer_size=io_buffer_size).clean(checkpoint=0, io_buffer_size=io_buffer_size)
    story.clean(RETENTION, checkpoint=0, io_buffer_size=io_buffer_size)
    assert [left.offsets for left in story.reported(oracle)] == [[1, 3, 4], [1, 3, 4], [3, 4]]


def test_output_that_outgrows_the_buffer_is_written_in_parts(oracle: Oracle) -> None:
    """Tombstones grow by their horizon: what is written is more than what was read."""
    story = Story().write("(a!) (b!) (c!) (d!) (e!) (f!) (g!) (h!) |").clean(io_buffer_size=284)
    (left,) = story.reported(oracle)
    assert left.keys == "a! b! c! d! e! f! g! h!"
    assert left.stats["bytes_written"] > left.stats["bytes_read"] == 8 * 69


# ----------------------------------------------------------------------------------- indexes


@pytest.mark.parametrize("interval", [0, 100, 10**6])
def test_indexes_do_not_depend_on_the_buffer(oracle: Oracle, interval: int) -> None:
    found = []
    for io_buffer_size in (200, 1000, 10**6):
        story = Story(index_interval_bytes=interval).write("(a) (b) (a) | (c) (d) (b) | (e) (c) |")
        (left,) = story.clean(io_buffer_size=io_buffer_size).reported(oracle)
        found.append({name: left.files[f"{0:020d}.{name}"] for name in ("index", "timeindex")})
    assert found[0] == found[1] == found[2]
    # Five batches of 70 bytes; the first never has an entry. All records have one time.
    assert found[0] == {"index": {0: 32, 100: 16, 10**6: 0}[interval], "timeindex": 12}


def test_an_index_entry_is_the_last_offset_of_a_batch_and_where_that_begins(
    oracle: Oracle,
) -> None:
    story = Story(index_interval_bytes=0).write("(a,x) (b,y) (a,y) |").clean()
    (left,) = story.reported(oracle)
    sizes = [each.header.size_in_bytes for each in left.batches]
    assert left.lasts == [1, 3, 5]
    assert left.files[f"{0:020d}.index"] == 16
    assert sizes == [70, 70, 79]


# ------------------------------------------------------------------------------------ damage


def _damaged(change, size: int = 3000) -> Story:
    """Two batches, the second of which is changed; nothing is recovered on opening."""
    first = encode_batch([SimpleRecord(START, b"a", b"1")], partition_leader_epoch=0)
    second = encode_batch(
        [SimpleRecord(START, b"a", b"x" * size, offset=1)],
        base_offset=1,
        partition_leader_epoch=0,
    )
    story = Story()
    for suffix, content in (("log", first + change(second)), ("index", b""), ("timeindex", b"")):
        story.file(f"{0:020d}.{suffix}", content)
    story.file(f"{2:020d}.log", b"")
    story.arguments = {"recovery_point": 2}
    return story


def test_a_batch_of_an_unknown_magic_stops_the_cleaner(oracle: Oracle) -> None:
    story = _damaged(lambda batch: batch[:16] + b"\x09" + batch[17:])
    (left,) = story.clean(io_buffer_size=1000).reported(oracle)
    assert "error" in left.done
    assert left.segments == [0, 2]


def test_a_batch_larger_than_what_is_left_of_the_file_stops_the_cleaner(oracle: Oracle) -> None:
    story = _damaged(lambda batch: batch[:-10])
    (left,) = story.clean(io_buffer_size=1000).reported(oracle)
    assert "error" in left.done
    assert left.offsets[:1] == [0]


def test_a_wrong_checksum_alone_goes_unnoticed_as_in_kafka(oracle: Oracle) -> None:
    """The cleaner does not compute it: whoever reads is reported, not whoever cleans."""
    story = _damaged(lambda batch: batch[:17] + bytes(4) + batch[21:], size=30)
    (left,) = story.clean().reported(oracle)
    assert "error" not in left.done
    assert left.offsets == [1]
