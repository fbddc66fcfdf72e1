"""Drives our segment with the steps of segment_steps, as the oracle drives Kafka's."""

import zlib
from pathlib import Path
from typing import Any

from kafka_log.clock import FixedClock, Scheduler
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles, Files
from kafka_log.indexes.index_files import OffsetPosition
from kafka_log.log.leader_epochs import LeaderEpochFileCache
from kafka_log.producers.entry import CompletedTxn
from kafka_log.producers.producer_state import ProducerStateManager
from kafka_log.segment.file_records import FileRecords
from kafka_log.segment.log_segment import LogSegment, RollParams
from tests.kafka_log import segment_steps as steps


class OurSegment:
    """One of our segments. It takes the steps of a run."""

    def __init__(self, files: Files, run: steps.SegmentRun) -> None:
        self.files = files
        self.clock = FixedClock(run.time)
        self.base_offset = run.base_offset
        self.config = LogConfig(
            index_interval_bytes=run.config["index.interval.bytes"],
            segment_index_bytes=run.config["segment.index.bytes"],
        )
        self.segment: Any = None

    def step(self, step: steps.Step) -> Any:
        self.clock.now_ms = getattr(step, "time", None) or self.clock.now_ms
        return getattr(self, f"_{step.name()}")(step)

    def digests(self) -> dict[str, str]:
        """Return size and CRC-32 of every file, as the oracle does."""
        return {name: _digest(self.files.read(name, limit=2**24)) for name in self.files.names()}

    def _open(self, opened: steps.Open) -> None:
        more: dict[str, Any] = {}
        if opened.init_file_size is not None:
            more = {"init_file_size": opened.init_file_size, "preallocate": opened.preallocate}
        self.segment = LogSegment.open(
            self.files,
            self.base_offset,
            self.config,
            self.clock,
            file_already_exists=bool(opened.exists),
            **more,
        )

    def _append(self, append: steps.Append) -> list[int]:
        self.segment.append(append.largest_offset, append.data)
        return [self.segment.size]

    def _should_roll(self, asked: steps.ShouldRoll) -> list[bool]:
        params = RollParams(
            max_segment_ms=asked.max_segment_ms,
            max_segment_bytes=asked.max_segment_bytes,
            max_timestamp_in_messages=asked.max_timestamp,
            max_offset_in_messages=asked.max_offset,
            messages_size=asked.messages_size,
            now=self.clock(),
        )
        return [self.segment.should_roll(params)]

    def _read(self, read: steps.Read) -> Any:
        found = self.segment.read(
            read.offset, read.max_size, read.max_position, min_one_message=read.min_one_message
        )
        if found is None:
            return None
        data = found.records.read()
        whole = [*found.fetch_offset_metadata, len(data), zlib.crc32(data)]
        return [*whole, found.first_entry_incomplete]

    def _translate(self, asked: steps.Translate) -> Any:
        found = self.segment.translate_offset(asked.offset, asked.starting_file_position or 0)
        return None if found is None else list(found)

    def _find_timestamp(self, asked: steps.FindTimestamp) -> Any:
        found = self.segment.find_offset_by_timestamp(asked.timestamp, asked.starting_offset)
        if found is None:
            return None
        return [found.timestamp, found.offset, -1 if found.leader_epoch is None else found[2]]

    def _upper_bound(self, asked: steps.UpperBound) -> list[int]:
        start = OffsetPosition(0, asked.position)
        found = self.segment.fetch_upper_bound_offset(start, asked.size)
        return [-1 if found is None else found]

    def _state(self, _: steps.State) -> list[Any]:
        segment = self.segment
        return [  # in this order: asking for a timestamp creates the time index
            segment.size,
            segment.read_next_offset(),
            segment.max_timestamp_so_far(),
            -1 if (largest := segment.largest_record_timestamp()) is None else largest,
            segment.offset_of_max_timestamp_so_far(),
            segment.get_first_batch_timestamp(),
            segment.time_waited_for_roll(self.clock(), self.clock()),
            segment.has_overflow(),
        ]

    def _truncate_to(self, cut: steps.TruncateTo) -> list[int]:
        return [self.segment.truncate_to(cut.offset)]

    def _update_txn_index(self, update: steps.UpdateTxnIndex) -> None:
        completed = CompletedTxn(
            update.producer_id,
            update.first_offset,
            update.last_offset,
            is_aborted=update.is_aborted,
        )
        self.segment.update_txn_index(completed, update.last_stable_offset)

    def _collect_aborted(self, asked: steps.CollectAborted) -> list[Any]:
        found = self.segment.collect_aborted_txns(asked.fetch_offset, asked.upper_bound_offset)
        return [[list(aborted[1:]) for aborted in found.aborted_transactions], found.is_complete]

    def _sanity_check(self, check: steps.SanityCheck) -> None:
        self.segment.sanity_check(time_index_newly_created=check.time_index_newly_created)

    def _resize_indexes(self, resize: steps.ResizeIndexes) -> None:
        self.segment.resize_indexes(resize.size)

    def _become_inactive(self, _: steps.BecomeInactive) -> None:
        self.segment.on_become_inactive_segment()

    def _flush(self, _: steps.Flush) -> None:
        self.segment.flush()

    def _change_suffixes(self, change: steps.ChangeSuffixes) -> None:
        self.segment.change_file_suffixes(change.old, change.new)

    def _delete(self, _: steps.Delete) -> None:
        self.segment.delete_if_exists()

    def _recover(self, _: steps.Recover) -> list[Any]:
        producers = ProducerStateManager(self.files, self.config, self.clock)
        self.files.delete_if_exists("leader-epoch-checkpoint")
        epochs = LeaderEpochFileCache(self.files, Scheduler(self.clock))
        truncated = self.segment.recover(producers, epochs)
        return [truncated, producers.map_end_offset, sorted(producers.active_producers)]

    def _append_from_file(self, append: steps.AppendFromFile) -> list[int]:
        path = Path(append.source)
        records = FileRecords(DiskFiles(path.parent), path.name, file_already_exists=True)
        return [self.segment.append_from_file(records, append.start)]

    def _close(self, _: steps.Close) -> None:
        self.segment.close()

    def _crash(self, _: steps.Crash) -> None:
        self.segment.close_handlers()

    def _write_file(self, write: steps.WriteFile) -> None:
        if write.gone:
            self.files.delete_if_exists(write.file)
            return
        file = self.files.open(write.file, create=True)
        if write.data:
            file.write_at(write.position or 0, write.data)
        if write.size is not None:
            file.truncate(write.size)
        file.close()


def _digest(data: bytes) -> str:
    return f"{len(data)} {zlib.crc32(data)}"
