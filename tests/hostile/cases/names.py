"""Names and texts that act on a terminal, forge lines, look like options or are no text."""

import os
from functools import partial
from pathlib import Path

from tests.hostile import healthy, logs
from tests.hostile.case import CLEAN, DAMAGED, Case, Codes, codes, hostile_copy, partition, write

FORGED = "FORGED"
"""Stands at the beginning of a line only if a newline got through."""

TEXTS: dict[str, bytes] = {
    "escape": b"\x1b[2J\x1b]0;owned\x07evil",
    "newline": b"a\nFORGED isvalid: true",
    "carriage-return": b"a\rFORGED",
    "c1-control": "\x9b2Jevil\x85FORGED".encode(),
    "delete": b"a\x7f\x7fb\x08",
    "bidi": "\u202egnp.\u2066exe".encode(),
    "line-separator": "a\u2028FORGED\u2029b".encode(),
    "not-utf-8": b"\xff\xfe\x80evil",
    "surrogate": b"\xed\xa0\x80\xed\xb0\x80",
    "leading-dash": b"--output",
    "format": b"%s%n%d{0}{path}",
    "script": b"<img src=x onerror=alert(1)>",
    "shell": b"';$(touch owned)`touch owned`\"",
    "glob": b"*[a-z]?{b,c}",
    "backslash": rb"a\x1b\u202e\\",
    "url": b"s3:%2e%2e%2fetc",
    "dots": b"..",
    "spaces": b"  a \t b ",
    "emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467".encode(),
    "combining": ("e" + "\u0301" * 60).encode(),
    "zero-width": "pay\u200bload\ufeff".encode(),
    "long": b"x" * 249,
}


def _partition_directory(text: bytes, path: Path) -> None:
    healthy.copy_partition(path / os.fsdecode(text + b"-0"))


def _segment_file(text: bytes, path: Path) -> None:
    write(hostile_copy(path) / os.fsdecode(text + b".log"), logs.batch())


def _checkpoint_topic(text: bytes, path: Path) -> None:
    rows = [b"compacted 0 72", b"transactions 0 63", text + b" 0 5"]
    data = b"0\n%d\n%s\n" % (len(rows), b"\n".join(rows))
    write(path / "recovery-point-offset-checkpoint", data)


def _property(text: bytes, path: Path) -> None:
    write(path / "meta.properties", b"version=1\nnode.id=1\ncluster.id=" + text + b"\n")


def _record(text: bytes, path: Path) -> None:
    payload = logs.record(key=text, value=text, headers=((text, text),))
    partition(path, logs.batch(payload))


def _unknown_file(text: bytes, path: Path) -> None:
    write(path / os.fsdecode(text), b"of nobody")


_MALFORMED_CHECKPOINT = {
    *("newline", "carriage-return"),  # a line more
    *("spaces", "script", "shell"),  # a word more
    *("not-utf-8", "surrogate"),
}
_NO_OFFSET = codes(0, dump=1, recover=1, compact=1)
"""A `.log` whose name is no offset: the partition does not load. `list` shows it as a stray."""
_PLACES = {
    "partition": _partition_directory,
    "segment": _segment_file,
    "file": _unknown_file,
    "checkpoint": _checkpoint_topic,
    "property": _property,
    "record": _record,
}


def _codes(place: str, what: str) -> Codes:
    if place == "segment":
        return _NO_OFFSET
    if place == "checkpoint":  # a row for a partition that has no directory
        return DAMAGED if what in _MALFORMED_CHECKPOINT else codes(0, recover=1)
    return CLEAN


CASES = [
    Case(name=f"names/{place}-{what}", build=partial(build, text), codes=_codes(place, what))
    for place, build in _PLACES.items()
    for what, text in TEXTS.items()
    if not (place == "file" and what == "dots")
]
_ODD_PARTITIONS = {
    "huge-number": b"t-99999999999999999999",
    "negative-number": b"t--1",
    "other-digits": "t-\u0663".encode(),
    "no-topic": b"-0",
    "no-number": b"t-",
    "255-bytes": b"x" * 253 + b"-0",
    "delete-without-id": b"t-0.-delete",
    "kafka's-own": b"__cluster_metadata-1",
    "leading-zeros": b"t-000000",
}


def _odd_partition(name: bytes, path: Path) -> None:
    healthy.copy_partition(path / os.fsdecode(name))


_NO_PARTITION = {"huge-number", "no-topic", "no-number", "delete-without-id", "kafka's-own"}
"""No broker starts with them; what is in them can be dumped."""

CASES += [
    Case(
        name=f"names/partition-{what}",
        build=partial(_odd_partition, name),
        codes=codes(1, dump=0) if what in _NO_PARTITION else CLEAN,
    )
    for what, name in _ODD_PARTITIONS.items()
]
_ODD_FILES = {
    "huge-offset": "99999999999999999999.log",
    "negative-offset": "-0000000000000000001.log",
    "other-digits": "\u0660" * 20 + ".log",
    "no-offset": ".log",
    "short-offset": "7.log",
    "offset-of-2^63": f"{2**63:020}.log",
    "offset-of-2^63-1": f"{2**63 - 1:020}.log",
    "two-endings": f"{0:020}.log.log",
}


def _odd_file(name: str, path: Path) -> None:
    write(hostile_copy(path) / name, logs.batch())


_ODD_FILE_CODES = {
    "huge-offset": _NO_OFFSET,
    "offset-of-2^63": _NO_OFFSET,
    "no-offset": codes(0, recover=1, compact=1),
    "offset-of-2^63-1": codes(0, recover=1, compact=1),
}

CASES += [
    Case(
        name=f"names/segment-{what}",
        build=partial(_odd_file, name),
        codes=_ODD_FILE_CODES.get(what, CLEAN),
    )
    for what, name in _ODD_FILES.items()
]
