"""Brokers for tests that block: one or a cluster in a thread of this process, and one that is a process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from pybroker.admin.steps import Ask
from pybroker.admin.topics import reset
from pybroker.broker.joining import StartError
from pybroker.client.connection import Connection
from pybroker.client.frames import Frames
from pybroker.faults.trail import OWN
from pybroker.network.limits import host_and_port
from pybroker.testing.broker import Broker
from pybroker.testing.clock import BlockingClock
from pybroker.testing.cluster import Cluster
from pybroker.testing.directory import Directory
from pybroker.testing.leaks import leaks
from pybroker.testing.settings import LOOPBACK, config_of, properties_of, texts_of
from pybroker.testing.snapshot import Snapshot
from pybroker.testing.verbs import BlockingVerbs

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping
    from types import TracebackType

    from pybroker.admin.steps import Steps
    from pybroker.admin.topics import Setting
    from pybroker.faults.faults import Faults
    from pybroker.faults.trail import SeenRequest
    from pybroker.testing.faults import ClusterFaults
    from pybroker.testing.snapshot import ClusterSnapshot

Result = TypeVar("Result")
Guest = TypeVar("Guest", bound=Broker | Cluster)

START_S: Final = 60.0
STOP_S: Final = 60.0
WORK_S: Final = 120.0
STRIPPED: Final = ("KAFKA_", "PYBROKER_")
KEPT: Final = "PYBROKER_PURE"
"""It chooses the build of the native parts, and no setting of a broker."""
CHILD: Final = "pybroker.testing.child"
LINES_SHOWN: Final = 20


class _BlockingBroker(BlockingVerbs):
    """The parts that all kinds have in common."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Start the broker; clients can connect when this returns. Raises StartError, and OSError."""
        raise NotImplementedError

    def stop(self) -> None:
        """Stop the broker, and remove its data; idempotent."""
        raise NotImplementedError

    def leaks(self) -> list[str]:
        """Return a line for each open transaction, and each member of a group."""
        return self._carry_out(leaks())


class _InThread(_BlockingBroker, Generic[Guest]):
    """A broker or a cluster in a thread with an event loop of its own."""

    def __init__(self, guest: Guest) -> None:
        self._guest: Guest = guest
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopped = asyncio.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread and the broker; clients can connect when this returns. Raises StartError, and OSError."""
        assert self._thread is None, "a broker starts once"
        ready: Future[None] = Future()
        self._thread = threading.Thread(target=self._work, args=(ready,), name="pybroker", daemon=True)
        self._thread.start()
        try:
            ready.result(START_S)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the broker and end its thread; idempotent."""
        thread, self._thread = self._thread, None
        if thread is not None:
            if self._loop is not None:
                with contextlib.suppress(RuntimeError):  # the loop has ended, because the broker could not start
                    self._loop.call_soon_threadsafe(self._stopped.set)
            thread.join()

    @property
    def bootstrap(self) -> str:
        """The address for `bootstrap.servers`, as `127.0.0.1:40000`; of a cluster, those of all brokers."""
        return self._guest.bootstrap

    @property
    def requests(self) -> list[SeenRequest]:
        """The last requests of clients, oldest first; `reset` forgets them."""
        return self._guest.requests

    def _carry_out(self, steps: Steps[Result]) -> Result:
        return self._run(self._guest._carry_out(steps))

    def _run(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Run `work` in the broker's loop, and return its result."""
        assert self._loop is not None, "the broker runs"
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(WORK_S)

    def _work(self, ready: Future[None]) -> None:
        """Run the broker until it is stopped: the body of the thread."""
        with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
            try:
                runner.run(self._serve(ready))
            except BaseException as error:  # the thread that waits for the start gets it
                if ready.done():
                    raise
                ready.set_exception(error)

    async def _serve(self, ready: Future[None]) -> None:
        self._loop = asyncio.get_running_loop()
        async with self._guest:
            ready.set_result(None)
            await self._stopped.wait()


class ThreadBroker(_InThread[Broker]):
    """A broker in a thread with an event loop of its own; `Broker.in_thread()` makes it."""

    def __init__(
        self, settings: Mapping[str, Setting] | None = None, *, virtual_time: bool = False, as_version: str | None = None
    ) -> None:
        super().__init__(Broker(settings, virtual_time=virtual_time, as_version=as_version))
        self.clock = BlockingClock(self._guest.clock, self._run)

    @property
    def host(self) -> str:
        """The host of `bootstrap`."""
        return self._guest.host

    @property
    def port(self) -> int:
        """The port of `bootstrap`."""
        return self._guest.port

    @property
    def admin_url(self) -> str | None:
        """Where the API for other languages is, if `pybroker.admin.listener` is set."""
        return self._guest.admin_url

    @property
    def faults(self) -> Faults:
        """The rules by which requests go wrong."""
        return self._guest.faults

    def reset(self) -> None:
        """Remove all rules of faults, topics, groups, transactions and dynamic settings, and forget the requests.

        Clients stay connected.
        """
        self._run(self._guest.reset())

    def restart(self) -> None:
        """Stop the broker, unless it was killed, and start it again with its data, at the same address.

        Raises StartError, and OSError.
        """
        self._run(self._guest.restart())

    def kill(self) -> None:
        """End the broker as a killed process ends: connections are cut, and `restart` has to recover the logs."""
        self._run(self._guest.kill())

    def snapshot(self) -> Snapshot:
        """Copy everything that the broker has: topics, records, groups, transactions, settings. Clients stay connected."""
        return self._run(self._guest.snapshot())

    def restore(self, snapshot: Snapshot) -> None:
        """Put back what the broker had, which cuts all connections, and forget the requests. Raises StartError, and OSError."""
        self._run(self._guest.restore(snapshot))

    def leaks(self) -> list[str]:
        """Return a line for each open transaction, each member of a group, and each connection of a client."""
        return self._run(self._guest.leaks())


class ThreadCluster(_InThread[Cluster]):
    """Several brokers in a thread with an event loop of its own; `Cluster.in_thread()` makes it."""

    def __init__(self, count: int = 3, settings: Mapping[str, Setting] | None = None) -> None:
        super().__init__(Cluster(count, settings))

    @property
    def admin_urls(self) -> dict[int, str]:
        """Where the API of each broker that runs is, by node id, if `pybroker.admin.listener` is set."""
        return self._guest.admin_urls

    @property
    def faults(self) -> ClusterFaults:
        """The rules by which requests to all brokers go wrong, and those of each by its node id."""
        return self._guest.faults

    def reset(self) -> None:
        """Remove all rules of faults, topics, groups, transactions and dynamic settings, and forget the requests.

        Clients stay connected. Brokers that were killed are started. Raises StartError, and OSError.
        """
        self._run(self._guest.reset())

    def snapshot(self) -> ClusterSnapshot:
        """Copy everything that the brokers have, those included that were killed. Clients stay connected."""
        return self._run(self._guest.snapshot())

    def restore(self, snapshot: ClusterSnapshot) -> None:
        """Put back what all brokers had, which cuts all connections, and forget the requests. Raises StartError, and OSError."""
        self._run(self._guest.restore(snapshot))

    def kill(self, node: int) -> None:
        """End a broker as a killed process ends; the others lead its partitions then. `restart` starts it again."""
        self._run(self._guest.kill(node))

    def restart(self, node: int) -> None:
        """Stop a broker, unless it was killed, and start it again with its data, at its address. Raises StartError, OSError."""
        self._run(self._guest.restart(node))

    def leader_of(self, topic: str, partition: int = 0) -> int:
        """Return the node id of the leader of a partition, as soon as there is one. Raises KafkaError."""
        return self._run(self._guest.leader_of(topic, partition))


class ProcessBroker(_BlockingBroker):
    """A broker that is a process of its own; `Broker.subprocess()` makes it.

    It ends when this process ends, in whatever way. Its environment is that of this process without KAFKA_* and PYBROKER_*.
    """

    def __init__(self, settings: Mapping[str, Setting] | None = None, *, as_version: str | None = None) -> None:
        self._texts = texts_of(settings, as_version)
        self._address = ("", 0)
        self._directory: Directory | None = None
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """The address for `bootstrap.servers`, as `127.0.0.1:40000`."""
        return host_and_port(*self._address)

    @property
    def host(self) -> str:
        """The host of `bootstrap`."""
        return self._address[0]

    @property
    def port(self) -> int:
        """The port of `bootstrap`."""
        return self._address[1]

    @property
    def pid(self) -> int:
        """The id of the process."""
        assert self._process is not None, "the broker runs"
        return self._process.pid

    @property
    def log_text(self) -> str:
        """Everything that the broker has written to its log."""
        assert self._directory is not None, "the broker runs"
        return (self._directory.path / "broker.log").read_text(errors="replace")

    def start(self) -> None:
        """Start the process; clients can connect when this returns. Raises StartError, and OSError."""
        assert self._directory is None, "a broker starts once; `restart` starts it again"
        self._directory = Directory()
        try:
            config_of(self._texts, self._directory.path)  # a bad value is an error of the caller's line
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
        """End the process by SIGKILL; `restart` starts it again."""
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
        """Put back what the broker had, which cuts all connections. Raises StartError, and OSError."""
        self.kill()
        snapshot.put_back()
        self._start(self._of_life)

    def reset(self) -> None:
        """Delete all topics, groups, transactions and dynamic settings. Clients stay connected."""
        self._carry_out(reset())

    def _carry_out(self, steps: Steps[Result]) -> Result:
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

    @property
    def _of_life(self) -> Directory:
        assert self._directory is not None, "the broker was not started"
        return self._directory

    def _start(self, directory: Directory) -> None:
        command = [sys.executable, "-P", "-m", CHILD, str(directory.path), "--exit-with-parent"]
        if "listeners" not in self._texts:
            command += ["--host", LOOPBACK]
        if self.port or "listeners" not in self._texts:
            command += ["--port", str(self.port)]
        for name, text in properties_of(self._texts, directory.path).items():
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

    def _end(self, number: signal.Signals) -> None:
        """End the process, if it runs, in the last resort without its consent."""
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
        line = _line_of(process).decode(errors="replace").strip()
        kind, _, address = line.partition(" ")
        if kind != "READY":
            end = "\n".join(self.log_text.splitlines()[-LINES_SHOWN:])
            raise StartError(f"the process of the broker does not become ready; its log ends:\n{end}")
        host, _, port = address.rpartition(":")
        return host, int(port)


def _line_of(process: subprocess.Popen[bytes]) -> bytes:
    """Return the first line that a process writes; what it has written if it ends, or takes longer than START_S."""
    assert process.stdout is not None
    read = b""
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while not read.endswith(b"\n") and selector.select(START_S):
            if not (data := os.read(process.stdout.fileno(), 4096)):
                break
            read += data
    return read
