"""The same directory cleaned by Kafka's Cleaner and by ours, and the first thing that differs.

A case is a directory that Kafka wrote, and passes: each with its time, what is appended before it,
and the cleaner's buffers. Both sides get a copy with the same modification times. Compared are
what is chosen to be cleaned, the statistics, the offset where the next pass begins, the state of
the log, every byte of every file (of a producer snapshot the rows), and the times that Kafka sets,
of `.log`, `.index` and `.timeindex` files.
"""

import os
import random
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from kafka_format.batch import RecordBatch
from kafka_format.compression import Codec
from kafka_format.errors import FormatError
from kafka_format.log_file import LogFile
from kafka_log.cleaner.cleanable import cleanable_offsets, max_compaction_delay, select
from kafka_log.cleaner.cleaner import Cleaner
from kafka_log.cleaner.errors import LogCleaningAbortedError
from kafka_log.cleaner.offset_map import Keys
from kafka_log.cleaner.releases import KAFKA_4_3, CleanerRules
from kafka_log.cleaner.stats import CleanerStats
from kafka_log.disk.files import DiskFiles
from kafka_log.errors import LogError
from kafka_log.log.unified_log import PartitionLog
from tests.kafka_log.cleaner.cleaners import new_cleaner
from tests.kafka_log.cleaner.passes import CleaningPass
from tests.kafka_log.driver import Session, brief_state, files_of
from tests.kafka_log.steps import DeleteOldSegments, HighWatermark, Roll, Step, UpdateConfig
from tests.kafka_log.workload import START, draw_workload
from tests.oracle.client import Oracle
from tests.oracle.logs import LogPlan
from tests.show import seen_by

# Kafka makes cleaned segments by the clock of the machine, not of the log, and may roll by its age.
_NO_ROLL_BY_AGE = {"segment.ms": 2**63 - 1, "max.compaction.lag.ms": 2**63 - 1}
_NOT_SNAPPY = (Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD)
_TIMES = {"start_time", "map_complete_time", "end_time"}
_OUR_TIMES = START + 10**9
"""Later than any time of a log that is drawn."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningCase:
    name: str
    source: Path
    arguments: Mapping[str, Any]  # as run_log takes them
    passes: Sequence[CleaningPass]
    is_exact: bool = True  # no snappy to be compressed again
    keys: Keys = Keys.HASHED
    rules: CleanerRules = KAFKA_4_3
    reported: dict[str, Any] = field(default_factory=dict)
    suite: str = "cleaner"
    seed: int | None = None
    """By which `python -m tests.show` draws it again; None of a case that was not drawn."""


# -------------------------------------------------------------------------------------- cases


def draw_plan(seed: int) -> LogPlan:
    """A log with a little of everything, or of an old magic."""
    rng = random.Random(seed)
    magic = rng.choice((2, 2, 2, 2, 2, 1, 0))
    codecs = ("none", "gzip", "lz4") if magic < 2 else ("none", "gzip", "lz4", "zstd")
    return LogPlan(
        seed=seed,
        batches=rng.choice((20, 60, 90)),
        records_per_batch=rng.choice((1, 4, 8)),
        value_size=rng.choice((10, 60, 120)),
        codecs=rng.choice((codecs, codecs, ("none",))),
        magic=magic,
        timestamp_type=rng.choice(("CreateTime", "CreateTime", "LogAppendTime")),
        open_transactions=rng.choice((0, 0, 0, 1)),
        gaps=magic == 2 and rng.random() < 0.3,
        config={
            "segment.bytes": rng.choice((1300, 2500, 6000, 20_000)),
            "index.interval.bytes": rng.choice((0, 100, 400)),
            "segment.index.bytes": 4000,
        },
    )


def draw_config(rng: random.Random, base: Mapping[str, Any]) -> dict[str, Any]:
    return dict(base) | {
        "cleanup.policy": rng.choice(("compact", "compact", "compact,delete")),
        "retention.ms": rng.choice((-1, 30_000)),
        "delete.retention.ms": rng.choice((0, 100, 50_000)),
        "min.compaction.lag.ms": rng.choice((0, 0, 0, 0, 5_000, 40_000)),
        "max.compaction.lag.ms": rng.choice((2**63 - 1, 3_000)),
        "min.cleanable.dirty.ratio": rng.choice((0.0, 0.5, 0.9)),
        "segment.bytes": rng.choice((base["segment.bytes"], 3000, 100_000)),
    }


def draw_passes(rng: random.Random, seed: int, now: int, retention_ms: int) -> list[CleaningPass]:
    """Times that step over delete horizons, or stop right before or at them."""
    passes: list[CleaningPass] = []
    # Cores are drawn by other dice: Kafka has no such mode, and a seed draws what it always drew.
    cores = random.Random(f"cores {seed}")
    for _ in range(rng.choice((1, 2, 3, 3))):
        drawn = CleaningPass(
            time=now,
            dedupe_buffer_size=rng.choice((72, 1200, 6000, 1 << 20, 1 << 20)),
            io_buffer_size=rng.choice((200, 1000, 5000, 512 * 1024)),
            only_if_eligible=rng.random() < 0.2,
            columnar=rng.choice((None, None, False)),
            cores=cores.choice((1, 3)),
        )
        if passes and rng.random() < 0.7:
            drawn = replace(drawn, checkpoint=0)  # all of it is dirty again
        passes.append(drawn)
        now += rng.choice((0, max(0, retention_ms - 1), retention_ms, retention_ms + 1))
    return passes


def planned_case(
    oracle: Oracle, folder: Path, seed: int, plan: LogPlan | None = None
) -> CleaningCase:
    rng = random.Random(seed)
    plan = plan or draw_plan(seed)
    source = folder / "source" / f"plan-{seed}"
    built = oracle.build_log(source, plan)
    now = START + plan.batches * 1000
    _set_times(source, rng, now)
    config = draw_config(rng, plan.settings())
    first, *later = draw_passes(rng, seed, now, config["delete.retention.ms"])
    # Only once it is open: a log with indexes larger than they may be does not load.
    smaller = config | {"segment.index.bytes": rng.choice((200, 4000, 4000))}
    steps = [Step(UpdateConfig(smaller))]
    if rng.random() < 0.7:
        steps += [Step(Roll()), Step(HighWatermark())]
    passes = [replace(first, steps=steps)]
    passes += [  # as the cleaner's thread does once it has cleaned
        replace(one, steps=[Step(DeleteOldSegments(), time=one.time)]) for one in later
    ]
    end = built.state["log_end_offset"]
    return CleaningCase(
        name=f"plan {seed}",
        source=source,
        arguments={
            "config": config,
            "time": now,
            "close": rng.choice(("clean", "crash")),
            "recovery_point": end,
        }
        | ({"checkpoint": rng.randrange(end + 2)} if rng.random() < 0.2 else {}),
        passes=passes,
        is_exact="snappy" not in plan.codecs,
        suite="cleaner-snappy" if "snappy" in plan.codecs else "cleaner",
        seed=seed,
        keys=rng.choice((Keys.HASHED, Keys.HASHED, Keys.EXACT)),
    )


def lived_cases(oracle: Oracle, folder: Path, seeds: Iterable[int]) -> list[CleaningCase]:
    """Logs after a seeded life, which goes on between the passes."""
    drawn = [draw_workload(seed, crashes=False, steps=40, codecs=_NOT_SNAPPY) for seed in seeds]
    paths = [folder / "source" / f"life-{each.seed}" for each in drawn]
    lives = oracle.call(
        "run_sessions",
        runs=[
            {"path": path, "sessions": each.sessions[:1]}
            for path, each in zip(paths, drawn, strict=True)
        ],
        timeout=600,
    )
    cases = []
    for each, path, (life,) in zip(drawn, paths, lives, strict=True):
        rng = random.Random(each.seed)
        closed = {name: life["closed"][name] for name in ("log_start_offset", "recovery_point")}
        _set_times(path, rng, START)
        following = each.sessions[1]
        config = draw_config(rng, following.opening.config) | _NO_ROLL_BY_AGE
        now = following.opening.time
        passes = draw_passes(rng, each.seed, now, config["delete.retention.ms"])
        for i, session in zip(range(1, len(passes)), each.sessions[1:], strict=False):
            passes[i] = _after_life(passes[i], session.steps, config)
        cases.append(
            CleaningCase(
                name=f"life {each.seed}",
                source=path,
                arguments=following.opening.request()
                | closed
                | {"config": config, "close": "crash", "steps": []},
                passes=passes,
                suite="cleaner-life",
                seed=each.seed,
                keys=rng.choice((Keys.HASHED, Keys.HASHED, Keys.EXACT)),
            )
        )
    return cases


def _after_life(
    one: CleaningPass, steps: Sequence[Step], config: Mapping[str, Any]
) -> CleaningPass:
    """The pass after these steps, once they are replicated."""
    taken = [_same_config(step, config) for step in steps]
    replicated = Step(HighWatermark(), may_fail=True)
    time = max(one.time, steps[-1].time)
    return replace(one, steps=[*taken, replicated], time=time)


def _same_config(step: Step, config: Mapping[str, Any]) -> Step:
    is_update = isinstance(step.action, UpdateConfig)
    return replace(step, action=UpdateConfig(config)) if is_update else step


def _set_times(directory: Path, rng: random.Random, now: int) -> None:
    for path in sorted(directory.glob("*.log")):
        set_modified(path, now - rng.choice((0, 60, 3_000, 49_000, 200_000)))


def set_modified(path: Path, modified_ms: int) -> None:
    os.utime(path, ns=(modified_ms * 1_000_000, modified_ms * 1_000_000))


# --------------------------------------------------------------------------------- comparison


def compare(oracle: Oracle, folder: Path, cases: Sequence[CleaningCase]) -> None:
    runs = kafka_runs(folder, cases)
    for case, theirs in zip(cases, oracle.call("clean_logs", runs=runs, timeout=600), strict=True):
        ours = folder / "ours" / case.source.name
        shutil.copytree(case.source, ours)
        compare_one(case, ours, folder / "kafka" / case.source.name, theirs)


def kafka_runs(folder: Path, cases: Sequence[CleaningCase]) -> list[dict[str, Any]]:
    """Runs of the oracle's `clean_logs`, on copies in the folder `kafka`."""
    (folder / "kafka").mkdir(exist_ok=True)
    return [
        dict(case.arguments)
        | {
            "path": folder / "kafka" / case.source.name,
            "copy_from": case.source,
            "passes": case.passes,
        }
        for case in cases
    ]


def compare_one(
    case: CleaningCase, directory: Path, kafkas: Path, theirs: Mapping[str, Any]
) -> None:
    case.reported.update(theirs)
    if "error" in theirs:
        return  # a directory that does not load, which is not the cleaner's business
    with seen_by(case.suite, case.seed):
        _compare_loaded(case, directory, kafkas, theirs)


def _compare_loaded(
    case: CleaningCase, directory: Path, kafkas: Path, theirs: Mapping[str, Any]
) -> None:
    session = open_case(case, directory)
    both = zip(our_passes(case, session), theirs["passes"], strict=True)
    for i, (found, expected) in enumerate(both):
        _compare_pass(f"{case.name}, pass {i}", case, found, expected)
    state = brief_state(session.log)
    session.close(case.arguments["close"])
    expected = theirs.get("state", state)  # 3.9.1's oracle tells none
    if case.is_exact or state["size_in_bytes"] == expected["size_in_bytes"]:
        assert state == expected, case.name
    _compare_files(case, directory, kafkas)


def open_case(case: CleaningCase, directory: Path) -> Session:
    """Our log on a copy of the case's directory, all of it below the high watermark."""
    arguments = {"log_start_offset": 0, "recovery_point": 0} | dict(case.arguments)
    session = Session(DiskFiles(directory), arguments)
    if session.log.log_end_offset >= 0:
        session.log.update_high_watermark(session.log.log_end_offset)
    return session


def our_passes(case: CleaningCase, session: Session) -> Iterator[dict[str, Any]]:
    """What the oracle tells of each pass, by ours."""
    checkpoint = case.arguments.get("checkpoint")
    for one in case.passes:
        for step in one.steps:
            session.try_step(step)
        checkpoint = checkpoint if one.checkpoint is None else one.checkpoint
        found = run_pass(session, one, checkpoint, case.keys, case.rules)
        checkpoint = found.get("next_dirty_offset", checkpoint)
        yield found


def run_pass(
    session: Session,
    one: CleaningPass,
    checkpoint: int | None,
    keys: Keys,
    rules: CleanerRules = KAFKA_4_3,
) -> dict[str, Any]:
    """As the oracle tells of one."""
    session.clock.now_ms = one.time
    found: dict[str, Any] = {}
    try:
        found |= _chosen(session.log, checkpoint, one.time)
        if one.only_if_eligible and not found["is_eligible"]:
            return found
        cleaned = _cleaner(session, one, keys, rules).clean(session.log, checkpoint)
    except (LogError, FormatError, ValueError) as problem:
        return found | {"error": problem}
    return found | {
        "next_dirty_offset": cleaned.next_dirty_offset,
        "stats": stats_of(cleaned.stats),
    }


def _chosen(log: PartitionLog, checkpoint: int | None, now: int) -> dict[str, Any]:
    offsets = cleanable_offsets(log, checkpoint, now)
    chosen = select(log, checkpoint, now)
    ratio = chosen.cleanable_ratio
    return {
        "first_dirty_offset": offsets.first_dirty_offset,
        "first_uncleanable_dirty_offset": offsets.first_uncleanable_dirty_offset,
        "force_update_checkpoint": offsets.force_update_checkpoint,
        "max_compaction_delay": max_compaction_delay(log, offsets.first_dirty_offset, now),
        "first_uncleanable_offset": chosen.first_uncleanable_offset,
        "clean_bytes": chosen.clean_bytes,
        "cleanable_bytes": chosen.cleanable_bytes,
        "cleanable_ratio": None if ratio != ratio else ratio,  # not a number
        "is_eligible": chosen.is_eligible,
    }


def _cleaner(session: Session, one: CleaningPass, keys: Keys, rules: CleanerRules) -> Cleaner:
    return new_cleaner(
        session.log.config,
        session.clock,
        dedupe_buffer_size=one.dedupe_buffer_size,
        io_buffer_size=one.io_buffer_size,
        message_max_bytes=one.message_max_bytes,
        keys=keys,
        columnar=one.columnar,
        check_done=_Checks(session, one),
        rules=rules,
        **_sharing(one),
    )


class _Checks:
    """What happens when the cleaner asks for the n-th time whether it should go on."""

    def __init__(self, session: Session, one: CleaningPass) -> None:
        self._session = session
        self._one = one
        self._asked = 0

    def __call__(self) -> None:
        self._asked += 1
        for step in self._one.during.get(str(self._asked), ()):
            self._session.try_step(step)
        if self._one.abort_at == self._asked:
            raise LogCleaningAbortedError("somebody wants the log")


def _sharing(one: CleaningPass) -> dict[str, Any]:
    """A pass for several cores has blocks as small as chunks."""
    return {"cores": one.cores, "block_bytes": 1} if one.cores > 1 else {}


def stats_of(stats: CleanerStats) -> dict[str, Any]:
    return {name: value for name, value in asdict(stats).items() if name not in _TIMES}


def _compare_pass(
    where: str, case: CleaningCase, found: dict[str, Any], expected: Mapping[str, Any]
) -> None:
    if "error" in expected or "error" in found:
        both = f"{where}: {found.get('error')!r}, Kafka: {expected.get('error')}"
        assert "error" in expected, both
        assert "error" in found, both
        return
    if case.is_exact or _same_sizes(found, expected):
        assert found == expected, where
    else:
        assert found["next_dirty_offset"] == expected["next_dirty_offset"], where
        counted = ("map_messages_read", "messages_read", "messages_written")
        for name in counted:
            assert found["stats"][name] == expected["stats"][name], f"{where}, {name}"


def _same_sizes(found: Mapping[str, Any], expected: Mapping[str, Any]) -> bool:
    sizes = ("clean_bytes", "cleanable_bytes")
    if any(found[name] != expected[name] for name in sizes):
        return False
    written = [each.get("stats", {}).get("bytes_written") for each in (found, expected)]
    return written[0] == written[1]


def _compare_files(case: CleaningCase, directory: Path, kafkas: Path) -> None:
    ours, theirs = files_of(directory), files_of(kafkas)
    assert sorted(ours) == sorted(theirs), case.name
    for name in sorted(ours):
        if ours[name] == theirs[name] or name.endswith(".timeindex.cleaned"):
            continue  # (a round that fails may leave half an entry there, in Kafka's mapped file)
        if name.endswith(".cleaned") and any(map(_sharing, case.passes)):
            continue  # what a failed round leaves may differ by a chunk where blocks meet
        where = f"{case.name}: {name}"
        assert not case.is_exact, f"{where} {ours[name]} {theirs[name]}"
        base, kind, *suffix = name.split(".")
        if kind == "log":
            assert _plain(directory / name) == _plain(kafkas / name), where
        else:
            log = ".".join((base, "log", *suffix))
            assert ours[log] != theirs[log], f"{where}, and its log does not"
    assert set_times(directory) == set_times(kafkas), case.name


def set_times(directory: Path) -> dict[str, int]:
    """The times of files that a test set; files written since have this machine's time."""
    times = {
        path.name: int(path.stat().st_mtime * 1000)
        for path in directory.iterdir()
        if path.suffix in (".log", ".index", ".timeindex")
    }
    return {name: modified_ms for name, modified_ms in times.items() if modified_ms < _OUR_TIMES}


def _plain(path: Path) -> list[Any]:
    """Batches as they are but for the bytes that a codec made."""
    return [
        (
            batch.header._replace(batch_length=0, crc=0),
            batch.records() if batch.header.codec_id < 5 else bytes(batch.payload),
        )
        if isinstance(batch, RecordBatch)
        else bytes(batch.raw)
        for batch in LogFile(path.read_bytes()).batches()
    ]
