"""The table of suites: which drawings can be shown, and the tests that make them."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.oracle.client import Oracle
from tests.show import cleaned, logs, opened
from tests.show.sides import Shown

Show = Callable[[Oracle, int, Path], Shown]


class Suite(NamedTuple):
    show: Show
    tests: str
    """The tests that draw the seed, under tests/kafka_log."""


SUITES: dict[str, Suite] = {
    "cleaner": Suite(cleaned.show_planned, "cleaner/test_cleaner_oracle.py, a planned log"),
    "cleaner-life": Suite(cleaned.show_lived, "cleaner/test_cleaner_oracle.py, a seeded life"),
    "cleaner-snappy": Suite(cleaned.show_snappy, "cleaner/test_cleaner_oracle.py, in snappy"),
    "epochs": Suite(logs.show_epochs, "log/test_leader_epochs.py"),
    "explain": Suite(
        cleaned.show_explained, "cleaner/explain/test_explain_oracle.py, a planned log"
    ),
    "explain-life": Suite(
        cleaned.show_explained_life, "cleaner/explain/test_explain_oracle.py, a life"
    ),
    "fetch": Suite(opened.show_fetch, "appends/test_validation_oracle.py, fetched batches"),
    "log": Suite(logs.show_log, "log/test_unified_log_oracle.py"),
    "log-long": Suite(logs.show_long_log, "log/test_unified_log_oracle.py, long lives"),
    "log-without-crashes": Suite(logs.show_log_without_crashes, "log/test_unified_log_oracle.py"),
    "manager": Suite(cleaned.show_manager, "cleaner/test_manager_oracle.py"),
    "offset-index": Suite(logs.show_offset_index, "indexes/test_index_files.py"),
    "producers": Suite(logs.show_producers, "producers/test_producer_state.py"),
    "producers-long": Suite(
        logs.show_long_producers, "producers/test_producer_state.py, 80 operations"
    ),
    "recovery": Suite(opened.show_recovery, "loading/test_partition_recovery_oracle.py"),
    "retention": Suite(opened.show_retention, "retention/test_plan_oracle.py"),
    "segment": Suite(logs.show_segment, "segment/test_log_segment.py"),
    "time-index": Suite(logs.show_time_index, "indexes/test_index_files.py"),
    "transaction-index": Suite(logs.show_transaction_index, "indexes/test_index_files.py"),
    "validation": Suite(opened.show_append, "appends/test_validation_oracle.py"),
    "validation-large": Suite(
        opened.show_large_append, "appends/test_validation_oracle.py, large batches"
    ),
}
