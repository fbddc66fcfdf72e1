"""Spark and processes over the rules of kafka_log.

audit/               the job `audit`
compaction/          the job `compact`
engine/              run tasks in this process, in processes or on Spark
export/              tables to Delta or Parquet
groups               the job `groups`
log_directory        LogDirectory: every table as a method, for notebooks
manifest             SHA-256 of what was read
metadata             the job `metadata`
offsets              the job `offsets`
partition_selection  by globs of topics, and by numbers
recovery             the job `recover`
report/              results as text and HTML
retention            the job `retain`
session              the SparkSession
source/              the data source `kafka_files`
transactions         the job `transactions`
values               keys and values as text, JSON or Avro
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.log_directory import LogDirectory
    from pipelines.source.data_source import register

__all__ = ["LogDirectory", "register"]

_LAZY_NAMES = {
    "LogDirectory": "pipelines.log_directory",
    "register": "pipelines.source.data_source",
}


def __getattr__(name: str) -> Any:
    """Import what needs Spark when it is first used: `dump` starts without Spark."""
    if name in _LAZY_NAMES:
        return getattr(import_module(_LAZY_NAMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
