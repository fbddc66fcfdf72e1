"""Offsets of a directory at rest are those of the log that Kafka had open, or opens."""

from typing import Any

import pytest

from kafka_log.clock import FixedClock
from kafka_log.config.log_config import LogConfig
from kafka_log.errors import LogError
from kafka_log.log.partition_offsets import read_offsets
from tests.oracle.logs import START, TOPIC_ID, LogPlan, draw

CONFIG = LogConfig(segment_index_bytes=1024, index_interval_bytes=300)
CLOCK = FixedClock(START)
SEEDS = range(12)


@pytest.fixture(scope="module")
def logs(oracle, tmp_path_factory):
    """Logs with transactions, and the last stable offset at ever higher watermarks, live."""
    root = tmp_path_factory.mktemp("offsets")
    built: dict[int, tuple[Any, ...]] = {}
    runs = []
    for seed in SEEDS:
        plan = LogPlan(
            seed=seed,
            batches=60,
            open_transactions=seed % 3,
            close="crash" if seed % 2 else "clean",
            config={"segment.bytes": 4096},
        )
        drawn, records = draw(plan)
        steps = [step for step in drawn if step["do"] != "high_watermark"]
        end = records[-1].offset + 1
        watermarks = [*range(0, end, 23), end]
        asked = [{"do": "high_watermark", "offset": each} for each in watermarks]
        session = {
            "config": plan.settings(),
            "time": START,
            "topic_id": TOPIC_ID,
            "steps": [*steps, *asked],
            "close": plan.close,
        }
        runs.append({"path": root / f"log{seed}-0", "sessions": [session]})
        built[seed] = (root / f"log{seed}-0", plan, watermarks, end)
    answers = oracle.call("run_sessions", runs=runs, timeout=300)
    for seed, (session,) in zip(SEEDS, answers, strict=True):
        path, plan, watermarks, end = built[seed]
        state, reported = session["opened"]["state"], []
        for step in session["steps"]:
            state |= step["state"]
            reported.append(state["last_stable_offset"])
        stable = reported[-len(watermarks) :]
        built[seed] = (path, plan, end, list(zip(watermarks, stable, strict=True)))
    return built


@pytest.mark.parametrize("seed", SEEDS)
def test_a_replay_gives_the_last_stable_offset_of_the_living_log(logs, seed):
    path, _, end, reported = logs[seed]
    for high_watermark, last_stable_offset in reported:
        found = read_offsets(path, CONFIG, CLOCK, high_watermark=high_watermark, replay=True)
        assert found.log_end_offset == end
        assert found.high_watermark == high_watermark
        assert found.last_stable_offset == last_stable_offset
        assert (found.held_by is None) == (last_stable_offset == high_watermark)


def test_there_are_transactions_that_hold_it(logs):
    held = sum(
        stable < watermark for *_, reported in logs.values() for watermark, stable in reported
    )
    assert held > 30


@pytest.mark.parametrize("seed", SEEDS)
def test_from_its_snapshots_a_log_is_as_kafka_opens_it(oracle, logs, seed, tmp_path):
    path, plan, end, _ = logs[seed]
    is_clean = plan.close == "clean"
    watermarks = [0, end // 3, end // 2, end] if is_clean else [end]
    for high_watermark in watermarks:
        answer = oracle.run_log(
            tmp_path / str(high_watermark) / path.name,
            copy_from=path,
            config=plan.settings(),
            time=START,
            clean_shutdown=is_clean,
            steps=[{"do": "high_watermark", "offset": high_watermark}],
        )
        found = read_offsets(path, CONFIG, CLOCK, high_watermark=high_watermark)
        for name in ("log_start_offset", "log_end_offset", "last_stable_offset"):
            assert getattr(found, name) == answer["state"][name], name
        if found.held_by is not None:
            (producer,) = [
                each
                for each in answer["state"]["producers"]
                if each["producer_id"] == found.held_by.producer_id
            ]
            assert found.held_by.first_offset == producer["current_txn_first_offset"]
            assert found.held_by.producer_epoch == producer["producer_epoch"]
            assert found.held_by.last_timestamp == producer["timestamp"]


def test_an_unknown_high_watermark_is_told(logs):
    path, _, _, reported = logs[2]
    found = read_offsets(path, CONFIG, CLOCK)
    assert found.high_watermark is None
    assert found.last_stable_offset == reported[-1][1]
    assert "no high watermark is known" in found.note


def test_a_log_start_beyond_the_end_is_told(logs):
    path, _, end, _ = logs[0]
    found = read_offsets(path, CONFIG, CLOCK, log_start_offset=end + 5)
    assert found[:5] == (end + 5, None, end + 5, end + 5, end + 5)
    assert "a broker would empty the log" in found.note


def test_a_high_watermark_outside_the_log_counts_as_its_edge(logs):
    path, _, end, _ = logs[0]
    assert read_offsets(path, CONFIG, CLOCK, high_watermark=end + 9).high_watermark == end
    found = read_offsets(path, CONFIG, CLOCK, high_watermark=1, log_start_offset=4)
    assert (found.log_start_offset, found.high_watermark, found.last_stable_offset) == (4, 4, 4)


def test_a_directory_without_a_segment_is_refused(tmp_path):
    with pytest.raises(LogError, match="found no segment"):
        read_offsets(tmp_path, CONFIG, CLOCK)


def test_nothing_is_written(logs):
    path, *_ = logs[1]
    before = {each.name: each.stat() for each in path.iterdir()}
    read_offsets(path, CONFIG, CLOCK, replay=True)
    assert {each.name: each.stat() for each in path.iterdir()} == before
