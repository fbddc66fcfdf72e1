"""Commits that a later one replaces: never one that counts, a tombstone or one in a transaction."""

import random
from pathlib import Path

import pytest

from kafka_format.compression import Codec
from kafka_format.control import ControlRecordType
from kafka_log.coordinators.coordinator_log import read_columns
from kafka_log.coordinators.latest_commits import LatestCommits
from kafka_log.disk.files import DiskFiles
from tests.kafka_log.coordinators.internal_logs import (
    LogWriter,
    classic_group,
    commit_key,
    commit_value,
)

KEY, OTHER = commit_key("g", "t", 0), commit_key("h", "t", 1)


def replaced(directory: Path, **options: int) -> tuple[list[int], dict[bytes, tuple[int, int]]]:
    """The offsets that are left out, and by group how many records and bytes these are."""
    latest, files = LatestCommits(**options), DiskFiles(directory)
    for columns in read_columns(files):
        latest.put(columns)
    offsets: list[int] = []
    groups: dict[bytes, tuple[int, int]] = {}
    for columns in read_columns(files):
        mask = latest.replaced(columns)
        offsets += columns.offset[mask].tolist()
        for group, count, size in latest.groups_of(columns, mask):
            before = groups.get(group, (0, 0))
            groups[group] = before[0] + count, before[1] + size
    return offsets, groups


def test_only_plain_commits_with_a_later_one_are_left_out(tmp_path):
    log = LogWriter().add((KEY, commit_value(1)))  # 0: replaced by 7
    log.add((KEY, commit_value(2)), producer=7)  # 1: in a transaction
    log.add((KEY, None))  # 2: a tombstone
    log.add((OTHER, commit_value(3)), codec=Codec.ZSTD)  # 3: the last of its key
    log.add(classic_group("g", 1))  # 4: not a commit
    log.end(7, ControlRecordType.COMMIT)  # 5: a marker
    log.add((None, b"x"), (KEY, commit_value(4)))  # 6, and 7: the last
    log.add((OTHER, None), (commit_key("g", "t", 0), commit_value(5)), producer=8)  # 8, 9
    size = len(KEY) + len(commit_value(1))
    assert replaced(log.write(tmp_path)) == ([0], {b"g": (1, size)})


@pytest.mark.parametrize("seed", range(20))
def test_each_key_keeps_its_last_commit(seed: int, tmp_path: Path):
    draw = random.Random(seed)
    log = LogWriter()
    last: dict[bytes, int] = {}
    sizes: dict[bytes, tuple[int, int]] = {}
    for offset in range(draw.randrange(1, 300)):
        group = f"g{draw.randrange(4)}" + "x" * draw.randrange(3)
        key, value = commit_key(group, "t", draw.randrange(6)), commit_value(offset)
        log.add((key, value))
        if key in last:
            count, size = sizes.get(group.encode(), (0, 0))
            before = len(key) + len(value)
            sizes[group.encode()] = count + 1, size + before
        last[key] = offset
    found, groups = replaced(log.write(tmp_path))
    assert found == [each for each in range(log.next_offset) if each not in last.values()]
    assert groups == sizes


def test_with_a_full_map_fewer_are_left_out(tmp_path):
    log = LogWriter()
    for _ in range(2):
        for number in range(200):
            log.add((commit_key("g", "t", number), commit_value(number)))
    found, _ = replaced(log.write(tmp_path), memory=24 * 60)
    assert set(found) < set(range(200))
