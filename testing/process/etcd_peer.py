"""etcd for tests: Debian's package, unpacked into the cache folder; one member or several, on loopback.

A test uses the etcd of the PATH if there is one. Otherwise the package is downloaded with apt-get, which needs no root.
"""

from __future__ import annotations

import functools
import shutil
import signal
import ssl
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Final

from pybroker.security.tls.certificates import Pair, authority, issued
from testing.places import cache_dir
from testing.process.kafka_peer import free_port
from testing.waiting import LONG_WAIT_S

PACKAGE: Final = "etcd-server"
START_S_MAX: Final = 60
LOOPBACK: Final = "127.0.0.1"


@functools.cache
def executable() -> Path:
    """Return etcd's executable. Raises RuntimeError if there is none and its package cannot be downloaded."""
    if (found := shutil.which("etcd")) is not None:
        return Path(found)
    unpacked = cache_dir() / PACKAGE
    binary = unpacked / "usr" / "bin" / "etcd"
    if not binary.exists():
        cache_dir().mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache_dir()) as folder:
            try:
                _run(["apt-get", "download", PACKAGE], folder)
                (package,) = Path(folder).glob("*.deb")
                _run(["dpkg", "-x", str(package), "root"], folder)
            except (OSError, ValueError) as error:
                raise RuntimeError(f"the package {PACKAGE} cannot be downloaded: {error}") from error
            if not binary.exists():  # another worker may have been faster
                (Path(folder) / "root").replace(unpacked)
    return binary


class Certificates:
    """An authority in `folder`, the certificate of a server at loopback that it has signed, and that of a client; PEM files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        signer = authority("ca")
        server, client = (issued(signer, f"CN={name}", (LOOPBACK, "localhost")) for name in ("server", "client"))
        self.ca, self.server, self.client = (
            _written(folder / name, pair) for name, pair in (("ca", signer), ("server", server), ("client", client))
        )

    def options(self) -> list[str]:
        """Return the options of an etcd that demands the certificate of a client."""
        (ca, _), (certificate, key) = self.ca, self.server
        return ["--cert-file", str(certificate), "--key-file", str(key), "--client-cert-auth", "--trusted-ca-file", str(ca)]

    def context(self) -> ssl.SSLContext:
        """Return what the client connects with."""
        context = ssl.create_default_context(cafile=self.ca[0])
        context.load_cert_chain(*self.client)
        return context


class Member:
    """A member of etcd, which keeps its ports and its data over restarts. `inside` begins a command that runs at `host`."""

    def __init__(
        self,
        folder: Path,
        name: str,
        certificates: Certificates | None = None,
        *,
        host: str = LOOPBACK,
        inside: Sequence[str] = (),
    ) -> None:
        self.name, self._folder, self.certificates, self._inside = name, folder / name, certificates, inside
        self.url = f"{'http' if certificates is None else 'https'}://{host}:{free_port()}"
        self.peer_url = f"http://{host}:{free_port()}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, cluster: str) -> None:
        """Start the process; `cluster` names all members."""
        command = [*self._inside, str(executable()), "--name", self.name, "--data-dir", str(self._folder), "--log-level", "error"]
        command += ["--listen-client-urls", self.url, "--advertise-client-urls", self.url]
        command += ["--listen-peer-urls", self.peer_url, "--initial-advertise-peer-urls", self.peer_url]
        command += ["--initial-cluster", cluster, "--pre-vote"]
        command += [] if self.certificates is None else self.certificates.options()
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, such as SIGSTOP, to the process."""
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End the process at once."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(LONG_WAIT_S)
            self._process = None


class EtcdPeer:
    """A cluster of etcd. `urls` is what follows `etcd:` in metadata.store."""

    def __init__(self, members: list[Member]) -> None:
        self.members = members
        self.urls = ",".join(member.url for member in self.members)
        self._cluster = ",".join(f"{member.name}={member.peer_url}" for member in self.members)

    def start(self, *members: Member) -> None:
        """Start members, all by default."""
        for member in members or self.members:
            member.start(self._cluster)

    def become_ready(self) -> None:
        """Wait until the cluster carries out requests. Raises RuntimeError if it never does."""
        end = time.monotonic() + START_S_MAX
        while not any(_serves(member) for member in self.members):
            if time.monotonic() > end:
                raise RuntimeError("etcd did not start")
            time.sleep(0.05)


@contextmanager
def running(count: int = 1, certificates: Certificates | None = None) -> Iterator[EtcdPeer]:
    """Run a cluster of etcd for as long as the context lasts; with certificates, its clients need TLS."""
    with tempfile.TemporaryDirectory() as folder:
        etcd = EtcdPeer([Member(Path(folder), f"etcd-{number}", certificates) for number in range(count)])
        try:
            etcd.start()
            etcd.become_ready()
            yield etcd
        finally:
            for member in etcd.members:
                member.kill()


def _serves(member: Member) -> bool:
    request = urllib.request.Request(f"{member.url}/v3/kv/range", data=b'{"key":"YQ=="}')
    context = None if member.certificates is None else member.certificates.context()
    try:
        with urllib.request.urlopen(request, timeout=2, context=context) as response:
            return bool(response.status == HTTPStatus.OK)
    except urllib.error.HTTPError as error:
        return error.code == HTTPStatus.BAD_REQUEST  # it wants a user
    except OSError:
        return False


def _written(path: Path, pair: Pair) -> tuple[Path, Path]:
    """Return the paths of files with a certificate and its key."""
    certificate, key = path.with_suffix(".pem"), path.with_suffix(".key")
    certificate.write_bytes(pair.certificate_pem())
    key.write_bytes(pair.key_pem())
    return certificate, key


def _run(command: list[str], folder: str) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=LONG_WAIT_S)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} failed: {done.stderr.strip()}")
