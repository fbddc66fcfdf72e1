"""The valid entries of the files next to a log, and what is wrong after them.

The functions take bytes and return values; callers read the files. `is_valid` says whether a broker
accepts the file. The entries of a refused file are still returned, so that the damage can be
examined.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from kafka_format import offset_index, producer_snapshot, time_index, transaction_index
from kafka_format.checkpoint_file import (
    MAX_ROWS,
    OffsetCheckpointEntry,
    decode_offset_checkpoint,
)
from kafka_format.clean_shutdown_file import CleanShutdownContent, decode_clean_shutdown_file
from kafka_format.errors import FormatError
from kafka_format.index_end import Stop
from kafka_format.leader_epoch_file import EpochEntry, decode_leader_epoch_checkpoint
from kafka_format.partition_metadata import decode_partition_metadata
from kafka_format.properties_file import decode_meta_properties
from kafka_format.quorum_state import decode_quorum_state
from kafka_log.checks.finding import Finding
from kafka_log.damage.findings import snapshot_finding_id
from kafka_log.names import FileKind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    from numpy.typing import NDArray

    from kafka_format.index_end import IndexParts
    from kafka_format.primitives import Buffer
    from kafka_log.checks.finding import About

_Entry = TypeVar("_Entry")
_SNAPSHOT_HEAD = 6
_COUNT = struct.Struct(">i")


class Slots(NamedTuple):
    """Entries as one array with the dtype of the format, and their findings."""

    entries: NDArray[np.void]
    findings: tuple[Finding, ...] = ()
    is_valid: bool = True


class Rows(NamedTuple, Generic[_Entry]):
    """Entries as values, and their findings."""

    entries: tuple[_Entry, ...]
    findings: tuple[Finding, ...] = ()
    is_valid: bool = True


# --- indexes ------------------------------------------------------------------------------------


def check_offset_index(data: Buffer, base_offset: int, about: About) -> Slots:
    """Return entries with relative offsets, up to the first that cannot follow the one before."""
    file = offset_index.decode_offset_index(data, base_offset)
    return Slots(file.entries, tuple(_index_findings(file, "IDX", about, base_offset)))


def check_time_index(data: Buffer, base_offset: int, about: About) -> Slots:
    file = time_index.decode_time_index(data, base_offset)
    return Slots(file.entries, tuple(_index_findings(file, "TIX", about, base_offset)))


def _index_findings(
    file: IndexParts, kind: str, about: About, base_offset: int
) -> Iterator[Finding]:
    if not file.trailing:
        return
    size = file.entries.itemsize
    position = file.stop_position + file.padding_bytes
    if file.padding_bytes:
        found, expected = f"{len(file.trailing)} bytes after zeros", "zeros to the end"
        yield Finding.of(f"{kind}003", about, found, expected, position=position)
    elif file.stop is Stop.PARTIAL_ENTRY:
        found, expected = f"{len(file.trailing)} bytes", f"an entry of {size}"
        yield Finding.of(f"{kind}002", about, found, expected, position=position)
    else:
        found = f"{_shown(file, size, base_offset)} ({file.stop.value})"
        expected = "the first entry of a segment"
        if len(file.entries):
            expected = f"an entry after {_shown_entry(file.entries[-1], base_offset)}"
        yield Finding.of(f"{kind}001", about, found, expected, position=position)


def _shown(file: IndexParts, size: int, base_offset: int) -> str:
    import numpy as np

    return _shown_entry(np.frombuffer(file.trailing[:size], file.entries.dtype)[0], base_offset)


def _shown_entry(entry: Any, base_offset: int) -> str:
    names = {"relative_offset": "offset"}
    values = {
        names.get(name, name): int(entry[name]) + (base_offset if name in names else 0)
        for name in entry.dtype.names
    }
    return ", ".join(f"{name} {value}" for name, value in values.items())


def check_transaction_index(data: Buffer, about: About) -> Slots:
    file = transaction_index.decode_transaction_index(data)
    return Slots(file.entries, tuple(_transaction_findings(file, about)))


def _transaction_findings(
    file: transaction_index.TransactionIndexFile, about: About
) -> Iterator[Finding]:
    size = file.entries.itemsize
    position = file.stop_position
    if file.stop is Stop.UNKNOWN_VERSION:
        version = struct.unpack_from(">h", file.trailing)[0]
        found, expected = f"version {version}", f"version {transaction_index.VERSION}"
        yield Finding.of("TXN001", about, found, expected, position=position)
    elif file.stop is Stop.OUT_OF_ORDER:
        found = _shown(file, size, 0)
        expected = f"a last offset above {int(file.entries[-1]['last_offset'])}"
        yield Finding.of("TXN002", about, found, expected, position=position)
    elif file.stop is not Stop.END_OF_FILE:
        found = f"{file.padding_bytes + len(file.trailing)} bytes ({file.stop.value})"
        yield Finding.of("TXN003", about, found, f"an entry of {size}", position=position)


# --- producer snapshots -------------------------------------------------------------------------


def check_producer_snapshot(data: Buffer, about: About) -> Slots:
    try:
        file = producer_snapshot.decode_producer_snapshot(data, path=about.path)
    except FormatError as error:
        finding = Finding.of_error(snapshot_finding_id(error), about, error)
        return Slots(_whole_entries(data), (finding,), is_valid=False)
    if not file.trailing:
        return Slots(file.entries)
    found = f"{len(file.trailing)} bytes after {len(file.entries)} entries"
    position = len(data) - len(file.trailing)
    return Slots(file.entries, (Finding.of("SNP004", about, found, "none", position=position),))


def _whole_entries(data: Buffer) -> NDArray[np.void]:
    """Return the complete entries of a version 1 file, whatever its count and checksum say."""
    body = bytes(data[_SNAPSHOT_HEAD + _COUNT.size :])
    counted = _COUNT.unpack_from(data, _SNAPSHOT_HEAD)[0] if len(data) >= 10 else 0
    whole = len(body) // producer_snapshot.ENTRY_SIZE
    count = min(counted, whole) if counted >= 0 else whole
    repaired = bytes(data[:_SNAPSHOT_HEAD]) + _COUNT.pack(count) + body
    try:
        return producer_snapshot.decode_producer_snapshot(repaired, verify_crc=False).entries
    except FormatError:
        return producer_snapshot.ProducerSnapshotFile.of(()).entries


# --- text files ---------------------------------------------------------------------------------


def check_offset_checkpoint(data: Buffer, about: About) -> Rows[OffsetCheckpointEntry]:
    def decode(each: Buffer) -> tuple[OffsetCheckpointEntry, ...]:
        return decode_offset_checkpoint(each, path=about.path).entries

    return _check_checkpoint(data, decode, "CKP001", about)


def check_leader_epochs(data: Buffer, about: About) -> Rows[EpochEntry]:
    def decode(each: Buffer) -> tuple[EpochEntry, ...]:
        return decode_leader_epoch_checkpoint(each, path=about.path).entries

    return _check_checkpoint(data, decode, "LEP001", about)


def _check_checkpoint(
    data: Buffer, decode: Callable[[Buffer], tuple[_Entry, ...]], rule: str, about: About
) -> Rows[_Entry]:
    """Return all rows; for a file that a broker refuses, the lines that are valid rows."""
    try:
        return Rows(decode(data))
    except FormatError as error:
        finding = Finding.of_error(rule, about, error)
    entries: list[_Entry] = []
    for line in bytes(data).splitlines()[: MAX_ROWS + 2]:
        try:
            entries += decode(b"0\n1\n" + line)
        except FormatError:
            continue
    return Rows(tuple(entries), (finding,), is_valid=False)


def small_file_findings(kind: FileKind, data: Buffer, about: About) -> Iterator[Finding]:
    """Yield the findings of a file whose entries are in no table."""
    if kind is FileKind.CLEAN_SHUTDOWN:
        marker = decode_clean_shutdown_file(data)
        if marker.content is CleanShutdownContent.UNREADABLE:
            found = f"{len(marker.raw)} bytes in another format"
            yield Finding.of("MET003", about, found, "a JSON object with a brokerEpoch", position=0)
        return
    if kind not in _SMALL_FILES:
        return
    rule, decode = _SMALL_FILES[kind]
    try:
        decode(data, path=about.path)
    except FormatError as error:
        yield Finding.of_error(rule, about, error)


_SMALL_FILES: dict[FileKind, tuple[str, Callable[..., object]]] = {
    FileKind.PARTITION_METADATA: ("MET001", decode_partition_metadata),
    FileKind.META_PROPERTIES: ("MET002", decode_meta_properties),
    FileKind.QUORUM_STATE: ("MET004", decode_quorum_state),
}
