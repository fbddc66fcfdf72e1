"""Pushed items are pulled: in order, a few ahead, errors and ends included."""

import threading
import time
from typing import Any

import pytest

from pipelines.engine.pushed_items import iter_pushed


def test_items_come_in_order():
    def work(push):
        for i in range(1000):
            push(i)

    assert list(iter_pushed(work)) == list(range(1000))


def test_what_the_work_raises_is_raised_behind_its_items():
    def work(push):
        push(1)
        raise ValueError("broken")

    found: list[int] = []
    with pytest.raises(ValueError, match="broken"):
        found.extend(iter_pushed(work))
    assert found == [1]


def test_work_is_only_a_few_items_ahead():
    pushed = []

    def work(push):
        for i in range(100):
            push(i)
            pushed.append(i)

    items: Any = iter_pushed(work)
    assert next(items) == 0
    time.sleep(0.3)
    assert len(pushed) <= 6
    items.close()


def test_work_that_nobody_waits_for_ends():
    before = threading.active_count()
    ended = []

    def work(push):
        try:
            while True:
                push(0)
        finally:
            ended.append(True)

    items: Any = iter_pushed(work)
    next(items)
    items.close()
    assert ended == [True]
    assert threading.active_count() == before
