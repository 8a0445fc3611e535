"""Containers of a test: started, watched, stopped, and removed with their volumes at the end."""

from __future__ import annotations

import contextlib
import itertools
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from testing.containers.engine import Engine
from testing.process.kafka_peer import free_port

READY_TIMEOUT_S: Final = 60
STOP_TIMEOUT_S: Final = 30
CHECK_PAUSE_S: Final = 0.1
PORT: Final = 9092
DATA: Final = "/var/lib/kafka/data"
CHECK: Final = ("/usr/local/bin/python3", "-I", "-S", "/opt/pybroker/healthcheck.py")

_numbers = itertools.count()


def unique(what: str = "test") -> str:
    """Return a name for a container, a network or a volume that no other test has, in this process or another."""
    return f"pybroker-{what}-{os.getpid()}-{next(_numbers)}"


@dataclass(frozen=True, slots=True)
class Container:
    """One container. Owned by the test that started it."""

    engine: Engine
    name: str

    @property
    def log(self) -> str:
        """Standard output and standard error."""
        done = self.engine.call("logs", self.name)
        return done.stdout + done.stderr

    @property
    def is_running(self) -> bool:
        return bool(self.engine.inspect("container", self.name)["State"]["Running"])

    @property
    def exit_code(self) -> int:
        return int(self.engine.inspect("container", self.name)["State"]["ExitCode"])

    @property
    def health(self) -> str:
        """starting, healthy or unhealthy, as the engine reports it; where the engine runs no checks, after a check."""
        if not self.engine.runs_health_checks:
            self.engine.call("healthcheck", "run", self.name)
        state = self.engine.inspect("container", self.name)["State"]
        return str((state.get("Health") or state.get("Healthcheck"))["Status"])

    def wait_healthy(self, timeout_s: float = READY_TIMEOUT_S) -> float:
        """Wait until the container is healthy, and return the seconds. Raises with the log when it ends or the time is over."""
        began = time.monotonic()
        while self.health != "healthy":
            if not self.is_running or time.monotonic() - began > timeout_s:
                raise AssertionError(f"{self.name} is {self.health}, running: {self.is_running}; its log:\n{self.log[-5000:]}")
            time.sleep(CHECK_PAUSE_S)
        return time.monotonic() - began

    def execute(self, *command: str, check: bool = True) -> str:
        return self.engine.run("exec", self.name, *command, check=check)

    def stop(self, timeout_s: int = STOP_TIMEOUT_S) -> float:
        """Run `ENGINE stop`, and return the seconds that it took; the engine kills the container after `timeout_s`."""
        began = time.monotonic()
        self.engine.run("stop", "-t", str(timeout_s), self.name)
        return time.monotonic() - began

    def start(self) -> None:
        self.engine.run("start", self.name)

    def remove(self) -> None:
        """Remove the container by force, because a container that is asked to end may take its time."""
        self.engine.call("kill", self.name)
        self.engine.call("rm", "--force", "--volumes", self.name)


def published() -> tuple[list[str], str]:
    """Return options that publish a broker's port to this machine, and its host:port."""
    port = free_port()
    options = ["--publish", f"127.0.0.1:{port}:{PORT}", "--env", f"PYBROKER_ADVERTISED=127.0.0.1:{port}"]
    return options, f"127.0.0.1:{port}"


@contextlib.contextmanager
def running(engine: Engine, image: str, *options: str, command: Sequence[str] = ()) -> Iterator[Container]:
    """Run `ENGINE run --detach OPTIONS IMAGE COMMAND`; at the end, remove the container and its anonymous volumes."""
    container = Container(engine, unique())
    try:
        engine.run("run", "--detach", "--name", container.name, *options, image, *command)
        yield container
    finally:
        container.remove()


@contextlib.contextmanager
def volume(engine: Engine) -> Iterator[str]:
    """Create a volume, and yield its name."""
    name = unique("volume")
    engine.run("volume", "create", name)
    try:
        yield name
    finally:
        engine.call("volume", "rm", "--force", name)


@contextlib.contextmanager
def network(engine: Engine) -> Iterator[str]:
    """Create a bridge network, on which containers know each other by name, and yield its name."""
    name = unique("network")
    engine.run("network", "create", name)
    try:
        yield name
    finally:
        engine.call("network", "rm", "--force", name)
