"""The parent of several brokers of one machine: it has their metadata store, starts them, and stops them.

Store
    The parent opens the store of the settings, if that is in a file or in memory, and serves it on a socket. So a broker that
    ends is noticed at once: its session ends with its connection. A store that is elsewhere, such as etcd, is each broker's own.

Stop
    All brokers get SIGTERM at the same time: leaders that moved from one to the next would move again. The store is closed last.
    When the parent itself is gone, its brokers stop, because the connection to the store ends, and because they look for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pybroker.broker.lifecycle import STARTING, STOPPING, print_line
from pybroker.broker.old_data import MEMORY, sqlite_path
from pybroker.broker.parent_process import stop_without
from pybroker.broker.several.child import Child, FailedStartError
from pybroker.broker.several.ports import why_not_listen
from pybroker.config.listener_settings import value_of
from pybroker.config.listeners import has_tls, parse_address
from pybroker.metadata.store import open_store
from pybroker.metadata.store.base import StoreError
from pybroker.metadata.store.shared.server import StoreServer

if TYPE_CHECKING:
    import signal

    from pybroker.broker.ready_file import ReadyFile
    from pybroker.config.broker import BrokerConfig

logger = logging.getLogger(__name__)

SOCKET: Final = "metadata.socket"
PATH_BYTES_MAX: Final = 100
"""The system takes about this length of a socket's path."""
NONE_READY: Final = "no broker is ready"

CommandOf = Callable[[int, str, int | None], Sequence[str]]
"""A function of the number of a broker, of `metadata.store`, and of the port that the broker had before, if it had one."""


class ParentError(Exception):
    """The brokers cannot start; the text gives the reason, for a person."""


def run(
    config: BrokerConfig,
    count: int,
    command_of: CommandOf,
    ready_file: ReadyFile | None,
    *,
    stop_signals: Sequence[signal.Signals],
    parent: int | None = None,
) -> int:
    """Run `count` brokers until one of `stop_signals`, or until the parent of this process is another one than `parent`.

    Returns the exit code: 0 if every broker stopped without an error. Raises ParentError and OSError.
    """

    async def serve() -> bool:
        loop, stop = asyncio.get_running_loop(), asyncio.Event()
        for name in stop_signals:
            loop.add_signal_handler(name, stop.set)
        if parent is not None:
            stop_without(parent, loop, stop)
        if (reason := await why_not_listen(config, count)) is not None:
            raise ParentError(reason)
        async with _shared_store(config) as store:
            return await _Brokers(config, count, lambda number, port: command_of(number, store, port), ready_file).run(stop)

    try:
        return 0 if asyncio.run(serve()) else 1
    except (StoreError, FailedStartError) as error:
        raise ParentError(str(error)) from error


class _Brokers:
    """The brokers, and what shows that they are ready."""

    def __init__(
        self,
        config: BrokerConfig,
        count: int,
        command_of: Callable[[int, int | None], Sequence[str]],
        ready_file: ReadyFile | None,
    ) -> None:
        self._ready_file = ready_file
        asked = config.endpoints[0]
        self._has_tls = has_tls(asked.security_protocol)
        self._asks_certificate = self._has_tls and value_of(config, asked.listener_name, "ssl.client.auth") == "required"
        self._children = [
            Child(number, lambda port, number=number: command_of(number, port), self._show)  # type: ignore[misc]
            for number in range(1, count + 1)
        ]
        self._announcing: asyncio.Task[None] | None = None
        self._is_stopping = False
        if ready_file is not None:
            ready_file.forget(STARTING)

    async def run(self, stop: asyncio.Event) -> bool:
        """Run the brokers until `stop`; return whether all stopped without an error. Raises FailedStartError, OSError."""
        running = [asyncio.create_task(child.run()) for child in self._children]
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait([stopping, *running], return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            self._stop()
            await asyncio.wait(running)
        logger.info("All brokers have stopped")
        return all(task.result() for task in running)

    def _stop(self) -> None:
        logger.info("Stopping %d brokers", len(self._children))
        self._is_stopping = True
        if self._ready_file is not None:
            self._ready_file.forget(STOPPING)
        for child in self._children:
            child.stop()

    def _show(self) -> None:
        """Announce once that all brokers are ready; from then on, the ready file has the address of one that is."""
        addresses = [child.address for child in self._children if child.address is not None]
        if self._announcing is None and len(addresses) == len(self._children):
            self._announcing = asyncio.create_task(print_line(f"READY {','.join(addresses)}\n"))
        if self._announcing is None or self._ready_file is None or self._is_stopping:
            return
        if addresses:
            host, port = parse_address("READY", addresses[0])
            self._ready_file.write(host, port, has_tls=self._has_tls, asks_certificate=self._asks_certificate)
        else:
            self._ready_file.forget(NONE_READY)


@contextlib.asynccontextmanager
async def _shared_store(config: BrokerConfig) -> AsyncIterator[str]:
    """Yield the `metadata.store` of the brokers, and serve it meanwhile if it is this process's. Raises StoreError, OSError."""
    path = sqlite_path(config)
    if path is None and config.metadata_store != MEMORY:
        yield config.metadata_store
        return
    store = open_store(MEMORY if path is None else f"sqlite:{path}", asyncio.to_thread)
    server = StoreServer(store)
    try:
        with _socket_path(Path(config.log_dirs[0])) as socket:
            await server.listen(socket)
            yield f"unix:{socket}"
            await server.close()
    finally:
        await store.close()


@contextlib.contextmanager
def _socket_path(directory: Path) -> Iterator[Path]:
    """Yield the path of the socket, in the data directory or, if that has a long name, in one that is removed in the end."""
    directory.mkdir(parents=True, exist_ok=True)
    path = (directory / SOCKET).absolute()
    with contextlib.ExitStack() as held:
        if len(os.fsencode(path)) > PATH_BYTES_MAX:
            path = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="pybroker-"))) / SOCKET
        yield path
        path.unlink(missing_ok=True)
