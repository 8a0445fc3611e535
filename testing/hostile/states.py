"""The bytes of a hostile client in each state of a connection: mutations of those that an honest one sends there.

before TLS      the first bytes at a listener with TLS: ClientHello, and what is no TLS
in TLS          the second flight of a handshake, with a client's certificate, by TLS 1.2 and 1.3
before SASL     the first requests at a listener with logins
in SASL         tokens behind a good SaslHandshake: of PLAIN and SCRAM, in requests and bare
after SASL      requests of a user that may do nothing
"""

from __future__ import annotations

import contextlib
import random
import socket
import ssl
import struct
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from testing.hostile.victims import LAST_ID, Attempt
from testing.wire import raw
from testing.wire.frames import Mutator

SASL_HANDSHAKE, SASL_AUTHENTICATE = 17, 36
ABRUPT_SHARE: Final = 0.05
HALF_CLOSED_SHARE: Final = 0.99
BROKEN_SHARE: Final = 0.03
NOISE_SHARE: Final = 0.1
REPLAYED_SHARE: Final = 0.75
RECORD_S: Final = 60
VERSIONS: Final = (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
LAST: Final = raw.request(raw.API_VERSIONS, 0, b"", LAST_ID)
HELLO: Final = raw.request(raw.API_VERSIONS, 0, b"")

Make = Callable[[], Attempt]


def data(token: bytes) -> bytes:
    return struct.pack(">i", len(token)) + token


def handshake(mechanism: str, version: int = 1) -> bytes:
    return raw.request(SASL_HANDSHAKE, version, raw.string(mechanism))


def authenticate(token: bytes, version: int = 0) -> bytes:
    return raw.request(SASL_AUTHENTICATE, version, data(token))


def plain(user: str, password: str) -> bytes:
    return b"\0".join((b"", user.encode(), password.encode()))


def login(user: str, password: str) -> bytes:
    """Return the two requests of a login by PLAIN."""
    return handshake("PLAIN") + authenticate(plain(user, password))


def tokens(names: Iterable[str]) -> list[bytes]:
    """Return tokens of honest clients, but for their passwords."""
    made = [b"c=biws,r=nonce,p=" + b64encode(bytes(size)) for size in (0, 20, 32, 64)]
    for name in names:
        made += [plain(name, "guess"), name.encode() + b"\0" + plain(name, "guess")[1:]]
        made += [
            f"{header}n={name},r={'n' * 24}{extra}".encode()
            for header in ("n,,", "y,,", f"n,a={name},")
            for extra in ("", ",tokenauth=true", ",x=1")
        ]
        made.append(f"n,,\x01auth=Bearer {'e30.' * 3}\x01\x01".encode())
    return made


def before_sasl(rng: random.Random, frames: Sequence[bytes]) -> Make:
    greeting = [one[4:] for one in (HELLO, handshake("PLAIN"), handshake("SCRAM-SHA-256", 0), authenticate(plain("a", "b")))]
    mutator = Mutator([*greeting * (len(frames) // 8), *frames], rng.getrandbits(32))
    return lambda: _attempt(rng, b"", 0, [mutator.frame() for _ in range(rng.choice((1, 1, 2, 8)))], mutator)


def in_sasl(rng: random.Random, names: Sequence[str]) -> Make:
    given = tokens(names)
    requests = Mutator([authenticate(token, version)[4:] for token in given for version in (0, 1)], rng.getrandbits(32))
    bare = Mutator(given, rng.getrandbits(32))

    def make() -> Attempt:
        version = rng.randrange(2)
        mutator = requests if version else bare
        begin = handshake(rng.choice(("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")), version)
        return _attempt(rng, begin, 1, [mutator.frame() for _ in range(rng.choice((1, 1, 2)))], mutator)

    return make


def after_sasl(rng: random.Random, frames: Sequence[bytes], user: str, password: str) -> Make:
    again = [one[4:] for one in (handshake("PLAIN"), authenticate(plain(user, password)), handshake("SCRAM-SHA-256"))]
    mutator = Mutator([*again * (len(frames) // 50), *frames], rng.getrandbits(32))
    begin = login(user, password)
    return lambda: _attempt(rng, begin, 2, [mutator.frame() for _ in range(rng.choice((1, 4, 16, 32)))], mutator)


def _attempt(rng: random.Random, begin: bytes, good: int, frames: list[bytes], mutator: Mutator) -> Attempt:
    is_last = rng.random() < BROKEN_SHARE
    if is_last:  # else the broker waits for the rest of it
        frames.append(mutator.broken_size())
    sent = b"".join((begin, *frames, LAST))
    is_abrupt = rng.random() < ABRUPT_SHARE
    return Attempt(sent[: rng.randrange(len(sent))] if is_abrupt else sent, len(frames), good, is_abrupt, is_last)


def before_tls(rng: random.Random, context: ssl.SSLContext) -> Make:
    hellos = []
    for version in VERSIONS:
        context.maximum_version = version
        hellos += [_hello(context, name)[0] for name in ("localhost", None)]
    strange = [
        LAST,
        handshake("PLAIN"),
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        b"\x80\x2e\x01\x03\x01",
        b"\x15\x03\x03\0\x02\x02\x28",
    ]
    mutator = Mutator([*hellos * 6, *strange], rng.getrandbits(32))

    def make() -> Attempt:
        sent = mutator.frame()[4:] or b"\x16"
        return Attempt(sent, is_abrupt=rng.random() < ABRUPT_SHARE, is_last=rng.random() < HALF_CLOSED_SHARE)

    return make


def in_tls(rng: random.Random, context: ssl.SSLContext, address: tuple[str, int]) -> Make:
    """Return what makes handshakes with a bad second flight. Most are made of one that was recorded, which takes no cryptography
    here: their signature and what is encrypted in them are of another handshake.
    """
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    recorded = [_recorded(context, version, address) for version in VERSIONS]
    replayed = [(sent, Mutator([flight], rng.getrandbits(32))) for sent, flight in recorded]
    noise = Mutator([rng.randbytes(100)], rng.getrandbits(32))

    def spoil(flight: bytes) -> tuple[bytes, int]:
        mutator = Mutator([flight], rng.getrandbits(32))
        bad = [mutator.frame()[4:] for _ in range(rng.choice((1, 1, 2)))]
        return b"".join((*bad, noise.frame()[4:] if rng.random() < NOISE_SHARE else b"")), len(bad)

    def make() -> Attempt:
        is_abrupt = rng.random() < ABRUPT_SHARE
        if rng.random() < REPLAYED_SHARE:
            sent, mutator = rng.choice(replayed)
            return Attempt(sent + mutator.frame()[4:], is_abrupt=is_abrupt, is_last=True)
        context.maximum_version = rng.choice(VERSIONS)
        sent, client, incoming, outgoing = _hello(context, "localhost")
        return Attempt(sent, 0, is_abrupt=is_abrupt, client=client, incoming=incoming, outgoing=outgoing, spoil=spoil)

    return make


def _recorded(context: ssl.SSLContext, version: ssl.TLSVersion, address: tuple[str, int]) -> tuple[bytes, bytes]:
    """Return the two flights of a client in a good handshake."""
    context.maximum_version = version
    sent, client, incoming, outgoing = _hello(context, "localhost")
    with socket.create_connection(address, RECORD_S) as connection:
        connection.sendall(sent)
        while not (flight := outgoing.read()):
            data = connection.recv(1 << 16)
            assert data, "the broker has ended the handshake"
            incoming.write(data)
            with contextlib.suppress(ssl.SSLWantReadError):
                client.do_handshake()
    return sent, flight


def hello(context: ssl.SSLContext) -> bytes:
    """Return the first bytes of a client."""
    return _hello(context, "localhost")[0]


def _hello(context: ssl.SSLContext, name: str | None) -> tuple[bytes, ssl.SSLObject, ssl.MemoryBIO, ssl.MemoryBIO]:
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = context.wrap_bio(incoming, outgoing, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return outgoing.read(), client, incoming, outgoing
    raise AssertionError("a handshake needs the other side")
