"""Commands in a cluster of three: whichever broker they are pointed at, each request goes to the broker that knows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pybroker.testing import Cluster, ThreadCluster
from testing.waiting import until
from tests.cli.cluster import invoke, lines, objects

GROUPS = ("g0", "g1", "g2", "g3")


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with Cluster.in_thread(3) as cluster:
        yield cluster


def test_requests_go_to_leaders_and_coordinators(cluster: ThreadCluster, tmp_path: Path) -> None:
    first, *_, last = cluster.bootstrap.split(",")
    lines(first, "topics", "create", "a", "-p", "6", "-r", "3")
    lines(last, "wait", "--topic", "a", "--brokers", "3")
    rows = objects(first, "topics", "describe", "a")[0]["of_partitions"]
    assert {row["leader"] for row in rows} == {1, 2, 3}
    lines(last, "produce", "a", "--separator", ":", given="".join(f"key-{number}:{number}\n" for number in range(60)))
    assert sorted(map(int, lines(first, "consume", "a"))) == list(range(60))
    for group in GROUPS:
        assert len(lines(last, "consume", "a", "-g", group)) == 60
    assert {row["group"]: row["lag"] for row in objects(first, "groups", "list")} == dict.fromkeys(GROUPS, 0)
    lines(first, "produce", "a", "x", "y", "--transactional-id", "tx")
    assert objects(last, "transactions", "list")[0]["transactional_id"] == "tx"
    lines(first, "records", "delete", "a", "--before", "1", "--yes")
    lines(last, "export", str(tmp_path / "e"), "a", "--format", "batches")
    lines(first, "import", str(tmp_path / "e"), "--prefix", "i.")
    assert len(lines(last, "consume", "i.a")) == len(lines(last, "consume", "a"))
    assert [row["broker"] for row in objects(last, "cluster", "brokers")] == [1, 2, 3]


def test_a_broker_that_is_gone_is_seen_and_the_others_serve(cluster: ThreadCluster) -> None:
    first, second, _ = cluster.bootstrap.split(",")
    lines(first, "topics", "create", "b", "-p", "3", "-r", "3")
    lines(first, "wait", "--topic", "b")
    cluster.kill(3)
    until(lambda: invoke(first, "cluster", "health").exit_code == 1, "replicas that are not in sync", 60)
    until(lambda: objects(second, "status")[0]["offline"] == 0, "new leaders", 60)
    lines(f"{first},{second}", "produce", "b", "1", "2", "3")
    assert sorted(lines(second, "consume", "b")) == ["1", "2", "3"]
    assert objects(first, "status")[0]["under_replicated"] > 0
    assert "of 3 brokers are live" in invoke(first, "wait", "--brokers", "3", "--for", "0").stderr
