"""Transactions and producers across passes: what is left as literals, and by Kafka's Cleaner."""

from tests.kafka_log.cleaner.stories import RETENTION, Story
from tests.kafka_log.steps import (
    HighWatermark,
    LogStartOffset,
    RelativeOffset,
    RemoveExpiredProducers,
    RunPending,
    UpdateConfig,
)
from tests.oracle.client import Oracle

DAY_MS = 86_400_000

# ------------------------------------------------------------------------------------ aborted


def test_aborted_records_go_and_their_marker_stays_indexed(oracle: Oracle) -> None:
    (left,) = Story().write("T1(1,2) T2(2,3) T1(3,4) A1 C2 T1(2) C1 |").clean().reported(oracle)
    assert left.keys == "3 2"
    assert left.offsets == [3, 6, 7, 8, 9]
    assert left.aborted == [(1, 0, 6, 2)]


def test_an_aborted_record_does_not_supersede_a_committed_one(oracle: Oracle) -> None:
    (left,) = Story().write("(a,b) T1(a) A1 (c) |").clean().reported(oracle)
    assert left.keys == "a b c"


def test_interleaved_transactions_are_cleaned_round_by_round_with_a_small_map(
    oracle: Oracle,
) -> None:
    story = Story().write(
        "T1(1,2) T2(2,3) T1(3,4) C1 C2 T1(2,3) A1 T2(4,5) T1(5,6) C1 A2 T2(6,7) C2 |"
    )
    story.clean(entries=3).clean(entries=3).clean(RETENTION, entries=3)
    first, second, third = story.reported(oracle)
    bases = [0, 2, 4, 6, 7, 10, 13, 15, 16, 17, 19]
    assert (first.next_dirty, first.bases) == (4, bases)
    assert first.aborted == [(1, 8, 10, 11), (2, 11, 16, 17)]
    assert (second.next_dirty, second.bases, second.aborted) == (14, bases, [])
    assert third.next_dirty == 20
    assert third.bases == [base for base in bases if base not in {10, 16}]


def test_an_abort_in_a_later_segment_lets_the_data_go_at_once(oracle: Oracle) -> None:
    story = Story().write("T1(1,2) T2(3) | A1 T1(4) C1 C2 |").clean().clean(checkpoint=0)
    first, second = story.reported(oracle)
    assert (first.keys, first.offsets) == ("3 4", [2, 3, 4, 5, 6])
    assert second.keys == "3 4"


def test_only_the_first_segment_is_cleaned_and_its_aborted_data_goes(oracle: Oracle) -> None:
    """The index of the segment behind it is asked, which holds the marker."""
    story = Story(min_compaction_lag_ms=500).write("T1(1) T2(2) |")
    story.write("T1(3) A1 C2 |", at=1000).clean(1000).clean(2000)
    first, second = story.reported(oracle)
    assert (first.next_dirty, first.keys, first.bases) == (2, "2 3", [1, 2, 3, 4])
    assert first.aborted == [(1, 0, 3, 1)]
    assert (second.next_dirty, second.keys, second.empty) == (5, "2", [2])


def test_an_abort_marker_leaves_in_the_third_pass(oracle: Oracle) -> None:
    story = Story().write("T1(1) T1(2,3) A1 T1(3) C1 |")
    story.clean().clean(checkpoint=0).clean(RETENTION - 1, checkpoint=0)
    story.clean(RETENTION, checkpoint=0)
    passes = story.reported(oracle)
    assert [left.offsets for left in passes] == [[3, 4, 5], [3, 4, 5], [3, 4, 5], [4, 5]]
    assert [left.horizons for left in passes] == [{}, {3: 1000}, {3: 1000}, {}]
    assert [left.aborted for left in passes] == [[(1, 0, 3, 4)], [], [], []]
    assert [any(".txnindex" in name for name in left.files) for left in passes[:1]] == [True]


def test_the_aborted_index_is_gone_as_a_file_once_no_batch_of_it_is_met(oracle: Oracle) -> None:
    story = Story(file_delete_delay_ms=0).write("T1(1) A1 T1(3) C1 |").clean()
    story.clean(checkpoint=0).step(RunPending()).clean(checkpoint=0)
    passes = story.reported(oracle)
    assert passes[0].files[f"{0:020d}.txnindex"] == 34
    assert f"{0:020d}.txnindex" not in passes[1].files


def test_an_idle_aborter_keeps_an_empty_batch_and_its_marker_for_ever(oracle: Oracle) -> None:
    story = Story().write("T1(1) | A1 |").clean()
    for i in range(1, 4):
        story.clean(i * RETENTION, checkpoint=0)
    for left in story.reported(oracle):
        assert (left.lasts, left.empty, left.keys) == ([0, 1], [0], "")
        assert left.aborted == [(1, 0, 1, 2)]
        assert left.horizons == {}


def test_an_aborted_transaction_stays_indexed_while_its_empty_batch_exists(
    oracle: Oracle,
) -> None:
    story = Story().write("T1(1) A1 | (2) |").clean().write("T1(3) C1 |").clean(checkpoint=0)
    story.clean(checkpoint=0).clean(RETENTION, checkpoint=0)
    passes = story.reported(oracle)
    assert [left.lasts for left in passes] == [[0, 1, 2], [1, 2, 3, 4], [1, 2, 3, 4], [2, 3, 4]]
    assert [left.empty for left in passes] == [[0], [], [], []]
    assert [left.aborted for left in passes] == [[(1, 0, 1, 2)], [(1, 0, 1, 2)], [], []]


def test_the_last_sequence_of_an_aborter_is_remembered_by_an_empty_batch(oracle: Oracle) -> None:
    story = Story().write("T1(1,2,3) A1 |").clean().write("T1(1) C1 |").clean(checkpoint=0)
    first, second = story.reported(oracle)
    assert (first.lasts, first.empty, first.sequences) == ([2, 3], [2], {1: 2})
    assert (second.lasts, second.sequences) == ([3, 4, 5], {1: 3})


def test_a_kept_index_entry_is_the_old_one_byte_for_byte(oracle: Oracle) -> None:
    """With the last stable offset of its time, though what held it back has ended."""
    (left,) = Story().write("T2(2) T1(1) A1 C2 T1(4) C1 |").clean().reported(oracle)
    assert left.aborted == [(1, 1, 2, 0)]


def test_an_entry_moves_into_the_group_that_holds_its_marker(oracle: Oracle) -> None:
    story = Story().write("T1(1) | (2) | A1 (3) | T1(4) C1 |")
    story.step(UpdateConfig(story.config | {"segment.bytes": 150})).clean()
    (left,) = story.reported(oracle)
    assert left.segments == [0, 2, 4, 6]
    assert left.files[f"{2:020d}.txnindex"] == 34
    assert f"{0:020d}.txnindex" not in left.files


# ---------------------------------------------------------------------------------- committed


def test_a_commit_marker_stays_until_its_data_is_gone_and_its_horizon_is_past(
    oracle: Oracle,
) -> None:
    story = Story().write("T1(1) T1(2,3) C1 T1(2) C1 |").clean().write("T1(1,3) C1 |")
    story.clean(checkpoint=0).clean(checkpoint=0).clean(9 * RETENTION, checkpoint=0)
    passes = story.reported(oracle)
    assert [left.keys for left in passes] == ["1 3 2", "2 1 3", "2 1 3", "2 1 3"]
    assert [left.offsets for left in passes] == [
        [0, 2, 3, 4, 5],
        [3, 4, 5, 6, 7, 8],
        [3, 4, 5, 6, 7, 8],
        [4, 5, 6, 7, 8],
    ]
    assert passes[2].horizons == {3: RETENTION}


def test_the_empty_batch_of_a_live_producer_keeps_its_commit_marker(oracle: Oracle) -> None:
    story = Story().write("T1(2,3) C1 T2(2) C2 T2(3) C2 |").clean().clean(checkpoint=0)
    story.write("T1(1) C1 |").clean(checkpoint=0).clean(checkpoint=0)
    story.clean(RETENTION, checkpoint=0)
    passes = story.reported(oracle)
    assert [left.empty for left in passes] == [[1], [1], [], [], []]
    assert [2 in left.offsets for left in passes] == [True, True, True, True, False]
    assert [left.horizons for left in passes] == [{}, {}, {}, {2: RETENTION}, {}]


def test_a_committed_transaction_over_two_segments_stays_with_its_marker(oracle: Oracle) -> None:
    story = Story().write("T1(1) | C1 |").clean().clean(RETENTION, checkpoint=0)
    for left in story.reported(oracle):
        assert left.offsets == [0, 1]
        assert left.horizons == {}


def test_a_key_like_that_of_a_marker_does_not_remove_the_marker(oracle: Oracle) -> None:
    story = Story().write("T1(1) T1(2,3) C1 T1(\0\0\0\1) C1 |")  # version 0, type 1
    (left,) = story.clean().reported(oracle)
    assert left.offsets == [0, 1, 2, 3, 4, 5]


def test_a_duplicate_marker_is_one_of_an_empty_transaction(oracle: Oracle) -> None:
    story = Story().write("T1(1) C1 C1 T1(2) A1 A1 T1(3) C1 |").clean()
    story.clean(RETENTION, checkpoint=0).clean(2 * RETENTION, checkpoint=0)
    first, second, third = story.reported(oracle)
    assert first.aborted == [(1, 3, 4, 5)]
    assert first.horizons == {2: RETENTION, 5: RETENTION}
    assert second.offsets == [0, 1, 4, 6, 7]
    assert second.horizons == {4: 2 * RETENTION}
    assert third.offsets == [0, 1, 6, 7]


# ---------------------------------------------------------------------------------- producers


def test_last_sequences_survive_cleaning(oracle: Oracle) -> None:
    story = Story().write("I1(1,2,3) I2(3,1,4) I3(1,4) |").clean()
    story.write("I4(2) |").clean(checkpoint=0)
    first, second = story.reported(oracle)
    assert (first.lasts, first.keys, first.offsets) == ([2, 5, 7], "2 3 1 4", [1, 3, 6, 7])
    assert first.sequences == {1: 2, 2: 2, 3: 1}
    assert (second.lasts, second.keys, second.empty) == ([2, 5, 7, 8], "3 1 4 2", [2])
    assert second.sequences == {1: 2, 2: 2, 3: 1, 4: 0}


def test_a_resent_batch_is_known_after_cleaning_and_recovery(oracle: Oracle) -> None:
    """An empty batch is all that is left of producer 1, and enough: a resend is not appended."""
    (left,) = Story().write("I1(1,2,3) (1,2,3) |").clean().reported(oracle)
    assert left.empty == [2]
    again = Story().file(f"{0:020d}.log", b"".join(bytes(each.raw) for each in left.batches))
    again.arguments = {"clean_shutdown": False}
    (after,) = again.write("I1(1,2,3) (4) |").clean().reported(oracle)
    assert after.bases == [0, 3, 6]
    assert after.keys == "1 2 3 4"


def test_of_each_producer_one_batch_is_kept_for_its_last_sequence(oracle: Oracle) -> None:
    (left,) = Story().write("(0) I1(0) I2(0) I3(0) I2(1) |").clean().reported(oracle)
    assert (left.lasts, left.offsets, left.empty) == ([1, 3, 4], [3, 4], [1])


def test_a_producer_that_goes_on_in_the_active_segment_keeps_no_empty_batch(
    oracle: Oracle,
) -> None:
    (left,) = Story().write("I1(a) (a) | I1(b)").clean().reported(oracle)
    assert left.bases == [1, 2]


def test_batches_that_all_begin_at_sequence_0_are_told_by_their_offset(oracle: Oracle) -> None:
    """As a coordinator writes them: only the one at the last data offset stays when it is empty."""
    story = Story().write("K1(1) C1 K1(2) C1 K1(1) C1 |").clean()
    story.write("(1) |").clean(checkpoint=0).clean(RETENTION, checkpoint=0)
    first, second, third = story.reported(oracle)
    assert (first.lasts, first.empty) == ([1, 2, 3, 4, 5], [])
    assert (second.lasts, second.empty) == ([1, 2, 3, 4, 5, 6], [4])
    assert second.horizons == {1: RETENTION}
    assert (third.lasts, third.empty) == ([2, 3, 4, 5, 6], [4])


def test_an_expired_producer_keeps_no_empty_batch(oracle: Oracle) -> None:
    story = Story().write("I1(a) (a) |").clean()
    story.arguments = {"producer_id_expiration_ms": DAY_MS}
    story.step(RemoveExpiredProducers(), at=DAY_MS).clean(DAY_MS, checkpoint=0)
    first, second = story.reported(oracle)
    assert (first.lasts, first.empty) == ([0, 1], [0])
    assert second.lasts == [1]


# ----------------------------------------------------------------- transaction version 2


def test_of_transactions_of_version_2_the_last_marker_is_kept_empty(oracle: Oracle) -> None:
    story = Story().write("T1(a) C1+ T1(b) C1+ T1(c) A1+ |").clean()
    for i in range(1, 4):
        story.clean(i * RETENTION, checkpoint=0)
    passes = story.reported(oracle)
    assert [left.lasts for left in passes] == [
        [0, 1, 2, 3, 5],
        [0, 1, 2, 3, 5],
        [0, 1, 2, 3, 5],
        [0, 1, 2, 3, 5],
    ]
    assert [left.horizons for left in passes] == [{}, {5: 2 * RETENTION}, {}, {}]
    assert [left.empty for left in passes] == [[], [], [5], [5]]
    header = passes[-1].batch(5).header
    assert (header.size_in_bytes, header.attributes, header.record_count) == (61, 0x30, 0)
    assert header.producer_epoch == 3
    assert passes[-1].aborted == []


def test_a_producer_of_version_2_has_no_data_offset_between_transactions(oracle: Oracle) -> None:
    story = Story().write("T1(a) C1+ (a) |").clean().clean(checkpoint=0)
    story.clean(RETENTION, checkpoint=0)
    first, second, third = story.reported(oracle)
    assert first.state["producers"][0]["last_offset"] == -1
    assert (first.lasts, first.horizons) == ([1, 2], {})
    assert (second.lasts, second.horizons) == ([1, 2], {1: RETENTION})
    assert (third.lasts, third.empty) == ([1, 2], [1])


def test_an_empty_control_batch_goes_when_its_producer_writes_again(oracle: Oracle) -> None:
    story = Story().write("T1(a) A1+ (a) |").clean().clean(checkpoint=0)
    story.clean(RETENTION, checkpoint=0).write("T1(b) C1+ |").clean(RETENTION, checkpoint=0)
    passes = story.reported(oracle)
    assert [left.empty for left in passes] == [[], [], [1], []]
    assert passes[-1].lasts == [2, 3, 4]


def test_a_marker_alone_at_the_head_becomes_an_empty_control_batch(oracle: Oracle) -> None:
    """A producer expired and came back with only a marker: no data offset protects data."""
    story = Story().write("T1(1) C1 (2) (3) |")
    story.arguments = {"producer_id_expiration_ms": DAY_MS}
    story.step(HighWatermark()).step(LogStartOffset(RelativeOffset(offset=1)))
    story.step(RemoveExpiredProducers(), at=DAY_MS)
    story.write("C1 |", at=DAY_MS).clean(DAY_MS, checkpoint=1)
    story.clean(DAY_MS + RETENTION, checkpoint=1).clean(DAY_MS + 9 * RETENTION, checkpoint=1)
    passes = story.reported(oracle)
    assert [4 in left.empty for left in passes] == [False, True, True]
    assert passes[-1].state["producers"][0]["last_offset"] == -1


def test_a_transaction_that_is_open_at_the_end_holds_the_cleaner_back(oracle: Oracle) -> None:
    story = Story().write("(a) | (a) T1(b) | (a) |").clean().write("A1 |").clean()
    first, second = story.reported(oracle)
    assert first.done["first_uncleanable_dirty_offset"] == 2
    assert first.done["first_uncleanable_offset"] == 1
    assert (first.keys, first.next_dirty) == ("a a b a", 1)
    assert (second.lasts, second.empty) == ([2, 3, 4], [2])
    assert second.keys == "a"
