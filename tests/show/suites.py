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
    """Where the seed comes from."""


SUITES: dict[str, Suite] = {
    "cleaner": Suite(cleaned.show_planned, "cleaner/test_cleaner_oracle.py, a planned log"),
    "cleaner-life": Suite(cleaned.show_lived, "cleaner/test_cleaner_oracle.py, a seeded life"),
    "cleaner-snappy": Suite(cleaned.show_snappy, "cleaner/test_cleaner_oracle.py, in snappy"),
    "epochs": Suite(logs.show_epochs, "test_leader_epochs.py"),
    "explain": Suite(cleaned.show_explained, "cleaner/test_explain_oracle.py, a planned log"),
    "explain-life": Suite(cleaned.show_explained_life, "cleaner/test_explain_oracle.py, a life"),
    "fetch": Suite(opened.show_fetch, "test_validation_oracle.py, fetched batches"),
    "log": Suite(logs.show_log, "test_log_oracle.py"),
    "log-long": Suite(logs.show_long_log, "test_log_oracle.py, long lives"),
    "log-without-crashes": Suite(logs.show_log_without_crashes, "test_log_oracle.py"),
    "manager": Suite(cleaned.show_manager, "cleaner/test_states_oracle.py"),
    "offset-index": Suite(logs.show_offset_index, "indexes/test_index_files.py"),
    "producers": Suite(logs.show_producers, "test_producer_state.py"),
    "producers-long": Suite(logs.show_long_producers, "test_producer_state.py, 80 operations"),
    "recovery": Suite(opened.show_recovery, "test_recovery_oracle.py"),
    "retention": Suite(opened.show_retention, "test_retention_oracle.py"),
    "segment": Suite(logs.show_segment, "test_segment.py"),
    "time-index": Suite(logs.show_time_index, "indexes/test_index_files.py"),
    "transaction-index": Suite(logs.show_transaction_index, "indexes/test_index_files.py"),
    "validation": Suite(opened.show_append, "test_validation_oracle.py"),
    "validation-large": Suite(opened.show_large_append, "test_validation_oracle.py, large batches"),
}
