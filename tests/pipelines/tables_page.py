"""Writes docs/tables.md from the schemas: `python -m tests.pipelines.tables_page`."""

from pathlib import Path

from pipelines.source.schema import COLUMNS, ON_REQUEST, spark_schema

PAGE = Path(__file__).parents[2] / "docs" / "tables.md"
_HEAD = """\
# The tables of `kafka_files`

`python -m tests.pipelines.tables_page` writes this page from `pipelines/source/schema.py`.

```python
spark.read.format("kafka_files").option("table", "findings").load("/var/lib/kafka/data")
```

- Null is null and empty is empty. A time comes twice where it matters: `…_ms` is what Kafka
  stored (-1 is none), the other is Spark's, null where there is none or Spark cannot hold it.
- A path may be a log dir, several, a partition's directory or a file; globs and URIs too. Tables
  of files show those that live: what has a suffix (`.deleted`, `-delete`, …) is in the inventory,
  and elsewhere if its path is given.
- `topics` and `partitions` choose by the columns of that name. Groups, transactions, share groups
  and cluster metadata are about more than one topic: there they choose nothing.
- A name that is no UTF-8 is shown with U+FFFD for each byte that does not fit, in topics and paths;
  options and filters know it by that. The bytes of such a path are in `path_base64`, as in `dump`.
- Offsets and times of the options choose records: of `records` and `batches`, and of the internal
  topics.
- `mode`: with PERMISSIVE damage is a finding, and what can be reported of it is a row (`is_valid`
  false, or `damage` or `_corrupt_record` says why). DROPMALFORMED leaves such rows out, FAILFAST
  fails at the first.
  `findings` is the same in any mode. `compaction` tells of the log without its damaged batches,
  as `compact --skip-damaged` does; with FAILFAST it fails as well. So do `transactions` and
  `producers`.
- `compaction`, `transactions`, `producers` and `transactional_ids` depend on the option `now`, need
  local files, and are exported only by name. Only live directories have rows in them.
- `create_views` also makes the view `open_transactions`: the transactions without a marker.
"""
_ROWS = {
    "records": "A record, as a consumer would have received it.",
    "batches": "A batch header.",
    "segments": "A segment, with what stands beside its log. As `list --segments`.",
    "partitions": "A partition's directory, with its offsets. As `list`.",
    "log_dirs": "A log dir: who had it, and how it was stopped. As `list`.",
    "files": "A file, and what it is. As `list --files`.",
    "offset_index": "An entry of an `.index`.",
    "time_index": "An entry of a `.timeindex`.",
    "transaction_index": "An aborted transaction, of a `.txnindex`.",
    "producer_snapshots": "A producer in a `.snapshot`.",
    "leader_epochs": "An epoch of a `leader-epoch-checkpoint`.",
    "checkpoints": "A row of one of the four offset checkpoints.",
    "consumer_offsets": (
        "A committed offset, or its tombstone: a record of `__consumer_offsets`. This is the "
        "raw log. Its newest row per key is not what a group would be served: a commit in a "
        "transaction counts only after its marker, and a group or an offset may be gone. For "
        "that, use [groups](jobs/groups.md)."
    ),
    "group_metadata": "Any other record of `__consumer_offsets`: groups of every kind.",
    "transaction_state": "A state of a transactional id: a record of `__transaction_state`.",
    "share_group_state": "A snapshot or an update: a record of `__share_group_state`.",
    "cluster_metadata": "A record of the KRaft metadata, of the log or of a snapshot.",
    "findings": (
        "Something wrong in a partition, or in a name. [Every rule has a page](findings/README.md)."
        " What compares log dirs with each other is found by [`audit`](jobs/audit.md)."
    ),
    "compaction": "What the cleaner would do to a record, and why. [Every rule](explain.md).",
    "transactions": "A transaction in a partition. As [`transactions`](jobs/transactions.md).",
    "producers": "A producer of a partition. As [`transactions`](jobs/transactions.md).",
    "transactional_ids": "A transactional id. As [`transactions`](jobs/transactions.md).",
}


def page() -> str:
    return "\n".join([_HEAD, *(_section(table) for table in COLUMNS)])


def _section(table: str) -> str:
    types = {
        field.name: field.dataType.simpleString()
        for field in spark_schema(table, [name for name, _, _ in COLUMNS[table]])
    }
    hidden = ON_REQUEST.get(table, frozenset())
    lines = [
        f"| `{name}` | {types[name]} | {comment.replace('|', '/')} |"
        for name, _, comment in COLUMNS[table]
    ]
    note = f"\nOnly if `columns` names it: {', '.join(sorted(hidden))}.\n" if hidden else ""
    return "\n".join(
        [f"## {table}", "", _ROWS[table], note, "| column | type | |", "|---|---|---|", *lines, ""]
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
