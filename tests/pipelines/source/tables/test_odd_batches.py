"""Batches that no broker writes: each that `dump` shows is a row, and a record or a finding."""

import json
import struct

import pytest

from jobs import cli
from kafka_format.batch import encode_batch
from kafka_format.record import SimpleRecord
from tests.hostile import logs
from tests.pipelines.readers import read

MOST = 2**63 - 1
BASE, NEXT = 100, 200
"""The segment that is odd, and the one behind it."""


def at(offset, count=2, **fields):
    records = [SimpleRecord(5, b"k%d" % number, b"v") for number in range(count)]
    return moved(encode_batch(records, base_offset=0, **fields), offset)


def moved(batch, offset):
    """The checksum does not cover where it is."""
    return struct.pack(">q", offset) + batch[8:]


def control(key, value=b"\0\0\0\0\0\0"):
    return encode_batch(
        [SimpleRecord(5, key, value)],
        base_offset=0,
        producer_id=1,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )


ODD = {
    "negative": at(-5),
    "most negative": at(-(2**63)),
    "below its segment": at(BASE - 50),
    "into its segment": at(BASE - 1),
    "goes back": at(BASE + 20) + at(BASE + 10),
    "the same twice": at(BASE + 20) + at(BASE + 20),
    "overlaps": at(BASE + 20, 5) + at(BASE + 22),
    "beyond the next segment": at(NEXT + 50),
    "into the next segment": at(NEXT - 1),
    "far": at(2**62),
    "the largest offset": at(MOST, 1),
    "over the largest offset": at(MOST),
    "no records": logs.batch(b"", record_count=0, base_offset=BASE + 5),
    "counts too many": logs.batch(record_count=3, base_offset=BASE + 5),
    "counts too few": logs.batch(logs.record() + logs.record(), base_offset=BASE + 5),
    "negative delta": logs.batch(last_offset_delta=-3, base_offset=BASE + 5),
    "control without a type": moved(control(b"\0"), BASE + 5),
    "control of no key": moved(control(None), BASE + 5),
    "control of an unknown type": moved(control(b"\0\0\0\x63"), BASE + 5),
    "control with half a value": moved(control(b"\0\0\0\1", b"\0"), BASE + 5),
}
SOUND_WITHOUT_ROWS = {"no records"}
"""As the cleaner leaves them."""
FINDINGS = {
    **{key: {"LOG007"} for key in ODD},
    "no records": set(),
    "control of an unknown type": {"LOG012", "PRD007"},
    **{key: {"LOG003"} for key in ("counts too many", "counts too few")},
    **{
        key: {"LOG007", "LOG022"}
        for key in ("beyond the next segment", "into the next segment", "far", "the largest offset")
    },
    "control without a type": {"LOG003"},
    **{key: {"LOG003", "PRD007"} for key in ("control of no key", "control with half a value")},
}


@pytest.mark.parametrize("name", ODD)
def test_every_batch_that_dump_shows_is_a_row_or_a_finding(tmp_path, capsys, name):
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{BASE:020d}.log").write_bytes(at(BASE) + ODD[name] + at(BASE + 90))
    (directory / f"{NEXT:020d}.log").write_bytes(at(NEXT))
    cli.main(["dump", str(directory), "--format", "json"])
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    dumped = [
        (line["path"], line["position"], line["base_offset"])
        for line in lines
        if line["kind"] == "batch"
    ]
    batches = read(directory, "batches")
    assert sorted(dumped) == sorted(
        (row["path"], row["position"], row["base_offset"]) for row in batches
    )
    records = read(directory, includeControl="true", columns="path,position,offset,_corrupt_record")
    found = read(directory, "findings")
    assert {row["id"] for row in found} == FINDINGS[name]
    reported = {(row["path"], row["position"]) for row in (*records, *found)}
    for path, position, base_offset in dumped:
        is_empty = name in SOUND_WITHOUT_ROWS and base_offset == BASE + 5
        # A record that cannot be decoded is reported where it lies in its batch.
        near = any(
            path == where and at_ is not None and position <= at_ < position + 61 + 70
            for where, at_ in reported
        )
        assert (path, position) in reported or is_empty or near
    # What is neither a record nor damage that was reported, nobody would miss.
    counted = sum(row["record_count"] for row in batches if not row["damage"])
    rows = sum(row["_corrupt_record"] is None for row in records)
    if "LOG003" not in FINDINGS[name] and not any(row["_corrupt_record"] for row in records):
        assert rows == counted


@pytest.mark.parametrize("name", ["negative", "most negative"])
def test_a_batch_below_its_segment_that_nobody_can_ask_for_is_a_row(tmp_path, name):
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(ODD[name] + at(0))
    lost, *records = read(directory)
    assert [row["offset"] for row in records] == [0, 1]
    assert "@0: LOG007: found a batch at offset -" in lost["_corrupt_record"]
    assert lost["batch_base_offset"] == struct.unpack(">q", ODD[name][:8])[0]
    assert len(read(directory, startingOffsets="1")) == 1
    assert len(read(directory, endingOffsets="1")) == 2


def test_the_largest_offset_is_a_row(tmp_path):
    directory = tmp_path / "t-0"
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(at(0) + at(MOST, 1))
    rows = read(directory, columns="offset,_corrupt_record")
    assert [(row["offset"], row["_corrupt_record"]) for row in rows] == [
        (0, None),
        (1, None),
        (MOST, None),
    ]


def test_batches_below_the_log_start_are_gone_and_no_damage(tmp_path):
    directory = tmp_path / "t-0"
    directory.mkdir()
    broken = bytearray(at(2))
    broken[-3] ^= 1
    (directory / f"{0:020d}.log").write_bytes(at(0) + broken + at(4))
    (tmp_path / "log-start-offset-checkpoint").write_text("0\n1\nt 0 4\n")
    assert [row["offset"] for row in read(tmp_path, columns="offset")] == [4, 5]
