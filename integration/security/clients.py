"""Stock clients in processes of their own, one for each client, which write and read with the access that they are given."""

from __future__ import annotations

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple

from testing.clients.access import Access
from testing.places import JAVA_SOURCES
from testing.process.java import quick_java
from testing.process.kafka_peer import classpath
from testing.process.maven import old_client_jars
from testing.waiting import WAIT_S, line_of

PROGRAM: Final = JAVA_SOURCES / "SecuredClient.java"
PYTHON: Final = ("kafka-python", "confluent-kafka", "aiokafka")
JAVA: Final = {"Java 3.9": "3.9.2", "Java 4": "4.3.1"}
OLD_JAVA: Final = {f"Java {release.rpartition('.')[0]}": release for release in ("0.9.0.1", "0.10.0.1", "0.10.2.2", "0.11.0.3")}
REFUSED_SETTINGS: Final = {"max.block.ms": "3000", "reconnect.backoff.ms": "500"}
"""How long and how often old clients of Java try, for whom a refusal is one more connection that has ended."""


class Result(NamedTuple):
    read: int = 0
    written: int = 0
    error: str = ""
    text: str = ""


class StockClient:
    """A client by its name. `folder` gets what its process writes to its standard error."""

    def __init__(self, name: str, folder: Path, *, login: str = "", tokens: tuple[str, ...] = ()) -> None:
        """`login` is the login of Java clients before 0.10.2; those since 4.0 read no other files of tokens than `tokens`."""
        self.name = name
        if name in PYTHON:
            command = [sys.executable, "-m", "testing.clients.secured"]
        elif name in JAVA:
            allowed = ",".join(f"file://{token}" for token in tokens)
            options = ["-Xmx128m", f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={allowed}"]
            command = [*quick_java(classpath(JAVA[name]), PROGRAM), *options, PROGRAM.stem]
        else:
            file = folder / f"{name}.jaas"
            file.write_text(f"KafkaClient {{ {login} }};\n")
            classes = ":".join(map(str, old_client_jars(OLD_JAVA[name])))
            options = ["-Xmx128m", f"-Djava.security.auth.login.config={file}"]
            command = [*quick_java(classes, PROGRAM), *options, PROGRAM.stem]
        self._errors = (folder / f"{name}.log").open("wb")
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors)

    def do(self, topic: str, access: Access, seconds: float = 0, *, is_refused: bool = False) -> Result:
        """Write and read numbers for this long, at least one."""
        if self.name in PYTHON:
            job = {"client": self.name, "topic": topic, "access": access.as_dict(), "seconds": seconds, "is_refused": is_refused}
            return Result(**json.loads(self._ask(json.dumps(job))))
        of_java = access.of_java() if self.name in JAVA else access.of_old_java()
        if is_refused and self.name in OLD_JAVA:
            of_java |= REFUSED_SETTINGS
        settings = [f"{name}={value}" for name, value in of_java.items()]
        first, _, second = self._ask("\t".join([topic, str(seconds), *settings])).partition("\t")
        return Result(int(first), int(second)) if first.isdigit() else Result(error=first, text=second)

    def _ask(self, line: str) -> str:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(line.encode() + b"\n")
        self._process.stdin.flush()
        return line_of(self._process.stdout, f"{self.name} with {line}", WAIT_S).decode().rstrip("\n")

    def close(self) -> None:
        self._process.kill()
        self._process.communicate(timeout=WAIT_S)
        self._errors.close()


class StockClients:
    """Several clients, which do the same at the same time, each in a topic of its own."""

    def __init__(self, names: tuple[str, ...], folder: Path, *, login: str = "", tokens: tuple[str, ...] = ()) -> None:
        self._clients = [StockClient(name, folder, login=login, tokens=tokens) for name in names]
        self._pool = ThreadPoolExecutor(len(names))

    def do(self, topic: str, access: Access, seconds: float = 0, *, is_refused: bool = False) -> dict[str, Result]:
        """Return the result of each client."""
        topics = [f"{topic}-{one.name.replace(' ', '-')}" for one in self._clients]
        results = self._pool.map(lambda one, name: one.do(name, access, seconds, is_refused=is_refused), self._clients, topics)
        return {one.name: result for one, result in zip(self._clients, results, strict=True)}

    def close(self) -> None:
        for one in self._clients:
            one.close()
        self._pool.shutdown()
