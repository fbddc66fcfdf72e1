"""Files that are huge and take no place: zeros that nobody wrote."""

import os
from functools import partial
from pathlib import Path

from tests.hostile.case import DAMAGED, QUICK, Case
from tests.hostile.cases.special_files import PLACES

SIZES = {"8GiB": 8 * 2**30, "1TiB": 2**40, "2^31": 2**31, "2^31-1": 2**31 - 1}


def _hole(size: int, path: Path) -> None:
    path.touch()
    os.truncate(path, size)


CASES = [
    Case(
        name=f"sparse/{where}-{what}",
        build=partial(place, partial(_hole, size)),
        codes=DAMAGED,
        seconds=QUICK,
    )
    for where, place in PLACES.items()
    for what, size in SIZES.items()
]
