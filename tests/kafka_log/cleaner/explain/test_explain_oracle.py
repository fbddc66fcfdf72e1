"""The records explained as kept are those in the log that Kafka's own Cleaner left."""

import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kafka_format.batch import RecordBatch
from kafka_format.errors import FormatError
from kafka_format.log_file import LogFile
from kafka_log.cleaner.cleaner import RoundResult
from kafka_log.cleaner.explain.explain import explain
from kafka_log.cleaner.explain.rows import ReasonRows
from kafka_log.cleaner.reasons import BY_CODE, Reason
from kafka_log.cleaner.releases import KAFKA_3_9_1, KAFKA_4_3
from kafka_log.disk.files import DiskFiles
from tests.kafka_log.cleaner.cleaners import new_cleaner
from tests.kafka_log.cleaner.cleaning import CleaningCase, lived_cases, planned_case
from tests.kafka_log.cleaner.passes import CleaningPass
from tests.kafka_log.compare import scratch
from tests.kafka_log.driver import Session
from tests.oracle.client import Oracle
from tests.show import seen_by

_SUITES = {"cleaner": "explain", "cleaner-snappy": "explain", "cleaner-life": "explain-life"}
"""The suites that show an explained case, by the one that shows its cleaning."""
_COUNTED = ("messages_read", "messages_written", "invalid_messages_read")


class PassRows:
    """Rows of one pass, as plain values."""

    def __init__(self) -> None:
        self.records: list[tuple[int, Reason]] = []
        self.batches: list[tuple[int, Reason, int]] = []

    def __call__(self, rows: ReasonRows) -> None:
        for i in range(len(rows)):
            rule = BY_CODE[int(rows.reason[i])]
            if rows.is_record[i]:
                self.records.append((int(rows.offset[i]), rule))
            else:
                self.batches.append((int(rows.last_offset[i]), rule, int(rows.record_count[i])))

    @property
    def rules(self) -> Counter[Reason]:
        return Counter([rule for _, rule in self.records] + [rule for _, rule, _ in self.batches])

    @property
    def kept(self) -> list[int]:
        return sorted(offset for offset, rule in self.records if rule.is_kept)

    @property
    def kept_batches(self) -> list[int]:
        return sorted(last for last, rule, _ in self.batches if rule.is_kept)

    def sums(self) -> dict[str, int]:
        judged = [rule for _, rule in self.records if rule.is_decided]
        unread = sum(count for _, rule, count in self.batches if rule is Reason.BATCH_DROPPED)
        return {
            "messages_read": len(judged) - unread,
            "messages_written": sum(rule.is_kept for rule in judged),
            "invalid_messages_read": self.rules[Reason.NO_KEY],
        }


def run_case(case: CleaningCase, directory: Path, theirs: Mapping[str, Any]) -> list[PassRows]:
    """Explain all passes of a case; the sums of each are Kafka's own."""
    arguments = {"log_start_offset": 0, "recovery_point": 0} | dict(case.arguments)
    session = Session(DiskFiles(directory), arguments)
    if session.log.log_end_offset >= 0:
        session.log.update_high_watermark(session.log.log_end_offset)
    checkpoint = arguments.get("checkpoint")
    found: list[PassRows] = []
    for one, expected in zip(case.passes, theirs["passes"], strict=True):
        for step in one.steps:
            session.try_step(step)
        session.clock.now_ms = one.time
        checkpoint = checkpoint if one.checkpoint is None else one.checkpoint
        if "error" in expected:
            return found  # test_cleaner_oracle.py checks that ours fails there too
        if "stats" not in expected:
            continue  # not dirty enough to be cleaned
        rows = PassRows()
        done = pass_of(session, case, one, checkpoint, rows)
        checkpoint = expected["next_dirty_offset"]
        if done:
            assert done[0].next_dirty_offset == checkpoint, case.name
            sums = {name: expected["stats"][name] for name in _COUNTED}
            assert rows.sums() == sums, case.name
        found.append(rows)
    session.close(case.arguments["close"])
    return found


def pass_of(
    session: Session, case: CleaningCase, one: CleaningPass, checkpoint: int | None, rows: PassRows
) -> list[RoundResult]:
    return explain(
        session.log,
        checkpoint,
        rows,
        make_cleaner=lambda witness: new_cleaner(
            session.log.config,
            session.clock,
            dedupe_buffer_size=one.dedupe_buffer_size,
            io_buffer_size=one.io_buffer_size,
            keys=case.keys,
            columnar=one.columnar,
            witness=witness,
            rules=case.rules,
        ),
        now_ms=one.time,
    )


def left_by_kafka(directory: Path) -> tuple[list[int], list[int]] | None:
    """Offsets of all records, and last offsets of batches without any; None if damaged."""
    try:
        return _left(directory)
    except FormatError:
        return None


def _left(directory: Path) -> tuple[list[int], list[int]]:
    records: list[int] = []
    empty: list[int] = []
    for path in sorted(directory.glob("*.log")):
        for batch in LogFile(path.read_bytes()).batches():
            found = [record.offset for record in batch.records()]
            records += found
            if not found:
                assert isinstance(batch, RecordBatch)
                empty.append(batch.header.last_offset)
    return sorted(records), sorted(empty)


def check(oracle: Oracle, folder: Path, cases: list[CleaningCase]) -> Counter[Reason]:
    (folder / "kafka").mkdir()
    kafkas = [folder / "kafka" / case.source.name for case in cases]
    runs = [
        dict(case.arguments) | {"path": path, "copy_from": case.source, "passes": case.passes}
        for case, path in zip(cases, kafkas, strict=True)
    ]
    rules: Counter[Reason] = Counter()
    results = oracle.call("clean_logs", runs=runs, timeout=600)
    for case, kafka, theirs in zip(cases, kafkas, results, strict=True):
        if "error" in theirs:
            continue  # a directory that does not load
        ours = folder / "ours" / case.source.name
        shutil.copytree(case.source, ours)
        with seen_by(_SUITES[case.suite], case.seed if case.rules is KAFKA_4_3 else None):
            rules += check_case(case, ours, kafka, theirs)
    return rules


def check_case(
    case: CleaningCase, ours: Path, kafka: Path, theirs: Mapping[str, Any]
) -> Counter[Reason]:
    before, after = left_by_kafka(case.source), left_by_kafka(kafka)
    explained = run_case(case, ours, theirs)
    rules = sum((each.rules for each in explained), Counter[Reason]())
    # A life may append a batch whose records nobody can read, to a segment that is not cleaned.
    if before is None or after is None or len(explained) < len(case.passes):
        return rules
    last = explained[-1]
    assert (last.kept, last.kept_batches) == after, case.name
    if len(explained) == 1:  # every record has a row
        assert sorted(offset for offset, _ in last.records) == before[0], case.name
        assert {offset for offset, _, _ in last.batches} >= set(before[1]), case.name
    return rules


def test_kept_rows_are_what_kafkas_cleaner_left_and_sums_are_its_statistics(
    oracle: Oracle,
) -> None:
    with scratch() as folder:
        rules = check(oracle, folder, [planned_case(oracle, folder, seed) for seed in range(16)])
        assert len(rules) >= 15


def test_by_the_rules_of_3_9_1_kept_rows_are_what_its_cleaner_left(
    oracle: Oracle, oracle_3_9: Oracle
) -> None:
    with scratch() as folder:
        cases = [
            replace(planned_case(oracle, folder, seed), rules=KAFKA_3_9_1) for seed in range(24)
        ]
        rules = check(oracle_3_9, folder, cases)
        assert rules[Reason.TOMBSTONE_OF_YOUNG_SEGMENT]
        assert rules[Reason.TOMBSTONE_OF_OLD_SEGMENT]
        assert rules[Reason.EMPTY_BATCH_KEPT_LAST_OF_PRODUCER]
        assert not rules[Reason.EMPTY_BATCH_KEPT_END_OF_ROUND]


def test_rows_are_right_of_logs_that_live_on_between_passes(oracle: Oracle) -> None:
    with scratch() as folder:
        rules = check(oracle, folder, lived_cases(oracle, folder, range(24)))
        assert len(rules) >= 15


@pytest.mark.soak
@pytest.mark.parametrize("block", range(1, 25))
def test_kept_rows_are_what_kafkas_cleaner_left_in_hundreds(oracle: Oracle, block: int) -> None:
    with scratch() as folder:
        seeds = range(block * 40, (block + 1) * 40)
        check(oracle, folder, [planned_case(oracle, folder, seed) for seed in seeds])
    with scratch() as folder:
        check(oracle, folder, lived_cases(oracle, folder, seeds))
