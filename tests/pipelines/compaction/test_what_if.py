"""Several settings over a directory: what stays is what a live cleaner left, totals are sums."""

import pytest

from kafka_log.config.settings import SettingsError
from kafka_log.errors import LogError
from pipelines.compaction.what_if import AS_IT_IS, compare, reduction, totals
from tests.golden import earlier

LAG = {"min.compaction.lag.ms": 10**12}


@pytest.fixture(scope="module")
def log_dir(tmp_path_factory):
    return earlier.log_dir(tmp_path_factory.mktemp("what-if"))


def test_as_it_is_comes_first_and_leaves_what_the_live_cleaner_left(log_dir):
    rows = compare([log_dir], {"later": LAG}, now_ms=earlier.NOW)
    assert list(dict.fromkeys(row["scenario"] for row in rows)) == [AS_IT_IS, "later"]
    kept = {
        (row["topic"], row["partition"]): row["records_after"]
        for row in rows
        if row["scenario"] == AS_IT_IS
    }
    assert kept == {place: len(offsets) for place, offsets in earlier.survivors().items()}
    for row in rows:
        if row["scenario"] == "later":
            assert row["records_after"] == row["records_before"]
            assert row["bytes_after"] == row["bytes_before"]
            assert row["due_at_ms"] > earlier.NOW


def test_totals_are_sums_and_the_first_that_is_due_speaks_for_all(log_dir):
    rows = compare([log_dir], {}, now_ms=earlier.NOW, topics=["compacted.c*"])
    assert len(rows) == 5
    (total,) = totals(rows)
    assert total["partitions"] == 5
    assert total["records_after"] == 5 * 46
    assert total["removed"] == {"superseded": 5 * 15}
    assert total["due_at_ms"] == earlier.NOW
    assert reduction(total) == 100 * (1 - total["bytes_after"] / total["bytes_before"])
    assert reduction(total | {"bytes_before": 0}) is None


def test_settings_that_kafka_would_refuse_are_refused(log_dir):
    with pytest.raises(SettingsError, match=r"delete\.retention\.ms"):
        compare([log_dir], {"wrong": {"delete.retention.ms": "soon"}}, now_ms=earlier.NOW)


def test_a_partition_that_cannot_be_cleaned_is_an_error_that_names_it(tmp_path):
    log_dir = earlier.log_dir(tmp_path)
    log = log_dir / "compacted.codecs-0" / f"{0:020}.log"
    data = bytearray(log.read_bytes())
    data[16] = 9  # a magic that is none
    log.write_bytes(data)
    with pytest.raises(LogError, match=r"compacted\.codecs-0"):
        compare([log_dir], {}, now_ms=earlier.NOW, topics=["compacted.codecs"])


def test_what_only_some_settings_compact_is_told_of_under_all_of_them(log_dir):
    """Without the cleaner a log stays as it is, but for what retention takes."""
    kept = {"cleanup.policy": "delete", "retention.ms": -1}
    gone = {"cleanup.policy": "delete", "retention.ms": 1}
    rows = compare(
        [log_dir], {"kept": kept, "gone": gone}, now_ms=earlier.NOW, topics=["compacted.c*"]
    )
    assert len(rows) == 15
    as_it_is, still, less = totals(rows)
    assert as_it_is["records_before"] == still["records_before"] == less["records_before"] == 5 * 61
    assert (still["records_after"], still["bytes_after"]) == (5 * 61, as_it_is["bytes_before"])
    assert (still["rounds"], still["removed"]) == (0, {})
    assert (still["due_at_ms"], still["due_reason"]) == (None, "cleanup.policy is delete")
    assert less["removed"] == {"retention": 5 * 61 - less["records_after"]}
    assert less["bytes_after"] < still["bytes_after"]
