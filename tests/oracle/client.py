"""The Python end of the oracle: starts one JVM, compiles its program on first use, asks it.

    with Oracle() as oracle:
        built = oracle.build_batch({"codec": "lz4", "records": [record(0, b"k", b"v")]})

Bytes travel as base64 in the JSON: the typed methods take and give `bytes` where a whole argument
or answer is bytes; inside a description `b64` and `unb64` do it. README.md lists every request.
"""

import base64
import contextlib
import hashlib
import json
import os
import queue
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Any, Self

from tests.oracle import jars
from tests.oracle.logs import START, TOPIC_ID, BuiltLog, LogPlan, draw

JAVA = Path(__file__).parent / "java"
FLAGS = ("-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx512m")
# A measured loop deserves the JIT compiler of a real broker.
BENCHMARK_FLAGS = ("-Xshare:auto", "-XX:+UseSerialGC", "-Xmx1g")
TIMEOUT = 60.0


class OracleError(RuntimeError):
    """An exception of Kafka's (or of the oracle's own) while it answered a request."""

    def __init__(self, request: str, error: Mapping[str, Any]) -> None:
        self.error_class: str = error["class"]
        self.error_message: str | None = error.get("message")
        self.trace: str = error.get("trace") or ""
        super().__init__(f"{request}: {self.error_class}: {self.error_message}")


class OracleTimeoutError(OracleError):
    """No answer in time: that JVM is gone, the next request starts another."""


class OracleDiedError(OracleError):
    """The JVM ended without an answer; the message has the end of what it wrote to stderr."""


def b64(data: bytes | memoryview | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode("ascii")


def unb64(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)


def record(
    timestamp: int,
    key: bytes | None,
    value: bytes | None,
    headers: Iterable[tuple[str, bytes | None]] = (),
    *,
    offset: int | None = None,
) -> dict[str, Any]:
    """A record as `build_batch` takes it; without an offset it follows the one before."""
    return {
        "timestamp": timestamp,
        "key": b64(key),
        "value": b64(value),
        "headers": [[name, b64(data)] for name, data in headers],
        "offset": offset,
    }


def classes(version: str = jars.CURRENT) -> Path:
    """The folder of the compiled oracle, kept in the cache under a hash of its sources."""
    sources = _sources(version)
    digest = hashlib.sha256(version.encode())
    for name, text in sources.items():
        digest.update(f"\0{name}\0{text}".encode())
    folder = jars.cache_root() / f"kafka-{version}" / f"oracle-{digest.hexdigest()[:16]}"
    if not folder.is_dir():
        _compile(version, sources, folder)
    return folder


def _sources(version: str) -> dict[str, str]:
    found = {
        path.relative_to(root).as_posix(): path.read_text("utf-8")
        for root in (JAVA / "shared", JAVA / "resources", JAVA / version)
        for path in sorted(root.rglob("*.*"))
        if path.suffix in {".java", ".properties"}
    }
    if version.startswith("3."):
        # 4.3 moved the record classes; nothing else the shared sources touch has another name.
        for name, text in found.items():
            found[name] = text.replace("common.record.internal.", "common.record.")
    return found


def _compile(version: str, sources: Mapping[str, str], folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        source_root, compiled = Path(scratch) / "src", Path(scratch) / "classes"
        compiled.mkdir()
        for name, text in sources.items():
            target = (source_root if name.endswith(".java") else compiled) / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, "utf-8")
        command = [jars.java_program("javac"), "-nowarn", "-proc:none", "-encoding", "utf-8"]
        command += ["-cp", jars.class_path(version), "-d", str(compiled)]
        command += [str(path) for path in sorted(source_root.rglob("*.java"))]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"the oracle for {version} does not compile:\n{done.stderr}")
        with contextlib.suppress(OSError):  # another run was first, from the same sources
            compiled.rename(folder)


def java_command(
    main: str, version: str = jars.CURRENT, *, flags: Iterable[str] = FLAGS
) -> list[str]:
    """The command that runs a class of Kafka's (or of the oracle's) in a JVM of its own."""
    class_path = os.pathsep.join([str(classes(version)), jars.class_path(version)])
    return [jars.java_program("java"), *flags, "-cp", class_path, main]


class Oracle:
    """One JVM around one release of Kafka, started by the first request, ended by `close`.

    One request at a time: not for several threads.
    """

    def __init__(
        self,
        version: str = jars.CURRENT,
        *,
        flags: Iterable[str] = FLAGS,
        timeout: float = TIMEOUT,
    ) -> None:
        self.version = version
        self.timeout = timeout
        self._flags = tuple(flags)
        self._process: subprocess.Popen[bytes] | None = None
        self._answers: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._reader: threading.Thread | None = None
        self._stderr: IO[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Oracle({self.version!r}, pid={self.pid})"

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Download, compile and start, as far as not yet done."""
        if self._process is not None:
            return
        command = java_command("oracle.Main", self.version, flags=self._flags)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the JVM
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._stderr
        )
        # A queue per JVM: a late answer of one that was killed is nobody's.
        self._answers = queue.SimpleQueue()
        self._reader = threading.Thread(
            target=_pump, args=(self._process.stdout, self._answers), daemon=True
        )
        self._reader.start()

    def close(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        self._reader.join()
        process.stdout.close()
        self._stderr.close()

    def call(self, request: str, *, timeout: float | None = None, **arguments: Any) -> Any:
        """The result of one request; arguments are those of README.md, paths and None included."""
        self.start()
        line = json.dumps({"request": request, "arguments": arguments}, default=_plain)
        with contextlib.suppress(OSError):  # a dead JVM shows as the end of its answers
            self._process.stdin.write(line.encode() + b"\n")
            self._process.stdin.flush()
        seconds = self.timeout if timeout is None else timeout
        try:
            answer_line = self._answers.get(timeout=seconds)
        except queue.Empty:
            self._kill()
            late = {"class": "timeout", "message": f"no answer in {seconds:g} s"}
            raise OracleTimeoutError(request, late) from None
        except BaseException:  # an interrupt: the answer still to come would be the next request's
            self._kill()
            raise
        if not answer_line:
            said = self._last_words()
            self.close()
            raise OracleDiedError(request, {"class": "the JVM ended", "message": said})
        answer = json.loads(answer_line)
        if "error" in answer:
            raise OracleError(request, answer["error"])
        return answer["result"]

    def _kill(self) -> None:
        self._process.kill()
        self.close()

    def _last_words(self) -> str:
        self._process.wait(timeout=5)
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace")[-2000:]

    # ------------------------------------------------------------------ requests with types

    def dump(self, *args: str | Path, check: bool = True, timeout: float | None = None) -> "Dump":
        """DumpLogSegments with these arguments. `check`: an exception or exit of it is an error."""
        result = self.call("dump", args=[str(arg) for arg in args], timeout=timeout)
        if check and (result["error"] or result["exit"] is not None):
            error = result["error"] or {"class": "exit", "message": str(result["exit"])}
            raise OracleError("dump", error | {"trace": result["stderr"]})
        return Dump(result)

    def build_batch(self, batch: Mapping[str, Any] | None = None, **fields: Any) -> bytes:
        """The bytes of one batch by Kafka's MemoryRecordsBuilder."""
        return base64.b64decode(self.call("build_batch", **(batch or {}), **fields)["bytes"])

    def read_batches(
        self, source: bytes | memoryview | Path, *, records: bool = True
    ) -> dict[str, Any]:
        """What Kafka's MemoryRecords (bytes) or FileRecords (a path) find there."""
        if isinstance(source, Path):
            return self.call("read_batches", path=source, records=records)
        return self.call("read_batches", bytes=b64(source), records=records)

    def compress(self, codec: str, data: bytes, **options: Any) -> bytes:
        """As a batch of `magic` (default 2) is compressed, at `level` or the default one."""
        answer = self.call("compress", codec=codec, bytes=b64(data), **options)
        return base64.b64decode(answer["bytes"])

    def decompress(self, codec: str, data: bytes, **options: Any) -> bytes:
        answer = self.call("decompress", codec=codec, bytes=b64(data), **options)
        return base64.b64decode(answer["bytes"])

    def read_file(self, kind: str, path: Path, **options: Any) -> dict[str, Any]:
        """A side file as the broker's own class reads it; README.md lists the kinds."""
        return self.call("read_file", kind=kind, path=path, **options)

    def write_file(self, kind: str, path: Path, content: Mapping[str, Any]) -> bytes:
        """A side file by the broker's own writer; its bytes."""
        self.call("write_file", kind=kind, path=path, content=content)
        return path.read_bytes()

    def message_schemas(self) -> list[dict[str, Any]]:
        """Every record type: set, part, api_key, name, lowest_version, highest_version."""
        return self.call("message_schemas")

    def random_messages(self, seed: int, **options: Any) -> list["MessageExample"]:
        """Seeded instances of every record type in every version (or of one `set` or `name`)."""
        return [MessageExample(one) for one in self.call("random_messages", seed=seed, **options)]

    def decode_message(self, name: str, version: int, data: bytes) -> dict[str, Any]:
        """The JSON of a bare message; all of the bytes must be used."""
        found = self.call("decode_message", name=name, version=version, bytes=b64(data))
        if found["remaining"]:
            error = {"class": "remaining", "message": f"{found['remaining']} bytes not used"}
            raise OracleError(f"decode_message {name}", error)
        return found["data"]

    def encode_message(self, name: str, version: int, data: Mapping[str, Any]) -> bytes:
        answer = self.call("encode_message", name=name, version=version, data=data)
        return base64.b64decode(answer["bytes"])

    def decode_coordinator(self, kind: str, key: bytes, value: bytes | None) -> dict[str, Any]:
        """A record of __consumer_offsets ("group"), __transaction_state ("transaction") or
        __share_group_state ("share"): api_key, key, version, value."""
        return self.call("decode_coordinator", set=kind, key=b64(key), value=b64(value))

    def encode_coordinator(
        self, kind: str, record: Mapping[str, Any]
    ) -> tuple[bytes, bytes | None]:
        """Key and value bytes of what `decode_coordinator` tells."""
        answer = self.call("encode_coordinator", set=kind, **record)
        return base64.b64decode(answer["key"]), unb64(answer["value"])

    def decode_metadata(self, data: bytes) -> dict[str, Any]:
        """A record of the KRaft log: api_key, name, version, data."""
        return self.call("decode_metadata", bytes=b64(data))

    def encode_metadata(self, api_key: int, version: int, data: Mapping[str, Any]) -> bytes:
        answer = self.call("encode_metadata", api_key=api_key, version=version, data=data)
        return base64.b64decode(answer["bytes"])

    def decode_remote(self, data: bytes, *, text: bool = False) -> dict[str, Any]:
        """A record of __remote_log_metadata; `text`: also as DumpLogSegments prints it."""
        return self.call("decode_remote", bytes=b64(data), text=text)

    def encode_remote(self, api_key: int, version: int, data: Mapping[str, Any]) -> bytes:
        answer = self.call("encode_remote", api_key=api_key, version=version, data=data)
        return base64.b64decode(answer["bytes"])

    def run_log(
        self, path: Path, *, timeout: float | None = None, **options: Any
    ) -> dict[str, Any]:
        """Opens (or makes) a partition directory with UnifiedLog, takes `steps`, closes it."""
        return self.call("run_log", path=path, timeout=timeout, **options)

    def build_log(self, path: Path, plan: LogPlan | None = None, **fields: Any) -> BuiltLog:
        """A new partition directory by `LogPlan`; its name must be Kafka's, as `orders-0`."""
        plan = plan or LogPlan(**fields)
        steps, records = draw(plan)
        answer = self.run_log(
            path,
            config=plan.settings(),
            time=START,
            topic_id=TOPIC_ID,
            steps=steps,
            close=plan.close,
            timeout=300,
        )
        log_end_offset = answer["state"]["log_end_offset"]
        if log_end_offset != records[-1].offset + 1:
            raise AssertionError(f"Kafka ends at {log_end_offset}, the plan at {records[-1]}")
        return BuiltLog(path=path, records=records, state=answer["state"], files=answer["files"])

    def open_log(
        self, source: Path, into: Path | None = None, *, high_watermark: bool = True, **options: Any
    ) -> dict[str, Any]:
        """What Kafka makes of a partition directory when it starts: the state of a copy.

        The copy, recovered and closed, is left in `into` if that is given (a folder to hold it).
        Options as in `run_log`: clean_shutdown, log_start_offset, recovery_point, config, time.
        """
        with tempfile.TemporaryDirectory() as scratch:
            steps = [{"do": "high_watermark"}] if high_watermark else []
            target = (into or Path(scratch)) / source.name
            options = {"time": START, "steps": steps} | options
            return self.run_log(target, copy_from=source, timeout=300, **options)

    def build_segment(self, path: Path, **options: Any) -> int:
        """One large file of batches, for benchmarks; its size."""
        return self.call("build_segment", path=path, timeout=600, **options)["size_in_bytes"]

    def bench_records(
        self, path: Path, *, rounds: int = 5, mode: str = "records"
    ) -> dict[str, Any]:
        """Seconds of each round of a Java loop over FileRecords; start it with BENCHMARK_FLAGS."""
        return self.call("bench_records", path=path, rounds=rounds, mode=mode, timeout=600)


class MessageExample:
    """A message Kafka wrote: `data` is its JSON, `bare` its bytes, `stored` those in a record."""

    def __init__(self, answer: Mapping[str, Any]) -> None:
        self.set: str = answer["set"]
        self.part: str = answer["part"]
        self.api_key: int = answer["api_key"]
        self.name: str = answer["name"]
        self.version: int = answer["version"]
        self.data: dict[str, Any] = answer["data"]
        self.stored = base64.b64decode(answer["bytes"])
        self.bare = base64.b64decode(answer["bare"])

    def __repr__(self) -> str:
        return f"{self.name} v{self.version} {self.bare.hex()}"


class Dump:
    """What DumpLogSegments printed, and how it ended."""

    def __init__(self, result: Mapping[str, Any]) -> None:
        self.stdout: str = result["stdout"]
        self.stderr: str = result["stderr"]
        self.exit: int | None = result["exit"]
        self.error: Mapping[str, Any] | None = result["error"]
        self.seconds: float = result["seconds"]

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()


def _pump(stdout: IO[bytes], answers: "queue.SimpleQueue[bytes]") -> None:
    """Answers to the queue, then an empty one: the JVM has ended."""
    for line in stdout:
        answers.put(line)
    answers.put(b"")


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, bytes | memoryview):
        return b64(value)
    if hasattr(value, "request"):  # a typed step, such as those of tests/kafka_log/steps.py
        return value.request()
    raise TypeError(f"{value!r} has no JSON form here")
