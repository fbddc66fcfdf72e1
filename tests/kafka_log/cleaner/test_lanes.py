"""Work on several threads, results in the order of what was given, whatever goes wrong."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_log.cleaner.lanes import in_order


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as made:
        yield made


def test_results_come_in_the_order_of_the_items(pool: ThreadPoolExecutor) -> None:
    def slow_at_first(number: int) -> int:
        time.sleep(0.02 if number % 3 == 0 else 0)
        return number * number

    found = list(in_order(slow_at_first, range(20), pool, ahead=4))
    assert found == [number * number for number in range(20)]


def test_no_more_is_drawn_than_may_be_given_out(pool: ThreadPoolExecutor) -> None:
    drawn: list[int] = []

    def items() -> Iterator[int]:
        for number in range(10):
            drawn.append(number)
            yield number

    for number, _ in enumerate(in_order(lambda item: item, items(), pool, ahead=3)):
        assert len(drawn) <= number + 3
    assert len(drawn) == 10


def test_two_items_are_worked_on_at_once(pool: ThreadPoolExecutor) -> None:
    both = threading.Barrier(2, timeout=10)
    assert len(list(in_order(lambda _: both.wait(), range(2), pool, ahead=2))) == 2


def test_an_error_in_the_work_comes_in_its_turn(pool: ThreadPoolExecutor) -> None:
    results = in_order(lambda number: 1 // (3 - number), range(9), pool, ahead=4)
    assert [next(results) for _ in range(3)] == [0, 0, 1]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_an_error_in_the_drawing_comes_behind_what_was_drawn(pool: ThreadPoolExecutor) -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        raise KeyError("the fourth")

    results = in_order(lambda number: number, items(), pool, ahead=4)
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(KeyError, match="the fourth"):
        next(results)


def test_who_stops_early_waits_for_what_is_under_way(pool: ThreadPoolExecutor) -> None:
    ended: list[int] = []

    def work(number: int) -> int:
        time.sleep(0.05 * number)
        ended.append(number)
        return number

    results = in_order(work, range(3), pool, ahead=3)
    assert next(results) == 0
    results.close()
    assert sorted(ended) == [0, 1, 2]
