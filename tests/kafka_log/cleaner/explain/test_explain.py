"""Each rule by name, on logs whose outcome can be reported by hand."""

import re
from pathlib import Path
from typing import Any

import pytest

from kafka_format.batch import encode_batch
from kafka_format.control import ControlRecordType
from kafka_format.legacy import encode_legacy_batch
from kafka_format.record import SimpleRecord
from kafka_log.cleaner.explain.explain import explain
from kafka_log.cleaner.explain.rows import ReasonRows
from kafka_log.cleaner.offset_map import Keys
from kafka_log.cleaner.passes import Schedule
from kafka_log.cleaner.reasons import BY_CODE, KEPT, Reason
from kafka_log.cleaner.releases import KAFKA_3_9_1, KAFKA_4_3, CleanerRules
from kafka_log.config.log_config import LogConfig
from kafka_log.disk.files import DiskFiles
from kafka_log.log.unified_log import PartitionLog
from tests.kafka_log.cleaner.cleaners import new_cleaner
from tests.kafka_log.cleaner.test_cleaner import NOW, RETENTION, Topic

COMMIT, ABORT = ControlRecordType.COMMIT, ControlRecordType.ABORT
DOCS = Path(__file__).parents[4] / "docs" / "explain.md"
CONFIG_WITH_LAG = LogConfig(
    cleanup_policy=frozenset({"compact"}), min_compaction_lag_ms=50, segment_index_bytes=1000
)
WAYS = [{}, {"columnar": False}, {"keys": Keys.EXACT}]


class ExplainedRows:
    """Rows as plain values."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def __call__(self, rows: ReasonRows) -> None:
        numbers = ("superseded_by", "delete_horizon", "marker_offset", "record_count")
        for i in range(len(rows)):
            row = {name: int(getattr(rows, name)[i]) for name in numbers}
            self.rows.append(
                {name: value for name, value in row.items() if value >= 0}
                | {
                    "round": rows.round_number,
                    "segment": rows.segment,
                    "offset": int(rows.offset[i]),
                    "last_offset": int(rows.last_offset[i]),
                    "key": rows.key(i),
                    "rule": BY_CODE[int(rows.reason[i])],
                    "unreached": rows.unreached,
                }
            )

    @property
    def records(self) -> dict[int, str]:
        return {row["offset"]: row["rule"].text for row in self.rows if row["offset"] >= 0}

    @property
    def batches(self) -> dict[int, str]:
        """By last offset."""
        return {row["last_offset"]: row["rule"].text for row in self.rows if row["offset"] < 0}

    def of(self, offset: int) -> dict[str, Any]:
        (row,) = [row for row in self.rows if row["offset"] == offset]
        return row


@pytest.fixture
def path(tmp_path: Path) -> Path:
    folder = tmp_path / "topic-0"
    folder.mkdir()
    return folder


@pytest.fixture(params=WAYS, ids=["columnar", "by rows", "exact keys"])
def way(request: pytest.FixtureRequest) -> dict[str, Any]:
    return request.param


def tell(
    log: PartitionLog, checkpoint: int | None = None, *, now: int = NOW, **options: Any
) -> ExplainedRows:
    reported = ExplainedRows()
    schedule = Schedule(
        passes=options.pop("rounds", 1), only_when_due=options.pop("only_when_due", False)
    )
    explain(
        log,
        checkpoint,
        reported,
        make_cleaner=lambda witness: new_cleaner(
            log.config, lambda: now, witness=witness, **options
        ),
        now_ms=now,
        schedule=schedule,
    )
    return reported


def replicated(topic: Topic) -> PartitionLog:
    topic.log.update_high_watermark(topic.log.log_end_offset)
    return topic.log


def test_the_newest_record_of_a_key_stays_and_tells_the_others_who_superseded_them(
    path: Path, way: dict[str, Any]
) -> None:
    topic = Topic(DiskFiles(path))
    topic.put(("a", "1"), ("b", "1"), ("a", "2"))
    topic.put(("a", "3"))
    topic.roll()
    reported = tell(replicated(topic), **way)
    assert reported.records == {0: "superseded", 1: "latest", 2: "superseded", 3: "latest"}
    assert (reported.of(0)["superseded_by"], reported.of(2)["superseded_by"]) == (3, 3)
    assert [reported.of(offset)["key"] for offset in range(4)] == [b"a", b"b", b"a", b"a"]


def test_a_clean_record_stays_if_no_dirty_one_has_its_key(path: Path, way: dict[str, Any]) -> None:
    topic = Topic(DiskFiles(path))
    topic.put(("a", "1"), ("b", "1"))
    topic.roll()
    topic.put(("b", "2"))
    topic.roll()
    reported = tell(replicated(topic), checkpoint=2, **way)
    assert reported.records == {0: "key_not_dirty", 1: "superseded", 2: "latest"}


def test_a_tombstone_gets_a_horizon_waits_for_it_and_goes(path: Path, way: dict[str, Any]) -> None:
    topic = Topic(DiskFiles(path))
    topic.put(("a", "1"))
    topic.put(("a", None))
    topic.put(("b", None))
    topic.put(("b", "1"))
    topic.roll()
    first = tell(replicated(topic), **way)
    assert first.records == {
        0: "superseded",
        1: "tombstone_gets_horizon",
        2: "tombstone_superseded",
        3: "latest",
    }
    assert first.of(1)["delete_horizon"] == NOW + RETENTION
    before = tell(topic.log, 0, now=NOW + RETENTION - 1, **way)
    assert before.records == {1: "tombstone_in_horizon", 3: "latest"}
    assert before.of(1)["delete_horizon"] == NOW + RETENTION
    at = tell(topic.log, 0, now=NOW + RETENTION, **way)
    assert at.records == {1: "tombstone_past_horizon", 3: "latest"}
    assert at.of(1)["delete_horizon"] == NOW + RETENTION


def test_a_record_without_a_key_goes(path: Path, way: dict[str, Any]) -> None:
    topic = Topic(DiskFiles(path))
    topic.log.update_config(LogConfig(segment_index_bytes=1000))
    topic.put((None, "1"), ("a", "1"))
    topic.roll()
    assert tell(replicated(topic), **way).records == {0: "no_key", 1: "latest"}


def test_aborted_data_names_its_marker_and_the_marker_lives_three_rounds(
    path: Path, way: dict[str, Any]
) -> None:
    topic = Topic(DiskFiles(path))
    topic.put(("a", "1"), producer_id=7)
    topic.end(ABORT, 7)
    topic.put(("b", "1"))
    topic.roll()
    topic.put(("c", "1"))
    log = replicated(topic)
    log.remove_expired_producers(NOW + log.config.producer_id_expiration_ms + 1)
    first = tell(log, **way)
    assert first.records == {
        0: "aborted",
        1: "marker_kept",
        2: "latest",
        3: "not_cleanable_active_segment",
    }
    assert first.of(0)["marker_offset"] == 1
    assert first.batches == {0: "batch_dropped"}
    second = tell(log, 0, **way)
    assert second.records[1] == "marker_gets_horizon"
    assert second.of(1)["delete_horizon"] == NOW + RETENTION
    assert tell(log, 0, now=NOW + 1, **way).records[1] == "marker_in_horizon"
    last = tell(log, 0, now=NOW + RETENTION, **way)
    assert last.records[1] == "marker_past_horizon"
    assert last.batches == {1: "batch_dropped"}
    assert [row.get("record_count") for row in last.rows if row["offset"] < 0] == [1]


def test_the_last_batch_of_a_producer_stays_empty(path: Path, way: dict[str, Any]) -> None:
    topic = Topic(DiskFiles(path))
    topic.put(("a", "1"), producer_id=7)
    topic.end(COMMIT, 7)
    topic.put(("a", "2"))
    topic.put(("b", "1"))
    topic.roll()
    reported = tell(replicated(topic), **way)
    assert reported.records == {0: "superseded", 1: "marker_kept", 2: "latest", 3: "latest"}
    assert reported.batches == {0: "empty_batch_kept_last_of_producer"}
    # The producer is forgotten: its empty batch goes, and nothing was read of it.
    topic.log.remove_expired_producers(NOW + topic.log.config.producer_id_expiration_ms + 1)
    assert tell(topic.log, 0, **way).batches == {0: "empty_batch_removed"}


def test_the_last_batch_of_the_cleanable_part_stays_empty(path: Path, way: dict[str, Any]) -> None:
    topic = Topic(DiskFiles(path))
    topic.put(("a", "1"))
    topic.put(("b", None))
    topic.roll()
    tell(replicated(topic), **way)
    reported = tell(topic.log, 0, now=NOW + RETENTION, **way)
    assert reported.records == {0: "latest", 1: "tombstone_past_horizon"}
    assert reported.batches == {1: "empty_batch_kept_end_of_round"}


def test_a_full_map_leaves_the_rest_of_the_segment_and_segments_behind_it(
    path: Path, way: dict[str, Any]
) -> None:
    topic = Topic(DiskFiles(path))
    topic.put(("a", "1"))
    topic.put(("b", "1"))
    topic.put(("a", "2"))
    topic.roll()
    topic.put(("b", "2"))
    topic.roll()
    log = replicated(topic)
    # 72 bytes are three slots, of which nine tenths may be used: two keys.
    reported = tell(log, dedupe_buffer_size=72, **way)
    assert reported.records == {0: "latest", 1: "latest", 2: "after_map", 3: "not_reached"}


def test_rounds_count_on_until_nothing_is_dirty(path: Path, way: dict[str, Any]) -> None:
    topic = Topic(DiskFiles(path))
    for value in "12":
        topic.put(("a", value))
        topic.put(("b", value))
        topic.put(("c", value))
    topic.roll()
    reported = tell(replicated(topic), dedupe_buffer_size=72, rounds=None, **way)
    gone = {
        row["offset"]: row["round"] for row in reported.rows if row["rule"] is Reason.SUPERSEDED
    }
    assert set(gone) == {0, 1, 2}
    last = max(row["round"] for row in reported.rows)
    kept = [
        row["offset"]
        for row in reported.rows
        if row["round"] == last and row["rule"].verdict == KEPT
    ]
    assert kept == [3, 4, 5]


def test_without_anything_dirty_there_is_no_round(path: Path) -> None:
    topic = Topic(DiskFiles(path))
    topic.put(("a", "1"), ("a", "2"))
    topic.roll()
    topic.put(("a", "3"))
    reported = tell(replicated(topic), checkpoint=2)
    assert reported.records == {0: "not_dirty", 1: "not_dirty", 2: "not_cleanable_active_segment"}


def test_what_is_not_due_is_told_apart_where_only_due_logs_are_asked_for(path: Path) -> None:
    topic = Topic(DiskFiles(path))
    topic.put(("a", "1" * 100))
    topic.roll()
    topic.put(("a", "2"))
    topic.roll()
    log = replicated(topic)
    log.update_config(
        LogConfig(min_cleanable_dirty_ratio=0.9, cleanup_policy=frozenset({"compact"}))
    )
    reported = tell(log, 1, only_when_due=True)
    assert reported.records == {0: "not_due", 1: "not_due"}
    assert tell(log, 1).records == {0: "superseded", 1: "latest"}


def test_an_open_transaction_holds_what_lies_behind_it_and_is_named(path: Path) -> None:
    topic = Topic(DiskFiles(path))
    topic.put(("a", "1"))
    topic.roll()
    topic.put(("x", "open"), producer_id=7)
    topic.roll()
    topic.put(("a", "2"))
    reported = tell(replicated(topic))
    assert reported.records == {
        0: "latest",
        1: "not_cleanable_open_transaction",
        2: "not_cleanable_active_segment",
    }
    assert reported.of(1)["unreached"].producer_id == 7


def test_what_is_not_replicated_is_not_cleanable(path: Path) -> None:
    topic = Topic(DiskFiles(path))
    topic.put(("a", "1"))
    topic.roll()
    topic.put(("a", "2"))
    topic.roll()
    topic.log.update_high_watermark(1)
    assert tell(topic.log).records == {0: "latest", 1: "not_cleanable_high_watermark"}


def test_min_compaction_lag_holds_until_the_youngest_record_is_old_enough(path: Path) -> None:
    topic = Topic(DiskFiles(path), CONFIG_WITH_LAG)
    topic.put(("a", "1"))
    topic.roll()
    topic.put(("a", "2"))
    reported = tell(replicated(topic), now=NOW + 49)
    assert reported.records == {
        0: "not_cleanable_compaction_lag",
        1: "not_cleanable_active_segment",
    }
    assert reported.of(0)["unreached"].until_ms == NOW + 50
    assert tell(topic.log, now=NOW + 50).records[0] == "latest"


def test_a_control_record_that_ends_no_transaction_stays(path: Path) -> None:
    topic = Topic(DiskFiles(path))
    # As a raft leader writes it: version 0, type 2.
    control = SimpleRecord(NOW, b"\x00\x00\x00\x02", b"\x00\x00")
    batches = (
        encode_batch([control], is_control=True, base_offset=0, partition_leader_epoch=0),
        encode_batch([SimpleRecord(NOW, b"a", b"1")], base_offset=1, partition_leader_epoch=0),
    )
    for batch in batches:
        topic.log.append_as_follower(batch, 0)
    topic.roll()
    assert tell(replicated(topic)).records == {0: "control_kept", 1: "latest"}


@pytest.mark.parametrize(
    ("rules", "told_as"),
    [
        (KAFKA_4_3, "empty_batch_kept_end_of_round"),
        (KAFKA_3_9_1, "empty_batch_kept_last_of_producer"),
    ],
)
def test_the_end_of_a_round_is_a_reason_where_the_release_knows_it(
    path: Path, way: dict[str, Any], rules: CleanerRules, told_as: str
) -> None:
    topic = Topic(DiskFiles(path))
    without_key = [SimpleRecord(NOW, None, b"1")]
    given: dict[str, Any] = {"producer_id": 1, "producer_epoch": 0}
    given |= {"base_sequence": 0, "base_offset": 0}
    topic.log.append_as_follower(encode_batch(without_key, partition_leader_epoch=0, **given), 0)
    topic.roll()
    reported = tell(replicated(topic), rules=rules, **way)
    assert (reported.records, reported.batches) == ({0: "no_key"}, {0: told_as})


@pytest.mark.parametrize(
    ("rules", "older_by", "rule", "horizon"),
    [
        (KAFKA_4_3, RETENTION - 1, "tombstone_gets_horizon", NOW + RETENTION),
        (KAFKA_4_3, RETENTION, "tombstone_of_old_segment", None),
        (KAFKA_3_9_1, RETENTION - 1, "tombstone_of_young_segment", None),
        (KAFKA_3_9_1, RETENTION, "tombstone_of_old_segment", None),
    ],
)
def test_a_tombstone_of_an_old_format_goes_by_the_age_of_its_segment(
    path: Path, rules: CleanerRules, older_by: int, rule: str, horizon: int | None
) -> None:
    files = DiskFiles(path)
    old = [SimpleRecord(NOW, b"a", b"1", (), 0), SimpleRecord(NOW, b"b", None, (), 1)]
    data = b"".join(encode_legacy_batch([record], magic=1) for record in old)
    files.write(f"{0:020}.log", data)
    topic = Topic(files)
    topic.roll()
    topic.put(("c", "1"))
    topic.roll()
    topic.put(("d", "1"))
    topic.roll()
    first, last_clean, *_ = topic.log.log_segments
    first.set_last_modified(NOW - older_by)
    last_clean.set_last_modified(NOW)
    reported = tell(replicated(topic), 3, rules=rules)
    assert reported.records == {0: "key_not_dirty", 1: rule, 2: "key_not_dirty", 3: "latest"}
    assert reported.of(1).get("delete_horizon") == horizon


def test_every_rule_is_documented_under_its_name() -> None:
    named = re.findall(r"^\| `(\w+)` \| (kept|removed) \|", DOCS.read_text("utf-8"), re.MULTILINE)
    assert named == [(rule.text, rule.verdict) for rule in Reason]
