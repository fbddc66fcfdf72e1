"""Which partitions to work on: by globs of topics, and by numbers."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionSelection:
    """The partitions to work on. An empty field selects everything."""

    topics: tuple[str, ...] = ()
    partitions: frozenset[int] = frozenset()

    def includes(self, topic: str, partition: int | None) -> bool:
        return (not self.topics or any(fnmatchcase(topic, glob) for glob in self.topics)) and (
            not self.partitions or partition in self.partitions
        )

    @property
    def is_everything(self) -> bool:
        return not self.topics and not self.partitions
