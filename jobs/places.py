"""Where the rows of a table come from: relative paths, and a column for the log dir.

    places = Places.of(arguments.paths, {task.path: task.log_dir for task in tasks})
    table(places.header(COLUMNS), [places.cells(row["path"], cells(row)) for row in rows])

The column DIRECTORY is shown only when more than one log dir was read.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafka_log.inventory.inventory import Inventory

COLUMN = "directory"


@dataclass(frozen=True, slots=True)
class Places:
    given: tuple[str, ...]
    """The paths on the command line."""
    log_dirs: Mapping[str, str]
    """The log dir of each partition directory, and of each log dir itself, by path."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Partition directories that are links, and their targets."""

    @classmethod
    def of(
        cls,
        given: Sequence[str],
        log_dirs: Mapping[str, str],
        inventory: Inventory | None = None,
    ) -> Places:
        itself = {each: each for each in log_dirs.values()}
        partitions = [] if inventory is None else [each for _, each in inventory.partitions()]
        links = {each.path: each.target for each in partitions if each.target}
        return cls(tuple(given), itself | dict(log_dirs), links)

    @property
    def are_several(self) -> bool:
        """Whether the rows come from more than one log dir."""
        return len(set(self.log_dirs.values())) > 1

    def header(self, columns: Sequence[str]) -> tuple[str, ...]:
        return (COLUMN, *columns) if self.are_several else tuple(columns)

    def cells(self, path: str, cells: Sequence[object]) -> list[object]:
        """Return the cells of a row about a partition directory or a log dir: its name is first."""
        name, *others = cells
        cells = [self.linked(path, str(name)), *others]
        if not self.are_several:
            return list(cells)
        return [self.shown(self.log_dirs.get(path, path)), *cells]

    def linked(self, path: str, name: str) -> str:
        """Return the name of a partition directory, with its target if it is a link."""
        target = self.links.get(path)
        return name if target is None else f"{name} -> {target}"

    def shown(self, path: str) -> str:
        """Return a path relative to the given one, or unchanged if several were given."""
        if len(self.given) != 1:
            return path
        (given,) = self.given
        beginning = given if given.endswith(os.sep) else f"{given}{os.sep}"
        below = path.removeprefix(beginning).lstrip(os.sep) if path.startswith(beginning) else ""
        return below or path
