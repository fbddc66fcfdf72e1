"""Damage: marked in batches, a row of its own in records, and what lies behind it is read."""

import errno
import os
import re
import struct

import crc32c
import pytest

from kafka_format.batch import encode_batch
from kafka_format.errors import CorruptError, CrcMismatchError, FormatError, TruncatedError
from kafka_format.record import SimpleRecord
from kafka_log.damage import resync
from pipelines.source.storage import Storage, StorageError
from pipelines.source.tables.side_files import DamageError
from tests import golden
from tests.pipelines.readers import read
from tests.pipelines.segments import record, write_segment

BATCHES = 40
LOG = f"{0:020d}.log"


@pytest.fixture
def partition(tmp_path):
    """Ten records a batch, forty batches."""
    return tmp_path / "t-0", write_segment(tmp_path / "t-0", 0, 10 * BATCHES)


def overwrite(directory, position, content):
    with (directory / LOG).open("r+b") as file:
        file.seek(position)
        file.write(content)


def offsets(rows):
    """The offsets of records; a row that stands for damage has none."""
    return [row["offset"] for row in rows if row["offset"] is not None]


def without(*batches):
    return [at for at in range(10 * BATCHES) if at // 10 not in batches]


def flip_a_value(directory, batch):
    overwrite(directory, batch.position + batch.size - 5, b"\xff")


SPLITS = pytest.mark.parametrize("size", ["1k", "8k", "128m"])


@SPLITS
def test_a_wrong_checksum_costs_the_records_of_its_batch_alone(partition, size):
    directory, batches = partition
    flip_a_value(directory, batches[7])
    for mode in ("PERMISSIVE", "DROPMALFORMED"):
        found = read(directory, mode=mode, maxSplitBytes=size, columns="offset")
        assert offsets(found) == without(7)


@SPLITS
def test_a_wrong_checksum_is_marked_in_batches(partition, size):
    directory, batches = partition
    flip_a_value(directory, batches[7])
    rows = read(directory, "batches", maxSplitBytes=size)
    assert [row["position"] for row in rows] == [batch.position for batch in batches]
    assert [row["is_valid"] for row in rows] == [number != 7 for number in range(BATCHES)]
    at = batches[7].position + 17  # where the checksum stands
    stored = struct.unpack(">I", (directory / LOG).read_bytes()[at : at + 4])[0]
    marked = [row["damage"] for row in rows if row["damage"]]
    assert len(marked) == 1
    assert marked[0].startswith(
        f"{directory}/{LOG}@{at}: found stored crc {stored:#010x}, expected"
    )
    assert rows[7]["crc"] == stored != rows[7]["computed_crc"]
    kept = [row["position"] for row in read(directory, "batches", mode="DROPMALFORMED")]
    assert kept == [each.position for each in batches if each != batches[7]]


@pytest.mark.parametrize("table", ["records", "batches"])
def test_failfast_fails_with_the_place(partition, table):
    directory, batches = partition
    flip_a_value(directory, batches[7])
    with pytest.raises(CrcMismatchError, match=f"{LOG}@{batches[7].position + 17}: found stored"):
        read(directory, table, mode="FAILFAST")


@pytest.mark.parametrize("table", ["records", "batches"])
def test_what_is_sound_does_not_fail_fast(partition, table):
    directory, _ = partition
    assert read(directory, table, mode="FAILFAST")


def test_unverified_checksums_are_no_damage(partition):
    directory, batches = partition
    flip_a_value(directory, batches[7])
    rows = read(directory, verifyChecksums="false", mode="FAILFAST", columns="offset")
    assert offsets(rows) == [*range(10 * BATCHES)]
    rows = read(directory, "batches", verifyChecksums="false", mode="FAILFAST")
    assert {row["computed_crc"] for row in rows} == {None}
    assert {row["is_valid"] for row in rows} == {None}


@SPLITS
@pytest.mark.parametrize(
    ("length", "error"),
    [(0, CorruptError), (-1, CorruptError), (2**31 - 1, TruncatedError), (60, FormatError)],
)
def test_a_lying_length_loses_its_batch_and_the_next_is_found(partition, length, error, size):
    directory, batches = partition
    overwrite(directory, batches[7].position + 8, struct.pack(">i", length))
    assert offsets(read(directory, maxSplitBytes=size, columns="offset")) == without(7)
    rows = read(directory, "batches", maxSplitBytes=size)
    sound = [row for row in rows if row["damage"] is None]
    expected = [each.position for each in batches if each != batches[7]]
    assert [row["position"] for row in sound] == expected
    damaged = [row for row in rows if row["damage"]]
    assert damaged
    assert all(f"{LOG}@" in row["damage"] for row in damaged)
    assert batches[7].position <= min(row["position"] for row in damaged)
    with pytest.raises(error):
        read(directory, mode="FAILFAST", maxSplitBytes=size)


@SPLITS
def test_garbage_over_several_batches_loses_just_those(partition, size):
    directory, batches = partition
    start, end = batches[10].position + 20, batches[13].position + 3
    overwrite(directory, start, (bytes(range(256)) * 100)[: end - start])
    assert offsets(read(directory, maxSplitBytes=size, columns="offset")) == without(10, 11, 12, 13)


@SPLITS
def test_zeros_in_the_middle_lose_just_the_batches_they_cover(partition, size):
    directory, batches = partition
    overwrite(directory, batches[5].position, bytes(batches[7].position - batches[5].position))
    assert offsets(read(directory, maxSplitBytes=size, columns="offset")) == without(5, 6)


def test_a_torn_end_is_damage_and_zeros_behind_the_end_are_none(partition):
    directory, batches = partition
    log = directory / LOG
    content = log.read_bytes()
    log.write_bytes(content[:-7])
    assert offsets(read(directory, columns="offset")) == without(BATCHES - 1)
    last = read(directory, "batches")[-1]
    assert last["position"] == batches[-1].position
    assert last["base_offset"] is None
    assert f"found {batches[-1].size - 7} bytes up to the end" in last["damage"]
    with pytest.raises(TruncatedError):
        read(directory, mode="FAILFAST")
    log.write_bytes(content + bytes(5000))
    assert offsets(read(directory, mode="FAILFAST", columns="offset")) == without()
    assert len(read(directory, "batches", mode="FAILFAST")) == BATCHES


def test_a_record_that_contradicts_its_batch_is_damage_where_the_checksum_agrees(partition):
    directory, batches = partition
    batch = batches[3]
    content = bytearray((directory / LOG).read_bytes())
    content[batch.position + 61] = 0x7F  # the length of its first record
    covered = bytes(content[batch.position + 21 : batch.position + batch.size])
    content[batch.position + 17 : batch.position + 21] = struct.pack(">I", crc32c.crc32c(covered))
    (directory / LOG).write_bytes(content)
    assert offsets(read(directory, columns="offset")) == without(3)
    assert {row["is_valid"] for row in read(directory, "batches")} == {True}
    with pytest.raises(FormatError):
        read(directory, mode="FAILFAST")


@pytest.mark.parametrize("size", ["1", "1k", "8k"])
@pytest.mark.parametrize("verify", ["true", "false"])
@pytest.mark.parametrize("length", [-1, 20_000, 2**31 - 1, None])
def test_what_is_told_of_damage_does_not_depend_on_the_split(partition, length, size, verify):
    """A length may lead into the next split, or out of the file; zeros may reach up to a split."""
    directory, batches = partition
    place = batches[7].position
    lie = bytes(batches[9].position - place) if length is None else struct.pack(">i", length)
    overwrite(directory, place if length is None else place + 8, lie)
    reported = {}
    for each in (size, "128m"):
        rows = read(directory, "batches", maxSplitBytes=each, verifyChecksums=verify)
        reported[each] = sorted((row["position"], row["damage"] or "") for row in rows)
    assert reported[size] == reported["128m"]
    if length == 2**31 - 1:
        left = (directory / LOG).stat().st_size - place
        assert f"@{place}: found {left} bytes up to the end, " in dict(reported[size])[place]


@SPLITS
def test_a_lying_length_loses_no_other_batch_though_nothing_is_verified(partition, size):
    directory, batches = partition
    overwrite(directory, batches[7].position + 8, struct.pack(">i", 20_000))
    rows = read(directory, "batches", maxSplitBytes=size, verifyChecksums="false")
    found = {row["position"] for row in rows}
    assert {each.position for each in batches} <= found


def test_a_search_that_is_given_up_is_told(partition, monkeypatch):
    directory, batches = partition
    overwrite(directory, batches[7].position + 8, struct.pack(">i", -1))
    monkeypatch.setattr(resync, "_MOST_READ", -1)
    left = (directory / LOG).stat().st_size - batches[8].position
    found = f"{left} bytes not searched: too many look like headers"
    assert offsets(read(directory, columns="offset")) == [*range(70)]
    last = read(directory, "batches")[-1]
    assert (last["position"], last["base_offset"]) == (batches[8].position, None)
    assert f"{LOG}@{batches[8].position}: found {found}" in last["damage"]
    assert [(row["id"], row["position"]) for row in read(directory, "findings")] == [
        ("LOG002", batches[7].position),
        ("LOG002", batches[8].position),
    ]
    assert read(directory, "findings")[-1]["found"] == found


def test_a_snapshot_is_read_on_behind_damage_though_its_name_is_no_base_offset(tmp_path):
    """Its offsets begin at 0; its name tells where the log goes on."""
    directory = tmp_path / "__cluster_metadata-0"
    directory.mkdir()
    records = [SimpleRecord(1, None, bytes([1, 99, 0]), ())]
    content = bytearray().join(encode_batch(records, base_offset=at) for at in range(3))
    content[8:12] = struct.pack(">i", -1)
    (directory / f"{42:020d}-{7:010d}.checkpoint").write_bytes(content)
    rows = read(tmp_path, "cluster_metadata")
    sound = [row for row in rows if row["damage"] is None]
    assert [(row["log_offset"], row["segment"]) for row in sound] == [(1, 42), (2, 42)]
    (lost,) = [row for row in rows if row["damage"]]
    assert (lost["position"], lost["segment"], lost["log_offset"]) == (0, 42, None)
    assert "@0: LOG002: found batch length -1" in lost["damage"]


def test_legacy_messages_behind_damage_are_found_by_their_own_checksum(tmp_path):
    root = golden.unpack("legacy-2.8.2", tmp_path)
    log = root / "data" / "magic-1-0" / LOG
    before = [row["offset"] for row in read(log, columns="offset")]
    content = bytearray(log.read_bytes())
    content[8:12] = struct.pack(">i", 5)
    log.write_bytes(content)
    assert offsets(read(log, columns="offset")) == before[1:]


@pytest.mark.parametrize("bit", range(8 * 8, 61 * 8, 5))
def test_any_flipped_bit_of_a_header_leaves_all_other_batches(partition, bit):
    directory, batches = partition
    at = batches[4].position + bit // 8
    byte = (directory / LOG).read_bytes()[at] ^ 0x80 >> bit % 8
    overwrite(directory, at, bytes([byte]))
    assert set(without(4)) <= set(offsets(read(directory, columns="offset")))


# ------------------------------------------------------------- what else is looked for in the log


@SPLITS
@pytest.mark.parametrize("index", ["there", "missing"])
def test_a_time_behind_damage_is_found(partition, size, index):
    directory, batches = partition
    overwrite(directory, batches[7].position + 8, struct.pack(">i", -1))
    if index == "missing":
        (directory / LOG).with_suffix(".index").unlink()
    at_200 = str(record(200, 0).timestamp)
    rows = read(directory, startingTimestamp=at_200, maxSplitBytes=size, columns="offset")
    assert offsets(rows) == [*range(200, 400)]
    rows = read(directory, endingTimestamp=at_200, maxSplitBytes=size, columns="offset")
    assert offsets(rows) == [at for at in without(7) if at < 200]


COMMITTED, ABORTED, OTHER, LOST = 1, 2, 3, 4
"""Producers, by what becomes of their transactions."""


def data(offset, producer_id):
    records = [SimpleRecord(offset, b"%d" % at, b"v" * 50) for at in range(10)]
    return encode_batch(
        records,
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        base_sequence=0,
        is_transactional=True,
    )


def marker(offset, producer_id, key):
    return encode_batch(
        [SimpleRecord(offset, key, b"\0\0\0\0\0\0")],
        base_offset=offset,
        producer_id=producer_id,
        producer_epoch=0,
        is_transactional=True,
        is_control=True,
    )


ABORT, COMMIT = b"\0\0\0\0", b"\0\0\0\1"


@pytest.mark.parametrize("length", [-1, 2**31 - 1, 70], ids=["none", "too long", "too short"])
@pytest.mark.parametrize("size", ["1", "128m"])
def test_read_committed_goes_on_behind_damage(tmp_path, length, size):
    directory = tmp_path / "t-0"
    directory.mkdir()
    broken = bytearray(encode_batch([SimpleRecord(0, b"k", b"v")] * 10, base_offset=11))
    broken[8:12] = struct.pack(">i", length)
    (directory / LOG).write_bytes(
        data(0, COMMITTED)
        + marker(10, COMMITTED, COMMIT)
        + broken
        + data(21, ABORTED)
        + data(31, OTHER)
        + marker(41, ABORTED, ABORT)
        + marker(42, OTHER, COMMIT)
    )
    rows = read(tmp_path, isolationLevel="read_committed", maxSplitBytes=size, columns="offset")
    assert offsets(rows) == [*range(10), *range(31, 41)]


def test_a_transaction_whose_marker_is_lost_holds_readers_up(tmp_path):
    directory = tmp_path / "t-0"
    directory.mkdir()
    broken = bytearray(marker(20, LOST, ABORT))
    broken[8:12] = struct.pack(">i", -1)
    (directory / LOG).write_bytes(
        data(0, COMMITTED)
        + data(10, LOST)
        + broken
        + marker(21, COMMITTED, COMMIT)
        + data(22, COMMITTED)
        + marker(32, COMMITTED, COMMIT)
    )
    rows = read(tmp_path, isolationLevel="read_committed", columns="offset")
    assert offsets(rows) == [*range(10)]


# ------------------------------------------------------------------ what the disk does not give us


@pytest.fixture
def refused(partition, monkeypatch):
    """A second segment, of which the disk refuses each file; returns how, and its .log."""
    directory, _ = partition
    write_segment(directory, 400, 100)
    log = directory / f"{400:020d}.log"
    opened = Storage.open

    def with_error(number):
        def open_or_refuse(storage, path):
            if f"{400:020d}" in path:
                raise OSError(number, os.strerror(number), path)
            return opened(storage, path)

        monkeypatch.setattr(Storage, "open", open_or_refuse)
        return log

    return with_error


REFUSALS = pytest.mark.parametrize("number", [errno.EACCES, errno.EPERM, errno.EIO])


@REFUSALS
@pytest.mark.parametrize("size", ["1k", "128m"])
def test_a_log_that_may_not_be_read_is_damage_as_a_whole(partition, refused, number, size):
    directory, batches = partition
    log = refused(number)
    rows = read(directory, maxSplitBytes=size, columns="offset")
    assert offsets(rows) == [*range(400)]
    rows = read(directory, "batches", maxSplitBytes=size)
    assert len(rows) == len(batches) + 1
    text = f"{log}@0: found {os.strerror(number)}, expected a file that can be read"
    assert (rows[-1]["damage"], rows[-1]["segment"], rows[-1]["crc"]) == (text, 400, None)
    for table in ("records", "batches"):
        with pytest.raises(FormatError, match=f"^{re.escape(text)}$"):
            read(directory, table, mode="FAILFAST", maxSplitBytes=size)
    (finding,) = [row for row in read(directory, "findings") if row["path"] == str(log)]
    assert (finding["id"], finding["found"]) == ("DIR001", os.strerror(number))


def test_a_time_is_looked_for_where_the_disk_lets_us(partition, refused):
    directory, _ = partition
    refused(errno.EACCES)
    rows = read(directory, startingTimestamp=str(record(390, 0).timestamp), columns="offset")
    assert offsets(rows) == [*range(390, 400)]
    assert read(directory, startingTimestamp=str(record(450, 0).timestamp)) == []


def test_what_was_committed_is_not_guessed(partition, refused):
    directory, _ = partition
    log = refused(errno.EACCES)
    message = f"{log}: Permission denied: what was committed is not known without it"
    with pytest.raises(StorageError, match=f"^{re.escape(message)}$"):
        read(directory, isolationLevel="read_committed")


def test_an_index_that_may_not_be_read_has_no_rows_or_fails(partition, refused):
    directory, batches = partition
    refused(errno.EACCES)
    assert len(read(directory, "offset_index")) == len(batches) - 1
    with pytest.raises(DamageError, match=r"0400\.index: Permission denied$"):
        read(directory, "offset_index", mode="FAILFAST")


@pytest.mark.parametrize("table", ["records", "batches", "offset_index"])
def test_errors_that_may_pass_are_left_to_spark_which_tries_again(partition, refused, table):
    directory, _ = partition
    refused(errno.EMFILE)
    with pytest.raises(OSError, match="Too many open files"):
        read(directory, table)
