"""Every cut and every flipped bit of a side file: the check ends, and finds what can be found."""

import struct

import pytest

from kafka_format.checksum import crc32c
from kafka_log.checks.finding import About
from kafka_log.checks.segments import side_files
from tests.kafka_format.damage import cuts, flips

ABOUT = About("some-0/file", "some", 0)
TIME = 1_700_000_000_000
PRODUCER = struct.pack(">qhiqiqiq", 7, 0, 4, 3, 1, TIME, -1, -1)
BODY = struct.pack(">i", 2) + PRODUCER * 2
SNAPSHOT = struct.pack(">hI", 1, crc32c(BODY)) + BODY
CHECKPOINT = b"0\n2\norders 0 12\norders 1 7\n"
EPOCHS = b"0\n2\n0 0\n3 12\n"
INDEX = struct.pack(">iiiiii", 5, 70, 9, 140, 12, 210)
TIMES = struct.pack(">qiqi", TIME, 5, TIME + 1, 9)
ABORTED = b"".join(struct.pack(">hqqqq", 0, 7, last - 2, last, 0) for last in (2, 9))


SLOTS = {
    "offset_index": (lambda data: side_files.check_offset_index(data, 0, ABOUT), INDEX, "IDX002"),
    "time_index": (lambda data: side_files.check_time_index(data, 0, ABOUT), TIMES, "TIX002"),
    "transaction_index": (
        lambda data: side_files.check_transaction_index(data, ABOUT),
        ABORTED,
        "TXN003",
    ),
}


@pytest.mark.parametrize("kind", SLOTS)
def test_a_cut_index_has_its_whole_entries_and_a_finding_for_the_rest(kind):
    check, data, rule = SLOTS[kind]
    whole = check(data)
    assert whole.findings == ()
    size = whole.entries.itemsize
    for end in range(len(data)):
        cut = check(data[:end])
        assert cut.entries.tolist() == whole.entries.tolist()[: end // size]
        assert [each.id for each in cut.findings] == ([rule] if end % size else [])


@pytest.mark.parametrize("kind", SLOTS)
def test_entries_of_a_flipped_index_are_all_there_or_a_finding_says_where_they_end(kind):
    check, data, _ = SLOTS[kind]
    for _, flipped in flips(data):
        checked = check(flipped)
        size = checked.entries.itemsize
        is_whole = len(checked.entries) == len(data) // size
        assert is_whole == (not checked.findings)
        assert is_whole or checked.findings[0].position == len(checked.entries) * size


def test_every_cut_and_flip_of_a_snapshot_is_found():
    assert side_files.check_producer_snapshot(SNAPSHOT, ABOUT).is_valid
    for data in (*cuts(SNAPSHOT), *(data for _, data in flips(SNAPSHOT))):
        checked = side_files.check_producer_snapshot(data, ABOUT)
        assert not checked.is_valid
        assert [each.id[:3] for each in checked.findings] == ["SNP"]
        assert len(checked.entries) <= 2


@pytest.mark.parametrize(
    ("check", "data", "rule"),
    [
        (side_files.check_offset_checkpoint, CHECKPOINT, "CKP001"),
        (side_files.check_leader_epochs, EPOCHS, "LEP001"),
    ],
)
def test_a_text_that_a_broker_refuses_has_one_finding_and_the_lines_that_are_rows(
    check, data, rule
):
    whole = check(data, ABOUT)
    assert (len(whole.entries), whole.is_valid, whole.findings) == (2, True, ())
    for changed in (*cuts(data), *(changed for _, changed in flips(data))):
        checked = check(changed, ABOUT)
        assert [each.id for each in checked.findings] == ([] if checked.is_valid else [rule])
        assert len(checked.entries) <= 3
        lines = changed.split(b"\n")
        if lines[2:] == data.split(b"\n")[2:]:  # the head alone changed: the rows are still rows
            assert checked.entries == whole.entries
