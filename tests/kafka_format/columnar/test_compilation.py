"""Compiled twins: kept for the next process, which loads them without a compiler's preparations."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from kafka_format.columnar import compilation
from kafka_format.columnar.compilation import njit

numba = pytest.importorskip("numba")


def twice(number):
    return 2 * number


def test_a_user_who_may_write_nowhere_compiles_each_time(monkeypatch):
    """As numba refuses: neither beside the code nor in a home is there a place for its cache."""
    real = numba.njit
    asked = []

    def without_a_place(function, *, cache=False, **options):
        asked.append(cache)
        if cache:
            raise RuntimeError("cannot cache function 'twice': no locator available")
        return real(function, **options)

    monkeypatch.setattr(numba, "njit", without_a_place)
    compiled = njit(twice, nogil=True)
    assert asked == [True, False]
    monkeypatch.undo()  # numba calls it too, for functions of its own
    assert compiled(21) == 42


_KERNELS = """
import sys
import numpy as np
from kafka_format.columnar import compilation
from kafka_format.columnar.compilation import njit

def total(data):
    found = 0
    for each in data:
        found += each
    return found

def longest(data):
    return data.shape[0] if data.ndim == 1 else max(data.shape[0], data.shape[1])
"""
_LOADED = """
from kernels import longest, njit, np, sys, total
assert njit(total)(np.arange(5)) == 10
print("numba.np.linalg" in sys.modules)
"""


def test_what_was_compiled_before_is_loaded_without_all_that_compiling_needs(tmp_path):
    (tmp_path / "kernels.py").write_text(_KERNELS)
    assert _printed(tmp_path, _LOADED) == "True"  # it had to be compiled
    assert _printed(tmp_path, _LOADED) == "False"
    more = f"{_LOADED}print(njit(longest)(np.zeros((2, 3))))"
    assert _printed(tmp_path, more) == "False\n3"  # what was not is compiled all the same


_COLUMNS = """
from typing import NamedTuple
import numpy as np
from kafka_format.columnar.compilation import njit

class Columns(NamedTuple):
    sizes: np.ndarray

def largest(columns):
    return columns.sizes.max()
"""
_LARGEST = "import kernels as k; print(k.njit(k.largest)(k.Columns(k.np.arange(5))))"


def test_compiled_code_of_an_earlier_release_is_compiled_again(tmp_path):
    """Its index names a type that is gone, and stays where it is when a wheel is upgraded."""
    kernels = tmp_path / "kernels.py"
    kernels.write_text(_COLUMNS)
    assert _printed(tmp_path, _LARGEST) == "4"
    kernels.write_text(_COLUMNS.replace("Columns", "Sizes"))
    assert _printed(tmp_path, _LARGEST.replace("Columns", "Sizes")) == "4"


def _printed(folder: Path, program: str) -> str:
    """By a process of its own, whose cache is in that folder."""
    root = Path(__file__).parents[3]
    places = {"NUMBA_CACHE_DIR": str(folder), "PYTHONPATH": f"{root}{os.pathsep}{folder}"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **places},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def test_a_numba_that_is_built_otherwise_loads_in_its_own_way(monkeypatch):
    monkeypatch.setattr(numba, "njit", lambda function, **_: SimpleNamespace(py_func=function))
    assert njit(twice).py_func is twice


@pytest.fixture
def fresh():
    """As in a process that has not asked yet, and none after it has heard."""
    caches = (compilation.can_compile, compilation.load_numba, compilation._warn_once)
    for each in caches:
        each.cache_clear()
    yield
    for each in caches:
        each.cache_clear()


SLOW = "logs are read about 10 times slower (600 MB in 55 s instead of 5 s)\n"


@pytest.mark.usefixtures("fresh")
def test_without_numba_one_line_says_what_that_costs_if_there_is_much_to_read(monkeypatch, capsys):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    compilation.warn_if_slow(64 * 1024 * 1024 - 1)
    assert capsys.readouterr().err == ""
    compilation.warn_if_slow(64 * 1024 * 1024)
    compilation.warn_if_slow(2**40)
    assert capsys.readouterr().err == f"kafka-forensics: numba is not installed: {SLOW}"
    assert not compilation.can_compile()


@pytest.mark.usefixtures("fresh")
def test_a_numba_that_cannot_be_imported_is_as_none(monkeypatch, capsys):
    def fails():
        raise ImportError("Numba needs NumPy 2.4 or less\nmore")

    monkeypatch.setattr(compilation, "load_numba", fails)
    assert not compilation.can_compile()
    said = "kafka-forensics: numba cannot be imported (Numba needs NumPy 2.4 or less): "
    assert capsys.readouterr().err == said + SLOW
    monkeypatch.undo()  # for the fixture


@pytest.mark.usefixtures("fresh")
def test_with_numba_nothing_is_said(capsys):
    compilation.warn_if_slow(2**40)
    assert compilation.can_compile()
    assert capsys.readouterr().err == ""
