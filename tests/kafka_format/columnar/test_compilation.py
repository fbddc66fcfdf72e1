"""Compiled twins where there is nowhere to keep them."""

import pytest

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
