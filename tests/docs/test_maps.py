"""The map in each package's docstring lists its modules."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = sorted(
    path.parent
    for name in ("jobs", "kafka_forensics", "kafka_format", "kafka_log", "pipelines")
    for path in (ROOT / name).rglob("__init__.py")
)


@pytest.mark.parametrize("package", PACKAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_package_lists_its_modules(package):
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""
    modules = {path.stem for path in package.glob("*.py")} - {"__init__"}
    packages = {f"{path.parent.name}/" for path in package.glob("*/__init__.py")}
    listed = re.findall(r"^ *(\w+/?)  +\S", docstring, re.MULTILINE)
    assert sorted(set(listed)) == sorted(modules | packages)
