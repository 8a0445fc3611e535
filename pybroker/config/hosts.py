"""Looks up the addresses of hosts that settings name. It is apart from the other settings because it uses the network.

Source: ConnectionQuotas of Kafka.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import math
import socket
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Final

from pybroker.config.listeners import parse_connection_overrides
from pybroker.config.setting import ConfigError
from pybroker.long_work import LongWork

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

    Belongs to the loop. There is one thread at a time: a server of names that does not respond holds up the next lookup, and
    nothing else. The thread is none of the loop's pool, for which disks wait, and the end of the process does not wait for it.
    """

    __slots__ = ("_at_start", "_found", "_thread")

    def __init__(self, at_start: Mapping[str, Mapping[str, int]] | None = None) -> None:
        """Keep `at_start`, the limits by address of the value that the broker is started with."""
        self._at_start = at_start or {}
        self._found: dict[str, Mapping[str, int]] = {}  # by the value
        self._thread = LongWork("lookup of hosts", 1)

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
        try:
            async with asyncio.timeout(LOOKUP_S):
                return await self._thread.run(partial(_addresses, names, text, monotonic() + LOOKUP_S))
        except TimeoutError:
            raise _too_late(text) from None
        except RuntimeError as error:  # too many threads
            raise ConfigError(CONNECTION_LIMITS_KEY, text, f"no thread can look up the hosts: {error}") from error


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
