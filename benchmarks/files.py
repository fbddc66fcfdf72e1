"""The files that both sides read: written once by Kafka's own classes, and cached."""

from dataclasses import dataclass
from pathlib import Path

from tests.oracle import jars
from tests.oracle.client import Oracle

KEY_SIZE = 16
# The approximate size of a batch header, and of the fields of a record besides key and value.
_PER_BATCH, _PER_RECORD = 61, 12


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentShape:
    """What determines the speed of reading a segment."""

    codec: str
    value_size: int
    records_per_batch: int

    def __str__(self) -> str:
        return f"{self.codec}, {self.value_size} B, {self.records_per_batch} per batch"


SHAPES = [
    SegmentShape(codec=codec, value_size=value_size, records_per_batch=count)
    for codec in ("none", "lz4")
    for value_size in (100, 1024)
    for count in (1, 10, 100, 500)
]


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentFile:
    shape: SegmentShape
    path: Path
    records: int
    size: int


def segment(oracle: Oracle, shape: SegmentShape, *, raw_bytes: int) -> SegmentFile:
    """Return a segment of about `raw_bytes` before compression."""
    record = KEY_SIZE + shape.value_size + _PER_RECORD
    batch = shape.records_per_batch * record + _PER_BATCH
    records = max(1, raw_bytes // batch) * shape.records_per_batch
    name = f"{shape.codec}-{shape.value_size}-{shape.records_per_batch}-{records}"
    path = jars.cache_root() / "benchmarks" / name / "00000000000000000000.log"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(".part")
        oracle.build_segment(
            scratch,
            records=records,
            records_per_batch=shape.records_per_batch,
            key_size=KEY_SIZE,
            value_size=shape.value_size,
            codec=shape.codec,
            seed=1,
        )
        scratch.rename(path)
    return SegmentFile(shape=shape, path=path, records=records, size=path.stat().st_size)
