"""The very first start, which is killed, and a loss of power in the second start."""

from __future__ import annotations

from testing.simulation.broker import START_MS, World
from testing.simulation.disk import SimulatedDisk
from testing.simulation.store import StoreContents


def stopped_at(world: World, operation: str) -> tuple[SimulatedDisk, StoreContents]:
    """Return the disk and the store at the start's first operation with this beginning."""
    found: list[tuple[SimulatedDisk, StoreContents]] = []

    def on_operation(kind: str, path: str) -> None:
        if f"{kind} {path}".startswith(operation) and not found:
            found.append((world.disk.fork(), world.contents.fork()))

    with world.process(world.config(log_dirs=["/a"])) as process:
        world.disk.on_operation = world.contents.on_operation = on_operation
        process.run(process.broker.start())
    return found[0]


def test_the_store_knows_a_directory_only_when_its_id_is_durable() -> None:
    first = World(seed=1)
    first.disk.make_directory("/a")
    first.disk.sync_directory("/")
    disk, contents = stopped_at(first, "sync_directory /a")
    assert disk.exists("/a/meta.properties")
    disk, contents = stopped_at(World(seed=2, disk=disk, contents=contents, now_ms=START_MS), "committed directories")
    disk.crash()
    third = World(seed=3, disk=disk, contents=contents, now_ms=START_MS)
    with third.process(third.config(log_dirs=["/a"])) as process:
        process.run(process.broker.start())
        assert [one.failure for one in process.broker.log_manager.directories] == [None]
