"""What is cleaned, how far and into which segments: literals, and Kafka's Cleaner beside them."""

import pytest

from kafka_format.batch import encode_batch
from kafka_format.compression import Codec
from kafka_format.legacy import encode_legacy_batch
from kafka_format.record import SimpleRecord
from tests.kafka_log.cleaner.stories import RETENTION, CleanedLog, Story
from tests.kafka_log.steps import (
    DeleteOldSegments,
    HighWatermark,
    LogStartOffset,
    RelativeOffset,
    UpdateConfig,
)
from tests.kafka_log.workload import LONG_MAX, START
from tests.oracle.client import Oracle

CODECS = list(Codec)
ONE = 70  # bytes of a batch with one record of a key and a value of one byte each

# ------------------------------------------------------------------------------- which offsets


def _range(left: CleanedLog) -> tuple[int, ...]:
    names = ("first_dirty_offset", "first_uncleanable_dirty_offset", "first_uncleanable_offset")
    return tuple(left.done[name] for name in names)


def test_without_a_checkpoint_all_but_the_active_segment_is_dirty(oracle: Oracle) -> None:
    (left,) = Story().write("(a) (a) | (a)").clean().reported(oracle)
    assert _range(left) == (0, 2, 2)
    assert left.offsets == [1, 2]


@pytest.mark.parametrize("checkpoint", [0, 99])
def test_a_checkpoint_outside_of_the_log_is_the_log_start_and_written_anew(
    oracle: Oracle, checkpoint: int
) -> None:
    story = Story().write("(a) | (a) | (a) |").step(HighWatermark())
    story.step(LogStartOffset(RelativeOffset(offset=1))).clean(checkpoint=checkpoint)
    (left,) = story.reported(oracle)
    assert _range(left) == (1, 3, 3)
    assert left.done["force_update_checkpoint"]


def test_a_checkpoint_at_the_end_of_the_log_is_valid(oracle: Oracle) -> None:
    (left,) = Story().write("(a) (a) |").clean(checkpoint=2, only_if_eligible=True).reported(oracle)
    assert (left.done["first_dirty_offset"], left.done["force_update_checkpoint"]) == (2, False)
    assert not left.done["is_eligible"]


def test_with_the_log_start_inside_the_active_segment_nothing_is_cleanable(oracle: Oracle) -> None:
    story = Story().write("(a) (a) (a)").step(HighWatermark())
    story.step(LogStartOffset(RelativeOffset(offset=2))).clean(only_if_eligible=True)
    (left,) = story.reported(oracle)
    assert _range(left) == (2, 2, 0)
    assert (left.done["cleanable_bytes"], left.done["is_eligible"]) == (0, False)


def test_with_the_checkpoint_inside_the_active_segment_nothing_is_cleanable(
    oracle: Oracle,
) -> None:
    story = Story().write("(a) | (a) (a)").clean(checkpoint=2, only_if_eligible=True)
    (left,) = story.reported(oracle)
    assert _range(left) == (2, 2, 1)
    assert (left.done["cleanable_bytes"], left.done["is_eligible"]) == (0, False)


def test_nothing_is_cleaned_from_the_segment_of_the_high_watermark_on(oracle: Oracle) -> None:
    story = (
        Story().write("(a) (a) | (a) (a) | (a) (a) |").step(HighWatermark(RelativeOffset(offset=3)))
    )
    (left,) = story.clean(moves_high_watermark=False).reported(oracle)
    assert _range(left) == (0, 3, 2)
    assert left.offsets == [1, 2, 3, 4, 5]


def test_a_record_younger_than_the_lag_keeps_its_segment_and_those_behind_it(
    oracle: Oracle,
) -> None:
    story = Story(min_compaction_lag_ms=1000).write("(a) (a) |").write("(a) (a) |", at=500)
    story.write("(a) |", at=100)
    story.clean(1499).clean(1500)
    first, second = story.reported(oracle)
    assert (_range(first), first.offsets) == ((0, 2, 2), [1, 2, 3, 4])
    assert (_range(second), second.offsets) == ((2, 5, 5), [4])


def test_a_segment_without_timestamps_is_as_young_as_its_file(oracle: Oracle) -> None:
    old = encode_legacy_batch([SimpleRecord(-1, b"a", b"1")] * 2, magic=0)
    story = Story(min_compaction_lag_ms=1000).file(f"{0:020d}.log", old, modified=0)
    story.file(f"{0:020d}.index", b"").file(f"{0:020d}.timeindex", b"")
    story.arguments = {"recovery_point": 2}
    story.roll().clean(999, only_if_eligible=True).clean(1000)
    first, second = story.reported(oracle)
    assert (_range(first), first.done["is_eligible"]) == ((0, 0, 0), False)
    assert (_range(second), second.offsets) == ((0, 2, 2), [1])


def test_a_segment_with_the_first_dirty_offset_inside_counts_twice(oracle: Oracle) -> None:
    (left,) = Story().write("(a) (b) | (c) |").clean(checkpoint=1).reported(oracle)
    assert left.done["clean_bytes"] == 2 * ONE
    assert left.done["cleanable_bytes"] == 3 * ONE
    assert left.done["cleanable_ratio"] == 0.6


@pytest.mark.parametrize(("ratio", "is_eligible"), [(0.5, False), (0.49, True)])
def test_a_log_must_be_dirtier_than_its_ratio(
    oracle: Oracle, ratio: float, *, is_eligible: bool
) -> None:
    story = Story(min_cleanable_dirty_ratio=ratio, max_compaction_lag_ms=LONG_MAX)
    story.write("(a) | (b) |").clean(checkpoint=1, only_if_eligible=True)
    (left,) = story.reported(oracle)
    assert left.done["cleanable_ratio"] == 0.5
    assert left.done["is_eligible"] is is_eligible


@pytest.mark.parametrize(("at", "delay"), [(1000, 0), (1001, 1)])
def test_a_record_that_waited_longer_than_the_most_lag_forces_cleaning(
    oracle: Oracle, at: int, delay: int
) -> None:
    """It is the first batch's time that counts, and that of dirty segments alone."""
    story = Story(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=1000).write("(x) |", at=-9)
    story.write("(a)").write("(b) |", at=-50).clean(at, checkpoint=1, only_if_eligible=True)
    (left,) = story.reported(oracle)
    assert left.done["max_compaction_delay"] == delay
    assert left.done["is_eligible"] is bool(delay)


def test_a_log_without_dirty_bytes_is_not_forced(oracle: Oracle) -> None:
    story = Story(min_cleanable_dirty_ratio=0.0, max_compaction_lag_ms=1).write("(a) |").clean(99)
    story.clean(RETENTION, only_if_eligible=True)
    _, second = story.reported(oracle)
    assert not second.done["is_eligible"]
    assert "stats" not in second.done


def test_tombstones_past_their_horizon_wait_for_new_data(oracle: Oracle) -> None:
    story = Story(min_cleanable_dirty_ratio=0.01, max_compaction_lag_ms=LONG_MAX)
    story.write("(a!) (b) |").clean(only_if_eligible=True)
    story.clean(2 * RETENTION, only_if_eligible=True)
    story.write("(c) |").clean(2 * RETENTION, only_if_eligible=True)
    passes = story.reported(oracle)
    assert [left.keys for left in passes] == ["a! b", "a! b", "b c"]


def test_a_round_over_nothing_gives_0_as_kafkas_does(oracle: Oracle) -> None:
    (left,) = Story().write("(a)").clean().reported(oracle)
    assert left.next_dirty == 0


# ------------------------------------------------------------------------------ which records


@pytest.mark.parametrize("codec", CODECS)
def test_what_is_left_is_the_dict_of_what_was_written(oracle: Oracle, codec: Codec) -> None:
    story = Story(segment_bytes=3000)
    story.is_exact = codec is not Codec.SNAPPY
    latest: dict[str, int] = {}
    for i in range(60):
        keys = [str(each % (7 + i % 5)) for each in range(i, i + 4)]
        latest |= {key: 4 * i + at for at, key in enumerate(keys)}
        story.write(f"({','.join(keys)})", codec=codec, value=b"value " * 9)
    (left,) = story.write("|").clean().reported(oracle)
    assert sorted(left.offsets) == sorted(latest.values())
    assert {record.key.decode(): record.offset for record in left.records if record.key} == latest


def test_keys_written_again_vanish_from_all_segments_before(oracle: Oracle) -> None:
    story = Story().write("(1,2,3) | (4,5,6) | (7,8,9) | (1,3,5,7,9) |").clean()
    (left,) = story.reported(oracle)
    assert left.keys == "2 4 6 8 1 3 5 7 9"
    before = 3 * (61 + 3 * 9) + 61 + 5 * 9 + 5  # values have a digit, of the last batch two
    assert left.stats["bytes_read"] == before


def test_of_a_key_twice_in_a_batch_the_later_stays(oracle: Oracle) -> None:
    (left,) = Story().write("(a,b,a) |").clean().reported(oracle)
    assert (left.keys, left.offsets) == ("b a", [1, 2])


def test_a_key_of_the_clean_part_alone_stays(oracle: Oracle) -> None:
    (left,) = Story().write("(a) (b) | (b) |").clean(checkpoint=2).reported(oracle)
    assert left.offsets == [0, 2]


def test_duplicates_of_the_clean_part_alone_stay(oracle: Oracle) -> None:
    """The map holds the dirty part: what an earlier round did not see to stays as it is."""
    (left,) = Story().write("(a) (a) | (b) |").clean(checkpoint=2).reported(oracle)
    assert left.offsets == [0, 1, 2]


def test_records_without_a_key_go_and_are_counted(oracle: Oracle) -> None:
    story = Story(cleanup_policy="delete").write("(?,a,?) (?) (b,c) |")
    story.step(UpdateConfig(story.config | {"cleanup.policy": "compact"})).clean()
    (left,) = story.reported(oracle)
    assert (left.keys, left.offsets) == ("a b c", [1, 4, 5])
    assert left.stats["invalid_messages_read"] == 3


def test_records_without_a_key_stay_behind_what_the_map_covers(oracle: Oracle) -> None:
    story = Story(cleanup_policy="delete").write("(?,a,b,?,c,?) |").clean(entries=2)
    (left,) = story.reported(oracle)
    assert (left.next_dirty, left.keys) == (3, "a b ? c ?")
    assert left.stats["invalid_messages_read"] == 1


def test_an_empty_key_is_a_key_like_any_other(oracle: Oracle) -> None:
    (left,) = Story().write("() (a) () |").clean().reported(oracle)
    assert [(each.offset, each.key) for each in left.records] == [(1, b"a"), (2, b"")]


# --------------------------------------------------------------------------------- tombstones


def test_a_tombstone_removes_the_values_before_it(oracle: Oracle) -> None:
    story = Story().write("(0,1,2,3) | (0!) (2!) |").clean()
    (left,) = story.reported(oracle)
    assert left.keys == "1 3 0! 2!"


def test_a_superseded_tombstone_goes_at_once(oracle: Oracle) -> None:
    (left,) = Story().write("(a!) (a) |").clean().reported(oracle)
    assert (left.keys, left.horizons) == ("a", {})


def test_a_tombstone_stays_before_its_horizon_and_goes_at_it(oracle: Oracle) -> None:
    story = Story().write("(a) (a!) (b) |").clean().clean(RETENTION - 1, checkpoint=0)
    story.clean(RETENTION, checkpoint=0)
    passes = story.reported(oracle)
    assert [left.keys for left in passes] == ["a! b", "a! b", "b"]
    assert [left.horizons for left in passes] == [{1: RETENTION}, {1: RETENTION}, {}]


def test_without_retention_a_tombstone_still_lives_through_one_pass(oracle: Oracle) -> None:
    story = Story(delete_retention_ms=0).write("(a!) (b) |").clean().clean(checkpoint=0)
    first, second = story.reported(oracle)
    assert (first.keys, first.horizons) == ("a! b", {0: 0})
    assert second.keys == "b"


def test_a_horizon_counts_from_cleaning_not_from_the_record(oracle: Oracle) -> None:
    story = Story().write("(a!) (b) |", at=-100 * RETENTION).clean().clean(1, checkpoint=0)
    first, second = story.reported(oracle)
    assert first.horizons == second.horizons == {0: RETENTION}
    assert second.keys == "a! b"


def test_a_horizon_is_set_once_even_if_the_retention_changes(oracle: Oracle) -> None:
    story = Story().write("(a!,b) (c) |").clean()
    changed = story.config | {"delete.retention.ms": 50}
    story.step(UpdateConfig(changed)).clean(10, checkpoint=0)
    first, second = story.reported(oracle)
    assert first.horizons == second.horizons == {0: RETENTION}


def test_a_horizon_outlives_its_tombstone(oracle: Oracle) -> None:
    story = Story().write("(a!,b) (c) |").clean().clean(RETENTION, checkpoint=0)
    first, second = story.reported(oracle)
    assert (first.keys, second.keys) == ("a! b c", "b c")
    assert second.horizons == {0: RETENTION}
    assert second.records[0].timestamp == START


def test_a_tombstone_behind_what_the_map_covers_gets_a_horizon_too(oracle: Oracle) -> None:
    (left,) = Story().write("(a) (b) (c!) |").clean(entries=2).reported(oracle)
    assert (left.next_dirty, left.horizons) == (2, {2: RETENTION})


def test_the_batch_of_a_kept_tombstone_grows(oracle: Oracle) -> None:
    """Its time is the horizon, so the record's delta is no longer zero."""
    story = Story().write("(a!) (b) |")
    (left,) = story.clean().reported(oracle)
    assert left.stats["bytes_written"] == left.stats["bytes_read"] + 1
    header = left.batch(0).header
    assert (header.base_timestamp, header.max_timestamp) == (START + RETENTION, START)


# ------------------------------------------------------------------------------ the offset map


def test_a_full_map_ends_the_round_though_the_next_key_is_in_it(oracle: Oracle) -> None:
    story = Story().write("(a,b,a,c,a) |").clean(entries=2).clean(entries=2)
    first, second = story.reported(oracle)
    assert (first.next_dirty, first.offsets) == (2, [0, 1, 2, 3, 4])
    assert first.stats["map_bytes_read"] == 0
    assert (second.next_dirty, second.offsets) == (4, [1, 2, 3, 4])


def test_a_map_of_one_key_cleans_a_record_a_round(oracle: Oracle) -> None:
    story = Story().write("(0) (1) (0) (1) (0) |").clean(checkpoint=2, entries=1)
    story.clean(entries=1).clean(entries=1)
    passes = story.reported(oracle)
    assert [left.next_dirty for left in passes] == [3, 4, 5]
    assert [left.offsets for left in passes] == [[1, 2, 3, 4], [2, 3, 4], [3, 4]]


def test_what_was_read_and_written_is_counted_as_kafka_counts(oracle: Oracle) -> None:
    story = Story().write("(0) (1) (0) (1) (0) |").clean(checkpoint=2, entries=2)
    (left,) = story.reported(oracle)
    assert left.next_dirty == 4
    story = Story().write("(0) (1) (0) (1) (0) |").clean(checkpoint=2, entries=3)
    (left,) = story.reported(oracle)
    assert left.next_dirty == 5
    assert left.stats["messages_read"] == 5
    assert left.stats["messages_written"] == 2
    assert left.stats["invalid_messages_read"] == 0
    assert left.stats["map_messages_read"] == 5
    assert left.stats["buffer_utilization"] == 0.5


def test_a_partly_filled_map_knows_the_first_keys_alone(oracle: Oracle) -> None:
    story = Story().write("(0) (1) (2) (3) (4) (2) (4) |").clean(checkpoint=2, entries=2)
    (left,) = story.reported(oracle)
    assert (left.next_dirty, left.offsets) == (4, [0, 1, 2, 3, 4, 5, 6])


def test_a_segment_where_the_map_fills_up_is_rewritten_whole(oracle: Oracle) -> None:
    story = Story().write("(a,b) | (a,b,c,d) | (e) |").clean(entries=3)
    (left,) = story.reported(oracle)
    assert left.next_dirty == 5
    assert left.offsets == [2, 3, 4, 5, 6]
    assert left.segments == [0, 6, 7]


def test_tombstones_take_room_in_the_map(oracle: Oracle) -> None:
    (left,) = Story().write("(a!) (b!) (c!) |").clean(entries=2).reported(oracle)
    assert left.next_dirty == 2


def test_aborted_and_keyless_records_take_no_room_in_the_map(oracle: Oracle) -> None:
    story = Story(cleanup_policy="delete").write("T1(a,b,c) A1 (?,?) (d) (e) |").clean(entries=2)
    (left,) = story.reported(oracle)
    assert left.next_dirty == 8
    assert left.stats["map_messages_read"] == 8


def test_offsets_that_are_missing_at_a_segments_end_are_clean(oracle: Oracle) -> None:
    story = Story()
    for base in (0, 100):
        story.at(base, "a", last_offset=base + 49).roll()
    (left,) = story.clean().reported(oracle)
    assert (left.next_dirty, left.segments) == (150, [0, 150])
    assert left.offsets == [100]


def test_offsets_further_apart_than_four_bytes_are_told_apart(oracle: Oracle) -> None:
    far = 2**32 + 7
    (left,) = Story().write("(a,b)").at(far, "a").roll().clean().reported(oracle)
    assert (left.offsets, left.next_dirty) == ([1, far], far + 1)


# --------------------------------------------------------------------------------- the groups


def _group_limit(story: Story, **limits: int) -> Story:
    named = {name.replace("_", "."): value for name, value in limits.items()}
    return story.step(UpdateConfig(story.config | named))


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (10**6, [0, 6]),
        (3 * ONE, [0, 3, 6]),
        (3 * ONE - 1, [0, 2, 4, 6]),
        (1, [0, 1, 2, 3, 4, 5, 6]),
    ],
)
def test_segments_are_joined_up_to_the_size_of_one(
    oracle: Oracle, limit: int, expected: list[int]
) -> None:
    story = Story().write("(a) | (b) | (c) | (d) | (e) | (f) |")
    (left,) = _group_limit(story, segment_bytes=limit).clean().reported(oracle)
    assert left.segments == expected
    assert left.keys == "a b c d e f"


@pytest.mark.parametrize(("limit", "expected"), [(24, [0, 4, 8]), (12, [0, 2, 4, 6, 8])])
def test_segments_are_joined_up_to_the_entries_of_an_index(
    oracle: Oracle, limit: int, expected: list[int]
) -> None:
    """Two batches a segment have an entry of 12 bytes in the time index."""
    story = Story(index_interval_bytes=10**6).write("(a) (b) | (c) (d) | (e) (f) | (g) (h) |")
    (left,) = _group_limit(story, segment_index_bytes=limit).clean().reported(oracle)
    assert left.segments == expected


def test_sizes_before_cleaning_count_so_that_a_second_pass_joins_more(oracle: Oracle) -> None:
    story = Story().write("(a) (b) | (a) (b) | (a) (b) |")
    _group_limit(story, segment_bytes=2 * ONE).clean().clean(checkpoint=0)
    first, second = story.reported(oracle)
    assert first.segments == [0, 2, 4, 6]
    assert [first.files[f"{base:020d}.log"] for base in (0, 2)] == [0, 0]
    assert second.segments == [0, 6]


@pytest.mark.parametrize(
    ("last", "segments"), [(2**31 - 1, [0, 2**31]), (2**31, [0, 1, 2**31 + 1])]
)
def test_a_group_spans_no_more_offsets_than_four_bytes_tell(
    oracle: Oracle, last: int, segments: list[int]
) -> None:
    (left,) = Story().write("(a) |").at(last, "b").roll().clean().reported(oracle)
    assert left.segments == segments
    assert left.keys == "a b"


def test_empty_segments_are_joined_whatever_their_offsets(oracle: Oracle) -> None:
    story = Story()
    for base in (0, 2**31 + 5, 2**32 + 10):
        story.at(base, "a").roll()
    story.clean().clean(checkpoint=0)
    first, second = story.reported(oracle)
    assert first.segments == [0, 2**31 + 5, 2**32 + 10, 2**32 + 11]
    assert second.segments == [0, 2**32 + 10, 2**32 + 11]
    assert second.offsets == [2**32 + 10]


def test_a_group_is_named_by_its_first_segment_whatever_survives(oracle: Oracle) -> None:
    (left,) = Story().write("(a) | (a) | (a) (b) |").clean().reported(oracle)
    assert left.segments == [0, 4]
    assert left.bases == [2, 3]


def test_a_group_of_nothing_leaves_files_of_nothing(oracle: Oracle) -> None:
    story = Story().write("(a) | (a) |")
    (left,) = _group_limit(story, segment_bytes=1).clean().reported(oracle)
    names = [f"{0:020d}.{kind}" for kind in ("log", "index", "timeindex")]
    assert [left.files[name] for name in names] == [0, 0, 0]


def test_of_a_round_without_survivors_the_last_batch_stays_empty(oracle: Oracle) -> None:
    story = Story(cleanup_policy="delete").write("(?) | (?) | (?) |").clean()
    (left,) = story.reported(oracle)
    assert (left.segments, left.lasts, left.empty) == ([0, 3], [2], [2])


def test_snapshots_of_joined_segments_go_but_the_firsts_stays(oracle: Oracle) -> None:
    story = Story(file_delete_delay_ms=0).write("(a) | (b) | (c) | (d) |")
    _group_limit(story, segment_bytes=2 * ONE).clean()
    (left,) = story.reported(oracle)
    snapshots = sorted(int(name[:20]) for name in left.files if name.endswith(".snapshot"))
    assert left.segments == [0, 2, 4]
    assert snapshots == [2, 4]


def test_a_cleaned_segment_is_not_preallocated(oracle: Oracle) -> None:
    story = Story(preallocate=True, segment_bytes=5000).write("(a) (a) (b) |").clean()
    story.arguments = {"close": "crash"}
    (left,) = story.reported(oracle)
    assert left.files[f"{0:020d}.log"] == 2 * ONE
    assert left.files[f"{3:020d}.log"] == 5000


def test_a_segment_of_offsets_too_far_apart_is_split_and_cleaned_by_the_next_round(
    oracle: Oracle,
) -> None:
    far = 2**31 + 5
    data = encode_batch([SimpleRecord(START, b"a", b"1")])
    data += encode_batch([SimpleRecord(START, b"a", b"2", offset=far)], base_offset=far)
    story = Story()
    for suffix, content in (("log", data), ("index", b""), ("timeindex", b"")):
        story.file(f"{0:020d}.{suffix}", content)
    story.arguments = {"recovery_point": far + 1}
    first, second = story.roll().clean().clean().reported(oracle)
    assert "LogCleaningAborted" in str(first.done["error"])
    assert (first.segments, first.keys) == ([0, far, far + 1], "a a")
    assert (second.next_dirty, second.offsets) == (far + 1, [far])


# -------------------------------------------------------------------- policies and log starts


def test_compact_and_delete_removes_old_segments_and_goes_on_cleaning(oracle: Oracle) -> None:
    story = Story(cleanup_policy="compact,delete", retention_ms=5000)
    story.write("(a) (a) | (b) (b) |").clean()
    story.step(DeleteOldSegments(), at=6000).write("(c) (c) |", at=6000).clean(6000)
    first, second = story.reported(oracle)
    assert first.offsets == [1, 3]
    assert second.state["log_start_offset"] == 4
    assert second.offsets == [5]


def test_compact_alone_deletes_no_segment_for_its_age(oracle: Oracle) -> None:
    story = Story(retention_ms=5000).write("(a) |").step(HighWatermark())
    story.step(DeleteOldSegments(), at=9000).clean(9000)
    (left,) = story.reported(oracle)
    assert (left.keys, left.state["log_start_offset"]) == ("a", 0)


def test_segments_below_the_log_start_are_cleaned_with_the_others(oracle: Oracle) -> None:
    story = Story().write("(a) (b) | (a) |").step(HighWatermark())
    story.step(LogStartOffset(RelativeOffset(offset=1))).clean()
    (left,) = story.reported(oracle)
    assert _range(left)[0] == 1
    assert left.offsets == [1, 2]


def test_the_index_of_aborted_transactions_is_asked_from_the_log_start_on(oracle: Oracle) -> None:
    """Not from the first dirty offset: the cleaned part has aborted data as well."""
    story = Story().write("T1(a) T2(b) A1 | (c) | A2 T1(d) C1 |").clean(checkpoint=3)
    (left,) = story.reported(oracle)
    assert left.keys == "c d"
