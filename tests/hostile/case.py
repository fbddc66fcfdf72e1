"""What a hostile directory is: how it is built, and what each verb must say of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.hostile import healthy, logs

VERBS: dict[str, tuple[str, ...]] = {
    "audit": ("audit", "--engine", "local", "--all", "--now", "2026-11-17T00:00:00Z"),
    "audit json": (
        *("audit", "--engine", "local", "--show-data", "--now", "2026-11-17T00:00:00Z"),
        *("--format", "json"),
    ),
    "list": ("list",),
    "list --files": ("list", "--files", "--segments"),
    "dump": ("dump", "--print-data-log"),
    "dump json": ("dump", "--print-data-log", "--format", "json"),
    "offsets": ("offsets", "--engine", "local"),
    "transactions": ("transactions", "--engine", "local", "--all-directories"),
    "retain": ("retain", "--engine", "local", "--now", "2026-11-17T00:00:00Z"),
    "recover": ("recover", "--engine", "local", "--clean-shutdown", "no"),
    "recover json": (
        *("recover", "--engine", "local", "--clean-shutdown", "no"),
        *("--format", "json"),
    ),
    "compact": (
        *("compact", "--engine", "local", "--now", "2026-11-17T00:00:00Z"),
        *("--set", "cleanup.policy=compact", "--first-dirty", "0"),
    ),
    "compact --explain-key": (
        *("compact", "--engine", "local", "--now", "2026-11-17T00:00:00Z"),
        *("--set", "cleanup.policy=compact", "--first-dirty", "0", "--explain-key", "key"),
    ),
}
"""Every verb that needs no Spark, with options that make it read as much as it can."""

SHORT = frozenset({"audit", "audit json", "recover", "compact --explain-key"})
"""Verbs that print only what they were asked for: healthy partitions are not among it."""

QUICK, SLOW = 20, 60
"""Seconds that a verb may take: what cannot be a file of Kafka's is refused at once."""

Codes = Mapping[str, frozenset[int]]
Build = Callable[[Path], None]


def codes(default: int | set[int] = 0, **others: int | set[int]) -> Codes:
    """Exit codes by verb: `others` by the first word, as `compact=1` for all kinds of `compact`.

    An audit may find something or nothing where it can read (its checks have tests of their own).
    """
    if "audit" not in others:
        others = {"audit": default if default == 3 else {0, 1}, **others}
    assert others.keys() <= {words[0] for words in VERBS.values()}, others
    found = {}
    for verb, words in VERBS.items():
        code = others.get(words[0], default)
        found[verb] = frozenset({code} if isinstance(code, int) else code)
    return found


CLEAN, DAMAGED, NOT_READ = codes(0), codes(1), codes(3)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A healthy log dir, and something hostile in it."""

    name: str
    """`group/what`"""
    build: Build = field(repr=False)
    """Called with the directory, which is a healthy log dir already."""
    codes: Codes = field(default_factory=lambda: CLEAN, repr=False)
    seconds: int = SLOW
    paths: tuple[str, ...] = ("evidence",)
    """What a verb is given, relative to the directory around the evidence."""
    options: tuple[str, ...] = ()
    in_process: bool = True
    """Else as a command of its own, started in the evidence."""
    is_large: bool = False
    """Takes a minute to build: only by `make soak`."""
    has_healthy: bool = True
    """Whether the healthy partitions can be seen in what a verb prints."""
    empty: bool = False
    """Whether to start from an empty directory, not from a healthy log dir."""

    @property
    def group(self) -> str:
        return self.name.partition("/")[0]


HOSTILE = "hostile-0"


def partition(path: Path, log: bytes, name: str = HOSTILE, *, is_only: bool = False) -> Path:
    """A partition with this log in its first segment, and a sound last segment from 1000 on.

    The cleaner never cleans the last segment, `list` reads no other.
    """
    directory = path / name
    directory.mkdir()
    write(directory / f"{0:020}.log", log)
    if not is_only:
        write(directory / f"{1000:020}.log", logs.batch(base_offset=1000))
    for base in (0,) if is_only else (0, 1000):
        write(directory / f"{base:020}.index", b"")
        write(directory / f"{base:020}.timeindex", b"")
    write(directory / "leader-epoch-checkpoint", b"0\n1\n0 0\n")
    write(directory / "partition.metadata", b"version: 0\ntopic_id: QLahXBB-SciK3wVwCja0lg")
    return directory


def hostile_copy(path: Path) -> Path:
    """A sound partition, to put something hostile into."""
    healthy.copy_partition(path / HOSTILE, "transactions-0")
    return path / HOSTILE


def write(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def outside(path: Path) -> Path:
    """A directory beside the evidence, for what links lead to."""
    found = path.parent / "outside"
    found.mkdir(exist_ok=True)
    return found
