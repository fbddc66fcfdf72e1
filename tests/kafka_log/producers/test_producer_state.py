"""Producer state: every rule against Kafka's ProducerStateManager, operation by operation."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_format.batch import HEADER_SIZE, assemble, decode_batch, encode_empty_batch
from kafka_format.columnar.headers import BatchScan
from kafka_format.errors import FormatError
from kafka_format.producer_snapshot import decode_producer_snapshot, iter_producer_snapshot
from kafka_log.appends.origin import AppendOrigin
from kafka_log.clock import FixedClock
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles
from kafka_log.errors import IllegalArgumentError, LogLoadError
from kafka_log.producers.producer_state import (
    CompletedTxn,
    ProducerReplay,
    ProducerStateEntry,
    ProducerStateManager,
)
from tests.kafka_log.producer_driver import ERRORS, Driver
from tests.kafka_log.producer_operations import (
    ABORT,
    COMMIT,
    START,
    ProducerRun,
    Recover,
    control_batch,
    data_batch,
    draw_run,
)
from tests.oracle.client import Oracle
from tests.show import seen_by

SEEDS_PER_CALL = 50


def compare(oracle: Oracle, folder: Path, seeds: range, **options: Any) -> dict[str, int]:
    """Compare Kafka's manager with ours, by rows and over columns; return the errors by class."""
    runs = [draw_run(seed, folder / f"{seed}-kafka", **options) for seed in seeds]
    seen: dict[str, int] = {}
    reported = oracle.call("producer_states", runs=runs, timeout=300)
    for seed, run, answers in zip(seeds, runs, reported, strict=True):
        for columnar in (False, True):
            ours = replace(run, path=folder / f"{seed}-{'columns' if columnar else 'rows'}")
            with seen_by("producers-long" if options else "producers", seed):
                _compare_run(seed, ours, answers, columnar=columnar, seen=seen)
                _compare_files(run.path, ours.path)
    return seen


def _compare_run(
    seed: int, run: ProducerRun, answers: list[Any], *, columnar: bool, seen: dict[str, int]
) -> None:
    driver = Driver(run, columnar=columnar)
    for place, (operation, expected) in enumerate(zip(run.operations, answers, strict=True)):
        where = f"seed {seed}, operation {place}: {operation}"
        found = driver.attempt(operation)
        if "error" in expected:
            name = expected["error"]["class"]
            assert "error" in found, f"{where}: Kafka says {expected['error']}"
            classes = {each.__name__ for each in type(found["error"]).__mro__}
            assert ERRORS[name] in classes, (where, expected["error"], found["error"])
            seen[name] = seen.get(name, 0) + 1
        else:
            assert "error" not in found, (where, found["error"])
            assert found["answer"] == expected["answer"], where
        assert found["state"] == expected["state"], where


def _compare_files(kafka: Path, ours: Path) -> None:
    assert sorted(path.name for path in ours.iterdir()) == sorted(
        path.name for path in kafka.iterdir()
    )
    for path in ours.iterdir():
        assert _content(path.read_bytes()) == _content((kafka / path.name).read_bytes())


def _content(data: bytes) -> object:
    """A snapshot's rows as a set; what does not decode, by its size (rows have an order there)."""
    try:
        snapshot = decode_producer_snapshot(data)
    except FormatError:
        return len(data)
    return sorted(iter_producer_snapshot(snapshot)), snapshot.trailing


@pytest.mark.parametrize("first", range(0, 300, SEEDS_PER_CALL))
def test_random_operations_leave_the_state_that_kafka_has(
    oracle: Oracle, memory_path: Path, first: int
) -> None:
    seen = compare(oracle, memory_path, range(first, first + SEEDS_PER_CALL))
    assert len(seen) >= 6, f"the operations are tame: {seen}"


def test_every_bit_of_a_marker_is_judged_as_kafka_judges_it(
    oracle: Oracle, memory_path: Path
) -> None:
    """The checksum is correct, so that the marker itself is checked."""
    begin, marker = _data(0, 1), control_batch(1, producer_id=1, epoch=0, type_=ABORT)
    header, payload = decode_batch(marker).header, marker[HEADER_SIZE:]
    runs = []
    for bit in range(8 * len(payload)):
        flipped = bytearray(payload)
        flipped[bit // 8] ^= 1 << bit % 8
        data = begin + assemble(header, bytes(flipped)) + _data(2, 1, 1)
        runs.append(ProducerRun(path=memory_path / f"{bit}", operations=(Recover(data),)))
    seen: dict[str, int] = {}
    reported = oracle.call("producer_states", runs=runs)
    for bit, (run, answers) in enumerate(zip(runs, reported, strict=True)):
        for columnar in (False, True):
            ours = replace(run, path=memory_path / f"{bit}-{columnar}")
            _compare_run(bit, ours, answers, columnar=columnar, seen=seen)
    assert len(seen) >= 2
    assert sum(seen.values()) < 2 * len(runs)


@pytest.mark.soak
@pytest.mark.parametrize("first", range(1000, 6000, SEEDS_PER_CALL))
def test_many_random_operations_leave_the_state_that_kafka_has(
    oracle: Oracle, memory_path: Path, first: int
) -> None:
    compare(oracle, memory_path, range(first, first + SEEDS_PER_CALL), operations=80)


# ------------------------------------------------------------------ facts, by hand


def manager_in(folder: Path) -> ProducerStateManager:
    return ProducerStateManager(
        DiskFiles(folder), LogConfig(), FixedClock(START), topic_partition="orders-0"
    )


def _data(offset: int, producer_id: int, sequence: int = 0) -> bytes:
    return data_batch(
        offset, producer_id=producer_id, epoch=0, sequence=sequence, is_transactional=True
    )


# Kafka's own example: three transactions, the first aborted while the others are open; then a
# fourth, and the second aborted after the third's commit.
EXAMPLE = [
    _data(0, 1),
    _data(8, 2),
    _data(14, 3),
    control_batch(29, producer_id=1, epoch=0, type_=ABORT),
    _data(36, 4),
    control_batch(58, producer_id=3, epoch=0, type_=COMMIT),
    control_batch(74, producer_id=2, epoch=0, type_=ABORT),
]


def _read(data: bytes) -> Callable[[int, int], bytes]:
    return lambda position, size: data[position : position + size]


def test_batch_by_batch_an_index_entry_tells_the_last_stable_offset_at_its_marker(
    tmp_path: Path,
) -> None:
    manager, data, reported = manager_in(tmp_path), b"".join(EXAMPLE), []
    for batches in BatchScan(data):
        manager.replay_batches(batches, _read(data), on_completed=lambda *txn: reported.append(txn))
    assert reported == [
        (CompletedTxn(1, 0, 29, is_aborted=True), 8),
        (CompletedTxn(3, 14, 58, is_aborted=False), 8),
        (CompletedTxn(2, 8, 74, is_aborted=True), 36),
    ]
    assert [(txn.producer_id, txn.first_offset) for txn in manager.ongoing_txns] == [(4, 36)]
    assert manager.first_undecided_offset() == 36
    assert manager.first_unstable_offset() == 0
    manager.on_high_watermark_updated(74)
    assert manager.first_unstable_offset() == 8
    manager.on_high_watermark_updated(75)
    assert manager.first_unstable_offset() == 36


def test_in_one_append_transactions_that_begin_later_count_already(tmp_path: Path) -> None:
    """So a follower's index may differ from a recovered one."""
    data = b"".join([_data(0, 1), control_batch(1, producer_id=1, epoch=0, type_=ABORT)])
    data += _data(5, 2)
    batches = next(iter(BatchScan(data)))
    completed = CompletedTxn(1, 0, 1, is_aborted=True)
    reported: list[tuple[CompletedTxn, int]] = []
    manager = manager_in(tmp_path)
    manager.replay_batches(batches, _read(data), on_completed=lambda *txn: reported.append(txn))
    assert reported == [(completed, 2)]
    manager, reported = manager_in(tmp_path), []
    replay = ProducerReplay(manager)
    replay.add(batches, _read(data))
    assert not manager.active_producers
    assert replay.finish(lambda *txn: reported.append(txn)) == [completed]
    assert reported == [(completed, 5)]


def test_an_emptied_control_batch_makes_its_producer_known(tmp_path: Path) -> None:
    """Without an epoch; Kafka has it in its map and its snapshots too."""
    emptied = encode_empty_batch(
        decode_batch(control_batch(5, producer_id=9, epoch=3, type_=COMMIT)).header
    )
    manager = manager_in(tmp_path)
    assert manager.replay_batches(next(iter(BatchScan(emptied))), _read(emptied)) is None
    entry = manager.last_entry(9)
    assert (entry.producer_epoch, entry.last_timestamp, entry.last_seq) == (-1, -1, -1)
    assert manager.map_end_offset == 6


def test_a_marker_that_does_not_decode_stops_before_its_batch(tmp_path: Path) -> None:
    bad = control_batch(1, producer_id=1, epoch=0).replace(b"\x08\0\0\0\1", b"\x08\x80\0\0\1")
    data = b"".join([_data(0, 1), bad, _data(2, 1, 1)])
    manager = manager_in(tmp_path)
    damage = manager.replay_batches(next(iter(BatchScan(data, verify=False))), _read(data))
    assert damage.batch == 1
    assert isinstance(damage.error, FormatError)
    assert manager.map_end_offset == 1
    assert manager.last_entry(1).last_seq == 0


def test_a_snapshot_over_a_longer_one_keeps_its_end_and_is_corrupt(tmp_path: Path) -> None:
    """Kafka opens the file without truncating it: the next load throws it away."""
    manager = manager_in(tmp_path)
    name = "00000000000000000001.snapshot"
    (tmp_path / name).write_bytes(bytes(500))
    data = data_batch(0, producer_id=1, epoch=0, sequence=0)
    manager.replay_batches(next(iter(BatchScan(data))), _read(data))
    assert manager.take_snapshot() == name
    assert (tmp_path / name).stat().st_size == 500
    manager = manager_in(tmp_path)
    manager.truncate_and_reload(0, 1, START)
    assert not manager.active_producers
    assert not list(tmp_path.iterdir())


def test_a_snapshot_with_a_name_without_offset_keeps_a_log_from_loading(tmp_path: Path) -> None:
    (tmp_path / "notes.snapshot").touch()
    with pytest.raises(LogLoadError, match=r"notes\.snapshot"):
        manager_in(tmp_path)


def test_a_snapshot_that_is_gone_is_not_marked_for_deletion(tmp_path: Path) -> None:
    manager = manager_in(tmp_path)
    manager.update_map_end_offset(3)
    name = manager.take_snapshot(sync=False)
    assert manager.fetch_snapshot(3) == name
    assert manager.oldest_snapshot_offset == 3
    (tmp_path / name).unlink()
    assert manager.remove_and_mark_snapshot_for_deletion(3) is None
    assert manager.fetch_snapshot(3) is None


def test_snapshots_follow_a_directory_that_was_renamed(tmp_path: Path) -> None:
    old, new = tmp_path / "orders-0", tmp_path / "orders-0.x-delete"
    old.mkdir()
    manager = manager_in(old)
    old.rename(new)
    manager.update_parent_dir(DiskFiles(new))
    manager.update_map_end_offset(3)
    assert (new / manager.take_snapshot()).exists()


def test_no_producer_is_no_producer(tmp_path: Path) -> None:
    manager = manager_in(tmp_path)
    with pytest.raises(IllegalArgumentError):
        manager.update(manager.prepare_update(-1, AppendOrigin.CLIENT))


def test_what_is_known_can_be_looked_at(tmp_path: Path) -> None:
    manager, data = manager_in(tmp_path), _data(0, 1)
    info = manager.prepare_update(1, AppendOrigin.REPLICATION)
    info.append(decode_batch(data))
    assert "producer 1" in repr(info)
    manager.update(info)
    manager.maybe_create_verification_state_entry(1, 5, 0, supports_epoch_bump=True)
    assert "1 producers, 1 ongoing" in repr(manager)
    assert "lowest sequence 5" in repr(manager.verification_state_entry(1))
    assert repr(manager.ongoing_txns) == "[TxnMetadata(producer 1, from 0, open)]"
    entry = manager.last_entry(1)
    assert "transaction from 0" in repr(entry)
    assert (entry.first_seq, entry.first_data_offset) == (0, 0)


def test_a_producer_known_by_markers_alone_has_no_batches() -> None:
    entry = ProducerStateEntry(4)
    assert entry.is_empty
    assert (entry.first_seq, entry.last_seq) == (-1, -1)
    assert (entry.first_data_offset, entry.last_data_offset, entry.last_offset_delta) == (-1, -1, 0)
