"""A limit on connections is changed while connections are open."""

from __future__ import annotations

import socket
from collections.abc import Callable

from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from testing.clients.stock import wait
from testing.process.broker import BrokerProcess

UNSUPPORTED_API_VERSIONS = bytes.fromhex("0000000a 0012 7fff 00000001 ffff")
"""ApiVersions in a version that the broker does not know, which gets the list of versions as its response."""


def is_served(port: int) -> bool:
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        try:
            connection.sendall(UNSUPPORTED_API_VERSIONS)
            return bool(connection.recv(1))
        except ConnectionError:
            return False


def limit(admin: AdminClient, count: int) -> None:
    entry = ConfigEntry("max.connections.per.ip", str(count), incremental_operation=AlterConfigOpType.SET)
    (future,) = admin.incremental_alter_configs([ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])]).values()
    wait(future)


def test_the_limit_of_connections_per_address_changes_at_once(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker()
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    assert is_served(broker.port)
    limit(admin, 1)
    assert not is_served(broker.port)
    limit(admin, 100)
    assert is_served(broker.port)
