"""The container engine of this machine: Docker where its daemon responds, else podman; both take the same commands.

This module hides what differs. Where no systemd runs, as on many CI machines, podman gets a configuration of its own
(containers.conf beside this file) and runs no health checks: code that waits for a container's health runs them itself.
"""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

CONFIGURATION: Final = Path(__file__).with_name("containers.conf")
TIMEOUT_S: Final = 120
BUILD_TIMEOUT_S: Final = 1800
CAUSE_LINES: Final = 25
STEP: Final = re.compile(r"^STEP .*$", re.MULTILINE)
CALLS: Final = re.compile(r"^(\S* ?\S* ?)Traceback \(most recent call last\):\n(?:\1  .*\n)+", re.MULTILINE)
"""The calls of a Python traceback, whose last line remains. Docker numbers the lines."""

DOCKER, PODMAN = "docker", "podman"


class EngineError(RuntimeError):
    """A command of the engine failed; the message has the command and its output."""


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine and how it is called."""

    name: str
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_podman(self) -> bool:
        return self.name == PODMAN

    @property
    def full_environment(self) -> dict[str, str]:
        """The environment of a process that calls the engine itself."""
        return {**os.environ, **self.environment}

    @property
    def runs_health_checks(self) -> bool:
        """Whether the engine runs them: podman leaves that to systemd."""
        return not self.is_podman or has_systemd()

    def run(self, *arguments: str, text_in: str | None = None, timeout_s: float = TIMEOUT_S, check: bool = True) -> str:
        """Run `ENGINE ARGUMENTS` and return its standard output without the last newline. Raises EngineError when it fails."""
        done = self.call(*arguments, text_in=text_in, timeout_s=timeout_s)
        if check and done.returncode:
            raise EngineError(f"{self.name} {' '.join(arguments)}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout.rstrip("\n")

    def call(
        self, *arguments: str, text_in: str | None = None, timeout_s: float = TIMEOUT_S, is_merged: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Run `ENGINE ARGUMENTS`; a failure is the caller's. With `is_merged`, standard error goes to standard output."""
        return subprocess.run(
            [self.name, *arguments],
            input=text_in,
            stdin=None if text_in is not None else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if is_merged else subprocess.PIPE,
            text=True,
            timeout=timeout_s,
            env=self.full_environment,
            check=False,
        )

    def inspect(self, kind: str, name: str) -> dict[str, Any]:
        """Return what the engine knows of a container, an image, a volume or a network."""
        found = json.loads(self.run(kind, "inspect", name))
        assert isinstance(found, list)
        return dict(found[0])

    def has_image(self, name: str) -> bool:
        return self.call("image", "inspect", name).returncode == 0


def has_systemd() -> bool:
    return Path("/run/systemd/system").exists()


@functools.cache
def find() -> Engine | None:
    """Return Docker if its daemon responds, else podman if it works, else None.

    The variable ENGINE (docker, podman) chooses one. With `none`, no engine is found.
    """
    wanted = os.environ.get("ENGINE")
    for engine in (Engine(DOCKER), Engine(PODMAN, podman_environment())):
        if wanted not in {None, "", engine.name} or shutil.which(engine.name) is None:
            continue
        if engine.call("info").returncode == 0:
            return engine
    return None


def podman_environment() -> dict[str, str]:
    if has_systemd() or "CONTAINERS_CONF" in os.environ:
        return {}
    return {"CONTAINERS_CONF": str(CONFIGURATION)}


def cause(output: str) -> str:
    """Return what a person needs of the output of a build that failed: the end of its last step, without the calls in Python."""
    last_step = STEP.split(output)[-1]
    return "\n".join(CALLS.sub("", last_step + "\n").strip().splitlines()[-CAUSE_LINES:])


def first_line(texts: Sequence[str]) -> str:
    """Return, for messages, the first line of the first text that is not empty."""
    return next((text.strip().splitlines()[0] for text in texts if text.strip()), "")
