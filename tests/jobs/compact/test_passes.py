"""Passes from the same offset: the life of tombstones and markers, held against Kafka's Cleaner."""

import pytest

from jobs.options import CLEAN, USAGE
from tests.jobs.compact.compacting import COMPACT, NOW, of_kind, one, rows, run
from tests.jobs.compact.sources import Source
from tests.jobs.trees import tree
from tests.pipelines.compaction.test_parallel_compaction import untimed

SOURCES: list[int | tuple[str, str]] = [
    3,
    5,
    6,
    27,
    53,
]  # seeds: tombstones and markers that go late, of magic 2, 0, 1, 2
SOURCES += [("clean-3.9.1", "transactions-0"), ("cleaner-4.3.1", "compacted.tombstones-0")]
MOST = 8


@pytest.fixture(params=SOURCES, ids=str)
def source(oracle, tmp_path, request):
    return Source(oracle, tmp_path, request.param)


def test_three_passes_from_the_beginning_leave_what_three_of_kafka_leave(source, capsys):
    theirs, passes = source.by_kafka(3)
    before = tree(source.log_dir)
    dry = source.by_ours(capsys, 3)
    assert tree(source.log_dir) == before
    rounds = of_kind(dry, "round")
    assert [row["first_dirty_offset"] for row in rounds] == [
        each["first_dirty_offset"] for each in passes
    ]
    for row, each in zip(rounds, passes, strict=True):
        assert {name: row[name] for name in each["stats"]} == each["stats"]
    out = source.folder / "out"
    assert untimed(source.by_ours(capsys, 3, "--output", out)) == untimed(dry)
    theirs.ensure_in(out / source.partition.name)
    written = source.by_ours(capsys, 3, "--in-place")
    assert untimed(written) == untimed(dry)
    theirs.ensure_in(source.partition)
    end = passes[-1]["next_dirty_offset"]
    assert one(written)["new_cleaner_checkpoint"] == end


def test_passes_end_when_one_of_kafka_would_change_nothing_more(source, capsys):
    by_kafka = [source.by_kafka(passes)[0] for passes in range(MOST)]
    expected = next(
        number for number in range(1, MOST) if by_kafka[number].files == by_kafka[number - 1].files
    )
    reported = [source.by_ours(capsys, "until-unchanged")]
    out = source.folder / "out"
    reported.append(source.by_ours(capsys, "until-unchanged", "--output", out))
    by_kafka[-1].ensure_in(out / source.partition.name)
    assert expected > 2 or source.partition.name != "orders-0"  # seeds have much to prove
    reported.append(source.by_ours(capsys, "until-unchanged", "--in-place"))
    by_kafka[-1].ensure_in(source.partition)
    for each in reported:
        assert (one(each)["rounds"], one(each)["is_settled"]) == (expected, True)
        assert untimed(each) == untimed(reported[0])


# ------------------------------------------------------------------------------------- the words


def test_without_an_offset_passes_begin_at_the_checkpoint_each_time(capsys, log_dir):
    (log_dir / "cleaner-offset-checkpoint").write_text("0\n1\norders 0 4\n")
    found = rows(capsys, log_dir, COMPACT, "--now", NOW, "--passes", "until-unchanged")
    starts = [row["first_dirty_offset"] for row in of_kind(found, "round")]
    assert starts == [4, 4]
    assert one(found)["is_settled"]


def test_until_clean_goes_on_where_a_round_ended_even_if_told_where_to_begin(capsys, log_dir):
    found = rows(
        capsys, log_dir, COMPACT, "--now", NOW, "--first-dirty", 0, "--dedupe-buffer-size", 72,
        "--passes", "until-clean",
    )  # fmt: skip
    rounds = of_kind(found, "round")
    starts = [row["first_dirty_offset"] for row in rounds]
    assert starts[1:] == [row["next_dirty_offset"] for row in rounds[:-1]]
    assert (one(found)["is_clean"], one(found)["is_settled"]) == (True, None)


def test_passes_that_never_settle_end_and_say_so(capsys, log_dir, monkeypatch):
    monkeypatch.setattr("kafka_log.cleaner.passes.MOST_PASSES", 1)
    words = [log_dir, COMPACT, "--now", NOW, "--passes", "until-unchanged"]
    code, _, err = run(capsys, *words)
    assert code == CLEAN
    assert "stopped after 1 round, and it still changed a file" in err
    assert one(rows(capsys, *words))["is_settled"] is False


def test_a_map_that_is_full_each_time_is_told(capsys, log_dir):
    words = [log_dir, COMPACT, "--now", NOW, "--dedupe-buffer-size", 72, "--first-dirty", 0]
    _, _, err = run(capsys, *words, "--passes", "until-unchanged")
    assert "the offset map was full: still dirty from offset 2" in err
    assert "a larger --dedupe-buffer-size" in err


@pytest.mark.parametrize("passes", [2, "until-unchanged"])
def test_a_key_is_explained_pass_by_pass(capsys, log_dir, passes):
    found = rows(
        capsys, log_dir, COMPACT, "--now", NOW, "--first-dirty", 0, "--passes", passes,
        "--explain-key", "key-1",
    )  # fmt: skip
    reported = [(row["round"], row["offset"], row["verdict"]) for row in found]
    assert reported == [(1, 1, "removed"), (1, 4, "removed"), (1, 7, "kept"), (2, 7, "kept")]


def test_words_that_are_no_number_of_passes_are_refused(capsys, log_dir):
    code, _, err = run(capsys, log_dir, "--passes", "until-done")
    assert code == USAGE
    assert "1 or more, `until-clean` or `until-unchanged`" in err
