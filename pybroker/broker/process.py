"""A process that is one broker: its event loop, the signals that end it, and its exit code."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pybroker import native
from pybroker.broker import descriptors
from pybroker.broker.broker_server import BrokerServer
from pybroker.broker.joining import StartError
from pybroker.broker.lifecycle import Lifecycle
from pybroker.broker.parent_process import stop_without
from pybroker.broker.time_slice import ask_for_short_slices
from pybroker.sharing.turns.exceptions import START, STOP
from pybroker.sharing.turns.loop import new_event_loop
from pybroker.sharing.turns.watchdog import SWITCH, Watchdog, fail_ns

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence

    from pybroker.config.broker import BrokerConfig
    from pybroker.quorum.member import Member
    from pybroker.times.times import Times

Result = TypeVar("Result")

__all__ = ["StartError", "run"]

logger = logging.getLogger(__name__)

SWITCH_INTERVAL_S: Final = 0.001
"""For how long a thread that runs Python code may keep the interpreter when the loop wants it. CPython's default is 5 ms."""


def run(
    config: BrokerConfig,
    lifecycle: Lifecycle | None = None,
    *,
    stop_signals: Sequence[signal.Signals] = (signal.SIGTERM, signal.SIGINT),
    parent: int | None = None,
    member: Member | None = None,
) -> int:
    """Run a broker until one of `stop_signals`, or until its parent is another process than `parent`. Returns the exit code.

    `member` is the controllers' etcd that runs beside the broker, from before its start until after its stop.
    """
    watchdog = Watchdog(fail_ns=fail_ns())
    logger.log(logging.WARNING if native.is_lacking() else logging.INFO, "%s", native.summary())
    descriptors.allow_many()
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    if not ask_for_short_slices():
        logger.debug("The system grants no short time slices: on a busy machine, the event loop may wait longer for a core")
    with asyncio.Runner(loop_factory=partial(new_event_loop, watchdog)) as runner:
        serving = _serve(config, lifecycle or Lifecycle(), watchdog, stop_signals, parent)
        broker, code = runner.run(serving if member is None else _beside(member, serving))
        if broker.disks.has_hung:  # an ordinary exit would wait for the threads that wait for the disk
            logging.shutdown()
            os._exit(1)
        if watchdog.has_failed:
            logger.error("The broker ends with an error, because turns of the event loop were longer than %s allows", SWITCH)
            return 1
        return code


async def _beside(member: Member, serving: Coroutine[Any, Any, Result]) -> Result:
    """Run a broker while the controllers' etcd runs. Raises StartError, as the broker does."""
    try:
        await _begun(member)
        return await serving
    finally:
        serving.close()
        await member.stop()


async def _begun(member: Member) -> None:
    from pybroker.quorum.member import QuorumError  # noqa: PLC0415  a broker that is a cluster by itself imports nothing of it

    try:
        await member.start()
    except QuorumError as error:
        raise StartError(str(error)) from error


def run_controller(member: Member, lifecycle: Lifecycle | None, *, stop_signals: Sequence[signal.Signals]) -> int:
    """Run a controller without a broker until one of `stop_signals`. Returns the exit code. Raises StartError."""

    async def serve() -> int:
        loop, stop, announced = asyncio.get_running_loop(), asyncio.Event(), lifecycle or Lifecycle()
        try:
            await _begun(member)
            for name in stop_signals:
                loop.add_signal_handler(name, stop.set)
            await announced.announce_controller()
            await stop.wait()
            logger.info("Stopping")
            announced.stopping()
            began = loop.time()
        finally:
            await member.stop()
        logger.info("Stopped after %.2f s", loop.time() - began)
        return 0

    return asyncio.run(serve())


def _virtual_times(config: BrokerConfig) -> Times | None:
    """Return the times that a test moves, if the settings ask for such; they continue those of an earlier process."""
    if not config.pybroker_virtual_time:
        return None
    from pybroker.times.stored import StoredTimeError, stored_lanes  # noqa: PLC0415  only for tests
    from pybroker.times.virtual_times import VirtualTimes  # noqa: PLC0415

    try:
        return VirtualTimes(stored_lanes(Path(config.log_dirs[0])))
    except StoredTimeError as error:
        raise StartError(str(error)) from error


async def _serve(
    config: BrokerConfig, lifecycle: Lifecycle, watchdog: Watchdog, stop_signals: Sequence[signal.Signals], parent: int | None
) -> tuple[BrokerServer, int]:
    loop = asyncio.get_running_loop()
    watchdog.phase = START
    stop = asyncio.Event()
    if parent is not None:
        stop_without(parent, loop, stop)
    broker = BrokerServer(config, lifecycle=lifecycle, freeze=gc.freeze, times=_virtual_times(config))
    bound = await broker.start()
    loop.call_soon(setattr, watchdog, "phase", None)  # the turn that opened the sockets still belongs to the start
    for name in stop_signals:
        loop.add_signal_handler(name, stop.set)
    announcing = loop.create_task(lifecycle.announce(broker.config.node_id, bound, broker.groups_loaded))
    waiting = [loop.create_task(stop.wait()), loop.create_task(broker.failed.wait())]
    await asyncio.wait([announcing, *waiting], return_when=asyncio.FIRST_COMPLETED)
    bug = announcing.exception() if announcing.done() else None
    if announcing.done() and bug is None:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    for task in (announcing, *waiting):
        task.cancel()
    began = loop.time()
    logger.info("Stopping")
    watchdog.phase = STOP
    lifecycle.stopping()
    await broker.stop()
    logger.info("Stopped after %.2f s", loop.time() - began)
    if bug is not None:
        raise bug
    return broker, 1 if broker.failed.is_set() else 0
