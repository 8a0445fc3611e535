"""Clients of `benchmarks.security`: they connect, do the handshake of TLS or log in, send a request, and close, over and over."""

from __future__ import annotations

import hashlib
import hmac
import multiprocessing
import secrets
import socket
import struct
import time
from base64 import b64decode, b64encode
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache

from benchmarks.load import Load, client_tls, connected
from benchmarks.peers import Peer, pin_client
from testing.process import procstat
from testing.wire import raw

USER, PASSWORD = "bench", "bench-secret"
FIRST = raw.request(raw.API_VERSIONS, 0, b"")
SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36


def connects(peer: Peer, address: str, way: str, *, seconds: float, warm_s: float) -> Load:
    """Open connections by a way of WAYS, one after the other, until the time is over."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=spawn, initializer=pin_client) as pool:
        return pool.submit(_connect, address, way, peer.pid, seconds, warm_s).result()


def _connect(address: str, way: str, pid: int, seconds: float, warm_s: float) -> Load:
    once = WAYS[way]()
    _repeat(once, address, warm_s)
    cpu_before, began = procstat.cpu_s(pid), time.monotonic()
    count = _repeat(once, address, seconds)
    return Load(requests=count, seconds=time.monotonic() - began, cpu_s=procstat.cpu_s(pid) - cpu_before)


def _repeat(once: Callable[[str], socket.socket], address: str, seconds: float) -> int:
    count, deadline = 0, time.monotonic() + seconds
    while time.monotonic() < deadline:
        with once(address) as connection:
            call(connection, FIRST)
        count += 1
    return count


def call(connection: socket.socket, request: bytes) -> bytes:
    """Send a request with its size, and return the response without the size and the correlation id."""
    connection.sendall(request)
    with connection.makefile("rb") as stream:
        (size,) = struct.unpack(">i", stream.read(4))
        return stream.read(size)[4:]


def _plaintext() -> Callable[[str], socket.socket]:
    return connected


def _tls() -> Callable[[str], socket.socket]:
    context = client_tls()
    return lambda address: connected(address, context)


def _plain() -> Callable[[str], socket.socket]:
    def log_in(address: str) -> socket.socket:
        connection = _begun(address, "PLAIN")
        _authenticate(connection, f"\0{USER}\0{PASSWORD}".encode())
        return connection

    return log_in


def _scram() -> Callable[[str], socket.socket]:
    def log_in(address: str) -> socket.socket:
        connection = _begun(address, "SCRAM-SHA-256")
        bare = f"n={USER},r={secrets.token_urlsafe()}".encode()
        response = _authenticate(connection, b"n,," + bare)
        nonce, salt, iterations = (field[2:] for field in response.decode().split(",", 2))
        unproved = f"c=biws,r={nonce}".encode()
        client_key = hmac.digest(_salted_password(salt, int(iterations)), b"Client Key", "sha256")
        signature = hmac.digest(hashlib.sha256(client_key).digest(), b",".join((bare, response, unproved)), "sha256")
        proof = bytes(one ^ other for one, other in zip(client_key, signature, strict=True))
        _authenticate(connection, unproved + b",p=" + b64encode(proof))
        return connection

    return log_in


@lru_cache
def _salted_password(salt: str, iterations: int) -> bytes:
    return hashlib.pbkdf2_hmac("sha256", PASSWORD.encode(), b64decode(salt), iterations)


def _begun(address: str, mechanism: str) -> socket.socket:
    connection = connected(address)
    _check(call(connection, raw.request(SASL_HANDSHAKE, 1, raw.string(mechanism))))
    return connection


def _authenticate(connection: socket.socket, token: bytes) -> bytes:
    body = struct.pack(">i", len(token)) + token
    response = call(connection, raw.request(SASL_AUTHENTICATE, 0, body))
    _check(response)
    (message_bytes,) = struct.unpack_from(">h", response, 2)
    return response[4 + max(message_bytes, 0) + 4 :]


def _check(response: bytes) -> None:
    (error,) = struct.unpack_from(">h", response)
    if error:
        raise RuntimeError(f"the login failed: {response!r}")


WAYS: dict[str, Callable[[], Callable[[str], socket.socket]]] = {
    "PLAINTEXT": _plaintext,
    "TLS": _tls,
    "PLAIN": _plain,
    "SCRAM-SHA-256": _scram,
}
