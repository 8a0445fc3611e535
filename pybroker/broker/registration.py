"""The facts that the broker registers with the cluster: its id, its rack, and the addresses that clients get."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pybroker.metadata.members import BrokerRegistration, Endpoint
from pybroker.metadata.store.base import StoreError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pybroker.config.broker import BrokerConfig
    from pybroker.metadata.image import ClusterImage
    from pybroker.network.limits import BoundListener


def refuse_other_brokers(image: ClusterImage, config: BrokerConfig) -> None:
    """Raise StoreError if the store is another broker's: no broker would notice the end of another one yet."""
    others = sorted(image.brokers.keys() - {config.node_id})
    if others and config.metadata_store.startswith("etcd:"):
        raise StoreError(
            f"The metadata store {config.metadata_store} is that of broker {others[0]}, and this is broker {config.node_id}: one "
            "store serves one broker. Set node.id to that number, or add a namespace to metadata.store"
        )


def registration(config: BrokerConfig, bound: Iterable[BoundListener]) -> BrokerRegistration:
    """Return the registration of a broker that listens at `bound`.

    A listener without an advertised address is left out: a client gets the address that it connected to.
    """
    endpoints: dict[str, Endpoint] = {}
    if config.advertised_listeners is not None:
        ports = {listener.name: listener.port for listener in bound}
        for endpoint in config.advertised_endpoints:
            port = endpoint.port or ports.get(endpoint.listener_name, 0)
            if endpoint.host and port:
                endpoints[endpoint.listener_name] = Endpoint(endpoint.host, port)
    return BrokerRegistration(broker_id=config.node_id, endpoints=endpoints, rack=config.broker_rack)
