"""Three log directories of a few kilobytes, cut from what real brokers left (tests/golden).

    current     a broker of today: coordinator and metadata topics, transactions, codecs, indexes
    legacy      magic 0 and 1, plain and in wrappers of every codec
    leftovers   a deleted partition, files marked for deletion, a quorum of static voters

Logs are made of single batches of real ones (a log may have gaps), indexes and checkpoints are cut.
"""

import functools
from typing import NamedTuple

from kafka_format.log_file import iter_batches
from tests import golden

ZERO = "00000000000000000000"


class Piece(NamedTuple):
    """Some of the batches of a file, or its first bytes, or all of it."""

    pack: str
    path: str
    batches: tuple[int, ...] | None = None
    size: int | None = None

    def read(self) -> bytes:
        (path,) = golden.shared(self.pack).glob(self.path)
        data = path.read_bytes()
        if self.batches is None:
            return data[: self.size]
        found = [bytes(batch.raw) for batch in iter_batches(data)]
        return b"".join(found[i] for i in self.batches)


def _current() -> dict[str, list[Piece]]:
    groups, clean = "groups-4.3.1", "clean-3.9.1"
    cleaner, unclean, older = "cleaner-4.3.1", "unclean-4.3.1", "unclean-3.9.1"
    metadata, state = "data/__cluster_metadata-0", "data/__transaction_state-0"
    offsets, share = "data/__consumer_offsets-0", "data/__share_group_state-0"
    transactions, indexed = "data/transactions-0", "data/tiny-indexed-0"
    snapshot = f"__cluster_metadata-0/{ZERO}-0000000000.checkpoint"
    codecs = [
        Piece(cleaner, f"data-1/compacted.producers-0/{ZERO}.log", (0,)),  # a bare header
        Piece(cleaner, "data-1/compacted.producers-0/00000000000000000015.log", (0,)),  # gzip
        Piece(cleaner, "data-1/compacted.codecs-2/00000000000000000060.log", (0,)),  # snappy
        Piece(cleaner, "data-2/compacted.codecs-3/00000000000000000060.log", (0,)),  # lz4
        Piece(cleaner, "data-1/compacted.codecs-4/00000000000000000060.log", (0,)),  # zstd
        Piece(cleaner, f"data-2/compacted.append-time-0/{ZERO}.log", (0,)),  # a delete horizon
        Piece(unclean, f"data/append-time-1/{ZERO}.log", (0,)),  # gzip, LogAppendTime
    ]
    return {
        "meta.properties": [Piece(unclean, "data/meta.properties")],
        ".kafka_cleanshutdown": [Piece(cleaner, "data-1/.kafka_cleanshutdown")],
        "bootstrap.checkpoint": [Piece(unclean, "data/bootstrap.checkpoint")],
        "recovery-point-offset-checkpoint": [Piece(older, "data/recovery-point-offset-checkpoint")],
        "replication-offset-checkpoint": [Piece(older, "data/replication-offset-checkpoint")],
        "cleaner-offset-checkpoint": [Piece(clean, "data/cleaner-offset-checkpoint")],
        "log-start-offset-checkpoint": [Piece(unclean, "data/log-start-offset-checkpoint")],
        f"__cluster_metadata-0/{ZERO}.log": [
            Piece(older, f"{metadata}/{ZERO}.log", (0, 1, 3, 4, 7, 8, 12))
        ],
        snapshot: [Piece(unclean, f"data/{snapshot}")],
        "__cluster_metadata-0/quorum-state": [Piece(unclean, f"{metadata}/quorum-state")],
        f"__consumer_offsets-0/{ZERO}.log": [
            Piece(groups, f"{offsets}/{ZERO}.log", (0, 1, 3, 4, 5, 7)),
            Piece(groups, f"data/__consumer_offsets-1/{ZERO}.log", (12, 14)),
        ],
        f"__transaction_state-0/{ZERO}.log": [Piece(older, f"{state}/{ZERO}.log", (0, 1, 8))],
        f"__share_group_state-0/{ZERO}.log": [Piece(groups, f"{share}/{ZERO}.log", (0, 7, 16))],
        f"transactions-0/{5:020}.log": [
            Piece(unclean, f"{transactions}/{5:020}.log", (0, 1, 2, 3, 4))
        ],
        f"transactions-0/{5:020}.txnindex": [
            Piece(unclean, f"{transactions}/{5:020}.txnindex", size=68)
        ],
        f"transactions-0/{5:020}.snapshot": [Piece(unclean, f"{transactions}/{5:020}.snapshot")],
        "transactions-0/leader-epoch-checkpoint": [
            Piece(unclean, f"{transactions}/leader-epoch-checkpoint")
        ],
        "transactions-0/partition.metadata": [Piece(unclean, f"{transactions}/partition.metadata")],
        f"codecs-0/{ZERO}.log": codecs,
        f"tiny-indexed-0/{ZERO}.log": [Piece(clean, f"{indexed}/{ZERO}.log", (0, 1, 2, 3))],
        f"tiny-indexed-0/{ZERO}.index": [Piece(clean, f"{indexed}/{ZERO}.index", size=3 * 8)],
        f"tiny-indexed-0/{ZERO}.timeindex": [
            Piece(clean, f"{indexed}/{ZERO}.timeindex", size=3 * 12)
        ],
    }


def _legacy() -> dict[str, list[Piece]]:
    old, newer = "legacy-0.10.2.2", "legacy-2.8.2"
    return {
        "meta.properties": [Piece(newer, "data/meta.properties")],
        ".kafka_cleanshutdown": [Piece(newer, "data/.kafka_cleanshutdown")],
        "cleaner-offset-checkpoint": [Piece(old, "data/cleaner-offset-checkpoint")],
        f"magic-0-0/{ZERO}.log": [
            Piece(old, f"data/magic-0.compacted-0/{40:020}.log.deleted", (3,)),
            Piece(old, f"data/magic-0.compacted-0/{20:020}.log.deleted", (0,)),
            Piece(newer, f"data/magic-0-2/{ZERO}.log", (0,)),
            Piece(old, f"data/magic-0-3/{ZERO}.log", (0,)),
        ],
        f"magic-1-0/{ZERO}.log": [
            Piece(old, f"data/magic-1.compacted-0/{60:020}.log.deleted", (2,)),
            Piece(old, f"data/magic-1.append-time-0/{ZERO}.log", (6,)),
            Piece(old, f"data/magic-1.compacted-0/{40:020}.log", (0,)),
            Piece(old, f"data/magic-1-2/{ZERO}.log", (1,)),
            Piece(old, f"data/magic-1-3/{ZERO}.log", (1,)),
            Piece(newer, f"data/magic-1.append-time-1/{ZERO}.log", (0,)),
        ],
        f"__consumer_offsets-0/{ZERO}.log": [
            Piece(old, f"data/__consumer_offsets-0/{ZERO}.log", (0, 1))
        ],
    }


def _leftovers() -> dict[str, list[Piece]]:
    cleaner, unclean = "cleaner-4.3.1", "unclean-4.3.1"
    rolled = "data/rolled-by.time-0"
    gone = "moved-0.0123456789abcdef0123456789abcdef-delete"
    metadata = "data-1/__cluster_metadata-0"
    return {
        "cleaner-offset-checkpoint": [Piece(unclean, "data/cleaner-offset-checkpoint")],
        "__cluster_metadata-0/quorum-state": [Piece(cleaner, f"{metadata}/quorum-state")],
        f"rolled-by.time-0/{3:020}.log.deleted": [Piece(unclean, f"{rolled}/{3:020}.log.deleted")],
        f"rolled-by.time-0/{3:020}.snapshot.deleted": [
            Piece(unclean, f"{rolled}/{3:020}.snapshot.deleted")
        ],
        f"rolled-by.time-0/{3:020}.timeindex.deleted": [
            Piece(unclean, f"{rolled}/{3:020}.timeindex.deleted")
        ],
        # Preallocated, and never closed: entries and zeros.
        f"{gone}/{ZERO}.index": [
            Piece(cleaner, f"data-1/moved-0.*-delete/{ZERO}.index", size=5 * 8)
        ],
        f"{gone}/{ZERO}.timeindex": [
            Piece(cleaner, f"data-1/moved-0.*-delete/{ZERO}.timeindex", size=5 * 12)
        ],
    }


@functools.cache
def directories() -> dict[str, dict[str, bytes]]:
    """Return the bytes of the files of each directory, by relative path."""
    plans = {"current": _current(), "legacy": _legacy(), "leftovers": _leftovers()}
    return {
        name: {path: b"".join(piece.read() for piece in pieces) for path, pieces in plan.items()}
        for name, plan in plans.items()
    }


def files() -> list[tuple[str, str, bytes]]:
    """(directory, path in it, bytes) of every file."""
    return [
        (directory, path, data)
        for directory, content in directories().items()
        for path, data in content.items()
    ]
