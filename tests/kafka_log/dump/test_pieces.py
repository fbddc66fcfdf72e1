"""A batch that is dumped in many pieces is dumped as in one."""

import functools
import random
from pathlib import Path

import pytest

from kafka_format import batch, legacy
from kafka_format.batch import assemble, decode_batch, encode_batch
from kafka_format.columnar.records import RecordScan
from kafka_format.compression import Codec
from kafka_format.legacy import encode_legacy_batch
from kafka_format.record import Header, SimpleRecord
from kafka_log.dump import columns, gaps, rows
from tests.kafka_log.dump.comparison import ENGINES, assert_same, run
from tests.oracle.client import Oracle
from tests.oracle.logs import LogPlan

FLAGS = (
    ("--deep-iteration",),
    ("--print-data-log",),
    ("--print-data-log", "--format", "json"),
    ("--print-data-log", "--skip-record-metadata"),
    ("--deep-iteration", "--format", "json", "--start-offset", "9", "--end-offset", "31"),
    ("--deep-iteration", "--format", "json", "--offset", "3"),
    ("--deep-iteration", "--start-time", "1012", "--end-time", "1014"),
    ("--deep-iteration", "--format", "json", "--key", "k7"),
    ("--print-data-log", "--key", "nobody's"),
)


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two records at a time, and a line or two."""
    for module in (batch, legacy):
        monkeypatch.setattr(module, "SLICE_RECORDS", 2)
    monkeypatch.setattr(rows, "_PART", 300)
    monkeypatch.setattr(gaps, "_RECENT", 2)
    monkeypatch.setattr(gaps, "_MERGED", 5)
    monkeypatch.setattr(columns, "RecordScan", functools.partial(RecordScan, piece_rows=2))


def records(count: int, *, headers: bool = True) -> list[SimpleRecord]:
    some = (Header("h", None), Header("i", b"1"))
    return [
        SimpleRecord(
            1000 + i * 7 % 20,
            None if i % 5 == 0 else b"k%d" % i,
            None if i % 3 == 0 else b"v" * i,
            some[: i % 3] if headers else (),
        )
        for i in range(count)
    ]


def segment() -> bytes:
    """Batches of eleven records, with gaps between them, and one that is damaged inside."""
    plain = encode_batch(records(11), base_offset=5, codec=Codec.ZSTD)
    header = decode_batch(plain).header
    lying = assemble(header._replace(base_offset=70, record_count=12), plain[61:])
    return b"".join(
        [
            encode_batch(records(11), base_offset=5),
            encode_batch(records(11), base_offset=20, codec=Codec.LZ4),
            encode_batch(records(1), base_offset=31),
            encode_legacy_batch(
                records(11, headers=False), magic=1, base_offset=40, codec=Codec.GZIP
            ),
            lying,
            encode_legacy_batch(records(11, headers=False), magic=0, base_offset=99),
            encode_batch(records(11), base_offset=8, codec=Codec.GZIP),
        ]
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "t-0" / f"{0:020d}.log"
    path.parent.mkdir()
    path.write_bytes(segment())
    return path


@pytest.fixture
def in_one(log: Path) -> dict[tuple[str, ...], object]:
    """What comes out undivided; asked for before `small_pieces`."""
    return {flags: run(log, *flags, engine="rows") for flags in FLAGS}


@pytest.mark.parametrize("engine", ENGINES)
def test_lines_and_reports_are_the_same(
    log: Path, in_one: dict[tuple[str, ...], object], small_pieces: None, engine: str
) -> None:
    for flags in FLAGS:
        assert run(log, *flags, engine=engine) == in_one[flags]


@pytest.mark.parametrize("engine", ENGINES)
def test_a_log_is_dumped_as_by_the_original(
    oracle: Oracle, tmp_path: Path, small_pieces: None, engine: str
) -> None:
    built = oracle.build_log(tmp_path / "orders-0", LogPlan(seed=5, batches=60, gaps=True))
    for flags in (("--deep-iteration",), ("--print-data-log",)):
        assert_same(oracle, sorted(built.path.glob("*.log")), *flags, engine=engine)


@pytest.mark.parametrize("seed", range(5))
def test_gaps_are_those_of_a_map(seed: int, small_pieces: None) -> None:
    draw = random.Random(seed)
    expected: dict[int, int] = {}
    found = gaps.Gaps()
    assert not found
    for _ in range(draw.randrange(60)):
        offset, following = draw.randrange(40), draw.randrange(100)
        expected[offset] = following
        found.add(offset, following)
    assert [*found] == sorted(expected.items())
    assert [*found] == sorted(expected.items())
