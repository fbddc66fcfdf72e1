"""Tables read in this process, by the functions that Spark's workers call."""

from pathlib import Path

import pyarrow as pa

from pipelines.source import schema
from pipelines.source.options import parse_options
from pipelines.source.storage import Storage
from pipelines.source.tables import reader_of


def splits(path: Path | str, table: str = "records", **options: str) -> list:
    parsed = parse_options({"path": str(path), "table": table, **options})
    return list(reader_of(table).plan(parsed, Storage(parsed.paths)))


def read(path: Path | str, table: str = "records", **options: str) -> list[dict]:
    """All rows of all splits, in order."""
    return [row for rows in read_by_split(path, table, **options) for row in rows]


def read_by_split(path: Path | str, table: str = "records", **options: str) -> list[list[dict]]:
    parsed = parse_options({"path": str(path), "table": table, **options})
    reader = reader_of(table)
    found = []
    for split in reader.plan(parsed, Storage(parsed.paths)):
        rows = []
        for batch in reader.read(split, parsed):
            assert batch.schema.equals(schema.arrow_schema(table, parsed.columns))
            batch.validate(full=True)
            rows += _rows(batch)
        found.append(rows)
    return found


def _rows(batch: pa.RecordBatch) -> list[dict]:
    """Times as microseconds: Python's own end with the year 9999."""
    plain = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) else column
        for column in batch.columns
    ]
    return pa.RecordBatch.from_arrays(plain, names=batch.schema.names).to_pylist()
