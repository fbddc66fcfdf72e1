"""Calls of a LogCleanerManager and of a broker around it, for Kafka's manager and for ours.

They have the names and fields of the oracle's `run_cleaner_states` (tests/oracle/README.md). By
default they concern partition t-0, in log dir a.

    Grab(time=START)
    DoneCleaning("u-0", "b", offset=2)
    TakeStep("a/t-0", Step(Roll()))
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from tests.kafka_log.requests import Request
from tests.kafka_log.steps import Step

PARTITION, DIRECTORY = "t-0", "a"


class Operation(Request):
    __slots__ = ()
    names: ClassVar[Mapping[str, str]] = {"directory": "dir"}


# ------------------------------------------------------------------------- which log is next


@dataclass(frozen=True, slots=True)
class Grab(Operation):
    time: int | None = None
    """The time of the clock from then on; None leaves it unchanged."""


@dataclass(frozen=True, slots=True)
class PauseNonCompacted(Operation):
    pass


@dataclass(frozen=True, slots=True)
class Deletable(Operation):
    pass


@dataclass(frozen=True, slots=True)
class Work(Operation):
    """One turn of a cleaner thread."""


# ------------------------------------------------------------------------------------ states


@dataclass(frozen=True, slots=True)
class Abort(Operation):
    partition: str = PARTITION


@dataclass(frozen=True, slots=True)
class AbortAndPause(Operation):
    partition: str = PARTITION


@dataclass(frozen=True, slots=True)
class Resume(Operation):
    partition: str = PARTITION


@dataclass(frozen=True, slots=True)
class Check(Operation):
    partition: str = PARTITION


@dataclass(frozen=True, slots=True)
class DoneCleaning(Operation):
    partition: str = PARTITION
    directory: str = DIRECTORY
    offset: int = 0


@dataclass(frozen=True, slots=True)
class DoneDeleting(Operation):
    partition: str = PARTITION


@dataclass(frozen=True, slots=True)
class MarkUncleanable(Operation):
    partition: str = PARTITION
    directory: str = DIRECTORY


@dataclass(frozen=True, slots=True)
class Maintain(Operation):
    pass


# ------------------------------------------------------------------------------- checkpoints


@dataclass(frozen=True, slots=True)
class UpdateCheckpoint(Operation):
    partition: str = PARTITION
    directory: str = DIRECTORY
    offset: int = 0


@dataclass(frozen=True, slots=True)
class RemoveCheckpoint(Operation):
    partition: str | None = PARTITION
    """None removes no row; those of partitions without a log go with any change."""
    directory: str = DIRECTORY


@dataclass(frozen=True, slots=True)
class TruncateCheckpoint(Operation):
    partition: str = PARTITION
    directory: str = DIRECTORY
    offset: int = 0


@dataclass(frozen=True, slots=True)
class AlterDir(Operation):
    partition: str = PARTITION
    directory: str = DIRECTORY
    to: str = DIRECTORY


@dataclass(frozen=True, slots=True)
class DirFailure(Operation):
    directory: str = DIRECTORY


@dataclass(frozen=True, slots=True)
class WriteCheckpoint(Operation):
    """Not a call: somebody writes the file."""

    directory: str
    text: str


# -------------------------------------------------------------------------- the broker's logs


@dataclass(frozen=True, slots=True)
class RemoveLog(Operation):
    partition: str = PARTITION


@dataclass(frozen=True, slots=True)
class AddLog(Operation):
    partition: str = PARTITION


@dataclass(frozen=True, slots=True)
class TakeStep(Operation):
    """A step of a log's own life, which is the oracle's operation `log`."""

    log: str
    step: Step

    @classmethod
    def name(cls) -> str:
        return "log"

    def request(self) -> dict[str, Any]:
        return {"do": self.name(), "log": self.log, "step": self.step.request()}
