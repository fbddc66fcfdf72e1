"""What the pages show is what the tools print: every example runs, in a golden directory."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests import golden

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
EXAMPLE = re.compile(r"<!-- example: (\S+) -->\n```(console|python)\n(.*?)```", re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)]*)?\)")


def examples(kind):
    return [
        pytest.param(pack, text, id=f"{page.name}-{number}")
        for page in PAGES
        for number, (pack, language, text) in enumerate(EXAMPLE.findall(page.read_text()))
        if language == kind
    ]


@pytest.mark.parametrize(("pack", "text"), examples("console"))
def test_a_command_prints_what_the_page_shows(pack, text):
    (log_dir,) = golden.log_dirs(golden.shared(pack))
    sessions = text.split("$ kafka-forensics ")[1:]
    assert sessions
    for session in sessions:
        command, _, shown = session.partition("\n")
        done = subprocess.run(
            [sys.executable, "-m", "jobs.cli", *shlex.split(command)],
            cwd=log_dir,
            env={"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout == shown


@pytest.mark.parametrize(("pack", "text"), examples("python"))
def test_a_library_example_runs(pack, text, monkeypatch, capsys):
    (log_dir,) = golden.log_dirs(golden.shared("unclean-4.3.1" if pack == "library" else pack))
    monkeypatch.chdir(log_dir)
    exec(compile(text, "README.md", "exec"), {})
    assert "end_of_file" in capsys.readouterr().out


def test_the_readme_has_examples_of_both_kinds():
    text = (ROOT / "README.md").read_text()
    assert {language for _, language, _ in EXAMPLE.findall(text)} == {"console", "python"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    missing = [
        target
        for target, _ in LINK.findall(page.read_text())
        if "://" not in target and not (page.parent / target).exists()
    ]
    assert missing == []


def module_tables():
    """Rows of tables with a column `module`: the page, and what stands in that column."""
    for page in PAGES:
        column = None
        for line in page.read_text().splitlines():
            cells = [cell.strip() for cell in line.split("|")]
            if "module" in cells or "modules" in cells:
                column = cells.index("module" if "module" in cells else "modules")
            elif column is not None and len(cells) > column:
                yield page.name, cells[column]
            else:
                column = None


def test_modules_that_a_page_names_are_there():
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.py"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    known = {f"/{path.removesuffix('.py')}" for path in tracked.stdout.splitlines()}
    known |= {f"{path.rpartition('/')[0]}/" for path in known}
    named = [
        (page, f"/{each}")
        for page, cell in module_tables()
        for each in re.findall(r"`([a-z_/]+)`", cell)
    ]
    assert len(named) > 60
    assert [(page, name) for page, name in named if not any(k.endswith(name) for k in known)] == []


def test_every_make_target_says_what_it_does():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z]+):", makefile, re.MULTILINE))
    shown = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    listed = {line.split()[0] for line in shown.stdout.splitlines()}
    assert targets - listed == {"java"}  # a step of others, not a target for people
