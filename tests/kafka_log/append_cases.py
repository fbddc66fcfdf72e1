"""Appends drawn from a seed: every magic, codec and origin, valid or damaged.

An `AppendCase` is the input of the oracle's `validate_appends` and of our validation. Damage keeps
the checksums correct, unless the checksum is what is damaged, so that validation reads further.
"""

import random
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafka_format.batch import HEADER_SIZE, BatchHeader, assemble, encode_batch, encode_empty_batch
from kafka_format.checksum import crc32
from kafka_format.compression import Codec, compress
from kafka_format.legacy import LegacyHeader, LegacyMessage, encode_message
from kafka_format.record import Header, Record, SimpleRecord, TimestampType, encode_records
from kafka_log.appends.origin import AppendOptions, AppendOrigin
from tests.oracle.client import b64

NOW = 1_700_000_000_000
HOUR = 3_600_000
CODECS = tuple(Codec)
OVERLONG = "length in five bytes"
OLD_CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)


@dataclass(frozen=True, kw_only=True)
class AppendCase:
    """One append, with the oracle's names and Kafka's settings."""

    data: bytes
    origin: str = "CLIENT"
    leader_epoch: int = 0
    config: dict[str, Any] = field(default_factory=dict)
    offset: int = 0
    """The log end offset."""
    to_magic: int = 2
    ignore_record_size: bool = False
    require_offsets_monotonic: bool = False
    produce_version: int = 12
    now: int = NOW
    note: str = ""
    """What is special about it, for messages."""

    @property
    def options(self) -> AppendOptions:
        return AppendOptions(
            AppendOrigin[self.origin],
            self.leader_epoch,
            assigns_offsets=not self.require_offsets_monotonic,
            ignores_record_size=self.ignore_record_size,
            magic=self.to_magic,
        )

    def as_request(self) -> dict[str, Any]:
        """Return the arguments of the oracle's call."""
        return {
            "bytes": b64(self.data),
            "origin": self.origin,
            "leader_epoch": self.leader_epoch,
            "config": self.config,
            "time": self.now,
            "offset": self.offset,
            "to_magic": self.to_magic,
            "ignore_record_size": self.ignore_record_size,
            "require_offsets_monotonic": self.require_offsets_monotonic,
            "produce_version": self.produce_version,
        }


class RequestPart(NamedTuple):
    """Batches or messages of one magic, the number of their offsets, and what is odd about them."""

    data: bytes
    offsets: int
    note: str


class Damaged(NamedTuple):
    """Bytes, and how they were damaged."""

    data: bytes
    note: str


Damage = Callable[["Dice", bytes, list[SimpleRecord]], Damaged]
"""Damages a batch that was encoded from these records."""


class Dice(random.Random):
    """Draws the parts of a case. If it is calm, nothing in the case is damaged or unusual."""

    calm = False

    def odd(self, chance: float) -> bool:
        """Draw whether something unusual happens."""
        return self.random() < chance and not self.calm


def draw_case(seed: int) -> AppendCase:
    """Draw an append of few small batches."""
    rng = Dice(seed)
    rng.calm = rng.random() < 0.4
    origin = rng.choice(("CLIENT", "CLIENT", "CLIENT", "COORDINATOR", "REPLICATION", "RAFT_LEADER"))
    magic = rng.choice((0, 1, 2, 2, 2, 2))
    data, note = _draw_records(rng, magic, origin)
    if rng.odd(0.1):
        data, tail = _tail(rng, data)
        note += tail
    is_copy = origin in {"REPLICATION", "RAFT_LEADER"}
    return AppendCase(
        data=data,
        origin=origin,
        leader_epoch=rng.choice((0, 5, 5, 9)),
        config=_draw_config(rng),
        offset=rng.choice((0, 1, 77, 2**31 + 5)),
        to_magic=rng.choice((2, 2, 2, 2, 0, 1, magic)),
        ignore_record_size=is_copy or rng.random() < 0.1,
        require_offsets_monotonic=is_copy,
        produce_version=rng.choice((3, 6, 7, 12)),
        note=note,
    )


def draw_large_case(seed: int) -> AppendCase:
    """Draw a batch of magic 2 larger than a block of any codec, valid or damaged."""
    rng = Dice(f"large {seed}")
    records = [
        SimpleRecord(
            NOW + rng.randint(-999, 0),
            rng.choice((b"", b"key %d" % i)),
            rng.choice(_values(rng)),
        )
        for i in range(rng.choice((300, 1500, 4000)))
    ]
    if rng.random() < 0.3:
        which = rng.randrange(len(records))
        records[which] = records[which]._replace(
            timestamp=rng.choice((-1, NOW + 2 * HOUR)), key=rng.choice((None, b"k"))
        )
    data, note = encode_batch(records, codec=rng.choice(CODECS)), "large"
    if rng.random() < 0.5:
        damage: Damage = rng.choice((_edit_header, _flip_payload, _edit_record))
        data, note = damage(rng, data, records)
    return AppendCase(data=data, leader_epoch=5, config=_draw_config(rng), offset=77, note=note)


def draw_fetch(seed: int) -> AppendCase:
    """Draw many small batches, as a follower fetches them or a raft leader appends them."""
    rng = Dice(f"fetch {seed}")
    origin = rng.choice(("REPLICATION", "REPLICATION", "RAFT_LEADER"))
    offset, parts = rng.choice((0, 5, 2**40)), []
    for _ in range(rng.choice((1, 30, 200))):
        records = _draw_simple(rng, sane=True)[:3]
        epoch = 5 if origin == "RAFT_LEADER" else rng.choice((-1, 3, 5))
        codec = rng.choice(CODECS)
        fields: dict[str, Any] = {"base_offset": offset, "partition_leader_epoch": epoch}
        parts.append(encode_batch(records, codec=codec, **fields, **_draw_producer(rng)))
        offset += len(records) + rng.choice((0, 0, 4))
    note = "sound"
    if rng.random() < 0.6:
        which = rng.randrange(len(parts))
        damage: Damage = rng.choice(
            (_edit_header, _flip_payload, _flip_anywhere, _edit_epoch, _go_back)
        )
        parts[which], note = damage(rng, parts[which], [])
    data = b"".join(parts)
    if rng.random() < 0.2:
        data, tail = _tail(rng, data)
        note += tail
    return AppendCase(
        data=data,
        origin=origin,
        leader_epoch=5,
        config={"max.message.bytes": rng.choice((300, 1_048_588))},
        ignore_record_size=origin == "REPLICATION" or rng.random() < 0.3,
        require_offsets_monotonic=True,
        note=note,
    )


def _edit_epoch(rng: Dice, data: bytes, _: list[SimpleRecord]) -> Damaged:
    epoch = rng.choice((-1, 4, 6, 2**31 - 1))
    header = BatchHeader.unpack(data)._replace(partition_leader_epoch=epoch)
    return Damaged(assemble(header, data[HEADER_SIZE:]), f"epoch {epoch}")


def _go_back(rng: Dice, data: bytes, _: list[SimpleRecord]) -> Damaged:
    header = BatchHeader.unpack(data)
    header = header._replace(base_offset=header.base_offset - rng.randint(1, 9))
    return Damaged(assemble(header, data[HEADER_SIZE:]), "goes back")


def _values(rng: Dice) -> tuple[bytes | None, ...]:
    return (None, b"", b"value " * 20, rng.randbytes(40), rng.randbytes(100))


def _draw_config(rng: Dice) -> dict[str, Any]:
    config: dict[str, Any] = {
        "compression.type": rng.choice(
            ("producer", "producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
        ),
        "message.timestamp.type": rng.choice(("CreateTime", "CreateTime", "LogAppendTime")),
    }
    if rng.random() < 0.3:
        config["cleanup.policy"] = rng.choice(("compact", "compact,delete"))
    if rng.odd(0.5):
        config["message.timestamp.before.max.ms"] = rng.choice((0, HOUR, 2**63 - 1))
        config["message.timestamp.after.max.ms"] = rng.choice((0, HOUR, 2**63 - 1))
    if rng.odd(0.15):
        config["max.message.bytes"] = rng.choice((70, 100, 150, 400))
    for codec, levels in (("gzip", (-1, 1, 9)), ("lz4", (3, 9, 12)), ("zstd", (1, 3, 7))):
        if rng.random() < 0.15:
            config[f"compression.{codec}.level"] = rng.choice(levels)
    return config


def _draw_records(rng: Dice, magic: int, origin: str) -> Damaged:
    """Draw the records of a request: mostly one batch, all of one magic."""
    one = origin == "CLIENT" or rng.random() < 0.5
    count = 1 if one and not rng.odd(0.1) else rng.randint(1, 4)
    parts: list[RequestPart] = []
    next_offset = 0
    if origin != "CLIENT" and rng.random() < 0.5:
        next_offset = rng.choice((0, 4, 1000))
    for _ in range(count):
        if rng.odd(0.03):
            magic = rng.choice((0, 1, 2))
        base_offset = (
            next_offset if rng.random() < 0.95 else max(0, next_offset - rng.randint(1, 5))
        )
        draw = _draw_batch if magic == 2 else _draw_messages
        parts.append(draw(rng, magic, origin, base_offset))
        next_offset = base_offset + parts[-1].offsets
    data, notes = [part.data for part in parts], [part.note for part in parts]
    return Damaged(b"".join(data), "; ".join(notes))


def _tail(rng: Dice, data: bytes) -> Damaged:
    """Damage the end: cut the last batch, or add bytes after it."""
    match rng.randrange(4):
        case 0:
            return Damaged(data[: -rng.randint(1, min(20, len(data)))], " cut")
        case 1:
            return Damaged(data + bytes(rng.randint(1, 30)), " zeros after it")
        case 2:
            return Damaged(data + rng.randbytes(rng.randint(1, 30)), " noise after it")
        case _:
            return Damaged(data + data[: rng.randint(1, len(data))], " a part of it again")


# --- records --------------------------------------------------------------------------------------


def _draw_timestamp(rng: Dice) -> int:
    return rng.choice(
        (NOW, NOW, NOW - 5, NOW + 3, NOW - HOUR, NOW + HOUR, NOW - HOUR - 1, NOW + HOUR + 1, -1, 0)
    )


def _draw_simple(rng: Dice, *, sane: bool, headers: bool = False) -> list[SimpleRecord]:
    """Draw records. If `sane`, every topic accepts their times and keys."""
    records = []
    for _ in range(rng.choice((1, 1, 2, 3, 6, 40))):
        timestamp = NOW + rng.randint(-9, 0) if sane else _draw_timestamp(rng)
        key = rng.choice((b"", b"k", b"key" * 50)) if sane or rng.random() < 0.8 else None
        value = rng.choice((None, b"", b"v", b"value " * 30, rng.randbytes(20)))
        record_headers: tuple[Header, ...] = ()
        if headers and rng.random() < 0.3:
            record_headers = tuple(
                Header(rng.choice(("", "h", "\u00e9", "\udcff")), rng.choice((None, b"", b"x")))
                for _ in range(rng.randint(1, 3))
            )
        records.append(SimpleRecord(timestamp, key, value, record_headers))
    return records


def _draw_producer(rng: Dice) -> dict[str, Any]:
    chance = rng.random()
    if chance < 0.6:
        return {}
    fields = {"producer_id": 9, "producer_epoch": 1, "base_sequence": rng.choice((0, 2**31 - 1))}
    return fields | {"is_transactional": chance < 0.75}


# --- magic 2 --------------------------------------------------------------------------------------


def _draw_batch(rng: Dice, _: int, origin: str, base_offset: int) -> RequestPart:
    sane = not rng.odd(0.4)
    records = _draw_simple(rng, sane=sane, headers=rng.random() < 0.4)
    if origin != "CLIENT" and rng.random() < 0.2:  # as compaction leaves them
        records = [
            record._replace(offset=base_offset + 2 * index) for index, record in enumerate(records)
        ]
    fields: dict[str, Any] = {
        "base_offset": base_offset,
        "codec": rng.choice(CODECS),
        "partition_leader_epoch": rng.choice((-1, 0, 5, 5, 6)),
    } | _draw_producer(rng)
    if origin != "CLIENT" and rng.random() < 0.25:
        fields |= {"is_control": True, "base_sequence": -1}
        if rng.random() < 0.7:
            fields["codec"] = Codec.NONE
    if rng.odd(0.1):
        fields |= {"timestamp_type": TimestampType.LOG_APPEND_TIME, "log_append_time": NOW - 2}
        if rng.random() < 0.3:
            fields["log_append_time"] = -1
    data = encode_batch(records, **fields)
    size = BatchHeader.unpack(data).last_offset_delta + 1
    if origin != "CLIENT" and rng.random() < 0.05:
        return RequestPart(encode_empty_batch(BatchHeader.unpack(data)), size, "empty")
    if not rng.odd(0.6):
        return RequestPart(data, size, "sound")
    damage: Damage = rng.choice(
        (_edit_header, _edit_header, _flip_payload, _edit_record, _flip_anywhere)
    )
    data, note = damage(rng, data, records)
    return RequestPart(data, size, note)


_INTERESTING = {
    "base_offset": (1, -1, 2**62),
    "attributes": (0x05, 0x0F, 0x10, 0x20, 0x30, 0x08, 0x40, 0x80, 0x100, -0x8000, 0x01, 0x03),
    "last_offset_delta": (-1, 0, 1, 2**31 - 1, -(2**31)),
    "base_timestamp": (-1, 0, NOW - 2 * HOUR, NOW + 2 * HOUR, -(2**63), 2**63 - 1),
    "max_timestamp": (-1, 0, NOW + 9 * HOUR, 2**63 - 1),
    "producer_id": (-1, 0, 5, -7),
    "producer_epoch": (-1, 0, -9),
    "base_sequence": (-1, -2, 0, 3),
    "record_count": (-1, 0, 1, 2, 2**31 - 1),
}


def _edit_header(rng: Dice, data: bytes, _: list[SimpleRecord]) -> Damaged:
    name = rng.choice(tuple(_INTERESTING))
    value = rng.choice(_INTERESTING[name])
    header = BatchHeader.unpack(data)
    if name == "attributes" and rng.random() < 0.7:
        value |= header.attributes
    if name in {"last_offset_delta", "record_count"} and rng.random() < 0.5:
        value = getattr(header, name) + rng.choice((-1, 1))
    edited = assemble(header._replace(**{name: value}), data[HEADER_SIZE:])
    return Damaged(edited, f"{name} {value}")


def _flip_payload(rng: Dice, data: bytes, _: list[SimpleRecord]) -> Damaged:
    header, payload = BatchHeader.unpack(data), bytearray(data[HEADER_SIZE:])
    bit = rng.randrange(8 * min(len(payload), 64 if rng.random() < 0.7 else len(payload)))
    payload[bit // 8] ^= 1 << bit % 8
    return Damaged(assemble(header, payload), f"{header.codec!s} bit {bit}")


def _edit_record(rng: Dice, data: bytes, records: list[SimpleRecord]) -> Damaged:
    """Damage a record before it is compressed, as a faulty producer does."""
    header = BatchHeader.unpack(data)
    whole = [
        Record(header.base_offset + i, r.timestamp, r.key, r.value, r.headers, -1, 0)
        for i, r in enumerate(records)
    ]
    which = rng.randrange(len(whole))
    kind = rng.choice(("offset", "attributes", "timestamp", "bit", "end"))
    if kind == "offset":
        whole[which] = whole[which]._replace(offset=header.base_offset + rng.randint(-3, 9))
    elif kind == "attributes":
        whole[which] = whole[which]._replace(attributes=rng.choice((1, -1, 0x20)))
    elif kind == "timestamp":
        whole[which] = whole[which]._replace(timestamp=rng.choice((-2, 2**63 - 1, -(2**63), 5)))
    plain = bytearray(
        encode_records(whole, base_offset=header.base_offset, base_timestamp=header.base_timestamp)
    )
    if kind == "bit":
        bit = rng.randrange(8 * min(len(plain), 48))
        plain[bit // 8] ^= 1 << bit % 8
    elif kind == "end":
        overlong = b"\x80\x80\x80\x80\x80\x80"
        plain = bytearray(rng.choice((plain[:-1], plain + b"\0", overlong + plain, b"")))
    edited = assemble(header, compress(header.codec, plain))
    return Damaged(edited, f"{header.codec!s} {kind} of record {which}")


def _flip_anywhere(rng: Dice, data: bytes, _: list[SimpleRecord]) -> Damaged:
    """Flip a bit of the header. The checksum shows it, except in the first 17 bytes."""
    flipped = bytearray(data)
    bit = rng.randrange(8 * HEADER_SIZE)
    flipped[bit // 8] ^= 1 << bit % 8
    return Damaged(bytes(flipped), f"bit {bit} of the batch")


# --- magic 0 and 1 --------------------------------------------------------------------------------


def _draw_messages(rng: Dice, magic: int, _: str, base_offset: int) -> RequestPart:
    codec = rng.choice(OLD_CODECS)
    records = _draw_simple(rng, sane=not rng.odd(0.4))
    is_wrapper = codec is not Codec.NONE
    first = base_offset if magic == 0 or not is_wrapper else 0
    attributes = 8 if magic == 1 and rng.odd(0.1) else 0
    messages = [
        LegacyMessage(LegacyHeader(first + i, 0, 0, magic, attributes, r.timestamp), r.key, r.value)
        for i, r in enumerate(records)
    ]
    notes = []
    if rng.odd(0.4):
        notes.append(_edit_message(rng, messages))
    encoded = [encode_message(message) for message in messages]
    if rng.odd(0.3):
        notes.append(_break_message(rng, encoded, fixed=rng.random() < 0.7))
    if not is_wrapper:
        return RequestPart(b"".join(encoded), len(encoded), f"{magic} {notes}")
    offset = base_offset + len(records) - 1
    if magic == 1 and rng.odd(0.15):
        offset = rng.choice((0, 1, 2**40))
    timestamp = max(record.timestamp for record in records)
    if rng.random() < 0.2:
        timestamp = _draw_timestamp(rng)
    value: bytes | None = compress(codec, b"".join(encoded), magic=magic)
    if rng.odd(0.05):
        value = rng.choice((None, b"", compress(codec, b"", magic=magic)))
        notes.append("odd value")
    number = rng.choice((4, 5, 7)) if rng.odd(0.03) else int(codec)
    header = LegacyHeader(offset, 0, 0, magic, number | attributes, timestamp)
    key = None if rng.random() < 0.9 else b"wrapped"
    wrapper = [encode_message(LegacyMessage(header, key, value))]
    if rng.odd(0.08):
        notes.append(_break_message(rng, wrapper, fixed=rng.random() < 0.8))
    return RequestPart(wrapper[0], len(records), f"{magic} {codec!s} {notes}")


def _edit_message(rng: Dice, messages: list[LegacyMessage]) -> str:
    which = rng.randrange(len(messages))
    message = messages[which]
    change: dict[str, int] = rng.choice(
        (
            {"magic": 1 - message.header.magic},
            {"attributes": rng.choice((1, 3, 5, 8, 0x80 - 0x100))},
            {"timestamp": rng.choice((-2, NOW + 9 * HOUR, 2**63 - 1))},
            {"offset": message.header.offset + rng.randint(-2, 5)},
        )
    )
    messages[which] = message._replace(header=message.header._replace(**change))
    return f"message {which} {change}"


def _break_message(rng: Dice, encoded: list[bytes], *, fixed: bool) -> str:
    """Damage a bit or a length inside a message. If `fixed`, the checksum is made correct."""
    which = rng.randrange(len(encoded))
    entry = bytearray(encoded[which])
    kind = rng.choice(("bit", "key length", "size"))
    if kind == "bit":
        at = rng.randrange(16, min(len(entry), 60))
        entry[at] ^= 1 << rng.randrange(8)
    elif kind == "key length":  # where magic 0 or 1 has it
        at = 18 if entry[16] == 0 else 26
        struct.pack_into(">i", entry, at, rng.choice((-5, 0, 1, 2**31 - 1, 1000)))
    elif len(entry) > 12 + 14:
        entry = entry[: rng.randrange(12 + 14, len(entry))]
        struct.pack_into(">i", entry, 8, len(entry) - 12)
    if fixed:
        struct.pack_into(">I", entry, 12, crc32(entry[16:]))
    encoded[which] = bytes(entry)
    return f"{kind} of message {which}{', checksum made right' if fixed else ''}"


# --- corners --------------------------------------------------------------------------------------


def corner_cases() -> list[AppendCase]:
    """Return cases that seeds find once in ten thousand draws."""
    return [*_corners_of_batches(), *_corners_of_records(), *_corners_of_messages()]


def _corners_of_batches() -> list[AppendCase]:
    one = [SimpleRecord(NOW, b"k", b"v")]
    data = encode_batch(one)
    header = BatchHeader.unpack(data)
    lz4, append_time = {"compression.type": "lz4"}, {"message.timestamp.type": "LogAppendTime"}
    empty = encode_empty_batch(header)
    gap = [SimpleRecord(NOW, b"\0\0\0\1", bytes(6), (), offset) for offset in (0, 2)]
    control: dict[str, Any] = {"is_control": True, "is_transactional": True}
    control |= {"producer_epoch": 0}
    coordinator: dict[str, Any] = {"origin": "COORDINATOR"}
    return [
        AppendCase(data=b"", note="nothing"),
        AppendCase(data=data[:8] + b"\0\0\0\x0e" + data[12:26], note="too short for offsets"),
        AppendCase(data=data[:8] + b"\0\0\0\x30" + data[12:60], note="too short for a header"),
        AppendCase(data=data[:8] + b"\x7f\xff\xff\xfa" + data[12:], note="length near 2^31"),
        AppendCase(data=data[:8] + b"\x7f\xff\xff\xf3" + data[12:], note="the longest length"),
        AppendCase(data=data[:16] + b"\x80" + data[17:], note="negative magic"),
        AppendCase(data=empty, config=lz4 | append_time, **coordinator, note="no last offset"),
        AppendCase(data=empty, config=lz4, **coordinator, note="nothing to compress"),
        AppendCase(
            data=encode_batch(gap, producer_id=9, base_sequence=0, **control),
            config=lz4,
            **coordinator,
            note="control records that end up as others",
        ),
        AppendCase(
            data=encode_batch(gap, producer_id=9, **control),
            config=lz4,
            **coordinator,
            note="control records without a sequence",
        ),
        AppendCase(
            data=assemble(header._replace(attributes=0x10), data[HEADER_SIZE:]),
            config=lz4,
            note="a transaction of nobody",
        ),
        AppendCase(
            data=assemble(
                header._replace(producer_id=-7, producer_epoch=0, base_sequence=0),
                data[HEADER_SIZE:],
            ),
            to_magic=1,
            note="a producer id that is none and yet one",
        ),
        AppendCase(
            data=assemble(header._replace(record_count=-1), data[HEADER_SIZE:]),
            **coordinator,
            note="negative count",
        ),
    ]


def _corners_of_records() -> list[AppendCase]:
    """Return payloads of one record; `02 6b` is the key k, `02 76` the value v."""
    payloads = {
        "sound": "10 00 00 00 02 6b 02 76 00",
        "length in six bytes": "90 80 80 80 80 00 00 00 00 02 6b 02 76 00",
        OVERLONG: "90 80 80 80 00 00 00 00 02 6b 02 76 00",
        "length cut": "90 80",
        "negative length": "03 00 00 00 02 6b 02 76 00",
        "length too large": "12 00 00 00 02 6b 02 76 00",
        "length too small": "0e 00 00 00 02 6b 02 76 00",
        "negative header count": "10 00 00 00 02 6b 02 76 01",
        "more headers than bytes": "10 00 00 00 02 6b 02 76 04",
        "negative header key": "14 00 00 00 02 6b 02 76 02 01 00",
        "header of nulls": "14 00 00 00 02 6b 02 76 02 00 01",
        "header that is not text": "18 00 00 00 02 6b 02 76 02 02 ff 02 78",
        "key null as -2": "0e 00 00 00 03 02 76 00",
        "key longer than all": "10 00 00 00 40 6b 02 76 00",
        "value cut": "10 00 00 00 02 6b 40 76 00",
        "offset delta 1": "10 00 00 02 02 6b 02 76 00",
        "offset delta -1": "10 00 00 01 02 6b 02 76 00",
        "attributes": "10 7f 00 00 02 6b 02 76 00",
        "timestamp delta in ten bytes": "22 00 ff ff ff ff ff ff ff ff ff 01 00 02 6b 02 76 00",
        "timestamp delta in eleven": "24 00 ff ff ff ff ff ff ff ff ff ff 01 00 02 6b 02 76 00",
        "two for one": "10 00 00 00 02 6b 02 76 00 10 00 00 00 02 6b 02 76 00",
        "none": "",
    }
    header = BatchHeader.unpack(encode_batch([SimpleRecord(NOW, b"k", b"v")]))
    cases = []
    for note, text in payloads.items():
        for codec in CODECS:
            payload = compress(codec, bytes.fromhex(text))
            data = assemble(header._replace(attributes=int(codec)), payload)
            for target in ("producer", "gzip", "uncompressed"):
                config = {"compression.type": target, "cleanup.policy": "compact"}
                cases.append(AppendCase(data=data, config=config, note=f"{note}, {codec!s}"))
    return cases


def _corners_of_messages() -> list[AppendCase]:
    def message(offset: int = 0, magic: int = 1, attributes: int = 0) -> bytes:
        header = LegacyHeader(offset, 0, 0, magic, attributes, NOW)
        return encode_message(LegacyMessage(header, b"k", b"v"))

    def wrapper(value: bytes | None, codec: Codec, magic: int = 1, offset: int = 0) -> bytes:
        header = LegacyHeader(offset, 0, 0, magic, int(codec), NOW)
        return encode_message(LegacyMessage(header, None, value))

    lz4 = Codec.LZ4
    values: dict[str, bytes | None] = {
        "two": compress(lz4, message() + message(1)),
        "null": None,
        "empty": b"",
        "nothing inside": compress(lz4, b""),
        "cut inside": compress(lz4, message() + message(1)[:-1]),
        "only cut inside": compress(lz4, message()[:-1]),
        "magic 0 inside": compress(lz4, message() + message(1, magic=0)),
        "magic 2 inside": compress(lz4, message() + message(1, magic=2)),
        "gzip inside": compress(lz4, message() + message(1, attributes=1)),
        "codec 7 inside": compress(lz4, message(attributes=7)),
        "offsets from 5": compress(lz4, message(5) + message(6)),
        "a size of 13": compress(lz4, message() + bytes(8) + b"\0\0\0\x0d" + bytes(13)),
        "a broken end": compress(lz4, message())[:-3],
        "no frame": b"?" * 40,
    }
    cases = [
        AppendCase(data=wrapper(value, lz4, offset=offset), to_magic=to_magic, note=note)
        for note, value in values.items()
        for offset in (0, 1, 9)
        for to_magic in (0, 1, 2)
    ]
    plain = message() + message(1)
    for kind in ("CreateTime", "LogAppendTime"):
        config = {"message.timestamp.type": kind}
        for data in (plain, wrapper(values["two"], lz4, offset=1), wrapper(b"", Codec.ZSTD)):
            cases += [
                AppendCase(data=data, config=config, to_magic=to_magic, note=kind)
                for to_magic in (0, 1, 2)
            ]
    return cases
