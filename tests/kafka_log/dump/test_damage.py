"""Damaged files: the dump goes on or says where it stopped; both engines say the same."""

import random
import struct
import zlib
from pathlib import Path

import pytest

from kafka_format.batch import assemble, decode_batch, encode_batch
from kafka_format.compression import Codec, compress
from kafka_format.legacy import (
    LegacyHeader,
    LegacyMessage,
    encode_legacy_batch,
    encode_message,
)
from kafka_format.record import Header, SimpleRecord
from tests.kafka_log.dump.comparison import ENGINES, reports, run
from tests.oracle.client import Oracle, record

FLAGS = (("--print-data-log",), ("--print-data-log", "--format", "json"))


def segment() -> bytes:
    """Small, and with something of everything."""
    records = [
        SimpleRecord(5, b"k", b"v", (Header("h", None),)),
        SimpleRecord(6, None, b""),
    ]
    marker = [SimpleRecord(7, struct.pack(">hh", 0, 1), struct.pack(">hi", 0, 3))]
    return b"".join(
        [
            encode_batch(records, base_offset=0),
            encode_batch(records, base_offset=2, codec=Codec.GZIP),
            encode_batch(
                marker,
                base_offset=4,
                producer_id=1,
                producer_epoch=0,
                is_transactional=True,
                is_control=True,
            ),
            encode_legacy_batch(records[1:], magic=1, base_offset=5),
        ]
    )


def both(path: Path, *flags: str) -> int:
    rows, columns = (run(path, *flags, engine=engine) for engine in ENGINES)
    assert rows == columns
    return rows.code


def test_every_cut_ends_in_order(tmp_path: Path) -> None:
    data = segment()
    path = tmp_path / "t-0" / f"{0:020d}.log"
    path.parent.mkdir()
    for size in range(0, len(data), 2):
        path.write_bytes(data[:size])
        for flags in FLAGS:
            assert both(path, *flags) in (0, 1)


@pytest.mark.parametrize("seed", range(3))
def test_every_flipped_byte_ends_in_order(tmp_path: Path, seed: int) -> None:
    data, draw = segment(), random.Random(seed)
    path = tmp_path / "t-0" / f"{0:020d}.log"
    path.parent.mkdir()
    for position in range(seed, len(data), 3):
        damaged = bytearray(data)
        damaged[position] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        for flags in FLAGS:
            assert both(path, *flags) in (0, 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_a_wrong_checksum_is_told_and_the_records_shown_as_in_the_original(
    oracle: Oracle, tmp_path: Path, engine: str
) -> None:
    batch = bytearray(oracle.build_batch(records=[record(1, b"key", b"value")] * 2))
    batch[-2] ^= 1
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(bytes(batch) + oracle.build_batch(records=[record(1, b"a", b"b")]))
    original = oracle.dump("--files", path, "--print-data-log")
    ours = run(path, "--print-data-log", engine=engine)
    assert "isvalid: false" in original.stdout
    assert ours.stdout == original.stdout
    assert ours.code == 1
    assert f"{path}@17: found stored crc" in ours.stderr


@pytest.mark.parametrize("engine", ENGINES)
def test_a_torn_end_is_told_in_the_original_words(
    oracle: Oracle, tmp_path: Path, engine: str
) -> None:
    batch = oracle.build_batch(records=[record(1, b"key", b"value")])
    for torn in (batch[:10], batch[:17], batch[:40], batch[:-1]):
        path = tmp_path / f"{0:020d}.log"
        path.write_bytes(batch + torn)
        original, ours = oracle.dump("--files", path), run(path, engine=engine)
        assert ours.stdout == original.stdout
        assert f"Found {len(torn)} invalid bytes at the end of {path.name}" in ours.stdout
        assert ours.code == 1
        assert f"{path}@{len(batch)}: found {len(torn)} bytes" in ours.stderr


@pytest.mark.parametrize("engine", ENGINES)
def test_the_dump_goes_on_behind_a_batch_of_an_impossible_magic(
    tmp_path: Path, engine: str
) -> None:
    good = encode_batch([SimpleRecord(1, b"a", b"b")])
    bad = bytearray(good)
    bad[16] = 0xFE  # as a signed byte: -2
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(good + bytes(bad) + good)
    ours = run(path, "--deep-iteration", engine=engine)
    assert ours.code == 1
    assert ours.stdout.count("baseOffset: ") == 2
    assert f"{path}@{len(good) + 16}: found magic -2, expected" in ours.stderr


@pytest.mark.parametrize("engine", ENGINES)
def test_zeros_at_the_end_are_told(tmp_path: Path, engine: str) -> None:
    good = encode_batch([SimpleRecord(1, b"a", b"b")])
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(good + bytes(1000))
    ours = run(path, "--format", "json", engine=engine)
    assert ours.code == 1
    (end,) = ours.of_kind("end")
    assert end["reason"] == "zeroed_tail"
    assert (end["position"], end["trailing_bytes"]) == (len(good), 1000)
    (finding,) = ours.of_kind("finding")
    assert (finding["position"], finding["path"]) == (len(good), str(path))


@pytest.mark.parametrize("engine", ENGINES)
def test_records_that_contradict_their_count_are_a_finding(tmp_path: Path, engine: str) -> None:
    batch = decode_batch(encode_batch([SimpleRecord(1, b"a", b"b")]))
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(assemble(batch.header._replace(record_count=9), batch.payload))
    ours = run(path, "--deep-iteration", engine=engine)
    assert ours.code == 1
    assert "isvalid: true" in ours.stdout
    assert "| offset" not in ours.stdout
    assert ours.stderr.startswith(f"{path}@")


def test_a_compression_bomb_is_refused(tmp_path: Path) -> None:
    bomb = encode_batch([SimpleRecord(1, b"a", bytes(300_000_000))], codec=Codec.ZSTD)
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(bomb)
    ours = run(path, "--deep-iteration", engine="rows")
    assert ours.code == 1
    assert "compressed records of more than 268435456 bytes, not decoded" in ours.stderr


def wrapped(inner: bytes, magic: int) -> bytes:
    """A gzip wrapper around these messages, whose own checksum is right."""
    header = LegacyHeader(1, 0, 0, magic, int(Codec.GZIP), 7 if magic else -1)
    return encode_message(LegacyMessage(header, None, compress(Codec.GZIP, inner, magic=magic)))


def messages(magic: int) -> bytes:
    """Two of offsets 0 and 1, the second with a wrong checksum."""
    first, second = (
        encode_legacy_batch([SimpleRecord(7, b"k", b"v")], magic=magic, base_offset=offset)
        for offset in range(2)
    )
    return first + second[:-1] + b"w"


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("engine", ENGINES)
def test_a_wrong_checksum_inside_a_wrapper_is_told(
    oracle: Oracle, tmp_path: Path, engine: str, magic: int
) -> None:
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(wrapped(messages(magic), magic))
    original = oracle.dump("--files", path, "--print-data-log")
    ours = run(path, "--print-data-log", engine=engine)
    assert original.stdout.count("isValid: true") == original.stdout.count("isValid: false") == 1
    assert ours.stdout == original.stdout
    assert ours.code == 1
    assert ours.stderr.count("\n") == 2  # the finding and the summary
    assert f"{path}@0: found stored crc 0x" in ours.stderr
    assert "of the message inside, offset 1, expected computed crc 0x" in ours.stderr
    rows = run(path, "--deep-iteration", "--format", "json", engine=engine)
    assert [row["is_valid"] for row in rows.of_kind("record")] == [True, False]
    assert [row["position"] for row in rows.of_kind("finding")] == [0]
    assert run(path, "--key", "other", engine=engine).code == 1  # whose key may be damaged, too
    assert run(path, engine=engine) == (0, oracle.dump("--files", path).stdout, "")


@pytest.mark.parametrize("engine", ENGINES)
def test_bytes_behind_a_message_inside_a_wrapper_count_for_its_checksum(
    oracle: Oracle, tmp_path: Path, engine: str
) -> None:
    fields = bytes.fromhex("01 00 0000000000000007 ffffffff ffffffff") + b"more"
    message = struct.pack(">qiI", 0, 4 + len(fields), zlib.crc32(fields)) + fields
    path = tmp_path / f"{0:020d}.log"
    path.write_bytes(wrapped(message, 1))
    original = oracle.dump("--files", path, "--deep-iteration")
    assert "isValid: true" in original.stdout
    ours = run(path, "--deep-iteration", engine=engine)
    assert (ours.code, ours.stdout) == (0, original.stdout)


# ------------------------------------------------------------------------------ indexes


@pytest.fixture
def indexed(oracle: Oracle, tmp_path: Path) -> Path:
    """The first segment of a partition with entries in both indexes."""
    built = oracle.build_log(tmp_path / "orders-0", seed=1, batches=60)
    return built.segments()[0]


def test_a_wrong_position_is_reported_as_by_the_original(oracle: Oracle, indexed: Path) -> None:
    index = indexed.with_suffix(".index")
    data = bytearray(index.read_bytes())
    data[3] += 1  # the first entry's offset
    data[-8:] = data[-16:-12] + data[-4:]
    index.write_bytes(data)
    original = oracle.dump("--files", index)
    ours = run(index)
    assert ours.stdout == original.stdout
    assert [*reports(original.stderr)] == [f"Mismatches in :{index}"]
    assert reports(original.stderr).items() <= reports(ours.stderr).items()
    assert ours.code == 1


def test_a_position_that_is_none_is_a_finding_where_the_original_dies(
    oracle: Oracle, indexed: Path
) -> None:
    index = indexed.with_suffix(".index")
    data = bytearray(index.read_bytes())
    data[4:8] = struct.pack(">i", 10**6)
    index.write_bytes(data)
    assert oracle.dump("--files", index, check=False).error
    ours = run(index)
    assert ours.code == 1
    assert f"{index}@0: found entry" in ours.stderr


def test_time_index_entries_are_judged_as_by_the_original(oracle: Oracle, indexed: Path) -> None:
    index = indexed.with_suffix(".timeindex")
    good = index.read_bytes()
    assert len(good) == 24
    for position in (7, 11, 12 + 7, 12 + 11):
        data = bytearray(good)
        data[position] ^= 3
        index.write_bytes(data)
        original, ours = oracle.dump("--files", index), run(index)
        assert ours.stdout == original.stdout
        assert reports(original.stderr)
        assert reports(original.stderr).items() <= reports(ours.stderr).items()
        assert ours.code == 1


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """A log of three batches of 70 bytes, offsets 0 to 2, times 1000 to 3000."""
    log = tmp_path / "orders-3" / f"{0:020d}.log"
    log.parent.mkdir()
    batches = [
        encode_batch([SimpleRecord(1000 * (offset + 1), b"a", b"b")], base_offset=offset)
        for offset in range(3)
    ]
    assert [len(batch) for batch in batches] == [70] * 3
    log.write_bytes(b"".join(batches))
    return log


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([(1, 70), (3, 140)], ("index_mismatch", 8)),
        ([(1, 70), (2, 100_000)], ("damage", 8)),
        ([(1, 70), (2, 140), (4, 150)], ("damage", 16)),
    ],
)
def test_a_wrong_offset_entry_is_told_with_its_position(three: Path, entries, expected) -> None:
    index = three.with_suffix(".index")
    index.write_bytes(b"".join(struct.pack(">ii", *entry) for entry in entries))
    dumped = run(index, "--verify-index", "--format", "json")
    assert dumped.code == 1
    (finding,) = dumped.of_kind("finding")
    assert (finding["problem"], finding["position"]) == expected
    assert (finding["path"], finding["topic"], finding["partition"]) == (str(index), "orders", 3)


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([(1000, 0), (2001, 1)], [("timestamp_mismatch", 12)]),
        ([(1000, 0), (3000, 9)], [("offset_not_found", 12)]),
        (
            [(2000, 1), (3000, 2), (2000, 1)],
            [("damage", 24), ("timestamp_out_of_order", 24)],
        ),
    ],
)
def test_a_wrong_time_entry_is_told_with_its_position(three: Path, entries, expected) -> None:
    index = three.with_suffix(".timeindex")
    index.write_bytes(b"".join(struct.pack(">qi", *entry) for entry in entries))
    dumped = run(index, "--format", "json")
    assert dumped.code == 1
    found = [(row["problem"], row["position"]) for row in dumped.of_kind("finding")]
    assert found == expected
    assert {row["path"] for row in dumped.of_kind("finding")} == {str(index)}


def test_a_partial_entry_is_a_finding(indexed: Path) -> None:
    for suffix, size in ((".index", 8), (".timeindex", 12)):
        index = indexed.with_suffix(suffix)
        whole = len(index.read_bytes())
        index.write_bytes(index.read_bytes() + b"\x7f\x01\x02")
        ours = run(index)
        assert ours.code == 1
        assert f"{index}@{whole}: found 3 bytes, expected an entry of {size}" in ours.stderr


def test_an_index_without_its_log_is_shown_and_only_fails_verification(indexed: Path) -> None:
    index = indexed.with_suffix(".index")
    shown = run(index).stdout
    indexed.unlink()
    ours = run(index)
    assert (ours.code, ours.stdout) == (0, shown)
    assert "not verified" in ours.stderr
    assert run(index, "--verify-index").code == 1


def test_verify_index_sees_an_entry_that_points_into_a_batch(tmp_path: Path) -> None:
    inner = encode_batch([SimpleRecord(1, b"a", b"b")], base_offset=3)
    outer = encode_batch([SimpleRecord(1, b"a", inner)], base_offset=0)
    log = tmp_path / f"{0:020d}.log"
    log.write_bytes(outer + encode_batch([SimpleRecord(1, b"", b"")], base_offset=4))
    index = log.with_suffix(".index")
    index.write_bytes(struct.pack(">ii", 3, outer.index(inner)))
    assert run(index).code == 0
    assert run(index, "--verify-index").code == 1


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot"])
def test_any_bytes_in_a_side_file_end_in_order(tmp_path: Path, suffix: str) -> None:
    draw = random.Random(suffix)
    path = tmp_path / f"{0:020d}{suffix}"
    path.with_suffix(".log").write_bytes(segment())
    for size in [*range(40), 66, 68, 100]:
        for flags in ((), ("--format", "json"), ("--index-sanity-check",), ("--verify-index",)):
            path.write_bytes(draw.randbytes(size))
            assert run(path, *flags).code in (0, 1)


@pytest.mark.parametrize(
    "name",
    [
        "leader-epoch-checkpoint",
        "partition.metadata",
        "recovery-point-offset-checkpoint",
        "meta.properties",
        ".kafka_cleanshutdown",
        "quorum-state",
        "bootstrap.checkpoint",
        "00000000000000000005-0000000001.checkpoint",
    ],
)
def test_any_bytes_in_a_text_file_end_in_order(tmp_path: Path, name: str) -> None:
    draw = random.Random(name)
    path = tmp_path / name
    for content in (b"", b"0\n", b"0\n1\nt 0 5\n", b"version: 0\n", b"{}", draw.randbytes(50)):
        path.write_bytes(content)
        for flags in ((), ("--format", "json")):
            assert run(path, *flags).code in (0, 1)


def test_a_name_without_an_offset_is_a_finding_and_the_log_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "copy.log"
    path.write_bytes(segment())
    ours = run(path)
    assert ours.code == 1
    assert "baseOffset: 0" in ours.stdout
    assert "found name 'copy.log'" in ours.stderr


def test_the_original_and_we_agree_on_a_log_of_nothing(oracle: Oracle, tmp_path: Path) -> None:
    for data in (b"", bytes(17)):
        path = tmp_path / f"{0:020d}.log"
        path.write_bytes(data)
        assert run(path).stdout == oracle.dump("--files", path).stdout
