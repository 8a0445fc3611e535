"""Serves the floor of `benchmarks.compressed_appends`: the least that any server in Python pays for a large compressed batch.

It receives requests of a fixed size one after the other, computes the checksum of the batch, inflates the records with the
library that the broker uses, appends the batch to a file, and sends a response of fixed size. It looks at no field and at no
record, so what a broker costs beyond it is the protocol, the log, and the walk through the records.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import sys
import tempfile
from collections.abc import Callable

import cramjam
import crc32c
import zstandard

from benchmarks import peers
from benchmarks.load import FloorServer
from pybroker.records.inflate import GZIP_WBITS, inflate_module

RESPONSE = (51).to_bytes(4) + bytes(51)
FILE_BYTES_MAX = 50_000_000  # as `log.segment.bytes` of the benchmark
_CHECKED_AT, _RECORDS_AT = 21, 61  # in a batch of magic 2
_XERIAL_HEADER_BYTES = 16


class InflatingServer(FloorServer):
    """The server's process on the brokers' core. Ended by `close`. `frame` is the request that it will get over and over."""

    name = "floor"

    def __init__(self, codec: str, frame: bytes, batch: bytes) -> None:
        arguments = {"request_bytes": len(frame), "batch_at": len(frame) - len(batch)}
        code = f"from benchmarks.inflating_server import serve; serve({codec!r}, **{arguments})"
        super().__init__([sys.executable, "-c", code])


def inflate_function(codec: str) -> Callable[[memoryview], object]:
    """Return what inflates the records of a batch at once, and keeps nothing of them."""
    if codec == "gzip":
        return lambda records: inflate_module().decompress(records, GZIP_WBITS)
    if codec == "lz4":
        return _inflate_lz4
    if codec == "zstd":
        return zstandard.ZstdDecompressor().decompress
    return _inflate_snappy if codec == "snappy" else len


def _inflate_snappy(records: memoryview) -> None:
    position = _XERIAL_HEADER_BYTES
    while position < len(records):
        (size,) = struct.unpack_from(">i", records, position)
        position += 4 + size
        cramjam.snappy.decompress_raw_into(records[position - size : position], _BLOCK)


def _inflate_lz4(records: memoryview) -> None:
    position = 15 if records[4] & 8 else 7  # behind the frame's header, with or without the size of its content
    while size := struct.unpack_from("<I", records, position)[0]:
        position += 4 + (size & 0x7FFFFFFF)
        if size < 1 << 31:
            cramjam.lz4.decompress_block_into(records[position - size : position], _BLOCK, output_len=len(_BLOCK))


_BLOCK = memoryview(bytearray(1 << 16))


def serve(codec: str, *, request_bytes: int, batch_at: int) -> None:
    """Print the port, and serve one connection after the other until the process is killed."""
    os.sched_setaffinity(0, {peers.CORES[0]})
    request = memoryview(bytearray(request_bytes))
    batch, inflate = request[batch_at:], inflate_function(codec)
    with socket.create_server(("127.0.0.1", 0)) as listening, tempfile.TemporaryFile() as file:
        print(listening.getsockname()[1], flush=True)
        position = 0
        while True:
            connection, _ = listening.accept()
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection, contextlib.suppress(ConnectionError):
                while _receive(connection, request):
                    crc32c.crc32c(batch[_CHECKED_AT:])
                    inflate(batch[_RECORDS_AT:])
                    if position > FILE_BYTES_MAX:
                        os.truncate(file.fileno(), 0)
                        position = 0
                    position += os.pwrite(file.fileno(), batch, position)
                    connection.sendall(RESPONSE)


def _receive(connection: socket.socket, request: memoryview) -> bool:
    received = 0
    while received < len(request):
        count = connection.recv_into(request[received:])
        if not count:
            return False
        received += count
    return True
