"""A small segment of everything, cut at every byte and flipped at every bit.

A value or a FormatError, never anything else; and the exact list of bytes in which damage can go
unseen (docs/formats/segment.md explains each).
"""

from kafka_format.batch import HEADER_SIZE, encode_batch
from kafka_format.compression import Codec
from kafka_format.errors import FormatError
from kafka_format.legacy import encode_legacy_batch
from kafka_format.log_file import LogFile
from kafka_format.record import Header, Record, SimpleRecord
from tests.kafka_format.damage import cuts, flips, value_or_error

PLAIN = encode_batch(
    [SimpleRecord(5, b"k", b"v", (Header("h", b"x"),)), SimpleRecord(7, None, b"", (), 13)],
    base_offset=10,
    producer_id=3,
    producer_epoch=0,
    base_sequence=0,
    is_transactional=True,
    partition_leader_epoch=1,
)
LZ4 = encode_batch([SimpleRecord(9, b"k", b"v" * 30)], base_offset=14, codec=Codec.LZ4)
ZSTD = encode_batch([SimpleRecord(9, b"k", b"w" * 30)], base_offset=15, codec=Codec.ZSTD)
MARKER = encode_batch(
    [SimpleRecord(9, bytes.fromhex("00000001"), bytes(6))],
    base_offset=16,
    producer_id=3,
    producer_epoch=0,
    is_transactional=True,
    is_control=True,
)
OLD = encode_legacy_batch([SimpleRecord(5, b"k", b"v")], magic=0, base_offset=1)
WRAPPER = encode_legacy_batch(
    [SimpleRecord(5, b"k", b"v"), SimpleRecord(6, b"l", None)],
    magic=1,
    base_offset=8,
    codec=Codec.GZIP,
)
PARTS = [OLD, WRAPPER, PLAIN, LZ4, ZSTD, MARKER]
SEGMENT = b"".join(PARTS)


def read_all(data: bytes) -> list[Record]:
    """Everything a careful reader checks; an end other than the file's is an error too."""
    log = LogFile(data)
    records = []
    for batch in log.batches():
        batch.ensure_valid()
        records += batch.records(limit=2**20)
    if log.end.error is not None:
        raise log.end.error
    return records


def starts() -> list[int]:
    positions = [0]
    for part in PARTS:
        positions.append(positions[-1] + len(part))
    return positions


def test_the_segment_is_whole() -> None:
    assert [r.offset for r in read_all(SEGMENT)] == [1, 8, 9, 10, 13, 14, 15, 16]


def test_every_cut_is_noticed_unless_it_falls_between_batches() -> None:
    boundaries = starts()
    for data in cuts(SEGMENT):
        found = value_or_error(read_all, data)
        assert isinstance(found, FormatError) == (len(data) not in boundaries)


def test_every_flipped_bit_is_a_value_or_a_format_error_even_without_checksums() -> None:
    def read_blindly(data: bytes) -> None:
        log = LogFile(data)
        for batch in log.batches():
            value_or_error(lambda _: batch.records(limit=2**20), data)  # noqa: B023 - called at once
            value_or_error(lambda _: batch.encode(limit=2**20), data)  # noqa: B023 - called at once
        assert log.end is not None

    for _, data in flips(SEGMENT):
        read_blindly(data)


def test_these_bits_and_no_others_can_flip_unseen() -> None:
    unseen: dict[int, set[int]] = {}
    for bit, data in flips(SEGMENT):
        if not isinstance(value_or_error(read_all, data), FormatError):
            unseen.setdefault(bit // 8, set()).add(7 - bit % 8)
    expected: dict[int, set[int]] = {}
    every_bit = set(range(8))
    for start, part in zip(starts(), PARTS, strict=False):
        for byte in range(8):  # offsets are stamped after the checksum
            expected[start + byte] = every_bit
        if part not in {OLD, WRAPPER}:
            for byte in range(12, 16):  # so is the leader epoch
                expected[start + byte] = every_bit
            expected[start + 16] = every_bit - {1, 7}  # magic 3, 6, 10, … is read as 2
    # The wrapper's offset is the last one inside or above it: 9 with its highest bit set is
    # negative, and 8 above 1 is still above.
    wrapper = starts()[1]
    expected[wrapper] = every_bit - {7}
    assert unseen == expected


def test_an_unseen_flip_changes_offsets_and_leader_epochs_only() -> None:
    start = starts()[2]
    whole = read_all(SEGMENT)
    for bit, data in flips(SEGMENT[: start + HEADER_SIZE]):
        found = value_or_error(read_all, data + SEGMENT[start + HEADER_SIZE :])
        if not isinstance(found, FormatError):
            assert bit // 8 < start + 17
            assert [r._replace(offset=0) for r in found] == [r._replace(offset=0) for r in whole]
