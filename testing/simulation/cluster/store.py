"""The metadata store of a simulated cluster: a member of etcd in a process of its own, and the gateways by which brokers call it.

The stores are those of production (`EtcdStore`), so what is simulated are calls: each takes its time, it or its response may be
lost, nothing comes through a link that is cut, and the watch of one broker is behind that of another.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from pybroker.metadata.entries import PARTITION_PREFIX, apply_changes, decode_partition
from pybroker.metadata.image import empty_image
from pybroker.metadata.member_entries import session_key
from pybroker.metadata.store.base import Change
from pybroker.metadata.store.etcd.gateway import CALL_S, Gateway, LostError, NotSentError, RefusedError
from pybroker.metadata.store.etcd.store import EtcdStore
from pybroker.model import BrokerId
from testing.simulation.cluster.network import Channel, Network
from testing.simulation.cluster.process import Process
from testing.simulation.etcd import SimulatedEtcd

if TYPE_CHECKING:
    from pybroker.metadata.image import ClusterImage, PartitionChange
    from testing.simulation.cluster.scheduling import Scheduler

ETCD = 0
NAMESPACE = "simulated"
FATES = ("request", "response", "connection", "connection", "connection")
"""The parts of a call that may be lost. With the connection, the response is lost at once, and the request may be late."""
Message = dict[str, Any]


class SharedStore:
    """The member, and the stores of brokers. A share of the calls loses its request, or its response."""

    def __init__(self, scheduler: Scheduler, network: Network, problems: list[str]) -> None:
        self.network = network
        self.process = Process(scheduler, ETCD, problems)
        self.etcd = SimulatedEtcd()
        self.lost_share = 0.0

    def open(self, process: Process, on_taken_over: Callable[[], object] = lambda: None) -> EtcdStore:
        """Return the store of a process."""
        gateway = RemoteGateway(self, process)
        return EtcdStore(gateway, NAMESPACE, f"broker-{process.node}", on_taken_over=on_taken_over)

    def partition_changes(self) -> Iterator[PartitionChange]:
        """Yield every state that a partition has had in its own entry, in the order of the commits."""
        for key, value, revision in self.etcd.changes():
            if key.startswith(f"{NAMESPACE}/entries/{PARTITION_PREFIX}") and value is not None:
                yield decode_partition(key.removeprefix(f"{NAMESPACE}/entries/"), value, revision)

    def has_session(self, node: int) -> bool:
        """Return whether a life of the broker lasts, as the member has it."""
        return self.etcd.has(f"{NAMESPACE}/entries/{session_key(BrokerId(node))}")

    def image(self) -> ClusterImage:
        """Return what the store has by now, which no broker may have seen yet."""
        prefix = f"{NAMESPACE}/entries/"
        entries = {key: found for key, found in self.etcd.contents().items() if key.startswith(prefix)}
        changes = [Change(key.removeprefix(prefix), *found) for key, found in sorted(entries.items())]
        return apply_changes(empty_image(BrokerId(ETCD)), changes, self.etcd.revision)[0]


class RemoteGateway(Gateway):
    """The calls of one process."""

    def __init__(self, store: SharedStore, process: Process) -> None:
        super().__init__([])
        self._store, self._process = store, process
        self._streams: list[_Stream] = []

    def close(self) -> None:
        """End the watches."""
        for stream in self._streams:
            stream.end()

    async def call(self, path: str, message: Message, *, within_s: float = CALL_S) -> Message:
        """Call the member."""
        store, process = self._store, self._process
        network, random = store.network, store.network.random
        fate = random.choice(FATES) if random.random() < store.lost_share else ""
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()

        def arrive(error: BaseException | None, done: asyncio.Task[Message]) -> None:
            if not future.done():
                future.set_result(done.result()) if error is None else future.set_exception(error)

        def responded(done: asyncio.Task[Message]) -> None:
            error = done.exception()
            if fate != "response":
                network.carry(ETCD, process.node, lambda: process.post(arrive, error, done))

        def carry_out() -> None:
            store.process.loop.create_task(store.etcd.call(path, message)).add_done_callback(responded)

        if fate != "request":
            network.carry(process.node, ETCD, partial(store.process.post, carry_out))
        try:
            if fate == "connection":
                await asyncio.sleep(0.002)
                raise LostError("the connection was broken")
            async with asyncio.timeout(within_s):
                return await future
        except (LostError, NotSentError, TimeoutError) as error:
            self.close()  # as the real gateway does, which leaves the member
            raise LostError(str(error) or "no response in time") from None
        finally:
            future.cancel()  # no one waits for the response to a call that was given up

    async def stream(self, path: str, message: Message) -> AsyncGenerator[Message]:
        """Watch the member."""
        stream = _Stream(self._store, self._process, message)
        self._streams.append(stream)
        try:
            while (delivered := await stream.next()) is not None:
                if isinstance(delivered, RefusedError):
                    raise delivered
                yield delivered
            raise LostError("the watch was broken")
        finally:
            self._streams.remove(stream)
            stream.end()


class _Stream:
    """A watch, whose messages come in their order."""

    def __init__(self, store: SharedStore, process: Process, message: Message) -> None:
        self._messages: deque[Message | RefusedError | None] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._process, self._store = process, store
        self._channel = Channel(store.network, ETCD, process.node)
        self._is_over = False
        store.network.carry(process.node, ETCD, partial(store.process.post, self._begin, message))

    async def next(self) -> Message | RefusedError | None:
        """Return the next message, None when the watch is broken.

        A queue of asyncio would need its loop when the process has ended.
        """
        while not self._messages:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self._messages.popleft()

    def _put(self, message: Message | RefusedError | None) -> None:
        self._messages.append(message)
        if self._waiter is not None and not self._waiter.done() and not self._process.is_dead:
            self._waiter.set_result(None)

    def end(self) -> None:
        self._is_over = True
        self._put(None)

    def _begin(self, message: Message) -> None:
        self._store.process.loop.create_task(self._follow(message))

    async def _follow(self, message: Message) -> None:
        try:
            async for one in self._store.etcd.watch(message):
                if self._is_over or self._process.is_dead:
                    return
                self._send(one)
            self._send(None)
        except RefusedError as error:
            self._send(error)
        except LostError:
            self._send(None)

    def _send(self, message: Message | RefusedError | None) -> None:
        self._channel.send(lambda: self._process.post(self._put, message))
