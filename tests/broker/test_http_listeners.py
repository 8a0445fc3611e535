"""The metrics and the API of a broker over TLS, and with a token."""

from __future__ import annotations

import http.client
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner

from pybroker.broker import listening
from pybroker.broker.joining import StartError
from pybroker.cli.main import cli
from pybroker.security.tls.certificates import issued
from pybroker.testing import Broker
from pybroker.testing.blocking import ThreadBroker
from testing.clients.certificates import HOSTS, Stores
from testing.process.kafka_peer import free_port
from testing.waiting import until

TOKEN = "t0ken"
WRONG = ("", "t0ke", "t0ken2", "T0KEN", "\xe9")
TIMEOUT_S = 30


@pytest.fixture
def stores(tmp_path: Path) -> Stores:
    return Stores(tmp_path)


def settings_of(stores: Stores, port: int) -> dict[str, str]:
    return {
        "metrics.listener": f"https://127.0.0.1:{port}",
        "pybroker.metrics.token": TOKEN,
        "pybroker.admin.listener": "https://127.0.0.1:0",
        "pybroker.admin.token": TOKEN,
        "listener.name.metrics.ssl.keystore.location": stores.broker,
        "listener.name.metrics.ssl.keystore.type": "PEM",
        "ssl.keystore.location": stores.broker,
        "ssl.keystore.type": "PEM",
        "ssl.truststore.location": stores.ca,
        "ssl.truststore.type": "PEM",
    }


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def broker(stores: Stores, port: int) -> Iterator[ThreadBroker]:
    with Broker.in_thread(settings_of(stores, port)) as started:
        yield started


def get(port: int, path: str, stores: Stores, token: str | None = None) -> tuple[int, bytes]:
    context = ssl.create_default_context(cafile=stores.ca)
    connection = http.client.HTTPSConnection("127.0.0.1", port, timeout=TIMEOUT_S, context=context)
    try:
        connection.request("GET", path, headers={} if token is None else {"Authorization": f"Bearer {token}"})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def certificate(port: int, stores: Stores) -> bytes | None:
    context = ssl.create_default_context(cafile=stores.ca)
    with (
        socket.create_connection(("127.0.0.1", port), TIMEOUT_S) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        return connection.getpeercert(binary_form=True)


def test_the_metrics_need_the_token_and_the_probes_do_not(broker: ThreadBroker, port: int, stores: Stores) -> None:
    status, page = get(port, "/metrics", stores, TOKEN)
    assert status == 200
    assert b"kafka_server_brokertopicmetrics_bytesin_total" in page
    for wrong in (None, *WRONG):
        status, page = get(port, "/metrics", stores, wrong)
        assert (status, b"kafka" in page) == (401, False)
    assert [get(port, path, stores)[0] for path in ("/livez", "/else")] == [200, 404]
    assert get(port, "/readyz", stores)[0] != 401


def test_a_plain_client_gets_nothing(broker: ThreadBroker, port: int) -> None:
    for place in (port, urlsplit(broker.admin_url).port):
        connection = http.client.HTTPConnection("127.0.0.1", place, timeout=TIMEOUT_S)
        connection.request("GET", "/metrics")
        with pytest.raises((http.client.HTTPException, ConnectionError)):
            connection.getresponse()
        connection.close()


def test_silent_handshakes_keep_no_client_out(broker: ThreadBroker, port: int, stores: Stores) -> None:
    silent = [socket.create_connection(("127.0.0.1", port), TIMEOUT_S) for _ in range(64)]
    try:
        assert get(port, "/metrics", stores, TOKEN)[0] == 200
    finally:
        for one in silent:
            one.close()


def test_clients_of_the_api_trust_the_certificate(broker: ThreadBroker, stores: Stores) -> None:
    settings = {"pybroker.admin.token": TOKEN, "ssl.truststore.type": "PEM", "ssl.truststore.location": stores.ca}

    def run(**other: str) -> str:
        texts = {**settings, **{name.replace("_", "."): text for name, text in other.items()}}
        options = [one for name, text in texts.items() for one in ("--override", f"{name}={text}")]
        return CliRunner().invoke(cli, ["clients", "--admin", str(broker.admin_url), *options], prog_name="pybroker").output

    assert str(broker.admin_url).startswith("https://127.0.0.1:")
    assert "CLIENT ID" in run()
    assert "needs the token" in run(pybroker_admin_token="wrong")
    foreign = stores.write("foreign.pem", stores.foreign().certificate_pem())
    assert "CERTIFICATE_VERIFY_FAILED" in run(ssl_truststore_location=foreign)
    assert "ssl.truststore.location=/nowhere: " in run(ssl_truststore_location="/nowhere")


def test_a_broker_that_is_a_process_is_reached_by_tls(stores: Stores, port: int) -> None:
    with Broker.subprocess(settings_of(stores, port)) as broker:
        assert broker.admin_url.startswith("https://")
        assert broker.clients() == []


def test_a_new_certificate_needs_no_restart(stores: Stores, port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listening, "LOOK_MS", 20)
    with Broker.in_thread(settings_of(stores, port)):
        before = certificate(port, stores)
        Path(stores.pem("new", issued(stores.authority, "CN=another", HOSTS))).replace(stores.broker)
        until(lambda: certificate(port, stores) != before, "the new certificate")


def test_tls_that_cannot_be_keeps_the_broker_from_starting(stores: Stores) -> None:
    settings = {"metrics.listener": "https://127.0.0.1:0"}
    with pytest.raises(StartError, match=r"^listener\.name\.metrics\.ssl\.keystore\.location|^ssl\.keystore\.location"):
        Broker.in_thread(settings).start()
