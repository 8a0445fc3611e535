"""Looks up the addresses of hosts that settings name. It is apart from the other settings because it uses the network.

Source: ConnectionQuotas of Kafka.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import math
import socket
import threading
from collections.abc import Iterable, Mapping, Sequence
from time import monotonic
from typing import Final

from pybroker.config.listeners import parse_connection_overrides
from pybroker.config.setting import ConfigError

CONNECTION_LIMITS_KEY: Final = "max.connections.per.ip.overrides"

HOSTS_MAX: Final = 1_000
"""The hosts that the value may have when a client sets it. Kafka has no bound; 1,000 addresses are read in a few ms."""
NAMES_MAX: Final = 100
"""The number of these that may be names, which are looked up."""
NAME_LENGTH_MAX: Final = 253  # of a name in DNS; Python's encoder takes the square of the length
LOOKUP_S: Final = 5.0
REMEMBERED_MAX: Final = 16
"""The number of values whose addresses are remembered: of the value in force, and of those that requests are about to set."""


def connection_limits(text: str) -> dict[str, int]:
    """Return the limits of max.connections.per.ip.overrides by address. For a name, that is the address that Java takes.

    The call blocks while names are looked up, so it is for the start. Raises ConfigError.
    """
    limits = parse_connection_overrides(text)
    addresses = _literals(limits)
    addresses |= _addresses([host for host in limits if host not in addresses], text, math.inf)
    return {addresses[host]: count for host, count in limits.items()}


class HostLookups:
    """Looks up the hosts of max.connections.per.ip.overrides while the broker runs, in a thread, and remembers the limits.

    Belongs to the loop. There is one thread at a time: a server of names that does not respond holds up the next lookup, for at
    most LOOKUP_S, and nothing else. The thread is none of the loop's pool, for which disks wait.
    """

    __slots__ = ("_at_start", "_found", "_is_looking")

    def __init__(self, at_start: Mapping[str, Mapping[str, int]] | None = None) -> None:
        """Keep `at_start`, the limits by address of the value that the broker is started with."""
        self._at_start = at_start or {}
        self._found: dict[str, Mapping[str, int]] = {}  # by the value
        self._is_looking = asyncio.Lock()

    def found(self, text: str) -> Mapping[str, int] | None:
        """Return the limits by address that were found for the value, or None if it must be looked up."""
        if not text.strip():
            return {}
        return self._found.get(text, self._at_start.get(text))

    async def look_up(self, text: str, *, is_new: bool) -> Mapping[str, int]:
        """Return the limits by address, and remember them. A value that is new, because a client sets it, has bounds.

        Raises ConfigError, after LOOKUP_S at the latest.
        """
        if is_new and (count := text.count(",") + 1) > HOSTS_MAX:
            raise ConfigError(CONNECTION_LIMITS_KEY, text, f"must have at most {HOSTS_MAX:,} hosts, and has {count:,}")
        limits = parse_connection_overrides(text)
        addresses = _literals(limits)
        names = [host for host in limits if host not in addresses]
        if is_new and len(names) > NAMES_MAX:
            reason = f"must have at most {NAMES_MAX} names of hosts, and has {len(names):,}: use addresses"
            raise ConfigError(CONNECTION_LIMITS_KEY, text, reason)
        if names:
            addresses |= await self._look_up(names, text)
        found = {addresses[host]: count for host, count in limits.items()}
        self._found.pop(text, None)
        if len(self._found) >= REMEMBERED_MAX:
            del self._found[next(iter(self._found))]
        self._found[text] = found
        return found

    async def _look_up(self, names: Sequence[str], text: str) -> dict[str, str]:
        deadline = monotonic() + LOOKUP_S
        try:
            async with asyncio.timeout(LOOKUP_S):
                await self._is_looking.acquire()
                return await self._in_thread(names, text, deadline)
        except TimeoutError:
            raise _too_late(text) from None

    def _in_thread(self, names: Sequence[str], text: str, deadline: float) -> asyncio.Future[dict[str, str]]:
        """Look up the names in a thread, and then let another lookup begin, even if nothing waits for this one any more.

        The thread is a daemon, because the end of the process must not wait for a server of names.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[dict[str, str]] = loop.create_future()

        def finish(found: dict[str, str] | None, error: Exception | None) -> None:
            self._is_looking.release()
            if done.done():
                return
            if error is None:
                done.set_result(found or {})
            else:
                done.set_exception(error)

        def run() -> None:
            found: dict[str, str] | None = None
            error: Exception | None = None
            try:
                found = _addresses(names, text, deadline)
            except Exception as raised:  # raised again on the loop
                error = raised
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(finish, found, error)
            del error  # else this frame and the exception keep each other

        try:
            threading.Thread(target=run, name="lookup of hosts", daemon=True).start()
        except RuntimeError as error:  # too many threads
            finish(None, ConfigError(CONNECTION_LIMITS_KEY, text, f"no thread can look up the hosts: {error}"))
        return done


def _literals(hosts: Iterable[str]) -> dict[str, str]:
    """Return those of the hosts that are addresses, as Python writes them."""
    found = {}
    for host in hosts:
        with contextlib.suppress(ValueError):
            found[host] = str(ipaddress.ip_address(host))
    return found


def _addresses(names: Sequence[str], text: str, deadline: float) -> dict[str, str]:
    """Look up the names, as long as `monotonic` is below `deadline`. Raises ConfigError."""
    found = {}
    for name in names:
        if monotonic() >= deadline:
            raise _too_late(text)
        found[name] = _address_of(name, text)
    return found


def _too_late(text: str) -> ConfigError:
    return ConfigError(CONNECTION_LIMITS_KEY, text, f"the hosts could not be looked up in {LOOKUP_S:.0f} s")


def _address_of(name: str, text: str) -> str:
    if len(name) > NAME_LENGTH_MAX:
        raise ConfigError(CONNECTION_LIMITS_KEY, text, f"the host {name[:100]!r}... has a name of {len(name)} characters")
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:
        raise ConfigError(CONNECTION_LIMITS_KEY, text, f"the host {name!r} has no address: {error}") from error
    return str(min(found, key=lambda entry: entry[0] != socket.AF_INET)[4][0])
