"""A broker of a cluster: its membership, the elections that it makes as the controller, and what its partitions ask for.

Idea
    Every broker changes the store by compare-and-swap, and knows nothing that the store does not have. One of them, the
    controller, does what no other broker would notice: it elects leaders when brokers come and go. It is the one that has put the
    entry `controller`, which goes with its session; then the others try to be the next one.

A life of a broker
    1. step_aside    before the logs are used: the broker leads nothing, because what it led in its life before may be behind what
                     others have by now. Where its log may lack records, it is in no ISR beside others.
    2. join          its session begins, and with it its broker epoch; the controller elects it where there is no leader
    3. leave         the stop begins: its leaders move away
    4. close         its session ends

A session that is lost
    If the store could not be reached for the time of a session, others may lead by now. By its own clock the broker notices
    this before they can, steps down at once, and joins again. It leads nothing until it is elected, but its logs stay open, so
    it stays in the ISRs: the other members may be those that have lost records.

Source: BrokerLifecycleManager, QuorumController, ReplicationControlManager; KIP-631.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from pybroker.config.topic import TopicConfig
from pybroker.metadata.election_counts import ElectionCounts
from pybroker.metadata.elections import Election, candidates, min_isr_of, plan_of_all, plan_of_named
from pybroker.metadata.image import BROKER_KIND, NO_LEADER
from pybroker.metadata.isr_commits import IsrCommits
from pybroker.metadata.member_entries import CONTROLLER_KEY
from pybroker.metadata.membership import announce_stop, end_predecessor, go_live
from pybroker.metadata.partition_commits import carry_out
from pybroker.metadata.store.base import ABSENT, OutcomeUnknownError, SessionEndedError, StoreError, UnreachableError
from pybroker.model import TopicPartition
from pybroker.sharing.loop import complete

if TYPE_CHECKING:
    from pybroker.metadata.controller import Controller
    from pybroker.metadata.image import ClusterImage, ImageDelta, PartitionChange, PartitionImage, TopicImage
    from pybroker.metadata.isr_changes import AlterIsr
    from pybroker.metadata.members import BrokerRegistration, BrokerSession
    from pybroker.metadata.store.base import Session, Store
    from pybroker.model import BrokerId, LeaderEpoch
    from pybroker.sharing.work import Pausing

logger = logging.getLogger(__name__)

RETRY_S: Final = 0.5
"""The time between two attempts at what the store could not do."""
BALANCED_AT_ONCE: Final = 1_000
"""The partitions whose leaders are given back at a time."""
LEAVE_S: Final = 5.0
"""The longest time in which leaders move away from a broker that stops."""


class ClusterControl:
    """The membership of one broker in a cluster of several. Belongs to the loop."""

    def __init__(self, controller: Controller, store: Store) -> None:
        self._controller, self._store = controller, store
        self.step_down: Callable[[], object] = lambda: None
        """A function that makes this broker's replicas of partitions with several followers, at once."""
        self.lead_again: Callable[[], object] = lambda: None
        """A function that ends this: whatever leads by a later image was elected after the broker had stepped aside."""
        self._registration: BrokerRegistration | None = None
        self._session: Session | None = None
        self._lost = asyncio.Event()  # the entry of this life is gone
        self._must_look = asyncio.Event()  # the controller must elect, or there is none
        self._topics: dict[str, TopicImage] | None = {}  # those that the controller must look at; None: all
        self._tasks: list[asyncio.Task[None]] = []
        self._level = logging.WARNING  # of lines about the store, which no person needs while this broker stops
        self._isr = IsrCommits(controller, store.limits.operations_max, lambda: self._session is not None)
        self.alter_isr: AlterIsr = self._isr.alter_isr
        self.counts = ElectionCounts()

    @property
    def is_controller(self) -> bool:
        """Whether this broker is the elected controller, as its image has it."""
        return self._session is not None and self._controller.image.members.controller == self._controller.broker_id

    async def step_aside(self, is_complete: Callable[[TopicPartition], bool] = lambda _: True) -> None:
        """Have this broker lead nothing until it is elected, and be in no ISR beside others where its log is not complete. Raises
        StoreError.
        """
        controller = self._controller

        def planned(image: ClusterImage, epoch: LeaderEpoch) -> Pausing[Sequence[PartitionChange]]:
            election = Election(candidates(image), epoch)

            def after(topic: TopicImage, number: int) -> PartitionImage | None:
                return election.aside(
                    topic.partitions[number],
                    controller.broker_id,
                    min_isr=min_isr_of(topic, controller.config),
                    is_complete=is_complete(TopicPartition(topic.name, number)),
                )

            return plan_of_all(image.topics.values(), after)

        await carry_out(self._controller, self._store.limits.operations_max, planned)

    async def join(self, registration: BrokerRegistration, life: BrokerSession) -> None:
        """Become live, and remain so until `close`. Raises StoreError, also if another process is the broker."""
        self._registration = registration
        await self._enter(life)
        self._controller.subscribe(self._follow)
        self._look_at_all()
        loop = asyncio.get_running_loop()
        self._tasks += [loop.create_task(one) for one in (self._stay(life), self._control(), self._balance())]

    async def leave(self) -> None:
        """Move leaders away, because this broker stops. It takes LEAVE_S at most; without a store, or another broker, nothing."""
        controller = self._controller
        self._level = self._isr.level = logging.DEBUG
        if self._session is None or not controller.image.brokers.keys() - {controller.broker_id}:
            return
        try:
            async with asyncio.timeout(LEAVE_S):
                await announce_stop(controller, self._session)
                await self._elect(gone={controller.broker_id})
        except (UnreachableError, OutcomeUnknownError) as error:  # `close` logs what follows, if the store does not respond then
            logger.debug("The broker stops before its partitions have other leaders: %s", error)
        except (StoreError, TimeoutError) as error:
            reason = str(error) or f"this takes longer than {LEAVE_S:g} s"
            logger.warning(
                "The broker stops before its partitions have other leaders, which are elected when it is gone: %s", reason
            )

    async def close(self) -> None:
        """End the membership: the others see that the broker is gone."""
        self._controller.unsubscribe(self._follow)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)  # a bug must not keep the broker from stopping
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await session.close()

    async def end_session(self) -> bool:
        """End the session as if it was lost, so that others lead until this broker has joined again; tests ask for that. Returns
        whether there was one. Raises StoreError.
        """
        session = self._session
        if session is not None:
            await session.close()
        return session is not None

    def give_up(self, partitions: Collection[TopicPartition]) -> None:
        """Have other replicas lead these partitions, because this broker's disk failed or is full. A partition for which there is
        none keeps its leader.
        """
        task = asyncio.get_running_loop().create_task(self._give_up(partitions))
        self._tasks.append(task)
        task.add_done_callback(self._tasks.remove)

    async def _give_up(self, partitions: Collection[TopicPartition]) -> None:
        def planned(image: ClusterImage, epoch: LeaderEpoch) -> Pausing[Sequence[PartitionChange]]:
            election = Election(candidates(image, {self._controller.broker_id}), epoch)

            def after(topic: TopicImage, number: int) -> PartitionImage | None:
                changed = election.after(topic.partitions[number], min_isr=min_isr_of(topic, self._controller.config))
                return None if changed is None or changed.leader == NO_LEADER else changed

            return plan_of_named(image, partitions, after)

        while True:
            try:
                await carry_out(self._controller, self._store.limits.operations_max, planned)
            except StoreError as error:
                line = "Partitions of a disk that failed or is full have no other leaders yet, which is tried again in %g s: %s"
                logger.log(self._level, line, RETRY_S, error)
                await asyncio.sleep(RETRY_S)
            else:
                return

    # The life of the session

    async def _enter(self, life: BrokerSession) -> None:
        controller = self._controller
        self._lost.clear()
        assert self._registration is not None
        await controller.register_broker(self._registration)  # also if it was unregistered while it was away
        session = await go_live(controller, self._store, life, controller.config)
        if controller.broker_id not in controller.image.registered:
            await session.close()
            raise StoreError(f"broker {controller.broker_id} was unregistered while it joined: start it again")
        self._session = session
        logger.info("Broker %d joined the cluster", self._controller.broker_id)

    async def _stay(self, life: BrokerSession) -> None:
        """Notice the end of each session, and begin the next one."""
        while True:
            session = self._session
            assert session is not None
            await self._end_of(session)
            self._session = None
            reason = session.reason or ("its entry there was removed" if self._lost.is_set() else "its time is over")
            logger.log(
                self._level,
                "Broker %d lost its session with the metadata store: %s. Other brokers may lead what it led, so it leads no "
                "partition with several replicas until it has joined again, which it does by itself when the store responds",
                self._controller.broker_id,
                reason,
            )
            await self._join_again(session, life)
            self._look_at_all()

    async def _join_again(self, lost: Session, life: BrokerSession) -> None:
        while True:
            try:
                self.step_down()
                await lost.close()
                await end_predecessor(self._controller, [life.directory])  # the life before, if the store still has it
                await self.step_aside()
                self.lead_again()
                await self._enter(life)
            except Exception as error:  # a bug must not keep the broker out for good
                is_bug = not isinstance(error, StoreError)
                line = "Broker %d cannot join the cluster again yet, and tries again in %g s: %s"
                logger.log(self._level, line, self._controller.broker_id, RETRY_S, error, exc_info=is_bug)
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def _end_of(self, session: Session) -> None:
        """Wait until others may see this broker as gone."""
        loop = asyncio.get_running_loop()
        ends = [loop.create_task(session.ended.wait()), loop.create_task(self._lost.wait())]
        try:
            while not any(end.done() for end in ends) and (left_s := session.valid_until_s - loop.time()) > 0:
                await asyncio.wait(ends, timeout=min(left_s, 3600), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for end in ends:
                end.cancel()

    # The controller

    def _follow(self, old: ClusterImage, new: ClusterImage, delta: ImageDelta) -> Iterator[None] | None:
        broker_id = self._controller.broker_id
        if broker_id in old.members.sessions and broker_id not in new.members.sessions:
            self._lost.set()
        if delta.brokers_changed and self.is_controller:
            for one, life in old.members.sessions.items():
                if one not in new.members.sessions and one != broker_id:
                    ended = "has stopped" if life.is_stopping else "is gone, as its session has ended"
                    logger.info("Broker %d %s; the controller elects others for what it led", one, ended)
        is_changed_setting = any(kind == BROKER_KIND for kind, _ in delta.configs_changed)
        if delta.brokers_changed or is_changed_setting:  # a setting may allow an unclean election from now on
            self._look_at_all()
        elif delta.added or delta.changed:
            self._look_at([*delta.added, *(topic for _, topic in delta.changed)])
        return self.counts.count(delta.changed) if delta.changed and self.is_controller else None

    def _look_at_all(self) -> None:
        self._topics = None
        self._must_look.set()

    def _look_at(self, topics: Sequence[TopicImage]) -> None:
        several = {topic.name: topic for topic in topics if len(topic.partitions[0].replicas) > 1}
        if several and self._topics is not None:
            self._topics |= several
        if several:
            self._must_look.set()

    async def _control(self) -> None:
        """Be the controller while no other broker is, and elect while this one is."""
        while True:
            await self._must_look.wait()
            self._must_look.clear()
            try:
                await self._be_controller()
            except SessionEndedError:
                pass  # the next session looks at everything
            except Exception as error:  # a bug must not leave partitions without a leader for good
                is_bug = not isinstance(error, StoreError)
                line = "This broker could not elect leaders as the controller, and tries again in %g s: %s"
                logger.log(self._level, line, RETRY_S, error, exc_info=is_bug)
                await asyncio.sleep(RETRY_S)
                self._look_at_all()

    async def _balance(self) -> None:
        """Give the leaders back to the first replicas from time to time, while this broker is the controller."""
        while True:
            config = self._controller.config
            await asyncio.sleep(config.leader_imbalance_check_interval_seconds)
            if self.is_controller and config.auto_leader_rebalance_enable:
                moved = await complete(_not_led_by_first(self._controller.image))
                with contextlib.suppress(StoreError):  # the next time will do
                    await self._controller.elect_leaders(moved, is_unclean=False)

    async def _be_controller(self) -> None:
        controller = self._controller
        if self._session is None:
            return
        if controller.image.members.controller is None:
            puts = {CONTROLLER_KEY: b"%d" % controller.broker_id}
            await controller.commit(puts=puts, compare={CONTROLLER_KEY: ABSENT}, session=self._session)
            if self.is_controller:
                logger.info("Broker %d is the controller", controller.broker_id)
                self._topics = None
        if self.is_controller:
            topics, self._topics = self._topics, {}
            if count := await self._elect(None if topics is None else list(topics)):
                logger.info("The controller changed the leaders or the in-sync replicas of %d partitions", count)

    async def _elect(self, names: Sequence[str] | None = None, *, gone: Collection[BrokerId] = ()) -> int:
        """Elect where it is necessary, in these topics or in all. Raises StoreError."""

        def planned(image: ClusterImage, epoch: LeaderEpoch) -> Pausing[Sequence[PartitionChange]]:
            found = image.topics.values() if names is None else (image.topics[name] for name in names if name in image.topics)
            election = Election(candidates(image, gone), epoch)

            def after(topic: TopicImage, number: int) -> PartitionImage | None:
                partition = topic.partitions[number]
                min_isr = min_isr_of(topic, self._controller.config)
                changed = election.after(partition, min_isr=min_isr)
                leader = (partition if changed is None else changed).leader
                if leader == NO_LEADER and self._is_unclean_allowed(topic):
                    return election.after(partition, min_isr=min_isr, is_unclean_allowed=True)
                return changed

            return plan_of_all(found, after)

        return await carry_out(self._controller, self._store.limits.operations_max, planned)

    def _is_unclean_allowed(self, topic: TopicImage) -> bool:
        return TopicConfig.resolve(self._controller.config, topic.configs).unclean_leader_election_enable


def _not_led_by_first(image: ClusterImage) -> Pausing[list[TopicPartition]]:
    found: list[TopicPartition] = []
    for topic in image.topics.values():
        for number, partition in enumerate(topic.partitions):
            if partition.leader != partition.replicas[0] and len(found) < BALANCED_AT_ONCE:
                found.append(TopicPartition(topic.name, number))
        yield
    return found
