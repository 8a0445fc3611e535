"""Hosts on one network whose links can be cut, in one direction or in both: the packets get lost, as beside a dead switch."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from typing import Final

from testing.hosts.namespaces import Namespace, Namespaces

DEVICE: Final = "eth0"
NOWHERE: Final = "02:00:00:00:00:01"
"""The hardware address of no host: the bridge sends such a packet to all, and each drops it."""
CLONE_NEWNET: Final = 0x4000_0000


class Links:
    """Namespaces on one bridge, by their roles."""

    def __init__(self, namespaces: Namespaces, roles: list[str]) -> None:
        switch = namespaces.add("switch")
        namespaces.bridge(switch, "bridge0")
        self.hosts: dict[str, Namespace] = {}
        self._cut: set[tuple[str, str]] = set()
        for role in roles:
            self.hosts[role] = namespaces.add(role)
            namespaces.attach(switch, "bridge0", self.hosts[role], DEVICE, f"{self.address(role)}/24")

    def address(self, role: str) -> str:
        """Return the address of a host."""
        return f"10.77.0.{10 + list(self.hosts).index(role)}"

    def cut(self, sender: str, receiver: str) -> None:
        """Lose all packets from one host to the other."""
        wrong = ("neighbour", "replace", self.address(receiver), "lladdr", NOWHERE, "dev", DEVICE, "nud", "permanent")
        self.hosts[sender].ip(*wrong)
        self._cut.add((sender, receiver))

    def cut_both(self, one: str, other: str) -> None:
        """Lose all packets between two hosts."""
        self.cut(one, other)
        self.cut(other, one)

    def heal(self) -> None:
        """Lose no packets any more."""
        for sender, receiver in self._cut:
            self.hosts[sender].ip("neighbour", "delete", self.address(receiver), "dev", DEVICE)
        self._cut.clear()


@contextlib.contextmanager
def entered(namespace: Namespace) -> Iterator[None]:
    """Let this thread, and all threads and processes that it starts, be in the namespace. Raises OSError."""
    with open("/proc/thread-self/ns/net") as before, namespace.path.open() as inside:  # noqa: PTH123 (a file of the kernel)
        _enter(inside.fileno())
        try:
            yield
        finally:
            _enter(before.fileno())


def _enter(descriptor: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
