"""What an earlier process was not done with, or somebody put there."""

import random
import shutil
import struct
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from tests.kafka_log.damaged.logs import ENDINGS, batch_positions, logs_of
from tests.kafka_log.damaged.sources import Source

SUFFIXES = (".deleted", ".cleaned", ".swap")


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
    logs = logs_of(target)
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
    positions = batch_positions(data)
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
