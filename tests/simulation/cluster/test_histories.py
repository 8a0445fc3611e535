"""Histories of clusters, the same in each run. More of them: `python -m benchmarks.simulate`."""

from __future__ import annotations

import pytest

from testing.simulation.cluster.history import History, Plan

SEEDS = 200
ALONE = Plan(
    brokers=1,
    settings={
        "default_replication_factor": 1,
        "min_insync_replicas": 1,
        "offsets_topic_replication_factor": 1,
        "transaction_state_log_replication_factor": 1,
        "transaction_state_log_min_isr": 1,
    },
)


@pytest.mark.parametrize("first", range(0, SEEDS, 10))
def test_nothing_acknowledged_by_a_cluster_is_lost(first: int) -> None:
    for seed in range(first, first + 10):
        History(seed).run()


@pytest.mark.parametrize("first", range(0, 20, 5))
def test_nothing_acknowledged_by_one_broker_is_lost(first: int) -> None:
    for seed in range(first, first + 5):
        History(seed, ALONE).run()
