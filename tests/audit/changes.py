"""Every byte of every file of a directory, changed in two ways.

all_changes(files)              every one of them
sample(files, 500)              the same 500 each time, from every file
"""

import random
from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import NamedTuple


class How(StrEnum):
    ALL_BITS = "all bits"
    ONE_BIT = "one bit"


class Change(NamedTuple):
    """A byte of a file, and what is xored to it."""

    file: str
    position: int
    how: How
    mask: int

    def apply(self, data: bytes) -> bytes:
        changed = bytearray(data)
        changed[self.position] ^= self.mask
        return bytes(changed)

    def __str__(self) -> str:
        return f"{self.file}@{self.position} ^ {self.mask:#04x}"


def all_changes(files: Mapping[str, bytes]) -> Iterator[Change]:
    for name, data in files.items():
        for position in range(len(data)):
            yield from changes_at(name, position)


def changes_at(name: str, position: int) -> tuple[Change, Change]:
    """Which bit is changed is drawn from the place, so that it is the same in every run."""
    bit = random.Random(f"{name}@{position}").randrange(8)
    return (
        Change(name, position, How.ALL_BITS, 0xFF),
        Change(name, position, How.ONE_BIT, 1 << bit),
    )


def sample(files: Mapping[str, bytes], positions: int, seed: int = 0) -> list[Change]:
    """Both changes at some positions: at least one of each file that has any bytes."""
    rng = random.Random(f"sample {seed}")
    places = [(name, at) for name, data in files.items() for at in range(len(data))]
    drawn = {(name, rng.randrange(len(data))) for name, data in files.items() if data}
    rng.shuffle(places)
    for place in places:
        if len(drawn) >= positions:
            break
        drawn.add(place)
    return [change for name, at in sorted(drawn) for change in changes_at(name, at)]
