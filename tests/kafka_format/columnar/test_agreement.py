"""The row decoder and the columnar one agree, compiled or not, sound or damaged, in any chunks."""

import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafka_format.batch import BatchHeader, assemble, encode_batch
from kafka_format.columnar.compilation import can_compile
from kafka_format.columnar.records import RecordScan
from kafka_format.compression import Codec
from kafka_format.legacy import encode_legacy_batch
from kafka_format.record import Header, SimpleRecord, TimestampType, encode_records
from tests import golden, strategies
from tests.kafka_format.columnar.agreement import CountingFile, assert_agreement, reported

MODES = [pytest.param(True, id="compiled"), pytest.param(False, id="plain")]
LEGACY_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]

batches = st.one_of(
    strategies.batch_options().map(lambda options: encode_batch(**options)),
    strategies.legacy_options().map(lambda options: encode_legacy_batch(**options)),
)


@st.composite
def any_batches(draw):
    """Batches whose every field is anything, around records that may or may not fit it."""
    header = draw(strategies.batch_headers)
    records = draw(strategies.records_near(header.base_offset))
    payload = encode_records(
        records, base_offset=header.base_offset, base_timestamp=header.base_timestamp
    )
    count = draw(st.just(len(records)) | strategies.int32s)
    codec = draw(st.sampled_from([0, 0, header.attributes & 7]))
    attributes = header.attributes & ~7 | codec
    return assemble(header._replace(record_count=count, attributes=attributes), payload)


def segment_of(seed, *, batches=12):
    """All magics, codecs, timestamp types; null, empty, headers; sequences that wrap."""
    rng = random.Random(seed)
    out, offset = b"", rng.randint(0, 100)
    for _ in range(batches):
        count = rng.randint(1, 6)
        legacy = rng.random() < 0.4
        records = [_record(rng, i, legacy=legacy) for i in range(count)]
        kind = rng.choice([TimestampType.CREATE_TIME, TimestampType.LOG_APPEND_TIME])
        times: dict[str, Any] = {"timestamp_type": kind, "log_append_time": 99}
        if legacy:
            codec = rng.choice(LEGACY_CODECS)
            out += encode_legacy_batch(
                records, magic=rng.choice([0, 1]), base_offset=offset, codec=codec, **times
            )
        else:
            producer: dict[str, Any] = {"producer_id": 5, "producer_epoch": 1}
            sequence = rng.choice([0, 2**31 - 3])
            codec = rng.choice(list(Codec))
            out += encode_batch(
                records,
                base_offset=offset,
                codec=codec,
                base_sequence=sequence,
                **producer,
                **times,
            )
        offset += count
    return out


def _record(rng, index, *, legacy):
    key = rng.choice([None, b"", b"k%d" % index])
    value = rng.choice([None, b"", b"v" * rng.randint(0, 200)])
    headers = [Header(f"h{i}", rng.choice([None, b"", b"x"])) for i in range(rng.randint(0, 3))]
    return SimpleRecord(rng.randint(0, 10**6), key, value, () if legacy else tuple(headers))


@pytest.mark.parametrize("compiled", MODES)
@pytest.mark.parametrize("seed", range(6))
def test_every_magic_and_codec_decodes_to_the_same_records(seed, compiled):
    assert_agreement(segment_of(seed), compiled=compiled)


@pytest.mark.parametrize("compiled", MODES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(segment=st.lists(batches, max_size=4).map(b"".join))
def test_whatever_kafka_may_write_decodes_to_the_same_records(segment, compiled):
    assert_agreement(segment, compiled=compiled)


@pytest.mark.parametrize("compiled", MODES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(segment=st.lists(any_batches(), min_size=1, max_size=4).map(b"".join))
def test_fields_of_any_value_are_taken_or_refused_alike(segment, compiled):
    assert_agreement(segment, compiled=compiled)


@pytest.mark.parametrize("compiled", MODES)
@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(segment=st.lists(strategies.any_legacy, min_size=1, max_size=4).map(b"".join))
def test_legacy_fields_of_any_value_are_taken_or_refused_alike(segment, compiled):
    assert_agreement(segment, compiled=compiled)


def test_a_batch_that_says_it_is_empty_is_not_looked_into():
    """Compaction leaves such headers; the codec bits of this one would fail to decompress."""
    empty = encode_batch([SimpleRecord(1, b"k", b"v")], codec=Codec.GZIP)[:61]
    header = BatchHeader.unpack(empty)._replace(record_count=0)
    for attributes in (0, 1, 3, 7):
        (columns,) = RecordScan(assemble(header._replace(attributes=attributes), b"\x00junk"))
        assert (len(columns), columns.damage) == (0, [])


@pytest.mark.parametrize("verify", [True, False])
@pytest.mark.parametrize("compiled", MODES)
def test_a_flipped_bit_is_seen_alike(compiled, verify):
    """With checksums off, so that the damage reaches the records, and on."""
    rng = random.Random(17)
    segment = segment_of(3, batches=8)
    for _ in range(300 if compiled else 60):
        damaged = bytearray(segment)
        bit = rng.randrange(len(damaged) * 8)
        damaged[bit // 8] ^= 1 << bit % 8
        assert_agreement(bytes(damaged), compiled=compiled, verify=verify)


@pytest.mark.parametrize("compiled", MODES)
def test_a_cut_is_seen_alike(compiled):
    segment = segment_of(4, batches=5)
    for size in range(0, len(segment), 1 if compiled else 13):
        assert_agreement(segment[:size], compiled=compiled)


@pytest.mark.parametrize("compiled", MODES)
@pytest.mark.parametrize("chunk_bytes", [1, 4096, 1 << 20])
def test_batches_larger_than_a_chunk_and_than_the_arena_are_whole(chunk_bytes, compiled):
    values = [b"a" * 10, b"b" * 300_000, b"c" * 90_000, b""]
    segment = b"".join(
        encode_batch([SimpleRecord(1, None, value)] * 2, base_offset=2 * i, codec=codec)
        for i, (codec, value) in enumerate((codec, v) for codec in Codec for v in values)
    )
    assert_agreement(segment, compiled=compiled, chunk_bytes=chunk_bytes, arena_bytes=1 << 17)


@pytest.mark.parametrize("compiled", MODES)
def test_every_segment_of_every_golden_directory_decodes_alike(compiled):
    roots = [golden.shared(name) for name in golden.names()]
    segments = [
        p for root in roots for kind in ("*.log*", "*.checkpoint") for p in root.rglob(kind)
    ]
    assert len(segments) > 20
    for path in segments:
        segment = path.read_bytes()
        if not compiled and len(segment) > 30_000:
            continue  # the plain kernels are slow, and the small ones hold every kind
        assert_agreement(segment, compiled=compiled, chunk_bytes=1 << 16)


OLD = {
    "codecs": ("none", "gzip", "snappy", "lz4"),
    "idempotent_producers": 0,
    "transactional_producers": 0,
    "open_transactions": 0,
}
PLANS: dict[str, dict[str, Any]] = {
    "everything": {},
    "append time": {"timestamp_type": "LogAppendTime"},
    "gaps": {"gaps": True},
    "large batches": {
        "batches": 40,
        "records_per_batch": 60,
        "value_size": 2000,
        "config": {"segment.bytes": 1 << 20},
    },
    "crash": {"close": "crash"},
    "magic 0": {"magic": 0, **OLD},
    "magic 1": {"magic": 1, **OLD},
}


@pytest.mark.parametrize("name", PLANS)
def test_directories_that_kafkas_log_wrote_hold_what_was_drawn(name, oracle, tmp_path):
    """The expectation was drawn before a byte was written; the row decoder agrees besides."""
    plan = {"headers": "magic" not in PLANS[name], **PLANS[name]}
    built = oracle.build_log(tmp_path / "orders-0", seed=len(name), **plan)
    found = []
    for path in sorted((tmp_path / "orders-0").glob("*.log")):
        segment = path.read_bytes()
        assert_agreement(segment, compiled=True, chunk_bytes=1 << 16)
        for columns in RecordScan(segment):
            found += [record for _, records in reported(columns) for record in records]
    assert [record[:6] for record in found] == [
        (r.offset, r.timestamp, r.key, r.value, r.headers, r.sequence) for r in built.records
    ]


def test_without_numba_the_plain_kernels_are_chosen(monkeypatch):
    can_compile.cache_clear()
    monkeypatch.setenv("KAFKA_FORENSICS_NUMBA", "0")
    try:
        assert not RecordScan(b"").compiled
    finally:
        can_compile.cache_clear()


def test_a_file_is_read_in_one_pass_and_never_written():
    segment = segment_of(1, batches=400)
    file = CountingFile(segment)
    assert sum(len(columns) for columns in RecordScan(file, chunk_bytes=8192)) > 400
    assert len(segment) <= file.read_bytes < len(segment) * 1.02


@pytest.mark.parametrize("threads", [1, 2])
def test_memory_stays_within_a_few_times_the_largest_batch_whatever_the_file(tmp_path, threads):
    """Peak of a second scan, after the first has allocated what it needs."""
    resource = pytest.importorskip("resource")
    batch = encode_batch([SimpleRecord(1, b"k", b"v" * 1000)] * 50)
    path = tmp_path / "00000000000000000000.log"
    with path.open("wb") as file:
        for _ in range(200):
            file.write(batch * 20)
    assert path.stat().st_size > 200_000_000

    def scan():
        with path.open("rb", buffering=0) as file:
            return sum(len(columns) for columns in RecordScan(file, threads=threads))

    with path.open("rb", buffering=0) as file:
        sum(len(columns) for columns in RecordScan(file, end=20 * len(batch)))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert scan() == 200_000
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    assert grown < 64 * 1024 * 1024


def test_a_batch_that_claims_a_billion_records_costs_no_memory():
    batch = bytearray(encode_batch([SimpleRecord(1, b"k", b"v")]))
    batch[57:61] = (2**31 - 1).to_bytes(4, "big")
    scan = RecordScan(bytes(batch), verify=False)
    (columns,) = scan
    assert len(columns) == 0
    assert "2147483647" in str(columns.damage[0].error)
