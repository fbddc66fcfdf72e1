"""Damaged partition directories from a seed: sound ones by Kafka, damage drawn here.

    sources = build_sources(oracle, folder)      a dozen sound directories, once
    case = draw_case(seed, sources)              which one, what is done to it, how it is opened
    make(case, target)                           the damaged directory

A case is deterministic: the same seed gives the same directory. Damage is done to bytes and names,
never by code under test.
"""

import random
import shutil
import struct
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from tests import golden
from tests.oracle.client import Oracle, record
from tests.oracle.logs import START, LogPlan

SETTINGS = {
    "segment.bytes": 2048,
    "index.interval.bytes": 300,
    "segment.index.bytes": 1024,
    "message.timestamp.after.max.ms": 2**63 - 1,
    "retention.ms": -1,
}
GOLDEN = (
    ("clean-3.9.1", "transactions-0"),
    ("cleaner-4.3.1", "compacted.codecs-0"),
    ("groups-4.3.1", "__consumer_offsets-1"),
    ("legacy-2.8.2", "magic-0.mixed-0"),
)
SUFFIXES = (".deleted", ".cleaned", ".swap")
ENDINGS = (".log", ".index", ".timeindex", ".txnindex")
_BATCH_LENGTH_END = 12
_INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A sound directory, how it was closed, and where it ends."""

    name: str
    path: Path
    log_end_offset: int
    settings: dict[str, Any] = field(default_factory=lambda: dict(SETTINGS))

    def bases(self) -> list[int]:
        return sorted(int(path.stem) for path in self.path.glob("*.log"))


@dataclass(slots=True, kw_only=True)
class Case:
    """What is done to which directory, and how it is opened."""

    seed: int
    source: Source
    directory: str
    arguments: dict[str, Any]
    damage: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        opened = {key: value for key, value in self.arguments.items() if key != "config"}
        return f"seed {self.seed}: {self.source.name}, {'; '.join(self.damage)}; {opened}"


# ------------------------------------------------------------------------------ sound directories


def build_sources(
    oracle: Oracle, folder: Path, only: Collection[str] | None = None
) -> list[Source]:
    """All of them, or those that are named."""
    plans = {
        "crashed": LogPlan(seed=1, batches=60, records_per_batch=5, close="crash"),
        "clean": LogPlan(seed=2, batches=60, records_per_batch=5),
        "gaps": LogPlan(seed=3, batches=50, records_per_batch=5, gaps=True, close="crash"),
        "gaps-clean": LogPlan(seed=4, batches=50, records_per_batch=5, gaps=True),
        "magic0": LogPlan(
            seed=5, batches=40, records_per_batch=4, magic=0, codecs=("none", "gzip")
        ),
        "magic1": LogPlan(
            seed=6,
            batches=40,
            records_per_batch=4,
            magic=1,
            close="crash",
            codecs=("none", "gzip", "snappy", "lz4"),
        ),
        "plain": LogPlan(
            seed=7, batches=40, idempotent_producers=0, transactional_producers=0, codecs=("none",)
        ),
        "log-append-time": LogPlan(
            seed=8, batches=40, timestamp_type="LogAppendTime", records_per_batch=4, close="crash"
        ),
        "transactions": LogPlan(
            seed=9,
            batches=80,
            records_per_batch=2,
            value_size=20,
            idempotent_producers=1,
            transactional_producers=5,
            open_transactions=2,
            codecs=("none",),
            close="crash",
        ),
        "one-segment": LogPlan(
            seed=10, batches=20, records_per_batch=3, config={"segment.bytes": 100_000}
        ),
        "preallocated": LogPlan(
            seed=11, batches=30, records_per_batch=4, close="crash", config={"preallocate": "true"}
        ),
    }
    builders: dict[str, Callable[[], Source]] = {
        name: partial(_build, oracle, folder / name / "orders-0", name, plan)
        for name, plan in plans.items()
    }
    builders["empty"] = partial(_empty, oracle, folder)
    builders["trimmed"] = partial(_trimmed, oracle, folder)
    builders |= {f"overflow-{i}": partial(_overflowing, oracle, folder, i) for i in (1, 2, 3)}
    builders["mixed"] = partial(_mixed_magics, oracle, folder)
    builders |= {pack: partial(_golden, folder, pack, name) for pack, name in GOLDEN}
    return [build() for name, build in builders.items() if only is None or name in only]


def _build(oracle: Oracle, path: Path, name: str, plan: LogPlan) -> Source:
    built = oracle.build_log(path, plan)
    settings = {**SETTINGS, **plan.settings()}
    end = built.state["log_end_offset"]
    return Source(name=name, path=path, log_end_offset=end, settings=settings)


def _empty(oracle: Oracle, folder: Path) -> Source:
    path = folder / "empty" / "orders-0"
    oracle.run_log(path, config=SETTINGS, time=START, close="crash")
    return Source(name="empty", path=path, log_end_offset=0)


def _trimmed(oracle: Oracle, folder: Path) -> Source:
    """Records deleted in the middle of a segment, older segments gone."""
    path = folder / "trimmed" / "orders-0"
    plan = LogPlan(seed=12, batches=50, records_per_batch=5)
    built = oracle.build_log(path, plan)
    end = built.state["log_end_offset"]
    steps = [
        {"do": "high_watermark"},
        {"do": "log_start_offset", "offset": end * 2 // 3},
        {"do": "delete_old_segments"},
    ]
    oracle.run_log(path, config=SETTINGS, time=START + 60_000, steps=steps, close="crash")
    return Source(name="trimmed", path=path, log_end_offset=end)


def _overflowing(oracle: Oracle, folder: Path, seed: int) -> Source:
    """One segment whose offsets are further apart than four bytes can say, as old cleaners left."""
    rng = random.Random(seed)
    path = folder / f"overflow-{seed}" / "orders-0"
    path.mkdir(parents=True)
    parts, offset, sequence = [], rng.choice((0, 5)), 0
    base = offset
    for i in range(rng.randint(3, 12)):
        batch = {
            "base_offset": offset,
            "codec": rng.choice(("none", "lz4")),
            "partition_leader_epoch": i // 3,
            "records": [
                record(START + i * 10 + j, b"k%d" % j, rng.randbytes(60), offset=offset + j)
                for j in range(2)
            ],
        }
        if seed > 1:
            batch |= {"producer_id": 7, "producer_epoch": 0, "base_sequence": sequence}
            sequence += 2
        parts.append(oracle.build_batch(batch))
        offset += 2 + rng.choice((0, 100, _INT32_MAX - 1, 2**31, 2**32))
    offset += 2**32
    parts.append(
        oracle.build_batch(
            {
                "base_offset": offset,
                "partition_leader_epoch": 9,
                "records": [record(START + 900, b"last", b"one", offset=offset)],
            }
        )
    )
    (path / f"{base:020d}.log").write_bytes(b"".join(parts))
    if seed == 3:  # with an index, so that it is the recovery of the log that finds out
        (path / f"{base:020d}.index").write_bytes(b"")
    return Source(name=f"overflow-{seed}", path=path, log_end_offset=offset + 1)


def _mixed_magics(oracle: Oracle, folder: Path) -> Source:
    """A log that was written by brokers of three ages."""
    path = folder / "mixed" / "orders-0"
    path.mkdir(parents=True)
    offset, data = 0, b""
    for magic in (0, 1, 2):
        for i in range(8):
            records = [
                record(START + offset + j, b"key", b"value %d" % j * 9, offset=offset + j)
                for j in range(3)
            ]
            batch = {"magic": magic, "base_offset": offset, "records": records}
            batch |= {"codec": "gzip" if i % 3 == 2 else "none", "partition_leader_epoch": 4}
            data += oracle.build_batch(batch)
            offset += 3
    (path / f"{0:020d}.log").write_bytes(data)
    return Source(name="mixed", path=path, log_end_offset=offset)


def _golden(folder: Path, pack: str, partition: str) -> Source:
    """A small partition that a broker wrote; its indexes are small too."""
    path = folder / pack / "orders-0"
    shutil.copytree(next(golden.shared(pack).rglob(partition)), path)
    settings = {"segment.index.bytes": 4096, "index.interval.bytes": 500}
    end = int(max(path.glob("*.log")).stem) + 30
    return Source(name=pack, path=path, log_end_offset=end, settings=settings)


# ------------------------------------------------------------------------------------- the drawing

Damage = Callable[[Path, random.Random, Source], str | None]


def draw_case(seed: int, sources: Sequence[Source]) -> Case:
    """Source and arguments; `make` draws the damage, which depends on what lies there."""
    rng = random.Random(f"case {seed}")
    source = rng.choice(sources)
    end = source.log_end_offset
    interesting = [0, 0, end, *source.bases()]
    recovery_point = rng.choice([*interesting, rng.randrange(end + 2), end + 5, 2**63 - 1])
    log_start = rng.choice([0] * 8 + [rng.choice(source.bases()), rng.randrange(end + 2), end + 3])
    if source.name == "trimmed" and rng.random() < 0.7:
        log_start = end * 2 // 3
    directory = "orders-0"
    if rng.random() < 0.06:
        directory += ".0123456789abcdef0123456789abcdef" + rng.choice(
            ("-delete", "-future", "-stray")
        )
    arguments = {
        "config": source.settings,
        "time": START + rng.choice((0, 3_600_000)),
        "clean_shutdown": rng.random() < 0.35,
        "recovery_point": recovery_point,
        "log_start_offset": log_start,
    }
    if rng.random() < 0.15:
        arguments["producer_id_expiration_ms"] = rng.choice((1, 20_000, 3_590_000))
    return Case(seed=seed, source=source, directory=directory, arguments=arguments)


def make(case: Case, folder: Path) -> Path:
    """The damaged directory, in `folder`; `case.damage` then tells what was done."""
    target = folder / case.directory
    shutil.copytree(case.source.path, target)
    rng = random.Random(f"damage {case.seed}")
    case.damage.clear()
    for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 2, 3, 4))):
        damage = rng.choices(DAMAGES, WEIGHTS)[0]
        done = damage(target, rng, case.source)
        if done:
            case.damage.append(done)
    if not case.damage:
        case.damage.append("no damage")
    return target


# --------------------------------------------------------------------------------- damage to logs


def _logs(target: Path) -> list[Path]:
    return sorted(path for path in target.glob("0*.log") if path.is_file())


def _pick_log(target: Path, rng: random.Random) -> Path | None:
    logs = _logs(target)
    if not logs:
        return None
    return rng.choice([*logs, logs[-1], logs[-1]])


def _positions(data: bytes) -> list[int]:
    """Where batches begin, and where they end."""
    found, position = [0], 0
    while position + _BATCH_LENGTH_END < len(data):
        (length,) = struct.unpack_from(">i", data, position + 8)
        if length < 14 or position + _BATCH_LENGTH_END + length > len(data):
            break
        position += _BATCH_LENGTH_END + length
        found.append(position)
    return found


def cut_log(target: Path, rng: random.Random, _: Source) -> str | None:
    log = _pick_log(target, rng)
    if log is None or not log.stat().st_size:
        return None
    data = log.read_bytes()
    at = rng.choice((rng.randrange(len(data)), rng.choice(_positions(data)), len(data) - 1, 0))
    log.write_bytes(data[:at])
    return f"{log.name} cut at {at} of {len(data)}"


def flip_log(target: Path, rng: random.Random, _: Source) -> str | None:
    log = _pick_log(target, rng)
    if log is None or not log.stat().st_size:
        return None
    data = bytearray(log.read_bytes())
    if rng.random() < 0.6:  # in a header, where it means something
        at = min(rng.choice(_positions(data)) + rng.randrange(61), len(data) - 1)
    else:
        at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)
    log.write_bytes(data)
    return f"{log.name} flipped at {at}"


def zero_tail(target: Path, rng: random.Random, _: Source) -> str | None:
    log = _pick_log(target, rng)
    if log is None:
        return None
    data = log.read_bytes()
    at = rng.choice((len(data), rng.choice(_positions(data)), rng.randrange(len(data) + 1)))
    zeros = max(len(data) - at, rng.choice((0, 1, 16, 17, 18, 61, 5000)))
    log.write_bytes(data[:at] + bytes(zeros))
    return f"{log.name} zeroed from {at} on, {zeros} bytes"


def garbage_tail(target: Path, rng: random.Random, _: Source) -> str | None:
    log = _pick_log(target, rng)
    if log is None:
        return None
    garbage = rng.randbytes(rng.choice((1, 11, 12, 16, 17, 18, 61, 300)))
    if rng.random() < 0.4:  # a length that cannot be true
        garbage = struct.pack(">qi", rng.randrange(1000), rng.choice((13, 14, 30, 48, 49, 2**30)))
        garbage += rng.randbytes(rng.choice((4, 5, 60, 100)))
    with log.open("ab") as file:
        file.write(garbage)
    return f"{log.name} with {len(garbage)} bytes of garbage"


def rearrange_batches(target: Path, rng: random.Random, _: Source) -> str | None:
    """Batches twice, left out, or in another order: all of them sound, their offsets not."""
    log = _pick_log(target, rng)
    if log is None:
        return None
    data = log.read_bytes()
    positions = _positions(data)
    batches = [data[a:b] for a, b in pairwise(positions)]
    if not batches:
        return None
    how = rng.choice(("twice", "dropped", "swapped", "foreign"))
    at = rng.randrange(len(batches))
    if how == "twice":
        batches.insert(rng.randint(at, len(batches)), batches[at])
    elif how == "dropped":
        del batches[at]
    elif how == "swapped":
        other = rng.randrange(len(batches))
        batches[at], batches[other] = batches[other], batches[at]
    else:
        other = rng.choice(_logs(target)).read_bytes()
        batches.insert(at, other[: [*_positions(other), 0][1]])
    log.write_bytes(b"".join(batches))
    return f"{log.name}: batch {at} {how}"


def lose_segment(target: Path, rng: random.Random, _: Source) -> str | None:
    log = _pick_log(target, rng)
    if log is None:
        return None
    how = rng.choice(("log", "all", "emptied", "moved"))
    if how == "all":
        for ending in ENDINGS:
            log.with_suffix(ending).unlink(missing_ok=True)
    elif how == "log":
        log.unlink()
    elif how == "emptied":
        log.write_bytes(b"")
    else:
        offset = max(0, int(log.stem) + rng.choice((-3, -1, 1, 2)))
        log.rename(target / f"{offset:020d}.log")
    return f"{log.name}: {how}"


# --------------------------------------------------------------------------- damage to side files


def _corrupt(path: Path, rng: random.Random) -> str:
    """One of the things that happen to a small file."""
    data = path.read_bytes() if path.exists() else b""
    how = rng.choice(("lost", "emptied", "cut", "flipped", "longer", "zeroed", "garbage", "zeros"))
    if how == "lost":
        path.unlink(missing_ok=True)
        return how
    if how in ("cut", "flipped", "zeroed") and not data:
        how = "garbage"
    changed = bytearray(data)
    if how == "emptied":
        changed = bytearray()
    elif how == "cut":
        del changed[rng.randrange(len(data)) :]
    elif how == "flipped":
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif how == "longer":
        changed += rng.randbytes(rng.choice((1, 7, 12, 34)))
    elif how == "zeroed":
        at = rng.randrange(len(data))
        changed[at:] = bytes(len(data) - at)
    elif how == "zeros":
        changed += bytes(rng.choice((8, 12, 24, 34, 1000, 2000)))
    else:
        changed = bytearray(rng.randbytes(rng.choice((1, 8, 12, 24, 34, 68, 100))))
    path.write_bytes(changed)
    return how


def _side_file(ending: str) -> Damage:
    def damage(target: Path, rng: random.Random, _: Source) -> str | None:
        log = _pick_log(target, rng)
        if log is None:
            return None
        existing = sorted(target.glob(f"*{ending}"))
        path = log.with_suffix(ending)
        if existing and rng.random() < 0.7:
            path = rng.choice(existing)
        return f"{path.name} {_corrupt(path, rng)}"

    return damage


def lose_all_of_a_kind(target: Path, rng: random.Random, _: Source) -> str:
    ending = rng.choice((".index", ".timeindex", ".txnindex", ".snapshot", ".snapshot"))
    for path in target.glob(f"*{ending}"):
        path.unlink()
    return f"every {ending} lost"


def transaction_index_entry(target: Path, rng: random.Random, _: Source) -> str | None:
    """An entry that cannot be: before its segment, or of a version to come."""
    log = _pick_log(target, rng)
    if log is None:
        return None
    base = int(log.stem)
    version = rng.choice((0, 0, 0, 0, 1, 256))
    first, last = rng.choice(((base - 9, base - 5), (base, base + 1), (base + 5, base + 900)))
    entry = struct.pack(">hqqqq", version, rng.randrange(3000), first, last, last)
    with log.with_suffix(".txnindex").open("ab") as file:
        file.write(entry)
    return f"{log.stem}.txnindex with an entry {version} {first}..{last}"


def snapshot_elsewhere(target: Path, rng: random.Random, source: Source) -> str | None:
    """A snapshot where none should be."""
    snapshots = sorted(target.glob("*.snapshot"))
    if not snapshots:
        return None
    original = rng.choice(snapshots)
    offset = rng.randrange(source.log_end_offset + 20)
    name = f"{offset:020d}.snapshot" if rng.random() < 0.9 else f"{offset}.snapshot"
    if (target / f"{offset:020d}.snapshot").exists():
        return None  # of two for one offset Kafka takes the one that the file system lists last
    shutil.copyfile(original, target / name)
    if rng.random() < 0.3:
        original.unlink(missing_ok=True)
    return f"{original.name} also as {name}"


def leader_epochs(target: Path, rng: random.Random, source: Source) -> str:
    path = target / "leader-epoch-checkpoint"
    if rng.random() < 0.25:
        return f"{path.name} {_corrupt(path, rng)}"
    rows, epoch, offset = [], 0, 0
    for _ in range(rng.randrange(6)):
        epoch += rng.choice((1, 1, 3, 0, -1))
        offset += rng.choice((0, 10, source.log_end_offset // 4, source.log_end_offset, -5))
        rows.append(f"{max(0, epoch)} {max(0, offset)}")
    text = "\n".join(("0", str(len(rows)), *rows)) + "\n"
    path.write_text(text)
    return f"{path.name} {rows}"


def partition_metadata(target: Path, rng: random.Random, _: Source) -> str:
    return f"partition.metadata {_corrupt(target / 'partition.metadata', rng)}"


# ------------------------------------------------------------------------------------- left-overs


def left_over(target: Path, rng: random.Random, _: Source) -> str | None:
    """A file with a suffix, beside or instead of the live one."""
    names = sorted(path.name for path in target.iterdir() if path.name[0].isdigit())
    if not names:
        return None
    name, suffix = rng.choice(names), rng.choice((*SUFFIXES, ".tmp"))
    if rng.random() < 0.5:
        shutil.copyfile(target / name, target / f"{name}{suffix}")
        return f"{name}{suffix} beside"
    (target / name).rename(target / f"{name}{suffix}")
    return f"{name}{suffix} instead"


def odd_name(target: Path, rng: random.Random, _: Source) -> str:
    name = rng.choice(
        (
            "5.log",
            "7.index",
            "x.log",
            "x.index",
            "x.snapshot",
            "3.snapshot",
            "x.swap",
            "x.cleaned",
            "notes.txt",
            "00000000000000000003.log.tmp",
            "00000000000000000005.txnindex",
            "00000000000000000001.timeindex.deleted",
            "x.deleted",
            "quorum-state",
            "00000000000000000010-0000000001.checkpoint.deleted",
            "4.log.swap",
            "12.index.cleaned",
        )
    )
    (target / name).write_bytes(rng.choice((b"", b"odd", bytes(24))))
    return f"{name} added"


def folder_inside(target: Path, rng: random.Random, _: Source) -> str:
    name = rng.choice(("00000000000000000007.log.swap", "notes", "00000000000000000002.log"))
    if not (target / name).exists():
        (target / name).mkdir()
    return f"a folder {name}"


def interrupted_swap(target: Path, rng: random.Random, _: Source) -> str | None:
    """The cleaner's output in place of some segments, stopped at one of its steps.

    Steps: .cleaned files written; renamed to .swap, highest base first; sources renamed to
    .deleted (or not); .swap renamed to live, file by file.
    """
    logs = _logs(target)
    if not logs:
        return None
    first = rng.randrange(len(logs))
    group = logs[first : first + rng.randint(1, 3)]
    outputs = _outputs(group, rng)
    steps: list[tuple[Path, Path | None]] = []
    names = _write_cleaned(target, group, outputs, rng)
    for base in sorted(outputs, reverse=True):
        for ending in names[base]:
            stem = target / f"{base:020d}{ending}"
            steps.append((Path(f"{stem}.cleaned"), Path(f"{stem}.swap")))
    for log in group:
        for ending in ENDINGS:
            live = log.with_suffix(ending)
            if live.exists():
                steps.append((live, Path(f"{live}.deleted") if rng.random() < 0.8 else None))
    for base in sorted(outputs):
        for ending in names[base]:
            stem = target / f"{base:020d}{ending}"
            steps.append((Path(f"{stem}.swap"), stem))
    done = rng.randint(0, len(steps))
    for old, new in steps[:done]:
        if new is not None and new.is_dir():
            break
        if new is None:
            old.unlink()
        else:
            old.replace(new)
    bases = [int(log.stem) for log in group]
    return f"swap of {bases} by {sorted(outputs)}, stopped at step {done} of {len(steps)}"


def _outputs(group: Sequence[Path], rng: random.Random) -> dict[int, bytes]:
    """Some of the batches of a group of segments, in one new segment or (a split) in two."""
    data = b"".join(log.read_bytes() for log in group)
    positions = _positions(data)
    batches = [data[a:b] for a, b in pairwise(positions)]
    kept = [batch for batch in batches if rng.random() < 0.7]
    base = int(group[0].stem)
    if len(kept) > 1 and rng.random() < 0.35:
        at = rng.randrange(1, len(kept))
        second = struct.unpack_from(">q", kept[at])[0]
        if second > base:
            return {base: b"".join(kept[:at]), second: b"".join(kept[at:])}
    return {base: b"".join(kept)}


def _write_cleaned(
    target: Path, group: Sequence[Path], outputs: dict[int, bytes], rng: random.Random
) -> dict[int, list[str]]:
    """`.cleaned` files, and which endings each base has; an index may be missing, or any."""
    written = {}
    for base, data in outputs.items():
        endings = [".log"]
        (target / f"{base:020d}.log.cleaned").write_bytes(data)
        for ending in ENDINGS[1:]:
            chance = 0.9 if ending != ".txnindex" else 0.3
            if rng.random() < chance:
                source = group[0].with_suffix(ending)
                content = source.read_bytes() if source.exists() else b""
                content = rng.choice((b"", b"", content))
                (target / f"{base:020d}{ending}.cleaned").write_bytes(content)
                endings.append(ending)
        written[base] = endings
    return written


DAMAGES: tuple[Damage, ...] = (
    cut_log,
    flip_log,
    zero_tail,
    garbage_tail,
    rearrange_batches,
    lose_segment,
    _side_file(".index"),
    _side_file(".timeindex"),
    _side_file(".txnindex"),
    _side_file(".snapshot"),
    lose_all_of_a_kind,
    transaction_index_entry,
    snapshot_elsewhere,
    leader_epochs,
    partition_metadata,
    left_over,
    odd_name,
    folder_inside,
    interrupted_swap,
)
WEIGHTS = (8, 10, 6, 6, 5, 4, 6, 6, 6, 6, 5, 3, 4, 5, 1, 6, 2, 1, 9)
