"""Damage to indexes, snapshots and the small text files of a partition."""

import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

from tests.kafka_log.damaged.logs import pick_log
from tests.kafka_log.damaged.sources import Source

Damage = Callable[[Path, random.Random, Source], str | None]
"""Does something to a directory, and tells what; None if there was nothing to do it to."""


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


def side_file(ending: str) -> Damage:
    def damage(target: Path, rng: random.Random, _: Source) -> str | None:
        log = pick_log(target, rng)
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
    log = pick_log(target, rng)
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
