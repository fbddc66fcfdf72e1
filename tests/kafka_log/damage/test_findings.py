"""The one table from errors to ids of findings."""

import pytest

from kafka_format.errors import (
    CorruptError,
    CrcMismatchError,
    FormatError,
    Location,
    MalformedRecordError,
    OverLimitError,
    TruncatedError,
    UnsupportedError,
)
from kafka_log.checks.rules import RULES
from kafka_log.damage import findings
from kafka_log.damage.walk import Gap

HERE = Location("a.log", 0)
ERROR = CorruptError(HERE, "something", "something else")


@pytest.mark.parametrize(
    ("kind", "in_a_batch", "in_a_snapshot"),
    [
        (CrcMismatchError, "LOG001", "SNP001"),
        (MalformedRecordError, "LOG003", "SNP002"),
        (CorruptError, "LOG003", "SNP002"),
        (TruncatedError, "LOG003", "SNP002"),
        (UnsupportedError, "LOG003", "SNP003"),
        (OverLimitError, "LOG006", "SNP003"),
        (FormatError, "LOG003", "SNP002"),
    ],
)
def test_every_error_has_an_id(kind, in_a_batch, in_a_snapshot):
    error = kind(HERE, "something", "something else")
    assert findings.batch_finding_id(error) == in_a_batch
    assert findings.snapshot_finding_id(error) == in_a_snapshot
    assert {in_a_batch, in_a_snapshot} <= set(RULES)


@pytest.mark.parametrize(
    ("reason", "at_end"),
    [("corrupt_batch", "LOG002"), ("truncated_batch", "LOG004"), ("zeroed_tail", "LOG005")],
)
def test_a_torn_batch_and_zeros_are_themselves_only_at_the_end_of_a_log(reason, at_end):
    gap = Gap(0, reason, ERROR, None, follows_damage=False)
    assert findings.gap_finding_id(gap, is_at_end=True) == at_end
    assert findings.gap_finding_id(gap, is_at_end=False) == "LOG002"
