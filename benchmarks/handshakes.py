"""Measures what connections with TLS hold of the broker: memory while they are idle or slow, and the loop in their handshakes.

    python -m benchmarks.handshakes [--connections 1000] [--at-once 100]

idle     connections that have done their handshake and one request
half     connections that have sent half of their first message
waiting  connections that have the broker's part of the handshake, and do not send theirs
The figures are kB of the broker's RssAnon for each. Then, by the broker's key, the longest turns of the loop while many clients
begin their handshakes at once, by what ran in them, without the time that the thread waited for a core.
"""

from __future__ import annotations

import argparse
import os
import ssl
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from benchmarks.load import client_tls, connected
from benchmarks.peers import OURS, Peer
from benchmarks.secure_clients import FIRST
from benchmarks.security import KEYS, LISTENERS, settings
from pybroker.sharing.turns.watchdog import FAIL, SWITCH
from testing.process import procstat
from testing.process.broker import TURN
from testing.waiting import until

RECEIVE_BYTES = 1 << 16
SHOWN_MS = 1
"""The broker logs turns that are longer."""


class Client:
    """A connection that does its handshake step by step."""

    def __init__(self, address: str, context: ssl.SSLContext) -> None:
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing)
        self.socket = connected(address)
        self._step()
        self.hello = self._outgoing.read()

    def _step(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            return False
        return True

    def finish(self) -> None:
        """Do the rest of the handshake, and a request."""
        while not self._step():
            self.socket.sendall(self._outgoing.read())
            self._incoming.write(self.socket.recv(RECEIVE_BYTES))
        self._tls.write(FIRST)
        self.socket.sendall(self._outgoing.read())
        while True:
            try:
                self._tls.read(RECEIVE_BYTES)
            except ssl.SSLWantReadError:
                self._incoming.write(self.socket.recv(RECEIVE_BYTES))
            else:
                return

    def send_half(self) -> None:
        self.socket.sendall(self.hello[: len(self.hello) // 2])

    def wait(self) -> None:
        """Get the broker's part of the handshake."""
        self.socket.sendall(self.hello)
        self.socket.recv(RECEIVE_BYTES)

    def idle(self) -> None:
        self.socket.sendall(self.hello)
        self.finish()


def memory_kb(peer: Peer, context: ssl.SSLContext, count: int, behave: Callable[[Client], None]) -> float:
    """Return the memory of a connection, of as many at once."""
    before, files = procstat.memory_bytes(peer.pid, "RssAnon"), procstat.open_files(peer.pid)
    clients = []
    for _ in range(count):
        clients.append(Client(peer.addresses["SSL"], context))
        behave(clients[-1])
    until(lambda: procstat.open_files(peer.pid) >= files + count, "the connections")
    taken = procstat.memory_bytes(peer.pid, "RssAnon") - before
    for client in clients:
        client.socket.close()
    until(lambda: procstat.open_files(peer.pid) <= files, "the end of the connections")
    return taken / count / 1000


def longest_turns(peer: Peer, context: ssl.SSLContext, listener: str, count: int) -> dict[str, float]:
    """Return the longest turn of each kind, in ms, while clients do their handshakes, of those that took SHOWN_MS or more."""
    Client(peer.addresses[listener], context).idle()  # what the first one loads
    begin = peer.log.stat().st_size
    clients = [Client(peer.addresses[listener], context) for _ in range(count)]
    for client in clients:
        client.socket.sendall(client.hello)
    for client in clients:
        client.finish()
        client.socket.close()
    longest: dict[str, float] = {}
    with peer.log.open() as log:
        log.seek(begin)
        for found in filter(None, map(TURN.search, log)):
            longest[found[1]] = max(float(found[2]), longest.get(found[1], 0))
    return longest


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=1_000, help="connections at once (default: %(default)s)")
    parser.add_argument("--at-once", type=int, default=100, help="handshakes at once (default: %(default)s)")
    options = parser.parse_args()
    with TemporaryDirectory() as name:
        folder, context = Path(name), client_tls()
        peer = Peer(OURS, folder, environment={**os.environ, SWITCH: f"{FAIL}:{SHOWN_MS}"})
        with closing(peer):
            peer.start(settings(folder), LISTENERS)
            memory_kb(peer, context, 100, Client.idle)  # what the first ones load
            for behave in (Client.idle, Client.send_half, Client.wait):
                kilobytes = memory_kb(peer, context, options.connections, behave)
                print(f"{options.connections} connections, {behave.__name__}: {kilobytes:.1f} kB each", flush=True)
            for listener, key in KEYS.items():
                turns = longest_turns(peer, context, listener, options.at_once)
                listed = ", ".join(f"{what} {ms} ms" for what, ms in sorted(turns.items(), key=lambda one: -one[1]))
                print(f"{options.at_once} handshakes at once, {key}: {listed or f'no turn of {SHOWN_MS} ms'}", flush=True)


if __name__ == "__main__":
    main()
