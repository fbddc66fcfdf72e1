"""Segments that are gone, renamed or copied, in directories of real brokers."""

import shutil
from pathlib import Path

import pytest

from kafka_log.checks.finding import Finding
from tests import golden
from tests.kafka_log.checks.partition_audit import audit_log_dir, ids


@pytest.fixture
def data(tmp_path: Path) -> Path:
    (source,) = golden.log_dirs(golden.shared("unclean-4.3.1"))
    return Path(shutil.copytree(source, tmp_path / "data"))


def found(data: Path, *overrides: str) -> list[Finding]:
    return [each for each in audit_log_dir(data, *overrides) if each.id.startswith("LOG")]


def remove(data: Path) -> None:
    for path in data.glob("rolled-by.time-0/00000000000000000009.*"):
        path.unlink()


def test_a_segment_in_the_middle_is_missed_as_log020(data: Path) -> None:
    remove(data)
    (finding,) = found(data)
    assert (finding.id, finding.offset, finding.partition) == ("LOG020", 9, 0)
    assert finding.path == str(data / "rolled-by.time-0" / "00000000000000000012.log")
    assert finding.found == "offsets 9 to 11 are missing before this segment"


def test_a_gap_proves_nothing_in_a_compacted_topic_or_without_settings(data: Path) -> None:
    remove(data)
    assert found(data, "cleanup.policy=compact") == []
    shutil.rmtree(data / "__cluster_metadata-0")
    assert found(data) == []


def test_index_files_without_their_log_are_log021(data: Path) -> None:
    (data / "rolled-by.time-0" / "00000000000000000009.log").unlink()
    finding, gap = found(data)
    assert (finding.id, finding.offset, gap.id) == ("LOG021", 9, "LOG020")
    assert (
        finding.found == "00000000000000000009.index, 00000000000000000009.timeindex without a .log"
    )


def test_a_copied_segment_is_log022(data: Path) -> None:
    folder = data / "rolled-by.time-0"
    shutil.copy(folder / "00000000000000000009.log", folder / "00000000000000000010.log")
    assert ids(found(data))[0] == "LOG022"
