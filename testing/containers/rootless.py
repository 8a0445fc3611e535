"""podman as an ordinary user, for tests that run as root, because rootless networks differ from root's.

PYBROKER_ROOTLESS_USER names the user. That user needs subordinate ids (/etc/subuid, /etc/subgid) and access to /dev/net/tun. The
image is copied into the user's storage.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.containers.engine import CONFIGURATION, PODMAN, Engine

COPY_TIMEOUT_S = 300


@contextlib.contextmanager
def rootless(engine: Engine, image: str) -> Iterator[Engine]:
    """Yield the user's podman, with the image; skip the test where there is no such user."""
    user = os.environ.get("PYBROKER_ROOTLESS_USER")
    podman = shutil.which(PODMAN)
    if not user or os.geteuid() or not engine.is_podman or podman is None:
        pytest.skip("rootless networks are tested with podman, by root, as the user in PYBROKER_ROOTLESS_USER")
    # pytest's folders belong to root alone, and a longer name makes the path of slirp4netns's socket too long.
    with tempfile.TemporaryDirectory(prefix="pb-") as name:
        found = Engine(PODMAN, {"PATH": f"{name}:{os.environ['PATH']}"})
        _wrap(podman, user, Path(name))
        _copy_image(engine, found, image)
        try:
            yield found
        finally:
            found.call("system", "migrate")  # ends the process that holds the user's namespace and its network


def _wrap(podman: str, user: str, folder: Path) -> None:
    """Write a command `podman` into the folder, which runs the user's podman."""
    folder.chmod(0o755)
    run = folder / "run"
    run.mkdir(mode=0o700)
    shutil.copyfile(CONFIGURATION, folder / "containers.conf")
    (folder / "containers.conf").chmod(0o644)
    shutil.chown(run, user)
    variables = {
        "HOME": str(Path(f"~{user}").expanduser()),
        "XDG_RUNTIME_DIR": str(run),
        "CONTAINERS_CONF": str(folder / "containers.conf"),
    }
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in variables.items())
    wrapper = folder / PODMAN
    wrapper.write_text(f'#!/bin/sh\ncd /\nexec runuser -u {shlex.quote(user)} -- env {settings} {podman} "$@"\n')
    wrapper.chmod(0o755)


def _copy_image(engine: Engine, to: Engine, image: str) -> None:
    command, environment = [engine.name, "save", "--format", "docker-archive", image], {**os.environ, **engine.environment}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as save:
        subprocess.run(
            [to.name, "load", "--quiet"],
            stdin=save.stdout,
            env={**os.environ, **to.environment},
            check=True,
            capture_output=True,
            timeout=COPY_TIMEOUT_S,
        )
    assert save.returncode == 0
