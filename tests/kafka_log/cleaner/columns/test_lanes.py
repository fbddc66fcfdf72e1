"""Work on several threads, drawn and finished in order, whatever goes wrong."""

import threading
import time
from collections.abc import Callable

import pytest

from kafka_log.cleaner.columns.lanes import Steps, in_order

PLACES = ["a", "b", "c"]


def steps(
    work: Callable[[int], object] = lambda number: number,
    *,
    last: int = 20,
    finish: Callable[[object], bool] = lambda _: True,
    draw: Callable[[int], int | None] | None = None,
    fetch: Callable[[int], None] = lambda _: None,
) -> Steps:
    """Numbers from 0 on, each drawn as itself."""

    def numbers(number: int) -> int | None:
        return number if number < last else None

    return Steps(
        fetch=lambda _, number: fetch(number),
        draw=lambda _, number: (draw or numbers)(number),
        work=lambda _, item: work(item),
        finish=finish,
    )


def collector(found: list[object]) -> Callable[[object], bool]:
    def finish(result: object) -> bool:
        found.append(result)
        return True

    return finish


@pytest.mark.parametrize("places", [PLACES[:1], PLACES])
def test_results_are_finished_in_order(places: list[str]) -> None:
    def slow_at_first(number: int) -> int:
        time.sleep(0.02 if number % 3 == 0 else 0)
        return number * number

    found: list[object] = []
    in_order(steps(slow_at_first, finish=collector(found)), places)
    assert found == [number * number for number in range(20)]


def test_no_more_is_drawn_than_there_are_places() -> None:
    drawn: list[int] = []
    finished: list[object] = []

    def draw(number: int) -> int | None:
        drawn.append(number)
        assert len(drawn) <= len(finished) + len(PLACES)
        return number if number < 10 else None

    in_order(steps(draw=draw, finish=collector(finished)), PLACES)
    assert drawn[:10] == finished == list(range(10))


def test_two_items_are_worked_on_at_once() -> None:
    both = threading.Barrier(2, timeout=10)
    in_order(steps(lambda _: both.wait(), last=2), PLACES[:2])
    assert not both.broken


def test_an_item_is_fetched_while_the_one_before_it_is_drawn() -> None:
    is_fetched = threading.Event()

    def draw(number: int) -> int | None:
        if number == 0:
            assert is_fetched.wait(10)
        return number if number < 2 else None

    def fetch(number: int) -> None:
        if number == 1:
            is_fetched.set()

    in_order(steps(draw=draw, fetch=fetch), PLACES[:2])


def test_where_one_works_nothing_is_fetched() -> None:
    fetched: list[int] = []
    in_order(steps(fetch=fetched.append), PLACES[:1])
    assert fetched == []


@pytest.mark.parametrize("places", [PLACES[:1], PLACES])
def test_an_error_in_the_work_comes_behind_what_was_before(places: list[str]) -> None:
    found: list[object] = []
    with pytest.raises(ZeroDivisionError):
        in_order(steps(lambda number: 12 // (3 - number), finish=collector(found)), places)
    assert found == [4, 6, 12]


@pytest.mark.parametrize("places", [PLACES[:1], PLACES])
def test_an_error_in_the_drawing_comes_behind_what_was_drawn(places: list[str]) -> None:
    def draw(number: int) -> int:
        if number == 3:
            raise KeyError("the fourth")
        return number

    found: list[object] = []
    with pytest.raises(KeyError, match="the fourth"):
        in_order(steps(draw=draw, finish=collector(found)), places)
    assert found == [0, 1, 2]


def test_an_error_in_the_fetching_comes_in_its_turn() -> None:
    def fetch(number: int) -> None:
        if number == 3:
            raise KeyError("the fourth")

    found: list[object] = []
    with pytest.raises(KeyError, match="the fourth"):
        in_order(steps(fetch=fetch, finish=collector(found)), PLACES)
    assert found == [0, 1, 2]


@pytest.mark.parametrize("places", [PLACES[:1], PLACES])
def test_nothing_is_finished_behind_what_was_enough(places: list[str]) -> None:
    found: list[object] = []

    def until_five(result: object) -> bool:
        found.append(result)
        return result != 5

    in_order(steps(finish=until_five), places)
    assert found == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("places", [PLACES[:1], PLACES])
def test_nothing_is_finished_behind_what_failed_to(places: list[str]) -> None:
    found: list[object] = []

    def fails_at_five(result: object) -> bool:
        if result == 5:
            raise OSError("full")
        found.append(result)
        return True

    with pytest.raises(OSError, match="full"):
        in_order(steps(finish=fails_at_five), places)
    assert found == [0, 1, 2, 3, 4]
