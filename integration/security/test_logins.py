"""Logins as the bytes of old and of hostile clients, the first users, and logins that end."""

from __future__ import annotations

import contextlib
import re
import socket
import struct
import urllib.request
from collections.abc import Iterator

import pytest

from integration.security.sasl import PASSWORD, USER, WRITERS, login, sasl_listener
from testing.process.broker import BrokerProcess
from testing.process.kafka_peer import free_port

VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA = 18, 17, 36, 3
TOKEN = f"\0{USER}\0{PASSWORD}".encode()
RECEIVED_MAX, CONNECTIONS = 1_000, 20


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
        size = self.read(4)
        return self.read(struct.unpack(">i", size)[0]) if size else b""

    def read(self, count: int) -> bytes:
        """Return the next bytes; fewer if the broker closes the connection."""
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
        assert client.read(4) == b"\0\0\0\0", "an empty token"
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


@pytest.fixture(scope="module")
def bounded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """Yield a broker that gives strangers little."""
    settings = sasl_listener(
        pybroker_first_request_timeout_ms="2000", sasl_server_max_receive_size=str(RECEIVED_MAX), max_connections=str(CONNECTIONS)
    )
    process = BrokerProcess(tmp_path_factory.mktemp("bounded"), settings)
    process.start()
    yield process
    process.close()


def test_a_client_that_does_not_log_in_is_closed_in_time_whatever_it_asks(bounded: BrokerProcess) -> None:
    with RawClient(bounded) as user, RawClient(bounded) as silent, RawClient(bounded) as begins, RawClient(bounded) as asks:
        user.log_in()
        assert begins.ask(request(HANDSHAKE, 1, text("PLAIN")))
        with contextlib.suppress(ConnectionError):
            while asks.ask(request(VERSIONS, 0)):
                pass
        assert silent.read(1) == begins.read(1) == b""
        assert user.ask(request(METADATA, 0, struct.pack(">i", 0)))
    assert "it has not logged in within 2000 ms" in bounded.log_text


def test_many_strangers_keep_no_user_out(bounded: BrokerProcess) -> None:
    whole = request(HANDSHAKE, 1, text("PLAIN"))
    with contextlib.ExitStack() as strangers:
        for number in range(2 * CONNECTIONS):
            strangers.enter_context(RawClient(bounded)).socket.sendall((b"", whole, request(VERSIONS, 0), whole[:9])[number % 4])
        with RawClient(bounded) as user:
            user.log_in()
            assert user.ask(request(METADATA, 0, struct.pack(">i", 0)))


def test_the_bytes_of_a_request_are_bounded_until_the_login(bounded: BrokerProcess) -> None:
    large = frame(struct.pack(">hhih", VERSIONS, 0, 7, RECEIVED_MAX) + b"c" * RECEIVED_MAX)
    for begin in (b"", request(HANDSHAKE, 1, text("PLAIN"))):
        with RawClient(bounded) as client:
            assert not begin or client.ask(begin)
            client.socket.sendall(large[:4])
            assert client.read(1) == b"", "the broker does not wait for the rest"
    with RawClient(bounded) as client:
        client.log_in()
        assert client.ask(large)
