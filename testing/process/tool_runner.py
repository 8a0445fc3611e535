"""Kafka's command line tools of a release, with many runs in one JVM (ToolRunner.java)."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from testing.places import JAVA_SOURCES
from testing.process.java import quick_java
from testing.process.kafka_peer import classpath
from testing.waiting import LONG_WAIT_S, line_of

Tool = Callable[..., str]
"""Runs a tool: `tool(name, *arguments, given="", code=0)` returns stdout."""

PROGRAM = JAVA_SOURCES / "ToolRunner.java"
STOP_TIMEOUT_S = 30
LOG4J1 = "log4j.rootLogger=OFF\n"
LOG4J2 = '<Configuration status="OFF"><Loggers><Root level="OFF"/></Loggers></Configuration>'

TOOLS = {
    "acls": "kafka.admin.AclCommand",
    "broker-api-versions": "kafka.admin.BrokerApiVersionsCommand",
    "client-metrics": "org.apache.kafka.tools.ClientMetricsCommand",
    "cluster": "org.apache.kafka.tools.ClusterTool",
    "configs": "kafka.admin.ConfigCommand",
    "console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "console-producer": "kafka.tools.ConsoleProducer",
    "consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "dump-log": "kafka.tools.DumpLogSegments",
    "features": "org.apache.kafka.tools.FeatureCommand",
    "get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "groups": "org.apache.kafka.tools.GroupsCommand",
    "leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "topics": "org.apache.kafka.tools.TopicCommand",
    "transactions": "org.apache.kafka.tools.TransactionsCommand",
    "verifiable-consumer": "org.apache.kafka.tools.VerifiableConsumer",
    "verifiable-producer": "org.apache.kafka.tools.VerifiableProducer",
}
MOVED_IN_4 = {
    "acls": "org.apache.kafka.tools.AclCommand",
    "broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "dump-log": "org.apache.kafka.tools.DumpLogSegments",
}


class Ran(NamedTuple):
    code: int
    out: str
    err: str


class ToolRunner:
    """The JVM that runs tools. `folder` is its working directory, with the files that the tools' arguments name."""

    def __init__(self, release: str, folder: Path, *, more_options: Sequence[str] = (), has_archive: bool = True) -> None:
        self._tools = TOOLS if release.startswith("3.") else TOOLS | MOVED_IN_4
        (folder / "log4j.properties").write_text(LOG4J1)
        (folder / "log4j2.xml").write_text(LOG4J2)
        options = ["-Xmx384m", *more_options, "-Duser.timezone=UTC"]
        options += ["--add-opens", "java.base/java.lang=ALL-UNNAMED"]
        options += ["-Dlog4j.configuration=file:log4j.properties", "-Dlog4j2.configurationFile=file:log4j2.xml"]
        self._log = (folder / "tools.log").open("wb")
        self._process = subprocess.Popen(
            [*quick_java(classpath(release), PROGRAM, has_archive=has_archive), *options, PROGRAM.stem],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, cwd=folder,
        )  # fmt: skip

    def run(self, tool: str, *arguments: str, given: str = "") -> Ran:
        """Run a tool to its end, with `given` to read on its standard input."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        words = (given, self._tools[tool], *arguments)
        self._process.stdin.write(b" ".join(base64.b64encode(word.encode()) for word in words) + b"\n")
        self._process.stdin.flush()
        code, out, err = line_of(self._process.stdout, f"{tool} {' '.join(arguments)}", LONG_WAIT_S).rstrip(b"\n").split(b" ")
        return Ran(int(code), base64.b64decode(out).decode(), base64.b64decode(err).decode())

    def succeed(self, tool: str, *arguments: str, given: str = "", code: int = 0) -> str:
        """Run a tool as `run` does, and return what it printed to stdout. Raises AssertionError if it ends with another code."""
        ran = self.run(tool, *arguments, given=given)
        assert ran.code == code, f"{ran.out[-2000:]}\n{ran.err[-3000:]}"
        # 4.x prints on stdout that an option has a new name, which 3.9 does not know yet
        return "".join(line for line in ran.out.splitlines(keepends=True) if not line.startswith("Option --"))

    def close(self) -> None:
        """End the JVM."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT_S)
        self._process.stdout.close()
        self._log.close()
