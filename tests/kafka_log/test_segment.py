"""Kafka's LogSegment, step by step, against ours: answers, exceptions and every file's bytes."""

from pathlib import Path
from typing import Any

import pytest

from kafka_format.errors import FormatError
from kafka_log.errors import LogError
from kafka_log.files import DiskFiles
from kafka_log.overlay_files import OverlayFiles
from tests.kafka_log.kafka_exceptions import answers_to, name_of
from tests.kafka_log.segment_steps import OurSegment, draw_run
from tests.oracle.client import Oracle

_RESIZES = ("truncate_to", "resize_indexes", "sanity_check")


def _compare(ours: OurSegment, run: dict[str, Any], told: list[dict[str, Any]]) -> None:
    for place, (step, kafkas) in enumerate(zip(run["steps"], told, strict=True)):
        error: Exception | None = None
        answer = None
        try:
            answer = ours.step(step)
        except (LogError, FormatError, OSError) as problem:
            error = problem
        where = f"step {place} of {run['path']}: {step}, {answer} {error!r}, {kafkas}"
        assert answers_to(error, kafkas.get("error")), where
        if error is None:
            assert answer == kafkas["answer"], where
        assert ours.digests() == kafkas["files"], where
        if step["do"] in _RESIZES and name_of(kafkas.get("error")) == "IllegalArgumentException":
            return  # more entries than slots: Kafka's own index is not to be used any more


def _run_both(oracle: Oracle, tmp_path: Path, seeds: range) -> None:
    runs = []
    for seed in seeds:
        directory = tmp_path / f"segment-{seed}"
        directory.mkdir()
        runs.append({"path": str(directory), **draw_run(seed)})
    told = oracle.call("run_segments", runs=runs, timeout=300)
    for run, steps_told in zip(runs, told, strict=True):
        for kind in (DiskFiles, OverlayFiles):
            directory = Path(f"{run['path']}-{kind.__name__}")
            directory.mkdir()
            _compare(OurSegment(kind(directory), run), run, steps_told)


def test_random_steps_leave_the_files_that_kafka_leaves(oracle: Oracle, tmp_path: Path) -> None:
    _run_both(oracle, tmp_path, range(200))


@pytest.mark.soak
@pytest.mark.parametrize("part", range(20))
def test_many_random_steps_leave_the_files_that_kafka_leaves(
    oracle: Oracle, tmp_path: Path, part: int
) -> None:
    _run_both(oracle, tmp_path, range(1000 + part * 250, 1250 + part * 250))
