"""Names of hosts in settings."""

from __future__ import annotations

import socket

import pytest

from pybroker.broker.dynamic_settings import network_limits
from pybroker.config.broker import BrokerConfig
from pybroker.config.hosts import connection_limits
from pybroker.config.setting import ConfigError


def load(text: str) -> BrokerConfig:
    return BrokerConfig(node_id=1, max_connections_per_ip_overrides=text)


def test_hosts_of_connection_overrides_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, port: None, **_: int) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        if host != "client.example":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            (socket.AF_INET6, 1, 6, "", ("2001:db8::7", 0)),
            (socket.AF_INET, 1, 6, "", ("192.0.2.7", 0)),
            (socket.AF_INET, 1, 6, "", ("192.0.2.8", 0)),
        ]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    found = connection_limits(load("client.example:5,127.0.0.1:2,[0:0::1]:3"))
    assert found == {"192.0.2.7": 5, "127.0.0.1": 2, "::1": 3}, "of several addresses the first of IPv4, as Java"
    with pytest.raises(ConfigError, match=r"^max\.connections\.per\.ip\.overrides=.*'nowhere' has no address"):
        connection_limits(load("127.0.0.1:1,nowhere:5"))


def test_a_name_that_has_no_address_any_more_ends_no_broker(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def look_up(*_: object, **__: object) -> list[object]:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    assert network_limits(load("nowhere:5")).max_connections_per_ip_overrides == {}
    assert "'nowhere' has no address" in caplog.text
