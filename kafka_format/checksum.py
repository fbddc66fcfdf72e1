"""The two checksums of Kafka's files, over any buffer and without copying it.

CRC-32C   (Castagnoli)  magic 2 batches, producer snapshots
CRC-32    (zlib's)      magic 0 and 1 messages
"""

import zlib

import crc32c as _crc32c

from kafka_format.primitives import Buffer


def crc32c(buffer: Buffer, before: int = 0) -> int:
    """Return the CRC-32C. `before` is the checksum of the preceding bytes, if there are any."""
    checksum: int = _crc32c.crc32c(buffer, before)
    return checksum


def crc32(buffer: Buffer, before: int = 0) -> int:
    return zlib.crc32(buffer, before)
