"""A broker for tests that is a process of its own."""

from __future__ import annotations

import logging
import os
import re
import secrets
import selectors
import signal
import socket
import subprocess
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Final, TypeVar

from pybroker.admin.client import ApiError, access_of
from pybroker.admin.steps import Ask
from pybroker.api.seen_clients import SeenClient
from pybroker.broker.joining import StartError
from pybroker.client.connection import Connection
from pybroker.client.frames import Frames
from pybroker.faults.trail import LENGTH, OWN
from pybroker.testing.blocking import START_S, BlockingBroker
from pybroker.testing.directory import Directory
from pybroker.testing.place import NotRunningError, Placed
from pybroker.testing.remote import Api, RemoteClock, RemoteFaults, requests_of
from pybroker.testing.settings import LOOPBACK, config_of, properties_of, texts_of
from pybroker.testing.snapshot import Snapshot
from pybroker.times.stored import NAME

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pybroker.admin.steps import Steps
    from pybroker.admin.topics import Setting
    from pybroker.faults.trail import SeenRequest

Result = TypeVar("Result")

STOP_S: Final = 60.0
STRIPPED: Final = ("KAFKA_", "PYBROKER_")
KEPT: Final = "PYBROKER_PURE"
"""It chooses the build of the native parts, and no setting of a broker."""
CHILD: Final = "pybroker.testing.child"
LINES_SHOWN: Final = 20
logger = logging.getLogger(__name__)

LISTENER: Final = "pybroker.admin.listener"
TOKEN: Final = "pybroker.admin.token"  # noqa: S105  the name of a setting
VIRTUAL: Final = "pybroker.virtual.time"
READY_LINE: Final = re.compile(rb"^READY .*\n", re.MULTILINE)
SECRET: Final = (LISTENER, TOKEN, VIRTUAL)
"""The settings that the process reads from a file, because other users of the machine see its command line."""


class ProcessBroker(Placed, BlockingBroker):
    """A broker that is a process of its own; `Broker.subprocess()` makes it.

    It ends when this process ends, in whatever way. Its environment is that of this process without KAFKA_* and PYBROKER_*.
    """

    def __init__(
        self, settings: Mapping[str, Setting] | None = None, *, virtual_time: bool = False, as_version: str | None = None
    ) -> None:
        self._texts = texts_of(settings, as_version)
        if not self._texts.get(LISTENER):
            self._texts |= {LISTENER: f"http://{LOOPBACK}:0", TOKEN: secrets.token_urlsafe()}
        self._texts[VIRTUAL] = str(virtual_time).lower()
        self._process: subprocess.Popen[bytes] | None = None
        self._api = Api()
        self._seen: deque[SeenRequest] = deque(maxlen=LENGTH)  # of earlier lives
        self.faults = RemoteFaults(self._api)
        self.clock = RemoteClock(self._api, self._clock_path if virtual_time else None)

    @property
    def admin_url(self) -> str:
        """Where the API for other languages is. It needs a token, unless the settings name its address, and no token."""
        return self._api.url

    @property
    def requests(self) -> list[SeenRequest]:
        """The last requests of clients, oldest first; `reset` forgets them."""
        return [*self._seen, *(requests_of(self._api) if self._api.url else ())][-LENGTH:]

    @property
    def pid(self) -> int:
        """The id of the process."""
        if self._process is None:
            raise NotRunningError
        return self._process.pid

    @property
    def log_text(self) -> str:
        """Everything that the broker has written to its log."""
        return (self._of_life.path / "broker.log").read_text(errors="replace")

    def start(self) -> None:
        """Start the process; clients can connect when this returns. Raises StartError, and OSError."""
        assert self._directory is None, "a broker starts once; `restart` starts it again"
        self._directory = Directory()
        try:
            config = config_of(self._texts, self._directory.path)  # a bad value is an error of the caller's line
            self._api.access = access_of(config, is_tls=config.admin_address is not None and config.admin_address.is_tls)
            self._start(self._directory)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End the process by SIGTERM, and remove its data; idempotent."""
        directory, self._directory = self._directory, None
        try:
            self._end(signal.SIGTERM)
        finally:
            if directory is not None:
                directory.remove()

    def restart(self) -> None:
        """Stop the broker, unless it was killed, and start it again with its data, at the same address.

        Raises StartError, and OSError.
        """
        self._end(signal.SIGTERM)
        self._start(self._of_life)

    def kill(self) -> None:
        """End the process by SIGKILL; `restart` starts it again, with the rules of faults."""
        self._end(signal.SIGKILL)

    def snapshot(self) -> Snapshot:
        """Copy everything that the broker has: topics, records, groups, transactions, settings. Clients stay connected."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)
            return Snapshot(self._of_life.path)
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def restore(self, snapshot: Snapshot) -> None:
        """Put back what the broker had, which cuts all connections, and forget the requests. Raises StartError, OSError, and
        ValueError for a snapshot of another broker.
        """
        snapshot.check_is_of(self._of_life.path)
        self.kill()
        time_passed = self.clock.passed_ms()
        snapshot.put_back()
        self.clock.put_back(time_passed)
        self._seen.clear()
        self._start(self._of_life)

    def clients(self) -> list[SeenClient]:
        """Return what each client has used up to now, connected or not; `reset` forgets those that are not."""
        return [SeenClient.of_data(one) for one in self._api.request("GET", "/v1/clients")["clients"]]

    def reset(self) -> None:
        """Remove all rules of faults, topics, groups, transactions and dynamic settings, and forget the requests.

        Clients stay connected, unless the disk has failed: then the broker is started again, as it is if it was killed. Raises
        StartError, and OSError.
        """
        try:
            self._api.request("POST", "/v1/reset")
        except (ApiError, NotRunningError, OSError):
            self._end(signal.SIGTERM)
            self.faults.forget()
            self._start(self._of_life)
            self._api.request("POST", "/v1/reset")
        self._seen.clear()

    def _carry_out(self, steps: Steps[Result]) -> Result:
        if not self._api.url:
            raise NotRunningError
        address = f"{self.host}:{self.port}"
        with Frames(socket.create_connection(self._address, START_S), address=address, client_id=OWN) as frames:
            connection, response = Connection(frames), None
            while True:
                try:
                    step = steps.send(response)
                except StopIteration as end:
                    return end.value  # type: ignore[no-any-return]
                if isinstance(step, Ask):
                    response = connection.call(step.request, step.version)
                    continue
                time.sleep(step)

    def _clock_path(self) -> Path:
        return self._of_life.path / "data" / NAME

    def _remember(self) -> None:
        """Keep what is in the memory of the process, because it ends."""
        if self._api.url:
            try:
                self._seen.extend(requests_of(self._api))
                self.faults.look()
            except (ApiError, OSError):  # it has been killed by others
                logger.debug("The process of the broker does not respond any more")
            self._api.url = ""

    def _start(self, directory: Directory) -> None:
        file = directory.path / "secret.properties"
        properties = properties_of(self._texts, directory.path)
        secret = [f"{name}={properties.pop(name)}\n" for name in SECRET if name in properties]
        file.write_text("".join(secret))  # the directory is of this user alone
        command = [sys.executable, "-P", "-m", CHILD, str(directory.path), str(file), "--exit-with-parent"]
        if "listeners" not in self._texts:
            command += ["--host", LOOPBACK]
        if self.port or "listeners" not in self._texts:
            command += ["--port", str(self.port)]
        for name, text in properties.items():
            command += ["--override", f"{name}={text}"]
        with (directory.path / "broker.log").open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  this interpreter, and settings of the test
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env={name: text for name, text in os.environ.items() if name == KEPT or not name.startswith(STRIPPED)},
                pass_fds=(directory.descriptor,),
                process_group=0,  # a Ctrl-C in the terminal is for the tests, which stop the broker
            )
        self._address = self._ready(self._process)
        self.faults.begin()

    def _end(self, number: signal.Signals) -> None:
        """End the process, if it runs, in the last resort without its consent."""
        self._remember()
        process, self._process = self._process, None
        if process is None:
            return
        assert process.stdout is not None
        process.send_signal(number)
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()

    def _ready(self, process: subprocess.Popen[bytes]) -> tuple[str, int]:
        """Return the address of the line that the broker is ready. Raises StartError."""
        lines = dict(line.split(" ", 1) for line in _lines_of(process).splitlines() if " " in line)
        if "READY" not in lines:
            end = "\n".join(self.log_text.splitlines()[-LINES_SHOWN:])
            raise StartError(f"the process of the broker does not become ready; its log ends:\n{end}")
        self._api.url = lines["ADMIN"]
        host, _, port = lines["READY"].rpartition(":")
        return host, int(port)


def _lines_of(process: subprocess.Popen[bytes]) -> str:
    """Return the lines that a process writes until it is ready; what it has written if it ends, or takes longer than START_S."""
    assert process.stdout is not None
    read = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not READY_LINE.search(read) and selector.select(START_S):
            if not (data := os.read(process.stdout.fileno(), 4096)):
                break
            read += data
    return read.decode(errors="replace")
