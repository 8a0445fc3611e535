from __future__ import annotations

import logging
from pathlib import Path

import pytest

from pybroker.addresses.advertised import Advertised, advertised, look_around
from pybroker.addresses.origin import ListenerAddresses, Surroundings
from pybroker.addresses.routes import Network, Routes, packed
from pybroker.config.broker import BrokerConfig
from pybroker.network.context import ConnectionContext
from pybroker.network.limits import BoundListener

BRIDGE = Routes(frozenset({packed("172.17.0.1")}), (Network(packed("172.17.0.0"), 0xFFFF0000),))
OTHER = Routes(frozenset({packed("172.18.0.1")}), (Network(packed("172.18.0.0"), 0xFFFF0000),))


def client(peer: str, listener_name: str = "PLAINTEXT", local: str = "172.17.0.2") -> ConnectionContext:
    return ConnectionContext(
        connection_id=1, listener_name=listener_name, peer_host=peer, peer_port=40000, local_host=local, local_port=9092
    )


def advertiser(
    addresses: ListenerAddresses | None = None, surroundings: Surroundings | None = None, routes: Routes = BRIDGE
) -> Advertised:
    return Advertised(
        {"PLAINTEXT": addresses or ListenerAddresses()}, surroundings or Surroundings(), lambda ipv6: Routes() if ipv6 else routes
    )


def test_the_host_and_a_container_are_distinguished() -> None:
    assert advertiser().address_for(client("172.17.0.1")) == ("localhost", 9092)
    assert advertiser().address_for(client("172.17.0.3")) == ("172.17.0.2", 9092)


def test_a_listener_with_an_advertised_address_is_left_alone() -> None:
    assert advertiser().address_for(client("172.17.0.1", "EXTERNAL")) == ("172.17.0.2", 9092)


def test_a_client_that_is_gone_already_needs_no_address() -> None:
    assert advertiser().address_for(client("")) == ("172.17.0.2", 9092)


def test_a_network_that_is_connected_later_counts_from_then_on() -> None:
    seen = [BRIDGE, OTHER]
    one = Advertised({"PLAINTEXT": ListenerAddresses()}, Surroundings(), lambda _: seen.pop(0))
    assert one.address_for(client("172.18.0.1", local="172.18.0.2")) == ("172.18.0.2", 9092)
    assert one.address_for(client("172.18.0.1", local="172.18.0.2")) == ("localhost", 9092)


def test_loopback_needs_no_routes() -> None:
    def unread(_ipv6: bool) -> Routes:
        raise AssertionError

    one = Advertised({"PLAINTEXT": ListenerAddresses()}, Surroundings(), unread)
    assert one.address_for(client("127.0.0.1", local="127.0.0.1")) == ("localhost", 9092)


ROOTLESS = Surroundings(forwards_as_own=True)
OUTSIDE = ListenerAddresses(("localhost", 19092))


@pytest.mark.parametrize(
    ("addresses", "surroundings", "is_here", "expected"),
    [
        (OUTSIDE, ROOTLESS, False, ("localhost", 19092)),
        (OUTSIDE, ROOTLESS, True, ("localhost", 9092)),
        (OUTSIDE, Surroundings(), None, ("localhost", 9092)),
        (ListenerAddresses(), ROOTLESS, None, ("localhost", 9092)),
        (ListenerAddresses(is_everywhere=False), ROOTLESS, False, ("localhost", 9092)),
        (ListenerAddresses(is_everywhere=False), ROOTLESS, True, ("172.17.0.2", 9092)),
        (ListenerAddresses(is_everywhere=False), Surroundings(), None, ("172.17.0.2", 9092)),
    ],
)
def test_commands_in_the_container_are_distinguished_from_rootless_forwarding(
    addresses: ListenerAddresses, surroundings: Surroundings, is_here: bool | None, expected: tuple[str, int]
) -> None:
    asked = []

    def look(peer_port: int, local_port: int) -> bool:
        asked.append((peer_port, local_port))
        return bool(is_here)

    one = Advertised({"PLAINTEXT": addresses}, surroundings, lambda _: BRIDGE, look)
    assert one.address_for(client("172.17.0.2")) == expected
    assert asked == ([] if is_here is None else [(40000, 9092)])


def test_processes_that_cannot_be_seen_are_worth_one_line(caplog: pytest.LogCaptureFixture) -> None:
    def refused(*, peer_port: int, local_port: int) -> bool:
        raise PermissionError(13, "Permission denied", "/proc")

    one = Advertised({"PLAINTEXT": OUTSIDE}, ROOTLESS, lambda _: BRIDGE, refused)
    assert one.address_for(client("127.0.0.1")) == one.address_for(client("127.0.0.1")) == ("localhost", 19092)
    assert len(caplog.records) == 1


def test_on_the_network_of_the_host_all_get_the_same_address() -> None:
    shared = Surroundings(has_own_network=False)
    assert advertiser(surroundings=shared).address_for(client("172.17.0.1")) == ("172.17.0.2", 9092)
    assert advertiser(ListenerAddresses(("kafka", 1)), shared).address_for(client("172.17.0.3")) == ("kafka", 1)


def test_a_client_from_elsewhere_is_worth_one_line(caplog: pytest.LogCaptureFixture) -> None:
    one = advertiser()
    for _ in range(2):
        assert one.address_for(client("192.168.1.77")) == ("172.17.0.2", 9092)
    assert [record.message for record in caplog.records] == [
        (
            "A client at 192.168.1.77 is on none of the container's networks and gets 172.17.0.2:9092."
            " If it cannot reach that, set PYBROKER_ADVERTISED to the host and port by which it connects"
        )
    ]


def test_routes_that_cannot_be_read_are_worth_one_line(caplog: pytest.LogCaptureFixture) -> None:
    def refused(_ipv6: bool) -> Routes:
        raise PermissionError(13, "Permission denied", "/proc/net/route")

    one = Advertised({"PLAINTEXT": ListenerAddresses(("kafka", 1))}, Surroundings(), refused)
    assert one.address_for(client("172.17.0.1")) == one.address_for(client("172.17.0.3")) == ("kafka", 1)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "Cannot read the routes" in caplog.text


@pytest.mark.parametrize(
    ("addresses", "surroundings", "lines"),
    [
        (
            ListenerAddresses(),
            Surroundings(),
            [
                "clients on the container's networks (172.17.0.0/16) get the address that they connected to",
                (
                    "clients that come through a published port get localhost:9092; for another host or port set"
                    " PYBROKER_ADVERTISED=HOST:PORT"
                ),
            ],
        ),
        (
            ListenerAddresses(("localhost", 19092)),
            Surroundings(),
            [
                "clients on the container's networks (172.17.0.0/16) get the address that they connected to",
                "clients that come through a published port get localhost:19092",
            ],
        ),
        (
            ListenerAddresses(("kafka", 0)),
            Surroundings(has_neighbours=False),
            ["clients that come through a published port get kafka:9092"],
        ),
        (
            ListenerAddresses(),
            Surroundings(has_own_network=False),
            ["all clients get the address that they connected to, because the network is not this container's alone"],
        ),
    ],
)
def test_the_start_logs_which_clients_get_which_address(
    addresses: ListenerAddresses, surroundings: Surroundings, lines: list[str]
) -> None:
    bound = [BoundListener(name="PLAINTEXT", host="::", port=9092), BoundListener(name="EXTERNAL", host="::", port=1)]
    assert list(advertiser(addresses, surroundings).lines(bound)) == [f"PLAINTEXT: {line}" for line in lines]


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_listener_on_loopback_is_not_reported_as_within_reach(host: str) -> None:
    bound = [BoundListener(name="PLAINTEXT", host=host, port=9092)]
    for one in (
        advertiser(ListenerAddresses(), Surroundings()),
        Advertised({}, Surroundings(), fixed={"PLAINTEXT": ("localhost", 0)}),
    ):
        (line,) = one.warnings(bound)
        assert line.startswith("PLAINTEXT: only clients in this container can connect, and a published port does not reach ")
        assert line.endswith(":9092; for others, listen at 0.0.0.0:9092")
        assert list(one.lines(bound)) == []
    assert list(advertiser(ListenerAddresses(), Surroundings(has_own_network=False)).warnings(bound)) == []


def test_the_start_logs_which_addresses_are_fixed() -> None:
    bound = [BoundListener(name=name, host="::", port=9092) for name in ("A", "B")]
    one = Advertised({}, Surroundings(), fixed={"A": ("kafka", 19092), "B": ("fd00::5", 0)})
    assert list(one.lines(bound)) == ["A: all clients get kafka:19092", "B: all clients get [fd00::5]:9092"]


def test_only_listeners_without_an_address_are_asked_about() -> None:
    config = BrokerConfig(
        pybroker_advertised_by_peer=True,
        listeners="A://:9092,B://10.0.0.7:9093,C://:9094",
        advertised_listeners="A://kafka:9092,C://:9094",
        listener_security_protocol_map="A:PLAINTEXT,B:PLAINTEXT,C:PLAINTEXT",
        inter_broker_listener_name="A",
        pybroker_advertised_outside="localhost",
    )
    made = advertised(config)
    assert made._listeners == {"B": ListenerAddresses(("localhost", 0), False), "C": ListenerAddresses(("localhost", 0), True)}
    assert made._fixed == {"A": ("kafka", 9092)}


def machine(root: Path, *, interfaces: dict[str, str | None], podman: bool = False, uid_map: str = "0 0 4294967295") -> Path:
    for name, entry in interfaces.items():
        folder = root / "sys" / "class" / "net" / name
        folder.mkdir(parents=True)
        if entry is not None:
            (folder / entry).touch()
    (root / "run").mkdir()
    if podman:
        (root / "run" / ".containerenv").touch()
    (root / "proc" / "self").mkdir(parents=True)
    (root / "proc" / "self" / "uid_map").write_text(f"{uid_map}\n")
    return root


NONE: dict[str, str | None] = {"lo": None}
VETH: dict[str, str | None] = {"lo": None, "eth0": None}
CARD: dict[str, str | None] = {"lo": None, "docker0": None, "eth0": "device"}
TAP: dict[str, str | None] = {"lo": None, "tap0": "tun_flags"}
BOTH: dict[str, str | None] = {"lo": None, "eth0": None, "tun0": "tun_flags"}


@pytest.mark.parametrize(
    ("interfaces", "expected"),
    [
        (VETH, Surroundings()),
        (NONE, Surroundings()),
        (CARD, Surroundings(has_own_network=False)),
        (TAP, Surroundings(has_neighbours=False)),
        (BOTH, Surroundings()),
    ],
)
def test_network_interfaces_show_what_network_it_is(
    tmp_path: Path, interfaces: dict[str, str | None], expected: Surroundings
) -> None:
    assert look_around({}, "6.12.0-amd64", machine(tmp_path, interfaces=interfaces)) == expected


def test_kubernetes_publishes_no_ports(tmp_path: Path) -> None:
    around = look_around({"KUBERNETES_SERVICE_HOST": "10.96.0.1"}, "6.12.0", machine(tmp_path, interfaces=VETH))
    assert around == Surroundings(has_own_network=False)


def test_docker_desktop_is_known_by_its_kernel(tmp_path: Path) -> None:
    assert look_around({}, "6.10.14-linuxkit", machine(tmp_path, interfaces=VETH)) == Surroundings(is_desktop=True)


@pytest.mark.parametrize(
    ("podman", "uid_map", "forwards_as_own"),
    [(True, "0 1000 1\n1 100000 65536", True), (True, "0 0 4294967295", False), (False, "0 1000 1", False)],
)
def test_rootless_podman_is_known_by_its_file_and_its_users(
    tmp_path: Path, podman: bool, uid_map: str, forwards_as_own: bool
) -> None:
    root = machine(tmp_path, interfaces=VETH, podman=podman, uid_map=uid_map)
    assert look_around({}, "6.12.0", root) == Surroundings(forwards_as_own=forwards_as_own)


def test_a_system_without_any_of_these_files(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / ".containerenv").touch()
    assert look_around({}, "6.12.0", tmp_path) == Surroundings()
