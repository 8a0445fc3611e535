"""The use by clients: shared by an entity, and each connection of an address."""

from __future__ import annotations

from pybroker.clock import ManualClock
from pybroker.security.quotas.entity import CLIENT_ID, IP, USER, Entity
from pybroker.security.quotas.quotas import Quotas
from pybroker.security.quotas.usage import Usage, Window

RATE = "producer_byte_rate"
NOW_MS = 0.0


def usage_of(clock: ManualClock, entity: Entity, key: str, value: float) -> Usage:
    return Usage(Quotas({"1": (entity, {key: value})}), Window(11, 1000), Window(11, 1000), clock.monotonic_ms)


def test_the_clients_of_a_user_share_its_quota() -> None:
    usage = usage_of(ManualClock(), ((USER, "u"),), RATE, 10)
    assert usage.of("User:u", "a").bytes_throttle_ms(RATE, 100, NOW_MS) == 0
    assert usage.of("User:u", "b").bytes_throttle_ms(RATE, 100, NOW_MS) == 10_000
    assert usage.of("User:other", "b").bytes_throttle_ms(RATE, 1000, NOW_MS) == 0


def test_each_client_id_has_the_default_for_itself() -> None:
    usage = usage_of(ManualClock(), ((CLIENT_ID, None),), RATE, 10)
    assert [usage.of("User:u", name).bytes_throttle_ms(RATE, 100, NOW_MS) for name in "ab"] == [0, 0]


def test_a_changed_quota_counts_what_was_used_before() -> None:
    usage = usage_of(ManualClock(), ((USER, "u"),), RATE, 10)
    assert usage.of("User:u", "a").bytes_throttle_ms(RATE, 100, NOW_MS) == 0
    usage.quotas = Quotas({"1": (((USER, "u"),), {RATE: 5})})
    assert usage.of("User:u", "a").bytes_throttle_ms(RATE, 0, NOW_MS) == 10_000


def test_an_address_opens_so_many_connections_a_second() -> None:
    clock = ManualClock()
    usage = usage_of(clock, ((IP, None),), "connection_creation_rate", 1)
    assert [usage.may_connect("::1") for _ in range(12)] == [True] * 10 + [False] * 2
    assert usage.may_connect("::2")
    clock.advance(11_000)
    assert usage.may_connect("::1")
