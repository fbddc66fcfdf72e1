"""The maps in the packages' docstrings are those of their files."""

import importlib
import re
from pathlib import Path

import pytest


@pytest.mark.parametrize("package", ["", ".columns", ".explain", ".parallel"])
def test_each_package_lists_its_modules(package: str) -> None:
    room = importlib.import_module(f"kafka_log.cleaner{package}")
    folder = Path(str(room.__file__)).parent
    files = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    folders = {f"{path.parent.name}/" for path in folder.glob("*/__init__.py")}
    listed = re.findall(r"^ *(\w+/?)  +\S", str(room.__doc__), re.MULTILINE)
    assert sorted(listed) == sorted(files | folders)
