"""`compact --in-place`, killed with SIGKILL at each change to a file: a copy of the log dir each.

    python -m tests.system.killed LOG_DIR INTO OPTION...

A child of this process dies at the first change, the next at the second, and so on, until one comes
to its end; each works on a copy of its own, `INTO/<number>`. How many died is printed.
"""

import contextlib
import io
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pipelines.compaction.compaction
import pipelines.engine.partition_tasks
from jobs import compact
from kafka_log.disk.crash_points import CrashingFiles
from kafka_log.disk.files import DiskFiles
from kafka_log.disk.watched_files import ReadWatch

_MOST = 1000


class KilledFiles(CrashingFiles):
    """All that this process changes, counted together; it dies before the n-th change."""

    left = 0

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        super().__init__(DiskFiles(directory))
        self.watch = ReadWatch()

    def change(
        self, apply: Callable[[], None], *, apply_part: Callable[[int], None] | None = None
    ) -> None:
        KilledFiles.left -= 1
        if KilledFiles.left == 0:
            if apply_part is not None:
                apply_part(7)  # a write that was torn
            os.kill(os.getpid(), signal.SIGKILL)
        apply()


def main(log_dir: str, into: str, *options: str) -> None:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        compact.main([log_dir, *options])  # all is loaded and compiled before the first fork
    vars(pipelines.compaction.compaction)["WatchedDiskFiles"] = KilledFiles
    vars(pipelines.engine.partition_tasks)["DiskFiles"] = KilledFiles
    for number in range(1, _MOST):
        copy = Path(into) / str(number)
        shutil.copytree(log_dir, copy)
        child = os.fork()
        if not child:
            KilledFiles.left = number
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            os._exit(compact.main([str(copy), *options, "--in-place", "--quiet"]))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if status != -signal.SIGKILL:
            print(number - 1, status)
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
