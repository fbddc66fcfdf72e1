"""Kafka's LogCleanerManager and ours through the same drawn calls, threads and refusals."""

import random
from dataclasses import replace

from tests.kafka_log.cleaner.managed import DIRS, World, batch, compare, text_of
from tests.kafka_log.cleaner.operations import (
    Abort,
    AbortAndPause,
    AddLog,
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
from tests.kafka_log.steps import (
    Append,
    HighWatermark,
    LogStartOffset,
    Nothing,
    RelativeOffset,
    Roll,
    Step,
    TruncateTo,
    UpdateConfig,
)
from tests.kafka_log.workload import START
from tests.oracle.client import Oracle

SEEDS = 40
CALLS = 50
PLACES = ("a/t-0", "a/t-1", "a/u-0", "b/u-1", "b/v-10")
NAMES = tuple(place.split("/")[1] for place in PLACES)
NO_LOG = "gone-3"
LENGTHS = (8, 8 + len(batch("x", "y")))
"""Where the length of the first batch lies, and that of the second."""


def draw_world(rng: random.Random) -> World:
    world = World(io_buffer_size=rng.choice((200, 1 << 16)))
    for place in PLACES:
        segments = " | ".join(
            " ".join(f"({rng.choice('xyz')},{rng.choice('xyz')})" for _ in range(rng.randint(1, 3)))
            for _ in range(rng.randint(1, 4))
        )
        world.log(
            place,
            segments,
            policy=rng.choice(("compact", "compact", "compact,delete", "delete")),
            min_cleanable_dirty_ratio=rng.choice((0.0, 0.5)),
            retention_ms=rng.choice((-1, -1, 1000)),
        )
        if segments.count("|") > 1 and rng.random() < 0.3:
            batches = segments.split("|")[0].count("(")
            world.damaged(place, rng.choice(LENGTHS[:batches]), b"\0\0\0\3")
    for directory in DIRS:
        if rng.random() < 0.6:
            world.checkpoint(directory, _rows(rng, directory))
    return world


def _rows(rng: random.Random, directory: str) -> dict[str, int]:
    names = [place.split("/")[1] for place in PLACES if place[0] == directory]
    return {name: rng.randrange(20) for name in rng.sample([*names, f"{directory}-9"], 2)}


def draw_operation(rng: random.Random, world: World) -> Operation:
    place = rng.choice(PLACES)
    directory, name = place.split("/")
    draws: list[tuple[int, Operation]] = [
        (4, Grab(time=START + rng.choice((0, 0, 5000)))),
        (3, Work()),
        (2, PauseNonCompacted()),
        (2, Deletable()),
        (3, Abort(name)),
        (4, AbortAndPause(name)),
        (5, Resume(name)),
        (2, Check(name)),
        (5, DoneCleaning(name, directory, rng.randrange(12))),
        (4, DoneDeleting(name)),
        (1, MarkUncleanable(name, directory)),
        (1, Maintain()),
        (2, UpdateCheckpoint(name, directory, rng.randrange(12))),
        (1, UpdateCheckpoint(NO_LOG, directory, 7)),
        (1, RemoveCheckpoint(name, directory)),
        (1, RemoveCheckpoint(None, directory)),
        (2, TruncateCheckpoint(name, directory, rng.randrange(12))),
        (1, AlterDir(name, directory, to=rng.choice(DIRS))),
        (1, RemoveLog(name)),
        (2, AddLog(name)),
        (4, TakeStep(place, _step(rng, world, place))),
    ]
    if rng.random() < 0.03:
        draws = [
            (1, DirFailure(directory)),
            (1, WriteCheckpoint(directory, "0\n2\nt 0 1\n")),
            (1, WriteCheckpoint(directory, rng.choice(("", "0\n", "1")))),
            (2, WriteCheckpoint(directory, text_of(_rows(rng, "a")))),
        ]
    return rng.choices([each for _, each in draws], [weight for weight, _ in draws])[0]


def _step(rng: random.Random, world: World, place: str) -> Step:
    policy = rng.choice(("compact", "delete", "compact,delete"))
    steps = (
        Step(Append(data=batch(*rng.choices("xyz", k=2)), leader_epoch=0)),
        Step(Roll()),
        Step(HighWatermark()),
        Step(TruncateTo(RelativeOffset(offset=rng.randrange(8)))),
        Step(LogStartOffset(RelativeOffset("high_watermark", -rng.randrange(3)))),
        Step(UpdateConfig(world.configs[place] | {"cleanup.policy": policy})),
        Step(Nothing(), time=START + rng.randrange(3000)),
    )
    return replace(rng.choice(steps), may_fail=True)


def test_drawn_calls_lead_to_the_same_states_refusals_and_checkpoints(oracle: Oracle) -> None:
    cases = []
    for seed in range(SEEDS):
        rng = random.Random(seed)
        world = draw_world(rng)
        cases.append((world, [draw_operation(rng, world) for _ in range(CALLS)]))
    reported = [each for case in compare(oracle, cases) for each in case]
    refused = {each["error"] for each in reported if "error" in each}
    assert refused == {
        "IllegalStateException",
        "LogCleaningAbortedException",
        "LogCleaningException",
        "KafkaStorageException",
        "NullPointerException",
    }
    states = {state for each in reported for state in each["states"].values()}
    assert {"in progress", "aborted", "paused(1)", "paused(2)"} <= states
    assert any(each["uncleanable"]["a"]["bytes"] for each in reported)
    assert any(each["offline"] for each in reported)
