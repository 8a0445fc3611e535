"""Brokers in network namespaces lose each other, or etcd, in one direction or both: nothing is lost, and writing continues."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from pybroker.protocol.error_codes import ErrorCode
from pybroker.sharing.turns.watchdog import SWITCH
from testing.faults.clusters import SETTINGS, TIMEOUT_S
from testing.faults.cuts import by_etcd, from_all, from_etcd, from_followers, one_way, to_etcd
from testing.faults.faults import Fault
from testing.faults.network import ETCD, WithLinks, host
from testing.faults.run import run
from testing.samples import T0_MS, Sample
from testing.waiting import Deadline
from testing.wire import raw
from testing.wire.batches import sample_batch

ON_THE_WAY_S = 0.5
"""Between an acknowledgement and the moment at which this process sees it."""
SESSION_S = int(SETTINGS["broker.session.timeout.ms"]) / 1000


@pytest.mark.parametrize("faults", [(from_followers, from_etcd, one_way), (to_etcd, by_etcd, from_all)], ids=["1", "2"])
def test_nothing_is_lost_and_writing_continues(
    faults: tuple[Fault, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(SWITCH, raising=False)
    with WithLinks(tmp_path) as cluster:
        result = run(cluster, ["confluent-kafka"], faults, Random(3))
        assert not result.problems, str(result)


def test_a_leader_that_is_cut_from_etcd_stops_acknowledging_within_its_session(tmp_path: Path) -> None:
    with WithLinks(tmp_path) as cluster:
        admin = AdminClient({"bootstrap.servers": cluster.address(1)})
        admin.create_topics([NewTopic("t", num_partitions=1, replica_assignment=[[2, 3, 1]])])["t"].result(TIMEOUT_S)
        cluster.become_whole()
        record = sample_batch([Sample(None, b"record", T0_MS)], "none")
        deadline = Deadline("the leader refuses", TIMEOUT_S)
        cluster.links.cut_both(host(2), ETCD)
        cut_at = last = time.monotonic()
        with raw.Connection(cluster.address(2)) as leader:
            assert raw.produce(leader, 7, "t", record).error == ErrorCode.NONE
            while (error := raw.produce(leader, 7, "t", record).error) == ErrorCode.NONE:
                last = time.monotonic()
                deadline.check()
        assert error == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert last - cut_at < SESSION_S + ON_THE_WAY_S
        cluster.links.heal()
        cluster.become_whole()
