"""Brokers, and etcd's leader, fail while stock clients write, read and do transactions: what they saw, and all replicas, agree.

Longer runs, with other seeds: `python -m benchmarks.cluster_faults`.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from pybroker.sharing.turns.watchdog import SWITCH
from testing.faults import replicas
from testing.faults.clients import RELEASE
from testing.faults.clusters import Cluster, Several, WithEtcd
from testing.faults.faults import EVERYWHERE, WITH_ETCD, Fault, drawn
from testing.faults.run import kinds_of, run
from testing.process.tool_runner import ToolRunner

pytestmark = pytest.mark.skipif(
    shutil.which("javac") is None or shutil.which("mvn") is None, reason="needs a Java compiler, and Maven for the jars"
)


@pytest.mark.parametrize(
    ("kind", "faults", "seed", "count"), [(Several, EVERYWHERE, 1, 4), (WithEtcd, WITH_ETCD, 2, 3)], ids=["--brokers 3", "etcd"]
)
def test_nothing_acknowledged_is_lost_doubled_or_reordered(
    kind: type[Several | WithEtcd],
    faults: Sequence[Fault],
    seed: int,
    count: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(SWITCH, raising=False)  # a turn in which the broker was paused is no fault
    random = Random(seed)
    with kind(tmp_path) as cluster:
        result = run(cluster, kinds_of(random), islice(drawn(faults, random), count), random)
        assert not result.problems, str(result)
        assert all(one.acked and "committed" in one.outcomes.values() for one in result.clients)
        check_replicas(cluster, result.topics, tmp_path)


def check_replicas(cluster: Cluster, topics: list[str], folder: Path) -> None:
    """Let Kafka's tools compare the replicas; the brokers are stopped for that."""
    replicas.verified(cluster, topics)
    tools = ToolRunner(RELEASE, folder)
    try:
        described = tools.succeed(
            "topics", "--bootstrap-server", cluster.bootstrap, "--describe", "--under-replicated-partitions"
        )
        assert not described.strip()
        cluster.stop()
        dumps = replicas.dumped(cluster, tools.succeed)
    finally:
        tools.close()
    assert set(dumps) >= {f"{topic}-{number}" for topic in topics for number in range(3)}
    for name, found in dumps.items():
        assert found == [found[0]] * 3, f"the replicas of {name} have the same batches, offsets and epochs"
