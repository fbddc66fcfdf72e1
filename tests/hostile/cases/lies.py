"""Batches with right lengths and checksums that say what cannot be."""

import struct
from functools import partial
from pathlib import Path
from typing import Any

from tests.hostile import logs
from tests.hostile.case import Case, codes, partition
from tests.hostile.logs import batch, message, record

_MAX = 2**63 - 1
_UNSOUND = codes(0, dump=1, recover=1, compact=1)
_CONTROL, _TRANSACTIONAL, _HORIZON, _APPEND_TIME = 0x20, 0x10, 0x40, 0x08
_PRODUCER: dict[str, Any] = {"producer_id": 7, "producer_epoch": 0}


def _control(key: bytes | None, value: bytes | None, **fields: int) -> bytes:
    values = {"attributes": _CONTROL | _TRANSACTIONAL, **_PRODUCER, **fields}
    return batch(record(key=key, value=value), **values)


_COMMIT = struct.pack(">hh", 0, 1)
_MARKER_VALUE = struct.pack(">hi", 0, 0)
_LOGS = {
    "count-0": batch(record_count=0),
    "count-2": batch(record_count=2, last_offset_delta=1),
    "two-records-count-1": batch(record() + record(1)),
    "no-records": batch(b"", record_count=0),
    "last-offset-delta--1": batch(last_offset_delta=-1),
    "last-offset-delta-max": batch(last_offset_delta=2**31 - 1),
    "last-offset-delta-small": batch(record() + record(5), record_count=2, last_offset_delta=1),
    "offsets-backwards": batch(record(5) + record(0), record_count=2, last_offset_delta=5),
    "offsets-twice": batch(record() + record(), record_count=2),
    "base-offset--5": batch(base_offset=-5),
    "base-offset-min": batch(base_offset=-_MAX - 1),
    "base-offset-max": batch(base_offset=_MAX),
    "base-offset-near-max": batch(base_offset=_MAX - 1, last_offset_delta=5),
    "base-offset-beyond-segment": batch(base_offset=2**31 + 5),
    "same-offsets": batch() + batch(),
    "offsets-go-back": batch(base_offset=50) + batch(base_offset=10),
    "offsets-of-next-segment": batch(base_offset=1000) + batch(base_offset=2000),
    "max-timestamp-max": batch(max_timestamp=_MAX),
    "max-timestamp-min": batch(max_timestamp=-_MAX - 1),
    "max-timestamp-lies": batch(max_timestamp=logs.BASE_TIMESTAMP - 10**9),
    "base-timestamp-max": batch(base_timestamp=_MAX, max_timestamp=_MAX),
    "base-timestamp-min": batch(base_timestamp=-_MAX - 1),
    "append-time-min": batch(attributes=_APPEND_TIME, max_timestamp=-_MAX - 1),
    "leader-epoch--5": batch(leader_epoch=-5),
    "leader-epoch-max": batch(leader_epoch=2**31 - 1),
    "leader-epochs-back": batch(leader_epoch=9) + batch(base_offset=1, leader_epoch=3),
    "producer-epoch--5": batch(producer_id=7, producer_epoch=-5, base_sequence=0),
    "producer-id-min": batch(producer_id=-_MAX - 1, producer_epoch=0, base_sequence=0),
    "producer-id-max": batch(producer_id=_MAX, producer_epoch=32767, base_sequence=2**31 - 1),
    "sequence--7": batch(producer_id=7, producer_epoch=0, base_sequence=-7),
    "sequence-gap": batch(**_PRODUCER, base_sequence=0)
    + batch(base_offset=1, **_PRODUCER, base_sequence=900),
    "transactional-without-producer": batch(attributes=_TRANSACTIONAL),
    "marker-without-begin": _control(_COMMIT, _MARKER_VALUE),
    "abort-without-begin": _control(struct.pack(">hh", 0, 0), _MARKER_VALUE),
    "marker-of-no-producer": _control(_COMMIT, _MARKER_VALUE, producer_id=-1, producer_epoch=-1),
    "marker-of-old-epoch": batch(producer_id=7, producer_epoch=9, base_sequence=0)
    + _control(_COMMIT, _MARKER_VALUE, base_offset=1),
    "marker-not-transactional": _control(_COMMIT, _MARKER_VALUE, attributes=_CONTROL),
    "control-key-garbage": _control(b"\xff" * 9, b"\xff" * 9),
    "control-key-null": _control(None, None),
    "control-key-short": _control(b"\0", _MARKER_VALUE),
    "control-value-null": _control(_COMMIT, None),
    "control-value-short": _control(_COMMIT, b"\0"),
    "control-value-version-99": _control(_COMMIT, struct.pack(">hi", 99, 5)),
    "control-type-99": _control(struct.pack(">hh", 0, 99), _MARKER_VALUE),
    "control-key-version--1": _control(struct.pack(">hh", -1, 1), _MARKER_VALUE),
    "control-without-records": batch(
        b"", record_count=0, attributes=_CONTROL | _TRANSACTIONAL, **_PRODUCER
    ),
    "control-two-records": batch(
        record(key=_COMMIT, value=_MARKER_VALUE) + record(1, key=_COMMIT, value=_MARKER_VALUE),
        record_count=2,
        last_offset_delta=1,
        attributes=_CONTROL | _TRANSACTIONAL,
        **_PRODUCER,
    ),
    "control-compressed": batch(
        logs.gzip_bytes(record(key=_COMMIT, value=_MARKER_VALUE)),
        attributes=_CONTROL | _TRANSACTIONAL | 1,
        **_PRODUCER,
    ),
    "control-leader-change-garbage": _control(struct.pack(">hh", 0, 2), b"\xff" * 40),
    "control-voters-garbage": _control(struct.pack(">hh", 0, 6), b"\x7f" * 40),
    "delete-horizon": batch(attributes=_HORIZON),
    "delete-horizon-max": batch(attributes=_HORIZON, base_timestamp=_MAX),
    "delete-horizon-min": batch(attributes=_HORIZON, base_timestamp=-_MAX - 1),
    "attributes-all": batch(attributes=0x7FF8),
    "attributes-negative": batch(attributes=-8),
    "record-attributes": batch(b"\x16\xff" + record()[2:]),
    "null-everything": batch(record(key=None, value=None)),
    "message-codec-7": message(b"v", attributes=7),
    "message-codec-zstd": message(b"v", attributes=4),
    "message-offset--5": message(b"v", offset=-5),
    "message-attributes-all": message(b"v", attributes=0x78),
    "wrapper-of-nothing": message(logs.gzip_bytes(b""), attributes=1),
    "wrapper-without-value": message(None, attributes=1),
    "wrapper-of-magic-2": message(logs.gzip_bytes(batch()), attributes=1),
    "wrapper-of-magic-0": message(logs.gzip_bytes(message(b"v", magic=0)), attributes=1),
    "wrapper-relative-offset--9": message(logs.gzip_bytes(message(b"v", offset=-9)), attributes=1),
    "wrapper-relative-offset-max": message(
        logs.gzip_bytes(message(b"v", offset=_MAX)), attributes=1
    ),
    "wrapper-offset-max": message(
        logs.gzip_bytes(message(b"v") + message(b"v", offset=1)), offset=_MAX, attributes=1
    ),
    "magics-mixed": batch() + message(b"v", offset=1) + message(b"v", offset=2, magic=0),
    **{f"magic-{magic}": batch(magic=magic) for magic in (3, 4, 127, -1, -128)},
    **{f"codec-{codec}": batch(attributes=codec) for codec in (5, 6, 7)},
}


def _log(log: bytes, path: Path) -> None:
    partition(path, log)


def _only(log: bytes, path: Path) -> None:
    """The same lies in the only segment: every verb reads it, and the cleaner leaves it alone."""
    partition(path, log, is_only=True)


CASES = [
    Case(name=f"lies/{what}", build=partial(_log, log), codes=_UNSOUND)
    for what, log in _LOGS.items()
]
CASES += [
    Case(name=f"lies/only-segment-{what}", build=partial(_only, log), codes=_UNSOUND)
    for what, log in _LOGS.items()
]
