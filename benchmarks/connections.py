"""Measures the memory of an idle connection.

    python -m benchmarks.connections [--asyncio] [--connections 1000]

The server process has the network layer alone. A client process opens connections, sends one request on each, gets the
response, and leaves the connections idle. The benchmark reports the growth of the server's resident memory per connection,
after a first hundred that warm the server up, and what Python's allocator counts of this growth (tracemalloc, in a second run,
because tracing itself takes memory). The kernel's memory for sockets is not included.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import multiprocessing
import os
import resource
import socket
import struct
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import uvloop

from pybroker.clock import SystemClock
from pybroker.network.limits import Listener, NetworkLimits
from pybroker.network.memory_pool import MemoryPool
from pybroker.network.server import SocketServer

if TYPE_CHECKING:
    from multiprocessing.connection import Connection as Pipe

    from pybroker.network.context import ConnectionContext

FIRST = 100
REQUEST = struct.pack(">i", 20) + bytes(20)
RESPONSE = struct.pack(">i", 4) + bytes(4)


def handler(context: ConnectionContext, frame: memoryview) -> bytes:
    return RESPONSE


def serve(pipe: Pipe, *, on_asyncio: bool, is_traced: bool) -> None:
    if is_traced:
        tracemalloc.start()

    async def main() -> None:
        limits = NetworkLimits(socket_listen_backlog_size=1000)
        server = SocketServer([Listener(host="127.0.0.1")], handler, MemoryPool(-1, SystemClock()), limits)
        (bound,) = await server.start()
        pipe.send(bound.port)
        while await asyncio.get_running_loop().run_in_executor(None, pipe.recv) == "measure":
            gc.collect()
            pipe.send(tracemalloc.get_traced_memory()[0] if is_traced else resident_bytes())
        await server.stop(1000)

    (asyncio.run if on_asyncio else uvloop.run)(main())


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def growth(count: int, *, on_asyncio: bool, is_traced: bool) -> float:
    """Return the bytes per connection."""
    ours, theirs = multiprocessing.Pipe()
    kwargs = {"on_asyncio": on_asyncio, "is_traced": is_traced}
    server = multiprocessing.get_context("spawn").Process(target=serve, args=(theirs,), kwargs=kwargs)
    server.start()
    port = ours.recv()
    clients: list[socket.socket] = []

    def measured(more: int) -> int:
        for _ in range(more):
            client = socket.create_connection(("127.0.0.1", port))
            client.sendall(REQUEST)
            assert client.recv(100) == RESPONSE
            clients.append(client)
        ours.send("measure")
        return int(ours.recv())

    before = measured(FIRST)
    after = measured(count)
    ours.send("stop")
    server.join()
    for client in clients:
        client.close()
    return (after - before) / count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--asyncio", action="store_true", help="run on plain asyncio instead of uvloop")
    parser.add_argument("--connections", type=int, default=1000, help="connections to open (default: %(default)s)")
    arguments = parser.parse_args()
    count = arguments.connections
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * count + 1000), hard))
    for is_traced, what in ((False, "resident"), (True, "of Python's allocator")):
        each = growth(count, on_asyncio=arguments.asyncio, is_traced=is_traced)
        print(
            f"{each:8,.0f} bytes {what} per idle connection ({count} connections, {'asyncio' if arguments.asyncio else 'uvloop'})"
        )


if __name__ == "__main__":
    main()
