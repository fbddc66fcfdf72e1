"""A `.log` and the walks over it where it is not what it should be; more in test_log_segment."""

from pathlib import Path

import pytest

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.errors import CorruptError, FormatError, TruncatedError
from kafka_format.legacy import encode_legacy_batch
from kafka_format.record import SimpleRecord
from kafka_log.disk.files import DiskFiles
from kafka_log.errors import IllegalArgumentError, LogError
from kafka_log.log.fetch_data import LogOffsetMetadata
from kafka_log.segment.file_records import FileRecords, LogOffsetPosition, TimestampAndOffset

NAME = "00000000000000000000.log"
BATCH = encode_batch([SimpleRecord(5, None, b"")])  # 68 bytes


def records_of(tmp_path: Path, data: bytes) -> FileRecords:
    (tmp_path / NAME).write_bytes(data)
    return FileRecords(DiskFiles(tmp_path), NAME, file_already_exists=True)


def test_a_file_beyond_two_gibibytes_is_no_segment(tmp_path: Path) -> None:
    DiskFiles(tmp_path).open(NAME, create=True).truncate(2**31)
    with pytest.raises(LogError, match="found 2147483648 bytes, expected 2147483647 at most"):
        FileRecords(DiskFiles(tmp_path), NAME)


def test_a_file_takes_no_more_than_two_gibibytes(tmp_path: Path) -> None:
    DiskFiles(tmp_path).open(NAME, create=True).truncate(2**31 - 60)
    records = FileRecords(DiskFiles(tmp_path), NAME)
    with pytest.raises(IllegalArgumentError, match="expected room for 68 more"):
        records.append(BATCH)


def test_reads_end_where_a_preallocated_file_ends_to_count(tmp_path: Path) -> None:
    records = FileRecords(DiskFiles(tmp_path), NAME, init_file_size=500, preallocate=True)
    records.append(BATCH)
    assert (records.size, records.file.size) == (68, 500)
    assert records.read_at(60, 100) == BATCH[60:]
    assert records.read_at(70, 100) == b""
    target = bytearray(100)
    assert records.readinto_at(60, memoryview(target)) == 8
    assert repr(records) == f"FileRecords({tmp_path / NAME}, 68 of 500 bytes)"


def test_a_file_that_becomes_shorter_while_it_is_read_is_an_error(tmp_path: Path) -> None:
    records = records_of(tmp_path, BATCH * 2)
    (tmp_path / NAME).write_bytes(BATCH[:10])
    with pytest.raises(TruncatedError, match=r"@0: found 10 bytes, expected a batch header"):
        list(records.batches())
    with pytest.raises(TruncatedError, match=r"@0: found 10 bytes, expected 68"):
        records.slice(0, 68).read()
    (tmp_path / NAME).write_bytes(BATCH[:20])
    with pytest.raises(TruncatedError, match=r"@0: found 20 bytes, expected 61"):
        [batch.last_offset for batch in records.batches()]


def test_no_more_is_cut_than_there_is(tmp_path: Path) -> None:
    records = records_of(tmp_path, BATCH)
    with pytest.raises(LogError, match="found 68 bytes, expected 69 to keep"):
        records.truncate_to(69)
    assert records.truncate_to(68) == 0
    assert records.truncate_to(8) == 60


@pytest.mark.parametrize("extra", [1, 17])
def test_a_few_bytes_at_the_end_end_the_walk_silently(tmp_path: Path, extra: int) -> None:
    records = records_of(tmp_path, BATCH + bytes(extra))
    assert [batch.position for batch in records.batches()] == [0]


def test_a_length_too_small_for_any_message_is_corrupt_where_it_lies(tmp_path: Path) -> None:
    records = records_of(tmp_path, BATCH + bytes(18))
    walk = records.batches()
    assert next(walk).position == 0
    with pytest.raises(CorruptError, match=r"@68: found batch length 0, expected 14 or more"):
        next(walk)


def test_a_batch_longer_than_the_rest_ends_the_walk_silently(tmp_path: Path) -> None:
    records = records_of(tmp_path, BATCH + BATCH[:-1])
    assert [repr(batch) for batch in records.batches()] == [
        f"FileBatch({tmp_path / NAME}@0, magic 2, 68 bytes)"
    ]


def test_the_first_offset_of_a_compressed_message_is_inside(tmp_path: Path) -> None:
    three = [SimpleRecord(7, None, b"x"), SimpleRecord(9, None, b"y"), SimpleRecord(8, None, b"z")]
    data = encode_legacy_batch(three, magic=1, base_offset=40, codec=Codec.GZIP)
    records = records_of(tmp_path, data)
    (batch,) = records.batches()
    assert (batch.base_offset, batch.last_offset, batch.next_offset) == (40, 42, 43)
    assert (batch.max_timestamp, batch.partition_leader_epoch) == (9, -1)
    assert records.search_for_offset_from_position(41, 0) == LogOffsetPosition(40, 0, len(data))
    assert records.search_for_timestamp(8, 0, 0) == TimestampAndOffset(9, 41, None)


def test_records_that_do_not_decode_are_no_answer_to_a_time(tmp_path: Path) -> None:
    damaged = bytearray(BATCH + BATCH)
    damaged[68 + 61] = 0x7F  # the length of the record
    records = records_of(tmp_path, bytes(damaged))
    with pytest.raises(FormatError, match=rf"{NAME}@1\d\d: "):
        records.search_for_timestamp(5, 68, 0)
    assert records.search_for_timestamp(5, 0, 0) == TimestampAndOffset(5, 0, None)


def test_damage_behind_the_record_of_a_time_is_not_met_unless_compressed(tmp_path: Path) -> None:
    """DefaultRecordBatch.iterator reads plain records one by one, compressed ones all at once."""
    two = [SimpleRecord(5, None, b""), SimpleRecord(6, None, b"")]
    data = bytearray(encode_batch(two))
    data[61 + 7] = 0x7F  # the length of the second record
    assert records_of(tmp_path, bytes(data)).search_for_timestamp(5, 0, 0) == (5, 0, None)
    with pytest.raises(FormatError):
        records_of(tmp_path, bytes(data)).search_for_timestamp(6, 0, 0)
    packed = bytearray(encode_batch(two, codec=Codec.GZIP))
    packed[-8] ^= 1  # the checksum of the stream
    with pytest.raises(FormatError):
        records_of(tmp_path, bytes(packed)).search_for_timestamp(5, 0, 0)


def test_a_batch_too_short_for_its_header_is_no_answer_to_a_time(tmp_path: Path) -> None:
    short = bytearray(BATCH + BATCH)
    short[8:12] = (30).to_bytes(4, "big")
    with pytest.raises(CorruptError, match=rf"{NAME}@0: found batch length 30"):
        records_of(tmp_path, bytes(short)).search_for_timestamp(5, 0, 0)


def test_a_closed_file_may_be_closed_again(tmp_path: Path) -> None:
    records = records_of(tmp_path, BATCH)
    records.close()
    records.close()
    assert not records.is_open
    assert records.delete_if_exists()
    assert not records.delete_if_exists()


def test_places_are_compared_only_where_both_are_known() -> None:
    low, high, unknown = (
        LogOffsetMetadata(1, 0, 0),
        LogOffsetMetadata(9, 5, 0),
        LogOffsetMetadata(9),
    )
    assert unknown.message_offset_only
    assert not low.message_offset_only
    assert low.on_older_segment(high)
    assert not high.on_older_segment(low)
    assert not low.on_older_segment(unknown)
    assert low.on_same_segment(low)
    assert not low.on_same_segment(high)
    assert not unknown.on_same_segment(unknown)
