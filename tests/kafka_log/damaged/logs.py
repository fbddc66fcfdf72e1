"""Damage to logs: cut, flipped, zeroed, rearranged, lost."""

import random
import struct
from itertools import pairwise
from pathlib import Path

from tests.kafka_log.damaged.sources import Source

ENDINGS = (".log", ".index", ".timeindex", ".txnindex")
_BATCH_LENGTH_END = 12


def logs_of(target: Path) -> list[Path]:
    return sorted(path for path in target.glob("0*.log") if path.is_file())


def pick_log(target: Path, rng: random.Random) -> Path | None:
    logs = logs_of(target)
    if not logs:
        return None
    return rng.choice([*logs, logs[-1], logs[-1]])


def batch_positions(data: bytes | bytearray) -> list[int]:
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
    log = pick_log(target, rng)
    if log is None or not log.stat().st_size:
        return None
    data = log.read_bytes()
    at = rng.choice((rng.randrange(len(data)), rng.choice(batch_positions(data)), len(data) - 1, 0))
    log.write_bytes(data[:at])
    return f"{log.name} cut at {at} of {len(data)}"


def flip_log(target: Path, rng: random.Random, _: Source) -> str | None:
    log = pick_log(target, rng)
    if log is None or not log.stat().st_size:
        return None
    data = bytearray(log.read_bytes())
    if rng.random() < 0.6:  # in a header, where it means something
        at = min(rng.choice(batch_positions(data)) + rng.randrange(61), len(data) - 1)
    else:
        at = rng.randrange(len(data))
    data[at] ^= 1 << rng.randrange(8)
    log.write_bytes(data)
    return f"{log.name} flipped at {at}"


def zero_tail(target: Path, rng: random.Random, _: Source) -> str | None:
    log = pick_log(target, rng)
    if log is None:
        return None
    data = log.read_bytes()
    at = rng.choice((len(data), rng.choice(batch_positions(data)), rng.randrange(len(data) + 1)))
    zeros = max(len(data) - at, rng.choice((0, 1, 16, 17, 18, 61, 5000)))
    log.write_bytes(data[:at] + bytes(zeros))
    return f"{log.name} zeroed from {at} on, {zeros} bytes"


def garbage_tail(target: Path, rng: random.Random, _: Source) -> str | None:
    log = pick_log(target, rng)
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
    log = pick_log(target, rng)
    if log is None:
        return None
    data = log.read_bytes()
    positions = batch_positions(data)
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
        foreign = rng.choice(logs_of(target)).read_bytes()
        batches.insert(at, foreign[: [*batch_positions(foreign), 0][1]])
    log.write_bytes(b"".join(batches))
    return f"{log.name}: batch {at} {how}"


def lose_segment(target: Path, rng: random.Random, _: Source) -> str | None:
    log = pick_log(target, rng)
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
