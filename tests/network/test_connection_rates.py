"""Listeners wait when connections come faster than max.connection.creation.rate allows, by Kafka's rate of windows."""

from __future__ import annotations

from pybroker.network.connection_rates import ConnectionRates
from pybroker.network.limits import Listener, ListenerLimits, NetworkLimits


def test_connections_beyond_the_rate_of_all_listeners_wait_and_that_for_brokers_does_not() -> None:
    rates, limits = ConnectionRates(), NetworkLimits(max_connection_creation_rate=2)
    waits = [rates.accepted(Listener(name=name), limits, now_ms=0) for name in "ab" * 11]
    assert waits[:20] == [0] * 20, "ten windows' worth may come at once"
    assert waits[20:] == [500, 1000]
    assert rates.accepted(Listener(name="a", is_protected=True), limits, now_ms=0) == 0
    assert rates.accepted(Listener(name="a"), limits, now_ms=20_000) == 0


def test_a_listener_has_its_own_rate_and_no_connection_comes_at_zero() -> None:
    rates, limits = ConnectionRates(), NetworkLimits(of_listeners={"a": ListenerLimits(max_connection_creation_rate=0)})
    assert rates.accepted(Listener(name="a", is_protected=True), limits, now_ms=0) == 1000
    assert rates.accepted(Listener(name="b"), limits, now_ms=0) == 0
