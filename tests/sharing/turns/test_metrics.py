"""The counts of the watchdog are exported, in the form that Prometheus reads."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from pybroker.broker.gauges import register_turns
from pybroker.metrics.broker_metrics import BrokerMetrics
from pybroker.metrics.exporter import BrokerCollector
from pybroker.sharing.turns.watchdog import LongTurn, Watchdog


def samples(metrics: BrokerMetrics) -> dict[tuple[str, ...], float]:
    registry = CollectorRegistry(auto_describe=False)
    registry.register(BrokerCollector(metrics))
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(generate_latest(registry).decode())
        for sample in family.samples
        if sample.name.startswith("pybroker_loop")
    }


def test_turns_are_exported_in_seconds() -> None:
    metrics, watchdog = BrokerMetrics(), Watchdog()
    register_turns(metrics, watchdog)
    for length_ns in (1, 1 << 14, 1 << 20, (1 << 20) + 5, 1 << 40):
        watchdog.lengths.observe(length_ns)
    watchdog.long_turns["Produce"] = 3
    watchdog.excused_turns["start of the broker"] = 1
    watchdog.longest["Produce"] = LongTurn("Produce", held_ns=250_000_000, length_ns=300_000_000, waited_ns=50_000_000)
    found = samples(metrics)
    bucket = "pybroker_loop_turn_seconds_bucket"
    assert found[bucket, repr((1 << 14) * 1e-9)] == 1
    assert found[bucket, repr((1 << 15) * 1e-9)] == 2
    assert found[bucket, repr((1 << 21) * 1e-9)] == 4
    assert found[bucket, "+Inf"] == 5
    assert found["pybroker_loop_turn_seconds_count",] == 5
    assert round(found["pybroker_loop_turn_seconds_sum",], 3) == round(((1 << 40) + (1 << 21)) * 1e-9, 3)
    assert found["pybroker_loop_long_turns_total", "Produce"] == 3
    assert found["pybroker_loop_excused_turns_total", "start of the broker"] == 1
    assert found["pybroker_loop_longest_turn_seconds", "Produce"] == 0.25
    assert found["pybroker_loop_core_wait_seconds_total",] == 0


def test_a_broker_on_a_loop_that_is_not_watched_exports_nothing_of_it() -> None:
    metrics = BrokerMetrics()
    register_turns(metrics, None)
    assert samples(metrics) == {}
