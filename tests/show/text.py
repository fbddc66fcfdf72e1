"""Batches and files as text, for a page that people read."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from kafka_format.batch import RecordBatch
from kafka_format.errors import FormatError
from kafka_format.log_file import LogFile
from kafka_format.producer_snapshot import decode_producer_snapshot, iter_producer_snapshot
from tests.show.sides import NOTHING, Row, row

_MOST_RECORDS = 8
_AROUND = 12
_FEW = 20


def drawn_lines(value: Any, indent: str = "  ") -> list[str]:
    """A drawn mapping as lines: one for each entry, and one for each step or batch in a list."""
    lines: list[str] = []
    for name, inside in value.items():
        if _is_list_of_steps(inside):
            lines.append(f"{indent}{name}")
            for i, each in enumerate(inside):
                request = each if isinstance(each, Mapping) else each.request()
                lines += _numbered(i, request, f"{indent}  ")
        else:
            lines += _entry(name, inside, indent)
    return lines


def _is_list_of_steps(value: Any) -> bool:
    """Mappings, or steps that have one as their `request`."""
    if not isinstance(value, list | tuple) or not value:
        return False
    return isinstance(value[0], Mapping) or hasattr(value[0], "request")


def _numbered(number: int, step: Mapping[str, Any], indent: str) -> list[str]:
    """`3 append leader_epoch 1`, then the batches; a nested list of steps is taken apart."""
    lists = {name: inside for name, inside in step.items() if _is_list_of_steps(inside)}
    data = {name: inside for name, inside in step.items() if isinstance(inside, bytes)}
    rest = {name: inside for name, inside in step.items() if name not in (*lists, *data, "do")}
    words = [str(number), *([step["do"]] if "do" in step else [])]
    words += [f"{name} {inside!r}" for name, inside in rest.items()]
    lines = [indent + " ".join(words)]
    for name, inside in data.items():
        lines += [f"{indent}    {line}" for line in batch_lines(inside) or [f"{name} b''"]]
    return lines + (drawn_lines(lists, f"{indent}    ") if lists else [])


def _entry(name: str, value: Any, indent: str) -> list[str]:
    if isinstance(value, bytes):
        return [f"{indent}{name}", *(f"{indent}  {line}" for line in batch_lines(value))]
    return [f"{indent}{name} {value!r}"]


def batch_lines(data: bytes) -> list[str]:
    """Return one line for each batch, and one that says what follows the last."""
    log = LogFile(data)
    lines = [_batch_line(batch) for batch in log.batches()]
    if log.end is not None and log.end.position < len(data):
        rest = data[log.end.position :]
        shown = rest[:_FEW].hex(" ", 4)
        lines.append(f"@{log.end.position} {log.end.reason}: {len(rest)} bytes {shown}")
    return lines


def _batch_line(batch: Any) -> str:
    header = batch.header
    words = [f"@{batch.position} magic {batch.magic}"]
    if isinstance(batch, RecordBatch):
        words += [f"offsets {header.base_offset}..{header.last_offset}"]
        words += [f"epoch {header.partition_leader_epoch}", f"attributes {header.attributes:#x}"]
        if header.producer_id >= 0:
            producer = (header.producer_id, header.producer_epoch, header.base_sequence)
            words.append("producer {} epoch {} sequence {}".format(*producer))
        words += ["transactional"] if header.is_transactional else []
        words += ["control"] if header.is_control else []
        words.append(f"{header.record_count} records")
    else:
        words += [f"offset {header.offset}", f"attributes {header.attributes:#x}"]
    words += [] if batch.is_valid else ["BAD CHECKSUM"]
    return ", ".join(words) + ": " + _records_text(batch)


def _records_text(batch: Any) -> str:
    try:
        records = batch.records(limit=1 << 24)
    except FormatError as error:
        return f"unreadable, {error}"
    texts = [f"{each.offset} {_short(each.key)}={_short(each.value)}" for each in records]
    more = f" ... {len(texts) - _MOST_RECORDS} more" if len(texts) > _MOST_RECORDS else ""
    return " ".join(texts[:_MOST_RECORDS]) + more


def _short(data: Any) -> str:
    if data is None:
        return "null"
    raw = bytes(data)
    return repr(raw)[1:] if len(raw) <= _FEW else f"{raw[:_FEW]!r}"[1:] + f"({len(raw)})"


# -------------------------------------------------------------------------------------- files


def files_in(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}


def file_rows(kafka: Mapping[str, bytes], ours: Mapping[str, bytes], label: str = "") -> list[Row]:
    """Return one row for each file; of one that differs also where, and its batches."""
    rows: list[Row] = []
    for name in sorted(kafka.keys() | ours.keys()):
        theirs, mine = kafka.get(name), ours.get(name)
        is_same = theirs == mine or _same_snapshot(name, theirs, mine)
        rows.append(row(label + name, _size(theirs), _size(mine), is_same=is_same))
        if not is_same and theirs is not None and mine is not None:
            rows += _inside(label + name, theirs, mine)
    return rows


def _size(data: bytes | None) -> str:
    return NOTHING if data is None else f"{len(data)} bytes"


def _same_snapshot(name: str, theirs: bytes | None, mine: bytes | None) -> bool:
    """Kafka writes the rows of a snapshot in the order of a hash map."""
    if ".snapshot" not in name or theirs is None or mine is None:
        return False
    try:
        return _snapshot_rows(theirs) == _snapshot_rows(mine)
    except FormatError:
        return False


def _snapshot_rows(data: bytes) -> list[Any]:
    return sorted(iter_producer_snapshot(decode_producer_snapshot(data)))


def _inside(name: str, theirs: bytes, mine: bytes) -> Iterator[Row]:
    at = first_difference(theirs, mine)
    begin = max(0, at - 4)
    both = (data[begin : begin + _AROUND].hex(" ", 1) for data in (theirs, mine))
    yield row(f"  byte {at} (from {begin} on)", *both)
    if ".log" in name:
        lines = [batch_lines(data) for data in (theirs, mine)]
        for i in range(max(map(len, lines))):
            sides = [side[i] if i < len(side) else NOTHING for side in lines]
            yield row(f"  batch {i}", *sides)


def first_difference(one: bytes, other: bytes) -> int:
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))
