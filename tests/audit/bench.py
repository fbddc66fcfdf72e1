"""A copy of a directory in which one file at a time is changed, and put back.

bench = Bench(golden.log_dirs(golden.shared("small-4.3.1"))[0], tmp_path)
with bench.changed("orders-0/00000000000000000000.log", data): ...
bench.new_findings()
"""

import contextlib
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from tests.audit.auditing import Found, audit


class Seen(NamedTuple):
    """Findings that the healthy directory does not have, and what it had and is gone."""

    new: list[Found]
    gone: list[Found]

    def __bool__(self) -> bool:
        return bool(self.new)

    @property
    def damage(self) -> list[Found]:
        """Without notes."""
        return [each for each in self.new if each.severity != "note"]


class Bench:
    """`root` is always as it was, except within `changed`, `without` and `with_files`."""

    def __init__(self, source: Path, scratch: Path) -> None:
        self.root = scratch / source.name
        shutil.copytree(source, self.root)
        self.files: dict[str, bytes] = {
            path.relative_to(self.root).as_posix(): path.read_bytes()
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
        }
        self.healthy = Counter(audit(self.root))

    def seen(self) -> Seen:
        """Audit it as it is now."""
        now = Counter(audit(self.root))
        return Seen([*(now - self.healthy)], [*(self.healthy - now)])

    @contextlib.contextmanager
    def with_files(self, changes: Mapping[str, bytes | None]) -> Iterator[None]:
        """Write some files, or remove them (None); afterwards all is as before."""
        try:
            for name, data in changes.items():
                path = self.root / name
                if data is None:
                    path.unlink(missing_ok=True)
                else:
                    path.write_bytes(data)
            yield
        finally:
            for name in changes:
                path = self.root / name
                if name in self.files:
                    path.write_bytes(self.files[name])
                else:
                    path.unlink(missing_ok=True)

    def partitions(self) -> list[str]:
        return sorted({name.split("/")[0] for name in self.files if "/" in name})

    def segments(self, partition: str) -> list[str]:
        """The stems of its logs."""
        return [
            Path(name).stem
            for name in self.files
            if name.startswith(f"{partition}/") and name.endswith(".log")
        ]
