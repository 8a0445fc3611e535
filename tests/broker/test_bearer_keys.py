"""The keys for tokens: read at the start, at intervals and for unknown ids, and what happens where they cannot be read."""

from __future__ import annotations

import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Final

import pytest
import pytest_asyncio

from pybroker.broker import bearer_keys
from pybroker.broker.bearer_keys import BearerKeys
from pybroker.config.setting import ConfigError
from pybroker.security.sasl.key_set import KEY_SET_BYTES_MAX
from pybroker.security.sasl.oauthbearer_settings import KeysAt
from testing.clients.certificates import Stores
from testing.clients.tokens import Issuer, KeyServer, Respond, responding
from testing.waiting import turned_until

KEY: Final = "listener.name.x.oauthbearer.sasl.oauthbearer.jwks.endpoint.url"
FIRST, SECOND = Issuer("first"), Issuer("second")


@pytest.fixture
def endpoint() -> Iterator[KeyServer]:
    served = KeyServer(responding(FIRST.document()))
    yield served
    served.close()


@pytest_asyncio.fixture
async def open_keys() -> AsyncIterator[Callable[[KeysAt], BearerKeys]]:
    opened: list[BearerKeys] = []

    def make(at: KeysAt) -> BearerKeys:
        opened.append(BearerKeys(at))
        return opened[-1]

    yield make
    for keys in opened:
        keys.close()


def at(url: str, *, refresh_ms: int = 3_600_000, **options: str) -> KeysAt:
    path = url.removeprefix("file://") if url.startswith("file:") else ""
    return KeysAt(KEY, url, path, refresh_ms, 1, 10, {name.replace("_", "."): value for name, value in options.items()})


def has(keys: BearerKeys, issuer: Issuer) -> bool:
    return keys.find("ES256", issuer.key_id) is not None


Open = Callable[[KeysAt], BearerKeys]


async def test_an_unknown_id_has_a_file_read_again(open_keys: Open, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(FIRST.document())
    keys = open_keys(at(f"file://{path}"))
    await keys.start()
    assert has(keys, FIRST)
    path.write_bytes(SECOND.document())
    assert not has(keys, SECOND)
    await turned_until(lambda: has(keys, SECOND), "the keys are read")
    assert not has(keys, FIRST)


async def test_unknown_ids_have_the_keys_read_once_in_a_while(open_keys: Open, endpoint: KeyServer) -> None:
    keys = open_keys(at(endpoint.url))
    await keys.start()
    for _ in range(3):
        assert not has(keys, SECOND)
        await turned_until(lambda: endpoint.reads > 1, "the keys are read")
    assert endpoint.reads == 2


async def test_keys_are_read_at_intervals(open_keys: Open, endpoint: KeyServer) -> None:
    keys = open_keys(at(endpoint.url, refresh_ms=1))
    await keys.start()
    endpoint.respond = responding(FIRST.document(SECOND))
    await turned_until(lambda: endpoint.reads > 3, "the keys are read")
    assert has(keys, FIRST)
    assert has(keys, SECOND)


@pytest.mark.parametrize("content", [None, b"<html>", b"{}", b" " * (KEY_SET_BYTES_MAX + 1)])
async def test_a_file_without_keys_is_refused(content: bytes | None, open_keys: Open, tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=f"{KEY}=file://{path}: "):
        await open_keys(at(f"file://{path}")).start()


@pytest.mark.parametrize(
    ("respond", "reason"),
    [
        (responding(b"", 503), "the response has status 503"),
        (responding(b"", 302, Location="ftp://127.0.0.1/keys"), "the response has status 302"),
        (responding(b"", 302, Location="https://127.0.0.1/keys"), "the response has status 302"),
        (responding(b"<html>"), "is not JSON"),
        (responding(b" " * (KEY_SET_BYTES_MAX + 1)), "has more than 1048576 bytes"),
        (lambda request: request.wfile.write(b"\n" * 100), "the response is not one of HTTP"),
        (lambda request: request.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"), "is not JSON"),
    ],
)
async def test_a_url_without_keys_is_tried_again(
    respond: Respond, reason: str, open_keys: Open, endpoint: KeyServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    right, endpoint.respond = endpoint.respond, respond
    keys = open_keys(at(endpoint.url))
    await keys.start()
    assert not has(keys, FIRST)
    await turned_until(lambda: endpoint.reads > 3, "the keys are read")
    endpoint.respond = right
    await turned_until(lambda: has(keys, FIRST), "the keys are read")
    assert caplog.messages == [
        f"The keys for tokens at {endpoint.url}: {reason}; no token is valid until a later try succeeds",
        f"The keys for tokens at {endpoint.url} could be read again",
    ]


async def test_keys_hold_while_the_url_cannot_be_reached(open_keys: Open, caplog: pytest.LogCaptureFixture) -> None:
    endpoint = KeyServer(responding(FIRST.document()))
    keys = open_keys(at(endpoint.url, refresh_ms=1))
    await keys.start()
    endpoint.close()
    await turned_until(lambda: caplog.messages, "the keys are read")
    assert has(keys, FIRST)
    (line,) = caplog.messages
    assert line.endswith(": cannot be read: Connection refused; the 1 keys of before hold until a later try succeeds")


async def test_a_slow_response_ends_in_time_and_holds_up_nothing(
    open_keys: Open, endpoint: KeyServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(bearer_keys, "WHOLE_S", 0)
    ended = threading.Event()

    def trickle(request: BaseHTTPRequestHandler) -> None:
        request.send_response(200)
        request.end_headers()
        while not ended.wait(0.01):
            request.wfile.write(b" ")

    endpoint.respond = trickle
    await open_keys(at(endpoint.url)).start()
    ended.set()
    assert "cannot be read: takes more than 0 s" in caplog.text


async def test_tls_has_the_trust_store_of_the_login_module(open_keys: Open, endpoint: KeyServer, tmp_path: Path) -> None:
    stores = Stores(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(stores.broker)
    endpoint.server.socket = context.wrap_socket(endpoint.server.socket, server_side=True)
    url = endpoint.url.replace("http:", "https:")
    keys = open_keys(at(url, ssl_truststore_type="PEM", ssl_truststore_location=stores.ca))
    await keys.start()
    assert has(keys, FIRST)
    untrusting = open_keys(at(url))
    await untrusting.start()
    assert not has(untrusting, FIRST)
    with pytest.raises(ConfigError, match=r"ssl\.truststore\.location"):
        open_keys(at(url, ssl_truststore_type="PEM", ssl_truststore_location="/nonexistent"))
