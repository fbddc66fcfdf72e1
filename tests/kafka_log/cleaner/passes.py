"""One pass of a cleaner, Kafka's or ours: an entry of `passes` in the oracle's `clean_logs`.

CleaningPass(time=START, steps=[Step(Roll()), Step(HighWatermark())], dedupe_buffer_size=72)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from tests.kafka_log.steps import Step


@dataclass(frozen=True, slots=True, kw_only=True)
class CleaningPass:
    time: int
    steps: Sequence[Step] = ()
    """What happens to the log before the pass."""
    checkpoint: int | None = None
    """The first dirty offset; None: where the last pass ended."""
    only_if_eligible: bool = False
    """Whether a log is skipped that a broker would not clean yet."""
    dedupe_buffer_size: int = 1 << 20
    io_buffer_size: int = 512 * 1024
    message_max_bytes: int = 1024 * 1024 + 12
    during: Mapping[str, Sequence[Step]] = field(default_factory=dict)
    """What happens when the cleaner asks for the n-th time whether it should go on."""
    abort_at: int | None = None
    """The n-th time at which it is reported not to."""
    columnar: bool | None = None
    """Only ours: by columns, by rows, or as it chooses."""
    cores: int = 1
    """Only ours."""

    def request(self) -> dict[str, Any]:
        values = {each.name: getattr(self, each.name) for each in fields(self)}
        given = {name: value for name, value in values.items() if value not in (None, (), {})}
        if self.during:
            given["during"] = {
                count: [step.request() for step in steps] for count, steps in self.during.items()
            }
        return given
