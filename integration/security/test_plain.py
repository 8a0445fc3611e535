"""Stock clients log in by PLAIN, and those with a wrong password learn it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.security.sasl import CLIENT_ERRORS, PASSWORD, WRITERS, login, sasl_listener
from testing.process.broker import BrokerProcess

every_client = pytest.mark.parametrize("client", WRITERS)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    process = BrokerProcess(tmp_path_factory.mktemp("plain"), sasl_listener())
    process.start()
    yield process
    process.close()


@every_client
def test_a_mechanism_that_the_listener_lacks_is_refused(
    client: str, broker: BrokerProcess, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(CLIENT_ERRORS) as refused:
        WRITERS[client](broker.bootstrap, "topic", login(mechanism="SCRAM-SHA-256"))
    assert "mechanism" in f"{refused.value} {caplog.text}".lower()
    assert "asks for the mechanism 'SCRAM-SHA-256', and there are PLAIN" in broker.log_text


def test_no_secret_is_in_the_log(broker: BrokerProcess) -> None:
    assert PASSWORD not in broker.log_text


def test_a_listener_without_a_login_module_keeps_the_broker_from_starting(tmp_path: Path) -> None:
    settings = sasl_listener()
    key = "listener.name.sasl_plaintext.plain.sasl.jaas.config"
    settings[key] = 'PlainLoginModule required user_alice="secret";'
    process = BrokerProcess(tmp_path, settings)
    with pytest.raises(RuntimeError, match=r"must have the login module org\.apache\.kafka"):
        process.start()
    assert "secret" not in process.log_text.replace("[hidden]", "")
    process.close()
