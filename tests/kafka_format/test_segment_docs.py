"""The drawings of docs/formats/segment.md and legacy.md are bytes of golden files."""

import re
from pathlib import Path

import pytest

from tests import golden

DOCS = Path(__file__).parents[2] / "docs" / "formats"


@pytest.mark.parametrize(
    ("page", "pack", "file", "position"),
    [
        ("segment.md", "unclean-4.3.1", "transactions-0/00000000000000000005.log", 251),
        ("legacy.md", "legacy-2.8.2", "magic-1.compacted-0/00000000000000000040.log", 0),
    ],
)
def test_a_drawing_is_what_the_broker_wrote(page: str, pack: str, file: str, position: int) -> None:
    text = (DOCS / page).read_text("utf-8")
    assert file in text
    assert pack in text
    drawn = bytes.fromhex(re.search(r"```hex\n(.*?)```", text, re.DOTALL).group(1))
    data = (golden.shared(pack) / "data" / file).read_bytes()
    assert data[position : position + len(drawn)] == drawn
    size = int.from_bytes(drawn[8:12], "big") + 12
    assert len(drawn) == size
