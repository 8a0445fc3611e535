"""The promise of `flush.ms` holds from the start on, whatever the clock does: a loss of power takes only the last M + S ms."""

from __future__ import annotations

import asyncio
import errno
import functools

import pytest

from pybroker.config.broker import BrokerConfig
from pybroker.log.log import Log
from pybroker.metadata.new_topic import NewTopic
from pybroker.model import BrokerId
from testing.scenes.logs import append, batch
from testing.simulation.broker import Process, World
from testing.simulation.faults import Fault

FLUSH_MS, LOOK_MS = 1_000, 500
HOUR_MS = 3_600_000


@functools.cache
def config() -> BrokerConfig:
    return BrokerConfig(
        node_id=BrokerId(1),
        listeners="PLAINTEXT://127.0.0.1:0",
        log_dirs=("/a",),
        log_flush_interval_ms=FLUSH_MS,
        log_flush_scheduler_interval_ms=LOOK_MS,
    )


def world() -> World:
    made = World(seed=1)
    made.disk.make_directory("/a")
    made.disk.sync_all()
    return made


def create(process: Process, **configs: str) -> Log:
    """Create a topic of one partition; return its log, which is durable as it is now."""
    new = NewTopic(name="t", partition_count=1, configs={name.replace("_", "."): value for name, value in configs.items()})
    (outcome,) = process.run(process.broker.controller.create_topics([new]))
    assert outcome.error is None
    return log_of(process)


def log_of(process: Process) -> Log:
    (log,) = process.broker.log_manager.all_logs()
    return log


def wait(process: Process) -> None:
    """Let the time pass after which `flush.ms` promises that a record is durable."""
    process.run(asyncio.sleep((FLUSH_MS + LOOK_MS + 50) / 1000))


def records_after_a_loss_of_power(made: World) -> int:
    """Return the number of records that a start finds after the machine has lost all that was not synced."""
    made.disk.crash()
    with made.process(config()) as process:
        process.run(process.broker.start())
        return log_of(process).log_end_offset


def test_a_record_of_the_first_seconds_after_a_start_is_durable_in_time() -> None:
    made = world()
    with made.process(config()) as process:
        process.run(process.broker.start())
        append(create(process), batch())
        wait(process)
    assert records_after_a_loss_of_power(made) == 1


def test_records_that_a_start_has_recovered_are_durable_in_time_though_no_other_follows() -> None:
    made = world()
    with made.process(config()) as process:
        process.run(process.broker.start())
        log = create(process)
        append(log, batch())
        log.flush()
        process.run(asyncio.sleep(0.1))
        append(log, batch())
        assert (log.recovery_point, log.log_end_offset) == (1, 2)
    with made.process(config()) as process:  # after a kill, which loses nothing
        process.run(process.broker.start())
        assert log_of(process).log_end_offset == 2
        wait(process)
    assert records_after_a_loss_of_power(made) == 2


@pytest.mark.parametrize("jump_ms", [-HOUR_MS, HOUR_MS])
def test_a_record_is_durable_in_time_though_the_wall_clock_is_set(jump_ms: int) -> None:
    made = world()
    with made.process(config()) as process:
        process.run(process.broker.start())
        log = create(process)
        append(log, batch())
        wait(process)
        made.clock.jump(jump_ms)
        append(log, batch())
        wait(process)
    assert records_after_a_loss_of_power(made) == 2


def test_a_log_that_is_durable_is_not_synced_again() -> None:
    """Each pass of a broker with very many idle partitions would wait for the disk."""
    made = world()
    with made.process(config()) as process:
        process.run(process.broker.start())
        append(create(process), batch())
        wait(process)
        made.disk.operations.clear()
        wait(process)
        process.run(process.broker.stop())
    with made.process(config()) as process:
        process.run(process.broker.start())
        made.disk.operations.clear()
        wait(process)
        assert not [one for one in made.disk.operations if "sync" in one]


def test_a_flush_that_found_no_descriptor_is_tried_again_though_the_clock_was_set_back() -> None:
    made = world()
    with made.process(config()) as process:
        process.run(process.broker.start())
        log = create(process, flush_messages="1")
        append(log, batch())
        process.run(asyncio.sleep(0.1))
        made.disk.faults = [Fault(errno.EMFILE, kinds={"sync"}, path="/a/t-0/*")]
        append(log, batch())
        process.run(asyncio.sleep(0.1))
        assert not log.is_settled
        made.clock.jump(-HOUR_MS)
        process.run(asyncio.sleep(3))
        assert log.is_settled, "a consumer sees it"
