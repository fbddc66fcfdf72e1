"""Which logs are cleaned, by whom, and what is written of it: literals, and Kafka's beside them."""

from threading import Thread

import pytest

from kafka_log.cleaner.errors import LogCleaningError
from tests.kafka_log.cleaner.managed import DIRS, Managed, World, batch, text_of
from tests.kafka_log.cleaner.operations import (
    Abort,
    AbortAndPause,
    AlterDir,
    Check,
    Deletable,
    DirFailure,
    DoneCleaning,
    DoneDeleting,
    Grab,
    Maintain,
    MarkUncleanable,
    Operation,
    PauseNonCompacted,
    RemoveCheckpoint,
    RemoveLog,
    Resume,
    TakeStep,
    TruncateCheckpoint,
    UpdateCheckpoint,
    Work,
    WriteCheckpoint,
)
from tests.kafka_log.compare import scratch
from tests.kafka_log.steps import LogStartOffset, RelativeOffset, Step, TruncateTo, UpdateConfig
from tests.kafka_log.workload import START
from tests.oracle.client import Oracle

ONE = len(batch("x"))
TWICE = "(x) | (x) |"
THREE = b"\0\0\0\3"  # a batch is longer than that
LENGTH = 8  # of a batch, where it lies


GRAB, WORK, DELETABLE = Grab(), Work(), Deletable()
DONE = DoneCleaning(offset=2)
CLEAN_UP_TO_2 = text_of({"t-0": 2})

# ---------------------------------------------------------------------------- which log is taken


def test_a_failure_to_tell_what_is_dirty_names_the_partition(oracle: Oracle) -> None:
    world = World().log("a/t-0", TWICE).log("b/broken-1", TWICE)
    world.damaged("b/broken-1", LENGTH, THREE)
    (reported,) = world.reported(oracle, GRAB)
    assert (reported["error"], reported["states"]) == ("LogCleaningException", {})
    with scratch() as folder:
        world.write(folder / "root")
        with Managed(folder / "root", world.run()) as ours:
            with pytest.raises(LogCleaningError, match=r"broken-1: .*000\.log@0") as raised:
                ours.manager.grab_filthiest_compacted_log(START)
            assert raised.value.partition == ("broken", 1)
            assert raised.value.log.files.directory.endswith("b/broken-1")


def test_the_dirtiest_log_is_taken_and_each_only_once(oracle: Oracle) -> None:
    world = World().log("a/t-0", "(x) (x) | (x) |").log("a/u-0", TWICE).log("b/v-0", "(x)")
    world.checkpoint("a", {"t-0": 2, "u-0": 1})
    first, second, third = world.reported(oracle, GRAB, GRAB, GRAB)
    assert first["answer"] == {
        "partition": "u-0",
        "first_dirty_offset": 1,
        "first_uncleanable_offset": 2,
        "cleanable_bytes": ONE,
    }
    assert second["answer"]["partition"] == "t-0"
    assert third["answer"] is None
    assert third["states"] == {"t-0": "in progress", "u-0": "in progress"}


def test_an_uncleanable_partition_is_not_taken(oracle: Oracle) -> None:
    world = World().log("a/t-0", TWICE).log("b/u-0", TWICE)
    *_, reported = world.reported(oracle, MarkUncleanable(), GRAB)
    assert reported["answer"]["partition"] == "u-0"


def test_a_partition_in_progress_is_not_taken(oracle: Oracle) -> None:
    world = World().log("a/t-0", TWICE).log("b/u-0", TWICE)
    *_, reported = world.reported(oracle, GRAB, GRAB)
    assert reported["answer"]["partition"] == "u-0"


def test_partitions_uncleanable_and_in_progress_are_not_taken_together(oracle: Oracle) -> None:
    world = World().log("a/t-0", TWICE).log("b/u-0", TWICE).log("b/v-0", TWICE)
    *_, third, fourth = world.reported(oracle, MarkUncleanable(), GRAB, GRAB, GRAB)
    assert third["answer"]["partition"] == "v-0"
    assert fourth["answer"] is None


def test_a_mark_in_another_log_dir_does_not_make_a_partition_uncleanable(oracle: Oracle) -> None:
    *_, reported = (
        World().log("a/t-0", TWICE).reported(oracle, MarkUncleanable(directory="b"), GRAB)
    )
    assert reported["answer"]["partition"] == "t-0"


@pytest.mark.parametrize("offset", [0, 99])
@pytest.mark.parametrize("batches", ["(x) | (x) (x)", "(x) (x) |"])
def test_a_checkpoint_outside_of_the_log_is_written_anew_though_the_log_is_not_taken(
    oracle: Oracle, offset: int, batches: str
) -> None:
    world = World().log("a/t-0", batches, min_cleanable_dirty_ratio=1.0)
    world.checkpoint("a", {"t-0": offset})
    start = TakeStep("a/t-0", Step(LogStartOffset(RelativeOffset(offset=1))))
    _, reported = world.reported(oracle, start, GRAB)
    assert reported["answer"] is None
    assert reported["checkpoints"]["a"] == text_of({"t-0": 1})


@pytest.mark.parametrize(
    ("policy", "deletable"), [("delete", []), ("compact", ["t-0"]), ("compact,delete", ["t-0"])]
)
def test_the_cleaner_deletes_from_compacted_logs_alone(
    oracle: Oracle, policy: str, deletable: list[str]
) -> None:
    (reported,) = World().log("a/t-0", TWICE, policy=policy).reported(oracle, DELETABLE)
    assert reported["answer"] == deletable
    assert reported["states"] == dict.fromkeys(deletable, "in progress")


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_the_cleaner_does_not_delete_from_an_uncleanable_log(oracle: Oracle, policy: str) -> None:
    world = World().log("a/t-0", TWICE, policy=policy)
    *_, reported = world.reported(oracle, MarkUncleanable(), DELETABLE)
    assert (reported["answer"], reported["states"]) == ([], {})


def test_the_cleaner_does_not_delete_from_a_log_that_is_being_cleaned(oracle: Oracle) -> None:
    *_, reported = World().log("a/t-0", TWICE).reported(oracle, GRAB, DELETABLE)
    assert reported["answer"] == []


# ------------------------------------------------------------------------------------------ paused


def policy(new: str, world: World) -> Operation:
    config = world.configs["a/t-0"] | {"cleanup.policy": new}
    return TakeStep("a/t-0", Step(UpdateConfig(config)))


def test_a_log_that_is_paused_for_retention_is_not_cleaned_though_it_is_compacted_now(
    oracle: Oracle,
) -> None:
    world = World().log("a/t-0", TWICE, policy="delete")
    paused, _, grabbed, deletable, _, again = world.reported(
        oracle,
        PauseNonCompacted(),
        policy("compact", world),
        GRAB,
        DELETABLE,
        Resume(),
        GRAB,
    )
    assert (paused["answer"], paused["states"]) == (["t-0"], {"t-0": "paused(1)"})
    assert (grabbed["answer"], deletable["answer"]) == (None, [])
    assert again["answer"]["partition"] == "t-0"


def test_a_log_that_is_being_cleaned_is_not_paused_for_retention_though_it_is_not_compacted_now(
    oracle: Oracle,
) -> None:
    world = World().log("a/t-0", TWICE)
    pause = PauseNonCompacted()
    *_, during, done, after = world.reported(
        oracle, GRAB, policy("delete", world), pause, DONE, pause
    )
    assert (during["answer"], during["states"]) == ([], {"t-0": "in progress"})
    assert done["checkpoints"]["a"] == CLEAN_UP_TO_2
    assert after["answer"] == ["t-0"]


def test_each_pause_takes_a_resume_and_one_more_is_refused(oracle: Oracle) -> None:
    reported = (
        World()
        .log("a/t-0", TWICE)
        .reported(
            oracle,
            AbortAndPause(),
            AbortAndPause(),
            Resume(),
            GRAB,
            Resume(),
            Resume(),
            GRAB,
        )
    )
    assert [each["states"] for each in reported] == [
        {"t-0": "paused(1)"},
        {"t-0": "paused(2)"},
        {"t-0": "paused(1)"},
        {"t-0": "paused(1)"},
        {},
        {},
        {"t-0": "in progress"},
    ]
    assert reported[3]["answer"] is None
    assert [each.get("error") for each in reported[4:6]] == [None, "IllegalStateException"]


def test_an_abort_waits_until_the_cleaner_has_stopped_and_leaves_the_log_free(
    oracle: Oracle,
) -> None:
    aborted, asked, twice, resumed, done = (
        World()
        .log("a/t-0", TWICE)
        .reported(oracle, GRAB, Abort(), Check(), Abort(), Resume(), DONE)[1:]
    )
    assert (aborted["states"], aborted.get("error")) == ({"t-0": "aborted"}, None)
    assert asked["error"] == "LogCleaningAbortedException"
    assert (twice["error"], resumed["error"]) == ("IllegalStateException",) * 2
    assert (done["states"], done["checkpoints"]["a"]) == ({}, "")


def test_an_abort_of_a_log_that_nobody_cleans_leaves_it_free(oracle: Oracle) -> None:
    (reported,) = World().log("a/t-0", TWICE).reported(oracle, Abort())
    assert (reported["states"], reported.get("error")) == ({}, None)


def test_pauses_balance_when_a_log_is_truncated_while_its_topic_is_deleted(
    oracle: Oracle,
) -> None:
    """Truncation pauses, deletion aborts, then the truncation resumes what has no log any more."""
    cut = TakeStep("a/t-0", Step(TruncateTo(RelativeOffset(offset=1))))
    reported = (
        World()
        .log("a/t-0", TWICE)
        .checkpoint("a", {"t-0": 2})
        .reported(
            oracle,
            AbortAndPause(),
            Abort(),
            RemoveLog(),
            RemoveCheckpoint(),
            cut,
            Resume(),
        )
    )
    assert [each["states"] for each in reported] == [{"t-0": "paused(1)"}] * 5 + [{}]
    assert reported[-1]["checkpoints"]["a"] == text_of({})
    assert not any("error" in each for each in reported)


def test_a_real_round_stops_when_its_log_is_wanted() -> None:
    """The cleaner asks the manager; who aborts goes on when the round has been given up."""
    world = World().log("a/t-0", TWICE)
    with scratch() as folder:
        world.write(folder / "root")
        with Managed(folder / "root", world.run()) as ours:
            manager, partition = ours.manager, ("t", 0)
            make_cleaner = ours.make_cleaner
            waiting = Thread(target=manager.abort_and_pause_cleaning, args=[partition])

            def wanted(log: object, check_done: object) -> object:
                waiting.start()
                while waiting.is_alive() and ours.after(Check()).get("error") is None:
                    waiting.join(0.001)
                return make_cleaner(log, check_done)  # type: ignore[arg-type]

            ours.make_cleaner = wanted  # type: ignore[method-assign,assignment]
            reported = ours.after(WORK)
            waiting.join()
            assert (reported["states"], reported["checkpoints"]["a"]) == ({"t-0": "paused(1)"}, "")
            assert not list((folder / "root/a/t-0").glob("*.cleaned"))


# -------------------------------------------------------------------------------------------- done


@pytest.mark.parametrize("done", [DONE, DoneDeleting()])
def test_done_is_refused_of_a_log_without_a_state_and_of_a_paused_one(
    oracle: Oracle, done: Operation
) -> None:
    first, _, second = World().log("a/t-0", TWICE).reported(oracle, done, AbortAndPause(), done)
    assert (first["error"], first["states"]) == ("IllegalStateException", {})
    assert (second["error"], second["states"]) == ("IllegalStateException", {"t-0": "paused(1)"})
    assert second["checkpoints"]["a"] == ""


def test_done_cleaning_writes_the_checkpoint_of_a_log_in_progress(oracle: Oracle) -> None:
    _, reported = World().log("a/t-0", TWICE).reported(oracle, GRAB, DONE)
    assert (reported["states"], reported["checkpoints"]) == ({}, {"a": CLEAN_UP_TO_2, "b": ""})


def test_done_deleting_frees_a_log_in_progress_and_writes_nothing(oracle: Oracle) -> None:
    _, reported = World().log("a/t-0", TWICE).reported(oracle, DELETABLE, DoneDeleting())
    assert (reported["states"], reported["checkpoints"]) == ({}, dict.fromkeys(DIRS, ""))


@pytest.mark.parametrize("done", [DONE, DoneDeleting()])
def test_done_pauses_an_aborted_log_and_leaves_the_checkpoint(
    oracle: Oracle, done: Operation
) -> None:
    world = World().log("a/t-0", TWICE).checkpoint("a", {"t-0": 1})
    *_, reported = world.reported(oracle, GRAB, AbortAndPause(), done)
    assert reported["states"] == {"t-0": "paused(1)"}
    assert reported["checkpoints"]["a"] == text_of({"t-0": 1})


# ------------------------------------------------------------------------------------- checkpoints


def test_a_row_is_added_to_the_checkpoint_and_removed(oracle: Oracle) -> None:
    world = World().log("a/t-0", TWICE).log("a/u-0", TWICE)
    first, second, third = world.reported(
        oracle,
        UpdateCheckpoint(offset=1),
        UpdateCheckpoint(partition="u-0", offset=2),
        RemoveCheckpoint(),
    )
    assert first["checkpoints"]["a"] == text_of({"t-0": 1})
    assert second["checkpoints"]["a"] == text_of({"t-0": 1, "u-0": 2})
    assert third["checkpoints"]["a"] == text_of({"u-0": 2})


def test_rows_of_partitions_without_a_log_are_dropped_with_any_change(oracle: Oracle) -> None:
    world = World().log("a/t-0", TWICE).checkpoint("a", {"t-0": 1, "gone-3": 7})
    (reported,) = world.reported(oracle, RemoveCheckpoint(partition=None))
    assert reported["checkpoints"]["a"] == text_of({"t-0": 1})


@pytest.mark.parametrize(("offset", "left"), [(0, 0), (1, 1), (2, 2), (3, 2)])
def test_a_truncation_moves_the_checkpoint_only_downward(
    oracle: Oracle, offset: int, left: int
) -> None:
    world = World().log("a/t-0", TWICE).checkpoint("a", {"t-0": 2})
    (reported,) = world.reported(oracle, TruncateCheckpoint(offset=offset))
    assert reported["checkpoints"]["a"] == text_of({"t-0": left})


def test_a_truncation_adds_no_row_and_drops_none_of_a_partition_without_a_log(
    oracle: Oracle,
) -> None:
    world = World().log("a/t-0", TWICE).log("a/u-0", TWICE)
    world.checkpoint("a", {"gone-3": 7, "t-0": 2})
    first, second = world.reported(
        oracle,
        TruncateCheckpoint(partition="u-0", offset=1),
        TruncateCheckpoint(offset=1),
    )
    assert first["checkpoints"]["a"] == text_of({"gone-3": 7, "t-0": 2})
    assert second["checkpoints"]["a"] == text_of({"gone-3": 7, "t-0": 1})


def test_a_truncation_leaves_the_checkpoint_of_a_log_that_is_not_compacted(oracle: Oracle) -> None:
    world = World().log("a/t-0", TWICE, policy="delete").checkpoint("a", {"t-0": 2})
    (reported,) = world.reported(oracle, TruncateCheckpoint(offset=1))
    assert reported["checkpoints"]["a"] == CLEAN_UP_TO_2


def test_a_log_that_moves_takes_its_row_and_its_mark_along(oracle: Oracle) -> None:
    world = World().log("a/t-0", TWICE).log("a/u-0", TWICE)
    world.checkpoint("a", {"t-0": 2, "u-0": 1})
    _, reported = world.reported(oracle, MarkUncleanable(), AlterDir(to="b"))
    assert reported["checkpoints"] == {"a": text_of({"u-0": 1}), "b": CLEAN_UP_TO_2}
    assert [reported["uncleanable"][each]["partitions"] for each in DIRS] == [[], ["t-0"]]


def test_a_log_without_a_row_moves_without_one(oracle: Oracle) -> None:
    (reported,) = World().log("a/t-0", TWICE).reported(oracle, AlterDir(to="b"))
    assert reported["checkpoints"] == {"a": "", "b": ""}


def test_a_failed_log_dir_is_neither_read_nor_written(oracle: Oracle) -> None:
    world = World().log("a/t-0", TWICE).log("b/u-0", TWICE)
    world.checkpoint("a", {"t-0": 1}).checkpoint("b", {"u-0": 1})
    failed = DirFailure()
    *_, grabbed, updated = world.reported(oracle, failed, GRAB, UpdateCheckpoint(offset=2))
    assert grabbed["answer"]["first_dirty_offset"] == 0  # dirtier, without its checkpoint
    assert updated["checkpoints"] == {"a": text_of({"t-0": 1}), "b": text_of({"u-0": 1})}


def test_a_checkpoint_that_cannot_be_read_takes_its_log_dir_offline(oracle: Oracle) -> None:
    world = World().log("a/t-0", TWICE).log("b/u-0", TWICE).checkpoint("b", {"u-0": 1})
    torn = WriteCheckpoint("a", "0\n2\nt 0 1\n")
    _, grabbed, truncated = world.reported(oracle, torn, GRAB, TruncateCheckpoint(offset=0))
    assert (grabbed["answer"]["partition"], grabbed["offline"]) == ("t-0", ["a"])
    assert truncated["error"] == "KafkaStorageException"


# ------------------------------------------------------------------------------------- uncleanable


def test_two_damaged_partitions_become_uncleanable_and_are_counted_with_their_bytes(
    oracle: Oracle,
) -> None:
    """One cannot even be looked at; of the other the cleaner dies; the third is cleaned."""
    world = World().log("a/t-0", "(x) | (x) |").log("a/u-0", "(x) (x) | (x) |")
    world.log("a/v-0", TWICE).checkpoint("a", {"t-0": 0})
    world.damaged("a/t-0", LENGTH, THREE).damaged("a/u-0", ONE + LENGTH, THREE)
    first, second, third, last = world.reported(oracle, WORK, WORK, WORK, WORK)
    assert first["uncleanable"]["a"] == {"partitions": ["t-0"], "count": 1, "bytes": 2 * ONE}
    assert second["uncleanable"]["a"] == {
        "partitions": ["t-0", "u-0"],
        "count": 2,
        "bytes": 5 * ONE,
    }
    assert second["checkpoints"]["a"] == text_of({"t-0": 0, "u-0": 0})
    assert third["checkpoints"]["a"] == text_of({"t-0": 0, "u-0": 0, "v-0": 2})
    assert last["uncleanable"] == second["uncleanable"]
    assert (last["states"], last["uncleanable"]["b"]["count"]) == ({}, 0)


def test_an_uncleanable_partition_is_forgotten_when_its_log_is_deleted(oracle: Oracle) -> None:
    world = World().log("a/t-0", TWICE).log("a/u-0", TWICE)
    *_, reported = world.reported(
        oracle,
        MarkUncleanable(),
        MarkUncleanable(partition="u-0"),
        RemoveLog(),
        Maintain(),
    )
    assert reported["uncleanable"]["a"]["partitions"] == ["u-0"]


def test_a_cleaner_thread_cleans_writes_how_far_and_deletes_below_the_log_start(
    oracle: Oracle,
) -> None:
    world = World().log("a/t-0", "(x) | (x) | (x) |")
    start = TakeStep("a/t-0", Step(LogStartOffset(RelativeOffset(offset=3))))
    cleaned, _, deleted = world.reported(oracle, WORK, start, WORK)
    assert (cleaned["checkpoints"]["a"], cleaned["states"]) == (text_of({"t-0": 3}), {})
    assert (deleted["checkpoints"]["a"], deleted["states"]) == (text_of({"t-0": 3}), {})
