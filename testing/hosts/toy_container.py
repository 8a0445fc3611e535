"""A container without an engine: namespaces with a root of their own, where the image's files are at the image's paths.

It has what the broker and its callers see of a container: `container/root` under `/`, an empty `/tmp` and `/var/lib/kafka/data`,
a network with only a loopback, a host name, an `/etc/hosts`, and any user. It lacks the image's own Python and packages (the
machine's are bound in, read-only), limits, and an engine's network. Everything ends with the process that holds the namespaces.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from pybroker.tools.install import install
from testing.hosts.holder import MOUNTED, held
from testing.places import ROOT
from testing.waiting import WAIT_S

IMAGE_ROOT = ROOT / "container" / "root"
START_TIMEOUT_S = 120
STOP_TIMEOUT_S = 60
PATH = "/opt/pybroker/bin:/opt/kafka/bin:/usr/local/bin:/usr/bin:/bin"
USER = 1000

_SET_UP = """
set -e
mount -t tmpfs -o mode=0755 tmpfs "$1"
cd "$1"
mkdir -p dev proc etc opt run usr/sbin var/lib/kafka/data etc/confluent
mkdir -m 1777 tmp
for name in bin lib lib64; do
    if [ -L "/$name" ]; then cp -P "/$name" "$name"; elif [ -d "/$name" ]; then mkdir "$name"; mount --rbind "/$name" "$name"; fi
done
for name in bin lib lib64 libexec local share include; do
    [ -L "/usr/$name" ] || [ ! -d "/usr/$name" ] || { mkdir "usr/$name"; mount --rbind "/usr/$name" "usr/$name"; }
done
mount --rbind /proc proc
mount --rbind /dev dev
for name in ld.so.cache alternatives ssl java-17-openjdk java-21-openjdk; do
    [ ! -e "/etc/$name" ] || cp -a "/etc/$name" etc/
done
cp -a "$2/." .
mount -t tmpfs -o mode=0755 tmpfs var/lib/kafka/data
chown -R "$3" etc/confluent etc/kafka var/lib/kafka usr/sbin
shift 3
for path in "$@"; do
    mkdir -p "./$path"; mount --bind "$path" "./$path"; mount -o remount,bind,ro "./$path"
done
ip link set lo up
hostname kafka
"""


class Process:
    """A process in a container, with its standard output as a text that grows and its standard error in a file."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self.log = log
        self.text = ""
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, stdin=subprocess.DEVNULL, process_group=0
            )

    def wait_for(self, pattern: str, timeout_s: float = START_TIMEOUT_S) -> str:
        """Return the first line of standard output that matches `pattern` as a whole, as the test libraries match."""
        deadline = time.monotonic() + timeout_s
        while True:
            for line in self.text.splitlines(keepends=True):
                if line.endswith("\n") and re.fullmatch(pattern, line.rstrip("\n")):
                    return line.rstrip("\n")
            if not self._read_more(deadline):
                raise AssertionError(f"no line {pattern!r} in\n{self.text}\n{self.errors[-3000:]}")

    def _read_more(self, deadline: float) -> bool:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(max(0.0, deadline - time.monotonic())):
                return False
        piece = os.read(self._process.stdout.fileno(), 65536)
        self.text += piece.decode()
        return bool(piece)

    @property
    def errors(self) -> str:
        return self.log.read_text(errors="replace")

    def ended(self, timeout_s: float = STOP_TIMEOUT_S) -> int:
        """Wait for the end of the process, and return its exit code."""
        deadline = time.monotonic() + timeout_s
        while self._read_more(deadline):
            pass
        return self._process.wait(max(0.1, deadline - time.monotonic()))

    def stop(self) -> float:
        """Send SIGTERM, and return the seconds until the process ended. Raises when it ended with an error."""
        began = time.monotonic()
        self._process.terminate()
        code = self.ended()
        assert code == 0, (code, self.errors[-3000:])
        return time.monotonic() - began

    def close(self) -> None:
        """End the process, whatever its state."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(WAIT_S)
        if self._process.stdout is not None:
            self._process.stdout.close()


class Container:
    """The namespaces, and the processes that the test has started in them."""

    def __init__(self, holder: int, folder: Path) -> None:
        self._holder, self._folder = holder, folder
        self._processes: list[Process] = []

    def seen(self, path: str) -> Path:
        """Return the path from outside of a path in the container."""
        return Path(f"/proc/{self._holder}/root") / path.lstrip("/")

    def hosts(self, addresses: Mapping[str, str]) -> None:
        """Write /etc/hosts from names and their addresses, all of 127.0.0.0/8."""
        lines = [f"{address}\t{name}\n" for name, address in addresses.items()]
        self.seen("/etc/hosts").write_text("127.0.0.1\tlocalhost\n" + "".join(lines))

    def command(self, command: Sequence[str], environment: Mapping[str, str] | None = None, user: int = USER) -> list[str]:
        """Return the command that runs `command` inside, as a user without a name, with these variables and no others."""
        enter = ["nsenter", f"--target={self._holder}", "--mount", "--net", "--uts", "--root", "--wd"]
        become = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups", "--no-new-privs"]
        variables = {"PATH": PATH, "HOME": "/nonexistent", "LANG": "C.UTF-8", **(environment or {})}
        return [*enter, *become, "env", "-i", *(f"{name}={text}" for name, text in variables.items()), *command]

    def start(self, command: Sequence[str], environment: Mapping[str, str] | None = None, user: int = USER) -> Process:
        log = self._folder / f"{len(self._processes)}.log"
        self._processes.append(Process(self.command(command, environment, user), log))
        return self._processes[-1]

    def run(self, command: Sequence[str], environment: Mapping[str, str] | None = None, user: int = USER) -> tuple[int, str, str]:
        """Run a command that ends by itself; return its exit code, standard output and standard error."""
        done = subprocess.run(
            self.command(command, environment, user), capture_output=True, text=True, timeout=START_TIMEOUT_S, check=False
        )
        return done.returncode, done.stdout, done.stderr

    def python(self, *arguments: str, user: int = USER, **environment: str) -> tuple[int, str, str]:
        """Run the tests' own Python inside."""
        return self.run([sys.executable, *arguments], {"PYTHONPATH": str(ROOT), **environment}, user)

    def broker(self, environment: Mapping[str, str] | None = None, user: int = USER) -> Process:
        """Start `pybroker container` as the image does."""
        return self.start(["env", "--block-signal=TERM", "--block-signal=INT", "pybroker", "container"], environment, user)

    def close(self) -> None:
        for process in self._processes:
            process.close()


@functools.cache
def _commands() -> Path:
    """Make a folder with Kafka's commands, as the image has them beside its own."""
    folder = Path(tempfile.mkdtemp(prefix="commands-"))
    atexit.register(shutil.rmtree, folder)
    install = [sys.executable, "-m", "pybroker", "tool", "install", str(folder)]
    subprocess.run(install, cwd=ROOT, stdout=subprocess.DEVNULL, timeout=WAIT_S, check=True)
    return folder


@contextlib.contextmanager
def toy_container(folder: Path, *more_paths: Path) -> Iterator[Container]:
    """Make a container with its files in `folder` and `more_paths` bound in, read-only; skip the test where that is forbidden."""
    root = folder / "root"
    root.mkdir(parents=True)
    paths = [ROOT, Path(sys.prefix), Path(sys.base_prefix), *more_paths]
    bound = dict.fromkeys(str(path.resolve()) for path in paths if not path.resolve().is_relative_to("/usr"))
    script = _SET_UP + f"exec chroot '{root}' sh -c 'echo {MOUNTED}; exec cat'"
    command = ["unshare", "--mount", "--net", "--uts", "--propagation", "private", "sh", "-c", script, "toy"]
    command += [str(root), str(IMAGE_ROOT), f"{USER}:{USER}", *bound]
    with held(command, "a root and a network of its own", "unshare, nsenter and setpriv") as holder:
        container = Container(holder, folder)
        try:
            container.hosts({"kafka": "127.0.0.1"})
            launcher = container.seen("/opt/pybroker/bin/pybroker")
            launcher.parent.mkdir(parents=True)
            launcher.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m pybroker "$@"\n')
            launcher.chmod(0o755)
            for script_file in _commands().iterdir():
                shutil.copy2(script_file, container.seen("/opt/kafka/bin") / script_file.name)
            install(container.seen("/opt/kafka/bin"))
            yield container
        finally:
            container.close()
