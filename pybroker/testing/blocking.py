"""Brokers for tests that block, in a thread of this process: one, or a cluster."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Final, Generic, Self, TypeVar

from pybroker.testing.broker import Broker
from pybroker.testing.clock import BlockingClock
from pybroker.testing.cluster import Cluster
from pybroker.testing.leaks import leaks
from pybroker.testing.place import NotRunningError
from pybroker.testing.verbs import BlockingVerbs

if TYPE_CHECKING:
    from collections.abc import Collection, Coroutine, Mapping, Sequence
    from types import TracebackType

    from pybroker.admin.steps import Steps
    from pybroker.admin.topics import Setting
    from pybroker.api.seen_clients import SeenClient
    from pybroker.faults.faults import Faults
    from pybroker.faults.trail import SeenRequest
    from pybroker.testing.faults import ClusterFaults
    from pybroker.testing.snapshot import ClusterSnapshot, Snapshot

Result = TypeVar("Result")
Guest = TypeVar("Guest", bound=Broker | Cluster)

START_S: Final = 60.0
WORK_S: Final = 120.0


class BlockingBroker(BlockingVerbs):
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


class _InThread(BlockingBroker, Generic[Guest]):
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
        if self._loop is None or self._loop.is_closed():
            work.close()
            raise NotRunningError
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

        Clients stay connected, unless the disk has failed: then the broker is started again. Raises StartError, and OSError.
        """
        self._run(self._guest.reset())

    def clients(self) -> list[SeenClient]:
        """Return what each client has used up to now, connected or not; `reset` forgets those that are not."""
        return self._run(self._guest.clients())

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

    def leaks(self, shared: Collection[Sequence[str]] = ()) -> list[str]:
        """Return a line for each open transaction, each member of a group, and each connection of a client.

        Clients that are `shared`, by client id and the name and version of their software, may have connections.
        """
        return self._run(self._guest.leaks(shared))


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

        Clients stay connected. Brokers that were killed, or whose disks have failed, are started. Raises StartError, and OSError.
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
