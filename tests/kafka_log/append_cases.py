"""Appends drawn from a seed: every magic, codec and origin, sound or damaged in ways brokers meet.

An `AppendCase` is what `validate_appends` of the oracle takes and what our validation takes. Damage
keeps checksums right unless it is meant to be the checksum: what is behind it is then looked at.
"""

import random
import struct
from dataclasses import dataclass, field
from typing import Any

from kafka_format.batch import HEADER_SIZE, BatchHeader, assemble, encode_batch, encode_empty_batch
from kafka_format.checksum import crc32
from kafka_format.compression import Codec, compress
from kafka_format.legacy import LegacyHeader, LegacyMessage, encode_message
from kafka_format.record import Header, Record, SimpleRecord, TimestampType, encode_records
from tests.oracle.client import b64

NOW = 1_700_000_000_000
HOUR = 3_600_000
CODECS = tuple(Codec)
OLD_CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4)


@dataclass(frozen=True, kw_only=True)
class AppendCase:
    data: bytes
    origin: str = "CLIENT"
    leader_epoch: int = 0
    config: dict[str, Any] = field(default_factory=dict)  # in Kafka's names
    offset: int = 0
    to_magic: int = 2
    ignore_record_size: bool = False
    require_offsets_monotonic: bool = False
    produce_version: int = 12
    now: int = NOW
    note: str = ""

    def as_request(self) -> dict[str, Any]:
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


def draw_case(seed: int) -> AppendCase:
    rng = random.Random(seed)
    origin = rng.choice(("CLIENT", "CLIENT", "CLIENT", "COORDINATOR", "REPLICATION", "RAFT_LEADER"))
    magic = rng.choice((0, 1, 2, 2, 2, 2))
    data, note = _draw_records(rng, magic, origin)
    if rng.random() < 0.1:
        data, cut = _tail(rng, data)
        note += cut
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
    """A batch of magic 2 with more bytes than a block of any codec, sound or damaged somewhere."""
    rng = random.Random(f"large {seed}")
    records = [
        SimpleRecord(
            NOW + rng.randint(-999, 0),
            rng.choice((b"", b"key %d" % i)),
            rng.choice(_some_values(rng)),
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
        damage = rng.choice((_edit_header, _flip_payload, _edit_record))
        data, note = damage(rng, data, records)
    return AppendCase(data=data, leader_epoch=5, config=_draw_config(rng), offset=77, note=note)


def draw_fetch(seed: int) -> AppendCase:
    """Many small batches, as a follower fetches them or a raft leader appends them."""
    rng = random.Random(f"fetch {seed}")
    origin = rng.choice(("REPLICATION", "REPLICATION", "RAFT_LEADER"))
    offset, parts = rng.choice((0, 5, 2**40)), []
    for _ in range(rng.choice((1, 30, 200))):
        records = _draw_simple(rng, sane=True)[:3]
        epoch = 5 if origin == "RAFT_LEADER" else rng.choice((-1, 3, 5))
        codec = rng.choice(CODECS)
        fields = {"base_offset": offset, "partition_leader_epoch": epoch, "codec": codec}
        parts.append(encode_batch(records, **fields, **_draw_producer(rng)))
        offset += len(records) + rng.choice((0, 0, 4))
    note = "sound"
    if rng.random() < 0.6:
        which = rng.randrange(len(parts))
        damage = rng.choice((_edit_header, _flip_payload, _flip_anywhere, _edit_epoch, _go_back))
        parts[which], note = damage(rng, parts[which], [])
    data = b"".join(parts)
    if rng.random() < 0.2:
        data, cut = _tail(rng, data)
        note += cut
    return AppendCase(
        data=data,
        origin=origin,
        leader_epoch=5,
        config={"max.message.bytes": rng.choice((300, 1_048_588))},
        ignore_record_size=origin == "REPLICATION" or rng.random() < 0.3,
        require_offsets_monotonic=True,
        note=note,
    )


def _edit_epoch(rng: random.Random, data: bytes, _: list[SimpleRecord]) -> tuple[bytes, str]:
    epoch = rng.choice((-1, 4, 6, 2**31 - 1))
    header = BatchHeader.unpack(data)._replace(partition_leader_epoch=epoch)
    return assemble(header, data[HEADER_SIZE:]), f"epoch {epoch}"


def _go_back(rng: random.Random, data: bytes, _: list[SimpleRecord]) -> tuple[bytes, str]:
    header = BatchHeader.unpack(data)
    header = header._replace(base_offset=header.base_offset - rng.randint(1, 9))
    return assemble(header, data[HEADER_SIZE:]), "goes back"


def _some_values(rng: random.Random) -> tuple[bytes | None, ...]:
    return (None, b"", b"value " * 20, rng.randbytes(40), rng.randbytes(100))


def _draw_config(rng: random.Random) -> dict[str, Any]:
    config: dict[str, Any] = {
        "compression.type": rng.choice(
            ("producer", "producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
        ),
        "message.timestamp.type": rng.choice(("CreateTime", "CreateTime", "LogAppendTime")),
    }
    if rng.random() < 0.3:
        config["cleanup.policy"] = rng.choice(("compact", "compact,delete"))
    if rng.random() < 0.4:
        config["message.timestamp.before.max.ms"] = rng.choice((0, HOUR, 2**63 - 1))
        config["message.timestamp.after.max.ms"] = rng.choice((0, HOUR, 2**63 - 1))
    if rng.random() < 0.15:
        config["max.message.bytes"] = rng.choice((70, 100, 150, 400))
    for codec, levels in (("gzip", (-1, 1, 9)), ("lz4", (3, 9, 12)), ("zstd", (1, 3, 7))):
        if rng.random() < 0.15:
            config[f"compression.{codec}.level"] = rng.choice(levels)
    return config


def _draw_records(rng: random.Random, magic: int, origin: str) -> tuple[bytes, str]:
    one = origin == "CLIENT" or rng.random() < 0.5
    count = 1 if one and rng.random() < 0.9 else rng.randint(1, 4)
    parts, notes, next_offset = [], [], 0
    if origin != "CLIENT" and rng.random() < 0.5:
        next_offset = rng.choice((0, 4, 1000))
    for _ in range(count):
        if rng.random() < 0.03:
            magic = rng.choice((0, 1, 2))
        base_offset = (
            next_offset if rng.random() < 0.95 else max(0, next_offset - rng.randint(1, 5))
        )
        draw = _draw_batch if magic == 2 else _draw_messages
        part, size, note = draw(rng, magic, origin, base_offset)
        parts.append(part)
        notes.append(note)
        next_offset = base_offset + size
    return b"".join(parts), "; ".join(notes)


def _tail(rng: random.Random, data: bytes) -> tuple[bytes, str]:
    match rng.randrange(4):
        case 0:
            return data[: -rng.randint(1, min(20, len(data)))], " cut"
        case 1:
            return data + bytes(rng.randint(1, 30)), " zeros behind"
        case 2:
            return data + rng.randbytes(rng.randint(1, 30)), " noise behind"
        case _:
            return data + data[: rng.randint(1, len(data))], " part behind"


# --- records --------------------------------------------------------------------------------------


def _draw_timestamp(rng: random.Random) -> int:
    return rng.choice(
        (NOW, NOW, NOW - 5, NOW + 3, NOW - HOUR, NOW + HOUR, NOW - HOUR - 1, NOW + HOUR + 1, -1, 0)
    )


def _draw_simple(rng: random.Random, *, sane: bool, headers: bool = False) -> list[SimpleRecord]:
    """`sane`: times and keys to which no topic objects."""
    records = []
    for _ in range(rng.choice((1, 1, 2, 3, 6, 40))):
        timestamp = NOW + rng.randint(-9, 0) if sane else _draw_timestamp(rng)
        key = rng.choice((b"", b"k", b"key" * 50)) if sane or rng.random() < 0.8 else None
        value = rng.choice((None, b"", b"v", b"value " * 30, rng.randbytes(20)))
        some = ()
        if headers and rng.random() < 0.3:
            some = tuple(
                Header(rng.choice(("", "h", "\u00e9", "\udcff")), rng.choice((None, b"", b"x")))
                for _ in range(rng.randint(1, 3))
            )
        records.append(SimpleRecord(timestamp, key, value, some))
    return records


def _draw_producer(rng: random.Random) -> dict[str, Any]:
    chance = rng.random()
    if chance < 0.6:
        return {}
    fields = {"producer_id": 9, "producer_epoch": 1, "base_sequence": rng.choice((0, 2**31 - 1))}
    return fields | {"is_transactional": chance < 0.75}


# --- magic 2 --------------------------------------------------------------------------------------


def _draw_batch(
    rng: random.Random, _: int, origin: str, base_offset: int
) -> tuple[bytes, int, str]:
    sane = rng.random() < 0.6
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
    if rng.random() < 0.1:
        fields |= {"timestamp_type": TimestampType.LOG_APPEND_TIME, "log_append_time": NOW - 2}
        if rng.random() < 0.3:
            fields["log_append_time"] = -1
    data = encode_batch(records, **fields)
    size = BatchHeader.unpack(data).last_offset_delta + 1
    if origin != "CLIENT" and rng.random() < 0.05:
        return encode_empty_batch(BatchHeader.unpack(data)), size, "empty"
    if rng.random() < 0.5:
        return data, size, "sound"
    damage = rng.choice((_edit_header, _edit_header, _flip_payload, _edit_record, _flip_anywhere))
    data, note = damage(rng, data, records)
    return data, size, note


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


def _edit_header(rng: random.Random, data: bytes, _: list[SimpleRecord]) -> tuple[bytes, str]:
    name = rng.choice(tuple(_INTERESTING))
    value = rng.choice(_INTERESTING[name])
    header = BatchHeader.unpack(data)
    if name == "attributes" and rng.random() < 0.7:
        value |= header.attributes
    if name in {"last_offset_delta", "record_count"} and rng.random() < 0.5:
        value = getattr(header, name) + rng.choice((-1, 1))
    return assemble(header._replace(**{name: value}), data[HEADER_SIZE:]), f"{name} {value}"


def _flip_payload(rng: random.Random, data: bytes, _: list[SimpleRecord]) -> tuple[bytes, str]:
    header, payload = BatchHeader.unpack(data), bytearray(data[HEADER_SIZE:])
    bit = rng.randrange(8 * min(len(payload), 64 if rng.random() < 0.7 else len(payload)))
    payload[bit // 8] ^= 1 << bit % 8
    return assemble(header, payload), f"{header.codec!s} bit {bit}"


def _edit_record(rng: random.Random, data: bytes, records: list[SimpleRecord]) -> tuple[bytes, str]:
    """Damage before compression, as a broken producer makes it."""
    header = BatchHeader.unpack(data)
    whole = [
        Record(header.base_offset + i, r.timestamp, r.key, r.value, r.headers, -1, 0)
        for i, r in enumerate(records)
    ]
    which, kind = rng.randrange(len(whole)), rng.randrange(5)
    if kind == 0:
        whole[which] = whole[which]._replace(offset=header.base_offset + rng.randint(-3, 9))
    elif kind == 1:
        whole[which] = whole[which]._replace(attributes=rng.choice((1, -1, 0x20)))
    elif kind == 2:
        whole[which] = whole[which]._replace(timestamp=rng.choice((-2, 2**63 - 1, -(2**63), 5)))
    plain = bytearray(
        encode_records(whole, base_offset=header.base_offset, base_timestamp=header.base_timestamp)
    )
    if kind == 3:
        bit = rng.randrange(8 * min(len(plain), 48))
        plain[bit // 8] ^= 1 << bit % 8
    elif kind == 4:
        plain = rng.choice((plain[:-1], plain + b"\0", b"\x80\x80\x80\x80\x80\x80" + plain, b""))
    return assemble(header, compress(header.codec, plain)), f"{header.codec!s} record kind {kind}"


def _flip_anywhere(rng: random.Random, data: bytes, _: list[SimpleRecord]) -> tuple[bytes, str]:
    """The checksum notices, unless it is in the first 17 bytes."""
    flipped = bytearray(data)
    bit = rng.randrange(8 * HEADER_SIZE)
    flipped[bit // 8] ^= 1 << bit % 8
    return bytes(flipped), f"bit {bit} of the batch"


# --- magic 0 and 1 --------------------------------------------------------------------------------


def _draw_messages(
    rng: random.Random, magic: int, _: str, base_offset: int
) -> tuple[bytes, int, str]:
    codec = rng.choice(OLD_CODECS)
    records = _draw_simple(rng, sane=rng.random() < 0.6)
    is_wrapper = codec is not Codec.NONE
    first = base_offset if magic == 0 or not is_wrapper else 0
    attributes = 8 if magic == 1 and rng.random() < 0.1 else 0
    messages = [
        LegacyMessage(LegacyHeader(first + i, 0, 0, magic, attributes, r.timestamp), r.key, r.value)
        for i, r in enumerate(records)
    ]
    notes = []
    if rng.random() < 0.3:
        notes.append(_edit_message(rng, messages))
    encoded = [encode_message(message) for message in messages]
    if rng.random() < 0.25:
        notes.append(_break_message(rng, encoded, fixed=rng.random() < 0.7))
    if not is_wrapper:
        return b"".join(encoded), len(encoded), f"{magic} {notes}"
    offset = base_offset + len(records) - 1
    if magic == 1 and rng.random() < 0.15:
        offset = rng.choice((0, 1, 2**40))
    timestamp = max(record.timestamp for record in records)
    if rng.random() < 0.2:
        timestamp = _draw_timestamp(rng)
    value: bytes | None = compress(codec, b"".join(encoded), magic=magic)
    if rng.random() < 0.05:
        value = rng.choice((None, b"", compress(codec, b"", magic=magic)))
        notes.append("odd value")
    number = int(codec) if rng.random() < 0.97 else rng.choice((4, 5, 7))
    header = LegacyHeader(offset, 0, 0, magic, number | attributes, timestamp)
    key = None if rng.random() < 0.9 else b"wrapped"
    wrapper = [encode_message(LegacyMessage(header, key, value))]
    if rng.random() < 0.08:
        notes.append(_break_message(rng, wrapper, fixed=rng.random() < 0.8))
    return wrapper[0], len(records), f"{magic} {codec!s} {notes}"


def _edit_message(rng: random.Random, messages: list[LegacyMessage]) -> str:
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


def _break_message(rng: random.Random, encoded: list[bytes], *, fixed: bool) -> str:
    """A bit or a length inside a message; `fixed`: with a checksum that agrees."""
    which = rng.randrange(len(encoded))
    entry = bytearray(encoded[which])
    kind = rng.randrange(3)
    if kind == 0:
        at = rng.randrange(16, min(len(entry), 60))
        entry[at] ^= 1 << rng.randrange(8)
    elif kind == 1:  # key length, where magic 0 or 1 has it
        at = 18 if entry[16] == 0 else 26
        struct.pack_into(">i", entry, at, rng.choice((-5, 0, 1, 2**31 - 1, 1000)))
    elif len(entry) > 12 + 14:
        entry = entry[: rng.randrange(12 + 14, len(entry))]
        struct.pack_into(">i", entry, 8, len(entry) - 12)
    if fixed:
        struct.pack_into(">I", entry, 12, crc32(entry[16:]))
    encoded[which] = bytes(entry)
    return f"broken {which} kind {kind} fixed {fixed}"
