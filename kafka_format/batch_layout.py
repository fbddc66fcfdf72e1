"""The layout of batch headers: every field of magic 2, 1 and 0.

Readers and writers derive what they need from these tables: a `struct` of some fields, a numpy
dtype, or the position of one field as a plain number, which compiled kernels can use.

    position  magic 2                  magic 1        magic 0
           0  base_offset              offset         offset
           8  batch_length             size           size
          12  partition_leader_epoch   crc            crc
          16  magic                    magic          magic
          17  crc                      attributes     attributes
          18                           timestamp      key_length
          21  attributes
          23  last_offset_delta
          26                           key_length
          27  base_timestamp
          35  max_timestamp
          43  producer_id
          51  producer_epoch
          53  base_sequence
          57  record_count

All three begin with an offset and the length of what follows, and have the magic at position 16.
kafka_format.batch and kafka_format.legacy describe the fields; kafka_format.attributes describes
the bits of `attributes`.
"""

from struct import Struct, calcsize
from typing import NamedTuple, Self


class HeaderField(NamedTuple):
    """A field of a header: its name, its type as `struct` writes it, and where it begins."""

    name: str
    code: str
    position: int

    @property
    def size(self) -> int:
        return calcsize(">" + self.code)

    @property
    def end(self) -> int:
        return self.position + self.size

    @property
    def struct(self) -> Struct:
        """The struct of this field only, to be packed at its position."""
        return Struct(">" + self.code)


class HeaderLayout(NamedTuple):
    """The fields of a header, big-endian and without gaps."""

    fields: tuple[HeaderField, ...]

    @classmethod
    def of(cls, **codes: str) -> Self:
        """Place fields one after the other, each of a `struct` type."""
        fields: list[HeaderField] = []
        for name, code in codes.items():
            fields.append(HeaderField(name, code, fields[-1].end if fields else 0))
        return cls(tuple(fields))

    def field(self, name: str) -> HeaderField:
        return next(field for field in self.fields if field.name == name)

    @property
    def size(self) -> int:
        return self.fields[-1].end

    @property
    def struct(self) -> Struct:
        """The struct of the whole header."""
        return Struct(">" + "".join(field.code for field in self.fields))

    def reader(self, *names: str) -> Struct:
        """Return a struct that unpacks these fields, in header order, and skips all others."""
        text, end = ">", 0
        for field in map(self.field, names):
            skipped = field.position - end
            text += f"{skipped}x{field.code}" if skipped else field.code
            end = field.end
        return Struct(text)

    def dtype_fields(self) -> list[tuple[str, str]]:
        """Return the argument for numpy.dtype, without importing numpy here."""
        return [(field.name, ">" + field.code) for field in self.fields]


BATCH = HeaderLayout.of(
    base_offset="q",
    batch_length="i",  # bytes after this field
    partition_leader_epoch="i",  # outside the checksum; -1 none
    magic="b",
    crc="I",  # CRC-32C of all that follows
    attributes="h",  # the low byte only
    last_offset_delta="i",  # kept by compaction
    base_timestamp="q",  # of the first record, or the delete horizon
    max_timestamp="q",
    producer_id="q",  # -1 none
    producer_epoch="h",
    base_sequence="i",  # -1 none
    record_count="i",
)
"""A batch of magic 2."""

MESSAGE_1 = HeaderLayout.of(
    offset="q",  # of a wrapper: of the last record in it
    size="i",  # bytes after this field
    crc="I",  # CRC-32 of all that follows
    magic="b",
    attributes="b",
    timestamp="q",
    key_length="i",  # -1 null; then the key, the value's length, the value
)
"""A message of magic 1."""

MESSAGE_0 = HeaderLayout.of(
    **{field.name: field.code for field in MESSAGE_1.fields if field.name != "timestamp"}
)
"""A message of magic 0: the same without a timestamp."""

# Positions in every format.
LENGTH_AT = BATCH.field("batch_length").position
LENGTH_END = BATCH.field("batch_length").end  # the length counts from here
MAGIC_AT = BATCH.field("magic").position
UP_TO_MAGIC = BATCH.field("magic").end

# Positions in a batch of magic 2.
PARTITION_LEADER_EPOCH_AT = BATCH.field("partition_leader_epoch").position
CRC_AT = BATCH.field("crc").position
ATTRIBUTES_AT = BATCH.field("attributes").position  # the checksum covers the bytes from here
LAST_OFFSET_DELTA_AT = BATCH.field("last_offset_delta").position
LAST_OFFSET_DELTA_END = BATCH.field("last_offset_delta").end
BASE_TIMESTAMP_AT = BATCH.field("base_timestamp").position
MAX_TIMESTAMP_AT = BATCH.field("max_timestamp").position
PRODUCER_ID_AT = BATCH.field("producer_id").position
PRODUCER_EPOCH_AT = BATCH.field("producer_epoch").position
BASE_SEQUENCE_AT = BATCH.field("base_sequence").position
RECORD_COUNT_AT = BATCH.field("record_count").position
HEADER_SIZE = BATCH.size

# Positions in a message of magic 0 or 1; its checksum covers the bytes from its magic.
MESSAGE_CRC_AT = MESSAGE_1.field("crc").position
MESSAGE_ATTRIBUTES_AT = MESSAGE_1.field("attributes").position
MESSAGE_TIMESTAMP_AT = MESSAGE_1.field("timestamp").position
MESSAGE_TIMESTAMP_END = MESSAGE_1.field("timestamp").end
KEY_LENGTH_AT = MESSAGE_0.field("key_length").position, MESSAGE_1.field("key_length").position
"""Position of the length of a message's key, by magic."""

_VALUE_LENGTH_SIZE = 4
SMALLEST_LENGTHS = (
    MESSAGE_0.size + _VALUE_LENGTH_SIZE - LENGTH_END,
    MESSAGE_1.size + _VALUE_LENGTH_SIZE - LENGTH_END,
    HEADER_SIZE - LENGTH_END,
)
"""The smallest value of the length field, by magic: a null key and a null value, or no records."""

PREFIX = BATCH.reader("base_offset", "batch_length", "partition_leader_epoch", "magic")
"""The fields read before the magic is known; the third of a legacy message is its checksum."""
