"""What blocks the cleaner: the smallest limit, named alike wherever it is reported."""

from dataclasses import replace
from pathlib import Path

import pytest

from kafka_log.cleaner.cleanable import Eligibility, LimitKind, cleanable_offsets, select
from kafka_log.cleaner.cleaner_thread import outlook
from kafka_log.cleaner.explain.explain import explain
from kafka_log.cleaner.reasons import BY_CODE
from kafka_log.disk.files import DiskFiles
from tests.kafka_log.cleaner.cleaners import new_cleaner
from tests.kafka_log.cleaner.test_cleaner import CONFIG, NOW, Topic

REASONS = {
    LimitKind.ACTIVE_SEGMENT: "not_cleanable_active_segment",
    LimitKind.OPEN_TRANSACTION: "not_cleanable_open_transaction",
    LimitKind.HIGH_WATERMARK: "not_cleanable_high_watermark",
    LimitKind.COMPACTION_LAG: "not_cleanable_compaction_lag",
}


@pytest.fixture
def topic(tmp_path: Path) -> Topic:
    return Topic(DiskFiles(tmp_path))


def fill(topic: Topic, *, is_open: bool) -> None:
    """Segments of one record each, at 0, 1 and 2; the active one begins at 3.

    If `is_open`, the record at 1 is of a transaction that does not end.
    """
    for offset in range(3):
        topic.put(("a", "1"), producer_id=7 if is_open and offset == 1 else -1)
        topic.roll()


@pytest.mark.parametrize(
    ("is_open", "high_watermark", "lag_ms", "checkpoint", "offset", "kind"),
    [
        (False, 3, 0, None, 3, LimitKind.ACTIVE_SEGMENT),  # of the last stable offset too
        (False, 2, 0, None, 2, LimitKind.HIGH_WATERMARK),
        (True, 3, 0, None, 1, LimitKind.OPEN_TRANSACTION),
        (True, 1, 0, None, 1, LimitKind.HIGH_WATERMARK),  # it is not there yet
        (False, 3, 50, 1, 1, LimitKind.COMPACTION_LAG),
        (False, 2, 50, 1, 1, LimitKind.COMPACTION_LAG),
        # The first young segment begins at the last stable offset:
        (False, 1, 50, 1, 1, LimitKind.HIGH_WATERMARK),
        (True, 3, 50, 1, 1, LimitKind.OPEN_TRANSACTION),
        # The smallest limit lies before what is dirty:
        (False, 1, 0, 2, 1, LimitKind.HIGH_WATERMARK),
        (False, 1, 50, 2, 1, LimitKind.HIGH_WATERMARK),
    ],
)
def test_the_smallest_limit_blocks_the_cleaner(
    topic: Topic,
    *,
    is_open: bool,
    high_watermark: int,
    lag_ms: int,
    checkpoint: int | None,
    offset: int,
    kind: LimitKind,
) -> None:
    fill(topic, is_open=is_open)
    log = topic.log
    log.update_high_watermark(high_watermark)
    log.update_config(replace(CONFIG, min_compaction_lag_ms=lag_ms))
    found = cleanable_offsets(log, checkpoint, NOW)
    assert (found.limit.offset, found.limit.kind) == (offset, kind)
    assert found.first_uncleanable_dirty_offset == max(checkpoint or 0, offset)
    assert found.limit.producer_id == (7 if kind is LimitKind.OPEN_TRANSACTION else None)
    assert found.limit.until_ms == (NOW + 50 if kind is LimitKind.COMPACTION_LAG else None)
    assert outlook(log, checkpoint, NOW).held_by == kind.value
    blocked: set[str] = set()
    explain(
        log,
        checkpoint,
        lambda rows: blocked.update(BY_CODE[code].text for code in rows.reason.tolist()),
        make_cleaner=lambda witness: new_cleaner(log.config, topic.clock, witness=witness),
        now_ms=NOW,
    )
    if offset < log.active_segment.base_offset:
        assert {each for each in blocked if each.startswith("not_cleanable")} == {REASONS[kind]}


@pytest.mark.parametrize(
    ("checkpoint", "ratio", "lag_ms", "expected"),
    [
        (3, 0.0, 2**63 - 1, Eligibility.NOTHING_DIRTY),
        (3, 0.0, 0, Eligibility.NOTHING_DIRTY),
        (2, 0.3, 2**63 - 1, Eligibility.DIRTY_RATIO),
        (2, 0.3, 0, Eligibility.DIRTY_RATIO),
        (2, 0.9, 2**63 - 1, Eligibility.NOT_DIRTY_ENOUGH),
        (2, 0.9, 0, Eligibility.COMPACTION_LAG),
    ],
)
def test_why_a_log_is_due_or_not(
    topic: Topic, checkpoint: int, ratio: float, lag_ms: int, expected: Eligibility
) -> None:
    fill(topic, is_open=False)
    log = topic.log
    log.update_high_watermark(3)
    log.update_config(
        replace(CONFIG, min_cleanable_dirty_ratio=ratio, max_compaction_lag_ms=lag_ms)
    )
    found = select(log, checkpoint, NOW + 1)
    assert (found.eligibility, found.is_eligible) == (expected, expected.is_eligible)
    assert outlook(log, checkpoint, NOW + 1).is_due == expected.is_eligible
