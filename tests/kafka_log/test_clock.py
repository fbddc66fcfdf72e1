"""Time is what the caller says; what waits for it runs in the order of its time."""

import time
from functools import partial

import pytest

from kafka_log.clock import FixedClock, Scheduler, system_clock


def test_the_system_clock_counts_milliseconds() -> None:
    before = time.time() * 1000
    assert before - 1 <= system_clock() <= time.time() * 1000


def test_a_task_without_delay_runs_at_once() -> None:
    ran: list[str] = []
    Scheduler(FixedClock(5)).schedule("now", lambda: ran.append("now"))
    assert ran == ["now"]


def test_a_delayed_task_waits_until_its_time_and_runs_once() -> None:
    clock = FixedClock(1000)
    scheduler = Scheduler(clock)
    ran: list[str] = []
    scheduler.schedule("later", lambda: ran.append("later"), delay_ms=60)
    clock.now_ms = 1059
    assert (scheduler.run_due(), ran) == (0, [])
    clock.now_ms = 1060
    assert (scheduler.run_due(), ran) == (1, ["later"])
    assert (scheduler.run_due(), ran) == (0, ["later"])


def test_tasks_run_in_the_order_of_their_times() -> None:
    scheduler = Scheduler(FixedClock(0))
    ran: list[str] = []
    for name, delay_ms in (("c", 30), ("a", 10), ("d", 30), ("b", 20)):
        scheduler.schedule(name, partial(ran.append, name), delay_ms=delay_ms)
    assert scheduler.run_all() == 4
    assert ran == ["a", "b", "c", "d"]


def test_a_task_may_schedule_another() -> None:
    clock = FixedClock(0)
    scheduler = Scheduler(clock)
    ran: list[int] = []

    def again() -> None:
        ran.append(clock())
        scheduler.schedule("again", again, delay_ms=10)

    scheduler.schedule("again", again, delay_ms=10)
    for clock.now_ms in (10, 19, 20):
        scheduler.run_due()
    assert ran == [10, 20]
    assert scheduler.run_all() == 1  # and the one that it schedules waits


def test_a_task_that_fails_leaves_the_others_waiting() -> None:
    scheduler = Scheduler(FixedClock(0))
    ran: list[str] = []

    def fail() -> None:
        raise OSError("full")

    scheduler.schedule("bad", fail, delay_ms=1)
    scheduler.schedule("good", lambda: ran.append("good"), delay_ms=2)
    with pytest.raises(OSError, match="full"):
        scheduler.run_all()
    assert ran == []
    assert (scheduler.run_all(), ran) == (1, ["good"])


def test_a_fixed_clock_stands_where_it_was_set() -> None:
    clock = FixedClock(7)
    assert (clock(), clock()) == (7, 7)
    assert repr(clock) == "FixedClock(7)"
