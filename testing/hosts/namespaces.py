"""Network namespaces that stand for a host, its containers and its neighbours, joined by veth pairs and bridges.

They need Linux, root and `ip` of iproute2. Everything is in namespaces with names of this process's own and is removed with them;
the machine's own network is not touched.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from testing.places import ROOT
from testing.process.broker import read_line
from testing.waiting import WAIT_S

START_TIMEOUT_S = 60


def ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, timeout=WAIT_S, check=False)
    if done.returncode:
        raise RuntimeError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


class Namespace:
    """A network namespace with its loopback up. `Namespaces` makes and removes it."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def path(self) -> Path:
        return Path("/var/run/netns") / self.name

    def ip(self, *arguments: str) -> str:
        return ip("-n", self.name, *arguments)

    def command(self, *arguments: str) -> list[str]:
        return ["ip", "netns", "exec", self.name, *arguments]

    def address(self, device: str, *addresses: str) -> None:
        for address in addresses:
            self.ip("address", "add", address, "dev", device, *(["nodad"] if ":" in address else []))
        self.ip("link", "set", device, "up")

    def run(self, *arguments: str, timeout_s: float = 60) -> subprocess.CompletedProcess[str]:
        return subprocess.run(self.command(*arguments), capture_output=True, text=True, check=False, timeout=timeout_s, cwd=ROOT)


class Namespaces:
    """Namespaces and the processes in them, in a `with` block."""

    def __init__(self) -> None:
        self._stack = contextlib.ExitStack()
        self._links = 0

    def __enter__(self) -> Namespaces:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def add(self, role: str) -> Namespace:
        namespace = Namespace(f"pybroker-{os.getpid()}-{role}")
        ip("netns", "add", namespace.name)
        self._stack.callback(ip, "netns", "delete", namespace.name)
        namespace.ip("link", "set", "lo", "up")
        return namespace

    def link(self, first: Namespace, first_device: str, second: Namespace, second_device: str) -> None:
        """Join two namespaces by a veth pair."""
        first.ip("link", "add", first_device, "type", "veth", "peer", "name", second_device, "netns", second.name)
        first.ip("link", "set", first_device, "up")
        second.ip("link", "set", second_device, "up")

    def bridge(self, host: Namespace, name: str, *addresses: str) -> None:
        host.ip("link", "add", "name", name, "type", "bridge")
        host.address(name, *addresses)

    def attach(self, host: Namespace, bridge: str, namespace: Namespace, device: str, *addresses: str) -> None:
        """Connect a container to the network of a bridge."""
        self._links += 1
        port = f"port{self._links}"
        self.link(host, port, namespace, device)
        host.ip("link", "set", port, "master", bridge)
        namespace.address(device, *addresses)

    def start(self, command: list[str], ready: str, log: Path, environment: Mapping[str, str] | None = None) -> re.Match[str]:
        """Start a process that ends with the namespaces, and wait for its first line on standard output, which must match
        `ready`.
        """
        with log.open("ab") as errors:
            process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                process_group=0,
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
            )
        self._stack.callback(_end, process)
        line = read_line(process, START_TIMEOUT_S)
        found = re.fullmatch(ready, line)
        if found is None:
            raise RuntimeError(f"{' '.join(command)} printed {line!r}; its log ends:\n{log.read_text(errors='replace')[-3000:]}")
        return found

    def forward(self, listening: Namespace, address: str, target: Namespace, to: str, log: Path) -> None:
        """Accept connections at `address` in one namespace and forward them to `to` from within the other, as engines do."""
        script = [sys.executable, "-m", "testing.hosts.forwarder", address, str(target.path), to]
        self.start(listening.command(*script), "FORWARDING", log)


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate(timeout=WAIT_S)


def why_not() -> str:
    """Return why no namespaces can be made here; empty when they can."""
    probe = f"pybroker-{os.getpid()}-probe"
    try:
        ip("netns", "add", probe)
    except FileNotFoundError:
        return "network namespaces need `ip` of iproute2"
    except RuntimeError as error:
        return f"no network namespace can be made: {error}"
    try:
        ip("-n", probe, "link", "add", "name", "bridge0", "type", "bridge")
        subprocess.run(["ip", "netns", "exec", probe, "true"], check=True, capture_output=True, timeout=WAIT_S)
    except (RuntimeError, subprocess.CalledProcessError) as error:
        return f"no network can be made in a namespace: {error}"
    finally:
        ip("netns", "delete", probe)
    return ""


@contextlib.contextmanager
def namespaces() -> Iterator[Namespaces]:
    """Yield new namespaces; skip the test where none can be made."""
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with Namespaces() as made:
        yield made
