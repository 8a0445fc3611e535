"""Logins as the bytes of old and of hostile clients, the first users, and logins that end."""

from __future__ import annotations

import contextlib
import random
import re
import socket
import struct
import urllib.request
from collections.abc import Iterator

import pytest

from integration.security.sasl import PASSWORD, USER, WRITERS, login, sasl_listener
from testing.process.broker import BrokerProcess
from testing.process.kafka_peer import free_port
from testing.process.procstat import memory_bytes

VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA = 18, 17, 36, 3
TOKEN = f"\0{USER}\0{PASSWORD}".encode()
FRAMES = 20_000
GROWTH_BYTES_MAX = 20 << 20


def frame(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def request(key: int, version: int, body: bytes = b"") -> bytes:
    return frame(struct.pack(">hhih", key, version, 7, -1) + body)


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


class RawClient:
    def __init__(self, broker: BrokerProcess, port: int | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port or broker.port), timeout=20)

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, sent: bytes) -> bytes:
        """Return the response to a frame without its size; nothing if the broker closes the connection."""
        self.socket.sendall(sent)
        size = self._read(4)
        return self._read(struct.unpack(">i", size)[0]) if size else b""

    def _read(self, count: int) -> bytes:
        found = b""
        while len(found) < count:
            try:
                come = self.socket.recv(count - len(found))
            except ConnectionResetError:
                return b""
            if not come:
                return b""
            found += come
        return found

    def log_in(self) -> int:
        """Log in by requests. Returns for how long, in ms."""
        assert self.ask(request(HANDSHAKE, 1, text("PLAIN")))[4:6] == b"\0\0"
        response = self.ask(request(AUTHENTICATE, 1, struct.pack(">i", len(TOKEN)) + TOKEN))
        assert response[4:6] == b"\0\0"
        return int(struct.unpack(">q", response[-8:])[0])


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    users = "SCRAM-SHA-256=[name=first,password=of-first],SCRAM-SHA-512=[iterations=8192,name=first,password=of-first]"
    settings = sasl_listener(
        "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        connections_max_reauth_ms="2000",
        pybroker_scram_users=users,
        metrics_listener=f"127.0.0.1:{free_port()}",
    )
    process = BrokerProcess(tmp_path_factory.mktemp("logins"), settings)
    process.start()
    yield process
    process.close()


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_the_first_users_come_from_the_settings(mechanism: str, broker: BrokerProcess) -> None:
    WRITERS["confluent-kafka"](broker.bootstrap, "of-first", login("first", "of-first", mechanism))
    assert "of-first" not in broker.log_text.replace("topic of-first", "").replace("of-first-0", "")


def test_a_client_of_kafka_0_9_sends_bare_tokens(broker: BrokerProcess) -> None:
    with RawClient(broker) as client:
        assert client.ask(request(HANDSHAKE, 0, text("PLAIN")))[4:6] == b"\0\0"
        client.socket.sendall(frame(TOKEN))
        assert client._read(4) == b"\0\0\0\0", "an empty token"
        assert len(client.ask(request(METADATA, 0, struct.pack(">i", 0)))) > 8


@pytest.mark.parametrize(
    "first",
    [
        request(METADATA, 0, struct.pack(">i", 0)),
        request(AUTHENTICATE, 1, struct.pack(">i", len(TOKEN)) + TOKEN),
        request(HANDSHAKE, 1, text("PLAIN")) + request(METADATA, 0, struct.pack(">i", 0)),
        frame(b"GET / HTTP/1.1"),
        struct.pack(">i", 600_000),
    ],
    ids=["Metadata", "a token", "Metadata in a login", "HTTP", "too large"],
)
def test_anything_else_ends_the_connection(first: bytes, broker: BrokerProcess) -> None:
    with RawClient(broker) as client:
        client.socket.sendall(first)
        while client.socket.recv(1_000):
            pass  # the response to SaslHandshake, and then the end


def test_a_connection_ends_with_its_login_unless_the_client_logs_in_again(broker: BrokerProcess) -> None:
    with RawClient(broker) as client, RawClient(broker) as other:
        assert client.log_in() == other.log_in() == 2_000
        for _ in range(3):
            client.socket.settimeout(1.2)
            with pytest.raises(TimeoutError):
                client.socket.recv(1)  # the broker closes no connection that waits
            client.socket.settimeout(20)
            client.log_in()
            assert client.ask(request(METADATA, 0, struct.pack(">i", 0)))
        assert other.ask(request(METADATA, 0, struct.pack(">i", 0))) == b""
    assert f"the login of User:{USER} has ended, and the client has not logged in again" in broker.log_text
    assert counted(broker, "expired_connections_killed") >= 1
    assert counted(broker, "successful_authentication") >= 5


def counted(broker: BrokerProcess, name: str) -> float:
    """Return a counter of logins, as the page of metrics has it."""
    with urllib.request.urlopen(f"http://{broker.overrides['metrics.listener']}/metrics", timeout=20) as response:
        page = response.read().decode()
    match = re.search(rf"^kafka_server_socketservermetrics_{name}_total{{listener=.SASL_PLAINTEXT.}} (\S+)", page, re.MULTILINE)
    assert match is not None, page
    return float(match[1])


def test_mutated_frames_before_a_login_cost_nothing(broker: BrokerProcess) -> None:
    """Send mutated logins, each to its end, and see that others are served and that the memory stays."""
    generator = random.Random(40)
    whole = [
        request(VERSIONS, 0), request(HANDSHAKE, 1, text("PLAIN")), request(HANDSHAKE, 0, text("SCRAM-SHA-256")),
        request(AUTHENTICATE, 2, b"\0" + bytes([len(TOKEN) + 1]) + TOKEN + b"\0"), frame(TOKEN), frame(b"n,,n=first,r=abc"),
    ]  # fmt: skip
    before_bytes = 0
    for number in range(FRAMES // 20):
        sent = bytearray(b"".join(generator.choice(whole) for _ in range(20)))
        for _ in range(generator.randrange(1, 8)):
            sent[generator.randrange(len(sent))] = generator.randrange(256)
        with RawClient(broker) as client, contextlib.suppress(ConnectionError):  # the broker may have closed the connection
            client.socket.sendall(sent)
        if number == FRAMES // 100:
            before_bytes = memory_bytes(broker.pid)
    with RawClient(broker) as client:
        client.log_in()
        assert client.ask(request(METADATA, 0, struct.pack(">i", 0)))
    assert memory_bytes(broker.pid) - before_bytes < GROWTH_BYTES_MAX
    assert "which is a bug" not in broker.log_text
