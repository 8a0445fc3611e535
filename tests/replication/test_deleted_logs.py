"""A deleted log is freed at once, without a collection: one that was frozen would never be freed (`sharing/turns/garbage.py`)."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pybroker.config.broker import BrokerConfig
from pybroker.log.log import Log
from pybroker.log.manager.manager import LogManager
from pybroker.metrics.broker_metrics import BrokerMetrics
from pybroker.model import BrokerId, TopicPartition
from pybroker.purgatory.purgatory import Purgatory
from pybroker.replication.replica_manager import ReplicaManager
from testing.scenes.logs import Disk, append, batch
from testing.scenes.replication.scene import BROKER, ReplicaScene

TP = TopicPartition("t", 0)


@pytest.fixture(autouse=True)
def _no_collections() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


class StoredScene(ReplicaScene):
    """A replica manager with logs in two directories; the test takes the turns of the moves."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        disk = Disk(folder)
        self.turns: list[Callable[[], None]] = []
        self.stored = LogManager(
            [str(folder / "a"), str(folder / "b")],
            cluster_id="cluster",
            node_id=BrokerId(BROKER),
            services=disk.services,
            config_of=lambda _: disk.config,
        )
        self.stored.start()
        self.manager = ReplicaManager(
            broker_id=BrokerId(BROKER),
            config=BrokerConfig(),
            clock=self.clock,
            log_manager=self.stored,
            image=self.image,
            metrics=BrokerMetrics(),
            fetch_purgatory=Purgatory("Fetch", self.timer),
            timer=self.timer,
            later=self.turns.append,
        )

    def paths(self) -> list[str]:
        """Return the paths of all logs that are in memory."""
        paths = {str(Path(directory.path)) for directory in self.stored.directories}
        return [one.path for one in gc.get_objects() if type(one) is Log and str(Path(one.path).parent) in paths]


def test_a_deleted_log_is_freed_without_a_collection(tmp_path: Path) -> None:
    scene = StoredScene(tmp_path)
    scene.topic("t", configs={"flush.messages": "1"})
    log = scene.stored.get(TP)
    assert log is not None
    append(log, batch())
    del log
    assert len(scene.paths()) == 1
    scene.remove("t")
    assert scene.paths() == []
    scene.stored.stop()


def test_a_log_that_has_moved_is_freed_without_a_collection(tmp_path: Path) -> None:
    scene = StoredScene(tmp_path)
    scene.topic("t")
    log = scene.stored.get(TP)
    assert log is not None
    append(log, batch())
    old = log.path
    target = next(one for one in scene.stored.directories if one is not log.log_directory)
    del log
    scene.manager.moves.start(TP, target)
    while scene.turns:
        scene.turns.pop(0)()
    assert [path for path in scene.paths() if path != old] == [f"{target.path}/t-0"]
    assert old not in scene.paths()
    scene.remove("t")
    assert scene.paths() == []
    scene.stored.stop()
