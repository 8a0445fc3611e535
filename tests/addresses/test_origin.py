"""The address that a client gets, for everything that engines do with published ports."""

from __future__ import annotations

import pytest

from pybroker.addresses.origin import ListenerAddresses, Origin, Surroundings, origin_of
from pybroker.addresses.routes import Network, Routes, packed

ALONE = Surroundings()
DESKTOP = Surroundings(is_desktop=True)
ROOTLESS = Surroundings(forwards_as_own=True)
TUNNEL = Surroundings(has_neighbours=False, forwards_as_own=True)

HOST = ListenerAddresses()
NAMED = ListenerAddresses(outside=("kafka.example", 19092))
PORTLESS = ListenerAddresses(outside=("kafka.example", 0))
ONE_ADDRESS = ListenerAddresses(is_everywhere=False)


def routes(gateways: str, *networks: str) -> Routes:
    found = []
    for network in networks:
        prefix, _, length = network.partition("/")
        bits = len(packed(prefix)) * 8
        found.append(Network(packed(prefix), (1 << bits) - (1 << bits - int(length))))
    return Routes(frozenset(map(packed, gateways.split())), tuple(found))


BRIDGE = routes("172.17.0.1", "172.17.0.0/16")
TWO = routes("172.17.0.1", "172.17.0.0/16", "172.18.0.0/16")
PODMAN_TWO = routes("10.89.0.1 10.89.1.1", "10.89.0.0/24", "10.89.1.0/24")
INTERNAL = routes("", "172.20.0.0/16")
SLIRP = routes("10.0.2.2", "10.0.2.0/24")
PASTA = routes("192.168.1.1", "192.168.1.0/24")
BRIDGE6 = routes("fd00::1", "fd00::/64")
NONE = routes("")

OWN, PUBLISHED, NEAR, ELSEWHERE = Origin.OWN, Origin.PUBLISHED, Origin.NEAR, Origin.ELSEWHERE


@pytest.mark.parametrize(
    ("case", "peer", "local", "table", "surroundings", "origin"),
    [
        ("localhost of the host, through Docker's proxy or by masquerade", "172.17.0.1", "172.17.0.2", BRIDGE, ALONE, PUBLISHED),
        ("another container of the network", "172.17.0.3", "172.17.0.2", BRIDGE, ALONE, NEAR),
        ("another machine, whose address DNAT keeps", "192.168.1.77", "172.17.0.2", BRIDGE, ALONE, ELSEWHERE),
        ("the host by its address on the LAN, which DNAT keeps", "192.168.1.5", "172.17.0.2", BRIDGE, ALONE, ELSEWHERE),
        ("a command in the container, by loopback", "127.0.0.1", "127.0.0.1", BRIDGE, ALONE, OWN),
        ("a command in the container, by its name", "172.17.0.2", "172.17.0.2", BRIDGE, ALONE, OWN),
        ("a container of the second network", "172.18.0.9", "172.18.0.2", TWO, ALONE, NEAR),
        ("the host, straight to the second network of Docker", "172.18.0.1", "172.18.0.2", TWO, ALONE, NEAR),
        ("the host, through the second network of Podman", "10.89.1.1", "10.89.1.2", PODMAN_TWO, ALONE, PUBLISHED),
        ("the host, straight to an internal network", "172.20.0.1", "172.20.0.2", INTERNAL, ALONE, NEAR),
        ("Docker Desktop, by its virtual machine's address", "192.168.65.1", "172.17.0.2", BRIDGE, ALONE, PUBLISHED),
        ("Docker Desktop, by whatever address it shows", "151.101.1.6", "172.17.0.2", BRIDGE, DESKTOP, PUBLISHED),
        ("another container in Docker Desktop", "172.17.0.3", "172.17.0.2", BRIDGE, DESKTOP, NEAR),
        ("Podman's machine with root", "192.168.127.1", "10.88.0.2", routes("10.88.0.1", "10.88.0.0/16"), ALONE, PUBLISHED),
        ("rootless Docker with slirp4netns's port driver", "10.0.2.2", "172.17.0.2", BRIDGE, ALONE, PUBLISHED),
        ("slirp4netns's own forwarding in rootless Podman", "10.0.2.2", "10.0.2.100", SLIRP, TUNNEL, PUBLISHED),
        ("RootlessKit's, from the container's own address", "10.0.2.100", "10.0.2.100", SLIRP, TUNNEL, OWN),
        ("RootlessKit's of Podman 1.8, from loopback", "127.0.0.1", "127.0.0.1", SLIRP, TUNNEL, OWN),
        ("RootlessKit's on a network of rootless Podman", "10.89.0.2", "10.89.0.2", PODMAN_TWO, ROOTLESS, OWN),
        ("pasta, from the host's loopback", "192.168.1.5", "192.168.1.5", PASTA, TUNNEL, OWN),
        ("pasta, from the LAN, whose addresses the container has", "192.168.1.77", "192.168.1.5", PASTA, TUNNEL, ELSEWHERE),
        ("the proxy on IPv6", "fd00::1", "fd00::2", BRIDGE6, ALONE, PUBLISHED),
        ("another container on IPv6", "fd00::3", "fd00::2", BRIDGE6, ALONE, NEAR),
        ("loopback of IPv6", "::1", "::1", BRIDGE6, ALONE, OWN),
        ("another machine on IPv6", "2001:db8::7", "fd00::2", BRIDGE6, ALONE, ELSEWHERE),
        ("no network at all", "127.0.0.1", "127.0.0.1", NONE, ALONE, OWN),
    ],
)
def test_origin(case: str, peer: str, local: str, table: Routes, surroundings: Surroundings, origin: Origin) -> None:
    assert origin_of(peer, local, table, surroundings) is origin, case


LOCAL = ("172.17.0.2", 9092)


@pytest.mark.parametrize(
    ("addresses", "origin", "expected"),
    [
        (HOST, PUBLISHED, ("localhost", 9092)),
        (HOST, NEAR, LOCAL),
        (HOST, ELSEWHERE, LOCAL),
        (HOST, OWN, ("localhost", 9092)),
        (NAMED, PUBLISHED, ("kafka.example", 19092)),
        (NAMED, NEAR, LOCAL),
        (NAMED, ELSEWHERE, ("kafka.example", 19092)),
        (NAMED, OWN, ("localhost", 9092)),
        (PORTLESS, PUBLISHED, ("kafka.example", 9092)),
        (PORTLESS, ELSEWHERE, ("kafka.example", 9092)),
        (ONE_ADDRESS, OWN, LOCAL),
        (ONE_ADDRESS, PUBLISHED, ("localhost", 9092)),
    ],
)
def test_which_address_is_advertised(addresses: ListenerAddresses, origin: Origin, expected: tuple[str, int]) -> None:
    assert addresses.address(origin, LOCAL) == expected


def test_a_listener_of_loopback_alone_is_advertised_as_localhost() -> None:
    assert ONE_ADDRESS.address(OWN, ("127.0.0.1", 9092)) == ("localhost", 9092)


def test_only_these_advertise_others_in_the_container_than_outside() -> None:
    assert [one.differs_inside for one in (HOST, NAMED, PORTLESS, ONE_ADDRESS)] == [False, True, True, True]


def test_where_clients_cannot_be_distinguished_all_get_the_same_address() -> None:
    assert HOST.everyone(LOCAL) == LOCAL
    assert NAMED.everyone(LOCAL) == ("kafka.example", 19092)
    assert PORTLESS.everyone(LOCAL) == ("kafka.example", 9092)
