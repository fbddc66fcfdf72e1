"""A cleaner made of loose settings, as tests give them, and the batches that one leaves."""

from collections.abc import Callable
from typing import Any

from kafka_format.batch import RecordBatch
from kafka_format.log_file import LogFile
from kafka_log.cleaner.cleaner import Cleaner
from kafka_log.cleaner.settings import CleanerSettings
from kafka_log.cleaner.witness import Witness
from kafka_log.clock import Clock
from kafka_log.config.log_config import LogConfig
from kafka_log.log.unified_log import PartitionLog


def new_cleaner(
    config: LogConfig,
    clock: Clock,
    *,
    witness: Witness | None = None,
    check_done: Callable[[], object] = lambda: None,
    **settings: Any,
) -> Cleaner:
    chosen = CleanerSettings(**settings)
    return Cleaner(config, clock, chosen, witness=witness, check_done=check_done)


def batches_of(log: PartitionLog) -> list[RecordBatch]:
    """The batches of magic 2 of a log."""
    found: list[RecordBatch] = []
    for segment in log.log_segments:
        data = segment.log.read_exactly(0, segment.size)
        found += [each for each in LogFile(data).batches() if isinstance(each, RecordBatch)]
    return found
