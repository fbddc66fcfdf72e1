"""Tables without Spark: planned and read here, each split through a pickle as on its way out."""

import pickle
from typing import Any

import pyarrow as pa

from pipelines.source.options import parse_options
from pipelines.source.schema import arrow_schema
from pipelines.source.storage import Storage
from pipelines.source.tables import reader_of


def read_table(path: object, table: str, **options: object) -> list[dict[str, Any]]:
    given = {"path": str(path), "table": table, **{k: str(v) for k, v in options.items()}}
    parsed = parse_options(given)
    reader = reader_of(table)
    rows = []
    for split in reader.plan(parsed, Storage(parsed.paths)):
        carried, its_options = pickle.loads(pickle.dumps((split, parsed)))
        for batch in reader.read(carried, its_options):
            assert isinstance(batch, pa.RecordBatch)
            assert batch.schema.equals(arrow_schema(table, parsed.columns))
            rows += batch.to_pylist()
    return rows
