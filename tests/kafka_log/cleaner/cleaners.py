"""A cleaner made of loose settings, as tests give them."""

from collections.abc import Callable
from typing import Any

from kafka_log.cleaner.cleaner import Cleaner
from kafka_log.cleaner.settings import CleanerSettings
from kafka_log.cleaner.witness import Witness
from kafka_log.clock import Clock
from kafka_log.config.log_config import LogConfig


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
