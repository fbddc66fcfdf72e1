"""Where the entries of an index file end, and what lies behind them.

An index is a row of slots of one size. Brokers preallocate `.index` and `.timeindex` with zeros and
cut them to the entries when the segment is closed; after a crash the zeros are still there. Nothing
in the file tells how many entries it has, so a reader walks to the first slot that no broker can
have written as the next entry, and stops. Kafka's own classes do not: they take every whole slot of
a file that exists for an entry, zeros too.

    entries | zero padding | trailing
             ^ the stop

`padding_bytes` are zeros to the end of the file, or whole zero slots with something behind them.
`trailing` is what remains, raw: nothing is lost, and the three parts in a row are the file.
"""

from enum import Enum
from typing import NamedTuple

import numpy as np

from kafka_format.primitives import Buffer


class Stop(Enum):
    """Why the entries of an index end where they end."""

    END_OF_FILE = "end of file"
    ZERO_PADDING = "zero padding"
    PARTIAL_ENTRY = "partial entry"
    OUT_OF_RANGE = "out of range"
    OUT_OF_ORDER = "out of order"
    UNKNOWN_VERSION = "unknown version"


class Tail(NamedTuple):
    """What follows the entries of an index."""

    stop: Stop
    padding_bytes: int
    trailing: bytes


def split_tail(buffer: Buffer, position: int, slot_size: int, refused_for: Stop) -> Tail:
    """The bytes from `position`, the first slot that is no entry, and on.

    `refused_for` is what is wrong with that slot, should it turn out to be a whole one with
    something in it.
    """
    rest = np.frombuffer(buffer, np.uint8)[position:]
    if not rest.size:
        return Tail(Stop.END_OF_FILE, 0, b"")
    if rest.size < slot_size:
        return Tail(Stop.PARTIAL_ENTRY, 0, rest.tobytes())
    if rest[:slot_size].any():
        return Tail(refused_for, 0, rest.tobytes())
    if not rest.any():
        return Tail(Stop.ZERO_PADDING, rest.size, b"")
    zeros = int((rest != 0).argmax())
    padding_bytes = zeros - zeros % slot_size
    return Tail(Stop.ZERO_PADDING, padding_bytes, rest[padding_bytes:].tobytes())
