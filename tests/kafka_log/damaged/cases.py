"""Which directory is damaged, in which ways, and how it is then opened: by a seed."""

import random
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kafka_log.damaged.left_overs import (
    folder_inside,
    interrupted_swap,
    left_over,
    odd_name,
)
from tests.kafka_log.damaged.logs import (
    cut_log,
    flip_log,
    garbage_tail,
    lose_segment,
    rearrange_batches,
    zero_tail,
)
from tests.kafka_log.damaged.side_files import (
    Damage,
    leader_epochs,
    lose_all_of_a_kind,
    partition_metadata,
    side_file,
    snapshot_elsewhere,
    transaction_index_entry,
)
from tests.kafka_log.damaged.sources import Source
from tests.oracle.logs import START
from tests.show import command


@dataclass(slots=True, kw_only=True)
class Case:
    """What is done to which directory, and how it is opened."""

    seed: int
    source: Source
    directory: str
    arguments: dict[str, Any]
    damage: list[str] = field(default_factory=list)
    how_to_see: str = ""
    """The end of a failure's message: what shows a drawn case."""

    def __str__(self) -> str:
        opened = {key: value for key, value in self.arguments.items() if key != "config"}
        return f"seed {self.seed}: {self.source.name}, {'; '.join(self.damage)}; {opened}"


def draw_case(seed: int, sources: Sequence[Source]) -> Case:
    """Source and arguments; `make` draws the damage, which depends on what lies there."""
    rng = random.Random(f"case {seed}")
    source = rng.choice(sources)
    end = source.log_end_offset
    interesting = [0, 0, end, *source.bases()]
    recovery_point = rng.choice([*interesting, rng.randrange(end + 2), end + 5, 2**63 - 1])
    log_start = rng.choice([0] * 8 + [rng.choice(source.bases()), rng.randrange(end + 2), end + 3])
    if source.name == "trimmed" and rng.random() < 0.7:
        log_start = end * 2 // 3
    directory = "orders-0"
    if rng.random() < 0.06:
        directory += ".0123456789abcdef0123456789abcdef" + rng.choice(
            ("-delete", "-future", "-stray")
        )
    arguments = {
        "config": source.settings,
        "time": START + rng.choice((0, 3_600_000)),
        "clean_shutdown": rng.random() < 0.35,
        "recovery_point": recovery_point,
        "log_start_offset": log_start,
    }
    if rng.random() < 0.15:
        arguments["producer_id_expiration_ms"] = rng.choice((1, 20_000, 3_590_000))
    return Case(
        seed=seed,
        source=source,
        directory=directory,
        arguments=arguments,
        how_to_see=f"; both sides of it: {command('recovery', seed)}",
    )


def make(case: Case, folder: Path) -> Path:
    """The damaged directory, in `folder`; `case.damage` then tells what was done."""
    target = folder / case.directory
    shutil.copytree(case.source.path, target)
    rng = random.Random(f"damage {case.seed}")
    case.damage.clear()
    for _ in range(rng.choice((0, 1, 1, 1, 1, 2, 2, 3, 4))):
        damage = rng.choices(DAMAGES, WEIGHTS)[0]
        done = damage(target, rng, case.source)
        if done:
            case.damage.append(done)
    if not case.damage:
        case.damage.append("no damage")
    return target


DAMAGES: tuple[Damage, ...] = (
    cut_log,
    flip_log,
    zero_tail,
    garbage_tail,
    rearrange_batches,
    lose_segment,
    side_file(".index"),
    side_file(".timeindex"),
    side_file(".txnindex"),
    side_file(".snapshot"),
    lose_all_of_a_kind,
    transaction_index_entry,
    snapshot_elsewhere,
    leader_epochs,
    partition_metadata,
    left_over,
    odd_name,
    folder_inside,
    interrupted_swap,
)
WEIGHTS = (8, 10, 6, 6, 5, 4, 6, 6, 6, 6, 5, 3, 4, 5, 1, 6, 2, 1, 9)
