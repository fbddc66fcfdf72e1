"""Maps are complete: of modules in each package's docstring, and of tests in CONTRIBUTING.md."""

import ast
import re
from fnmatch import fnmatch
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


def rows_of_contributing() -> dict[str, list[str]]:
    """The patterns of modules in CONTRIBUTING.md, each with the test files of its row."""
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8").split("## Where is it tested?")[1]
    rows = re.findall(r"^\| (`.+?) \| (.+) \|$", page, re.MULTILINE)
    return {
        pattern: re.findall(r"`([\w/]+\.py)`", tests)
        for modules, tests in rows
        for pattern in re.findall(r"`([\w/*]+)`", modules)
    }


def has_test_file(module: Path) -> bool:
    folder = ROOT / "tests" / module.parent
    is_alone = (folder / f"test_{module.stem}.py").exists()
    return is_alone or any(folder.glob(f"test_{module.stem}_*.py"))


def test_every_module_has_a_test_file_or_a_row_that_names_one():
    modules = [
        path.relative_to(ROOT)
        for name in ("kafka_format", "kafka_log", "pipelines")
        for path in (ROOT / name).rglob("*.py")
        if path.stem != "__init__"
    ]
    without = [str(each.with_suffix("")) for each in modules if not has_test_file(each)]
    patterns = list(rows_of_contributing())
    assert [each for each in without if not any(fnmatch(each, by) for by in patterns)] == []
    assert [by for by in patterns if not any(fnmatch(each, by) for each in without)] == []


def test_the_test_files_that_a_row_names_exist():
    for pattern, tests in rows_of_contributing().items():
        assert tests, pattern
        folder = (ROOT / "tests" / tests[0]).parent
        for test in tests:
            assert (ROOT / "tests" / test).exists() or (folder / test).exists(), test
