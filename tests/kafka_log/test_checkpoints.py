"""What the checkpoints hold of a partition after it was rewritten, and what they promise."""

import pytest

from kafka_log.checkpoints import (
    Checkpointed,
    LogBounds,
    after_clean_stop,
    after_cleaning,
    after_retention,
    within_log,
)
from kafka_log.names import FileKind

PLACE = ("orders", 0)
START = FileKind.LOG_START_OFFSET_CHECKPOINT
RECOVERY = FileKind.RECOVERY_POINT_CHECKPOINT
WATERMARK = FileKind.REPLICATION_OFFSET_CHECKPOINT
CLEANER = FileKind.CLEANER_OFFSET_CHECKPOINT


def before(recovery_point=None, high_watermark=None):
    return Checkpointed(*PLACE, recovery_point=recovery_point, high_watermark=high_watermark)


def offsets(changes):
    return {kind: rows[PLACE] for kind, rows in changes.items()}


@pytest.mark.parametrize(("start", "row"), [(5, None), (7, 7)])
def test_a_log_start_has_a_row_only_inside_a_segment(start, row):
    assert offsets(after_clean_stop(before(), LogBounds(5, start, 9)))[START] == row


def test_after_retention_no_offset_is_below_the_log_start():
    changes = after_retention(before(3, 4), LogBounds(5, 5, 9), roll_offset=None)
    assert offsets(changes) == {START: None, RECOVERY: 5, WATERMARK: 5}


def test_a_roll_has_flushed_what_lies_before_it():
    changes = after_retention(before(3, 9), LogBounds(9, 9, 9), roll_offset=9)
    assert offsets(changes) == {START: None, RECOVERY: 9, WATERMARK: 9}


def test_retention_adds_no_row_that_was_not_there():
    changes = after_retention(before(), LogBounds(5, 5, 9), roll_offset=None)
    assert offsets(changes) == {START: None}


def test_after_a_clean_stop_everything_is_flushed_and_the_watermark_is_in_the_log():
    changes = after_clean_stop(before(3, 99), LogBounds(0, 0, 9))
    assert offsets(changes) == {START: None, RECOVERY: 9, WATERMARK: 9}


def test_a_cleaning_writes_the_first_dirty_offset_and_drops_rows_without_a_log():
    changes = after_cleaning(before(), LogBounds(0, 0, 9), cleaner_offset=6, dropped=[("gone", 1)])
    assert changes[CLEANER] == {PLACE: 6, ("gone", 1): None}
    assert CLEANER not in after_cleaning(before(), LogBounds(0, 0, 9), cleaner_offset=None)


@pytest.mark.parametrize(("high_watermark", "taken"), [(3, 5), (7, 7), (12, 9)])
def test_a_high_watermark_is_within_the_log(high_watermark, taken):
    assert within_log(high_watermark, 5, 9) == taken


@pytest.mark.parametrize(
    ("end", "high_watermark", "recovery_point", "promise"),
    [
        (9, 9, 9, None),
        (9, 12, 12, (12, WATERMARK)),
        (9, 10, 12, (12, RECOVERY)),
        (9, None, None, None),
        (None, 12, 12, None),
        (0, 1, None, (1, WATERMARK)),
    ],
)
def test_a_checkpoint_beyond_the_log_end_means_that_records_are_missing(
    end, high_watermark, recovery_point, promise
):
    assert before(recovery_point, high_watermark).missing_data(end) == promise
