"""No way to the evidence but through kafka_format/access.py: read off the packages' own syntax.

A call that can open a file for reading or list a directory is allowed in few places. Each place is
named here, with the reason why what it opens is no evidence.
"""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = ("kafka_format", "kafka_log", "pipelines", "jobs", "kafka_broker", "pyspark_kafka_files")

OPENERS = {"open", "fdopen", "FileIO", "memmap", "fromfile", "loadtxt", "genfromtxt", "mmap"}
READERS = {"read_bytes", "read_text", "scandir", "listdir", "iterdir", "walk", "glob", "rglob"}
COPIERS = {"copyfile", "copyfileobj", "copy", "copy2", "copytree", "move"}
SHUTIL = {"shutil"}

ALLOWED = {
    ("kafka_format/access.py", "_open_to_read"): "the door",
    ("kafka_format/access.py", "is_appended_to"): "names of the segments after one that grew",
    ("kafka_log/inventory/directory.py", "list_directory"): "the one that lists directories",
    ("kafka_log/inventory/nearby.py", "names_near"): "names beside a path that is not there",
    ("kafka_log/disk/files.py", "names"): "a directory of Files: links by the policy, names only",
    ("kafka_log/disk/files.py", "open_to_write"): "opens to write; follows no link",
    ("kafka_log/disk/files.py", "sync_directory"): "a directory, to have it on disk",
    ("kafka_log/disk/overlay_files.py", "save"): "makes a new file of the output",
    ("kafka_log/disk/scratch_files.py", "save"): "makes a new file of the output",
    ("kafka_log/disk/scratch_files.py", "adopt"): "a file that a task of ours wrote",
    ("kafka_log/disk/output.py", "check_output"): "the output directory",
    ("kafka_log/disk/output.py", "whole_file"): "makes a new file of the output",
    ("kafka_log/disk/output.py", "sync_tree"): "the output directory",
    ("kafka_log/disk/output.py", "_sync"): "the output directory",
    ("kafka_log/disk/output.py", "check_in_place"): "names of what is to be written in place",
    ("kafka_log/cleaner/parallel/files.py", "path_of"): "a copy for tasks of ours",
    ("kafka_log/cleaner/parallel/group.py", "_offsets"): "what other tasks of ours wrote",
    ("kafka_log/cleaner/parallel/parts.py", "write_whole"): "what a task of ours writes",
    ("kafka_log/cleaner/parallel/reduction.py", "read_slice"): "what other tasks of ours wrote",
    ("kafka_format/columnar/window.py", "memory_of"): "anonymous memory",
    ("pipelines/session.py", "_settings_text"): "our own settings file",
    ("pipelines/audit/pages.py", "page"): "our own pages",
    ("pipelines/engine/spark_tasks.py", "_running"): "notes of our workers",
    ("pipelines/engine/spark_tasks.py", "close"): "notes of our workers",
    ("pipelines/source/storage.py", "_expand"): "names that a glob of the user's means",
    ("pipelines/source/storage.py", "_shadow_file"): "from an object store into our shadow of it",
    ("jobs/compaction_explained.py", "_to_delta"): "files that this verb wrote",
    ("jobs/export.py", "_silent_stderr"): "/dev/null, and our own stderr",
    ("jobs/options.py", "guarded"): "/dev/null",
    ("jobs/options.py", "_discard"): "/dev/null",
}
"""Module and function, and what it opens."""


def calls(path: Path) -> list[tuple[str, str, int]]:
    """The enclosing function, name and line of each call that may open or list something."""
    found = []

    def visit(node: ast.AST, function: str) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            function = node.name
        if isinstance(node, ast.Call):
            name = _suspicious(node.func)
            if name is not None:
                found.append((function, name, node.lineno))
        for child in ast.iter_child_nodes(node):
            visit(child, function)

    visit(ast.parse(path.read_text(encoding="utf-8")), "")
    return found


def _suspicious(called: ast.expr) -> str | None:
    if isinstance(called, ast.Name):
        return called.id if called.id in OPENERS | {"glob"} else None
    if not isinstance(called, ast.Attribute):
        return None
    owner = _owner(called.value)
    if called.attr == "walk":
        return "os.walk" if owner == "os" else None
    if called.attr in COPIERS:
        return f"{owner}.{called.attr}" if owner in SHUTIL else None
    return f"{owner}.{called.attr}" if called.attr in OPENERS | READERS else None


def _owner(value: ast.expr) -> str:
    """The last name before the dot: `_files` of `self._files.open`, `super` of `super().open`."""
    if isinstance(value, ast.Call):
        return _owner(value.func)
    if isinstance(value, ast.Attribute):
        return value.attr
    return value.id if isinstance(value, ast.Name) else "…"


SEAMS = {
    *("files", "_files", "written", "target", "log_dir", "beneath", "DiskFiles"),
    *("storage", "_storage", "self", "super"),
}
"""What has a method `open` of its own, that of Files or Storage: it leads to the door."""
CLASSES = {"LogSegment", "PartitionLog"}
"""Their `open` is of a log, not of a file."""


def ways_in() -> list[str]:
    found = []
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            module = str(path.relative_to(ROOT))
            for function, name, line in calls(path):
                owner, _, attribute = name.rpartition(".")
                is_seam = attribute == "open" and owner in SEAMS | CLASSES
                if (module, function) not in ALLOWED and not is_seam:
                    found.append(f"{module}:{line} {name} in {function or 'the module'}")
    return found


def test_there_is_one_door_to_the_evidence():
    assert ways_in() == []


def test_every_exception_is_still_needed():
    there = {
        (str(path.relative_to(ROOT)), function)
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for function, _, _ in calls(path)
    }
    assert sorted(ALLOWED.keys() - there) == []


TO_STDERR = {
    ("kafka_format/shown_text.py", "say"): "escapes",
    ("jobs/dump.py", "show"): "a percentage",
}
"""Module and function that write to stderr, and why that needs no escape."""


def test_one_function_writes_to_stderr_and_it_escapes():
    found = set()
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            tree = ast.parse(path.read_text(encoding="utf-8"))
            for function in ast.walk(tree):
                if isinstance(function, ast.FunctionDef) and any(map(_is_stderr, _own(function))):
                    found.add((str(path.relative_to(ROOT)), function.name))
    assert found == TO_STDERR.keys()


def _own(function: ast.FunctionDef) -> list[ast.AST]:
    """What is in a function, without the functions in it."""
    found: list[ast.AST] = []
    left: list[ast.AST] = [*function.body]
    while left:
        node = left.pop()
        if not isinstance(node, ast.FunctionDef):
            found.append(node)
            left += ast.iter_child_nodes(node)
    return found


def _is_stderr(node: ast.AST) -> bool:
    """`sys.stderr.write(…)`, `print(…, file=sys.stderr)`"""
    if not isinstance(node, ast.Call):
        return False
    given = [each.value for each in node.keywords if each.arg == "file"]
    wrote = [node.func.value] if isinstance(node.func, ast.Attribute) else []
    return any(ast.unparse(each) == "sys.stderr" for each in (*given, *wrote)) and not (
        isinstance(node.func, ast.Attribute) and node.func.attr in ("isatty", "flush", "fileno")
    )


@pytest.mark.parametrize(
    "source",
    [
        "def f(p):\n    return open(p, 'rb')",
        "def f(p):\n    return Path(p).open('rb')",
        "def f(p):\n    return os.open(p, 0)",
        "def f(p):\n    return io.FileIO(p)",
        "def f(p):\n    return Path(p).read_bytes()",
        "def f(p):\n    return os.scandir(p)",
        "def f(p):\n    return np.fromfile(p)",
        "def f(p):\n    shutil.copyfile(p, 'x')",
    ],
)
def test_another_way_would_be_seen(tmp_path, source):
    module = tmp_path / "m.py"
    module.write_text(source)
    assert [function for function, _, _ in calls(module)] == ["f"]
