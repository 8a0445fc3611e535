"""Names of hosts in settings."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable

import pytest

from pybroker.broker.dynamic_settings import limits_by_address
from pybroker.config import hosts
from pybroker.config.broker import BrokerConfig
from pybroker.config.hosts import HOSTS_MAX, NAME_LENGTH_MAX, NAMES_MAX, REMEMBERED_MAX, HostLookups, connection_limits
from pybroker.config.setting import ConfigError
from testing.waiting import turned_until

Found = list[tuple[int, int, int, str, tuple[str, int]]]
WAIT_S = 10.0


def serve(monkeypatch: pytest.MonkeyPatch, look_up: Callable[[str], str]) -> None:
    """Let the system look up names with a function of the name, which may raise."""

    def getaddrinfo(host: str, _port: None, **_: int) -> Found:
        return [(socket.AF_INET, 1, 6, "", (look_up(host), 0))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)


def never(name: str) -> str:
    raise AssertionError(f"{name} is looked up")


def unknown(_name: str) -> str:
    raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")


def test_hosts_of_connection_overrides_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(host: str, port: None, **_: int) -> Found:
        if host != "client.example":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            (socket.AF_INET6, 1, 6, "", ("2001:db8::7", 0)),
            (socket.AF_INET, 1, 6, "", ("192.0.2.7", 0)),
            (socket.AF_INET, 1, 6, "", ("192.0.2.8", 0)),
        ]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    found = connection_limits("client.example:5,127.0.0.1:2,[0:0::1]:3")
    assert found == {"192.0.2.7": 5, "127.0.0.1": 2, "::1": 3}, "of several addresses the first of IPv4, as Java"
    with pytest.raises(ConfigError, match=r"^max\.connections\.per\.ip\.overrides=.*'nowhere' has no address"):
        connection_limits("127.0.0.1:1,nowhere:5")


async def test_a_name_that_has_no_address_any_more_ends_no_broker(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    serve(monkeypatch, unknown)
    config = BrokerConfig(node_id=1, max_connections_per_ip_overrides="nowhere:5")
    assert await limits_by_address(config, HostLookups()) == {}
    assert "'nowhere' has no address" in caplog.text


async def test_a_running_broker_looks_names_up_in_a_thread_and_remembers_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[threading.Thread] = []

    def look_up(_name: str) -> str:
        threads.append(threading.current_thread())
        return "192.0.2.7"

    serve(monkeypatch, look_up)
    lookups = HostLookups({"server.example:1": {"192.0.2.1": 1}})
    text = "client.example:5,127.0.0.1:2"
    assert lookups.found(text) is None
    for _ in range(2):
        assert await lookups.look_up(text, is_new=True) == {"192.0.2.7": 5, "127.0.0.1": 2}
    assert len(threads) == 2, "a value that is set again is looked up again"
    assert not {threading.main_thread(), threading.current_thread()} & {*threads}
    assert lookups.found(text) == {"192.0.2.7": 5, "127.0.0.1": 2}
    assert lookups.found(" ") == {}
    for number in range(REMEMBERED_MAX):
        await lookups.look_up(f"127.0.0.1:{number}", is_new=True)
    assert (lookups.found(text), lookups.found("server.example:1")) == (None, {"192.0.2.1": 1})


async def test_what_a_client_can_let_a_broker_look_up_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch, never)
    names = ",".join(f"host-{number}.example:1" for number in range(NAMES_MAX + 1))
    addresses = ",".join(f"::{number:x}:1" for number in range(HOSTS_MAX + 1))
    for text, words in (
        (names, "must have at most 100 names of hosts, and has 101"),
        (addresses, "must have at most 1,000 hosts, and has 1,001"),
        (f"{'é' * (NAME_LENGTH_MAX + 1)}:1", "has a name of 254 characters"),
    ):
        with pytest.raises(ConfigError, match=words):
            await HostLookups().look_up(text, is_new=True)
    assert len(await HostLookups().look_up(addresses, is_new=False)) == HOSTS_MAX + 1, "the start takes what is in its store"


async def test_a_server_of_names_that_does_not_respond_holds_up_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    responds, asked = threading.Event(), list[str]()

    def look_up(name: str) -> str:
        asked.append(name)
        assert responds.wait(WAIT_S)
        return "192.0.2.7"

    now_s = [0.0]
    serve(monkeypatch, look_up)
    monkeypatch.setattr(hosts, "monotonic", lambda: now_s[0])
    lookups = HostLookups()
    first = asyncio.create_task(lookups.look_up("a.example:1,b.example:1", is_new=True))
    await turned_until(lambda: asked, "the first lookup")
    first.cancel()  # as its time being up does
    monkeypatch.setattr(hosts, "LOOKUP_S", 0.01)
    with pytest.raises(ConfigError, match="the hosts could not be looked up in "):
        await lookups.look_up("c.example:1", is_new=True)
    assert asked == ["a.example"], "the second lookup waits for the thread of the first"
    assert await lookups.look_up("127.0.0.1:1", is_new=True) == {"127.0.0.1": 1}, "an address needs no lookup"
    now_s[0] += 2 * WAIT_S
    monkeypatch.setattr(hosts, "LOOKUP_S", WAIT_S)
    responds.set()
    assert await lookups.look_up("d.example:1", is_new=True) == {"192.0.2.7": 1}
    assert asked == ["a.example", "d.example"], "a lookup whose time is up ends before its next name"
