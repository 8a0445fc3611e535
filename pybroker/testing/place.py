"""Where a broker of a test is: its address, and the directory of its data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.network.limits import host_and_port

if TYPE_CHECKING:
    from pybroker.testing.directory import Directory


class NotRunningError(RuntimeError):
    """The broker was asked for something while it does not run."""

    def __init__(
        self, text: str = "the broker does not run: enter its block or call start() first, or restart() after kill()"
    ) -> None:
        super().__init__(text)


class Placed:
    """A broker with one address and one directory, over all of its lives."""

    _address = ("", 0)
    _directory: Directory | None = None

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
    def _of_life(self) -> Directory:
        if self._directory is None:
            raise NotRunningError
        return self._directory
