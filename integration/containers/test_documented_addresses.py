"""The commands of docs/containers.md about addresses run as the page has them, and they print what the page shows.

Only names that another test might use are replaced: that of the network, and those of containers, which keep theirs as aliases.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from testing.containers.containers import Container, unique
from testing.containers.engine import Engine
from testing.places import ROOT

HOST_PORTS = (9092, 19092)
PAGE = (ROOT / "docs" / "containers.md").read_text()


def blocks(section: str) -> list[list[str]]:
    """Return the indented blocks of a section, as lines."""
    text = PAGE.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    found = [block.strip("\n") for block in re.findall(r"(?:^(?: {4}.*|)\n)+", text, re.MULTILINE)]
    return [[line[4:] for line in block.splitlines()] for block in found if block]


class Shell:
    """A shell that runs documented lines on an engine, and that removes what they made."""

    def __init__(self, engine: Engine, image: str) -> None:
        self._engine, self._image = engine, image
        self._network = unique("documented")
        self.containers: dict[str, Container] = {}

    def run(self, line: str) -> str:
        words = [self._network if word == "dev" else word for word in shlex.split(line)]
        if words[0] == "pybroker":
            done = subprocess.run(
                [sys.executable, "-m", *words], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
            )
            assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
            return done.stdout
        assert words[0] == "docker", line
        if words[1] == "run" and "--name" in words:
            return self._start(words)
        if words[1] == "exec":
            words[2] = self.containers[words[2]].name
        return self._engine.run(*words[1:])

    def close(self) -> None:
        for container in self.containers.values():
            container.remove()
        self._engine.call("network", "rm", "--force", self._network)

    def _start(self, words: list[str]) -> str:
        at = words.index("--name") + 1
        name, words[at] = words[at], unique()
        container = self.containers[name] = Container(self._engine, words[at])
        self._engine.run(*words[1:at], words[at], "--network-alias", name, *words[at + 1 :])
        container.wait_healthy()
        return ""


@pytest.fixture
def shell(engine: Engine, image: str) -> Iterator[Shell]:
    for port in HOST_PORTS:
        with contextlib.closing(socket.socket()) as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                pytest.skip(f"the documented port {port} of this machine is taken")
    one = Shell(engine, image)
    try:
        yield one
    finally:
        one.close()


def test_the_host_and_other_containers_connect_as_the_page_describes(shell: Shell) -> None:
    first, shown, other = blocks("From the host and from other containers")
    for line in first:
        shell.run(line)
    for line in shown:
        pattern = re.escape(line).replace(re.escape("10.89.0.0/24"), r"[0-9a-f.:/, ]+")
        assert re.search(pattern, shell.containers["kafka"].log), line
    for line in other:
        shell.run(line)


def test_the_doctor_finds_why_a_client_cannot_connect_as_the_page_describes(shell: Shell, engine: Engine) -> None:
    commands, shown = blocks("When a client cannot connect")
    shell.run("docker network create dev")
    start = "docker run -d --name kafka --network dev -p 127.0.0.1:9092:9092 pybroker"
    shell.run(start)
    for line in commands:
        assert "A client on this machine works with localhost:9092." in shell.run(line)
    elsewhere = start.replace("kafka", "other").replace(":9092:", ":19092:")
    advertised = "-e KAFKA_LISTENERS=PLAINTEXT://:9092 -e KAFKA_ADVERTISED_LISTENERS=PLAINTEXT://kafka:9092"
    shell.run(elsewhere.replace(" pybroker", f" {advertised} pybroker"))
    command = [sys.executable, "-m", "pybroker", "doctor", "localhost:19092"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert [normal(line) for line in done.stdout.splitlines() if "::1" not in line][:-1] == [normal(line) for line in shown[:-1]]
    assert done.stdout.splitlines()[-1].startswith(shown[-1].removesuffix("..."))


def normal(line: str) -> str:
    """Return the line without what differs from run to run and from machine to machine."""
    line = re.sub(r"cluster \S+, broker 1, \d+ APIs", "cluster ID, broker 1, N APIs", line)
    return re.sub(r"(?<=on this machine: ).*", "REASON", line)
