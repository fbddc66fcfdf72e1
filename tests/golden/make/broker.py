"""One Apache Kafka node in a scratch folder: formatted, started, stopped cleanly or killed."""

import re
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Self

from tests.oracle import jars

CLUSTER_ID = "Z29sZGVuLWRpcmVjdG9yeQ"
NODE_ID = 1
START_SECONDS = 60
STOP_SECONDS = 90

COMMON = {
    "process.roles": "broker,controller",
    "node.id": NODE_ID,
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.num.partitions": 1,
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "group.initial.rebalance.delay.ms": 0,
    # the records carry fixed timestamps of 2023: retention must not eat them
    "log.retention.ms": -1,
    # what is deleted stays on disk as it was renamed
    "log.segment.delete.delay.ms": 3_600_000,
    # 10 MiB each, preallocated, is what Kafka has: a pack unpacks quicker with less
    "log.index.size.max.bytes": 65_536,
    # few records that say nothing
    "metadata.max.idle.interval.ms": 10_000,
    "auto.create.topics.enable": "false",
    "num.network.threads": 2,
    "num.io.threads": 2,
}


class Broker:
    """`properties` go over COMMON; paths in them are relative to `home`, so none is absolute."""

    def __init__(
        self,
        version: str,
        home: Path,
        properties: Mapping[str, object],
        *,
        standalone: bool = False,
        log_dirs: tuple[str, ...] = ("data",),
        format_options: tuple[str, ...] = (),
    ) -> None:
        self.version = version
        self.home = home
        self.log_dirs = log_dirs
        self.standalone = standalone
        self.format_options = format_options
        self.process: subprocess.Popen[bytes] | None = None
        port, controller_port = _free_ports(2)
        self.bootstrap = f"127.0.0.1:{port}"
        listeners = f"PLAINTEXT://{self.bootstrap},CONTROLLER://127.0.0.1:{controller_port}"
        quorum: dict[str, object] = (
            {"controller.quorum.bootstrap.servers": f"127.0.0.1:{controller_port}"}
            if standalone
            else {"controller.quorum.voters": f"{NODE_ID}@127.0.0.1:{controller_port}"}
        )
        self.chosen = COMMON | dict(properties) | {"log.dirs": ",".join(log_dirs)}
        if version.startswith("4."):
            self.chosen = {
                "share.coordinator.state.topic.num.partitions": 1,
                "share.coordinator.state.topic.replication.factor": 1,
                "share.coordinator.state.topic.min.isr": 1,
            } | self.chosen
        self.properties = self.chosen | quorum | {"listeners": listeners}

    def __enter__(self) -> Self:
        self.format()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None and self.process.poll() is None:
            self.kill()

    def format(self) -> None:
        text = "".join(f"{name}={value}\n" for name, value in self.properties.items())
        (self.home / "server.properties").write_text(text)
        command = [*self._java("kafka.tools.StorageTool"), "format", "-t", CLUSTER_ID]
        command += ["-c", "server.properties", *self.format_options]
        command += ["--standalone"] if self.standalone else []
        subprocess.run(command, cwd=self.home, check=True, capture_output=True, timeout=60)

    def start(self) -> None:
        command = [*self._java("kafka.Kafka"), "server.properties"]
        with (self.home / "broker.log").open("ab") as output:
            self.process = subprocess.Popen(
                command, cwd=self.home, stdout=output, stderr=output, stdin=subprocess.DEVNULL
            )
        wait_for(self._answers, START_SECONDS, "the broker to listen")

    def stop(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(STOP_SECONDS)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait(STOP_SECONDS)

    def file(self, path: str) -> Path:
        """A file below the (first) log directory."""
        return self.home / self.log_dirs[0] / path

    def _java(self, main: str) -> list[str]:
        return java_command(jars.class_path(self.version), main)

    def _answers(self) -> bool:
        assert self.process is not None
        if self.process.poll() is not None:
            raise RuntimeError(
                f"the broker ended: {(self.home / 'broker.log').read_text()[-2000:]}"
            )
        return _listens(self.bootstrap)


class ZooKeeperBroker(Broker):
    """A broker from before KRaft, with a ZooKeeper of its own beside it."""

    def __init__(
        self, version: str, home: Path, properties: Mapping[str, object], *, class_path: str
    ) -> None:
        super().__init__(version, home, properties)
        self.class_path = class_path
        self.zookeeper: subprocess.Popen[bytes] | None = None
        (self.zookeeper_port,) = _free_ports(1)
        of_kraft = {"process.roles", "node.id", "controller.listener.names"}
        of_kraft |= {name for name in COMMON if name.startswith("metadata.")}
        self.chosen = {"broker.id": NODE_ID} | {
            name: value for name, value in self.chosen.items() if name not in of_kraft
        }
        self.properties = self.chosen | {
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "zookeeper.connect": f"127.0.0.1:{self.zookeeper_port}",
            "zookeeper.connection.timeout.ms": 30_000,
        }

    def format(self) -> None:
        """Nothing to format; ZooKeeper must listen before the broker starts."""
        text = "".join(f"{name}={value}\n" for name, value in self.properties.items())
        (self.home / "server.properties").write_text(text)
        command = java_command(self.class_path, "org.apache.zookeeper.server.ZooKeeperServerMain")
        command.insert(1, "-Dzookeeper.admin.enableServer=false")
        with (self.home / "zookeeper.log").open("ab") as output:
            self.zookeeper = subprocess.Popen(
                [*command, str(self.zookeeper_port), "zookeeper"],
                cwd=self.home,
                stdout=output,
                stderr=output,
                stdin=subprocess.DEVNULL,
            )
        listens = f"127.0.0.1:{self.zookeeper_port}"
        wait_for(lambda: _listens(listens), START_SECONDS, "ZooKeeper to listen")

    def __exit__(self, *exception: object) -> None:
        super().__exit__(*exception)
        if self.zookeeper is not None:
            self.zookeeper.kill()
            self.zookeeper.wait(STOP_SECONDS)

    def _java(self, main: str) -> list[str]:
        return java_command(self.class_path, main)


def java_command(class_path: str, main: str) -> list[str]:
    return [jars.java_program("java"), "-Xmx384m", "-XX:+UseSerialGC", "-cp", class_path, main]


def wait_for(condition: Callable[[], object], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError(f"waited {seconds} s for {what}")
        time.sleep(0.2)


def checkpointed_offset(path: Path, topic: str, partition: int) -> int:
    """What an offset checkpoint says of one partition, -1 for nothing."""
    text = path.read_text() if path.exists() else ""
    found = re.search(rf"^{re.escape(topic)} {partition} (\d+)$", text, re.MULTILINE)
    return int(found.group(1)) if found else -1


def java_version() -> str:
    command = [jars.java_program("java"), "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    return done.stderr.splitlines()[0].replace('"', "")


def _listens(address: str) -> bool:
    host, port = address.split(":")
    with closing(socket.socket()) as probe:
        return probe.connect_ex((host, int(port))) == 0


def _free_ports(count: int) -> list[int]:
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()
