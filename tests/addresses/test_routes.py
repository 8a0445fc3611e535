from __future__ import annotations

import sys

import pytest

from pybroker.addresses import routes
from pybroker.addresses.routes import Network, Routes, packed, parse_ipv4, parse_ipv6, text_of

HEADER = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"


def column(address: str) -> str:
    """Return an address as the kernel writes it: as a number in the machine's byte order."""
    return f"{int.from_bytes(packed(address), sys.byteorder):08X}"


def ipv4(*lines: tuple[str, str, str, int, str]) -> str:
    rows = (
        f"{interface}\t{column(destination)}\t{column(gateway)}\t{flags:04X}\t0\t0\t0\t{column(mask)}\t0\t0\t0\n"
        for interface, destination, gateway, flags, mask in lines
    )
    return HEADER + "".join(rows)


def read(parsed: Routes) -> tuple[list[str], list[str]]:
    return sorted(map(text_of, parsed.gateways)), [str(network) for network in parsed.networks]


def test_a_bridge_network_as_the_kernel_writes_it() -> None:
    if sys.byteorder != "little":
        pytest.skip("these lines are of a little-endian machine")
    text = (
        HEADER
        + "eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0      \n"
        + "eth0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0      \n"
    )
    assert read(parse_ipv4(text)) == (["172.17.0.1"], ["172.17.0.0/16"])


def test_every_default_route_has_a_gateway_and_every_other_route_without_one_a_network() -> None:
    text = ipv4(
        ("eth0", "0.0.0.0", "10.89.0.1", 0x3, "0.0.0.0"),
        ("eth1", "0.0.0.0", "10.89.1.1", 0x3, "0.0.0.0"),
        ("eth0", "10.89.0.0", "0.0.0.0", 0x1, "255.255.255.0"),
        ("eth1", "10.89.1.0", "0.0.0.0", 0x1, "255.255.255.0"),
        ("eth1", "10.99.0.0", "10.89.1.77", 0x3, "255.255.0.0"),
        ("eth0", "10.77.0.0", "0.0.0.0", 0x201, "255.255.0.0"),
        ("eth0", "10.78.0.0", "0.0.0.0", 0x0, "255.255.0.0"),
        ("tun0", "0.0.0.0", "0.0.0.0", 0x1, "0.0.0.0"),
        ("lo", "127.0.0.0", "0.0.0.0", 0x1, "255.0.0.0"),
    )
    assert read(parse_ipv4(text)) == (["10.89.0.1", "10.89.1.1"], ["10.89.0.0/24", "10.89.1.0/24"])


def test_an_internal_network_has_no_gateway() -> None:
    assert read(parse_ipv4(ipv4(("eth0", "172.20.0.0", "0.0.0.0", 0x1, "255.255.0.0")))) == ([], ["172.20.0.0/16"])


@pytest.mark.parametrize("text", ["", HEADER, HEADER + "\n", HEADER + "eth0\t00\n"])
def test_nothing_to_read(text: str) -> None:
    assert parse_ipv4(text) == parse_ipv6("") == parse_ipv6("short line\n") == Routes()


def test_ipv6_as_the_kernel_writes_it() -> None:
    zero = "0" * 32
    text = f"""\
fd000000000000000000000000000000 40 {zero} 00 {zero} 00000100 00000001 00000000 00000001     eth0
fe800000000000000000000000000000 40 {zero} 00 {zero} 00000100 00000002 00000000 00000001     eth0
{zero} 00 {zero} 00 fd000000000000000000000000000001 00000400 00000002 00000000 00000003     eth0
00000000000000000000000000000001 80 {zero} 00 {zero} 00000000 00000004 00000000 80200001       lo
fd000000000000000000000000000002 80 {zero} 00 {zero} 00000000 00000004 00000000 80200001     eth0
ff000000000000000000000000000000 08 {zero} 00 {zero} 00000100 00000003 00000000 00000001     eth0
fd770000000000000000000000000000 40 {zero} 00 fd000000000000000000000000000009 00000400 00000001 00000000 00000003     eth0
{zero} 00 {zero} 00 {zero} ffffffff 00000001 00000000 00200200       lo
"""
    assert read(parse_ipv6(text)) == (["fd00::1"], ["fd00::/64"])


def test_a_network_has_its_own_addresses_and_none_of_the_other_family() -> None:
    network = Network(packed("172.17.0.0"), 0xFFFF0000)
    assert network.has(packed("172.17.255.255"))
    assert not network.has(packed("172.18.0.0"))
    assert not network.has(packed("ac11::"))
    assert Routes(frozenset(), (network,)).is_near(packed("172.17.0.9"))


def test_a_scope_is_no_part_of_an_address() -> None:
    assert text_of(packed("fe80::1%eth0")) == "fe80::1"
    with pytest.raises(ValueError, match="'kafka' is not an address"):
        packed("kafka")


def test_the_files_of_this_machine_can_be_read() -> None:
    if not routes.IPV4_ROUTES.exists():
        pytest.skip("no /proc/net/route on this system")
    assert all(len(address) == 4 for address in routes.read_routes(ipv6=False).gateways)
    if routes.IPV6_ROUTES.exists():
        assert all(len(address) == 16 for address in routes.read_routes(ipv6=True).gateways)
