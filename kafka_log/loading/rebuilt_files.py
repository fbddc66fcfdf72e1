"""Write the side files that a load rebuilds, so that a kill between any two of them does no harm.

A missing `.index` or a corrupt `.txnindex` makes a load check its segment again and take leader
epochs and producers from it. But the load creates the index first. If it is killed before it has
written the rest, the next load finds an index, does not check the segment, and the epochs are never
written. Apache Kafka has this gap when it is killed during its start.

`write_rebuilt` closes it for a load in place: it first writes the files that the same load produced
on a view, each in one step. The file whose absence or damage triggers the check comes last.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_log.loading.journal import Action
from kafka_log.names import FileKind, FileState, parse_file_name

if TYPE_CHECKING:
    from kafka_log.disk.files import Files
    from kafka_log.disk.overlay_files import OverlayFiles
    from kafka_log.loading.journal import Journal

_LIMIT = 2**31 - 1
_ORDER = (
    FileKind.LEADER_EPOCH_CHECKPOINT,
    FileKind.PRODUCER_SNAPSHOT,
    FileKind.TIME_INDEX,
    FileKind.TRANSACTION_INDEX,
    FileKind.OFFSET_INDEX,
)


def write_rebuilt(view: OverlayFiles, journal: Journal, files: Files) -> None:
    """Write the side files of a view on which the directory was loaded."""
    if not any(entry.action is Action.REBUILD for entry in journal.entries):
        return
    names = [
        change.renamed_to or change.name
        for change in view.changes()
        if change.action in ("created", "rewritten", "truncated", "extended")
    ]
    for name in sorted(names, key=lambda each: _rank(each, files)):
        parsed = parse_file_name(name)
        if parsed.kind in _ORDER and parsed.state is FileState.LIVE:
            data = view.read(name, limit=_LIMIT)
            if not files.exists(name) or files.read(name, limit=_LIMIT) != data:
                files.replace(name, data)


def _rank(name: str, files: Files) -> tuple[int, str]:
    """Return a file's sort key: a segment's file that makes a load check it comes last."""
    kind = parse_file_name(name).kind
    rank = _ORDER.index(kind) if kind in _ORDER else len(_ORDER)
    if kind is FileKind.TRANSACTION_INDEX:
        index = name.removesuffix(kind.value) + FileKind.OFFSET_INDEX.value
        if files.exists(index):
            rank = len(_ORDER)
    return rank, name
