"""The first start of all, killed, and a loss of power after the second one."""

from __future__ import annotations

from tests.simulation.broker import START_MS, World
from tests.simulation.disk import SimulatedDisk
from tests.simulation.store import StoreContents


def test_the_store_knows_a_directory_only_when_its_id_is_durable() -> None:
    first = World(seed=1)
    first.disk.make_directory("/a")
    first.disk.sync_directory("/")
    config = first.config(log_dirs=["/a"])
    killed: list[tuple[SimulatedDisk, StoreContents]] = []

    def on_operation(kind: str, path: str) -> None:
        if (kind, path) == ("sync_directory", "/a") and not killed:
            killed.append((first.disk.fork(), first.contents.fork()))

    with first.process(config) as process:
        first.disk.on_operation = on_operation
        process.run(process.broker.start())
    disk, contents = killed[0]
    second = World(seed=2, disk=disk, contents=contents, now_ms=START_MS)
    assert second.disk.exists("/a/meta.properties")
    with second.process(config) as process:
        process.run(process.broker.start())
    second.disk.crash()
    third = World(seed=3, disk=second.disk, contents=second.contents, now_ms=START_MS)
    with third.process(config) as process:
        process.run(process.broker.start())
        assert [one.failure for one in process.broker.log_manager.directories] == [None]
