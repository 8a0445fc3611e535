"""Which logs a start takes as complete, so that the broker stays among the replicas that may lead."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker.broker.joining import Membership
from pybroker.clock import ManualClock
from pybroker.config.broker import BrokerConfig
from pybroker.config.topic import TopicConfig
from pybroker.log.directories.claims import KnownDirectory
from pybroker.log.files.filesystem import Filesystem
from pybroker.log.log_state import LogServices
from pybroker.log.manager.manager import LogManager
from pybroker.metadata.controller import Controller
from pybroker.metadata.members import BrokerRegistration
from pybroker.metadata.store.memory import MemoryStore
from pybroker.model import BrokerId, TopicId, TopicPartition
from testing.scenes.logs import START_MS, append, batch

LEFT, RIGHT = TopicPartition("t", 0), TopicPartition("t", 1)
BOTH = {LEFT, RIGHT}
OTHER = TopicPartition("t", 7)


class Machine(Filesystem):
    """The file system of a machine, which is booted again by the test."""

    boot = b"first"

    def boot_id(self) -> bytes:
        return self.boot


class Node:
    """A broker with a log in each of two directories; `start` returns which of its partitions have complete logs."""

    def __init__(self, path: Path) -> None:
        self.path, self.machine = path, Machine()
        self.known: list[KnownDirectory] = []
        self.logs: LogManager

    async def start(self, *, fails: bool = False) -> set[TopicPartition]:
        store = MemoryStore()
        controller = Controller(store, BrokerConfig(), broker_id=BrokerId(1))
        await controller.start(cluster_id="cluster")
        await controller.register_broker(BrokerRegistration(broker_id=BrokerId(2), endpoints={}))
        self.logs = LogManager(
            [str(self.path / "a"), str(self.path / "b")],
            cluster_id="cluster",
            node_id=BrokerId(1),
            services=LogServices(clock=ManualClock(START_MS)),
            config_of=lambda _: TopicConfig(),
            filesystem=self.machine,
        )
        claims = self.logs.claim(self.known)
        self.logs.start()
        membership = Membership(controller, store, BrokerConfig(), ManualClock())
        assert membership.control is not None
        complete: set[TopicPartition] = set()

        async def step_aside(is_complete: Callable[[TopicPartition], bool]) -> None:
            complete.update(one for one in (LEFT, RIGHT, OTHER) if is_complete(one))
            if fails:
                raise OSError("the store cannot be reached")

        membership.control.step_aside = step_aside  # type: ignore[assignment, method-assign]
        await membership.opened(self.logs)
        self.known = claims.settled()
        return complete

    def fill(self) -> None:
        for one in (LEFT, RIGHT):
            log = self.logs.create(one, TopicId(b"topic-of-16bytes"), TopicConfig())
            append(log, batch(3), leader_epoch=0)
            log.flush()


@pytest.fixture
async def node(tmp_path: Path) -> Node:
    node = Node(tmp_path)
    assert await node.start() == set()
    node.fill()
    return node


async def test_after_a_clean_stop_and_after_a_kill_in_the_same_boot_all_logs_are_complete(node: Node) -> None:
    node.logs.stop()
    assert await node.start() == BOTH
    for _ in range(2):
        node.logs.abandon()
        assert await node.start() == BOTH
    node.logs.stop()
    node.machine.boot = b"second"
    assert await node.start() == BOTH, "a clean stop has synced everything"


@pytest.mark.parametrize("boot", [b"second", b""])
async def test_after_another_boot_without_a_clean_stop_no_log_is_complete(node: Node, boot: bytes) -> None:
    node.logs.abandon()
    node.machine.boot = boot
    assert await node.start() == set()


async def test_a_start_that_could_not_leave_the_isrs_does_not_make_the_next_one_complete(node: Node) -> None:
    node.logs.abandon()
    node.machine.boot = b"second"
    with pytest.raises(OSError, match="the store"):
        await node.start(fails=True)
    node.logs.abandon()
    assert await node.start() == set()


async def test_logs_of_a_directory_that_was_away_or_of_which_one_lost_records_are_not_complete(node: Node) -> None:
    left = node.logs.get(LEFT)
    assert left is not None
    path = left.log_directory.path
    node.logs.stop()
    shutil.move(path, node.path / "away")
    assert await node.start() == {RIGHT}
    node.logs.stop()
    shutil.rmtree(path, ignore_errors=True)
    shutil.move(node.path / "away", path)
    assert await node.start() == {RIGHT}, "it is back, and others may have more"
    node.logs.stop()
    assert await node.start() == BOTH
    node.logs.stop()
    os.truncate(f"{path}/t-0/{0:020d}.log", 0)
    assert await node.start() == {RIGHT}
