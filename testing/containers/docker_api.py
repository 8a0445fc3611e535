"""The engine behind Docker's API; podman gets a service of ours for as long as a test uses it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from testing.containers.engine import Engine

START_TIMEOUT_S: Final = 30


@contextlib.contextmanager
def docker_api(engine: Engine) -> Iterator[dict[str, str]]:
    """Yield the variables by which the Testcontainers libraries find the engine, without their helper container."""
    variables = {"TESTCONTAINERS_RYUK_DISABLED": "true", "TESTCONTAINERS_HOST_OVERRIDE": "localhost"}
    if not engine.is_podman:
        yield variables
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "podman.sock"
        command = [engine.name, "system", "service", "--time", "0", f"unix://{path}"]
        with subprocess.Popen(command, env={**os.environ, **engine.environment}, stderr=subprocess.DEVNULL) as service:
            try:
                _wait_for(path)
                yield {**variables, "DOCKER_HOST": f"unix://{path}", "TESTCONTAINERS_CONNECTION_MODE": "docker_host"}
            finally:
                service.terminate()


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(str(path))
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return
