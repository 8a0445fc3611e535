from __future__ import annotations

import pytest

from pybroker.config.listeners import (
    Endpoint,
    Listeners,
    parse_address,
    parse_connection_overrides,
    parse_outside,
    parse_protocol_map,
    resolve_listeners,
    with_address,
)
from pybroker.config.setting import ConfigError

MAP = "PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL,OTHER:PLAINTEXT,CONTROLLER:SSL"


def resolve(
    listeners: str, advertised: str | None = None, protocol_map: str = MAP, controllers: str = "", inter_broker: str | None = None
) -> Listeners:
    return resolve_listeners(
        listeners=listeners,
        advertised=advertised,
        protocol_map=protocol_map,
        controller_names=tuple(controllers.split(",")) if controllers else (),
        inter_broker=None if inter_broker is None else ("inter.broker.listener.name", inter_broker),
    )


def plain(name: str, host: str, port: int) -> Endpoint:
    return Endpoint(listener_name=name, host=host, port=port, security_protocol="PLAINTEXT")


@pytest.mark.parametrize(
    ("text", "endpoints"),
    [
        ("PLAINTEXT://:9092", [plain("PLAINTEXT", "", 9092)]),
        ("plaintext://localhost:0", [plain("PLAINTEXT", "localhost", 0)]),
        (
            "PLAINTEXT://a.example:9092 , OTHER://127.0.0.1:9093",
            [plain("PLAINTEXT", "a.example", 9092), plain("OTHER", "127.0.0.1", 9093)],
        ),
        ("PLAINTEXT://[::1]:9092", [plain("PLAINTEXT", "::1", 9092)]),
        ("PLAINTEXT://[fe80::1%eth0]:9092", [plain("PLAINTEXT", "fe80::1%eth0", 9092)]),
        ("PLAINTEXT://127.0.0.1:9092,OTHER://[::1]:9092", [plain("PLAINTEXT", "127.0.0.1", 9092), plain("OTHER", "::1", 9092)]),
        ("PLAINTEXT://:0,OTHER://:0", [plain("PLAINTEXT", "", 0), plain("OTHER", "", 0)]),
    ],
)
def test_good_listeners_are_also_advertised(text: str, endpoints: list[Endpoint]) -> None:
    resolved = resolve(text)
    assert list(resolved.bound) == endpoints
    assert resolved.advertised == resolved.bound


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "names no listener"),
        ("PLAINTEXT", "NAME://host:port"),
        (":9092", "NAME://host:port"),
        ("PLAINTEXT://", "host:port"),
        ("PLAINTEXT://host", "host:port"),
        ("PLAINTEXT://host:", "host:port"),
        ("PLAINTEXT://host:-1", "host:port"),
        ("PLAINTEXT://host:9092/", "host:port"),
        ("PLAINTEXT://::1:9092", "host:port"),
        ("PLAINTEXT://[::1:9092", "host:port"),
        ("PLAINTEXT://[:::1]:9092", "IPv6"),
        ("PLAINTEXT://host:65536", "65536"),
        ("PLAINTEXT://a:1,", "empty entry"),
        ("PLAINTEXT://a:1,plaintext://a:2", "twice"),
        ("PLAINTEXT://a:1,OTHER://b:1", "port 1 is used by PLAINTEXT and OTHER"),
        ("PLAINTEXT://:1,OTHER://[::1]:1", "port 1"),
        ("UNKNOWN://a:1", "listener.security.protocol.map"),
    ],
)
def test_bad_listeners_are_refused_with_key_and_value(text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve(text)
    assert caught.value.key == "listeners"
    assert text in str(caught.value)
    assert reason in caught.value.reason


@pytest.mark.parametrize("host", ["0.0.0.0", "[::]", ""])
def test_every_interface_needs_no_advertised_address(host: str) -> None:
    """Clients get the address that they connected to."""
    assert str(resolve(f"PLAINTEXT://{host}:9092").bound[0]) == f"PLAINTEXT://{host}:9092"


def test_advertised_listeners_are_for_the_same_names() -> None:
    resolved = resolve("PLAINTEXT://0.0.0.0:9092,OTHER://0.0.0.0:9093", "OTHER://public:19093,PLAINTEXT://inside:9092")
    assert resolved.advertised == (plain("OTHER", "public", 19093), plain("PLAINTEXT", "inside", 9092))


@pytest.mark.parametrize("text", ["OTHER://a:1", "PLAINTEXT://0.0.0.0:1", "PLAINTEXT://a", "", "PLAINTEXT://a:1,PLAINTEXT://b:2"])
def test_bad_advertised_listeners(text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve("PLAINTEXT://:9092", text)
    assert caught.value.key == "advertised.listeners"


def test_a_controllers_listener_is_left_out_whatever_its_protocol() -> None:
    resolved = resolve("PLAINTEXT://:9092,CONTROLLER://:9093", "PLAINTEXT://a:9092,CONTROLLER://a:9093", controllers="controller")
    assert resolved.bound == (plain("PLAINTEXT", "", 9092),)
    assert resolved.advertised == (plain("PLAINTEXT", "a", 9092),)
    assert resolved.dropped == ("CONTROLLER",)


def test_only_a_controllers_listener_is_no_broker() -> None:
    with pytest.raises(ConfigError, match=r"controller\.listener\.names"):
        resolve("CONTROLLER://:9093", controllers="CONTROLLER")


def test_the_inter_broker_listener_must_exist() -> None:
    assert resolve("PLAINTEXT://:1", inter_broker="plaintext").bound
    with pytest.raises(ConfigError, match=r"^inter\.broker\.listener\.name=OTHER"):
        resolve("PLAINTEXT://:1", inter_broker="OTHER")


def test_protocol_map() -> None:
    assert parse_protocol_map(" a:plaintext , B:SASL_SSL") == {"A": "PLAINTEXT", "B": "SASL_SSL"}
    for text in ("A", "A:", ":PLAINTEXT", "A:TCP", "A:SSL,a:PLAINTEXT", "A:SSL,,"):
        with pytest.raises(ConfigError, match=r"^listener\.security\.protocol\.map="):
            parse_protocol_map(text)


def test_connection_overrides() -> None:
    assert parse_connection_overrides("") == {}
    assert parse_connection_overrides("host:1, 127.0.0.1:200,[::1]:3,::2:4") == {"host": 1, "127.0.0.1": 200, "::1": 3, "::2": 4}
    for text in ("host", "host:", ":1", "host:x", "host:-1", "a:1,,b:2", "host:" + "9" * 5_000):
        with pytest.raises(ConfigError, match=r"^max\.connections\.per\.ip\.overrides="):
            parse_connection_overrides(text)


@pytest.mark.parametrize(
    ("listeners", "host", "port", "expected"),
    [
        ("PLAINTEXT://:9092,OTHER://a:1", None, 0, "PLAINTEXT://:0,OTHER://a:1"),
        ("PLAINTEXT://b:9092,OTHER://a:1", "0.0.0.0", None, "PLAINTEXT://0.0.0.0:9092,OTHER://a:1"),
        ("PLAINTEXT://:9092", "::", 1, "PLAINTEXT://[::]:1"),
        ("PLAINTEXT://:9092", "[::1]", None, "PLAINTEXT://[::1]:9092"),
        ("PLAINTEXT://[::1]:9092", "localhost", None, "PLAINTEXT://localhost:9092"),
        ("CONTROLLER://:9093,PLAINTEXT://[::1]:9092", None, 7, "CONTROLLER://:9093,PLAINTEXT://[::1]:7"),
    ],
)
def test_another_address_for_the_first_listener_of_clients(
    listeners: str, host: str | None, port: int | None, expected: str
) -> None:
    assert with_address(listeners, ("CONTROLLER",), host=host, port=port) == expected


def test_address_and_its_text() -> None:
    assert parse_address("k", "localhost:0") == ("localhost", 0)
    assert parse_address("k", "[::1]:9100") == ("::1", 9100)
    assert parse_address("k", ":9100") == ("", 9100)
    assert str(plain("A", "::1", 3)) == "A://[::1]:3"
    for text in ("", "9100", "a:b", "a:70000", "a:1:2"):
        with pytest.raises(ConfigError, match=r"^k="):
            parse_address("k", text)


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("localhost", ("localhost", 0)),
        (" localhost:19092 ", ("localhost", 19092)),
        ("kafka-1.example.org:1", ("kafka-1.example.org", 1)),
        ("192.168.1.5:65535", ("192.168.1.5", 65535)),
        ("[fd00::5]", ("fd00::5", 0)),
        ("[fd00::5]:9092", ("fd00::5", 9092)),
        ("my_host", ("my_host", 0)),
    ],
)
def test_an_address_for_clients_outside(text: str, address: tuple[str, int]) -> None:
    assert parse_outside("key", text) == address


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not HOST or HOST:PORT; an IPv6 address needs brackets"),
        (":9092", "is not HOST or HOST:PORT; an IPv6 address needs brackets"),
        ("localhost:", "is not HOST or HOST:PORT; an IPv6 address needs brackets"),
        ("localhost:x", "is not HOST or HOST:PORT; an IPv6 address needs brackets"),
        ("PLAINTEXT://localhost:9092", "is not HOST or HOST:PORT; an IPv6 address needs brackets"),
        ("a:1,b:2", "is not HOST or HOST:PORT; an IPv6 address needs brackets"),
        ("fd00::5", "is not HOST or HOST:PORT; an IPv6 address needs brackets"),
        ("[fd00:::5]", "'fd00:::5' is not an IPv6 address"),
        ("0.0.0.0:9092", "clients cannot connect to 0.0.0.0"),
        ("[::]", "clients cannot connect to ::"),
        ("localhost:0", "port 0 is not between 1 and 65535"),
        ("localhost:65536", "port 65536 is not between 1 and 65535"),
    ],
)
def test_an_address_for_clients_outside_that_cannot_be(text: str, reason: str) -> None:
    with pytest.raises(ConfigError) as raised:
        parse_outside("key", text)
    assert str(raised.value) == f"key={text}: {reason}"
