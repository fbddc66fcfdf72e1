"""Links out of the evidence, inside it, to nothing, and in circles."""

import os
from functools import partial
from pathlib import Path

from tests.hostile import healthy
from tests.hostile.case import CLEAN, NOT_READ, QUICK, Case, codes, hostile_copy, outside, write

SECRET = b"root:x:SECRET-OUTSIDE:0"
"""Text of a file outside: no verb may show it."""


def _link(target: str, name: str, path: Path) -> None:
    (path / name).symlink_to(target)


def _partition_out(path: Path) -> None:
    healthy.copy_partition(outside(path) / "hostile-0")
    (path / "hostile-0").symlink_to("../outside/hostile-0")


def _file_out(name: str, path: Path) -> None:
    """A file of a partition that is a link to a text outside."""
    _secret_link(hostile_copy(path) / name, outside(path))


def _checkpoint_out(name: str, path: Path) -> None:
    _secret_link(path / name, outside(path))


def _secret_link(link: Path, directory: Path) -> None:
    write(directory / "secret", SECRET)
    link.unlink(missing_ok=True)
    link.symlink_to(os.path.relpath(directory / "secret", link.parent))


def _segment_out(path: Path) -> None:
    """A sound segment, but outside."""
    directory = hostile_copy(path)
    segment = directory / f"{0:020}.log"
    segment.rename(outside(path) / segment.name)
    segment.symlink_to(f"../../outside/{segment.name}")


def _segment_inside(path: Path) -> None:
    """A sound segment, elsewhere in the evidence."""
    directory = hostile_copy(path)
    segment = directory / f"{0:020}.log"
    segment.unlink()
    segment.symlink_to(f"../transactions-0/{segment.name}")


def _through_two(path: Path) -> None:
    """A link inside that leads to a link out."""
    write(outside(path) / "secret", SECRET)
    (path / "second").symlink_to("../outside")
    (hostile_copy(path) / "00000000000000000000.index").unlink()
    (path / "hostile-0" / "00000000000000000000.index").symlink_to("../second/secret")


def _circle(path: Path) -> None:
    (path / "a-0").symlink_to("b-0")
    (path / "b-0").symlink_to("a-0")


def _given_link(path: Path) -> None:
    (path.parent / "given").symlink_to("evidence")


def _given_link_to_link(path: Path) -> None:
    (path.parent / "between").symlink_to("evidence")
    (path.parent / "given").symlink_to("between")


def _hard_link(path: Path) -> None:
    """A file with two names: nothing is wrong for who only reads."""
    (hostile_copy(path) / f"{99:020}.log.deleted").hardlink_to(
        path / "transactions-0" / f"{0:020}.log"
    )


def _to_device(name: str, path: Path) -> None:
    file = hostile_copy(path) / name
    file.unlink(missing_ok=True)
    file.symlink_to("/dev/zero")


_FILES = (
    *(f"{0:020}.{kind}" for kind in ("log", "index", "timeindex", "txnindex")),
    *(f"{10:020}.snapshot", "leader-epoch-checkpoint", "partition.metadata"),
)
_CHECKPOINTS = (
    *("recovery-point-offset-checkpoint", "replication-offset-checkpoint"),
    *("log-start-offset-checkpoint", "cleaner-offset-checkpoint", "meta.properties"),
    *(".kafka_cleanshutdown", ".lock"),
)
CASES = [
    Case(name="links/etc", build=partial(_link, "/etc", "up-0"), codes=NOT_READ),
    Case(name="links/parent", build=partial(_link, "..", "up-0"), codes=NOT_READ),
    Case(name="links/root", build=partial(_link, "/", "up-0"), codes=NOT_READ),
    Case(name="links/proc", build=partial(_link, "/proc/self", "up-0"), codes=NOT_READ),
    Case(name="links/proc-root", build=partial(_link, "/proc/self/cwd", "up-0"), codes=NOT_READ),
    Case(name="links/itself", build=partial(_link, "self-0", "self-0"), codes=NOT_READ),
    Case(name="links/here", build=partial(_link, ".", "here-0"), codes=codes(1, dump=0)),
    Case(name="links/dangling", build=partial(_link, "nowhere", "gone-0"), codes=NOT_READ),
    Case(name="links/long-target", build=partial(_link, "x/" * 2000, "far-0"), codes=NOT_READ),
    Case(name="links/escape", build=partial(_link, "\x1b[2J\nFORGED", "evil-0"), codes=NOT_READ),
    Case(name="links/stray", build=partial(_link, "/etc/passwd", "notes.txt"), codes=NOT_READ),
    Case(name="links/circle", build=_circle, codes=NOT_READ),
    Case(name="links/partition-out", build=_partition_out, codes=NOT_READ),
    Case(
        name="links/partition-out-followed",
        build=_partition_out,
        options=("--follow-links",),
        codes=CLEAN,
    ),
    Case(name="links/partition-inside", build=partial(_link, "compacted-0", "copy-0")),
    Case(name="links/segment-out", build=_segment_out, codes=NOT_READ),
    Case(name="links/segment-inside", build=_segment_inside),
    Case(name="links/through-two", build=_through_two, codes=NOT_READ),
    Case(name="links/given", build=_given_link, paths=("given",)),
    Case(name="links/given-to-link", build=_given_link_to_link, paths=("given",)),
    Case(name="links/given-twice", build=_given_link, paths=("given", "evidence")),
    Case(name="links/hard", build=_hard_link),
]
CASES += [
    Case(name=f"links/{name}-out", build=partial(_file_out, name), codes=NOT_READ)
    for name in _FILES
]
CASES += [
    Case(name=f"links/{name}-out", build=partial(_checkpoint_out, name), codes=NOT_READ)
    for name in _CHECKPOINTS
]
CASES += [
    Case(
        name=f"links/{name}-to-dev-zero",
        build=partial(_to_device, name),
        codes=NOT_READ,
        seconds=QUICK,
    )
    for name in _FILES
]
CASES += [
    Case(
        name=f"links/{name}-to-dev-zero-followed",
        build=partial(_to_device, name),
        codes=codes(1),
        seconds=QUICK,
        options=("--follow-links",),
    )
    for name in _FILES[:2]
]
