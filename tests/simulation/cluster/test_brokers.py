"""Brokers in one process live, die and come back on the disks that they had, each by its own loop."""

from __future__ import annotations

from testing.simulation.cluster.cluster import SESSION_MS, Cluster

START_MS = 20_000


def live_for(cluster: Cluster, node: int) -> set[int]:
    """Return the brokers that are live as one of them sees it."""
    return {*cluster.lives[node].broker.controller.image.brokers}


def start_all(cluster: Cluster) -> None:
    cluster.start_all()
    assert cluster.scheduler.run_until(lambda: all(one.has_started for one in cluster.lives.values()), within_ms=START_MS)


def test_the_same_seed_is_the_same_run() -> None:
    runs = []
    for seed in (3, 4, 3):
        with Cluster.open(seed) as cluster:
            start_all(cluster)
            cluster.scheduler.run_for(2_000)
            runs.append((cluster.now_ms, cluster.store.etcd.contents(), [disk.count for disk in cluster.disks.values()]))
    assert runs[0] == runs[2] != runs[1]


def test_a_broker_that_is_killed_paused_or_cut_off_is_gone_for_the_others_until_it_is_back() -> None:
    with Cluster.open(1) as cluster:
        start_all(cluster)
        cluster.scheduler.run_for(1_000)
        assert live_for(cluster, 1) == {1, 2, 3}
        for end, come_back in ((cluster.kill, cluster.start), (cluster.crash, cluster.start), (cluster.pause, cluster.resume)):
            end(2)
            cluster.scheduler.run_for(SESSION_MS + 1_000)
            assert live_for(cluster, 1) == live_for(cluster, 3) == {1, 3}
            come_back(2)
            cluster.scheduler.run_for(SESSION_MS + 5_000)
            assert live_for(cluster, 1) == live_for(cluster, 2) == live_for(cluster, 3) == {1, 2, 3}
        assert not cluster.problems
        assert not cluster.notes


def test_a_broker_that_is_stopped_is_gone_at_once() -> None:
    with Cluster.open(1) as cluster:
        start_all(cluster)
        cluster.scheduler.run_for(1_000)
        cluster.stop(2)
        assert cluster.scheduler.run_until(lambda: 2 not in cluster.lives, within_ms=5_000)
        cluster.scheduler.run_for(1_000)
        assert live_for(cluster, 1) == {1, 3}
        assert not cluster.problems
