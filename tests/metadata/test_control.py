"""Three brokers on one store: they come and go, and every partition has the leader that it can have."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import pytest

from pybroker.broker.gauges import register_cluster
from pybroker.config.broker import BrokerConfig
from pybroker.metadata import control as control_module
from pybroker.metadata import isr_commits
from pybroker.metadata.config_changes import ConfigChange, Edit, Operation
from pybroker.metadata.control import ClusterControl
from pybroker.metadata.controller import Controller
from pybroker.metadata.image import NO_LEADER, ConfigResource, PartitionImage
from pybroker.metadata.isr_changes import IsrChange
from pybroker.metadata.members import BrokerRegistration, BrokerSession
from pybroker.metadata.membership import end_predecessor
from pybroker.metadata.new_topic import NewTopic
from pybroker.metadata.store.base import OutcomeUnknownError, Session, StoreError, UnreachableError
from pybroker.metadata.store.memory import MemoryStore
from pybroker.metrics.broker_metrics import BrokerMetrics
from pybroker.model import BrokerId, LeaderEpoch, TopicPartition
from pybroker.protocol.error_codes import KafkaError

T0 = TopicPartition("t", 0)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_module, "RETRY_S", 0.001)
    monkeypatch.setattr(isr_commits, "PAUSE_S", 0.001)


class Shared(MemoryStore):
    """A store that all brokers share, and that loses outcomes or refuses commits."""

    def __init__(self) -> None:
        super().__init__()
        self.lost_outcomes = 0
        self.refusals = 0
        self.unreachable = False
        self.is_out_of_reach: Callable[[], bool] = lambda: False
        self.sessions: list[Session] = []

    async def open_session(self, **times: int) -> Session:
        session = await super().open_session(**times)
        self.sessions.append(session)
        return session

    async def commit(self, **arguments: Any) -> Any:
        if self.refusals:
            self.refusals -= 1
            raise StoreError("the store refuses")
        if self.unreachable:
            raise UnreachableError("the store does not respond")
        outcome = await super().commit(**arguments)
        if self.lost_outcomes and any(key.startswith("partitions/") for key in arguments.get("puts") or ()):
            self.lost_outcomes -= 1
            raise OutcomeUnknownError("the response was lost")
        return outcome


class Broker:
    """One broker of a cluster, without logs and sockets."""

    def __init__(self, store: Shared, broker_id: int, **config: Any) -> None:
        self.store, self.broker_id, self.steps_down = store, BrokerId(broker_id), 0
        self.controller = Controller(store, BrokerConfig(**config), broker_id=self.broker_id)
        self.control = ClusterControl(self.controller, store)
        self.control.step_down = self._step_down
        self.session: Session | None = None

    def _step_down(self) -> None:
        self.steps_down += 1

    async def start(self, directory: str | None = None) -> Broker:
        name = f"d{self.broker_id}" if directory is None else directory
        await self.controller.start()
        await end_predecessor(self.controller, [name])
        await self.control.step_aside(lambda _: False)
        registration = BrokerRegistration(broker_id=self.broker_id, endpoints={})
        await self.control.join(
            registration,
            BrokerSession(directory=name, host="here", started_ms=0, log_dir=f"/data/{self.broker_id}", address="here:9092"),
        )
        self.session = self.store.sessions[-1]
        return self

    async def die(self) -> None:
        """End as a kill does; the store notices the end of the session."""
        self.controller.unsubscribe(self.control._follow)
        for task in self.control._tasks:
            task.cancel()
        assert self.session is not None
        await self.session.close()

    def partition(self, number: int = 0, topic: str = "t") -> PartitionImage:
        return self.controller.image.topics[topic].partitions[number]

    def leader(self, number: int = 0) -> int:
        return self.partition(number).leader

    def shrink(self, *isr: int) -> IsrChange:
        return self.change(isr, added=())

    def change(self, isr: tuple[int, ...], added: tuple[tuple[int, int], ...]) -> IsrChange:
        now = self.partition()
        return IsrChange(
            T0,
            self.controller.image.topics["t"].topic_id,
            now.leader_epoch,
            now.partition_epoch,
            tuple(map(BrokerId, isr)),
            tuple((BrokerId(one), epoch) for one, epoch in added),
        )

    async def alter(self, change: IsrChange) -> bool:
        done = asyncio.get_running_loop().create_future()
        self.control.alter_isr(change, done.set_result)
        return bool(await done)


async def until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not holds():  # noqa: ASYNC110  an image has no event
            await asyncio.sleep(0)


class Cluster:
    def __init__(self, store: Shared, brokers: list[Broker]) -> None:
        self.store, self.brokers = store, {broker.broker_id: broker for broker in brokers}

    def __getitem__(self, broker_id: int) -> Broker:
        return self.brokers[BrokerId(broker_id)]

    async def create(self, *replicas: tuple[int, ...], name: str = "t", **configs: str) -> None:
        assignments = tuple((number, tuple(map(BrokerId, some))) for number, some in enumerate(replicas))
        topic = NewTopic(name=name, assignments=assignments, configs=dict(configs))
        (outcome,) = await self[2].controller.create_topics([topic])
        assert outcome.error is None, outcome.error

    def controllers(self) -> list[int]:
        return [one.broker_id for one in self.brokers.values() if one.control.is_controller]


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    store = Shared()
    made = Cluster(store, [await Broker(store, number).start() for number in (1, 2, 3)])
    await until(lambda: made.controllers() == [1])
    yield made
    store.refusals = 0
    for broker in made.brokers.values():
        await broker.control.close()
    await store.close()


async def test_all_brokers_are_live_and_the_first_is_the_controller(cluster: Cluster) -> None:
    for number in (1, 2, 3):
        image = cluster[number].controller.image
        assert (sorted(image.brokers), image.controller_id) == ([1, 2, 3], 1)
        assert len({broker.epoch for broker in image.brokers.values()}) == 3


async def test_the_leaders_of_a_dead_broker_move_and_it_comes_back_as_a_follower(cluster: Cluster) -> None:
    await cluster.create((2, 3, 1), (1, 2, 3))
    await cluster[2].die()
    await until(lambda: cluster[1].leader() == 3)
    assert cluster[1].partition().isr == (3, 1)
    assert (cluster[1].leader(1), cluster[1].partition(1).isr) == (1, (1, 3))
    epoch = cluster[1].partition().leader_epoch
    back = cluster.brokers[BrokerId(2)] = await Broker(cluster.store, 2).start()
    assert (back.leader(), back.partition().leader_epoch) == (3, epoch)
    assert back.controller.image.brokers.keys() == {1, 2, 3}


async def test_the_next_controller_elects_what_the_dead_one_led(cluster: Cluster) -> None:
    await cluster.create((1, 2, 3))
    await cluster[1].die()
    del cluster.brokers[BrokerId(1)]
    await until(lambda: len(cluster.controllers()) == 1 and cluster[2].leader() == 2)
    assert cluster[2].partition().leader_epoch == 1


async def test_the_last_member_of_the_isr_leads_again_when_it_returns_and_no_other(cluster: Cluster) -> None:
    await cluster.create((1, 2, 3))
    assert await cluster[1].alter(cluster[1].shrink(1))
    await cluster[1].die()
    await until(lambda: cluster[2].leader() == NO_LEADER)
    assert cluster[2].partition().isr == (1,)
    cluster.brokers[BrokerId(1)] = await Broker(cluster.store, 1).start()
    await until(lambda: cluster[2].leader() == 1)
    assert cluster[2].partition().leader_epoch == 2, "no leader was a leadership of its own"


async def test_a_process_that_starts_again_before_its_death_is_noticed_leads_nothing(cluster: Cluster) -> None:
    await cluster.create((2, 3, 1))
    old = cluster[2]
    old.controller.unsubscribe(old.control._follow)
    for task in old.control._tasks:
        task.cancel()
    before = cluster[1].controller.image.brokers[BrokerId(2)].epoch
    back = cluster.brokers[BrokerId(2)] = await Broker(cluster.store, 2).start()
    assert (back.leader(), back.partition().isr) == (3, (3, 1))
    assert back.controller.image.brokers[BrokerId(2)].epoch > before


async def test_a_second_process_with_the_same_node_id_is_refused(cluster: Cluster) -> None:
    with pytest.raises(
        StoreError,
        match=r"node\.id=2: is in use by a process on here with its data in /data/2, which listens at here:9092\. Stop",
    ):
        await Broker(cluster.store, 2).start(directory="another")
    assert cluster[1].controller.image.brokers.keys() == {1, 2, 3}


async def test_leaders_move_before_a_broker_stops_which_then_leads_nothing(cluster: Cluster) -> None:
    await cluster.create((2, 3, 1))
    await cluster[2].control.leave()
    assert (cluster[2].leader(), cluster[2].partition().isr) == (3, (3, 1))
    assert cluster[2].session is not None
    assert not cluster[2].session.ended.is_set(), "the sockets are still open"
    assert cluster[1].controller.image.brokers[BrokerId(2)].is_stopping
    await cluster.create((2, 3), name="u")
    await until(lambda: cluster[1].partition(topic="u").leader_epoch >= 0)
    await cluster[2].control.close()
    await until(lambda: cluster[1].partition(topic="u").leader == 3)
    assert cluster[1].controller.image.brokers.keys() == {1, 3}
    assert cluster[1].controller.image.registered.keys() == {1, 2, 3}


async def test_the_last_broker_stops_without_a_change(cluster: Cluster) -> None:
    await cluster.create((2, 3, 1))
    for number in (1, 3):
        await cluster[number].control.leave()
        await cluster[number].control.close()
    revision = cluster[2].controller.image.revision
    await cluster[2].control.leave()
    assert cluster[2].controller.image.revision == revision
    assert cluster[2].leader() == 2


async def test_a_broker_that_lost_its_session_steps_down_and_joins_again(cluster: Cluster) -> None:
    await cluster.create((2, 3, 1))
    before = cluster[2].controller.image.brokers[BrokerId(2)].epoch
    assert cluster[2].session is not None
    await cluster[2].session.close()
    await until(lambda: cluster[2].steps_down == 1 and cluster[1].controller.image.brokers.keys() == {1, 2, 3})
    assert cluster[1].controller.image.brokers[BrokerId(2)].epoch > before
    assert (cluster[1].leader(), cluster[1].partition().isr) == (3, (3, 1))


async def test_a_broker_whose_renewals_are_late_steps_down_by_its_own_clock(cluster: Cluster) -> None:
    await cluster.create((2, 3, 1))
    loop = asyncio.get_running_loop()
    session = await cluster.store.open_session(ttl_ms=1, renew_ms=1)
    session.valid_until_s = loop.time() + 0.01
    began = loop.time()
    await cluster[2].control._end_of(session)
    assert loop.time() >= began + 0.01
    assert not session.ended.is_set(), "the store has noticed nothing yet"
    session.valid_until_s = loop.time() - 1
    await cluster[2].control._end_of(session)


async def test_a_broker_that_joins_again_does_not_wait_for_the_end_of_its_life_before(cluster: Cluster) -> None:
    session = cluster[2].session
    assert session is not None
    before = cluster[1].controller.image.brokers[BrokerId(2)].epoch

    async def unreachable(_: Session) -> None:
        """End nothing: the store was out of reach."""

    with mock.patch.object(cluster.store, "end", unreachable):
        session.ended.set()
        await until(lambda: cluster[1].controller.image.registered[BrokerId(2)].epoch > before)
    assert cluster[2].steps_down == 1


async def test_a_bug_in_stepping_down_does_not_keep_a_broker_out(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    failures = [ValueError("a bug")]

    def step_down() -> None:
        if failures:
            raise failures.pop()

    cluster[2].control.step_down = step_down
    before = cluster[1].controller.image.brokers[BrokerId(2)].epoch
    assert cluster[2].session is not None
    await cluster[2].session.close()
    await until(lambda: cluster[1].controller.image.registered[BrokerId(2)].epoch > before)
    assert "Broker 2 cannot join the cluster again yet, and tries again in 0.001 s: a bug" in caplog.text


async def test_a_lost_session_is_a_line_with_the_reason_and_what_follows(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    session = cluster[2].session
    assert session is not None
    session.mark_ended("it could not be renewed in time, because etcd does not respond")
    await until(lambda: bool(caplog.messages))
    (line,) = caplog.messages
    assert line == (
        "Broker 2 lost its session with the metadata store: it could not be renewed in time, because etcd does not respond. "
        "Other brokers may lead what it led, so it leads no partition with several replicas until it has joined again, which it "
        "does by itself when the store responds"
    )


async def test_a_broker_that_stops_without_its_store_has_no_lines_of_what_it_cannot_do(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    cluster.store.unreachable = True
    await cluster[2].control.leave()
    assert cluster[2].session is not None
    cluster[2].session.mark_ended("the store does not respond")
    await cluster[2].control.close()
    assert not caplog.messages


async def test_a_lost_broker_tries_until_the_store_takes_it(cluster: Cluster) -> None:
    await cluster.create((2, 3, 1))
    assert cluster[2].session is not None
    await cluster[2].session.close()
    cluster.store.refusals = 5
    await until(lambda: cluster[1].leader() == 3 and cluster[1].controller.image.brokers.keys() == {1, 2, 3})


async def test_a_broker_that_was_unregistered_while_its_session_was_lost_registers_again(cluster: Cluster) -> None:
    session = cluster[2].session
    assert session is not None
    with pytest.raises(KafkaError, match="Broker 2 is live"):
        await cluster[1].controller.unregister_broker(BrokerId(2))
    enter = cluster[2].control._enter

    async def late(life: BrokerSession) -> None:
        await cluster[1].controller.unregister_broker(BrokerId(2))
        assert sorted(cluster[1].controller.image.registered) == [1, 3]
        await enter(life)

    cluster[2].control._enter = late  # type: ignore[method-assign]  # between the end of a session and the next one
    await session.close()
    await until(lambda: cluster[1].controller.image.brokers.keys() == {1, 2, 3})


async def test_a_topic_with_a_replica_on_a_dead_broker_gets_a_leader(cluster: Cluster) -> None:
    await cluster.create((1, 3))
    await cluster[3].die()
    await until(lambda: cluster[1].partition().isr == (1,))


async def test_an_isr_shrinks_and_grows_by_commits_of_the_leader(cluster: Cluster) -> None:
    await cluster.create((1, 2, 3))
    assert await cluster[1].alter(cluster[1].shrink(1, 2))
    now = cluster[3].partition()
    assert (now.isr, now.leader_epoch, now.partition_epoch) == ((1, 2), 0, 1)
    epoch = cluster[1].controller.image.brokers[BrokerId(3)].epoch
    assert await cluster[1].alter(cluster[1].change((1, 2, 3), ((3, epoch),)))
    assert cluster[2].partition().isr == (1, 2, 3)


async def test_members_that_leave_a_small_isr_are_eligible_by_commits_of_the_leader_and_of_the_controller(
    cluster: Cluster,
) -> None:
    await cluster.create((2, 1, 3), **{"min.insync.replicas": "2"})
    await until(lambda: cluster[2].leader() == 2)
    assert await cluster[2].alter(cluster[2].shrink(2, 1))
    assert cluster[2].partition().elr == ()
    assert await cluster[2].alter(cluster[2].shrink(2))
    assert cluster[2].partition().elr == (1,), "broker 3 left while two were in sync"
    await cluster[2].die()
    await until(lambda: cluster[3].leader() == 1)
    assert (cluster[3].partition().isr, cluster[3].partition().elr) == ((1,), (2,))
    await cluster[1].die()
    await Broker(cluster.store, 2).start()  # with a log that may have lost records
    await until(lambda: cluster[3].partition().elr == () and cluster[3].leader() == NO_LEADER)
    assert cluster[3].partition().isr == (1,)


async def test_a_follower_that_started_again_is_not_taken_by_a_fetch_of_its_life_before(cluster: Cluster) -> None:
    await cluster.create((1, 2, 3))
    assert await cluster[1].alter(cluster[1].shrink(1, 2))
    epoch = cluster[1].controller.image.brokers[BrokerId(3)].epoch
    change = cluster[1].change((1, 2, 3), ((3, epoch),))
    await cluster[3].die()
    cluster.brokers[BrokerId(3)] = await Broker(cluster.store, 3).start()
    assert not await cluster[1].alter(change)
    assert not await cluster[1].alter(cluster[1].change((1, 2, 3), ((3, epoch),)))
    assert cluster[1].partition().isr == (1, 2)


async def test_the_entry_of_the_life_is_compared_even_where_the_image_lags(cluster: Cluster) -> None:
    await cluster.create((1, 2, 3))
    assert await cluster[1].alter(cluster[1].shrink(1, 2))
    epoch = cluster[1].controller.image.brokers[BrokerId(3)].epoch
    change = cluster[1].change((1, 2, 3), ((3, epoch),))
    altered = asyncio.ensure_future(cluster[1].alter(change))
    await cluster[3].die()  # commits before the change does
    assert not await altered
    assert cluster[1].partition().isr == (1, 2)


async def test_a_stopping_follower_is_not_taken(cluster: Cluster) -> None:
    await cluster.create((1, 2, 3))
    await cluster[3].control.leave()
    epoch = cluster[1].controller.image.brokers[BrokerId(3)].epoch
    assert not await cluster[1].alter(cluster[1].change((1, 2, 3), ((3, epoch),)))


async def test_a_leader_that_was_replaced_changes_no_isr(cluster: Cluster) -> None:
    await cluster.create((2, 3, 1))
    stale = cluster[2].shrink(2)
    await cluster[2].control.step_aside(lambda _: False)
    assert not await cluster[2].alter(stale)
    assert cluster[2].partition().isr == (3, 1)


@pytest.mark.parametrize("isr", [(), (2, 3), (1, 4), (1, 3)])
async def test_an_isr_that_cannot_be_is_refused(cluster: Cluster, isr: tuple[int, ...]) -> None:
    await cluster.create((1, 2, 3))
    assert await cluster[1].alter(cluster[1].shrink(1, 2))
    assert not await cluster[1].alter(cluster[1].shrink(*isr))


async def test_an_isr_change_whose_outcome_was_lost_is_reported_when_it_is_known(cluster: Cluster) -> None:
    await cluster.create((1, 2, 3))
    cluster.store.lost_outcomes = 1
    assert await cluster[1].alter(cluster[1].shrink(1, 2))
    assert (cluster[2].partition().isr, cluster[2].partition().partition_epoch) == ((1, 2), 1)


async def test_an_isr_change_that_the_store_refuses_fails(cluster: Cluster) -> None:
    await cluster.create((1, 2, 3))
    cluster.store.refusals = 1
    assert not await cluster[1].alter(cluster[1].shrink(1, 2))
    assert cluster[2].partition().isr == (1, 2, 3)


async def test_the_isr_changes_of_one_round_are_one_commit_in_which_each_has_its_own_outcome(cluster: Cluster) -> None:
    await cluster.create((1, 2, 3))
    revision = cluster[1].controller.image.revision
    good, stale = cluster[1].shrink(1, 2), cluster[1].shrink(1, 3)._replace(leader_epoch=LeaderEpoch(7))
    outcomes = await asyncio.gather(cluster[1].alter(stale), cluster[1].alter(good))
    assert list(outcomes) == [False, True]
    assert cluster[1].controller.image.revision == revision + 1


async def test_partitions_of_a_failed_disk_get_other_leaders_where_there_are_any(cluster: Cluster) -> None:
    await cluster.create((1, 2), (1, 3))
    assert await cluster[1].alter(cluster[1].shrink(1))
    cluster[1].control.give_up([T0, TopicPartition("t", 1), TopicPartition("gone", 0)])
    await until(lambda: cluster[2].leader(1) == 3)
    assert cluster[2].partition(1).isr == (3,)
    assert (cluster[2].leader(0), cluster[2].partition(0).isr) == (1, (1,)), "there is no other"


async def test_an_unclean_leader_is_elected_where_the_topic_wants_it(cluster: Cluster) -> None:
    await cluster.create((1, 2, 3), **{"unclean.leader.election.enable": "true"})
    assert await cluster[1].alter(cluster[1].shrink(1))
    await cluster[1].die()
    await until(lambda: cluster[2].leader() == 2)
    assert cluster[2].partition().isr == (2,)


async def test_an_unclean_leader_is_elected_once_a_setting_of_the_brokers_allows_it(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    await cluster.create((1, 2, 3))
    assert await cluster[1].alter(cluster[1].shrink(1))
    await cluster[1].die()
    await until(lambda: cluster[2].leader() == NO_LEADER)
    allowed = Edit("unclean.leader.election.enable", Operation.SET, "true")
    change = ConfigChange(resource=ConfigResource("broker", ""), edits=[allowed])
    assert await cluster[3].controller.alter_configs([change]) == [None]
    await until(lambda: cluster[2].leader() == 2)
    (line,) = (one.getMessage() for one in caplog.records if one.levelname == "WARNING")
    assert "acknowledged records may be lost" in line
    assert line.endswith("t-0 (broker 2)")


async def test_the_controller_tries_again_after_a_failure_of_the_store(cluster: Cluster) -> None:
    await cluster.create((2, 3, 1))
    await cluster[2].die()
    cluster.store.refusals = 3
    await until(lambda: cluster[1].leader() == 3)


async def test_a_failed_listener_takes_nothing_back_in_a_cluster(cluster: Cluster) -> None:
    def fail(*_: object) -> None:
        raise OSError("the disk is broken")

    cluster[2].controller.subscribe(fail)
    await cluster.create((2, 3))
    assert "t" in cluster[1].controller.image.topics


async def test_leaders_return_to_the_first_replicas_by_request(cluster: Cluster) -> None:
    await cluster.create((2, 3, 1))
    await cluster[2].control.step_aside(lambda _: False)
    await until(lambda: cluster[1].leader() == 3)
    await cluster[3].controller.elect_leaders([T0, TopicPartition("gone", 0)], is_unclean=False)
    assert cluster[1].leader() == 3, "broker 2 is not in sync"
    epoch = cluster[1].controller.image.brokers[BrokerId(2)].epoch
    assert await cluster[3].alter(cluster[3].change((3, 1, 2), ((2, epoch),)))
    await cluster[1].controller.elect_leaders([T0], is_unclean=False)
    assert (cluster[1].leader(), cluster[1].partition().leader_epoch) == (2, 3)


async def test_an_unclean_leader_is_elected_by_request_where_there_is_none(cluster: Cluster) -> None:
    await cluster.create((1, 2, 3))
    assert await cluster[1].alter(cluster[1].shrink(1))
    await cluster[2].controller.elect_leaders([T0], is_unclean=True)
    assert cluster[2].leader() == 1
    await cluster[1].die()
    await until(lambda: cluster[2].leader() == NO_LEADER)
    await cluster[2].controller.elect_leaders([T0], is_unclean=True)
    assert (cluster[2].leader(), cluster[2].partition().isr) == (2, (2,))


def elections(broker: Broker) -> tuple[float, float]:
    """Return how many elections a broker's metrics have, and how many of them were unclean."""
    metrics = BrokerMetrics()
    register_cluster(metrics, broker.controller, lambda: broker.control)
    found = {one.name: one.read()[()] for one in metrics.readings}
    unclean = found["kafka_controller_controllerstats_uncleanleaderelections_total"]
    return found["pybroker_leader_elections_total"], unclean


def controls(broker: Broker) -> float:
    """Return 1 if a broker's metrics have it as the controller, and 0 if they do not."""
    metrics = BrokerMetrics()
    register_cluster(metrics, broker.controller, lambda: broker.control)
    found = {one.name: one.read()[()] for one in metrics.readings}
    return found["kafka_controller_kafkacontroller_activecontrollercount"]


async def test_no_broker_counts_as_the_controller_before_it_is_elected() -> None:
    store = Shared()
    broker = Broker(store, 1)
    await broker.controller.start()
    assert controls(broker) == 0
    await store.close()


async def test_only_the_controller_counts_elections_and_it_counts_all(cluster: Cluster) -> None:
    def counted() -> list[tuple[float, float]]:
        return [elections(broker) for broker in cluster.brokers.values()]

    await cluster.create((2, 3, 1), (1, 2, 3))
    assert counted() == [(0, 0), (0, 0), (0, 0)], "the first leader of a partition is no election"
    assert list(map(controls, cluster.brokers.values())) == [1, 0, 0]
    await cluster[2].die()
    await until(lambda: cluster[1].leader() == 3)
    assert counted() == [(1, 0), (0, 0), (0, 0)]
    await cluster[3].control.leave()
    await until(lambda: cluster[1].leader() == 1)
    assert counted() == [(2, 0), (0, 0), (0, 0)], "a broker that stops elects others for what it leads"


async def test_unclean_elections_are_counted_whoever_makes_them(cluster: Cluster) -> None:
    await cluster.create((3, 2, 1))
    assert await cluster[3].alter(cluster[3].shrink(3))
    await cluster[3].die()
    await until(lambda: cluster[1].leader() == NO_LEADER)
    assert elections(cluster[1]) == (0, 0), "no leader is none"
    await cluster[2].controller.elect_leaders([T0], is_unclean=True)
    assert cluster[1].leader() == 2
    assert elections(cluster[1]) == (1, 1)


async def test_the_controller_gives_leaders_back_from_time_to_time() -> None:
    store = Shared()
    made = Cluster(store, [await Broker(store, number).start() for number in (1, 2)])
    await until(lambda: made.controllers() == [1])
    await made.create((2, 1))
    await made[2].control.step_aside(lambda _: False)
    await until(lambda: made[1].leader() == 1)
    epoch = made[1].controller.image.brokers[BrokerId(2)].epoch
    assert await made[1].alter(made[1].change((1, 2), ((2, epoch),)))
    config = made[1].controller.config
    made[1].controller.config = cast(
        "BrokerConfig", SimpleNamespace(leader_imbalance_check_interval_seconds=0, auto_leader_rebalance_enable=True)
    )
    balancing = asyncio.ensure_future(made[1].control._balance())
    await until(lambda: made[2].leader() == 2)
    balancing.cancel()
    made[1].controller.config = config
    for broker in made.brokers.values():
        await broker.control.close()
