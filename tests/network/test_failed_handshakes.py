"""A handshake that fails leaves nothing for the garbage collector, which does not know how much OpenSSL has allocated."""

from __future__ import annotations

import gc
import socket
import ssl
from pathlib import Path

from pybroker.testing import Broker
from testing.clients.certificates import Stores
from testing.waiting import until

TIMEOUT_S, COUNT = 30, 20
NO_TLS = b"\0\0\0\x0a\0\x12\0\0\0\0\0\1\xff\xff"


def fail(bootstrap: str) -> None:
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), TIMEOUT_S) as connection:
        connection.sendall(NO_TLS)
        while connection.recv(1 << 16):
            pass


def tls_objects() -> int:
    return sum(isinstance(one, ssl.SSLObject) for one in gc.get_objects())


def test_a_failed_handshake_leaves_no_garbage(tmp_path: Path) -> None:
    settings = {**Stores(tmp_path).of_broker(), "inter.broker.listener.name": "SSL"}
    with Broker.in_thread(settings) as broker:
        fail(broker.bootstrap)
        gc.collect()
        gc.disable()
        try:
            for _ in range(COUNT):
                fail(broker.bootstrap)
            until(lambda: tls_objects() == 0, "the end of all handshakes")
        finally:
            gc.enable()
