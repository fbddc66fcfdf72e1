"""The entries of the three index files of a segment. Needs no numpy: some readers start without it.

kafka_format.offset_index, time_index and transaction_index describe the files.
"""

from struct import Struct

OFFSET_INDEX_ENTRY = Struct(
    ">i"  # relative_offset: last offset of the batch, minus the base offset
    "i"  # position: of the batch's first byte in the .log
)
TIME_INDEX_ENTRY = Struct(
    ">q"  # timestamp: the largest so far, epoch milliseconds
    "i"  # relative_offset: last offset of the batch that has it, minus the base offset
)
TRANSACTION_INDEX_ENTRY = Struct(
    ">h"  # version: 0
    "q"  # producer_id
    "q"  # first_offset: of the transaction's data
    "q"  # last_offset: of its ABORT marker
    "q"  # last_stable_offset: when the marker was written
)
