"""The long tests run only when asked for by their marker: `pytest -m soak`."""

from pathlib import Path

import pytest


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "soak" in config.getoption("markexpr"):
        return
    here = Path(__file__).parent
    long = [each for each in items if here in each.path.parents and each.get_closest_marker("soak")]
    config.hook.pytest_deselected(items=long)
    items[:] = [each for each in items if each not in long]
