"""A history of a cluster, drawn from a seed: clients work while brokers and links fail, then all is healed and checked.

    History(seed=7).run()        raises FailedHistoryError, whose text has what is wrong and what was done

Power is cut only where another broker still has what the machine may lose: where the machine's broker is in sync or an eligible
leader, so is another one that has not lost its power since it was started. Otherwise nothing is promised, because an
acknowledgement does not wait for the disk.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from testing.simulation.cluster import checks, transactions
from testing.simulation.cluster.clients import Client, Committer, Producer, Reader, Stubborn
from testing.simulation.cluster.cluster import Cluster
from testing.simulation.cluster.model import Model
from testing.simulation.cluster.store import ETCD
from testing.simulation.cluster.transactions import Transactor

TOPIC = "t"
HEAL_MS = 60_000
"""The time after which everything must work again."""
LOOK_MS = 100
SHORT_MS = 300
"""The longest time between two faults of which the second meets what the first has begun."""
SMALL_FETCHES = {"replica_fetch_max_bytes": 1, "replica_fetch_response_max_bytes": 1}
"""Settings by which each fetch of a follower brings one batch, so that it is behind for long."""
FAULTS = ("kill", "crash", "pause", "stop", "cut", "cut one way", "no store", "lossy store", "break", "mend", "move", "move")
TRANSACTIONAL_SHARE = 0.5
FINE_SHARE = 0.25
"""The share of the histories in which work that may give the loop back does so at each step; they take half as long again."""


class FailedHistoryError(AssertionError):
    """A history in which something is wrong; the text is what to look at."""


class _Bugs(logging.Handler):
    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = self.format(record)
        if "bug" in text:
            self.lines.append(text)


@contextlib.contextmanager
def _bugs_in_the_log() -> Iterator[list[str]]:
    """Collect what brokers log as bugs of ours, and let nothing else of their logs through."""
    logger, handler = logging.getLogger("pybroker"), _Bugs()
    before, propagates = logger.level, logger.propagate
    logger.setLevel(logging.ERROR)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield handler.lines
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
        logger.propagate = propagates


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How histories are drawn."""

    brokers: int = 3
    partitions: int = 2
    batches: int = 10
    faults: int = 7
    pause_ms_max: int = 3_500
    interleaving: float = 0.0
    settings: dict[str, Any] = field(default_factory=dict)


class History:
    """The history of a seed."""

    def __init__(self, seed: int, plan: Plan | None = None) -> None:
        self.seed, self.plan = seed, plan or Plan()
        self.model = Model()
        self.chance = Random(seed ^ 0x5EED)  # of the faults, so that a change of the code does not change which these are
        self._is_transactional = self.chance.random() < TRANSACTIONAL_SHARE
        self._watermarks = checks.Watermarks()
        self._clients: list[Client] = []
        self._tasks: list[asyncio.Task[Any]] = []

    def run(self) -> None:
        """Run the history and check it. Raises FailedHistoryError."""
        plan = self.plan
        with (
            _bugs_in_the_log() as self._logged,
            Cluster.open(
                self.seed,
                count=plan.brokers,
                interleaving=plan.interleaving,
                is_fine=self.chance.random() < FINE_SHARE,
                **(SMALL_FETCHES if self.chance.random() < 0.4 else {}),
                **plan.settings,
            ) as cluster,
        ):
            self._cluster = cluster
            self._run()

    def _run(self) -> None:
        cluster = self._cluster
        cluster.start_all()
        self._require(self._until(lambda: not self._must_start(), HEAL_MS), "the brokers do not start")
        create = partial(Client.create_topic, topic=TOPIC, partitions=self.plan.partitions)
        creation = self._begin(Client(cluster, self.model, "creator"), create)
        self._require(self._until(creation.done, HEAL_MS), "the topic is not created")
        cluster.network.slow_share = self.chance.choice((0.0, 0.02, 0.2, 0.5))
        producers = self._start_clients()
        for _ in range(self.plan.faults):
            self._fault()
            self._pass(self.chance.randrange(20, SHORT_MS if self.chance.random() < 0.4 else self.plan.pause_ms_max))
        self._note("all is healed")
        cluster.network.slow_share = 0.02
        cluster.heal()
        self._require(self._until(lambda: self._is_well(producers), HEAL_MS), "not all is well a minute after all was healed")
        self._write_at_last()
        self._end_clients()
        self._check()

    # --- clients ---

    def _start_clients(self) -> list[asyncio.Task[Any]]:
        cluster, model, producers = self._cluster, self.model, []
        for partition in range(self.plan.partitions):
            for name in ("a", "b"):
                pause_s = self.chance.choice((0.0, 0.2, 1.0))
                work = partial(Producer.produce, topic=TOPIC, partition=partition, count=self.plan.batches, pause_s=pause_s)
                producers.append(self._begin(Producer(cluster, model, name), work))
            for isolation in (0, 1):
                work = partial(Reader.read, topic=TOPIC, partition=partition, isolation=isolation, knows_epochs=isolation == 1)
                self._begin(Reader(cluster, model, f"reader-{isolation}"), work)
        self._begin(Committer(cluster, model, "committer"), Committer.commit)
        if self._is_transactional:
            for name, count in (("first", 5), ("second", 2)):
                pause_s = self.chance.choice((0.1, 0.5, 1.5))
                work = partial(Transactor.transact, topic=TOPIC, partitions=self.plan.partitions, count=count, pause_s=pause_s)
                producers.append(self._begin(Transactor(cluster, model, name), work))
        self._begin(Stubborn(cluster, model, "stubborn"), partial(Stubborn.produce, topic=TOPIC, partitions=self.plan.partitions))
        return producers

    def _begin(self, client: Any, work: Callable[[Any], Coroutine[Any, Any, Any]]) -> asyncio.Task[Any]:
        self._clients.append(client)
        task = self._cluster.clients.loop.create_task(work(client))
        self._tasks.append(task)
        return task

    def _write_at_last(self) -> None:
        """Write to every partition, and read the group's offset."""
        cluster, model = self._cluster, self.model
        last = []
        for partition in range(self.plan.partitions):
            work = partial(Producer.produce, topic=TOPIC, partition=partition, count=1)
            last.append(self._begin(Producer(cluster, model, f"last-{partition}"), work))
        self._require(self._until(lambda: all(one.done() for one in last), HEAL_MS), "a partition takes no writes")
        if self._is_transactional:
            ended = self._begin(Transactor(cluster, model, "last transactor"), Transactor.end)
            self._require(self._until(ended.done, HEAL_MS), "the transactional id has no coordinator")
        acknowledged = model.offsets_acknowledged
        offset = self._begin(Committer(cluster, model, "last"), Committer.final)
        self._require(self._until(offset.done, HEAL_MS), "the group has no coordinator")
        self._transacted = self._offset_of_transactions() if self._is_transactional else -1
        self._require(
            acknowledged <= offset.result() <= model.offsets_sent, f"I1: the group has {offset.result()}, not {acknowledged}"
        )

    def _offset_of_transactions(self) -> int:
        reader = Committer(self._cluster, self.model, "last of transactions")
        reader.group = transactions.GROUP
        offset = self._begin(reader, Committer.final)
        self._require(self._until(offset.done, HEAL_MS), "the group of the transactions has no offset that is stable")
        return int(offset.result())

    def _end_clients(self) -> None:
        self._pass(1_000)  # readers get the end
        for client in self._clients:
            client.is_over = True
        self._require(self._until(lambda: all(one.done() for one in self._tasks), HEAL_MS), "a client does not end")
        for task in self._tasks:
            task.result()
        # A transaction without an end is aborted when its time is over, which may be only now.
        self._require(self._until(lambda: not checks.whats_not_full(self._cluster), HEAL_MS), "the replicas do not become equal")

    # --- faults ---

    def _fault(self) -> None:
        cluster, chance = self._cluster, self.chance
        node = chance.choice([*cluster.nodes, *self._leaders()])
        other = chance.choice([one for one in cluster.nodes if one != node] or [ETCD])
        kind = chance.choice(FAULTS)
        life = cluster.lives.get(node)
        if kind in {"kill", "crash", "stop", "pause"} and life is None:
            cluster.start(node)
            kind = "start"
        elif kind == "kill":
            cluster.kill(node)
        elif kind == "crash":
            if not self._may_lose(node):
                kind = "kill"
            (cluster.crash if kind == "crash" else cluster.kill)(node)
        elif kind == "stop" and life is not None and life.has_started and not life.loop.is_paused and not life.is_stopping:
            if not cluster.powerless:  # a broker that stops leaves the ISR, and others there may have lost what it has
                cluster.stop(node)
        elif kind == "pause":
            cluster.pause(node)
        elif kind == "cut":
            cluster.network.cut |= {(node, other), (other, node)}
        elif kind == "cut one way":
            cluster.network.cut.add((node, other))
        elif kind == "no store":
            cluster.network.cut |= chance.choice(({(node, ETCD)}, {(ETCD, node)}, {(node, ETCD), (ETCD, node)}))
        elif kind == "lossy store":
            cluster.store.lost_share = chance.choice((0.05, 0.2))
        elif kind == "break":
            cluster.network.break_one()
        elif kind == "move":
            self._move_leaders()
        elif kind == "mend":
            cluster.heal()
        self._note(f"{kind} {node}" + (f" to {other}" if kind.startswith("cut") else ""))

    def _move_leaders(self) -> None:
        """Let some other replica that is in sync lead each partition, as if it were the preferred one, up to three times."""
        lives = [
            life for life in self._cluster.lives.values() if life.has_started and not (life.loop.is_paused or life.is_stopping)
        ]
        for _ in range(self.chance.randint(1, 3) if lives else 0):
            target = self.chance.choice(self._cluster.nodes)
            life = self.chance.choice(lives)
            life.post(life.move_leaders, TOPIC, target)
            self._pass(self.chance.randrange(10, SHORT_MS))

    def _leaders(self) -> list[int]:
        """Return the leaders of the topic's partitions, whose faults show the most."""
        return [partition.leader for partition in self._cluster.store.image().topics[TOPIC].partitions if partition.leader > 0]

    def _may_lose(self, node: int) -> bool:
        """Return whether each partition that the broker may lead has another broker that may lead it, and has lost nothing."""
        whole = set(self._cluster.nodes) - self._cluster.powerless - {node}
        return all(
            whole.intersection(partition.isr + partition.elr)
            for topic in self._cluster.store.image().topics.values()
            for partition in topic.partitions
            if node in partition.isr + partition.elr
        )

    # --- time ---

    def _must_start(self) -> list[int]:
        lives = self._cluster.lives
        for node in self._cluster.nodes:
            if node not in lives:
                self._cluster.start(node)  # it did not start, as when the store did not respond
        return [node for node in self._cluster.nodes if not lives[node].has_started or lives[node].is_stopping]

    def _is_well(self, producers: list[asyncio.Task[Any]]) -> bool:
        return not self._must_start() and all(one.done() for one in producers) and not checks.whats_not_full(self._cluster)

    def _until(self, is_done: Callable[[], bool], within_ms: int) -> bool:
        for _ in range(within_ms // LOOK_MS):
            if is_done():
                return True
            self._pass(LOOK_MS)
        return is_done()

    def _pass(self, length_ms: int) -> None:
        for start_ms in range(0, length_ms, LOOK_MS):
            self._cluster.scheduler.run_for(min(LOOK_MS, length_ms - start_ms))
            self._watermarks.look(self._cluster)
            self._cluster.look_at_sessions()
            if self.model.problems or self._cluster.problems or self._logged:
                self._fail("")

    # --- what is wrong ---

    def _check(self) -> None:
        logs = checks.logs_of(self._cluster, TOPIC)
        found = [
            *self._watermarks.problems,
            *checks.wrong_elections(self._cluster),
            *checks.problems(self._cluster, self.model),
            *transactions.wrongly_read(self.model, logs),
            *(transactions.wrong_transactions(self.model, logs, self._transacted) if self._is_transactional else ()),
        ]
        if found:
            self._fail("\n".join(found))

    def _note(self, what: str) -> None:
        self._cluster.notes.append(f"{self._cluster.now_ms:7} ms  {what}")

    def _require(self, is_true: object, what: str) -> None:
        if not is_true:
            self._fail("\n".join([what, *checks.whats_not_full(self._cluster)]))

    def _fail(self, what: str) -> None:
        lines = [what, *self._logged, *self.model.problems, *self._cluster.problems, *self._watermarks.problems, "What was done:"]
        lines += [f"    {one}" for one in self._cluster.notes]
        raise FailedHistoryError(f"seed {self.seed}: " + "\n".join(line for line in lines if line))
