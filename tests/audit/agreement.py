"""Whether audit, recover, offsets and retain agree about a log dir.

    problems = disagreements(log_dir, settings)

What a restart does is taken from `recover`, which is compared with Kafka elsewhere
(tests/kafka_log/loading). The rules, for each partition:

- Nothing found by the audit: recover loses nothing and loads it, and all four know the same end.
- Recover truncates a log at a position: the audit has a finding about that log, and the first batch
  that it cannot accept is where the log is cut.
- The audit finds a batch that recovery rejects, in a segment that is recovered: it is cut off.
- Recover loses records, or does not load it: the audit has a finding of severity warning or error.
"""

import contextlib
import io
import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from jobs import offsets, recover, retain
from kafka_log.inventory.scan import scan
from pipelines.audit.audit import Running, audit_inventory
from pipelines.audit.plan import AuditRequest
from pipelines.audit.report import AuditReport

_CUT_BY_RECOVERY = {"LOG001", "LOG002", "LOG004", "LOG005"}
"""Rules about bytes at which recovery stops reading a segment."""
_CRC_POSITIONS = (17, 12)
"""LOG001 is about the checksum, which is here in a batch, and in a message of magic 0 or 1."""

Row = dict[str, Any]


def disagreements(log_dir: Path, settings: Mapping[str, Any], now_ms: int) -> list[str]:
    """Return what does not fit together, in words."""
    overrides = tuple(_override(name, value) for name, value in settings.items())
    options = [f"--set={each}" for each in overrides]
    request = AuditRequest(paths=(str(log_dir),), now_ms=now_ms, overrides=overrides)
    inventory = scan([log_dir])
    report = AuditReport(paths=(str(log_dir),))
    audit_inventory(inventory, request, report, Running())
    arguments = [str(log_dir), "--now", str(now_ms), *options]
    recovered = _rows(recover.main, arguments)
    read = {row["path"]: row for row in _rows(offsets.main, arguments) if "log_end_offset" in row}
    retained = {
        row["path"]: row
        for row in _rows(retain.main, [*arguments, "--high-watermark", "end"])
        if row.get("kind") == "partition"
    }
    problems: list[str] = []
    for row in recovered:
        if row.get("kind") != "partition" or row.get("fate") == "missing":
            continue
        path = row["path"]
        found = [each for each in report if Path(each["path"]).is_relative_to(path)]
        found += [each for each in report if "offset-checkpoint" in Path(each["path"]).name]
        files = [each for each in recovered if each.get("kind") == "file" and each["path"] == path]
        ends = {
            "recover": row["log_end_offset"],
            "offsets": read.get(path, {}).get("log_end_offset"),
            "retain": retained.get(path, {}).get("log_end_offset"),
        }
        problems += _about_partition(row, found, files, ends)
    return problems


def _override(name: str, value: Any) -> str:
    """A setting as `--set` takes it: small segments have another name since Kafka 4.0."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"{'internal.segment.bytes' if name == 'segment.bytes' else name}={text}"


def _about_partition(
    row: Row, found: list[Row], files: list[Row], ends: dict[str, int | None]
) -> Iterator[str]:
    damage = [each for each in found if each["severity"] != "note"]
    ids = sorted({each["id"] for each in found})
    if row["error"] and not damage:
        yield f"recover does not load it ({row['error']}), and the audit has only {ids}"
    if row["lost_records"] and not damage:
        yield f"recover loses {row['lost_records']} records, and the audit has only {ids}"
    if not damage and len({end for end in ends.values() if end is not None}) > 1:
        yield f"the ends differ: {ends}, and the audit has only {ids}"
    if row["error"]:
        return
    for file in files:
        yield from _about_log(row, file, found)


def _about_log(row: Row, file: Row, found: list[Row]) -> Iterator[str]:
    """A log that is cut, and one that is read and kept."""
    if not file["file"].endswith(".log"):
        return
    about = [
        each
        for each in found
        if Path(each["path"]).name == file["file"] and each["id"] in _CUT_BY_RECOVERY
    ]
    at = set().union(*map(_batch_positions, about))
    if file["action"] == "truncated" and "log end" not in file["reason"]:
        if file["position"] not in at and not _is_explained(file, found):
            yield f"{file['file']} is cut at {file['position']} ({file['reason']}), audit: {at}"
    elif file["action"] == "read" and at and "checked" in file["reason"]:
        yield f"{file['file']} is recovered and kept, audit: {at}"


def _is_explained(file: Row, found: list[Row]) -> bool:
    """Whether another finding is about the batch at which recovery stops.

    Where it splits a segment, the log is cut at its beginning, and the reason has the place: a
    batch with an offset out of order, or the one after it.
    """
    about = [each for each in found if Path(each["path"]).name == file["file"]]
    if "found last offset" in file["reason"] and any(each["id"] == "LOG007" for each in about):
        return True
    place = re.search(r"@(\d+): ", file["reason"])
    stops = {file["position"], int(place[1]) if place else None}
    return any(_batch_positions(each) & stops for each in about)


def _batch_positions(finding: Row) -> set[int]:
    """Where the batch of a finding may begin."""
    position = finding["position"]
    if position is None:
        return set()
    return {position - each for each in _CRC_POSITIONS} if finding["id"] == "LOG001" else {position}


def _rows(main: Callable[[list[str]], int], arguments: list[str]) -> list[Row]:
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        code = main([*arguments, "--format", "json"])
    out.flush()
    text = out.buffer.getvalue().decode("utf-8", "surrogateescape")
    if code == 2:
        raise AssertionError(f"usage: {arguments}")
    return [json.loads(line) for line in text.splitlines()]
