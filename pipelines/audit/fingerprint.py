"""A fingerprint names a finding so that it is known again: after compaction, on another mount.

It is made of the rule, the cluster id, the node id, the topic id (else the name), the partition,
the kind of file, and what in it the finding is about:

    the offset in the log, if the finding has one        base offset of a batch
    else the offset in the file's name                   base offset of a segment or snapshot
    and the entry, if there is one                       `producer 7`

Never of a path, a position or a time. A file that is not Kafka's has its name instead of a kind; a
file of a log dir itself also has the directory id, since a node has several. Two findings of one
rule about the same batch have the same fingerprint.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from kafka_format.java_text import uuid_text
from kafka_format.shown_text import name_bytes
from kafka_log.names import FileKind, parse_directory_name, parse_file_name

if TYPE_CHECKING:
    from kafka_log.checks.finding import Finding
    from kafka_log.inventory.inventory import Inventory, LogDir, Partition

_LENGTH = 32
_BETWEEN = b"\x1f"


class Place(NamedTuple):
    """Where a finding is, in terms that another mount does not change."""

    log_dir: str = ""
    """The path of its log dir; empty if it is in none."""
    cluster_id: str | None = None
    node_id: int | None = None
    directory_id: str | None = None
    topic_id: str | None = None


class Places:
    """The places of all paths of an inventory."""

    def __init__(self, inventory: Inventory) -> None:
        self._places: dict[str, Place] = {}
        for log_dir in inventory.log_dirs:
            place = _place_of(log_dir)
            self._places[str(Path(log_dir.path))] = place
            for partition in log_dir.partitions:
                path = str(Path(partition.path))  # without a leading `./`
                self._places[path] = place._replace(topic_id=_topic_id(partition))

    def of(self, path: str) -> Place:
        """Return the place of a file or directory, by the nearest known directory above it."""
        if not path:
            return Place()
        for each in map(str, (Path(path), *Path(path).parents)):
            if each in self._places:
                return self._places[each]
        return Place()


def _place_of(log_dir: LogDir) -> Place:
    meta = log_dir.meta
    if meta is None:
        return Place(log_dir.path)
    directory_id = None if meta.directory_id is None else str(meta.directory_id)
    return Place(log_dir.path, meta.cluster_id, meta.node_id, directory_id)


def _topic_id(partition: Partition) -> str | None:
    found = partition.topic_id or partition.metadata_topic_id
    return None if found is None else uuid_text(found)


def fingerprint(finding: Finding, place: Place) -> str:
    """Return the fingerprint of a finding."""
    name = Path(finding.path).name
    kind, offset = _kind_and_offset(name)
    parts = (
        finding.id,
        place.cluster_id,
        place.node_id,
        finding.topic and (place.topic_id or finding.topic),
        finding.partition,
        kind,
        finding.offset if finding.offset is not None else offset,
        finding.entry,
        place.directory_id if finding.topic is None else None,
    )
    text = _BETWEEN.join(b"" if part is None else name_bytes(str(part)) for part in parts)
    return hashlib.sha256(text).hexdigest()[:_LENGTH]


def _kind_and_offset(name: str) -> tuple[str, int | None]:
    """Return the kind of a file, with its suffix, or the state of a partition directory."""
    file = parse_file_name(name)
    if file.kind is not FileKind.UNKNOWN:
        return f"{file.kind.name}{file.state.value}", file.offset
    directory = parse_directory_name(name)
    if directory.partition is not None:
        return directory.kind.name, None
    return name, None
