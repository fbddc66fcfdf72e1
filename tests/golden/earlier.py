"""The pack of a live cleaner, taken back to before it cleaned: a log dir that is worth compacting.

Its broker waited an hour before it deleted what cleaning had replaced, so that the segments from
before its last round are there as `.deleted` files. Most topics here had no round before that one.
"""

import re
import shutil
from pathlib import Path

from kafka_format.log_file import LogFile
from tests import golden

PACK = "cleaner-4.3.1"
TOPICS = (
    *("compacted.aborted", "compacted.producers", "compacted.codecs", "compacted-later"),
    "compacted.tombstones",
)
_CLEANED_TWICE = {"compacted.tombstones-0": (0, 25, 26)}
"""What the last round replaced; other `.deleted` files are of the round before."""
_CHECKPOINT = "0\n1\ncompacted.tombstones 0 25\n"
NOW = 1_700_100_000_000
"""A day after its records, by their own time: producers are not forgotten yet."""
_DELETED = ".deleted"
_IS_CHOSEN = re.compile(f"({'|'.join(map(re.escape, TOPICS))})-[0-9]+")


def log_dir(folder: Path) -> Path:
    """One log dir of all that, in `folder`, with the metadata that knows the topics' settings."""
    target = folder / "data"
    target.mkdir()
    for source in sorted(golden.log_dirs(golden.shared(PACK))):
        for path in source.iterdir():
            if path.name.startswith("__cluster_metadata") or path.name == ".kafka_cleanshutdown":
                _copy(path, target / path.name)
            elif _IS_CHOSEN.fullmatch(path.name):
                _take_back(path, target / path.name)
        if (source / "__cluster_metadata-0").exists():
            shutil.copyfile(source / "meta.properties", target / "meta.properties")
    (target / "cleaner-offset-checkpoint").write_text(_CHECKPOINT)
    return target


def _copy(path: Path, target: Path) -> None:
    if path.is_dir():
        shutil.copytree(path, target)
    else:
        shutil.copyfile(path, target)


def _take_back(partition: Path, target: Path) -> None:
    target.mkdir()
    for path in partition.iterdir():
        if not path.name.endswith(_DELETED):
            shutil.copyfile(path, target / path.name)
    replaced = _CLEANED_TWICE.get(partition.name)
    for path in partition.glob(f"*{_DELETED}"):
        if replaced is None or int(path.name[:20]) in replaced:
            shutil.copyfile(path, target / path.name.removesuffix(_DELETED))


def survivors() -> dict[tuple[str, int], list[int]]:
    """By topic and partition, offsets of the records that the live cleaner left."""
    found = {}
    for source in golden.log_dirs(golden.shared(PACK)):
        for path in source.iterdir():
            if _IS_CHOSEN.fullmatch(path.name):
                topic, _, number = path.name.rpartition("-")
                found[topic, int(number)] = _offsets(path)
    return found


def _offsets(partition: Path) -> list[int]:
    return [
        record.offset
        for path in sorted(partition.glob("*.log"))
        for batch in LogFile(path.read_bytes()).batches()
        for record in batch.records()
    ]
