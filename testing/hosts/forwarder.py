"""Forwards TCP connections from one network namespace into another: `python -m testing.hosts.forwarder LISTEN NAMESPACE TARGET`.

It listens in the namespace where it is started, then enters NAMESPACE (a file under /var/run/netns) and connects to TARGET from
there. It stands for Docker's proxy when NAMESPACE is the host's, and for RootlessKit's port driver when it is the container's.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import socket
import sys

CLONE_NEWNET = 0x4000_0000


def enter(namespace: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(namespace, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if libc.setns(descriptor, CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), namespace)
    finally:
        os.close(descriptor)


def address_of(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    return host.strip("[]"), int(port)


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass  # either side may hang up at any time
    finally:
        writer.close()


async def main() -> None:
    listen, namespace, target = sys.argv[1:]
    host, port = address_of(listen)
    listening = socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    enter(namespace)

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there = await asyncio.open_connection(*address_of(target))
        except OSError:
            writer.close()  # accepts and closes at once, as Docker's proxy does
            return
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    server = await asyncio.start_server(forward, sock=listening)
    print("FORWARDING", flush=True)
    await server.serve_forever()


asyncio.run(main())
