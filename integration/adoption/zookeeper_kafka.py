"""Apache Kafka before KRaft: a broker and its ZooKeeper, from Maven Central, on two log directories.

Kafka 2.0 runs with the classes of ZooKeeper 3.5.9, because ZooKeeper 3.4 cannot connect on Java 14 and newer. What Kafka writes
to its log directories does not depend on ZooKeeper's release.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from testing.process.broker import START_TIMEOUT_S, STOP_TIMEOUT_S
from testing.process.kafka_peer import LOG4J1, free_port, serves_metadata
from testing.process.kafka_tools import java
from testing.process.maven import folder_of_jars
from testing.waiting import until

SCALA = {"2.0.1": "2.12"}
ZOOKEEPER = ("org.apache.zookeeper", "zookeeper", "3.5.9")
PROPERTIES = {
    "broker.id": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "1",
    "offsets.retention.minutes": "1000000",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.num.partitions": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "log.index.size.max.bytes": "4096",
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.retention.ms": "-1",
    "controlled.shutdown.enable": "false",
}
TOOL_TIMEOUT_S = 120


def class_path(release: str) -> str:
    """Return the class path of a release of Kafka. Raises RuntimeError where Maven cannot get it."""
    scala = SCALA.get(release, "2.13")
    artifacts = [("org.apache.kafka", name, release) for name in (f"kafka_{scala}", "kafka-tools")]
    jars = folder_of_jars(f"kafka-{release}", *artifacts)
    if release not in SCALA:
        return f"{jars}/*"
    zookeeper = folder_of_jars(f"zookeeper-{ZOOKEEPER[2]}", ZOOKEEPER)
    first = [*zookeeper.glob("zookeeper-*.jar"), *zookeeper.glob("netty-*.jar")]
    return ":".join([*map(str, first), f"{jars}/*"])


class ZooKeeperKafka:
    """A broker with its ZooKeeper. Its data is below `folder`, and outlives it."""

    def __init__(self, folder: Path, release: str, overrides: Mapping[str, str] | None = None) -> None:
        self.folder, self.release = folder, release
        self.log_dirs = [folder / "logs", folder / "more"]
        self.port, self._zookeeper_port = free_port(), free_port()
        self._overrides = dict(overrides or {})
        self._zookeeper: subprocess.Popen[bytes] | None = None
        self._kafka: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def zookeeper(self) -> str:
        return f"127.0.0.1:{self._zookeeper_port}"

    def start(self) -> None:
        """Start ZooKeeper if it does not run, and Kafka; return when Kafka responds."""
        self.folder.mkdir(parents=True, exist_ok=True)
        properties = {
            **PROPERTIES,
            "listeners": f"PLAINTEXT://{self.bootstrap}",
            "zookeeper.connect": self.zookeeper,
            "log.dirs": ",".join(map(str, self.log_dirs)),
            **self._overrides,
        }
        path = self.folder / "server.properties"
        path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        if self._zookeeper is None:
            main = "org.apache.zookeeper.server.ZooKeeperServerMain"
            self._zookeeper = self._run("zookeeper", main, str(self._zookeeper_port), str(self.folder / "zookeeper"))
        self._kafka = self._run("kafka", "kafka.Kafka", str(path))
        until(self._responds, f"Kafka {self.release} responds, see {self.folder}/kafka.log", START_TIMEOUT_S)

    def _responds(self) -> bool:
        assert self._kafka is not None
        assert self._kafka.poll() is None, f"Kafka has ended, see {self.folder}/kafka.log"
        return serves_metadata("127.0.0.1", self.port)

    def _run(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        logging = self.folder / f"{name}-log4j.properties"
        logging.write_text(LOG4J1.format(file=self.folder / f"{name}.log"))
        options = ["-Xmx512m", f"-Dlog4j.configuration=file:{logging}", "-Dzookeeper.admin.enableServer=false"]
        command = [java(), *options, "-cp", class_path(self.release), *arguments]
        with (self.folder / f"{name}.out").open("ab") as output:
            return subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def tool(self, class_name: str, *arguments: str) -> str:
        """Run one of the release's own command line tools, and return what it printed."""
        command = [java(), "-Xmx256m", "-cp", class_path(self.release), class_name, *arguments]
        run = subprocess.run(command, capture_output=True, text=True, timeout=TOOL_TIMEOUT_S, check=False)
        assert run.returncode == 0, run.stdout + run.stderr
        return run.stdout

    def stop(self) -> None:
        """Stop Kafka cleanly."""
        assert self._kafka is not None
        self._kafka.terminate()
        self._kafka.wait(STOP_TIMEOUT_S)

    def kill(self) -> None:
        """Kill Kafka."""
        assert self._kafka is not None
        self._kafka.kill()
        self._kafka.wait(STOP_TIMEOUT_S)

    def close(self) -> None:
        for process in (self._kafka, self._zookeeper):
            if process is not None and process.poll() is None:
                process.kill()
                process.wait(STOP_TIMEOUT_S)


@contextlib.contextmanager
def zookeeper_kafka(folder: Path, release: str, overrides: Mapping[str, str] | None = None) -> Iterator[ZooKeeperKafka]:
    """Yield a started Kafka; it ends with the block."""
    kafka = ZooKeeperKafka(folder, release, overrides)
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.close()
