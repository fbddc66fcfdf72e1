"""Where a live broker's cleaner ran: our rerun of an earlier copy leaves the same.

The earlier copies are in the packs. Their brokers waited an hour before they deleted what cleaning
had replaced, so the sources of the last round still lie there as `.deleted` files, beside what the
live cleaner made of them. Its clock is in the delete horizons that it wrote; where it wrote none,
any clock will do.
"""

import dataclasses
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest

from kafka_format.batch import RecordBatch, encode_batch
from kafka_format.log_file import LogFile
from kafka_format.record import SimpleRecord
from kafka_log.checkpoints import LastRun
from kafka_log.cleaner.offset_map import Keys
from kafka_log.cleaner.releases import KAFKA_3_9_1, KAFKA_4_3, CleanerRules
from kafka_log.clock import FixedClock, Scheduler
from kafka_log.config.log_config import DAY_MS, LogConfig
from kafka_log.disk.files import DiskFiles
from kafka_log.log.unified_log import PartitionLog
from tests import golden
from tests.kafka_log.cleaner.cleaners import new_cleaner

NEVER = 2**62
TODAY = 1_794_819_120_000  # 2026-11-16, when the packs were made
# A broker looks for expired producers every ten minutes: those of records of 2023 still counted.
CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    segment_index_bytes=65_536,
    producer_id_expiration_ms=NEVER,
)
KINDS = ("log", "index", "timeindex", "txnindex")
DELETED = ".deleted"


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveRound:
    """The last round of a live cleaner over a partition."""

    partition: str
    replaced: tuple[int, ...]
    """Bases of its sources, all of which lie there as `.deleted`."""
    made: tuple[int, ...] = (0,)
    """Bases of what it made of them."""
    checkpoint: int = 0
    now_ms: int = TODAY
    retention_ms: int = DAY_MS
    segment_bytes: int = 2**30
    pack: str = "cleaner-4.3.1"
    has_index_of_aborted: bool = False
    """An index of aborted transactions is among its sources, not left from a round before."""

    def __str__(self) -> str:
        return f"{self.pack} {self.partition}"


BY_4_3 = [
    LiveRound(partition="compacted.aborted-0", replaced=(0,), has_index_of_aborted=True),
    LiveRound(partition="compacted.producers-0", replaced=(0, 6, 12)),
    LiveRound(partition="compacted-later-0", replaced=(0, 4)),
    *(
        LiveRound(partition=f"compacted.codecs-{codec}", replaced=(0, 30))
        for codec in (0, 1, 2, 3, 4)
    ),
    LiveRound(partition="compacted.tombstones-0", replaced=(0, 25, 26), checkpoint=25),
    LiveRound(partition="compacted.append-time-0", replaced=(0, 25, 26), checkpoint=25),
    LiveRound(
        partition="compacted.no-retention-0",
        replaced=(0, 25, 26),
        checkpoint=25,
        retention_ms=0,
    ),
    LiveRound(partition="compacted.transactions-0", replaced=(0, 21), checkpoint=21),
]
SNAPPY = "compacted.codecs-2"

# What brokers before 4.0 left of old magics has the same records, but not ours of magic 2.
BY_OLDER = [
    LiveRound(
        pack=pack,
        partition="magic-1.compacted-0",
        replaced=(0, 20, 40, 60, 80),
        made=(0, 20, 40, 60, 80),
    )
    for pack in ("legacy-2.8.2", "legacy-0.10.2.2")
] + [
    LiveRound(
        pack="legacy-2.8.2",
        partition="magic-0.compacted-0",
        replaced=(0, 20, 40, 70),
        made=(0, 40, 70),
        checkpoint=40,
    ),
    LiveRound(
        pack="legacy-0.10.2.2",
        partition="magic-0.compacted-0",
        replaced=(0, 20, 40, 70),
        made=(0, 70),
        checkpoint=70,
    ),
    LiveRound(
        pack="clean-3.9.1",
        partition="compacted-0",
        replaced=(0, 9, 18, 27, 36, 45, 54),
        made=(0, 36, 45, 54),
        checkpoint=36,
        segment_bytes=400,
    ),
]


def _live(one: LiveRound) -> Path:
    (found,) = golden.shared(one.pack).glob(f"data*/{one.partition}")
    return found


def _earlier(one: LiveRound, folder: Path) -> Path:
    """The partition as it was before that round."""
    live, copy = _live(one), folder / one.partition
    copy.mkdir()
    made = tuple(f"{base:020d}." for base in one.made)
    for path in live.iterdir():
        if not path.name.endswith(DELETED) and (
            not path.name.startswith(made) or path.suffix == ".snapshot"
        ):
            shutil.copyfile(path, copy / path.name)
    for base in one.replaced:
        for path in live.glob(f"{base:020d}.*{DELETED}"):
            if ".txnindex" not in path.name or one.has_index_of_aborted:
                shutil.copyfile(path, copy / path.name.removesuffix(DELETED))
    return copy


def _rerun(
    directory: Path, one: LiveRound, keys: Keys = Keys.HASHED, rules: CleanerRules = KAFKA_4_3
) -> None:
    clock = FixedClock(one.now_ms)
    config = dataclasses.replace(
        CONFIG, delete_retention_ms=one.retention_ms, segment_bytes=one.segment_bytes
    )
    last_run = LastRun(recovery_point=NEVER)
    log = PartitionLog.open(DiskFiles(directory), config, Scheduler(clock), last_run)
    log.update_high_watermark(log.log_end_offset)
    new_cleaner(log.config, clock, keys=keys, rules=rules).clean(log, one.checkpoint)
    log.close_handlers()


def _files(directory: Path, bases: tuple[int, ...]) -> dict[str, bytes]:
    names = [f"{base:020d}.{kind}" for base in bases for kind in KINDS]
    return {name: (directory / name).read_bytes() for name in names if (directory / name).exists()}


def _survivors(directory: Path) -> list[tuple[int, int, bytes | None, bytes | None]]:
    return [
        (record.offset, record.timestamp, record.key, record.value)
        for path in sorted(directory.glob("*.log"))
        for batch in LogFile(path.read_bytes()).batches()
        for record in batch.records()
    ]


@pytest.mark.parametrize("keys", Keys)
@pytest.mark.parametrize("one", BY_4_3, ids=str)
def test_a_rerun_leaves_the_files_that_the_live_cleaner_left(
    one: LiveRound, keys: Keys, memory_path: Path
) -> None:
    directory = _earlier(one, memory_path)
    before = _files(directory, one.replaced)
    _rerun(directory, one, keys)
    ours, live = _files(directory, one.made), _files(_live(one), one.made)
    assert ours != before
    if one.partition == SNAPPY:
        assert _survivors(directory) == _survivors(_live(one))
        assert _headers(directory) == _headers(_live(one))
    else:
        assert ours == live


def _headers(directory: Path) -> list[object]:
    found: list[object] = []
    for path in sorted(directory.glob("*.log")):
        for batch in LogFile(path.read_bytes()).batches():
            assert isinstance(batch, RecordBatch)
            found.append(batch.header._replace(batch_length=0, crc=0))
    return found


@pytest.mark.parametrize("one", BY_OLDER, ids=str)
def test_a_rerun_keeps_the_records_that_an_older_live_cleaner_kept(
    one: LiveRound, memory_path: Path
) -> None:
    directory = _earlier(one, memory_path)
    before = _survivors(directory)
    _rerun(directory, one)
    assert _survivors(directory) == _survivors(_live(one))
    assert len(before) > len(_survivors(directory))


def test_by_the_rules_of_3_9_1_a_rerun_leaves_the_files_of_its_live_cleaner(
    memory_path: Path,
) -> None:
    (one,) = (each for each in BY_OLDER if each.pack == "clean-3.9.1")
    directory = _earlier(one, memory_path)
    _rerun(directory, one, rules=KAFKA_3_9_1)
    assert _files(directory, one.made) == _files(_live(one), one.made)


@pytest.mark.parametrize(
    ("partition", "horizon_ms", "retention_ms"),
    [
        ("compacted.tombstones-0", 1_794_905_512_611, DAY_MS),
        ("compacted.no-retention-0", 1_794_819_113_549, 0),
    ],
)
def test_the_horizon_is_the_live_cleaners_clock_and_retention(
    partition: str, horizon_ms: int, retention_ms: int, memory_path: Path
) -> None:
    """The round before the last, of which only the first source is lost: it is written anew.

    tests/golden/make/scenarios/cleaner_431.py says what was in it; no record of it survived.
    """
    one = LiveRound(
        partition=partition,
        replaced=(10, 20),
        made=(0,),
        now_ms=horizon_ms - retention_ms,
        retention_ms=retention_ms,
    )
    directory = _earlier(one, memory_path)
    keys = [b"key-%d" % i for i in range(10)]
    first = [SimpleRecord(1_700_007_200_000, key, b"old " + key) for key in keys]
    (directory / f"{0:020d}.log").write_bytes(encode_batch(first, partition_leader_epoch=0))
    for kind in ("index", "timeindex"):
        (directory / f"{0:020d}.{kind}").write_bytes(b"")
    for name in (f"{25:020d}.log", f"{25:020d}.index", f"{25:020d}.timeindex"):
        shutil.copyfile(_live(one) / (name + DELETED), directory / name)
    for path in directory.glob(f"{29:020d}.*"):
        path.unlink()
    _rerun(directory, one)
    for kind in ("log", "index", "timeindex"):
        name = f"{0:020d}.{kind}"
        assert (directory / name).read_bytes() == (_live(one) / (name + DELETED)).read_bytes()
