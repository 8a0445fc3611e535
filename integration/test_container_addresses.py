r"""What clients of a broker in a container are told, in network namespaces that do what container engines do.

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


class Setting:
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
        arguments = ["pybroker.advertised.by.peer=true", *overrides]
        command = [sys.executable, "-m", "pybroker", "start", "--data-dir", str(self.folder / "data")]
        for override in arguments:
            command += ["--override", override]
        self.made.start(self.container.command(*command), r"READY 127\.0\.0\.1:9092", self.log, environment)

    def forward(self, address: str, out_of: Namespace, to: str = f"{CONTAINER}:9092") -> None:
        """A published port of the host."""
        self.made.forward(self.host, address, out_of, to, self.log)

    def told(self, client: Namespace, bootstrap: str) -> str:
        """What a client that connects to `bootstrap` is told; it has sent a record there and got it back."""
        done = client.run(sys.executable, "-m", "testing.clients.advertised", bootstrap, "orders")
        assert done.returncode == 0, f"told {done.stdout.strip()}\n{done.stderr}\n{self.log.read_text()[-3000:]}"
        return done.stdout.strip()


@pytest.fixture
def setting(tmp_path: Path) -> Iterator[Setting]:
    with namespaces() as made:
        yield Setting(made, tmp_path)


def test_host_neighbour_and_machine_on_a_bridge_network(setting: Setting) -> None:
    setting.start()
    setting.forward("127.0.0.1:9092", setting.host)
    assert setting.told(setting.host, "localhost:9092") == "localhost:9092"
    assert setting.told(setting.neighbour, f"{CONTAINER}:9092") == f"{CONTAINER}:9092"
    assert setting.told(setting.container, "127.0.0.1:9092") == "localhost:9092"
    log = setting.log.read_text()
    assert "clients on the container's networks (10.213.0.0/24, fd13::/64) get the address that they connected to" in log
    assert "clients that come through a published port get localhost:9092" in log
    assert "is on none of the container's networks" not in log
    assert setting.told(setting.machine, f"{CONTAINER}:9092") == f"{CONTAINER}:9092"
    assert setting.log.read_text().count("A client at 10.214.0.77 is on none of the container's networks") == 1


def test_another_port_of_the_host(setting: Setting) -> None:
    setting.start(environment={"PYBROKER_ADVERTISED": "localhost:19092"})
    setting.forward("127.0.0.1:19092", setting.host)
    assert setting.told(setting.host, "localhost:19092") == "localhost:19092"
    assert setting.told(setting.neighbour, f"{CONTAINER}:9092") == f"{CONTAINER}:9092"
    assert setting.told(setting.container, "localhost:9092") == "localhost:9092"
    assert "clients that come through a published port get localhost:19092" in setting.log.read_text()


def test_another_host_for_machines_elsewhere(setting: Setting) -> None:
    setting.start(environment={"PYBROKER_ADVERTISED": "10.214.0.1:19092"})
    setting.forward("10.214.0.1:19092", setting.host)
    assert setting.told(setting.machine, "10.214.0.1:19092") == "10.214.0.1:19092"
    assert setting.told(setting.host, "10.214.0.1:19092") == "10.214.0.1:19092"
    assert setting.told(setting.neighbour, f"{CONTAINER}:9092") == f"{CONTAINER}:9092"


@pytest.mark.parametrize("to", ["127.0.0.1:9092", f"{CONTAINER}:9092"])
def test_rootless_forwarding_comes_from_the_container_itself(setting: Setting, to: str) -> None:
    setting.start()
    setting.forward("127.0.0.1:9092", setting.container, to)
    assert setting.told(setting.host, "localhost:9092") == "localhost:9092"
    assert setting.told(setting.neighbour, f"{CONTAINER}:9092") == f"{CONTAINER}:9092"


def test_a_network_that_is_connected_while_the_broker_runs(setting: Setting) -> None:
    setting.start()
    setting.forward("127.0.0.1:9092", setting.host)
    late = setting.made.add("late")
    setting.made.bridge(setting.host, "second", "10.215.0.1/24")
    setting.made.attach(setting.host, "second", setting.container, "eth1", "10.215.0.2/24")
    setting.made.attach(setting.host, "second", late, "eth0", "10.215.0.3/24")
    assert setting.told(late, "10.215.0.2:9092") == "10.215.0.2:9092"
    assert setting.told(setting.neighbour, f"{CONTAINER}:9092") == f"{CONTAINER}:9092"
    assert setting.told(setting.host, "localhost:9092") == "localhost:9092"
    # The default route moves with the network that gives it, as when the first one is disconnected.
    setting.container.ip("link", "delete", "eth0")
    setting.container.ip("route", "add", "default", "via", "10.215.0.1")
    setting.forward("127.0.0.1:9093", setting.host, "10.215.0.2:9092")
    setting.forward("127.0.0.2:9092", setting.host, "10.215.0.2:9092")
    assert _only_told(setting, setting.host, "127.0.0.1:9093") == "localhost:9092"
    assert setting.told(late, "10.215.0.2:9092") == "10.215.0.2:9092"


def _only_told(setting: Setting, client: Namespace, bootstrap: str) -> str:
    """What a client is told, whether it can use that or not."""
    script = (
        "import sys; from confluent_kafka.admin import AdminClient;"
        " [one] = AdminClient({'bootstrap.servers': sys.argv[1]}).list_topics(timeout=20).brokers.values();"
        " print(f'{one.host}:{one.port}')"
    )
    done = client.run(sys.executable, "-c", script, bootstrap)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_ipv6(setting: Setting) -> None:
    setting.start()
    setting.forward("127.0.0.1:9092", setting.host)  # engines publish a port for both
    setting.forward("[::1]:9092", setting.host, "[fd13::2]:9092")
    assert setting.told(setting.host, "[::1]:9092") == "localhost:9092"
    assert setting.told(setting.neighbour, "[fd13::2]:9092") == "fd13::2:9092"


def test_an_internal_network_publishes_nothing(setting: Setting) -> None:
    setting.container.ip("route", "delete", "default")
    setting.start()
    assert setting.told(setting.host, f"{CONTAINER}:9092") == f"{CONTAINER}:9092"
    assert setting.told(setting.neighbour, f"{CONTAINER}:9092") == f"{CONTAINER}:9092"


def test_a_plain_start_tells_the_address_that_the_client_connected_to(setting: Setting) -> None:
    setting.start("pybroker.advertised.by.peer=false")
    setting.forward("127.0.0.1:9092", setting.host)
    assert setting.told(setting.host, "localhost:9092") == f"{CONTAINER}:9092"
    assert "published port" not in setting.log.read_text()


def test_the_network_of_slirp4netns(setting: Setting) -> None:
    """Its guest and gateway have fixed addresses; its own forwarding comes from the gateway, RootlessKit's from the guest."""
    guest = setting.made.add("guest")
    setting.made.link(setting.host, "slirp", guest, "tap0")
    setting.host.address("slirp", "10.0.2.2/24")
    guest.address("tap0", "10.0.2.100/24")
    guest.ip("route", "add", "default", "via", "10.0.2.2")
    setting.container = guest
    setting.start()
    setting.forward("127.0.0.1:9092", setting.host, "10.0.2.100:9092")
    assert setting.told(setting.host, "localhost:9092") == "localhost:9092"
    setting.forward("127.0.0.2:9092", guest, "10.0.2.100:9092")
    assert setting.told(setting.host, "127.0.0.2:9092") == "localhost:9092"
