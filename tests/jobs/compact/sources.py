"""Logs that Kafka's own Cleaner and our verb clean by the same settings, to be compared."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from jobs.options import CLEAN
from tests import golden
from tests.jobs.compact.compacting import BEGIN, NOW, rows
from tests.kafka_log.cleaner.cleaning import draw_plan, set_modified, set_times
from tests.kafka_log.driver import files_of
from tests.oracle.client import Oracle


class Source:
    """A log dir with one partition, and how Kafka's Cleaner and ours are to clean it."""

    def __init__(
        self,
        oracle: Oracle,
        folder: Path,
        which: int | tuple[str, str],
        *,
        cleaned_by: Oracle | None = None,
        words: Sequence[object] = (),
    ) -> None:
        """`cleaned_by` another release's oracle, whose rules `words` ask our verb for."""
        self.oracle, self.folder, self.words = cleaned_by or oracle, folder, words
        self.was_clean = True
        self.log_dir = folder / "data"
        if isinstance(which, int):
            plan = draw_plan(which)
            self.partition = self.log_dir / "orders-0"
            self.now = BEGIN + plan.batches * 1000
            end = oracle.build_log(self.partition, plan).state["log_end_offset"]
            settings = plan.settings()
        else:
            pack, name = which
            (found,) = (each / name for each in golden.log_dirs(golden.shared(pack))
                        if (each / name).exists())  # fmt: skip
            self.partition = Path(shutil.copytree(found, self.log_dir / name))
            self.now, end = NOW, 10_000
            settings = {"segment.index.bytes": 65536, "index.interval.bytes": 4096}
            settings["segment.bytes"] = 3000
        for number, path in enumerate(sorted(self.partition.glob("*.log"))):
            set_modified(path, BEGIN + number)
        self.end = end
        # Horizons have come as soon as they are set, so that one clock is enough.
        self.settings = settings | {"cleanup.policy": "compact", "delete.retention.ms": 0}
        self.settings |= {"min.cleanable.dirty.ratio": 0, "segment.ms": 2**63 - 1}
        (self.log_dir / ".kafka_cleanshutdown").write_bytes(b"")
        topic = self.partition.name.rpartition("-")[0]
        text = f"0\n1\n{topic} 0 {end}\n"
        (self.log_dir / "recovery-point-offset-checkpoint").write_text(text)

    def by_kafka(
        self, passes: int, *, retains: bool = False
    ) -> tuple["Left", list[dict[str, Any]]]:
        """Its files and answers after so many passes, all from offset 0; then retention."""
        target = self.folder / f"kafka-{passes}" / self.partition.name
        target.parent.mkdir()
        wanted: list[dict[str, Any]] = [{"time": self.now, "checkpoint": 0}] * passes
        if retains:  # steps come before a pass, and that one is not wanted
            last = {"time": self.now, "steps": [{"do": "delete_old_segments"}]}
            wanted.append(last | {"only_if_eligible": True})
        (answer,) = self.oracle.call(
            "clean_logs",
            runs=[
                {
                    "path": target,
                    "copy_from": self.partition,
                    "config": self.settings,
                    "time": self.now,
                    "clean_shutdown": self.was_clean,
                    "recovery_point": self.end if self.was_clean else 0,
                    "close": "clean",
                    "passes": wanted,
                }
            ],
            timeout=120,
        )
        return Left(target), answer["passes"]

    def by_ours(
        self,
        capsys: pytest.CaptureFixture[str],
        passes: int | str,
        *more: object,
        log_dir: Path | None = None,
        expect: int = CLEAN,
    ) -> list[dict[str, Any]]:
        settings = dict(self.settings)
        settings["internal.segment.bytes"] = settings.pop("segment.bytes")
        given: list[object] = [f"--set={name}={value}" for name, value in settings.items()]
        given += ["--now", self.now, "--dedupe-buffer-size", 1 << 20, "--first-dirty", 0]
        given += self.words
        given += ["--passes", passes, *more]
        return rows(capsys, log_dir or self.log_dir, *given, expect=expect)


class Left:
    """Every file but those that wait to be unlinked, and the times that a cleaner sets."""

    def __init__(self, partition: Path) -> None:
        found = files_of(partition)
        self.files = {name: reported for name, reported in found.items() if ".deleted" not in name}
        self.times = set_times(partition)

    def ensure_in(self, partition: Path) -> None:
        """What Kafka wrote to since has the time of this machine, and in a copy the pinned one."""
        ours = Left(partition)
        assert ours.files == self.files
        assert {name: ours.times.get(name) for name in self.times} == self.times
        assert any(name.endswith(".timeindex") for name in self.times)
