"""The offsets of a partition directory without a broker, and what blocks the last stable offset.

    log start          its checkpoint, or the first segment if that is higher
    recovery point     its checkpoint: the log was flushed up to here
    high watermark     its checkpoint, clamped to the log: what a starting broker knows
    last stable        the first offset of the oldest transaction that is open, or whose end is not
                       below the high watermark; otherwise the high watermark
    log end            after the last batch, by headers

Producers come from the newest snapshot that a starting broker would use and from the batch headers
after it; with `replay`, from all headers. A snapshot does not contain transactions that had ended:
if the high watermark is lower, only a replay finds those that a reader may not see yet.

Nothing is checked here. loading/ says what a restart after a crash would cut off.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafka_format.errors import FormatError, TruncatedError
from kafka_log.checkpoints import within_log
from kafka_log.disk.overlay_files import OverlayFiles
from kafka_log.errors import LogError
from kafka_log.loading.loaded_producers import load_producers, log_end_offset
from kafka_log.producers.transactions import OpenTransaction, read_transactions
from kafka_log.segment.log_segments import find_base_offsets

if TYPE_CHECKING:
    import os

    from kafka_log.clock import Clock
    from kafka_log.config.log_config import LogConfig
    from kafka_log.disk.files import Files
    from kafka_log.producers.producer_state import ProducerStateManager, TxnMetadata

_NO_WATERMARK = "no high watermark is known: the last stable offset assumes full replication"


class Holder(NamedTuple):
    """The transaction that blocks the last stable offset."""

    producer_id: int
    producer_epoch: int | None
    first_offset: int
    last_timestamp: int | None
    """The last timestamp of its producer; None if the transaction has ended."""
    end_offset: int | None
    """The offset of its marker, which is not replicated; None if the transaction is open."""


class PartitionOffsets(NamedTuple):
    """The offsets of one partition directory."""

    log_start_offset: int
    recovery_point: int | None
    high_watermark: int | None
    last_stable_offset: int | None
    """None if damage makes it unknown."""
    log_end_offset: int
    held_by: Holder | None
    note: str | None = None
    damage: FormatError | LogError | None = None
    """Why the producers could not be replayed."""


def read_offsets(
    directory: str | os.PathLike[str],
    config: LogConfig,
    clock: Clock,
    *,
    log_start_offset: int | None = None,
    recovery_point: int | None = None,
    high_watermark: int | None = None,
    replay: bool = False,
) -> PartitionOffsets:
    """Read the offsets of a directory. The arguments are the checkpoints' rows, None without one.

    Damage is part of the result. Raises LogError if there is no log, and OSError.
    """
    files = OverlayFiles(directory, clock)  # the producer state manager writes snapshots
    bases = find_base_offsets(files)
    end = log_end_offset(files, bases[-1])
    start = max(bases[0], log_start_offset or 0)
    if start > end:
        wiped = f"the log start {start} is beyond the log end {end}: a broker would empty the log"
        return PartitionOffsets(start, recovery_point, start, start, start, None, wiped)
    known = None if high_watermark is None else within_log(high_watermark, start, end)
    watermark = end if known is None else known
    try:
        if replay:
            stable, held_by = _by_replay(files, start, watermark)
        else:
            producers = load_producers(files, bases, config, clock, start=start, end=end)
            stable, held_by = _by_producers(producers, start, watermark)
    except (FormatError, LogError) as damage:
        return PartitionOffsets(start, recovery_point, known, None, end, None, damage=damage)
    note = _NO_WATERMARK if known is None else None
    return PartitionOffsets(start, recovery_point, known, stable, end, held_by, note)


def _by_replay(files: Files, start: int, watermark: int) -> tuple[int, Holder | None]:
    """Replay the log from its start. A torn end is the log end; other damage is raised."""
    report = read_transactions(files, log_start_offset=start, high_watermark=watermark)
    for problem in report.problems:
        if not isinstance(problem, TruncatedError):
            raise problem
    txn = report.held_by
    if isinstance(txn, OpenTransaction):
        epoch, last_timestamp = txn.producer_epoch, txn.last_timestamp
        holder = Holder(txn.producer_id, epoch, txn.first_offset, last_timestamp, None)
        return report.last_stable_offset, holder
    if txn is not None:
        holder = Holder(txn.producer_id, None, txn.first_offset, None, txn.last_offset)
        return report.last_stable_offset, holder
    return report.last_stable_offset, None


def _by_producers(
    producers: ProducerStateManager, start: int, watermark: int
) -> tuple[int, Holder | None]:
    producers.on_high_watermark_updated(watermark)
    first = producers.first_unstable_offset()
    if first is None or max(first, start) >= watermark:
        return watermark, None
    txn = next(
        txn
        for txn in (*producers.ongoing_txns, *producers.unreplicated_txns)
        if txn.first_offset == first
    )
    return max(first, start), _holder(producers, txn)


def _holder(producers: ProducerStateManager, txn: TxnMetadata) -> Holder:
    entry = producers.last_entry(txn.producer_id)
    if entry is None or txn.last_offset is not None:  # the producer may have moved on
        return Holder(txn.producer_id, None, txn.first_offset, None, txn.last_offset)
    epoch, last_timestamp = entry.producer_epoch, entry.last_timestamp
    return Holder(txn.producer_id, epoch, txn.first_offset, last_timestamp, None)
