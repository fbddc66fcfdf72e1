"""The committed corpus goes through its targets, compiled and not, without atheris."""

import subprocess
import sys

import pytest

from tests.fuzz import corpus, targets


def test_every_target_has_a_corpus_and_every_corpus_a_target() -> None:
    found = {path.stem for path in corpus.FOLDER.iterdir()}
    assert found == set(targets.TARGETS)
    assert all(corpus.read_corpus(target) for target in targets.TARGETS)


def test_the_corpus_is_small() -> None:
    assert sum(path.stat().st_size for path in corpus.FOLDER.iterdir()) < 200_000


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("target", targets.TARGETS)
def test_the_corpus_gives_values_and_coordinates(
    target: str, compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(targets, "COMPILED", compiled)
    for data in corpus.read_corpus(target):
        targets.TARGETS[target](data)


def test_a_machine_without_atheris_is_told_so() -> None:
    code = "import sys; sys.modules['atheris'] = None; from tests.fuzz.__main__ import main; "
    done = subprocess.run(
        [sys.executable, "-c", code + "sys.exit(main(['--seconds', '1']))"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 3
    assert "Linux on x86-64" in done.stderr
