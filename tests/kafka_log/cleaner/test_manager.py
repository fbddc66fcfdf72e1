"""Which logs are cleaned, by whom, and what is written of it: literals, and Kafka's beside them."""

from threading import Thread

import pytest

from kafka_log.cleaner.errors import LogCleaningError
from tests.kafka_log.cleaner.managed import DIRS, Managed, Operation, World, batch, text_of
from tests.kafka_log.compare import scratch
from tests.kafka_log.workload import START
from tests.oracle.client import Oracle

ONE = len(batch("x"))
TWICE = "(x) | (x) |"
THREE = b"\0\0\0\3"  # a batch is longer than that
LENGTH = 8  # of a batch, where it lies


def of(name: str, **more: object) -> Operation:
    """An operation on log t-0 in dir a, unless another is named."""
    return {"do": name, "partition": "t-0", "dir": "a"} | more


GRAB: Operation = {"do": "grab"}
WORK: Operation = {"do": "work"}
DELETABLE: Operation = {"do": "deletable"}
DONE = of("done_cleaning", offset=2)
CLEAN_UP_TO_2 = text_of({"t-0": 2})

# ---------------------------------------------------------------------------- which log is taken


def test_a_failure_to_tell_what_is_dirty_names_the_partition(oracle: Oracle) -> None:
    world = World().log("a/t-0", TWICE).log("b/broken-1", TWICE)
    world.damaged("b/broken-1", LENGTH, THREE)
    (told,) = world.told(oracle, GRAB)
    assert (told["error"], told["states"]) == ("LogCleaningException", {})
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
    first, second, third = world.told(oracle, GRAB, GRAB, GRAB)
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
    *_, told = world.told(oracle, of("mark_uncleanable"), GRAB)
    assert told["answer"]["partition"] == "u-0"


def test_a_partition_in_progress_is_not_taken(oracle: Oracle) -> None:
    world = World().log("a/t-0", TWICE).log("b/u-0", TWICE)
    *_, told = world.told(oracle, GRAB, GRAB)
    assert told["answer"]["partition"] == "u-0"


def test_partitions_uncleanable_and_in_progress_are_not_taken_together(oracle: Oracle) -> None:
    world = World().log("a/t-0", TWICE).log("b/u-0", TWICE).log("b/v-0", TWICE)
    *_, third, fourth = world.told(oracle, of("mark_uncleanable"), GRAB, GRAB, GRAB)
    assert third["answer"]["partition"] == "v-0"
    assert fourth["answer"] is None


def test_a_mark_in_another_log_dir_does_not_make_a_partition_uncleanable(oracle: Oracle) -> None:
    *_, told = World().log("a/t-0", TWICE).told(oracle, of("mark_uncleanable", dir="b"), GRAB)
    assert told["answer"]["partition"] == "t-0"


@pytest.mark.parametrize("offset", [0, 99])
@pytest.mark.parametrize("batches", ["(x) | (x) (x)", "(x) (x) |"])
def test_a_checkpoint_outside_of_the_log_is_written_anew_though_the_log_is_not_taken(
    oracle: Oracle, offset: int, batches: str
) -> None:
    world = World().log("a/t-0", batches, min_cleanable_dirty_ratio=1.0)
    world.checkpoint("a", {"t-0": offset})
    start = {"do": "log", "log": "a/t-0", "step": {"do": "log_start_offset", "offset": 1}}
    _, told = world.told(oracle, start, GRAB)
    assert told["answer"] is None
    assert told["checkpoints"]["a"] == text_of({"t-0": 1})


@pytest.mark.parametrize(
    ("policy", "deletable"), [("delete", []), ("compact", ["t-0"]), ("compact,delete", ["t-0"])]
)
def test_the_cleaner_deletes_from_compacted_logs_alone(
    oracle: Oracle, policy: str, deletable: list[str]
) -> None:
    (told,) = World().log("a/t-0", TWICE, policy=policy).told(oracle, DELETABLE)
    assert told["answer"] == deletable
    assert told["states"] == dict.fromkeys(deletable, "in progress")


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_the_cleaner_does_not_delete_from_an_uncleanable_log(oracle: Oracle, policy: str) -> None:
    world = World().log("a/t-0", TWICE, policy=policy)
    *_, told = world.told(oracle, of("mark_uncleanable"), DELETABLE)
    assert (told["answer"], told["states"]) == ([], {})


def test_the_cleaner_does_not_delete_from_a_log_that_is_being_cleaned(oracle: Oracle) -> None:
    *_, told = World().log("a/t-0", TWICE).told(oracle, GRAB, DELETABLE)
    assert told["answer"] == []


# ------------------------------------------------------------------------------------------ paused


def policy(new: str, world: World) -> Operation:
    config = world.configs["a/t-0"] | {"cleanup.policy": new}
    return {"do": "log", "log": "a/t-0", "step": {"do": "update_config", "config": config}}


def test_a_log_that_is_paused_for_retention_is_not_cleaned_though_it_is_compacted_now(
    oracle: Oracle,
) -> None:
    world = World().log("a/t-0", TWICE, policy="delete")
    paused, _, grabbed, deletable, _, again = world.told(
        oracle,
        {"do": "pause_non_compacted"},
        policy("compact", world),
        GRAB,
        DELETABLE,
        of("resume"),
        GRAB,
    )
    assert (paused["answer"], paused["states"]) == (["t-0"], {"t-0": "paused(1)"})
    assert (grabbed["answer"], deletable["answer"]) == (None, [])
    assert again["answer"]["partition"] == "t-0"


def test_a_log_that_is_being_cleaned_is_not_paused_for_retention_though_it_is_not_compacted_now(
    oracle: Oracle,
) -> None:
    world = World().log("a/t-0", TWICE)
    pause: Operation = {"do": "pause_non_compacted"}
    *_, during, done, after = world.told(oracle, GRAB, policy("delete", world), pause, DONE, pause)
    assert (during["answer"], during["states"]) == ([], {"t-0": "in progress"})
    assert done["checkpoints"]["a"] == CLEAN_UP_TO_2
    assert after["answer"] == ["t-0"]


def test_each_pause_takes_a_resume_and_one_more_is_refused(oracle: Oracle) -> None:
    told = (
        World()
        .log("a/t-0", TWICE)
        .told(
            oracle,
            of("abort_and_pause"),
            of("abort_and_pause"),
            of("resume"),
            GRAB,
            of("resume"),
            of("resume"),
            GRAB,
        )
    )
    assert [each["states"] for each in told] == [
        {"t-0": "paused(1)"},
        {"t-0": "paused(2)"},
        {"t-0": "paused(1)"},
        {"t-0": "paused(1)"},
        {},
        {},
        {"t-0": "in progress"},
    ]
    assert told[3]["answer"] is None
    assert [each.get("error") for each in told[4:6]] == [None, "IllegalStateException"]


def test_an_abort_waits_until_the_cleaner_has_stopped_and_leaves_the_log_free(
    oracle: Oracle,
) -> None:
    aborted, asked, twice, resumed, done = (
        World()
        .log("a/t-0", TWICE)
        .told(oracle, GRAB, of("abort"), of("check"), of("abort"), of("resume"), DONE)[1:]
    )
    assert (aborted["states"], aborted.get("error")) == ({"t-0": "aborted"}, None)
    assert asked["error"] == "LogCleaningAbortedException"
    assert (twice["error"], resumed["error"]) == ("IllegalStateException",) * 2
    assert (done["states"], done["checkpoints"]["a"]) == ({}, "")


def test_an_abort_of_a_log_that_nobody_cleans_leaves_it_free(oracle: Oracle) -> None:
    (told,) = World().log("a/t-0", TWICE).told(oracle, of("abort"))
    assert (told["states"], told.get("error")) == ({}, None)


def test_pauses_balance_when_a_log_is_truncated_while_its_topic_is_deleted(
    oracle: Oracle,
) -> None:
    """Truncation pauses, deletion aborts, then the truncation resumes what has no log any more."""
    cut = {"do": "log", "log": "a/t-0", "step": {"do": "truncate_to", "offset": 1}}
    told = (
        World()
        .log("a/t-0", TWICE)
        .checkpoint("a", {"t-0": 2})
        .told(
            oracle,
            of("abort_and_pause"),
            of("abort"),
            of("remove_log"),
            of("remove_checkpoint"),
            cut,
            of("resume"),
        )
    )
    assert [each["states"] for each in told] == [{"t-0": "paused(1)"}] * 5 + [{}]
    assert told[-1]["checkpoints"]["a"] == text_of({})
    assert not any("error" in each for each in told)


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
                while waiting.is_alive() and ours.after(of("check")).get("error") is None:
                    waiting.join(0.001)
                return make_cleaner(log, check_done)  # type: ignore[arg-type]

            ours.make_cleaner = wanted  # type: ignore[method-assign,assignment]
            told = ours.after(WORK)
            waiting.join()
            assert (told["states"], told["checkpoints"]["a"]) == ({"t-0": "paused(1)"}, "")
            assert not list((folder / "root/a/t-0").glob("*.cleaned"))


# -------------------------------------------------------------------------------------------- done


@pytest.mark.parametrize("done", [DONE, of("done_deleting")])
def test_done_is_refused_of_a_log_without_a_state_and_of_a_paused_one(
    oracle: Oracle, done: Operation
) -> None:
    first, _, second = World().log("a/t-0", TWICE).told(oracle, done, of("abort_and_pause"), done)
    assert (first["error"], first["states"]) == ("IllegalStateException", {})
    assert (second["error"], second["states"]) == ("IllegalStateException", {"t-0": "paused(1)"})
    assert second["checkpoints"]["a"] == ""


def test_done_cleaning_writes_the_checkpoint_of_a_log_in_progress(oracle: Oracle) -> None:
    _, told = World().log("a/t-0", TWICE).told(oracle, GRAB, DONE)
    assert (told["states"], told["checkpoints"]) == ({}, {"a": CLEAN_UP_TO_2, "b": ""})


def test_done_deleting_frees_a_log_in_progress_and_writes_nothing(oracle: Oracle) -> None:
    _, told = World().log("a/t-0", TWICE).told(oracle, DELETABLE, of("done_deleting"))
    assert (told["states"], told["checkpoints"]) == ({}, dict.fromkeys(DIRS, ""))


@pytest.mark.parametrize("done", [DONE, of("done_deleting")])
def test_done_pauses_an_aborted_log_and_leaves_the_checkpoint(
    oracle: Oracle, done: Operation
) -> None:
    world = World().log("a/t-0", TWICE).checkpoint("a", {"t-0": 1})
    *_, told = world.told(oracle, GRAB, of("abort_and_pause"), done)
    assert told["states"] == {"t-0": "paused(1)"}
    assert told["checkpoints"]["a"] == text_of({"t-0": 1})


# ------------------------------------------------------------------------------------- checkpoints


def test_a_row_is_added_to_the_checkpoint_and_removed(oracle: Oracle) -> None:
    world = World().log("a/t-0", TWICE).log("a/u-0", TWICE)
    first, second, third = world.told(
        oracle,
        of("update_checkpoint", offset=1),
        of("update_checkpoint", partition="u-0", offset=2),
        of("remove_checkpoint"),
    )
    assert first["checkpoints"]["a"] == text_of({"t-0": 1})
    assert second["checkpoints"]["a"] == text_of({"t-0": 1, "u-0": 2})
    assert third["checkpoints"]["a"] == text_of({"u-0": 2})


def test_rows_of_partitions_without_a_log_are_dropped_with_any_change(oracle: Oracle) -> None:
    world = World().log("a/t-0", TWICE).checkpoint("a", {"t-0": 1, "gone-3": 7})
    (told,) = world.told(oracle, {"do": "remove_checkpoint", "dir": "a"})
    assert told["checkpoints"]["a"] == text_of({"t-0": 1})


@pytest.mark.parametrize(("offset", "left"), [(0, 0), (1, 1), (2, 2), (3, 2)])
def test_a_truncation_moves_the_checkpoint_only_downward(
    oracle: Oracle, offset: int, left: int
) -> None:
    world = World().log("a/t-0", TWICE).checkpoint("a", {"t-0": 2})
    (told,) = world.told(oracle, of("truncate_checkpoint", offset=offset))
    assert told["checkpoints"]["a"] == text_of({"t-0": left})


def test_a_truncation_adds_no_row_and_drops_none_of_a_partition_without_a_log(
    oracle: Oracle,
) -> None:
    world = World().log("a/t-0", TWICE).log("a/u-0", TWICE)
    world.checkpoint("a", {"gone-3": 7, "t-0": 2})
    first, second = world.told(
        oracle,
        of("truncate_checkpoint", partition="u-0", offset=1),
        of("truncate_checkpoint", offset=1),
    )
    assert first["checkpoints"]["a"] == text_of({"gone-3": 7, "t-0": 2})
    assert second["checkpoints"]["a"] == text_of({"gone-3": 7, "t-0": 1})


def test_a_truncation_leaves_the_checkpoint_of_a_log_that_is_not_compacted(oracle: Oracle) -> None:
    world = World().log("a/t-0", TWICE, policy="delete").checkpoint("a", {"t-0": 2})
    (told,) = world.told(oracle, of("truncate_checkpoint", offset=1))
    assert told["checkpoints"]["a"] == CLEAN_UP_TO_2


def test_a_log_that_moves_takes_its_row_and_its_mark_along(oracle: Oracle) -> None:
    world = World().log("a/t-0", TWICE).log("a/u-0", TWICE)
    world.checkpoint("a", {"t-0": 2, "u-0": 1})
    _, told = world.told(oracle, of("mark_uncleanable"), of("alter_dir", to="b"))
    assert told["checkpoints"] == {"a": text_of({"u-0": 1}), "b": CLEAN_UP_TO_2}
    assert [told["uncleanable"][each]["partitions"] for each in DIRS] == [[], ["t-0"]]


def test_a_log_without_a_row_moves_without_one(oracle: Oracle) -> None:
    (told,) = World().log("a/t-0", TWICE).told(oracle, of("alter_dir", to="b"))
    assert told["checkpoints"] == {"a": "", "b": ""}


def test_a_failed_log_dir_is_neither_read_nor_written(oracle: Oracle) -> None:
    world = World().log("a/t-0", TWICE).log("b/u-0", TWICE)
    world.checkpoint("a", {"t-0": 1}).checkpoint("b", {"u-0": 1})
    failed: Operation = {"do": "dir_failure", "dir": "a"}
    *_, grabbed, updated = world.told(oracle, failed, GRAB, of("update_checkpoint", offset=2))
    assert grabbed["answer"]["first_dirty_offset"] == 0  # dirtier, without its checkpoint
    assert updated["checkpoints"] == {"a": text_of({"t-0": 1}), "b": text_of({"u-0": 1})}


def test_a_checkpoint_that_cannot_be_read_takes_its_log_dir_offline(oracle: Oracle) -> None:
    world = World().log("a/t-0", TWICE).log("b/u-0", TWICE).checkpoint("b", {"u-0": 1})
    torn: Operation = {"do": "write_checkpoint", "dir": "a", "text": "0\n2\nt 0 1\n"}
    _, grabbed, truncated = world.told(oracle, torn, GRAB, of("truncate_checkpoint", offset=0))
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
    first, second, third, last = world.told(oracle, WORK, WORK, WORK, WORK)
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
    *_, told = world.told(
        oracle,
        of("mark_uncleanable"),
        of("mark_uncleanable", partition="u-0"),
        of("remove_log"),
        {"do": "maintain"},
    )
    assert told["uncleanable"]["a"]["partitions"] == ["u-0"]


def test_a_cleaner_thread_cleans_writes_how_far_and_deletes_below_the_log_start(
    oracle: Oracle,
) -> None:
    world = World().log("a/t-0", "(x) | (x) | (x) |")
    start = {"do": "log", "log": "a/t-0", "step": {"do": "log_start_offset", "offset": 3}}
    cleaned, _, deleted = world.told(oracle, WORK, start, WORK)
    assert (cleaned["checkpoints"]["a"], cleaned["states"]) == (text_of({"t-0": 3}), {})
    assert (deleted["checkpoints"]["a"], deleted["states"]) == (text_of({"t-0": 3}), {})
