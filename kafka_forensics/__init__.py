"""The names that users import. The packages below are private: their modules may move.

>>> from kafka_forensics import LogDirectory, session
>>> log = LogDirectory(session(), "/var/lib/kafka/data")       # doctest: +SKIP
>>> log.records(topics="orders").count()                       # doctest: +SKIP

Spark: `session`, `register` (the data source `kafka_files`), `LogDirectory` (every table is a
method, and `audit()`), `values` (keys and values as text, JSON or Avro).

Log directories, without Spark: `audit` (a report of everything that is wrong), `assert_clean` (the
same in a test), `scan` (what is there), `read_transactions` (the transactions of a
partition directory, and its last stable offset).

Files, one function each: `LogFile` and `RecordScan` read a `.log` row by row or as columns;
`read_offset_index`, `read_time_index`, `read_transaction_index`, `read_producer_snapshot`,
`read_offset_checkpoint`, `read_leader_epoch_checkpoint`, `read_meta_properties`,
`read_partition_metadata` and `read_quorum_state` read the files beside it. Damage is a
`FormatError` with path, position, what was found and what was expected.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafka_format.checkpoint_file import read_offset_checkpoint
    from kafka_format.columnar.records import RecordScan
    from kafka_format.errors import FormatError
    from kafka_format.leader_epoch_file import read_leader_epoch_checkpoint
    from kafka_format.log_file import LogFile
    from kafka_format.offset_index import read_offset_index
    from kafka_format.partition_metadata import read_partition_metadata
    from kafka_format.producer_snapshot import read_producer_snapshot
    from kafka_format.properties_file import read_meta_properties
    from kafka_format.quorum_state import read_quorum_state
    from kafka_format.time_index import read_time_index
    from kafka_format.transaction_index import read_transaction_index
    from kafka_log.inventory.scan import scan
    from kafka_log.producers.transactions import read_transactions
    from pipelines import values
    from pipelines.audit.python import assert_clean, audit
    from pipelines.log_directory import LogDirectory
    from pipelines.session import session
    from pipelines.source.data_source import register

__all__ = [
    "FormatError",
    "LogDirectory",
    "LogFile",
    "RecordScan",
    "assert_clean",
    "audit",
    "read_leader_epoch_checkpoint",
    "read_meta_properties",
    "read_offset_checkpoint",
    "read_offset_index",
    "read_partition_metadata",
    "read_producer_snapshot",
    "read_quorum_state",
    "read_time_index",
    "read_transaction_index",
    "read_transactions",
    "register",
    "scan",
    "session",
    "values",
]

_HOMES = {
    "FormatError": "kafka_format.errors",
    "LogDirectory": "pipelines.log_directory",
    "LogFile": "kafka_format.log_file",
    "RecordScan": "kafka_format.columnar.records",
    "assert_clean": "pipelines.audit.python",
    "audit": "pipelines.audit.python",
    "read_leader_epoch_checkpoint": "kafka_format.leader_epoch_file",
    "read_meta_properties": "kafka_format.properties_file",
    "read_offset_checkpoint": "kafka_format.checkpoint_file",
    "read_offset_index": "kafka_format.offset_index",
    "read_partition_metadata": "kafka_format.partition_metadata",
    "read_producer_snapshot": "kafka_format.producer_snapshot",
    "read_quorum_state": "kafka_format.quorum_state",
    "read_time_index": "kafka_format.time_index",
    "read_transaction_index": "kafka_format.transaction_index",
    "read_transactions": "kafka_log.producers.transactions",
    "register": "pipelines.source.data_source",
    "scan": "kafka_log.inventory.scan",
    "session": "pipelines.session",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is used: reading a file does not load Spark."""
    if name == "values":
        return import_module("pipelines.values")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
