"""The steps that a command adds to a broker's life: before clients can connect, when it is ready, and when it stops.

`pybroker start` only prints that clients can connect; a container first makes topics and then informs the programs that started
it. Both keep the file that an image's health check reads, if one is configured. The file does not exist while no log directory
takes records: a client that waits for a healthy broker wants to send some. In its place the health check finds the reason.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from pybroker.broker.standard_streams import Stream
from pybroker.network.limits import host_and_port

if TYPE_CHECKING:
    from pybroker.broker.ready_file import ReadyFile
    from pybroker.metadata.controller import Controller
    from pybroker.model import BrokerId
    from pybroker.network.limits import BoundListener
    from pybroker.security.tls.listener import ListenerTls

logger = logging.getLogger(__name__)

STARTING: Final = "starting: checking and opening the logs, which takes longer after a crash"
LOADING: Final = "starting: loading the consumer groups"
NO_ROOM: Final = "no log directory has room for records: delete topics or records, or enlarge the volume"
STOPPING: Final = "stopping"

_RETRY_S: Final = 0.05


class Lifecycle:
    """The lifecycle of `pybroker start`."""

    def __init__(self, ready_file: ReadyFile | None = None) -> None:
        """Keep `ready_file`, which exists while the broker is ready."""
        self._ready_file = ready_file
        self._asked: tuple[tuple[str, int], ListenerTls | None] = (("", 0), None)  # the listener that a health check asks
        self._is_announced = False  # clients can connect, and where there is a health check, the groups are loaded
        self._is_loading = False
        self._is_stopping = False
        self.admin_url: str | None = None
        """Where the API for tests is; None where there is none."""
        self.has_room = True
        """Whether any log directory takes records, as of the last check."""

    @property
    def why_not_ready(self) -> str | None:
        """The reason why the broker is not ready; None if it is. Other threads may ask."""
        if self._is_stopping:
            return STOPPING
        if not self.has_room:
            return NO_ROOM
        if self._is_announced:
            return None
        return LOADING if self._is_loading else STARTING

    async def before_sockets(self, controller: Controller) -> str | None:  # noqa: ARG002
        """Do what must precede the first client; the cluster exists. Returns why the broker cannot start, if it cannot."""
        return None

    async def announce(
        self, node_id: BrokerId, bound: Sequence[BoundListener], groups_loaded: Callable[[], Awaitable[None]]
    ) -> None:
        """Announce that clients can connect. `groups_loaded()` returns when all partitions' groups are loaded. Cancelled at the
        stop.
        """
        address = local_address(bound[0])
        asked = next((one for one in bound if one.tls is None), bound[0])  # TLS costs a health check more
        self._asked = local_address(asked), asked.tls
        if self._ready_file is not None:
            self._is_loading = True
            if self.has_room:
                self._ready_file.forget(LOADING)
            await groups_loaded()
            if self.has_room:
                self._write_ready(self._ready_file)
        self._is_announced = True
        api = "" if self.admin_url is None else f"ADMIN {self.admin_url}\n"
        await print_line(f"{api}{self.lines(node_id)}READY {host_and_port(*address)}\n")

    async def announce_controller(self) -> None:
        """Announce that a controller without a broker serves; the ready file has the port 0."""
        if self._ready_file is not None:
            self._ready_file.write("controller", 0)
        await print_line("READY controller\n")

    def lines(self, node_id: BrokerId) -> str:  # noqa: ARG002
        """Return the lines for standard output that precede the line that the broker is ready."""
        return ""

    def room_changed(self, *, has_room: bool) -> None:
        """Note whether any log directory takes records; called at each check."""
        if has_room is self.has_room or self._is_stopping:
            return
        self.has_room = has_room
        if self._ready_file is not None and not has_room:
            logger.error("No log directory has room for records; the health check fails until one has")
            self._ready_file.forget(NO_ROOM)
        elif self._ready_file is not None and self._is_announced:
            self._write_ready(self._ready_file)
        elif self._ready_file is not None:
            self._ready_file.forget(STARTING)

    def stopping(self) -> None:
        """Note that clients will soon be unable to connect."""
        self._is_announced = False
        self._is_stopping = True
        if self._ready_file is not None:
            self._ready_file.forget(STOPPING)

    def _write_ready(self, ready_file: ReadyFile) -> None:
        """Write which listener a health check asks."""
        (host, port), tls = self._asked
        asks_certificate = tls is not None and tls.settings["ssl.client.auth"] == "required"
        ready_file.write(host, port, has_tls=tls is not None, asks_certificate=asks_certificate)


def local_address(listener: BoundListener) -> tuple[str, int]:
    """Return the host and port by which programs of this machine, the health check among them, reach a listener."""
    return ("127.0.0.1" if listener.host in ("::", "0.0.0.0") else listener.host), listener.port  # noqa: S104  compared, not bound


async def print_line(text: str) -> None:
    """Print to standard output as soon as it takes the text, while clients are served. A reader that is gone is no error."""
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError):  # no stream, or a replacement of it in a test
        print(text, end="")  # noqa: T201
        return
    stream, rest = Stream(descriptor), text.encode()
    try:
        while rest:
            written = stream.write_some(rest)
            rest = rest[written:]
            if not written:
                await asyncio.sleep(_RETRY_S)
    except OSError as error:
        logger.info("Standard output does not take the line that shows that the broker is ready: %s", error.strerror)
    finally:
        stream.close()
