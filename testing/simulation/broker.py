"""A whole broker except its sockets, on a simulated disk, store and clock, with `BrokerServer`'s own start, passes and stop.

    world = World(config, seed=1)
    with world.process() as process:          a life of the broker
        process.run(process.broker.start())
        ...
        process.run(process.broker.stop())    or not: leaving the block without it is a kill

The machine's random choices (topic ids, names of directories) are drawn from the seed.
"""

from __future__ import annotations

import contextlib
import math
import uuid
from collections.abc import Callable, Coroutine, Iterator, Sequence
from random import Random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeVar
from unittest import mock

from pybroker.broker.broker_server import BrokerServer
from pybroker.broker.disks import Disks
from pybroker.config.broker import BrokerConfig
from pybroker.coordinator.runtime.loader import Loader
from pybroker.sharing.background import SLICE_NS, Background
from pybroker.sharing.work import Pausing, run_through
from testing.simulation.clock import SettableClock
from testing.simulation.disk import SimulatedDisk
from testing.simulation.loop import InlineExecutor, SimulatedDiskThread, SimulatedLock, SimulatedLoop
from testing.simulation.store import SimulatedStore, StoreContents

if TYPE_CHECKING:
    import socket

    from pybroker.metadata.store.base import Store
    from pybroker.network.counters import ListenerCounters
    from pybroker.network.limits import BoundListener

START_MS = 1_700_000_000_000
SLICES_S = {
    "pybroker.sharing.work": 0.0,
    "pybroker.times.times": 0.0,
}
"""The time of a slice, by the modules that have a name of their own for it."""
_FOREVER_NS = 1 << 60
Result = TypeVar("Result")


def _load_at_once(*arguments: Any, load: Callable[..., Pausing[None]] = Loader._load) -> Pausing[None]:
    """Load a shard in one slice: otherwise the loads would take most of a story."""
    run_through(load(*arguments))
    return
    yield


class _NoServer:
    """There are no sockets, so no client is counted."""

    def __init__(self) -> None:
        self.listener_counters: dict[str, ListenerCounters] = {}

    async def stop(self, grace_ms: int) -> None:
        """Do nothing, because there are no sockets."""


class _JumpingClock:
    """A clock by which a slice of the background's work ends after some steps, the same in each run."""

    def __init__(self) -> None:
        self._random = Random(0)
        self._now_ns = 0

    def now_ns(self) -> int:
        self._now_ns += SLICE_NS if self._random.random() < 0.3 else 0
        return self._now_ns


class SimulatedBroker(BrokerServer):
    """A broker without sockets on the simulated disk, store and clock of a `World`."""

    def __init__(self, config: BrokerConfig, clock: SettableClock, disk: SimulatedDisk, store: SimulatedStore) -> None:
        super().__init__(config, clock, filesystem=disk)
        self._simulated_store = store
        self.disks = Disks(self._count_bug, SimulatedDiskThread)
        self.background = Background(self._count_bug, now_ns=_JumpingClock().now_ns)

    def _open_store(self) -> Store:
        return self._simulated_store

    async def _bind(self) -> list[socket.socket]:
        return []

    async def _open_sockets(self, _sockets: Sequence[socket.socket]) -> list[BoundListener]:
        self._make_dispatcher()
        self.server = _NoServer()  # type: ignore[assignment]
        self._listen()
        await self.membership.join([])
        return []

    def _listen(self) -> None:
        """Begin to serve requests; a broker without a network has none."""

    def _register_gauges(self) -> None:
        """Do nothing, because no test reads the gauges."""


class Process:
    """A life of the broker, which `end` ends as a kill does."""

    def __init__(self, world: World, config: BrokerConfig) -> None:
        self.loop = SimulatedLoop(world.clock, world.random, world.interleaving)
        world.disk.between_operations = self.loop.within_operation
        self.broker = SimulatedBroker(config, world.clock, world.disk, world.contents.open())

    def run(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.loop.run(work)


class World:
    """The things that outlive the broker: disk, store, clock and the source of chance."""

    def __init__(
        self,
        *,
        seed: int,
        disk: SimulatedDisk | None = None,
        contents: StoreContents | None = None,
        now_ms: int = START_MS,
        interleaving: float = 0.0,
    ) -> None:
        self.random = Random(seed)
        self.clock = SettableClock(now_ms)
        self.disk = SimulatedDisk(self.clock) if disk is None else disk
        self.disk.set_clock(self.clock)
        self.contents = StoreContents() if contents is None else contents
        self.interleaving = interleaving

    def config(self, **options: Any) -> BrokerConfig:
        return BrokerConfig(node_id=1, listeners="PLAINTEXT://127.0.0.1:0", **options)

    @contextlib.contextmanager
    def process(self, config: BrokerConfig) -> Iterator[Process]:
        """Make a broker on this world, which the test starts.

        It is dead when the block is left, whether or not it was stopped.
        """
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.drawn_from_seed())
            process = Process(self, config)
            lock = SimpleNamespace(Lock=lambda: SimulatedLock(process.loop))
            stack.enter_context(mock.patch("pybroker.log.checkpoints.offset_checkpoint.threading", lock))
            try:
                yield process
            finally:
                process.loop.end()
                self.disk.on_operation = self.disk.between_operations = self.contents.on_operation = None
                self.disk.kill()

    def drawn_from_seed(self) -> contextlib.AbstractContextManager[None]:
        """Draw what the machine decides from the seed."""
        return drawn_from(self.random)


@contextlib.contextmanager
def drawn_from(random: Random, *, is_fine: bool = True) -> Iterator[None]:
    """Draw the machine's random ids from `random`, and let pools of threads do their work at once. Give the loop back wherever
    long work may do so, or nowhere unless `is_fine`: the time of this machine must not decide, and a few logs must be as many
    steps.
    """

    def drawn() -> uuid.UUID:
        return uuid.UUID(int=random.getrandbits(128), version=4)

    def drawn_source() -> Random:
        return Random(random.getrandbits(32))

    with (
        mock.patch("uuid.uuid4", drawn),
        mock.patch("pybroker.metadata.controller.Random", drawn_source),
        mock.patch("pybroker.replication.fetch_session.secrets", SimpleNamespace(randbelow=random.randrange)),
        mock.patch("pybroker.log.manager.manager.ThreadPoolExecutor", InlineExecutor),
        contextlib.ExitStack() as slices,
        mock.patch("pybroker.sharing.turns.rounds.BUDGET_NS", 0 if is_fine else _FOREVER_NS),
        mock.patch.object(Loader, "_load", _load_at_once),
    ):
        for module, slice_s in SLICES_S.items():
            slices.enter_context(mock.patch(f"{module}.SLICE_S", slice_s if is_fine else math.inf))
        yield
