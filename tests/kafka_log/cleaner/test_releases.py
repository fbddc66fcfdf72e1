"""By the rules of 3.9.1: the files that its own Cleaner leaves, byte for byte; and 4.3.1's beside.

3.9.0 and 4.0.0 (index entries once a chunk), 3.9.2 (keeps the last batch of a round) and 4.4 (keeps
that at the high watermark) are nobody's rules here: tests/jobs/compact says that they are refused,
and what the verb leaves by those of 3.9.1.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from kafka_format.compression import Codec
from kafka_format.legacy import LegacyBatch
from kafka_format.log_file import LogFile
from kafka_format.offset_index import decode_offset_index, iter_offset_index
from kafka_format.time_index import decode_time_index, iter_time_index
from kafka_log.cleaner.releases import KAFKA_3_9_1, KAFKA_4_3, CleanerRules
from tests.kafka_log.cleaner.cleaning import compare, planned_case
from tests.kafka_log.cleaner.in_parallel import compare_again
from tests.kafka_log.cleaner.stories import CleanedLog, Story
from tests.kafka_log.cleaner.test_scenarios_batches import _kafka_4298
from tests.kafka_log.cleaner.test_scenarios_filter import WAYS, four_batches
from tests.kafka_log.compare import scratch
from tests.kafka_log.workload import START
from tests.oracle.client import Oracle

SEEDS = 40
OLD_WAYS = [(magic, codec) for magic, codec in WAYS if magic < 2]
OLD_WRAPPERS = [(magic, codec) for magic, codec in OLD_WAYS if codec is not Codec.NONE]


def by_3_9_1(story: Story) -> Story:
    story.rules = KAFKA_3_9_1
    return story


# ---------------------------------------------------------------------------------------- drawn


def test_drawn_logs_are_cleaned_as_3_9_1_cleans_them_by_one_task_and_by_many(
    oracle: Oracle, oracle_3_9: Oracle
) -> None:
    with scratch() as folder:
        cases = [
            replace(planned_case(oracle, folder, seed), rules=KAFKA_3_9_1) for seed in range(SEEDS)
        ]
        compare(oracle_3_9, folder, cases)
        by_parts = compare_again(folder, cases, seed=0)
        assert len(by_parts) > SEEDS // 2
        left = [path.read_bytes() for path in (folder / "kafka").glob("*/*.log")]
        magics = {batch.magic for data in left for batch in LogFile(data).batches()}
        assert magics == {0, 1, 2}


@pytest.mark.soak
@pytest.mark.parametrize("block", range(1, 13))
def test_drawn_logs_are_cleaned_as_3_9_1_cleans_them_in_hundreds(
    oracle: Oracle, oracle_3_9: Oracle, block: int
) -> None:
    with scratch() as folder:
        seeds = range(block * SEEDS, (block + 1) * SEEDS)
        cases = [replace(planned_case(oracle, folder, seed), rules=KAFKA_3_9_1) for seed in seeds]
        compare(oracle_3_9, folder, cases)
        compare_again(folder, cases, seed=block)


# ------------------------------------------------------------------------------ the last batch


def test_of_a_round_without_survivors_3_9_1_keeps_nothing_and_4_3_the_last_batch(
    oracle: Oracle, oracle_3_9: Oracle
) -> None:
    def left(asked: Oracle, rules: CleanerRules) -> CleanedLog:
        story = Story(cleanup_policy="delete").write("(?) | (?) | (?) |").clean()
        story.rules = rules
        return story.reported(asked)[0]

    assert left(oracle_3_9, KAFKA_3_9_1).lasts == []
    assert left(oracle, KAFKA_4_3).lasts == [2]


def test_3_9_1_keeps_the_empty_batch_of_a_producer_though_not_that_of_a_round(
    oracle_3_9: Oracle,
) -> None:
    (left,) = by_3_9_1(Story()).write("I1(a) I2(b) (a,b) |").clean().reported(oracle_3_9)
    assert (left.lasts, left.empty) == ([0, 1, 3], [0, 1])


# ---------------------------------------------------------------------------------- magic 0 and 1


@pytest.mark.parametrize(("magic", "codec"), OLD_WAYS)
def test_3_9_1_keeps_old_magics_where_records_go(
    oracle_3_9: Oracle, magic: int, codec: Codec
) -> None:
    story = by_3_9_1(four_batches(magic, codec, without_key=(0, 2, 3)))
    (left,) = story.clean().reported(oracle_3_9)
    assert {each.magic for each in left.batches} == {magic}
    assert left.offsets == [1, 4, 5, 6]
    is_plain = codec is Codec.NONE
    assert left.lasts == ([1, 4, 5, 6] if is_plain else [1, 5, 6])
    times = [11, 20, 15, 16] if is_plain else [11, 20, 16]
    found = [each.header.max_timestamp for each in left.batches]
    assert found == ([START + each for each in times] if magic else [-1] * len(times))


@pytest.mark.parametrize(("magic", "codec"), OLD_WAYS)
def test_3_9_1_copies_an_old_batch_that_stays_whole(
    oracle_3_9: Oracle, magic: int, codec: Codec
) -> None:
    story = by_3_9_1(four_batches(magic, codec)).write("(2,3,7,end) |")
    before = list(LogFile(story.files[f"{0:020d}.log"]).batches())
    (left,) = story.clean().reported(oracle_3_9)
    kept = [bytes(each.raw) for each in before if each.header.last_offset in {0, 3, 4, 5}]
    old = [each for each in left.batches if isinstance(each, LegacyBatch)]
    assert [bytes(each.raw) for each in old] == kept


@pytest.mark.parametrize(("magic", "codec"), OLD_WRAPPERS)
def test_in_3_9_1_an_old_tombstone_gets_no_horizon(
    oracle_3_9: Oracle, magic: int, codec: Codec
) -> None:
    story = by_3_9_1(four_batches(magic, codec, tombstones=(4,))).write("(end) |")
    first, second = story.clean().clean(10**9, checkpoint=0).reported(oracle_3_9)
    for left in (first, second):
        assert [each.offset for each in left.records if each.value is None] == [4]
        assert left.offsets == [0, 1, 2, 3, 4, 5, 6, 7]
        assert {each.magic for each in left.batches[:-1]} == {magic}


def test_3_9_1_gives_messages_inside_a_wrapper_its_magic_though_none_goes(
    oracle_3_9: Oracle,
) -> None:
    """KAFKA-4298: magic 1 around magic 0."""
    story = by_3_9_1(Story())
    for suffix, content in (("log", _kafka_4298(b"x", b"y")), ("index", b""), ("timeindex", b"")):
        story.file(f"{10:020d}.{suffix}", content)
    story.arguments = {"recovery_point": 12, "log_start_offset": 10}
    (left,) = story.roll().write("(end) |").clean().reported(oracle_3_9)
    wrapper = left.batches[0]
    assert isinstance(wrapper, LegacyBatch)
    assert [each.header.magic for each in wrapper.inner_messages()] == [1, 1]
    assert [each.offset for each in wrapper.records()] == [10, 11]


# ------------------------------------------------------------------------------------- indexes


def _recomputed(log: Path, interval: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Both indexes: a batch gets an entry once more than `interval` bytes came before it.

    Offsets are relative to the segment's.
    """
    base = int(log.stem)
    offsets: list[tuple[int, int]] = []
    times: list[tuple[int, int]] = []
    largest, at, since, position = -1, -1, 0, 0

    def note() -> None:
        if largest > (times[-1][0] if times else -1):
            times.append((largest, at))

    for batch in LogFile(log.read_bytes()).batches():
        header = batch.header
        if header.max_timestamp > largest:
            largest, at = header.max_timestamp, header.last_offset - base
        if since > interval:
            offsets.append((header.last_offset - base, position))
            note()
            since = 0
        size = len(batch.raw)
        position, since = position + size, since + size
    note()
    return offsets, times


@pytest.mark.parametrize("release", ["3.9.1", "4.3.1"])
def test_index_entries_follow_from_the_batches_of_every_cleaned_segment(
    oracle: Oracle, oracle_3_9: Oracle, release: str
) -> None:
    """Once a batch, not once a chunk: buffers are drawn, from 100 bytes on."""
    is_older = release == "3.9.1"
    asked, rules = (oracle_3_9, KAFKA_3_9_1) if is_older else (oracle, KAFKA_4_3)
    with scratch() as folder:
        drawn = [planned_case(oracle, folder, seed) for seed in range(100, 112)]
        cases = [
            replace(case, rules=rules, arguments={**case.arguments, "close": "clean"})
            for case in drawn
        ]
        compare(asked, folder, cases)
        seen = 0
        for case in cases:
            interval = case.arguments["config"]["index.interval.bytes"]
            for log in sorted((folder / "kafka" / case.source.name).glob("*.log"))[:-1]:
                base = int(log.stem)
                data = [log.with_suffix(kind).read_bytes() for kind in (".index", ".timeindex")]
                found = (
                    [tuple(each) for each in iter_offset_index(decode_offset_index(data[0], base))],
                    [tuple(each) for each in iter_time_index(decode_time_index(data[1], base))],
                )
                assert found == _recomputed(log, interval), f"{case.name}: {log.name}"
                seen += len(found[0])
        assert seen > 50
