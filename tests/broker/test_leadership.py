"""The starts that raise the leader epochs: only those after which records may be gone, and each in a single commit."""

from __future__ import annotations

import logging
import os
import shutil
from pathlib import Path

import pytest

from pybroker.broker.leadership import renew_leader_epochs
from pybroker.clock import ManualClock
from pybroker.config.broker import BrokerConfig
from pybroker.config.topic import TopicConfig
from pybroker.log.directories.claims import KnownDirectory
from pybroker.log.log import Log
from pybroker.log.log_state import LogServices
from pybroker.log.manager.manager import LogManager
from pybroker.metadata.controller import Controller
from pybroker.metadata.leader_epochs import EPOCH_MAX
from pybroker.metadata.members import BrokerRegistration
from pybroker.metadata.new_topic import NewTopic
from pybroker.metadata.store.base import StoreError
from pybroker.model import BrokerId, LeaderEpoch, TopicPartition
from testing.scenes.logs import START_MS, append, batch
from testing.scenes.members import add_live_broker
from tests.metadata.test_controller import Failing

PARTITIONS = 6


class Node:
    """A store, and a broker's logs in directories a and b; `start` starts the broker up to its partitions."""

    def __init__(self, path: Path) -> None:
        self.path, self.store = path, Failing()
        self.known: list[KnownDirectory] = []

    async def start(self, *, make_logs: bool = True) -> None:
        self.controller = Controller(self.store, BrokerConfig(), broker_id=BrokerId(1))
        await self.controller.start(cluster_id="cluster")
        await add_live_broker(self.controller, BrokerRegistration(broker_id=BrokerId(1), endpoints={}))
        self.logs = LogManager(
            [str(self.path / "a"), str(self.path / "b")],
            cluster_id="cluster",
            node_id=BrokerId(1),
            services=LogServices(clock=ManualClock(START_MS)),
            config_of=lambda _: TopicConfig(),
        )
        claims = self.logs.claim(self.known)
        self.logs.start()
        self.known = claims.settled()
        before = self.controller.image.revision
        await renew_leader_epochs(self.controller, self.logs)
        self.commits = self.controller.image.revision - before
        if make_logs:
            self.make_logs()

    def make_logs(self) -> None:
        for topic in self.controller.image.topics.values():
            for number, partition in enumerate(topic.partitions):
                log = self.logs.create(TopicPartition(topic.name, number), topic.topic_id, TopicConfig())
                log.lead(partition.leader_epoch, log.log_end_offset)

    async def fill(self) -> None:
        await self.controller.create_topics([NewTopic(name="t", partition_count=PARTITIONS, configs={})])
        self.make_logs()
        for number in range(PARTITIONS):
            append(self.log(number), batch(3), leader_epoch=self.epoch)

    def log(self, number: int) -> Log:
        log = self.logs.get(TopicPartition("t", number))
        assert log is not None
        return log

    @property
    def epoch(self) -> int:
        (epoch,) = {partition.leader_epoch for partition in self.controller.image.topics["t"].partitions}
        return epoch

    async def restart(self, *, was_clean: bool) -> tuple[int, int]:
        """Start again, and return the epoch of all partitions and the number of commits."""
        if was_clean:
            self.logs.stop()
        else:
            self.logs.abandon()
        await self.start()
        return self.epoch, self.commits


def write_epochs(path: str, line: str) -> None:
    Path(path).write_text(f"0\n1\n{line}\n")


def cut(path: str) -> None:
    os.truncate(path, 0)


@pytest.fixture
async def node(tmp_path: Path) -> Node:
    node = Node(tmp_path)
    await node.start()
    assert (node.commits, node.controller.image.leader_epochs.counter) == (0, 0), "a new broker begins at 0"
    await node.fill()
    return node


async def test_a_clean_restart_keeps_the_epochs(node: Node) -> None:
    assert await node.restart(was_clean=True) == (0, 0)
    assert await node.restart(was_clean=True) == (0, 0)


async def test_an_unclean_one_raises_all_in_one_commit(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "pybroker.broker.leadership"):
        assert await node.restart(was_clean=False) == (1, 1)
    assert f"{node.path}/a with 3 logs was not stopped cleanly; {node.path}/b with 3 logs" in caplog.text
    assert await node.restart(was_clean=True) == (1, 0)
    assert node.log(0).end_offset_for_epoch(LeaderEpoch(0)) == (0, 3)
    assert node.log(0).end_offset_for_epoch(LeaderEpoch(1)) == (1, 3)
    assert await node.restart(was_clean=False) == (2, 1)


async def test_a_log_that_lost_its_end_raises_all_after_a_clean_stop_too(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.logs.stop()
    (path,) = node.path.glob("?/t-3/*.log")
    path.write_bytes(path.read_bytes()[:-1])
    with caplog.at_level(logging.INFO, "pybroker.broker.leadership"):
        await node.start()
    assert (node.epoch, node.commits) == (1, 1)
    assert "1 partitions (t-3) gave up records" in caplog.text


async def test_one_of_two_directories_is_enough(node: Node) -> None:
    node.logs.stop()
    (node.path / "b" / ".kafka_cleanshutdown").unlink()
    await node.start()
    assert (node.epoch, node.commits) == (1, 1)


async def test_a_start_that_ends_before_the_epochs_are_raised_leaves_it_to_the_next(node: Node) -> None:
    node.logs.stop()
    (node.path / "a" / ".kafka_cleanshutdown").unlink()
    node.store.refuses = True
    with pytest.raises(StoreError, match="the disk is full"):
        await node.start()
    node.store.refuses = False
    assert await node.restart(was_clean=False) == (1, 1)


async def test_directories_without_logs_raise_nothing(tmp_path: Path) -> None:
    node = Node(tmp_path)
    await node.start()
    node.logs.abandon()
    await node.start()
    assert node.commits == 0


async def test_a_log_that_is_gone(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    path = node.log(2).path
    node.logs.stop()
    shutil.rmtree(path)
    with caplog.at_level(logging.INFO, "pybroker.broker.leadership"):
        await node.start()
    assert (node.epoch, node.commits) == (1, 1)
    assert "1 partitions (t-2) without a log" in caplog.text
    assert node.log(2).end_offset_for_epoch(LeaderEpoch(0)) == (0, 0), "a consumer at 3 sees that nothing is left"
    assert node.log(3).end_offset_for_epoch(LeaderEpoch(0)) == (0, 3), "and others that nothing is missing"


@pytest.mark.parametrize("line", ["7 0", "7 3"], ids=["of its records", "of records that it does not have"])
async def test_a_log_of_a_later_epoch_than_the_metadata_has(node: Node, line: str) -> None:
    path = node.log(4).epochs.path
    node.logs.stop()
    write_epochs(path, line)
    await node.start()
    assert (node.epoch, node.commits) == (8, 1)
    assert await node.restart(was_clean=True) == (8, 0)


async def test_a_log_that_lost_records_although_the_stop_was_clean(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    path = node.log(1).segments.active.path
    node.logs.stop()
    cut(path)
    with caplog.at_level(logging.INFO, "pybroker.broker.leadership"):
        await node.start()
    assert (node.epoch, node.commits) == (1, 1)
    assert "1 partitions (t-1) gave up records" in caplog.text
    assert node.log(1).end_offset_for_epoch(LeaderEpoch(0)) == (0, 0)


async def test_a_directory_that_is_away_and_comes_back(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    node.logs.stop()
    (node.path / "b").rename(node.path / "elsewhere")
    await node.start(make_logs=False)
    assert (node.epoch, node.commits) == (0, 0), "nothing is made again"
    node.logs.stop()
    shutil.rmtree(node.path / "b", ignore_errors=True)
    (node.path / "elsewhere").rename(node.path / "b")
    with caplog.at_level(logging.INFO, "pybroker.broker.leadership"):
        await node.start()
    assert (node.epoch, node.commits) == (1, 1)
    assert "1 log directories came back" in caplog.text
    assert await node.restart(was_clean=True) == (1, 0)


async def test_many_partitions_are_named_by_the_first(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    paths = [node.log(number).path for number in range(PARTITIONS)]
    node.logs.stop()
    for path in paths:
        shutil.rmtree(path)
    with caplog.at_level(logging.INFO, "pybroker.broker.leadership"):
        await node.start()
    assert "6 partitions (t-0, t-1, t-2, t-3, t-4 and 1 more) without a log" in caplog.text


async def test_where_there_is_no_epoch_left_the_log_reports_it(node: Node, caplog: pytest.LogCaptureFixture) -> None:
    await node.controller.raise_leader_epochs(above=EPOCH_MAX)
    assert (await node.restart(was_clean=False))[0] == EPOCH_MAX
    assert "There is no leader epoch above 2147483647" in caplog.text
