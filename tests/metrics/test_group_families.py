"""The metrics of groups: names and labels, sums, and the bound on a page."""

from __future__ import annotations

from functools import partial

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from pybroker.metrics import group_families
from pybroker.metrics.broker_metrics import BrokerMetrics, CommittedReading, GroupReading
from pybroker.metrics.exporter import EVERYTHING, BrokerCollector, Scope

OFFSETS = (
    CommittedReading("a", 0, 10, 5),
    CommittedReading("a", 1, 20, 0),
    CommittedReading("gone", 0, 7, None),
    CommittedReading("__consumer_offsets", 0, 1, 1),
)


def group(name: str, *offsets: CommittedReading, count: int | None = None) -> GroupReading:
    return GroupReading(name, "classic", "Stable", 2, len(offsets) if count is None else count, partial(iter, offsets))


def series(groups: list[GroupReading], scope: Scope = EVERYTHING) -> set[str]:
    """Return the lines of groups."""
    metrics, registry = BrokerMetrics(), CollectorRegistry(auto_describe=False)
    metrics.groups = lambda: groups
    registry.register(BrokerCollector(metrics, scope))
    lines = generate_latest(registry).decode().splitlines()
    found = [line for line in lines if line.startswith(("kafka_consumergroup", "pybroker_consumergroup"))]
    assert len(found) == len({*found})
    return {line.replace("kafka_consumergroup_", "") for line in found}


OF_GROUP = {
    'members{consumergroup="g"} 2.0',
    'pybroker_consumergroup_info{consumergroup="g",protocol="classic",state="Stable"} 1.0',
    "pybroker_consumergroups_left_out 0.0",
}
OF_TOPICS = {
    'current_offset_sum{consumergroup="g",topic="a"} 30.0',
    'current_offset_sum{consumergroup="g",topic="gone"} 7.0',
    'lag_sum{consumergroup="g",topic="a"} 5.0',
    'lag_sum{consumergroup="g",topic="gone"} 0.0',
}
INTERNAL = frozenset({"__consumer_offsets"})


def test_each_partition_has_an_offset_and_a_lag() -> None:
    assert series([group("g", *OFFSETS)], Scope(hidden=INTERNAL)) == OF_GROUP | OF_TOPICS | {
        'current_offset{consumergroup="g",partition="0",topic="a"} 10.0',
        'current_offset{consumergroup="g",partition="1",topic="a"} 20.0',
        'current_offset{consumergroup="g",partition="0",topic="gone"} 7.0',
        'lag{consumergroup="g",partition="0",topic="a"} 5.0',
        'lag{consumergroup="g",partition="1",topic="a"} 0.0',
    }


def test_partitions_may_be_summed_and_groups_left_out() -> None:
    assert series([group("g", *OFFSETS)], Scope(groups="sum", hidden=INTERNAL)) == OF_GROUP | OF_TOPICS
    assert series([group("g", *OFFSETS)], Scope(groups="none")) == set()


def test_internal_topics_are_there_unless_they_are_hidden() -> None:
    assert 'lag{consumergroup="g",partition="0",topic="__consumer_offsets"} 1.0' in series([group("g", *OFFSETS)])


def test_a_group_without_offsets_has_its_members() -> None:
    assert series([group("g")]) == OF_GROUP


def test_a_group_for_which_a_page_has_no_room_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_families, "LINES_MAX", 6)
    large = GroupReading("large", "classic", "Empty", 0, 1_000_000, lambda: pytest.fail("it is not even read"))
    lines = series([large, group("g", *OFFSETS), group("late")])
    assert 'members{consumergroup="g"} 2.0' in lines
    assert not [line for line in lines if "large" in line]
    assert "pybroker_consumergroups_left_out 1.0" in lines
