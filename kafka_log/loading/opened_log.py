"""Open a partition to rewrite it: it is loaded as by a starting broker.

    with opened_log(files, config, checkpointed, clean_shutdown=True, clock=clock) as opened:
        opened.log ...
        opened.close()       for a caller that uses the files afterwards

On a view of the files (ScratchFiles) the load may cut off a torn write, but nothing else: other
damage is an error.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, cast

from kafka_log.damage.resync import find_batch
from kafka_log.disk.files import DiskFiles, opened
from kafka_log.disk.scratch_files import ScratchFiles
from kafka_log.errors import DamagedLogError
from kafka_log.loading.journal import Journal
from kafka_log.loading.lost_data import losses_of
from kafka_log.loading.partition_recovery import RecoveryPlan, load_directory
from kafka_log.names import live_base_offsets, parse_file_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafka_log.checkpoints import Checkpointed
    from kafka_log.clock import Clock
    from kafka_log.config.log_config import LogConfig
    from kafka_log.disk.files import Files
    from kafka_log.loading.partition_recovery import LoadedPartition
    from kafka_log.log.unified_log import PartitionLog


@dataclass(slots=True, kw_only=True)
class OpenedLog:
    """A partition as a broker holds it after its start, with the checkpointed high watermark."""

    loaded: LoadedPartition
    cut_bytes: int = 0
    """The bytes of a torn write that the load cut off."""
    is_closed: bool = False

    @property
    def log(self) -> PartitionLog:
        return self.loaded.log

    def close(self) -> None:
        self.loaded.close()
        self.is_closed = True


@contextlib.contextmanager
def opened_log(
    files: Files,
    config: LogConfig,
    checkpointed: Checkpointed,
    *,
    clean_shutdown: bool,
    clock: Clock,
) -> Iterator[OpenedLog]:
    """Load a partition; at the end close its files, as a crash does, unless it was closed.

    An unknown high watermark is the log end. Raises LogError if a restart would cut off data.
    """
    journal = Journal()
    with files.keeping() if isinstance(files, ScratchFiles) else contextlib.nullcontext():
        last_run = checkpointed.last_run(clean_shutdown=clean_shutdown)
        loaded = load_directory(files, config, last_run, clock=clock, journal=journal)
    opening = OpenedLog(loaded=loaded)
    try:
        if isinstance(files, ScratchFiles):  # files on disk were checked before, on a view
            opening.cut_bytes = _cut_bytes(files, journal, loaded)
        known = checkpointed.high_watermark
        loaded.log.update_high_watermark(loaded.log_end_offset if known is None else known)
        yield opening
    finally:
        if not opening.is_closed:
            loaded.close_handlers()


def _cut_bytes(files: ScratchFiles, journal: Journal, loaded: LoadedPartition) -> int:
    """Count the bytes that the load cut off. Raises LogError if they are not a torn write."""
    plan = RecoveryPlan(directory=files.directory, files=files, journal=journal, loaded=loaded)
    lost = losses_of(plan).bytes
    cuts = [entry for entry in journal.entries if entry.position is not None]
    if not lost or not cuts:
        return lost
    beneath = DiskFiles(files.directory)
    name, position = cuts[0].file, cuts[0].position or 0
    is_last = parse_file_name(name).offset == live_base_offsets(beneath.names())[-1]
    with opened(beneath, name) as file:
        following = find_batch(cast("BinaryIO", file.reader()), position + 1)
    if is_last and following is None:
        return lost
    raise DamagedLogError(
        f"{beneath.path(name)}@{position}: found damage ({cuts[0].why}) where a restart would"
        f" truncate the log and lose {lost} bytes, expected a log without damage; see `recover`, or"
        " use --skip-damaged"
    )
