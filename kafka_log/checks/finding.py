"""A finding: something wrong, where, and by which rule. Every rule has a page in docs/findings.

    LOG  .log             IDX  .index           TIX  .timeindex       TXN  .txnindex
    SNP  .snapshot        LEP  leader epochs    CKP  checkpoints      MET  other small files
    REC  coordinator and metadata records       DIR  directories, and what could not be read

An id is for ever: a rule that is given up leaves a gap.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafka_format.errors import FormatError


class Severity(StrEnum):
    ERROR = "error"
    """Data is lost, or will be, or a broker or partition does not start."""
    WARNING = "warning"
    """Damage that a broker may repair, or live with."""
    NOTE = "note"
    """Unusual, and nothing breaks."""


class Rule(NamedTuple):
    severity: Severity
    title: str
    on_restart: str
    """What a broker does about it when it starts on this directory."""


_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

_USED_AS_IT_IS = (
    "Rebuilt after an unclean stop, if the segment ends beyond the recovery point; after a clean "
    "stop used as it is."
)
_THROWN_AWAY = (
    "The broker deletes the file and rebuilds the producers from an older snapshot and the log."
)
_DOES_NOT_LOAD = (
    "The partition does not load: the broker does not start, or takes the log dir offline."
)

RULES: dict[str, Rule] = {
    "LOG001": Rule(
        _E,
        "a batch's checksum is wrong",
        "After an unclean stop the log is cut before this batch, if it lies at or beyond the "
        "recovery point. After a clean stop nobody looks, and consumers refuse the batch.",
    ),
    "LOG002": Rule(
        _E,
        "bytes that cannot be a batch",
        "After an unclean stop the log is cut here, if this is at or beyond the recovery point. "
        "After a clean stop it stays, and whoever reads up to it fails, the broker too.",
    ),
    "LOG003": Rule(
        _E,
        "records that cannot be decoded, in a batch with the right checksum",
        "The batch stays: recovery looks at checksums, not into data batches. Whoever reads the "
        "records (consumers, the cleaner, a coordinator that loads) fails here.",
    ),
    "LOG004": Rule(
        _W,
        "the last batch is torn",
        "After an unclean stop the torn batch is cut off. After a clean stop it stays and readers "
        "end before it; if an index entry points at it, the log ends at its segment's base offset.",
    ),
    "LOG005": Rule(
        _W,
        "zeros behind the last batch",
        "After an unclean stop the zeros are cut off. After a clean stop a broker that reads this "
        "segment as it loads the log (it does read the last one) does not start.",
    ),
    "LOG006": Rule(
        _W,
        "records larger than the reader's limit, not decoded",
        "Nothing: Kafka has no such limit. A client or broker that decompresses the batch needs "
        "the memory for it.",
    ),
    "LOG007": Rule(
        _E,
        "a batch outside of its segment's offsets, or before the batch that it follows",
        "The batch stays. If recovery reads it (after an unclean stop) and no index entry can hold "
        "its offset, the segment is split or the log dir fails. Whoever asks for its offsets may "
        "not find them.",
    ),
    "IDX001": Rule(_W, "an entry of an offset index that cannot follow", _USED_AS_IT_IS),
    "IDX002": Rule(_W, "part of an entry at the end of an offset index", _USED_AS_IT_IS),
    "IDX003": Rule(_W, "something behind the zeros of an offset index", _USED_AS_IT_IS),
    "TIX001": Rule(_W, "an entry of a time index that cannot follow", _USED_AS_IT_IS),
    "TIX002": Rule(_W, "part of an entry at the end of a time index", _USED_AS_IT_IS),
    "TIX003": Rule(_W, "something behind the zeros of a time index", _USED_AS_IT_IS),
    "TIX004": Rule(_W, "a time index that ends before its log does", _USED_AS_IT_IS),
    "TXN001": Rule(
        _E,
        "an entry of a transaction index of an unknown version",
        "The broker does not start if the version's first byte is positive; else the entry is "
        "read as if it were of version 0.",
    ),
    "TXN002": Rule(
        _W,
        "an entry of a transaction index that cannot follow",
        "Read in any order. If an entry ends before the segment begins, the segment is recovered "
        "and its index rebuilt.",
    ),
    "TXN003": Rule(
        _W,
        "part of an entry, or zeros, at the end of a transaction index",
        "Part of an entry is not read; zeros are read as a transaction of producer 0. Rebuilt "
        "where the segment is recovered.",
    ),
    "SNP001": Rule(_W, "a producer snapshot's checksum is wrong", _THROWN_AWAY),
    "SNP002": Rule(_W, "a producer snapshot that is cut, or counts wrong", _THROWN_AWAY),
    "SNP003": Rule(_W, "a producer snapshot of an unknown version", _THROWN_AWAY),
    "SNP004": Rule(
        _N, "bytes behind the entries of a producer snapshot", "Read as if they were not there."
    ),
    "LEP001": Rule(
        _E,
        "a leader epoch checkpoint that cannot be read",
        _DOES_NOT_LOAD,
    ),
    "CKP001": Rule(
        _E,
        "an offset checkpoint that cannot be read",
        "The broker reports the log dir as failed: what it loads counts as without a checkpoint, "
        "then the dir is taken offline.",
    ),
    "MET001": Rule(_E, "a partition.metadata that cannot be read", _DOES_NOT_LOAD),
    "MET002": Rule(_E, "a meta.properties that cannot be read", "The broker does not start."),
    "MET003": Rule(
        _N,
        "a clean shutdown file without a broker epoch",
        "The stop counts as clean all the same; the broker registers without its last epoch.",
    ),
    "MET004": Rule(_E, "a quorum-state that cannot be read", "The node does not start."),
    "MET005": Rule(
        _E,
        "a setting in the cluster metadata that Kafka refuses",
        "A topic's: the broker fails when it loads its logs. A broker's: it is logged and left "
        "out, or fails when the broker uses it.",
    ),
    "REC001": Rule(
        _E,
        "a coordinator record that cannot be decoded",
        "The coordinator cannot load this partition: its groups or share groups are not served. Of "
        "a transaction log nothing behind the record is loaded.",
    ),
    "REC002": Rule(
        _N,
        "a coordinator record of an unknown type or version",
        "An unknown type is skipped. An unknown version stops the load of a partition of groups "
        "or share groups; in the transaction log it is skipped.",
    ),
    "REC003": Rule(
        _E,
        "a metadata record that cannot be decoded",
        "The node fails when it replays the metadata.",
    ),
    "REC004": Rule(
        _N,
        "a metadata record of an unknown type or version",
        "An unknown type stops the replay of the metadata; an unknown version is read as the "
        "newest known one.",
    ),
    "DIR001": Rule(
        _E,
        "something that could not be read",
        "A broker that cannot read it either takes the log dir offline, or does not start.",
    ),
    "DIR002": Rule(_E, "a directory that is no partition's", "The broker does not start with it."),
    "DIR003": Rule(
        _E,
        "two directories of one partition",
        "The broker does not start with both.",
    ),
    "DIR004": Rule(_N, "a directory inside a partition's", "Nobody looks at it."),
    "DIR005": Rule(
        _E,
        "something other than a regular file under a name of Kafka's",
        "The broker fails when it opens it: it does not start, or takes the log dir offline.",
    ),
    "DIR006": Rule(
        _E,
        "a file larger than Kafka can write",
        "The partition does not load: Kafka counts positions in such a file in 31 bits.",
    ),
    "DIR007": Rule(
        _W,
        "a link that leads out of the given paths, not followed",
        "A broker follows it.",
    ),
    "DIR008": Rule(
        _E,
        "a file that changed while it was read",
        "Unknown: something else writes to this directory.",
    ),
}


class About(NamedTuple):
    """Where a file belongs: what every finding in it says."""

    path: str
    topic: str | None = None
    partition: int | None = None


class Finding(NamedTuple):
    id: str
    severity: Severity
    topic: str | None
    partition: int | None
    path: str
    position: int | None
    offset: int | None
    found: str
    expected: str

    @classmethod
    def of(
        cls,
        rule: str,
        about: About,
        found: str,
        expected: str,
        *,
        position: int | None = None,
        offset: int | None = None,
    ) -> Finding:
        """`offset` is one in the log, `position` one in the file."""
        severity = RULES[rule].severity
        return cls(rule, severity, *about[1:], about.path, position, offset, found, expected)

    @classmethod
    def of_error(
        cls, rule: str, about: About, error: FormatError, *, offset: int | None = None
    ) -> Finding:
        return cls.of(
            rule,
            about,
            error.found,
            error.expected,
            position=error.location.position,
            offset=offset,
        )

    @property
    def on_restart(self) -> str:
        return RULES[self.id].on_restart

    @property
    def is_damage(self) -> bool:
        """What a reader that was told to fail fast fails at."""
        return self.severity is not Severity.NOTE

    def __str__(self) -> str:
        at = self.path if self.position is None else f"{self.path}@{self.position}"
        return f"{at}: {self.id}: found {self.found}, expected {self.expected}"
