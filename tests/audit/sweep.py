"""Audits every change of a directory, and counts what is reported.

sweep = Sweep(bench)
for change in changes: sweep.look_at(change)
sweep.counts     by kind of file: changes, reported ones, and those that nobody can see
sweep.missed     changes that should have been reported
"""

from collections import Counter
from pathlib import Path, PurePosixPath

from tests.audit.auditing import Found
from tests.audit.bench import Bench
from tests.audit.changes import Change
from tests.audit.kinds import kind_of
from tests.audit.unseen import unseen_class


class Sweep:
    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.changes: Counter[str] = Counter()
        self.reported: Counter[str] = Counter()
        self.unseen: Counter[str] = Counter()
        """By the name of the class."""
        self.missed: list[Change] = []

    def look_at(self, change: Change) -> None:
        before = self.bench.files[change.file]
        kind = kind_of(change.file)
        self.changes[kind] += 1
        with self.bench.with_files({change.file: change.apply(before)}):
            seen = self.bench.seen()
        if any(self._is_plausible(each, change) for each in seen.new):
            self.reported[kind] += 1
        elif known := unseen_class(change, before):
            self.unseen[known.name] += 1
        else:
            self.missed.append(change)

    def _is_plausible(self, found: Found, change: Change) -> bool:
        """Whether a finding is about the changed file, or about what it says something of.

        That is its directory; for files of the whole log dir and the metadata log, anything.
        """
        name = PurePosixPath(change.file)
        if len(name.parts) == 1 or name.parts[0] == "__cluster_metadata-0":
            return True
        directory = self.bench.root / name.parts[0]
        if Path(found.path).is_relative_to(directory):
            return True
        return found.path in (str(self.bench.root), *self._checkpoints())

    def _checkpoints(self) -> list[str]:
        return [str(self.bench.root / name) for name in self.bench.files if "/" not in name]
