"""The form of one small file: the checks of side_files by the kind of the file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafka_format.file_kinds import (
    OFFSET_INDEX_KINDS,
    TIME_INDEX_KINDS,
    TRANSACTION_INDEX_KINDS,
)
from kafka_log.checks.segments import side_files
from kafka_log.inventory.inventory import CHECKPOINTS
from kafka_log.names import FileKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka_format.primitives import Buffer
    from kafka_log.checks.finding import About, Finding

UNCHECKED = (FileKind.UNKNOWN, FileKind.LOCK)
"""Files without a form; their content is not read."""


def check_small_file(
    kind: FileKind, data: Buffer, base_offset: int, about: About
) -> Iterable[Finding]:
    """Return the findings about the form of a file that is not a log."""
    if kind in UNCHECKED:
        return ()
    if kind in OFFSET_INDEX_KINDS:
        return side_files.check_offset_index(data, base_offset, about).findings
    if kind in TIME_INDEX_KINDS:
        return side_files.check_time_index(data, base_offset, about).findings
    if kind in TRANSACTION_INDEX_KINDS:
        return side_files.check_transaction_index(data, about).findings
    if kind is FileKind.PRODUCER_SNAPSHOT:
        return side_files.check_producer_snapshot(data, about).findings
    if kind is FileKind.LEADER_EPOCH_CHECKPOINT:
        return side_files.check_leader_epochs(data, about).findings
    if kind in CHECKPOINTS:
        return side_files.check_offset_checkpoint(data, about).findings
    return side_files.small_file_findings(kind, data, about)
