"""`docker compose`, or podman-compose with podman: both take the same files and the same commands."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from testing.containers.engine import Engine, EngineError
from testing.places import ROOT

WITH_CHECKS: Final = Path(__file__).with_name("podman_with_checks.py")
TIMEOUT_S: Final = 600


def command(engine: Engine) -> list[str] | None:
    """Return the command that runs a compose file with this engine; None when it is not installed."""
    if not engine.is_podman:
        return ["docker", "compose"] if engine.call("compose", "version").returncode == 0 else None
    beside = Path(sys.executable).with_name("podman-compose")
    found = str(beside) if beside.exists() else shutil.which("podman-compose")
    if found is None:
        return None
    return [found] if engine.runs_health_checks else [found, "--podman-path", str(WITH_CHECKS)]


class Project:
    """A compose file under a project name of its own. `down` removes its containers and volumes."""

    def __init__(
        self, engine: Engine, name: str, file: Path = ROOT / "docker-compose.yml", environment: Mapping[str, str] | None = None
    ) -> None:
        compose = command(engine)
        assert compose is not None, "the fixture skips without it"
        self.name = name
        self._command = [*compose, "--file", str(file), "--project-name", name]
        self._environment = {**engine.full_environment, **(environment or {})}

    def run(self, *arguments: str, timeout_s: float = TIMEOUT_S) -> str:
        """Run a compose command and return its standard output. Raises EngineError when it fails."""
        done = subprocess.run(
            [*self._command, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=self._environment,
            check=False,
        )
        if done.returncode:
            output = f"{done.stdout}{done.stderr}"[-8000:]
            raise EngineError(f"{' '.join([*self._command, *arguments])}: exit code {done.returncode}\n{output}")
        return done.stdout

    def container(self, service: str) -> str:
        """Return the name of a service's container, which both programs form alike."""
        separator = "-" if self._command[0] == "docker" else "_"
        return separator.join((self.name, service, "1"))

    def down(self) -> None:
        self.run("--profile", "clients", "--profile", "spark", "--profile", "monitoring", "down", "--volumes")
