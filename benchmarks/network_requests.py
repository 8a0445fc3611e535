"""Measures the CPU of the network layer per small request, with a handler that only returns a response.

    python -m benchmarks.network_requests [--asyncio] [--seconds 2] [--depth 1 --depth 64]

A client has one connection to the server process, and keeps `depth` requests under way. The benchmark reports the server's CPU
time per request (user + system, from the kernel's accounting). Server and client are on different cores where there are two.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import socket
import struct
import time
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

REQUEST = struct.pack(">ihhih", 24, 18, 3, 7, 4) + b"name" + b"\0\x05abcd\x031.0"[:10]
RESPONSE = struct.pack(">ii", 300, 7) + bytes(296)


def handler(context: ConnectionContext, frame: memoryview) -> bytes:
    return RESPONSE


def serve(pipe: Pipe, *, on_asyncio: bool, pool_bytes: int) -> None:
    pin(0)

    async def main() -> None:
        server = SocketServer([Listener(host="127.0.0.1")], handler, MemoryPool(pool_bytes, SystemClock()), NetworkLimits())
        (bound,) = await server.start()
        pipe.send(bound.port)
        await asyncio.get_running_loop().run_in_executor(None, pipe.recv)
        await server.stop(1000)

    (asyncio.run if on_asyncio else uvloop.run)(main())


def pin(core: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[core % len(cores)]})


def cpu_seconds(pid: int) -> float:
    on_cpu_ns = Path(f"/proc/{pid}/schedstat").read_text().split()[0]  # finer than the ticks of /proc/pid/stat
    return int(on_cpu_ns) / 1e9


def measure(pid: int, port: int, depth: int, seconds: float) -> str:
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        burst, expected = REQUEST * depth, len(RESPONSE) * depth
        into = bytearray(expected)
        count = 0
        start, cpu = time.monotonic(), cpu_seconds(pid)
        while time.monotonic() - start < seconds:
            client.sendall(burst)
            got = 0
            while got < expected:
                got += client.recv_into(memoryview(into)[got:])
            count += depth
        elapsed, cpu = time.monotonic() - start, cpu_seconds(pid) - cpu
    each_us = cpu / count * 1e6
    return f"depth {depth:4}: {each_us:6.2f} us CPU per request, {count / cpu:9,.0f} per CPU-second, {count / elapsed:9,.0f}/s"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--asyncio", action="store_true", help="run on plain asyncio instead of uvloop")
    parser.add_argument("--seconds", type=float, default=2, help="seconds for each depth (default: %(default)s)")
    parser.add_argument(
        "--depth", type=int, action="append", help="requests under way, may be given more than once (default: 1, 8 and 64)"
    )
    parser.add_argument(
        "--pool-bytes", type=int, default=-1, help="the setting queued.max.request.bytes (default: -1, without a bound)"
    )
    arguments = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    kwargs = {"on_asyncio": arguments.asyncio, "pool_bytes": arguments.pool_bytes}
    server = context.Process(target=serve, args=(theirs,), kwargs=kwargs)
    server.start()
    port = ours.recv()
    pin(1)
    assert server.pid is not None
    for depth in arguments.depth or [1, 8, 64]:
        measure(server.pid, port, depth, 0.2)
        print(measure(server.pid, port, depth, arguments.seconds))
    ours.send("stop")
    server.join()


if __name__ == "__main__":
    main()
