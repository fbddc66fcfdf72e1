"""The job `transactions`: rows of producers, transactions and transactional ids.

    producer            every producer of a partition, as a broker's DescribeProducers answers
    transaction         every transaction of a partition
    transactional_id    every id of a partition of `__transaction_state`
    damage              why rows may be missing; not a row of output

The partitions of `__transaction_state` are read first, by the caller; the other rows are those of a
task. A task yields the transactions before the producers.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kafka_format.coordinator_records import CoordinatorTopic
from kafka_format.errors import FormatError
from kafka_log.clock import FixedClock
from kafka_log.disk.files import DiskFiles
from kafka_log.errors import LogError
from kafka_log.loading.loaded_producers import LoadedProducer, read_producers
from kafka_log.names import DirectoryKind
from kafka_log.producers.hanging_transactions import DEFAULT_MAX_TIMEOUT_MS, KnownIds
from kafka_log.producers.transaction_history import TransactionHistory
from kafka_log.producers.transactional_ids import read_coordinator, status_name
from kafka_log.producers.transactions import EndedTransaction, OpenTransaction
from pipelines.source.tables.inventory import DIRECTORY_STATES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafka_log.inventory.cluster_metadata import ClusterMetadata
    from kafka_log.inventory.inventory import Inventory, Partition
    from kafka_log.producers.transaction_history import PartitionTransaction
    from kafka_log.producers.transactional_ids import Coordinator, CoordinatorState
    from kafka_log.producers.transactions import TransactionReport
    from pipelines.engine.partition_tasks import PartitionTask

Row = dict[str, Any]

TRANSACTION_STATE = CoordinatorTopic.TRANSACTION_STATE.value
_LONGEST = 2**63 - 1
_ABORT = "kafka-transactions.sh --bootstrap-server HOST:PORT abort"
"""HOST:PORT is for the operator to fill in; the rest is exact."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorLog:
    """A directory of `__transaction_state`, and the ids in it."""

    path: str
    partition: int
    directory_state: str
    coordinator: Coordinator

    def rows(self, now_ms: int) -> Iterator[Row]:
        """Yield one row per transactional id, by name."""
        for name, state in sorted(self.coordinator.states.items()):
            yield {
                "kind": "transactional_id",
                "transactional_id": name,
                "state": status_name(state.owner.status),
                "producer_id": state.owner.producer_id,
                "producer_epoch": state.owner.producer_epoch,
                "timeout_ms": state.timeout_ms,
                "partitions": [f"{topic}-{each}" for topic, each in sorted(state.owner.partitions)],
                "start_timestamp": state.start_timestamp,
                "age_ms": _age_ms(state, now_ms),
                "last_update_timestamp": state.last_update_timestamp,
                "directory_state": self.directory_state,
                "path": self.path,
            }


def _age_ms(state: CoordinatorState, now_ms: int) -> int | None:
    """Return for how long the transaction of an id is open or ending; None if there is none."""
    if not state.owner.partitions or state.start_timestamp < 0:
        return None
    return _since(state.start_timestamp, now_ms)


def _since(timestamp: int, now_ms: int) -> int:
    """Return the time since a timestamp, within 64 bits, whatever the log says."""
    return max(-_LONGEST, min(now_ms - timestamp, _LONGEST))


def coordinator_logs(
    partitions: Iterable[Partition], *, all_directories: bool = False
) -> Iterator[CoordinatorLog | tuple[str, OSError]]:
    """Read the directories of `__transaction_state`; yield the error of one that cannot be read."""
    for partition in partitions:
        if partition.topic != TRANSACTION_STATE or partition.partition is None:
            continue
        if partition.state is not DirectoryKind.PARTITION and not all_directories:
            continue
        try:
            yield CoordinatorLog(
                path=partition.path,
                partition=partition.partition,
                directory_state=DIRECTORY_STATES[partition.state],
                coordinator=read_coordinator(DiskFiles(partition.path)),
            )
        except OSError as error:
            yield partition.path, error


def known_ids(logs: Iterable[CoordinatorLog], metadata: ClusterMetadata | None) -> KnownIds:
    """Return what the live directories say together."""
    live = DIRECTORY_STATES[DirectoryKind.PARTITION]
    return KnownIds.together(
        ((each.partition, each.coordinator) for each in logs if each.directory_state == live),
        None if metadata is None else metadata.partition_count(TRANSACTION_STATE),
    )


def read_coordinator_logs(inventory: Inventory) -> list[CoordinatorLog]:
    """Read the live directories of an inventory. Raises OSError."""
    logs = []
    for log in coordinator_logs(partition for _, partition in inventory.partitions()):
        if not isinstance(log, CoordinatorLog):
            raise log[1]
        logs.append(log)
    return logs


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTransactions:
    """A function over tasks. Picklable."""

    known: KnownIds
    max_timeout_ms: int = DEFAULT_MAX_TIMEOUT_MS
    producers: bool = True
    """Whether rows of producers are wanted."""
    ended: bool = True
    """Whether rows of transactions that have ended are wanted."""

    def __call__(self, task: PartitionTask) -> Iterator[Row]:
        """Yield the rows of a partition. Raises LogError without a segment, and OSError."""
        if task.is_metadata_log:
            return  # it has no producers
        history = TransactionHistory(
            DiskFiles(task.path),
            log_start_offset=task.log_start_offset or 0,
            high_watermark=task.high_watermark,
        )
        rows = _TransactionRows(self, task)
        unreplicated = []
        for txn in history.ended():
            if task.high_watermark is not None and (txn.marker_offset or 0) >= task.high_watermark:
                unreplicated.append(txn)  # one of them may hold the last stable offset
            elif self.ended:
                yield rows.row(txn)
        report = history.report
        rows.report = report
        if self.ended:
            yield from map(rows.row, unreplicated)
        for txn, opened in zip(history.unfinished(report), report.open, strict=True):
            yield rows.row(txn, opened)
        for problem in history.replay.damage:
            yield {"kind": "damage", "path": task.path, "message": str(problem)}
        if self.producers:
            yield from self._producer_rows(task, history)

    def _producer_rows(self, task: PartitionTask, history: TransactionHistory) -> Iterator[Row]:
        try:
            producers = read_producers(
                task.path,
                task.config,
                FixedClock(task.now_ms),
                log_start_offset=task.log_start_offset,
                is_clean=task.is_clean,
            )
        except (FormatError, LogError):  # damage, which the history has reported
            entries = history.replay.producers.values()
            expiration = task.config.producer_id_expiration_ms
            producers = [
                LoadedProducer(each, each.is_expired(task.now_ms, expiration)) for each in entries
            ]
        loaded = {each.entry.producer_id for each in producers}
        if not history.replay.damage:  # a broker reads nothing beyond damage
            producers += [  # dropped by an earlier load: their batches are still in the log
                LoadedProducer(entry, is_expired=True)
                for producer_id, entry in sorted(history.replay.producers.items())
                if producer_id not in loaded
            ]
        for entry, is_expired in producers:
            first_offset = entry.current_txn_first_offset
            yield {
                "kind": "producer",
                "topic": task.topic,
                "partition": task.partition,
                "producer_id": entry.producer_id,
                "producer_epoch": entry.producer_epoch,
                "last_sequence": entry.last_seq,
                "last_timestamp": entry.last_timestamp,
                "coordinator_epoch": entry.coordinator_epoch,
                "current_txn_start_offset": -1 if first_offset is None else first_offset,
                "expired": is_expired,
                "transactional_id": self.known.transactional_id(entry.producer_id),
                "directory_state": DIRECTORY_STATES[task.kind],
                "path": task.path,
            }


class _TransactionRows:
    """Builds the rows of the transactions of one partition."""

    def __init__(self, job: ReadTransactions, task: PartitionTask) -> None:
        self._job = job
        self._task = task
        self.report: TransactionReport | None = None
        """Known after the log was read to its end."""

    def row(self, txn: PartitionTransaction, opened: OpenTransaction | None = None) -> Row:
        task, known = self._task, self._job.known
        transactional_id = known.transactional_id(txn.producer_id)
        state, reason = self._state(txn, opened)
        start = txn.start_timestamp
        return {
            "kind": "transaction",
            "topic": task.topic,
            "partition": task.partition,
            "producer_id": txn.producer_id,
            "producer_epoch": txn.producer_epoch,
            "transactional_id": transactional_id,
            "state": state,
            "first_offset": txn.first_offset,
            "last_offset": txn.last_offset,
            "marker_offset": txn.marker_offset,
            "start_timestamp": start,
            "last_timestamp": txn.last_timestamp,
            "age_ms": _since(start, task.now_ms) if txn.is_open and start is not None else None,
            "timeout_ms": known.timeout_ms(transactional_id),
            "records": txn.records,
            "size_in_bytes": txn.size_in_bytes,
            "is_empty": txn.is_empty,
            "holds_last_stable_offset": self._is_holder(txn),
            "coordinator_epoch": txn.coordinator_epoch,
            "reason": reason,
            "abort_command": self._abort_command(txn) if state == "hanging" else None,
            "directory_state": DIRECTORY_STATES[task.kind],
            "path": task.path,
        }

    def _state(
        self, txn: PartitionTransaction, opened: OpenTransaction | None
    ) -> tuple[str, str | None]:
        if opened is None:
            return "aborted" if txn.is_aborted else "committed", None
        task, known = self._task, self._job.known
        reason = known.why_hanging(
            opened,
            (task.topic, task.partition),
            now_ms=task.now_ms,
            max_timeout_ms=self._job.max_timeout_ms,
        )
        if reason is not None:
            return "hanging", reason
        if known.missing is not None and txn.producer_id not in known.owners:
            return "open", f"unknown whether it hangs: {known.missing}"
        return "open", None

    def _is_holder(self, txn: PartitionTransaction) -> bool:
        holder = None if self.report is None else self.report.held_by
        if holder is None or txn.is_empty:
            return False
        marker = holder.last_offset if isinstance(holder, EndedTransaction) else None
        return (holder.producer_id, holder.first_offset, marker) == (
            txn.producer_id,
            txn.first_offset,
            txn.marker_offset,
        )

    def _abort_command(self, txn: PartitionTransaction) -> str:
        topic = shlex.quote(self._task.topic)
        return (
            f"{_ABORT} --topic {topic} --partition {self._task.partition}"
            f" --start-offset {txn.first_offset}"
        )


class Statistics:
    """Counts the transactions of something: a partition, or a transactional id."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(("open", "hanging", "committed", "aborted", "empty"), 0)
        self.records = 0
        self.size_in_bytes = 0

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a transaction. A marker without data counts as empty only."""
        self.counts["empty" if row["is_empty"] else row["state"]] += 1
        self.records += row["records"]
        self.size_in_bytes += row["size_in_bytes"]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def fields(self) -> Row:
        return {**self.counts, "records": self.records, "size_in_bytes": self.size_in_bytes}
