r"""The addresses that clients of a broker in a container get, in network namespaces that do what container engines do.

    machine --- host: bridge --- container: the broker
                            \--- neighbour

The container's namespace has what an engine gives it: an address on the bridge, and the bridge as its gateway.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from testing.hosts.namespaces import Namespace, Namespaces, namespaces

CONTAINER = "10.213.0.2"


class BridgeScene:
    """A host with a bridge, a container and a neighbour on it, and a machine that is routed to them."""

    def __init__(self, made: Namespaces, folder: Path) -> None:
        self.made, self.folder = made, folder
        self.host, self.container = made.add("host"), made.add("container")
        self.neighbour, self.machine = made.add("neighbour"), made.add("machine")
        made.bridge(self.host, "bridge", "10.213.0.1/24", "fd13::1/64")
        made.attach(self.host, "bridge", self.container, "eth0", f"{CONTAINER}/24", "fd13::2/64")
        made.attach(self.host, "bridge", self.neighbour, "eth0", "10.213.0.3/24", "fd13::3/64")
        made.link(self.host, "lan", self.machine, "eth0")
        self.host.address("lan", "10.214.0.1/24")
        self.machine.address("eth0", "10.214.0.77/24")
        self.machine.ip("route", "add", "default", "via", "10.214.0.1")
        assert self.host.run("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward").returncode == 0
        for one in (self.container, self.neighbour):
            one.ip("route", "add", "default", "via", "10.213.0.1")
            one.ip("-6", "route", "add", "default", "via", "fd13::1")

    @property
    def log(self) -> Path:
        return self.folder / "log"

    def start(self, *overrides: str, environment: dict[str, str] | None = None) -> None:
        arguments = ["pybroker.advertised.by.peer=true", "listeners=PLAINTEXT://:9092", *overrides]
        command = [sys.executable, "-m", "pybroker", "start", "--data-dir", str(self.folder / "data")]
        for override in arguments:
            command += ["--override", override]
        self.made.start(self.container.command(*command), r"READY 127.0.0.1:9092", self.log, environment)

    def forward(self, address: str, out_of: Namespace, to: str = f"{CONTAINER}:9092") -> None:
        """Forward a published port of the host."""
        self.made.forward(self.host, address, out_of, to, self.log)

    def advertised(self, client: Namespace, bootstrap: str) -> str:
        """Return the address that a client which connects to `bootstrap` gets.

        The client has sent a record there and read it back.
        """
        done = client.run(sys.executable, "-m", "testing.clients.advertised", bootstrap, "orders")
        assert done.returncode == 0, f"got {done.stdout.strip()}\n{done.stderr}\n{self.log.read_text()[-3000:]}"
        return done.stdout.strip()


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[BridgeScene]:
    with namespaces() as made:
        yield BridgeScene(made, tmp_path)


def test_host_neighbour_and_machine_get_their_addresses_on_a_bridge_network(scene: BridgeScene) -> None:
    scene.start()
    scene.forward("127.0.0.1:9092", scene.host)
    assert scene.advertised(scene.host, "localhost:9092") == "localhost:9092"
    assert scene.advertised(scene.neighbour, f"{CONTAINER}:9092") == f"{CONTAINER}:9092"
    assert scene.advertised(scene.container, "127.0.0.1:9092") == "localhost:9092"
    log = scene.log.read_text()
    assert "clients on the container's networks (10.213.0.0/24, fd13::/64) get the address that they connected to" in log
    assert "clients that come through a published port get localhost:9092" in log
    assert "is on none of the container's networks" not in log
    assert scene.advertised(scene.machine, f"{CONTAINER}:9092") == f"{CONTAINER}:9092"
    assert scene.log.read_text().count("A client at 10.214.0.77 is on none of the container's networks") == 1


def test_clients_get_another_port_of_the_host(scene: BridgeScene) -> None:
    scene.start(environment={"PYBROKER_ADVERTISED": "localhost:19092"})
    scene.forward("127.0.0.1:19092", scene.host)
    assert scene.advertised(scene.host, "localhost:19092") == "localhost:19092"
    assert scene.advertised(scene.neighbour, f"{CONTAINER}:9092") == f"{CONTAINER}:9092"
    assert scene.advertised(scene.container, "localhost:9092") == "localhost:9092"
    assert "clients that come through a published port get localhost:19092" in scene.log.read_text()


def test_machines_elsewhere_get_another_host(scene: BridgeScene) -> None:
    scene.start(environment={"PYBROKER_ADVERTISED": "10.214.0.1:19092"})
    scene.forward("10.214.0.1:19092", scene.host)
    assert scene.advertised(scene.machine, "10.214.0.1:19092") == "10.214.0.1:19092"
    assert scene.advertised(scene.host, "10.214.0.1:19092") == "10.214.0.1:19092"
    assert scene.advertised(scene.neighbour, f"{CONTAINER}:9092") == f"{CONTAINER}:9092"


@pytest.mark.parametrize("to", ["127.0.0.1:9092", f"{CONTAINER}:9092"])
def test_rootless_forwarding_comes_from_the_container_itself(scene: BridgeScene, to: str) -> None:
    scene.start()
    scene.forward("127.0.0.1:9092", scene.container, to)
    assert scene.advertised(scene.host, "localhost:9092") == "localhost:9092"
    assert scene.advertised(scene.neighbour, f"{CONTAINER}:9092") == f"{CONTAINER}:9092"


def test_clients_use_a_network_that_is_connected_while_the_broker_runs(scene: BridgeScene) -> None:
    scene.start()
    scene.forward("127.0.0.1:9092", scene.host)
    late = scene.made.add("late")
    scene.made.bridge(scene.host, "second", "10.215.0.1/24")
    scene.made.attach(scene.host, "second", scene.container, "eth1", "10.215.0.2/24")
    scene.made.attach(scene.host, "second", late, "eth0", "10.215.0.3/24")
    assert scene.advertised(late, "10.215.0.2:9092") == "10.215.0.2:9092"
    assert scene.advertised(scene.neighbour, f"{CONTAINER}:9092") == f"{CONTAINER}:9092"
    assert scene.advertised(scene.host, "localhost:9092") == "localhost:9092"
    # The default route moves with the network that gives it, as when the first network is disconnected.
    scene.container.ip("link", "delete", "eth0")
    scene.container.ip("route", "add", "default", "via", "10.215.0.1")
    scene.forward("127.0.0.1:9093", scene.host, "10.215.0.2:9092")
    scene.forward("127.0.0.2:9092", scene.host, "10.215.0.2:9092")
    assert _only_advertised(scene, scene.host, "127.0.0.1:9093") == "localhost:9092"
    assert scene.advertised(late, "10.215.0.2:9092") == "10.215.0.2:9092"


def _only_advertised(scene: BridgeScene, client: Namespace, bootstrap: str) -> str:
    """Return the address that a client gets, whether it can use the address or not."""
    script = (
        "import sys; from confluent_kafka.admin import AdminClient;"
        " [one] = AdminClient({'bootstrap.servers': sys.argv[1]}).list_topics(timeout=20).brokers.values();"
        " print(f'{one.host}:{one.port}')"
    )
    done = client.run(sys.executable, "-c", script, bootstrap)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_clients_connect_by_ipv6(scene: BridgeScene) -> None:
    scene.start()
    scene.forward("127.0.0.1:9092", scene.host)  # engines publish a port for both families
    scene.forward("[::1]:9092", scene.host, "[fd13::2]:9092")
    assert scene.advertised(scene.host, "[::1]:9092") == "localhost:9092"
    assert scene.advertised(scene.neighbour, "[fd13::2]:9092") == "fd13::2:9092"


def test_an_internal_network_publishes_nothing(scene: BridgeScene) -> None:
    scene.container.ip("route", "delete", "default")
    scene.start()
    assert scene.advertised(scene.host, f"{CONTAINER}:9092") == f"{CONTAINER}:9092"
    assert scene.advertised(scene.neighbour, f"{CONTAINER}:9092") == f"{CONTAINER}:9092"


def test_a_plain_start_advertises_the_address_that_the_client_connected_to(scene: BridgeScene) -> None:
    scene.start("pybroker.advertised.by.peer=false")
    scene.forward("127.0.0.1:9092", scene.host)
    assert scene.advertised(scene.host, "localhost:9092") == f"{CONTAINER}:9092"
    assert "published port" not in scene.log.read_text()


def test_the_host_uses_a_broker_on_the_network_of_slirp4netns(scene: BridgeScene) -> None:
    """Check the fixed addresses of slirp4netns's guest and gateway.

    Its own forwarding comes from the gateway, RootlessKit's comes from the guest.
    """
    guest = scene.made.add("guest")
    scene.made.link(scene.host, "slirp", guest, "tap0")
    scene.host.address("slirp", "10.0.2.2/24")
    guest.address("tap0", "10.0.2.100/24")
    guest.ip("route", "add", "default", "via", "10.0.2.2")
    scene.container = guest
    scene.start()
    scene.forward("127.0.0.1:9092", scene.host, "10.0.2.100:9092")
    assert scene.advertised(scene.host, "localhost:9092") == "localhost:9092"
    scene.forward("127.0.0.2:9092", guest, "10.0.2.100:9092")
    assert scene.advertised(scene.host, "127.0.0.2:9092") == "localhost:9092"
