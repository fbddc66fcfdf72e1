"""Tests that run kernels as plain Python and compiled; compiled only where numba is there."""

import pytest

from kafka_format.columnar.compilation import can_compile

needs_numba = pytest.mark.skipif(
    not can_compile(), reason="needs compiled kernels: numba is missing or switched off"
)
BOTH_WAYS = [False, pytest.param(True, marks=needs_numba)]
"""Values of `compiled`."""
