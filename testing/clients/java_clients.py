"""Java's clients of a release, in one JVM that takes commands (FaultyBroker.java)."""

from __future__ import annotations

import subprocess
from pathlib import Path

from testing.places import JAVA_SOURCES
from testing.process.java import quick_java
from testing.process.kafka_peer import classpath
from testing.waiting import WAIT_S, line_of

PROGRAM = JAVA_SOURCES / "FaultyBroker.java"


class JavaClients:
    """The JVM. `folder` gets what it writes to its standard error."""

    def __init__(self, release: str, folder: Path) -> None:
        self._errors = (folder / "java.log").open("wb")
        self._process = subprocess.Popen(
            [*quick_java(classpath(release), PROGRAM), "-Xmx128m", PROGRAM.stem],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors,
        )  # fmt: skip

    def do(self, *words: object) -> list[str]:
        """Run a command of the program, and return the words of its result."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        command = " ".join(map(str, words))
        self._process.stdin.write(command.encode() + b"\n")
        self._process.stdin.flush()
        return line_of(self._process.stdout, command, WAIT_S).decode().split()

    def close(self) -> None:
        """End the JVM."""
        self._process.kill()
        self._process.communicate(timeout=WAIT_S)
        self._errors.close()
