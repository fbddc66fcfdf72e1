"""A standalone Spark cluster of two workers on this machine, from pip's pyspark.

    with Cluster(folder) as cluster:
        done = cluster.submit("jobs/offsets.py", log_dir, "--format", "json")

Its Python sees what the wheel depends on, but not this project: that comes by --py-files alone.
Everything listens on 127.0.0.1, on ports the system chose; all of it ends with the block.
"""

import contextlib
import importlib.util
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

ROOT = Path(__file__).parents[2]
SPARK_HOME = Path(importlib.util.find_spec("pyspark").origin).parent

_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xshare:auto"
_START_S = 60.0
_END_S = 10.0


class Cluster:
    def __init__(self, folder: Path, workers: int = 2) -> None:
        self.folder = folder
        self.python = folder / "python" / "bin" / "python"
        self.py_files = folder / "kafka_forensics.zip"
        self._workers = workers
        self._processes: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        try:
            self._prepare()
            master, said = self._start("master.Master")
            self.url = self._wait(master, said, r"Starting Spark master at (spark://\S+)")
            places = [
                self._start("worker.Worker", *self._worker(each)) for each in range(self._workers)
            ]
            for process, said in places:
                self._wait(process, said, r"Successfully registered with master")
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(
        self,
        job: str,
        *arguments: object,
        cores: int = 2,
        conf: Mapping[str, object] | None = None,
        cwd: Path | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """As a user does it, in a directory that has nothing to do with the project.

        Each worker has one core, so `cores` is on how many of them it runs.
        """
        settings = {
            "spark.jars.packages": "",  # Delta would be downloaded
            "spark.pyspark.python": self.python,
            "spark.cores.max": cores,
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",  # all of them get something to do
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "60s",
            "spark.executor.memory": "512m",
            # Compiled kernels would be compiled again in each executor, for a few kilobytes.
            "spark.executorEnv.KAFKA_FORENSICS_NUMBA": "0",
            "spark.executor.extraJavaOptions": _QUICK_JVM,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
        } | dict(conf or {})
        options = [part for pair in settings.items() for part in ("--conf", "{}={}".format(*pair))]
        command = [SPARK_HOME / "bin" / "spark-submit", "--master", self.url]
        command += ["--properties-file", ROOT / "conf" / "spark-defaults.conf"]
        command += ["--py-files", self.py_files, "--driver-memory", "512m"]
        command += ["--driver-java-options", _QUICK_JVM, *options, ROOT / job, *arguments]
        return subprocess.run(
            list(map(str, command)),
            cwd=cwd or self.folder / "elsewhere",
            env=self._environment(),
            capture_output=True,
            text=True,
            check=False,
            timeout=900,  # a machine may be busy
        )

    def close(self) -> None:
        """Ends every process that was started here: politely, then not."""
        for process in self._processes:
            with contextlib.suppress(ProcessLookupError):
                process.terminate()
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_END_S)
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)  # its executors are of its group
            process.wait(_END_S)
        self._processes.clear()

    def _prepare(self) -> None:
        subprocess.run(
            [sys.executable, "-m", "venv", "--without-pip", self.folder / "python"], check=True
        )
        (packages,) = (self.folder / "python").glob("lib/python3*/site-packages")
        # A path named in a .pth file is searched, but .pth files in it are not followed: the
        # editable install of this project stays out of sight.
        (packages / "dependencies.pth").write_text(f"{SPARK_HOME.parent}\n")
        built = self.folder / "dist"
        command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(built)]
        subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
        (wheel,) = built.glob("*.whl")
        shutil.copy(wheel, self.py_files)
        (self.folder / "elsewhere").mkdir()
        (self.folder / "home").mkdir()

    def _environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "JAVA_HOME") if name in os.environ}
        return kept | {
            "HOME": str(self.folder / "home"),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / "scratch"),
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": _QUICK_JVM,
        }

    def _worker(self, number: int) -> list[str]:
        work = self.folder / f"worker-{number}"
        return ["--cores", "1", "--memory", "512m", "--work-dir", str(work), self.url]

    def _start(self, name: str, *arguments: str) -> tuple[subprocess.Popen[bytes], Path]:
        said = self.folder / f"{name}-{len(self._processes)}.log"
        command = [SPARK_HOME / "bin" / "spark-class", f"org.apache.spark.deploy.{name}"]
        command += ["--host", "127.0.0.1", "--port", "0", "--webui-port", "0", *arguments]
        with said.open("wb") as log:
            process = subprocess.Popen(
                list(map(str, command)),
                env=self._environment(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes.append(process)
        return process, said

    def _wait(self, process: subprocess.Popen[bytes], said: Path, pattern: str) -> str:
        until = time.monotonic() + _START_S
        while time.monotonic() < until and process.poll() is None:
            found = re.search(pattern, said.read_text())
            if found:
                return found[found.re.groups]
            time.sleep(0.1)
        raise RuntimeError(f"{said.name}: not ready\n{said.read_text()[-2000:]}")
