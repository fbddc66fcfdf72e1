"""Lengths and counts that lie: in batches, records, messages, snapshots, indexes and texts."""

import struct
from functools import partial
from pathlib import Path

import crc32c

from tests.hostile import logs
from tests.hostile.case import Case, codes, hostile_copy, partition, write
from tests.hostile.logs import batch, message, record, varint

_MAX = 2**31 - 1
_UNSOUND = codes(0, dump=1, recover=1, compact=1)


def _raw(body: bytes) -> bytes:
    return varint(len(body)) + body


def _body(*fields: bytes) -> bytes:
    return b"\0" + b"".join(fields)


_TEN = b"\xff" * 9 + b"\x01"
_ENDLESS = b"\xff" * 10
_NULL = varint(-1)
_ZERO = varint(0)
_LOGS = {
    "batch-length-0": batch(batch_length=0),
    "batch-length--1": batch(batch_length=-1),
    "batch-length-max": batch(batch_length=_MAX),
    "batch-length-min": batch(batch_length=-_MAX - 1),
    "batch-length-13": batch(batch_length=13),
    "batch-length-one-less": batch(batch_length=48 + len(record())),
    "batch-length-one-more": batch(batch_length=50 + len(record())),
    "record-length-max": batch(varint(_MAX) + b"\0"),
    "record-length--1": batch(varint(-1) + b"\0"),
    "record-length-0": batch(varint(0)),
    "record-length-ten-bytes": batch(_TEN + b"\0"),
    "record-length-endless": batch(_ENDLESS + b"\0"),
    "record-length-2^40": batch(varint(2**40) + b"\0"),
    "timestamp-delta-max": batch(_raw(_body(varint(2**63 - 1), _ZERO, _NULL, _NULL, _ZERO))),
    "timestamp-delta-endless": batch(_raw(_body(_ENDLESS, _ZERO, _NULL, _NULL, _ZERO))),
    "offset-delta-max": batch(_raw(_body(_ZERO, varint(_MAX), _NULL, _NULL, _ZERO))),
    "offset-delta--5": batch(_raw(_body(_ZERO, varint(-5), _NULL, _NULL, _ZERO))),
    "offset-delta-2^40": batch(_raw(_body(_ZERO, varint(2**40), _NULL, _NULL, _ZERO))),
    "key-length--2": batch(_raw(_body(_ZERO, _ZERO, varint(-2), _NULL, _ZERO))),
    "key-length-max": batch(_raw(_body(_ZERO, _ZERO, varint(_MAX), _NULL, _ZERO))),
    "value-length--2": batch(_raw(_body(_ZERO, _ZERO, _NULL, varint(-2), _ZERO))),
    "value-length-max": batch(_raw(_body(_ZERO, _ZERO, _NULL, varint(_MAX), _ZERO))),
    "header-count-max": batch(_raw(_body(_ZERO, _ZERO, _NULL, _NULL, varint(_MAX)))),
    "header-count--1": batch(_raw(_body(_ZERO, _ZERO, _NULL, _NULL, varint(-1)))),
    "header-count-2^40": batch(_raw(_body(_ZERO, _ZERO, _NULL, _NULL, varint(2**40)))),
    "header-key-null": batch(_raw(_body(_ZERO, _ZERO, _NULL, _NULL, varint(1), _NULL, _NULL))),
    "header-key-max": batch(
        _raw(_body(_ZERO, _ZERO, _NULL, _NULL, varint(1), varint(_MAX), _NULL))
    ),
    "record-count-max": batch(record_count=_MAX),
    "record-count--1": batch(record_count=-1),
    "record-count-min": batch(record_count=-_MAX - 1),
    "message-size-0": message(b"v", size=0),
    "message-size--1": message(b"v", size=-1),
    "message-size-max": message(b"v", size=_MAX),
    "message-key-length--2": message(b"v", lengths=(-2, 1)),
    "message-key-length-max": message(b"v", lengths=(_MAX, 1)),
    "message-value-length-max": message(b"v", lengths=(-1, _MAX)),
    "message-value-length--2": message(b"v", lengths=(-1, -2)),
    "one-byte": b"\0",
    "header-cut": batch()[:60],
    "records-cut": batch()[:-1],
    "all-ones": b"\xff" * 4096,
    "zeros-then-batch": bytes(100_000) + batch(),
}


def _log(log: bytes, path: Path) -> None:
    partition(path, log)


def _file(name: str, data: bytes, path: Path) -> None:
    write(hostile_copy(path) / name, data)


def _log_dir_file(name: str, data: bytes, path: Path) -> None:
    write(path / name, data)


def _snapshot(count: int, entries: int = 1, version: int = 1, *, seal: bool = True) -> bytes:
    entry = struct.pack(">qhiqiqiq", 1000, 0, 0, 10, 0, logs.BASE_TIMESTAMP, 0, -1)
    body = struct.pack(">i", count) + entry * entries
    crc = crc32c.crc32c(body) if seal else 7
    return struct.pack(">hI", version, crc) + body


_SNAPSHOTS = {
    "count-max": _snapshot(_MAX),
    "count--1": _snapshot(-1),
    "count-0-with-rest": _snapshot(0, 3),
    "count-one-more": _snapshot(2),
    "version-99": _snapshot(1, version=99),
    "checksum": _snapshot(1, seal=False),
    "empty": b"",
    "one-byte": b"\0",
}
_INDEXES = {
    "index-position-max": (f"{0:020}.index", struct.pack(">ii", 5, _MAX)),
    "index-position--1": (f"{0:020}.index", struct.pack(">ii", 5, -1)),
    "index-offset--1": (f"{0:020}.index", struct.pack(">ii", -1, 0)),
    "index-backwards": (f"{0:020}.index", struct.pack(">iiii", 9, 9, 5, 5)),
    "index-odd-size": (f"{0:020}.index", b"\1" * 13),
    "index-full-of-ones": (f"{0:020}.index", b"\xff" * 65536),
    "timeindex-time-max": (f"{0:020}.timeindex", struct.pack(">qi", 2**63 - 1, 5)),
    "timeindex-time-min": (f"{0:020}.timeindex", struct.pack(">qi", -(2**63), 5)),
    "timeindex-offset-max": (f"{0:020}.timeindex", struct.pack(">qi", 1, _MAX)),
    "timeindex-odd-size": (f"{0:020}.timeindex", b"\1" * 13),
    "txnindex-version": (f"{0:020}.txnindex", b"\xff" * 34),
    "txnindex-odd-size": (f"{0:020}.txnindex", bytes(33)),
    "txnindex-backwards": (
        f"{0:020}.txnindex",
        struct.pack(">hqqqq", 0, 1, 30, 20, 10) + struct.pack(">hqqqq", 0, 1, 5, 4, 3),
    ),
}
_PARTITION_TEXTS = {
    "leader-epoch-count-max": ("leader-epoch-checkpoint", b"0\n2147483647\n0 0\n"),
    "leader-epoch-count--1": ("leader-epoch-checkpoint", b"0\n-1\n"),
    "leader-epoch-number-huge": ("leader-epoch-checkpoint", b"0\n1\n0 " + b"9" * 5000 + b"\n"),
    "leader-epoch-nul": ("leader-epoch-checkpoint", b"0\n1\n0\0 0\n"),
    "leader-epoch-backwards": ("leader-epoch-checkpoint", b"0\n2\n5 50\n3 70\n"),
    "leader-epoch-empty": ("leader-epoch-checkpoint", b""),
    "metadata-version": ("partition.metadata", b"version: 99\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"),
    "metadata-id": ("partition.metadata", b"version: 0\ntopic_id: \x1b[2J"),
    "metadata-empty": ("partition.metadata", b""),
}
_NUMBERS = b"9" * 5000
_LOG_DIR_TEXTS = {
    "checkpoint-count-max": ("recovery-point-offset-checkpoint", b"0\n2147483647\na 0 1\n"),
    "checkpoint-count--1": ("recovery-point-offset-checkpoint", b"0\n-1\n"),
    "checkpoint-count-huge": ("recovery-point-offset-checkpoint", b"0\n" + _NUMBERS + b"\n"),
    "checkpoint-version-huge": ("recovery-point-offset-checkpoint", _NUMBERS + b"\n0\n"),
    "checkpoint-offset-huge": ("replication-offset-checkpoint", b"0\n1\na 0 " + _NUMBERS + b"\n"),
    "checkpoint-offset-2^63": ("replication-offset-checkpoint", b"0\n1\na 0 9223372036854775808\n"),
    "checkpoint-offset--1": ("replication-offset-checkpoint", b"0\n1\ntransactions 0 -1\n"),
    "checkpoint-beyond-end": (
        "replication-offset-checkpoint",
        b"0\n1\ntransactions 0 9223372036854775807\n",
    ),
    "checkpoint-twice": (
        "replication-offset-checkpoint",
        b"0\n2\ntransactions 0 5\ntransactions 0 7\n",
    ),
    "checkpoint-nul": ("replication-offset-checkpoint", b"0\n1\na\0b 0 1\n"),
    "checkpoint-long-line": ("replication-offset-checkpoint", b"0\n1\n" + b"a" * 10_000_000),
    "checkpoint-no-text": ("replication-offset-checkpoint", bytes(range(256)) * 16),
    "cleaner-beyond-end": (
        "cleaner-offset-checkpoint",
        b"0\n1\ncompacted 0 9223372036854775807\n",
    ),
    "log-start-beyond-end": (
        "log-start-offset-checkpoint",
        b"0\n1\ncompacted 0 9223372036854775807\n",
    ),
    "properties-escapes": (
        "meta.properties",
        b"version=1\nnode.id=1\ncluster.id=\\u001b\\u005b2J\\ud800\\u0000\n",
    ),
    "properties-bad-escape": ("meta.properties", b"version=1\nnode.id=1\ncluster.id=\\u00zz\n"),
    "properties-nul": ("meta.properties", b"version=1\nnode.id=1\ncluster.id=\0\0\n"),
    "properties-id-huge": ("meta.properties", b"version=1\nnode.id=" + _NUMBERS + b"\n"),
    "properties-no-text": ("meta.properties", b"\xff\xfe" + bytes(range(256))),
    "properties-endless-line": ("meta.properties", b"version=1\\\n" * 100_000),
    "clean-shutdown-json": (".kafka_cleanshutdown", b"[" * 100_000),
    "clean-shutdown-number": (
        ".kafka_cleanshutdown",
        b'{"version":0,"brokerEpoch":' + _NUMBERS + b"}",
    ),
    "clean-shutdown-text": (".kafka_cleanshutdown", b'{"version":0,"brokerEpoch":"\x1b[2J"}'),
}

CASES = [
    Case(name=f"lengths/{what}", build=partial(_log, log), codes=_UNSOUND)
    for what, log in _LOGS.items()
]
CASES += [
    Case(
        name=f"lengths/snapshot-{what}",
        build=partial(_file, f"{63:020}.snapshot", data),
        codes=codes(0, dump=1),
    )
    for what, data in _SNAPSHOTS.items()
]
CASES += [
    Case(name=f"lengths/{what}", build=partial(_file, name, data), codes=codes(0, dump=1))
    for table in (_INDEXES, _PARTITION_TEXTS)
    for what, (name, data) in table.items()
]
CASES += [
    Case(name=f"lengths/{what}", build=partial(_log_dir_file, name, data), codes=codes(1))
    for what, (name, data) in _LOG_DIR_TEXTS.items()
]
