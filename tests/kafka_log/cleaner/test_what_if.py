"""What stays under some settings, and when a broker would clean: by hand, and by Kafka."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from kafka_log.cleaner.cleanable import Due, next_cleaning
from kafka_log.cleaner.what_if import OldestTombstone, Outcome, what_if
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles
from kafka_log.disk.overlay_files import OverlayFiles
from tests.kafka_log.cleaner.cleaners import new_cleaner
from tests.kafka_log.cleaner.cleaning import CleaningCase, planned_case
from tests.kafka_log.cleaner.test_cleaner import CONFIG, NOW, RETENTION, Topic
from tests.kafka_log.compare import scratch
from tests.kafka_log.driver import Session, log_config
from tests.kafka_log.steps import Step, UpdateConfig
from tests.oracle.client import Oracle

YEARS = 10**11
LAGS: list[dict[str, Any]] = [
    {},
    {"min.compaction.lag.ms": 60_000, "max.compaction.lag.ms": 2**63 - 1},
    {"min.cleanable.dirty.ratio": 1.0, "max.compaction.lag.ms": 200_000},
    {"min.compaction.lag.ms": 30_000, "max.compaction.lag.ms": 90_000},
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "topic-0"
    folder.mkdir()
    return folder


def config(**changed: Any) -> LogConfig:
    return LogConfig(
        cleanup_policy=frozenset({"compact"}),
        segment_index_bytes=1000,
        delete_retention_ms=RETENTION,
        transaction_partition_verification_enable=False,
        **changed,
    )


def judge(topic: Topic, checkpoint: int | None = None, **options: Any) -> Outcome:
    log = topic.log
    log.update_high_watermark(log.log_end_offset)
    return what_if(
        log,
        checkpoint,
        make_cleaner=lambda witness: new_cleaner(
            log.config, topic.clock, witness=witness, **options
        ),
        now_ms=topic.clock(),
    )


def test_records_bytes_segments_and_tombstones_are_counted_before_and_after(path: Path) -> None:
    topic = Topic(DiskFiles(path), CONFIG)
    topic.put(("a", "1"), ("b", "1"))
    topic.put(("a", "2"))
    topic.put(("b", None))
    topic.roll()
    topic.put(("c", "1"))
    topic.roll()
    topic.put(("c", "2"))
    files = DiskFiles(path)
    before = sum(files.size(name) for name in files.names() if name.endswith(".log"))
    found = judge(topic)
    logs = [name for name in files.names() if name.endswith(".log")]
    assert found.removed == {"superseded": 2}
    assert (found.records_before, found.records_after) == (6, 4)
    assert (found.segments_before, found.segments_after) == (3, 2) == (3, len(logs))
    assert (found.bytes_before, found.bytes_after) == (before, sum(map(files.size, logs)))
    assert found.tombstones_after == 1
    assert found.oldest_tombstone == OldestTombstone(
        3, NOW, NOW + RETENTION, "tombstone_gets_horizon"
    )


def test_a_tombstone_that_no_round_came_to_has_no_time_to_go(path: Path) -> None:
    topic = Topic(DiskFiles(path), CONFIG)
    topic.put(("a", "1"))
    topic.roll()
    topic.put(("a", None))
    found = judge(topic)
    assert found.oldest_tombstone == OldestTombstone(1, NOW, None, "not_cleanable_active_segment")


def test_a_full_map_takes_as_many_rounds_as_it_needs(path: Path) -> None:
    topic = Topic(DiskFiles(path), CONFIG)
    for value in "12":
        for key in "abc":
            topic.put((key, value))
    topic.roll()
    found = judge(topic, dedupe_buffer_size=72)
    assert found.rounds == 3
    assert (found.records_before, found.records_after, found.removed) == (6, 3, {"superseded": 3})


def test_with_compact_and_delete_retention_takes_whole_segments_behind_the_cleaner(
    path: Path,
) -> None:
    topic = Topic(DiskFiles(path), CONFIG)
    topic.put(("a", "1"), ("b", "1"), ("b", None))
    topic.roll()
    topic.put(("a", "2"))
    topic.roll()
    topic.put(("c", "1"))
    both = LogConfig(
        cleanup_policy=frozenset({"compact", "delete"}), retention_ms=5_000, segment_bytes=300
    )
    topic.log.update_config(both)
    topic.clock.now_ms = NOW + 5_001
    found = judge(topic)
    # All is older than that, the active segment too: an empty one takes its place.
    assert found.removed == {"superseded": 2, "retention": 3}
    assert (found.records_before, found.records_after) == (5, 0)
    assert (found.tombstones_after, found.oldest_tombstone) == (0, None)
    assert found.segments_after == 1


def test_on_an_overlay_the_directory_stays_as_it_is(path: Path) -> None:
    topic = Topic(DiskFiles(path), CONFIG)
    topic.put(("a", "1"), ("a", "2"))
    topic.roll()
    topic.log.close()
    before = {each.name: each.read_bytes() for each in path.iterdir()}
    assert judge(Topic(OverlayFiles(path), CONFIG)).records_after == 1
    assert {each.name: each.read_bytes() for each in path.iterdir()} == before


def test_a_dirty_log_is_due_at_once_and_a_clean_one_when_it_is_written_to(path: Path) -> None:
    topic = Topic(DiskFiles(path), CONFIG)
    topic.put(("a", "1"))
    topic.roll()
    topic.put(("a", "2"))
    found = judge(topic)
    assert (found.due_at_ms, found.due_reason) == (NOW, "dirty ratio 1.00, above 0.5")
    assert found.next_cleaning_at_ms is None
    assert found.next_cleaning_reason == (
        "all but the active segment is clean, and that rolls with new records only"
    )


def test_min_compaction_lag_puts_it_off_and_max_compaction_lag_brings_it_about(path: Path) -> None:
    topic = Topic(DiskFiles(path), config(min_compaction_lag_ms=50, max_compaction_lag_ms=900))
    topic.put(("a", "1" * 100))
    topic.roll()
    topic.put(("a", "2"))
    topic.roll()
    log = topic.log
    log.update_high_watermark(2)
    assert next_cleaning(log, None, NOW) == Due(NOW + 50, "dirty ratio 1.00, above 0.5")
    # Less than half of it is dirty: its time has come one millisecond behind the lag.
    due = next_cleaning(log, 1, NOW)
    assert due.at_ms == NOW + 901
    assert due.reason.startswith("dirty for longer than max.compaction.lag.ms, dirty ratio 0.2")


def test_a_ratio_that_is_never_reached_is_told(path: Path) -> None:
    topic = Topic(DiskFiles(path), config(max_compaction_lag_ms=2**63 - 1))
    topic.put(("a", "1" * 100))
    topic.roll()
    topic.put(("a", "2"))
    topic.roll()
    topic.log.update_high_watermark(2)
    due = next_cleaning(topic.log, 1, NOW)
    assert due.at_ms is None
    assert "not above 0.5 without new records" in due.reason


def test_an_open_transaction_is_named_as_the_end_of_what_is_clean(path: Path) -> None:
    topic = Topic(DiskFiles(path), CONFIG)
    topic.put(("a", "1"))
    topic.roll()
    topic.put(("x", "open"), producer_id=7)
    topic.roll()
    topic.log.update_high_watermark(2)
    due = next_cleaning(topic.log, 1, NOW)
    assert due == Due(None, "nothing is dirty up to the last stable offset 1")


def test_the_time_of_cleaning_is_when_kafkas_manager_changes_its_mind(oracle: Oracle) -> None:
    """A millisecond before it does not choose the log, then it does; or it never does."""
    with scratch() as folder:
        drawn = [planned_case(oracle, folder, seed) for seed in range(300, 316)]
        cases = [_with(case, LAGS[i % len(LAGS)]) for i, case in enumerate(drawn)]
        asked = [(case, due) for case in cases if (due := _due(case)) is not None]
        runs = [_run(case, due, folder) for case, due in asked]
        found = oracle.call("clean_logs", runs=runs, timeout=600)
    later = never = 0
    for (case, due), reported in zip(asked, found, strict=True):
        eligible = [one["is_eligible"] for one in reported["passes"]]
        if due.at_ms is None:
            never += 1
            assert eligible == [False], case.name
        elif due.at_ms == case.passes[0].time:
            assert eligible == [True], case.name
        else:
            later += 1
            assert eligible == [False, True], case.name
    assert later >= 3
    assert never >= 3


def _with(case: CleaningCase, lags: dict[str, Any]) -> CleaningCase:
    """Where time decides; `steps` has the settings once more."""
    config = dict(case.arguments["config"]) | lags
    first, *rest = case.passes
    step, *steps = first.steps
    assert isinstance(step.action, UpdateConfig)
    step = Step(UpdateConfig(dict(step.action.config) | lags))
    arguments = dict(case.arguments) | {"config": config}
    passes = [dataclasses.replace(first, steps=[step, *steps]), *rest]
    return dataclasses.replace(case, arguments=arguments, passes=passes)


def _due(case: CleaningCase) -> Due | None:
    arguments = {"log_start_offset": 0, "recovery_point": 0} | dict(case.arguments)
    session = Session(OverlayFiles(case.source), arguments)
    if session.log.log_end_offset < 0:
        return None
    session.log.update_high_watermark(session.log.log_end_offset)
    one = case.passes[0]
    for step in one.steps:
        session.try_step(step)
    assert log_config(arguments).compact
    checkpoint = arguments.get("checkpoint") if one.checkpoint is None else one.checkpoint
    return next_cleaning(session.log, checkpoint, one.time)


def _run(case: CleaningCase, due: Due, folder: Path) -> dict[str, Any]:
    (folder / "kafka").mkdir(exist_ok=True)
    first = dataclasses.replace(case.passes[0], only_if_eligible=True)
    now = first.time
    times = [now + YEARS] if due.at_ms is None else [due.at_ms]
    if due.at_ms is not None and due.at_ms > now:
        times = [due.at_ms - 1, due.at_ms]
    later = dataclasses.replace(first, steps=())
    passes = [
        dataclasses.replace(first if i == 0 else later, time=each) for i, each in enumerate(times)
    ]
    path = folder / "kafka" / case.source.name
    return dict(case.arguments) | {"path": path, "copy_from": case.source, "passes": passes}
