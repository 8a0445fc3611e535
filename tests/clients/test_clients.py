"""Requests and bytes of connections are counted for their clients, of which the last ones are kept."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pybroker.clients import clients as module
from pybroker.clients.clients import NAME_LENGTH_MAX, Client, Clients, Name
from pybroker.network.context import ConnectionContext

PRODUCE, FETCH, METADATA = (SimpleNamespace(api=SimpleNamespace(key=key)) for key in (0, 1, 3))


class Scene:
    """Clients at a time that the test sets."""

    def __init__(self) -> None:
        self.now_ms = 1_000
        self.clients = Clients(lambda: self.now_ms)

    def connection(self, host: str = "10.0.0.7", software: str = "") -> Any:
        """Return an open connection."""
        context = ConnectionContext(connection_id=1, peer_host=host)
        context.client_software_name = software
        context.holder = cast("Any", object())
        return SimpleNamespace(context=context, _sender=SimpleNamespace(bytes_out=0))

    def request(self, connection: Any, route: Any, version: int, client_id: str | None = "app", *, count: int = 1) -> None:
        """Do to a connection what the dispatcher does with requests."""
        context = connection.context
        for _ in range(count):
            if context.used_route is not route or context.used_version != version:
                self.clients.changed(context, route, version, client_id)
            context.used += 1

    def counted(self, connection: Any) -> Client:
        """Return the counts of the client of a connection, as they are now."""
        self.clients.look(connection)
        return cast("Client", connection.context.client)


def test_requests_are_counted_by_api_and_version() -> None:
    scene = Scene()
    connection = scene.connection()
    scene.request(connection, METADATA, 12)
    scene.request(connection, PRODUCE, 9, count=3)
    scene.request(connection, METADATA, 12)
    scene.request(connection, PRODUCE, 2)
    client = scene.counted(connection)
    assert client.name == Name("app", "", "", "10.0.0.7")
    assert client.requests == {(3, 12): 2, (0, 9): 3, (0, 2): 1}
    scene.request(connection, PRODUCE, 2)
    assert scene.counted(connection).requests[0, 2] == 2


def test_the_software_that_the_first_request_names_is_that_of_the_client() -> None:
    scene = Scene()
    connection = scene.connection()
    scene.request(connection, METADATA, 12)
    connection.context.client_software_name = "librdkafka"
    scene.request(connection, PRODUCE, 9)
    assert scene.counted(connection).name.software_name == "librdkafka"
    assert len(scene.clients.all()) == 1


def test_connections_of_a_client_are_one_client() -> None:
    scene = Scene()
    both = [scene.connection(), scene.connection()]
    for connection in both:
        scene.request(connection, FETCH, 11)
        connection.context.bytes_in, connection._sender.bytes_out = 100, 1_000
        connection.context.down_converted = 5
        client = scene.counted(connection)
    scene.request(scene.connection(host="10.0.0.8"), FETCH, 11)
    assert (client.connections, client.connections_made) == (2, 2)
    assert (client.bytes_in, client.bytes_out, client.down_converted, client.requests) == (200, 2_000, 10, {(1, 11): 2})
    scene.now_ms = 2_000
    scene.clients.lost(both[0])
    assert (client.connections, client.first_seen_ms, client.last_seen_ms) == (1, 1_000, 1_000), "the end is no request"


def test_a_connection_without_requests_is_none_of_a_client() -> None:
    scene = Scene()
    connection = scene.connection()
    connection.context.bytes_in = 3
    scene.clients.look(connection)
    scene.clients.lost(connection)
    assert scene.clients.all() == []


def test_what_the_broker_asks_itself_is_not_counted() -> None:
    scene = Scene()
    connection = scene.connection()
    connection.context.holder = None
    for version in (1, 2, 3):
        scene.request(connection, METADATA, version)
    assert scene.clients.all() == []


def test_the_clients_that_were_seen_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLIENTS_MAX", 3)
    scene = Scene()
    first = scene.connection()
    scene.request(first, METADATA, 1, "first")
    scene.counted(first)
    for number in range(5):
        other = scene.connection()
        scene.request(other, METADATA, 1, f"other {number}")
        scene.counted(other)
        if number < 4:
            scene.request(first, METADATA, 1, "first")
            scene.counted(first)
    assert [one.name.client_id for one in scene.clients.all()] == ["other 3", "first", "other 4"]
    assert scene.clients.all()[1].requests == {(3, 1): 5}


def test_a_client_that_was_forgotten_is_a_new_one() -> None:
    scene = Scene()
    connection = scene.connection()
    scene.request(connection, METADATA, 1)
    before = scene.counted(connection)
    scene.clients.clear()
    scene.request(connection, METADATA, 1)
    after = scene.counted(connection)
    assert (before.connections, after.connections, after.requests) == (0, 1, {(3, 1): 1})
    assert scene.clients.all() == [after]


def test_long_names_are_cut() -> None:
    scene = Scene()
    connection = scene.connection(software="s" * 1_000)
    scene.request(connection, METADATA, 1, "c" * 32_767)
    name = scene.counted(connection).name
    assert (len(name.client_id), len(name.software_name)) == (NAME_LENGTH_MAX, NAME_LENGTH_MAX)


def test_counts_of_an_earlier_life_are_added() -> None:
    scene = Scene()
    connection = scene.connection()
    scene.request(connection, METADATA, 1)
    scene.counted(connection)
    same, other = Client(Name("app", "", "", "10.0.0.7"), 500), Client(Name("other", "", "", ""), 600)
    same.requests, same.connections, same.connections_made, same.bytes_in = {(3, 1): 2, (0, 9): 1}, 7, 7, 10
    scene.clients.add_earlier([same, other])
    assert [one.name.client_id for one in scene.clients.all()] == ["other", "app"]
    client = scene.counted(connection)
    assert (client.requests, client.connections, client.connections_made) == ({(3, 1): 3, (0, 9): 1}, 1, 8)
    assert (client.first_seen_ms, client.last_seen_ms, client.bytes_in) == (500, 1_000, 10)
