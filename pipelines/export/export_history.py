"""What earlier exports prove: that a table already has all rows of some evidence.

A manifest has an id of the evidence that was exported (`source`, see `source_id`), and for each
table its state before and after (`state_before`, `state`). A table has all rows of a source if an
export of that source ended with the table's present state, or with one from which only exports led
to the present state, because an export never removes a row. Any other write to a table makes a
state that no manifest has, and the next export compares rows again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipelines.engine.output_place import entries, entries_below, read_text
from pipelines.manifest import release
from pipelines.source.schema import COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

    from kafka_log.inventory.inventory import Inventory
    from pipelines.manifest import InputFile

MANIFESTS = "manifests"
_MOST_MANIFESTS = 50
"""The most to read; without an older one, rows are only compared again."""


def source_id(
    inventory: Inventory, inputs: Iterable[InputFile], options: Mapping[str, str]
) -> str | None:
    """Return a hash of everything that rows depend on: files, content, options, and this program.

    None if the content of a file is not proven: it could not be read, or has no SHA-256.
    """
    sums = []
    for each in inputs:
        if each.sha256 is None:
            return None
        sums.append((each.path, each.size_in_bytes, each.sha256))
    schemas = {table: [(name, str(kind)) for name, kind, _ in COLUMNS[table]] for table in COLUMNS}
    value = [release(), sorted(options.items()), sums, repr(inventory), schemas]
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class History:
    """The manifests of one output, the newest first."""

    manifests: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, spark: SparkSession, output: str) -> History:
        directory = f"{output.rstrip('/')}/{MANIFESTS}"
        names = [each.name for each in entries(spark, directory) if each.name.endswith(".json")]
        newest = sorted(names, reverse=True)[:_MOST_MANIFESTS]
        found = (_parsed(read_text(spark, f"{directory}/{name}")) for name in newest)
        return cls(tuple(each for each in found if each is not None))

    def has_all_of(self, source: str | None, location: str, state: str | None) -> bool:
        """Return whether the table at this location, in this state, has all rows of a source."""
        if source is None or state is None:
            return False
        before: dict[str, set[str]] = {}
        complete = set()
        for manifest, output in self._outputs(location):
            before.setdefault(output["state"], set()).add(output.get("state_before") or "")
            if manifest.get("source") == source:
                complete.add(output["state"])
        seen: set[str] = set()
        unvisited = [state]
        while unvisited:
            current = unvisited.pop()
            if current in complete:
                return True
            if current not in seen:
                seen.add(current)
                unvisited += before.get(current, ())
        return False

    def _outputs(self, location: str) -> Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]]:
        for manifest in self.manifests:
            outputs = manifest.get("outputs")
            for output in outputs if isinstance(outputs, list) else ():
                if output.get("location") == location and output.get("state"):
                    yield manifest, output

    def findings(self, source: str | None) -> dict[str, int] | None:
        """Return the number of findings of this source by rule; None if they are not known."""
        for manifest in self.manifests:
            if source is not None and manifest.get("source") == source:
                found = manifest.get("findings")
                if isinstance(found, dict):
                    return found
        return None


def _parsed(text: str) -> Mapping[str, Any] | None:
    """Return the manifest; None for anything else, which proves nothing."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


# ------------------------------------------------------------------------------ states of tables


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """The last commit of a Delta table."""

    version: int
    state: str
    rows_written: int
    """As counted by Delta; 0 if it wrote none."""


def delta_commit(spark: SparkSession, location: str) -> Commit | None:
    """Return the last commit from the table's log, without a Spark job; None if there is none."""
    directory = f"{location}/_delta_log"
    names = [each.name for each in entries(spark, directory) if _is_commit(each.name)]
    if not names:
        return None
    last = max(names)
    text = read_text(spark, f"{directory}/{last}")
    state = hashlib.sha256(text.encode()).hexdigest()
    return Commit(
        version=int(last.removesuffix(".json")), state=state, rows_written=_rows_written(text)
    )


def _is_commit(name: str) -> bool:
    number = name.removesuffix(".json")
    return number != name and number.isdecimal()


def _rows_written(commit: str) -> int:
    for line in commit.splitlines():
        action = json.loads(line)
        if "commitInfo" in action:
            return int((action["commitInfo"].get("operationMetrics") or {}).get("numOutputRows", 0))
    return 0


def parquet_state(spark: SparkSession, location: str) -> str | None:
    """Return a hash of the names and sizes of the files; None if there are none."""
    found = entries_below(spark, location)
    return hashlib.sha256(repr([*map(tuple, found)]).encode()).hexdigest() if found else None
