"""The Java clients as seen from Python, and short hands for the records the scenarios send."""

import base64
import json
import subprocess
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Self

from tests.golden.make import ivy
from tests.oracle import jars

SOURCES = Path(__file__).parent / "java"
ANSWER_SECONDS = 120

# 2023-11-14T22:13:20Z, a round number that is easy to spot in a dump
T0 = 1_700_000_000_000
HOUR = 3_600_000

Headers = Sequence[tuple[str, bytes | None]]


def record(
    topic: str,
    partition: int,
    key: bytes | None,
    value: bytes | None,
    *,
    timestamp: int | None = T0,
    headers: Headers = (),
) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "timestamp": timestamp,
        "key": _text(key),
        "value": _text(value),
        "headers": [[name, _text(content)] for name, content in headers],
    }


def _text(content: bytes | None) -> str | None:
    return None if content is None else base64.b64encode(content).decode()


class Driver:
    """`driver("operation", argument=…)` runs one operation of Driver.java and gives its answer."""

    def __init__(self, version: str, bootstrap: str, home: Path, streams: bool = False) -> None:
        classes = home / "classes"
        class_path = jars.class_path(version)
        class_path += f":{ivy.fetch('kafka-streams', version, alone=True)}/*" if streams else ""
        _compile(version, class_path, classes, streams=streams)
        command = [jars.java_program("java"), "-Xmx384m", "-XX:+UseSerialGC"]
        command += ["-cp", f"{classes}:{class_path}", "Driver", bootstrap]
        with (home / "driver.log").open("ab") as talk:
            self.process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=talk, text=True
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The clients die where they stand: open transactions stay open, members stay members."""
        self.process.kill()
        self.process.wait(ANSWER_SECONDS)
        for stream in (self.process.stdin, self.process.stdout):
            stream.close()

    def __call__(self, op: str, /, **arguments: Any) -> Any:
        self.process.stdin.write(json.dumps({"op": op, **arguments}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline() or '{"error": "the driver ended"}')
        if "error" in answer:
            raise RuntimeError(f"{op}: {answer['error']}")
        return answer.get("value")

    def wait_until_ready(self) -> None:
        """A broker listens before its controller lets it serve."""
        deadline = time.monotonic() + 60
        while True:
            try:
                self("end_offsets")
            except RuntimeError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.5)
            else:
                return

    def read_all(self, path: Path, *isolations: str) -> None:
        """What a consumer receives now, at both isolation levels if not reported otherwise."""
        chosen = isolations or ("read_uncommitted", "read_committed")
        self("read_all", path=str(path), isolations=chosen)

    def topic(self, name: str, partitions: int = 1, **config: object) -> None:
        """Config names with underscores for dots, as keywords."""
        settings = {key.replace("_", "."): str(value) for key, value in config.items()}
        topics = [{"name": name, "partitions": partitions, "config": settings}]
        self("create_topics", topics=topics)

    def producer(self, name: str, **config: object) -> None:
        settings = {"linger.ms": 50, "acks": "all"}
        settings |= {key.replace("_", "."): value for key, value in config.items()}
        self("producer", name=name, config=settings)

    def send(self, name: str, records: Iterable[dict[str, Any]]) -> list[int]:
        """One flush: as a rule one batch for each partition."""
        return self("send", name=name, records=list(records))

    def transact(
        self, name: str, records: Iterable[dict[str, Any]], *, commit: bool, batches: int = 1
    ) -> None:
        rows = list(records)
        size = -(-len(rows) // batches)
        self("begin", name=name)
        for start in range(0, len(rows), size):
            self.send(name, rows[start : start + size])
        self("commit_transaction" if commit else "abort_transaction", name=name)


def _compile(version: str, class_path: str, classes: Path, *, streams: bool) -> None:
    sources = ["Driver.java"]
    sources += ["GroupsOfFour.java"] if version.startswith("4.") else []
    sources += ["StreamsGroup.java"] if streams else []
    command = [jars.java_program("javac"), "-nowarn", "-cp", class_path, "-d", str(classes)]
    command += [str(SOURCES / source) for source in sources]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
