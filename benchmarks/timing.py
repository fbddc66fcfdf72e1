"""How long something took."""

from typing import NamedTuple


class Seconds(NamedTuple):
    """By the clock, and of processor time: other work on the machine stretches only the first."""

    clock: float
    cpu: float

    def __str__(self) -> str:
        return f"{self.clock:.2f} ({self.cpu:.2f})"
