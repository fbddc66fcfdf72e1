"""What a leader makes of an append, stated as facts; test_validation_oracle.py asks Kafka."""

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafka_format.batch import HEADER_SIZE, BatchHeader, assemble, encode_batch
from kafka_format.compression import Codec, compress, decompress
from kafka_format.legacy import encode_legacy_batch
from kafka_format.record import SimpleRecord
from kafka_log.appends.batches import DefaultBatch
from kafka_log.appends.columns import decode_columns
from kafka_log.appends.origin import AppendOptions, AppendOrigin
from kafka_log.appends.scan import scan_batches
from kafka_log.appends.validation import (
    LogAppendInfo,
    TargetCompression,
    ValidationResult,
    analyze_and_validate_records,
    check_batch_sizes,
    target_compression,
    trim_invalid_bytes,
    validate_messages_and_assign_offsets,
    validate_produce_records,
)
from kafka_log.config.log_config import LogConfig
from kafka_log.errors import (
    CorruptMessageError,
    InvalidRecordError,
    InvalidTimestampError,
    LogError,
    OffsetsOutOfOrderError,
    RecordTooLargeError,
    UnknownServerError,
    UnsupportedCompressionTypeError,
)
from tests.kafka_log.append_cases import draw_case

NOW = 1_700_000_000_000
RECORDS = [SimpleRecord(NOW - 5, b"a", b"1"), SimpleRecord(NOW - 7, None, b"2")]


FROM_CLIENT = AppendOptions(AppendOrigin.CLIENT, leader_epoch=4)
FROM_COORDINATOR = FROM_CLIENT._replace(origin=AppendOrigin.COORDINATOR)


def analyze(
    data: bytes | bytearray, options: AppendOptions = FROM_CLIENT, config: LogConfig | None = None
) -> LogAppendInfo:
    return analyze_and_validate_records(data, options, config or LogConfig())


def validate(
    data: bytes,
    config: LogConfig | None = None,
    options: AppendOptions = FROM_CLIENT,
    *,
    compiled: bool | None = None,
) -> ValidationResult:
    config = config or LogConfig()
    info = analyze(data, options, config)
    return validate_messages_and_assign_offsets(
        trim_invalid_bytes(data, info),
        options,
        config,
        offset=100,
        now_ms=NOW,
        source_compression=info.source_compression,
        compiled=compiled,
    )


# --- in place -------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", list(Codec))
def test_a_sound_batch_gets_offset_and_epoch_and_keeps_all_else(codec: Codec) -> None:
    data = encode_batch(RECORDS, codec=codec)
    result = validate(data)
    header = BatchHeader.unpack(data)
    stamped = header._replace(base_offset=100, partition_leader_epoch=4)
    assert result.validated_records == stamped.pack() + data[HEADER_SIZE:]
    assert (result.next_offset, result.max_timestamp_ms) == (102, NOW - 5)
    assert not result.message_size_maybe_changed


def test_log_append_time_relabels_the_batch_and_leaves_the_records() -> None:
    data = encode_batch(RECORDS)
    result = validate(data, LogConfig(message_timestamp_type="LogAppendTime"))
    expected = BatchHeader.unpack(data)._replace(
        base_offset=100, partition_leader_epoch=4, attributes=8, max_timestamp=NOW
    )
    assert result.validated_records == assemble(expected, data[HEADER_SIZE:])
    assert result.max_timestamp_ms == NOW


def test_a_wrong_largest_timestamp_is_put_right() -> None:
    data = encode_batch(RECORDS)
    wrong = assemble(BatchHeader.unpack(data)._replace(max_timestamp=5), data[HEADER_SIZE:])
    assert validate(wrong).validated_records == validate(data).validated_records


def test_unknown_attributes_live_as_long_as_the_timestamp_is_right() -> None:
    data = encode_batch(RECORDS)
    odd = BatchHeader.unpack(data)._replace(attributes=0x280)
    kept = validate(assemble(odd, data[HEADER_SIZE:])).validated_records
    assert BatchHeader.unpack(kept).attributes == 0x280
    wrong = assemble(odd._replace(max_timestamp=5), data[HEADER_SIZE:])
    assert BatchHeader.unpack(validate(wrong).validated_records).attributes == 0


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_buffer_will_do_and_is_not_written_to(kind: Any) -> None:
    data = encode_batch(RECORDS)
    given_bytes: Any = kind(bytearray(data)) if kind is memoryview else kind(data)
    result = validate(given_bytes, LogConfig(message_timestamp_type="LogAppendTime"))
    assert bytes(given_bytes) == data
    assert isinstance(result.validated_records, bytes)


# --- written anew ---------------------------------------------------------------------------------


def test_another_codec_compresses_the_same_records() -> None:
    result = validate(encode_batch(RECORDS), LogConfig(compression_type="zstd"))
    header = BatchHeader.unpack(result.validated_records)
    plain = encode_batch(RECORDS)[HEADER_SIZE:]
    assert header.codec is Codec.ZSTD
    assert decompress(Codec.ZSTD, result.validated_records[HEADER_SIZE:]) == plain
    assert result.message_size_maybe_changed
    assert result.record_validation_stats.num_records_converted == 2


def test_old_messages_become_one_batch_of_magic_2() -> None:
    data = encode_legacy_batch(RECORDS, magic=1, codec=Codec.GZIP)
    expected = encode_batch(RECORDS, base_offset=100, codec=Codec.GZIP, partition_leader_epoch=4)
    assert validate(data).validated_records == expected


def test_old_messages_without_a_wrapper_become_one_batch_too() -> None:
    data = encode_legacy_batch(RECORDS, magic=0)
    timeless = [record._replace(timestamp=-1) for record in RECORDS]
    expected = encode_batch(timeless, base_offset=100, partition_leader_epoch=4)
    assert validate(data).validated_records == expected


def test_what_is_rebuilt_may_have_become_too_large() -> None:
    data = encode_batch([SimpleRecord(NOW, b"k", bytes(500))], codec=Codec.GZIP)
    config = LogConfig(compression_type="uncompressed", max_message_bytes=200)
    result = validate(data, config)
    with pytest.raises(RecordTooLargeError, match=r"571 bytes.*200"):
        check_batch_sizes(result.validated_records, config)


def test_the_topic_chooses_codec_and_level_or_leaves_it_to_the_producer() -> None:
    config = LogConfig(compression_type="gzip", compression_gzip_level=9)
    assert target_compression(config, Codec.LZ4) == TargetCompression(Codec.GZIP, 9)
    assert target_compression(LogConfig(), Codec.LZ4) == TargetCompression(Codec.LZ4)
    config = LogConfig(compression_type="uncompressed")
    assert target_compression(config, Codec.LZ4) == TargetCompression(Codec.NONE)


# --- refused --------------------------------------------------------------------------------------


def test_one_bad_timestamp_rules_and_every_bad_record_is_named() -> None:
    records = [
        SimpleRecord(NOW, None, b"no key"),
        SimpleRecord(NOW, b"k", b"fine"),
        SimpleRecord(NOW + 3_600_001, b"k", b"from the future"),
    ]
    with pytest.raises(InvalidTimestampError) as refused:
        validate(encode_batch(records), LogConfig(cleanup_policy=frozenset({"compact"})))
    assert [error.batch_index for error in refused.value.record_errors] == [0, 2]
    assert refused.value.code == 32


@pytest.mark.parametrize("compiled", [False, True])
def test_the_bounds_of_timestamps_are_inclusive(compiled: bool) -> None:
    config = LogConfig(message_timestamp_before_max_ms=10, message_timestamp_after_max_ms=20)
    within = [SimpleRecord(NOW - 10, b"", b""), SimpleRecord(NOW + 20, b"", b"")]
    validate(encode_batch(within), config, compiled=compiled)
    beyond = [within[0], SimpleRecord(NOW + 21, b"", b""), SimpleRecord(NOW - 11, b"", b"")]
    with pytest.raises(InvalidTimestampError) as refused:
        validate(encode_batch(beyond), config, compiled=compiled)
    assert [error.batch_index for error in refused.value.record_errors] == [1, 2]


def test_an_empty_key_is_a_key() -> None:
    config = LogConfig(cleanup_policy=frozenset({"compact"}))
    validate(encode_batch([SimpleRecord(NOW, b"", b"")]), config)
    with pytest.raises(InvalidRecordError) as refused:
        validate(encode_batch([SimpleRecord(NOW, None, b"")]), config)
    assert [error.batch_index for error in refused.value.record_errors] == [0]


def test_an_unreadable_batch_names_no_records() -> None:
    data = encode_batch([SimpleRecord(NOW + 9_999_999, b"k", b"v")])
    broken = assemble(BatchHeader.unpack(data), data[HEADER_SIZE:] + b"\0")
    with pytest.raises(InvalidRecordError) as refused:
        validate(broken)
    assert refused.value.record_errors == ()


def test_only_coordinators_and_leaders_write_control_batches() -> None:
    marker = encode_batch(
        [SimpleRecord(NOW, b"\0\0\0\1", bytes(6))],
        is_control=True,
        is_transactional=True,
        producer_id=9,
        producer_epoch=0,
    )
    with pytest.raises(InvalidRecordError, match="control"):
        validate(marker)
    kept = validate(marker, LogConfig(compression_type="lz4"), FROM_COORDINATOR)
    assert BatchHeader.unpack(kept.validated_records).codec is Codec.NONE


def test_kafka_keeps_a_compressed_batch_whose_records_lie_about_their_length() -> None:
    """It skips through such a batch, and never compares a record with the length it says."""
    data = encode_batch([SimpleRecord(NOW, b"k", b"v")], codec=Codec.LZ4)
    plain = bytearray(decompress(Codec.LZ4, data[HEADER_SIZE:]))
    plain[0] += 2
    lying = assemble(BatchHeader.unpack(data), compress(Codec.LZ4, plain))
    assert validate(lying).next_offset == 101
    with pytest.raises(InvalidRecordError):
        validate(lying, LogConfig(compression_type="zstd"))


def test_kafka_fails_on_a_compressed_batch_with_a_gap_in_its_offsets() -> None:
    """Meant to be kept, to be rebuilt after all, but keys and values were skipped."""
    gap = [SimpleRecord(NOW, b"k", b"v", offset=0), SimpleRecord(NOW, b"k", b"v", offset=2)]
    data = encode_batch(gap, codec=Codec.LZ4)
    with pytest.raises(UnknownServerError):
        validate(data, options=FROM_COORDINATOR)


# --- analysis -------------------------------------------------------------------------------------


def test_what_follows_the_last_whole_batch_is_trimmed() -> None:
    data = encode_batch(RECORDS)
    info = analyze(data + data[:30])
    assert info.valid_bytes == len(data)
    assert bytes(trim_invalid_bytes(data + data[:30], info)) == data


def test_a_batch_is_too_large_by_its_bytes_before_its_checksum_is_looked_at() -> None:
    data = bytearray(encode_batch(RECORDS))
    data[-1] ^= 1
    with pytest.raises(RecordTooLargeError):
        analyze(data, config=LogConfig(max_message_bytes=len(data) - 1))
    with pytest.raises(CorruptMessageError):
        analyze(data, config=LogConfig(max_message_bytes=len(data)))


def follow(epochs: list[int], *, offsets: list[int], leader_epoch: int) -> LogAppendInfo:
    data = b"".join(
        encode_batch(RECORDS, base_offset=offset, partition_leader_epoch=epoch)
        for epoch, offset in zip(epochs, offsets, strict=True)
    )
    options = AppendOptions(
        AppendOrigin.REPLICATION, leader_epoch, assigns_offsets=False, ignores_record_size=True
    )
    return analyze(data, options)


def test_a_follower_leaves_what_a_newer_leader_wrote() -> None:
    size = len(encode_batch(RECORDS))
    info = follow([3, 4, 5, 4], offsets=[10, 12, 14, 16], leader_epoch=4)
    assert (info.valid_bytes, info.last_offset, info.last_leader_epoch) == (2 * size, 13, 4)
    assert (info.first_offset, info.last_offset_of_first_batch) == (10, 11)


def test_a_follower_refuses_offsets_that_go_back() -> None:
    with pytest.raises(OffsetsOutOfOrderError, match="10, 11, 10, 11"):
        follow([4, 4], offsets=[10, 10], leader_epoch=4)


def test_a_produce_request_holds_one_batch_of_magic_2() -> None:
    data = encode_batch(RECORDS)
    validate_produce_records(data, version=3)
    for wrong in (b"", data + data, encode_legacy_batch(RECORDS, magic=1)):
        with pytest.raises(InvalidRecordError):
            validate_produce_records(wrong, version=12)


def test_zstd_came_with_version_7_of_the_produce_request() -> None:
    data = encode_batch(RECORDS, codec=Codec.ZSTD)
    validate_produce_records(data, version=7)
    with pytest.raises(UnsupportedCompressionTypeError):
        validate_produce_records(data, version=6)


# --- whatever comes -------------------------------------------------------------------------------


@given(seed=st.integers(0, 5000), flips=st.lists(st.integers(0, 10**6), max_size=4))
def test_any_bytes_are_validated_or_refused(seed: int, flips: list[int]) -> None:
    case = draw_case(seed)
    data = bytearray(case.data)
    for flip in flips:
        data[flip // 8 % len(data)] ^= 1 << flip % 8
    options = FROM_CLIENT._replace(origin=AppendOrigin[case.origin])
    for to_magic in (0, 1, 2):
        try:
            result = validate(bytes(data), options=options._replace(magic=to_magic))
        except LogError:
            continue
        assert result.next_offset >= 100


def test_a_small_append_loads_neither_numpy_nor_numba() -> None:
    program = """
import sys
from kafka_format.batch import encode_batch
from kafka_format.record import SimpleRecord
from kafka_log.appends import validation
from kafka_log.config.log_config import LogConfig
data = encode_batch([SimpleRecord(5, b"k", b"v")])
options = validation.AppendOptions(validation.AppendOrigin.CLIENT, leader_epoch=0)
config = LogConfig()
info = validation.analyze_and_validate_records(data, options, config)
result = validation.validate_messages_and_assign_offsets(
    data, options, config, offset=7, now_ms=5, source_compression=info.source_compression
)
assert result.next_offset == 8
assert not {"numba", "numpy"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True)


# --- short cuts are taken -------------------------------------------------------------------------


def test_sound_batches_of_a_fetch_are_analysed_at_once_and_odd_ones_are_not() -> None:
    sound = b"".join(
        encode_batch(RECORDS, base_offset=offset, partition_leader_epoch=offset // 10, codec=codec)
        for offset, codec in ((10, Codec.NONE), (12, Codec.LZ4), (20, Codec.NONE))
    )
    found = scan_batches(sound)
    assert found is not None
    assert (found.first_offset, found.last_offset_of_first_batch, found.last_offset) == (10, 11, 21)
    assert (found.lowest_leader_epoch, found.highest_leader_epoch) == (1, 2)
    assert found.source_compression is Codec.LZ4
    for odd in (sound + sound, sound[:-1], sound[:-1] + b"?", sound + bytes(40)):
        assert scan_batches(odd) is None


@pytest.mark.parametrize("codec", list(Codec))
def test_records_that_would_be_written_alike_are_not_written_anew(codec: Codec) -> None:
    data = encode_batch(RECORDS, codec=codec)
    columns = decode_columns(DefaultBatch(memoryview(data)))
    assert columns is not None
    assert columns.canonical_payload() == encode_batch(RECORDS)[HEADER_SIZE:]


@pytest.mark.parametrize(
    "record",
    [
        "14 00 00 00 02 6b 82 00 76 00",  # value length 1 in two bytes
        "10 00 00 00 02 6b 03 00",  # value length -2, null all the same
        "10 01 00 00 02 6b 01 00",  # attributes
        "10 00 00 02 02 6b 01 00",  # offset delta 1
        "10 00 02 00 02 6b 01 00",  # timestamp delta 1
        "16 00 00 00 02 6b 01 02 02 68 01",  # a header
    ],
)
def test_records_that_would_be_written_otherwise_are_written_anew(record: str) -> None:
    payload = bytes.fromhex(record)
    payload = bytes([2 * (len(payload) - 1)]) + payload[1:]
    header = BatchHeader.unpack(encode_batch([SimpleRecord(NOW, b"k", None)]))
    columns = decode_columns(DefaultBatch(memoryview(assemble(header, payload))))
    assert columns is not None
    assert columns.canonical_payload() is None
