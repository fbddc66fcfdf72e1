"""Sizes as people write them. How they are shown: tests/jobs/test_table.py."""

import pytest

from pipelines.report.text import parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("268435456", 268_435_456),
        ("256m", 268_435_456),
        ("256 MB", 268_435_456),
        (" 256MiB ", 268_435_456),
        ("1k", 1024),
        ("2G", 2_147_483_648),
        ("1tib", 1_099_511_627_776),
        ("", None),
        ("m", None),
        ("-1", None),
        ("1.5g", None),
        ("1q", None),
        ("\u0661", None),
    ],
)
def test_a_size_is_read_in_factors_of_1024(text, size):
    assert parse_size(text) == size
