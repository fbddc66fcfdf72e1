"""Kafka's LogCleanerManager and ours through the same drawn calls, threads and refusals."""

import random
from typing import Any

from tests.kafka_log.cleaner.managed import DIRS, Operation, World, batch, compare, text_of
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
    at: dict[str, Any] = {"partition": name, "dir": directory}
    draws: list[tuple[int, Operation]] = [
        (4, {"do": "grab", "time": START + rng.choice((0, 0, 5000))}),
        (3, {"do": "work"}),
        (2, {"do": "pause_non_compacted"}),
        (2, {"do": "deletable"}),
        (3, {"do": "abort", "partition": name}),
        (4, {"do": "abort_and_pause", "partition": name}),
        (5, {"do": "resume", "partition": name}),
        (2, {"do": "check", "partition": name}),
        (5, {"do": "done_cleaning", "offset": rng.randrange(12), **at}),
        (4, {"do": "done_deleting", "partition": name}),
        (1, {"do": "mark_uncleanable", **at}),
        (1, {"do": "maintain"}),
        (2, {"do": "update_checkpoint", "offset": rng.randrange(12), **at}),
        (1, {"do": "update_checkpoint", "offset": 7, "partition": NO_LOG, "dir": directory}),
        (1, {"do": "remove_checkpoint", **at}),
        (1, {"do": "remove_checkpoint", "dir": directory}),
        (2, {"do": "truncate_checkpoint", "offset": rng.randrange(12), **at}),
        (1, {"do": "alter_dir", "to": rng.choice(DIRS), **at}),
        (1, {"do": "remove_log", "partition": name}),
        (2, {"do": "add_log", "partition": name}),
        (4, {"do": "log", "log": place, "step": _step(rng, world, place)}),
    ]
    if rng.random() < 0.03:
        draws = [
            (1, {"do": "dir_failure", "dir": directory}),
            (1, {"do": "write_checkpoint", "dir": directory, "text": "0\n2\nt 0 1\n"}),
            (1, {"do": "write_checkpoint", "dir": directory, "text": rng.choice(("", "0\n", "1"))}),
            (2, {"do": "write_checkpoint", "dir": directory, "text": text_of(_rows(rng, "a"))}),
        ]
    return rng.choices([each for _, each in draws], [weight for weight, _ in draws])[0]


def _step(rng: random.Random, world: World, place: str) -> dict[str, Any]:
    policy = rng.choice(("compact", "delete", "compact,delete"))
    return rng.choice(
        (
            {"do": "append", "bytes": batch(*rng.choices("xyz", k=2)), "leader_epoch": 0},
            {"do": "roll"},
            {"do": "high_watermark"},
            {"do": "truncate_to", "offset": rng.randrange(8)},
            {"do": "log_start_offset", "from": "high_watermark", "delta": -rng.randrange(3)},
            {"do": "update_config", "config": world.configs[place] | {"cleanup.policy": policy}},
            {"do": "nothing", "time": START + rng.randrange(3000)},
        )
    ) | {"may_fail": True}


def test_drawn_calls_lead_to_the_same_states_refusals_and_checkpoints(oracle: Oracle) -> None:
    cases = []
    for seed in range(SEEDS):
        rng = random.Random(seed)
        world = draw_world(rng)
        cases.append((world, [draw_operation(rng, world) for _ in range(CALLS)]))
    told = [each for case in compare(oracle, cases) for each in case]
    refused = {each["error"] for each in told if "error" in each}
    assert refused == {
        "IllegalStateException",
        "LogCleaningAbortedException",
        "LogCleaningException",
        "KafkaStorageException",
        "NullPointerException",
    }
    states = {state for each in told for state in each["states"].values()}
    assert {"in progress", "aborted", "paused(1)", "paused(2)"} <= states
    assert any(each["uncleanable"]["a"]["bytes"] for each in told)
    assert any(each["offline"] for each in told)
