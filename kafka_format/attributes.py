"""The bits of the `attributes` field, in batches of magic 2 and in messages of magic 0 and 1.

    bit     7   6               5        4              3              2 1 0
    field   -   delete horizon  control  transactional  LogAppendTime  codec

Magic 0 has only the codec. Magic 1 adds the timestamp type. Magic 2 has all of them, in a field of
two bytes whose upper byte is not used.

The bits are plain ints because they are tested for every batch, also by compiled code, and an
operation on an IntFlag takes ten times as long.
"""

CODEC_MASK = 0x07
LOG_APPEND_TIME = 0x08
TRANSACTIONAL = 0x10
CONTROL = 0x20
DELETE_HORIZON = 0x40

TIMESTAMP_TYPE_SHIFT = LOG_APPEND_TIME.bit_length() - 1
"""The position of the timestamp type bit: 0 is CreateTime, 1 is LogAppendTime."""

_KNOWN_IN_MAGIC_1 = CODEC_MASK | LOG_APPEND_TIME
_KNOWN_IN_MAGIC_2 = _KNOWN_IN_MAGIC_1 | TRANSACTIONAL | CONTROL | DELETE_HORIZON

UNUSED_BITS = (0xFF & ~CODEC_MASK, 0xFF & ~_KNOWN_IN_MAGIC_1, 0xFFFF & ~_KNOWN_IN_MAGIC_2)
"""The bits that no version of Kafka sets, by magic."""
