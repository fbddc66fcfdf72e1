"""Rows come in order, failures in their place, and nothing is left running."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from kafka_format.access import open_evidence
from pipelines.engine import engine
from pipelines.engine.engine import Failure, run
from pipelines.engine.processes import answer
from pipelines.engine.progress import progress_bar
from tests.pipelines.engine import functions

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("processes", [1, 2, 8])
def test_rows_come_in_the_order_of_the_tasks(processes):
    rows = [*run([3, 1, 2], functions.double, processes=processes)]
    assert rows == [3, 6, 1, 2, 2, 4]


def test_a_slow_first_task_still_comes_first_while_others_work_elsewhere():
    rows: list[Any] = [*run([0, 1, 2, 3], functions.slow_first, processes=2)]
    assert [task for task, _ in rows] == [0, 1, 2, 3]
    pids = {pid for _, pid in rows}
    assert len(pids) == 2
    assert os.getpid() not in pids


def test_small_input_stays_in_this_process():
    tasks = [1, 2, 3]
    rows: list[Any] = [*run(tasks, functions.slow_first, bytes_of=lambda _: 1000)]
    assert {pid for _, pid in rows} == {os.getpid()}


def test_large_input_goes_to_several_processes(monkeypatch):
    monkeypatch.setattr(engine, "available_processors", lambda: 2)
    tasks = [1, 2, 3]
    rows: list[Any] = [*run(tasks, functions.slow_first, bytes_of=lambda _: engine.SMALL_INPUT)]
    assert os.getpid() not in {pid for _, pid in rows}


def test_one_large_task_needs_no_other_process():
    rows = [*run([1], functions.slow_first, bytes_of=lambda _: 2**40)]
    assert rows == [(1, os.getpid())]


def test_no_tasks_give_no_rows():
    assert [*run([], functions.double, processes=4)] == []


@pytest.mark.parametrize("processes", [1, 2])
def test_a_task_that_fails_says_so_in_its_place_and_the_others_go_on(processes):
    rows = [*run(functions.FAILING, functions.fails, processes=processes)]
    failures = [row for row in rows if isinstance(row, Failure)]
    assert [(each.task, each.message) for each in failures] == functions.FAILURES
    assert rows[:2] == ["fine: begun", "fine: done"]
    assert rows[2:4] == ["corrupt: begun", failures[0]]
    assert rows[-2:] == ["last: begun", "last: done"]
    assert [bool(failure.details) for failure in failures] == [False, False, False, True]
    assert "Traceback" in failures[3].details


def test_a_killed_process_takes_only_its_own_task_along():
    tasks = ["a", "killed", "b", "exits", "c", "d"]
    rows = [*run(tasks, functions.fails, processes=2)]
    failures = {row.task: row.message for row in rows if isinstance(row, Failure)}
    assert failures == {
        "killed": "its process was ended by SIGKILL (perhaps by a system short of memory)",
        "exits": "its process ended unexpectedly, with exit code 7",
    }
    done = [row for row in rows if isinstance(row, str) and row.endswith("done")]
    assert done == ["a: done", "b: done", "c: done", "d: done"]


def test_a_row_that_no_pipe_can_carry_is_that_tasks_failure():
    first, second = run([1, 2], functions.unpicklable, processes=2)
    assert isinstance(first, Failure)
    assert isinstance(second, Failure)
    assert first.message.startswith("internal error: ")


def test_partial_functions_travel_too():
    assert [*run([2, 3], partial(functions.plus, 10), processes=2)] == [12, 13]


def test_progress_counts_bytes_up_to_all_of_them():
    reported = []
    tasks = [10, 30, 60]
    list(run(tasks, functions.double, bytes_of=int, on_progress=lambda *now: reported.append(now)))
    assert reported == [(10, 100), (40, 100), (100, 100)]


def test_progress_counts_tasks_where_sizes_are_unknown():
    reported = []
    list(run([7, 7], functions.double, on_progress=lambda *now: reported.append(now)))
    assert reported == [(1, 2), (2, 2)]


def test_a_bar_is_for_terminals_alone():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    assert progress_bar("reading", io.StringIO()) is None
    terminal = Terminal()
    bar = progress_bar("reading", terminal)
    bar(1, 4)
    bar(1, 4)
    bar(4, 4)
    assert terminal.getvalue() == (
        f"\rreading {'█' * 5:20}  25 %\033[K\rreading {'█' * 20} 100 %\r\033[K"
    )


def test_a_bar_tells_speed_and_time_left_of_what_takes_long():
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal, seconds = Terminal(), iter((0.0, 0.5, 4.0, 8.0))
    bar = progress_bar("compact", terminal, lambda: next(seconds))
    mebibyte = 1024 * 1024
    bar(10 * mebibyte, 4000 * mebibyte)  # too early to say
    bar(400 * mebibyte, 4000 * mebibyte)
    bar(2000 * mebibyte, 900_000 * mebibyte)
    shown = [each.partition("%")[2] for each in terminal.getvalue().split("\r")[1:]]
    assert shown == [
        "\033[K",
        "  100 MB/s, 0:36 left\033[K",
        "  250 MB/s, 59:52 left\033[K",
    ]


@pytest.mark.parametrize("processes", [1, 2])
def test_a_task_that_takes_long_tells_how_far_it_is(processes):
    reported = []
    tasks = [100, 300]
    answers = run(
        tasks,
        functions.half_done,
        bytes_of=int,
        on_progress=lambda *now: reported.append(now),
        processes=processes,
    )
    assert list(answers) == tasks
    assert (50, 400) in reported or (150, 400) in reported
    assert reported[-1] == (400, 400)


def test_ctrl_c_ends_the_processes_at_once(tmp_path):
    tasks = [str(tmp_path / name) for name in "ab"]
    program = (
        "import signal\n"
        "from pipelines.engine.engine import run\n"
        "from tests.pipelines.engine.functions import sleeps\n"
        # A shell's background jobs ignore Ctrl-C, and so would this: CI may be one.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "if __name__ == '__main__':\n"
        "    try:\n"
        f"        list(run({tasks!r}, sleeps, processes=2))\n"
        "    except KeyboardInterrupt:\n"
        "        raise SystemExit(130)\n"
    )
    (tmp_path / "program.py").write_text(program)
    parent = subprocess.Popen(
        [sys.executable, tmp_path / "program.py"],
        env={"PYTHONPATH": str(ROOT)},
        stderr=subprocess.PIPE,
        start_new_session=True,  # a terminal's Ctrl-C reaches all of its group
    )
    pids = [_written_pid(Path(task)) for task in tasks]
    os.killpg(parent.pid, signal.SIGINT)
    _, said = parent.communicate(timeout=20)
    assert parent.returncode == 130
    assert said == b""
    assert not any(_is_alive(pid) for pid in pids)


def test_rows_that_nobody_wants_any_more_end_the_processes(tmp_path):
    tasks = [str(tmp_path / name) for name in "ab"]
    rows = run([*tasks, "never"], functions.sleeps, processes=2)
    pids: list[int] = []

    def interrupt(*_):
        pids.extend(_written_pid(Path(task)) for task in tasks)
        raise KeyboardInterrupt

    old = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 1)
    try:
        with pytest.raises(KeyboardInterrupt):
            next(rows)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert not any(_is_alive(pid) for pid in pids)


def test_the_engine_loads_neither_spark_nor_numpy():
    loaded = "{'pyspark', 'numpy', 'pyarrow'} & {*sys.modules}"
    program = f"import sys, pipelines.engine.engine; print({loaded})"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout == "set()\n"


def _written_pid(path: Path) -> int:
    for _ in range(200):
        if path.exists() and (text := path.read_text()):
            return int(text)
        time.sleep(0.1)
    raise AssertionError(f"{path}: no process began")


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{pid}/stat")
    return state.read_text().rpartition(")")[2].split()[0] != "Z" if state.exists() else True


def test_a_change_that_a_task_catches_is_still_a_failure(tmp_path):
    """Else it was seen only where the task ran in the process of the command."""
    path = tmp_path / "file"
    path.write_bytes(b"1234")

    def task_that_catches(_):
        with contextlib.suppress(OSError), open_evidence(path) as file:
            os.truncate(path, 1)
            file.read(4)
        yield "row"

    answered = answer(0, None, task_that_catches)
    assert answered.rows == ["row"]
    assert answered.failure is not None
    assert "changed while it was read: it shrank from 4 to 1 bytes" in answered.failure[0]
