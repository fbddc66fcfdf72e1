"""A finding says what is wrong, where, and by which rule. docs/findings has a page per rule.

    LOG  .log             IDX  .index           TIX  .timeindex       TXN  .txnindex
    SNP  .snapshot        LEP  leader epochs    CKP  checkpoints      MET  other small files
    REC  coordinator and metadata records       DIR  directories, and what could not be read

An id never changes: a rule that is dropped leaves a gap.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from kafka_format.errors import FormatError


class Severity(StrEnum):
    """How serious a finding is."""

    ERROR = "error"
    """Data is or will be lost, or a broker or partition does not start."""
    WARNING = "warning"
    """Damage that a broker may repair or tolerate."""
    NOTE = "note"
    """Unusual, but nothing breaks."""


class Rule(NamedTuple):
    """A kind of damage, and its consequence."""

    severity: Severity
    title: str
    on_restart: str
    """What a broker does when it starts on this directory."""


_E, _W, _N = Severity.ERROR, Severity.WARNING, Severity.NOTE

_USED_AS_IT_IS = (
    "After an unclean shutdown the index is rebuilt if the segment ends beyond the recovery point. "
    "After a clean shutdown it is used as it is."
)
_THROWN_AWAY = (
    "The broker deletes the file and rebuilds the producer state from an older snapshot and the "
    "log."
)
_DOES_NOT_LOAD = (
    "The partition does not load: the broker does not start, or takes the log dir offline."
)

RULES: dict[str, Rule] = {
    "LOG001": Rule(
        _E,
        "a batch has a wrong checksum",
        "After an unclean shutdown the log is truncated before this batch if the batch is at or "
        "beyond the recovery point. After a clean shutdown the batch is not checked, and consumers "
        "reject it.",
    ),
    "LOG002": Rule(
        _E,
        "bytes that are not a batch",
        "After an unclean shutdown the log is truncated here if this is at or beyond the recovery "
        "point. After a clean shutdown the bytes stay, and every reader that reaches them fails, "
        "including the broker.",
    ),
    "LOG003": Rule(
        _E,
        "records that cannot be decoded in a batch with a correct checksum",
        "The batch stays: recovery checks checksums, not the records of data batches. Every reader "
        "of the records (consumers, the cleaner, a coordinator that loads) fails here.",
    ),
    "LOG004": Rule(
        _W,
        "the last batch is torn",
        "After an unclean shutdown the torn batch is truncated. After a clean shutdown it stays, "
        "and readers stop before it; if an index entry points at it, the log ends at the base "
        "offset of the segment.",
    ),
    "LOG005": Rule(
        _W,
        "zeros after the last batch",
        "After an unclean shutdown the zeros are truncated. After a clean shutdown a broker that "
        "reads this segment while it loads the log (it does read the last one) does not start.",
    ),
    "LOG006": Rule(
        _W,
        "a batch that was not decoded because its records exceed the limit",
        "Nothing happens: Kafka has no such limit. A client or broker that decompresses the batch "
        "needs the memory for it.",
    ),
    "LOG007": Rule(
        _E,
        "a batch with offsets outside its segment, or below those of the batch before it",
        "The batch stays. If recovery reads it (after an unclean shutdown) and no index entry can "
        "hold its offset, the segment is split or the log dir fails. Readers that ask for its "
        "offsets may not find them.",
    ),
    "IDX001": Rule(_W, "an offset index entry that is out of order or impossible", _USED_AS_IT_IS),
    "IDX002": Rule(_W, "a partial entry at the end of an offset index", _USED_AS_IT_IS),
    "IDX003": Rule(_W, "data after the zeros of an offset index", _USED_AS_IT_IS),
    "TIX001": Rule(_W, "a time index entry that is out of order or impossible", _USED_AS_IT_IS),
    "TIX002": Rule(_W, "a partial entry at the end of a time index", _USED_AS_IT_IS),
    "TIX003": Rule(_W, "data after the zeros of a time index", _USED_AS_IT_IS),
    "TIX004": Rule(_W, "a time index that does not cover its whole log", _USED_AS_IT_IS),
    "TXN001": Rule(
        _E,
        "a transaction index entry with an unknown version",
        "The broker does not start if the first byte of the version is positive. Otherwise the "
        "entry is read as version 0.",
    ),
    "TXN002": Rule(
        _W,
        "a transaction index entry that is out of order",
        "The entries are read in any order. If an entry ends before the segment begins, the "
        "segment is recovered and its index rebuilt.",
    ),
    "TXN003": Rule(
        _W,
        "a partial entry or zeros at the end of a transaction index",
        "A partial entry is not read; zeros are read as a transaction of producer 0. The index is "
        "rebuilt if the segment is recovered.",
    ),
    "SNP001": Rule(_W, "a producer snapshot with a wrong checksum", _THROWN_AWAY),
    "SNP002": Rule(
        _W, "a producer snapshot that is truncated or has a wrong entry count", _THROWN_AWAY
    ),
    "SNP003": Rule(_W, "a producer snapshot with an unknown version", _THROWN_AWAY),
    "SNP004": Rule(_N, "bytes after the entries of a producer snapshot", "The bytes are ignored."),
    "LEP001": Rule(
        _E,
        "a leader epoch checkpoint that cannot be read",
        _DOES_NOT_LOAD,
    ),
    "CKP001": Rule(
        _E,
        "an offset checkpoint that cannot be read",
        "The broker marks the log dir as failed: it loads the logs as if there were no checkpoint, "
        "then takes the log dir offline.",
    ),
    "MET001": Rule(_E, "a partition.metadata that cannot be read", _DOES_NOT_LOAD),
    "MET002": Rule(_E, "a meta.properties that cannot be read", "The broker does not start."),
    "MET003": Rule(
        _N,
        "a clean shutdown file without a broker epoch",
        "The shutdown still counts as clean; the broker registers without its last epoch.",
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
        "The coordinator cannot load this partition: its groups or share groups are not served. "
        "From a transaction log, nothing after the record is loaded.",
    ),
    "REC002": Rule(
        _N,
        "a coordinator record with an unknown type or version",
        "An unknown type is skipped. An unknown version stops the loading of a partition of groups "
        "or share groups; in the transaction log it is skipped.",
    ),
    "REC003": Rule(
        _E,
        "a metadata record that cannot be decoded",
        "The node fails when it replays the metadata.",
    ),
    "REC004": Rule(
        _N,
        "a metadata record with an unknown type or version",
        "An unknown type stops the replay of the metadata. An unknown version is read as the "
        "newest known version.",
    ),
    "DIR001": Rule(
        _E,
        "something that could not be read",
        "If the broker cannot read it either, it takes the log dir offline or does not start.",
    ),
    "DIR002": Rule(
        _E, "a directory that is not a partition directory", "The broker does not start with it."
    ),
    "DIR003": Rule(
        _E,
        "two directories for the same partition",
        "The broker does not start with both.",
    ),
    "DIR004": Rule(_N, "a directory inside a partition directory", "The broker ignores it."),
    "DIR005": Rule(
        _E,
        "a Kafka file name that is not a regular file",
        "The broker fails to open it: it does not start, or takes the log dir offline.",
    ),
    "DIR006": Rule(
        _E,
        "a file larger than Kafka can write",
        "The partition does not load: Kafka uses 31-bit positions in such a file.",
    ),
    "DIR007": Rule(
        _W,
        "a link out of the given paths that was not followed",
        "A broker follows it.",
    ),
    "DIR008": Rule(
        _E,
        "a file that changed while it was read",
        "Unknown: something else writes to this directory.",
    ),
}


class About(NamedTuple):
    """The file, topic and partition of a finding."""

    path: str
    topic: str | None = None
    partition: int | None = None


class Finding(NamedTuple):
    """Something that is wrong, where, and by which rule."""

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
        """Build a finding; `offset` is in the log, `position` in the file."""
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
        """Whether a reader in mode FAILFAST fails at it."""
        return self.severity is not Severity.NOTE

    def __str__(self) -> str:
        at = self.path if self.position is None else f"{self.path}@{self.position}"
        return f"{at}: {self.id}: found {self.found}, expected {self.expected}"
