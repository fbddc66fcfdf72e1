"""Which rules of the cleaner a case exercised, reported by Kafka's directory before and after.

Nothing here asks our cleaner: batches that were there and are gone, or are there and changed, and
what the oracle tells of the passes.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafka_format.batch import RecordBatch
from kafka_format.errors import FormatError
from kafka_format.log_file import AnyBatch, LogFile
from kafka_format.transaction_index import decode_transaction_index, iter_transaction_index
from kafka_log.cleaner.offset_map import Keys
from tests.kafka_log.cleaner.cleaning import CleaningCase, set_times
from tests.kafka_log.cleaner.passes import CleaningPass

SMALL_BUFFER = 1000
MANY_SEGMENTS = 10
NO_PRODUCER = -1


@dataclass(slots=True)
class _Log:
    """The batches of a directory, those that can be read."""

    batches: list[AnyBatch] = field(default_factory=list)
    segment_of: dict[int, int] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)
    aborted: set[tuple[int, int, int]] = field(default_factory=set)

    @property
    def by_base(self) -> dict[int, AnyBatch]:
        return {batch.header.base_offset: batch for batch in self.batches if _is_new(batch)}

    @property
    def offsets(self) -> set[int]:
        return {each.offset for batch in self.batches for each in batch.records()}


def _is_new(batch: AnyBatch) -> bool:
    return isinstance(batch, RecordBatch)


def _read(directory: Path) -> _Log:
    log = _Log()
    for i, path in enumerate(sorted(directory.glob("*.log"))):
        data = path.read_bytes()
        log.sizes.append(len(data))
        for batch in _sound_batches(data):
            log.batches.append(batch)
            log.segment_of[batch.header.last_offset] = i
    for path in directory.glob("*.txnindex"):
        for txn in iter_transaction_index(decode_transaction_index(path.read_bytes())):
            log.aborted.add((txn.producer_id, txn.first_offset, txn.last_offset))
    return log


def _sound_batches(data: bytes) -> Iterator[AnyBatch]:
    try:
        for batch in LogFile(data).batches():
            batch.records()
            yield batch
    except FormatError:
        return


def exercised(case: CleaningCase, kafkas: Path) -> set[str]:
    """Names of rules."""
    if "passes" not in case.reported:
        return {"does not load"}
    before, after = _read(case.source), _read(kafkas)
    found = set(_of_passes(case)) | set(_of_settings(case, before))
    found |= set(_of_batches(before, after)) | set(_of_segments(case, before, after))
    if any(name.endswith(".timeindex") for name in set_times(kafkas)):
        found.add("times of indexes are set")
    if case.name.startswith("plan"):  # in a life offsets may be written anew
        found |= set(_of_what_is_gone(case, before, after))
    return found


# ------------------------------------------------------------------------------------- passes


def _of_passes(case: CleaningCase) -> Iterator[str]:
    reported = case.reported["passes"]
    done = [each for each in reported if "stats" in each]
    yield from (f"{count} passes" for count in (1, 2, 3) if len(done) >= count)
    if len({one.time for one in case.passes}) > 1:
        yield "several clocks"
    for one, each in zip(case.passes, reported, strict=True):
        if "error" in each:
            yield "fails"
        elif "stats" not in each:
            yield "not eligible"
        else:
            yield from _of_pass(one, each)
    full = [each for each in done if each["next_dirty_offset"] < each["first_uncleanable_offset"]]
    if any(
        later["first_dirty_offset"] == earlier["next_dirty_offset"]
        for earlier in full
        for later in done
    ):
        yield "a round goes on where the map was full"


def _of_pass(one: CleaningPass, each: Mapping[str, Any]) -> Iterator[str]:
    if 0 < each["next_dirty_offset"] < each["first_uncleanable_offset"]:
        yield "map is full"
    if each["stats"]["invalid_messages_read"]:
        yield "records without a key go"
    if each["force_update_checkpoint"]:
        yield "checkpoint outside of the log"
    if each["clean_bytes"] and each["cleanable_bytes"]:
        yield "clean part before the dirty"
    if each["max_compaction_delay"]:
        yield "dirty for too long"
    if one.io_buffer_size <= SMALL_BUFFER and each["stats"]["bytes_read"] > SMALL_BUFFER:
        yield "several chunks"


def _of_settings(case: CleaningCase, before: _Log) -> Iterator[str]:
    yield f"keys {case.keys.value}"
    if case.keys is Keys.HASHED:
        for one in case.passes:
            yield "by columns" if one.columnar is None else "by rows"
    config = case.arguments["config"]
    yield f"policy {config['cleanup.policy']}"
    if len(before.sizes) >= MANY_SEGMENTS:
        yield "many segments"
    for batch in before.batches:
        yield f"magic {batch.magic}"
        if any(each.headers for each in batch.records()):
            yield "headers"
    reported = [
        each for each in case.reported["passes"] if "first_uncleanable_dirty_offset" in each
    ]
    unstable = case.reported["state"]["first_unstable_offset"]
    uppers = {each["first_uncleanable_dirty_offset"] for each in reported}
    if unstable is not None and unstable in uppers:
        yield "open transaction holds back"
    if config["min.compaction.lag.ms"] and uppers and unstable is None:
        active = max(each.header.last_offset for each in before.batches) if before.batches else 0
        if any(upper <= active for upper in uppers):
            yield "young records hold back"


# ------------------------------------------------------------------------------------ batches


def _of_batches(before: _Log, after: _Log) -> Iterator[str]:
    old = before.by_base
    legacy = {
        record.offset: batch.magic
        for batch in before.batches
        if not _is_new(batch)
        for record in batch.records()
    }
    for batch in after.batches:
        if not isinstance(batch, RecordBatch):
            continue
        yield from _of_batch(batch)
        source = old.get(batch.header.base_offset)
        if source is not None and batch.header.record_count and not batch.header.is_control:
            yield from _of_rebuilt(batch, source)
        if any(record.offset in legacy for record in batch.records()):
            offset = next(each.offset for each in batch.records() if each.offset in legacy)
            yield f"magic {legacy[offset]} becomes 2"
            if batch.header.codec_id:
                yield "a wrapper becomes a batch"


def _of_batch(batch: RecordBatch) -> Iterator[str]:
    header = batch.header
    has_horizon = header.delete_horizon_ms is not None
    if header.is_control:
        if not header.record_count:
            yield "marker stays without its record"
        elif has_horizon:
            yield "marker gets a horizon"
    elif not header.record_count:
        is_nobodys = header.producer_id == NO_PRODUCER
        yield "last batch of a round stays empty" if is_nobodys else "producer's stays empty"
    elif has_horizon:
        has_tombstone = any(each.value is None for each in batch.records())
        yield "tombstone gets a horizon" if has_tombstone else "horizon outlives its tombstone"


def _of_rebuilt(batch: RecordBatch, source: AnyBatch) -> Iterator[str]:
    if bytes(batch.raw) == bytes(source.raw):
        yield "copied whole"
        return
    yield f"rebuilt by {('none', 'gzip', 'snappy', 'lz4', 'zstd')[batch.header.codec_id]}"
    if any(each.headers for each in batch.records()):
        yield "rebuilt with headers"
    if batch.header.timestamp_type:
        yield "rebuilt with append time"
    if batch.header.is_transactional:
        yield "rebuilt in a transaction"


# ----------------------------------------------------------------------------------- segments


def _of_segments(case: CleaningCase, before: _Log, after: _Log) -> Iterator[str]:
    if 1 < len(after.sizes) < len(before.sizes):
        yield "segments are joined"
    if 0 in after.sizes[:-1]:
        yield "group of nothing"
    if after.aborted:
        yield "aborted transaction stays indexed"
    if case.reported["state"]["log_start_offset"] > case.arguments.get("log_start_offset", 0):
        yield "retention removes segments"
    ends: dict[int, set[int]] = defaultdict(set)
    for batch in before.batches:
        if not isinstance(batch, RecordBatch) or not batch.header.is_transactional:
            continue
        segments = ends[batch.header.producer_id]
        segments.add(before.segment_of[batch.header.last_offset])
        if batch.header.is_control:
            if len(segments) > 1:
                yield "transaction over segments"
            segments.clear()


def _of_what_is_gone(case: CleaningCase, before: _Log, after: _Log) -> Iterator[str]:
    start = case.reported["state"]["log_start_offset"]
    done = [each for each in case.reported["passes"] if "stats" in each]
    end = min((each["next_dirty_offset"] for each in done[-1:]), default=0)
    left = after.offsets
    latest = {}
    for batch in before.batches:
        if isinstance(batch, RecordBatch) and batch.header.is_control:
            if (
                batch.header.last_offset not in after.segment_of
                and batch.header.base_offset >= start
            ):
                yield "marker goes"
            continue
        is_aborted = isinstance(batch, RecordBatch) and any(
            batch.header.is_transactional
            and pid == batch.header.producer_id
            and first <= batch.header.base_offset < last
            for pid, first, last in before.aborted
        )
        for record in batch.records():
            if is_aborted and record.offset >= start and record.offset not in left:
                yield "aborted record goes"
            elif record.key is not None and not is_aborted:
                latest[record.key] = (record, batch.magic)
    for record, magic in latest.values():
        if record.value is None and start <= record.offset < end and record.offset not in left:
            yield "tombstone expires" if magic == 2 else "old tombstone goes by its file's time"
    if before.aborted - after.aborted and start == 0:
        yield "aborted transaction is no longer indexed"
    if any(
        batch.header.base_offset < each["next_dirty_offset"] <= batch.header.last_offset
        for each in done
        for batch in before.by_base.values()
    ):
        yield "round ends inside a batch"
