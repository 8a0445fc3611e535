"""A process that is one broker: its event loop, the signals that end it, and its exit code."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from typing import TYPE_CHECKING

from pybroker import native
from pybroker.broker import descriptors
from pybroker.broker.broker_server import BrokerServer, StartError
from pybroker.broker.lifecycle import Lifecycle

if TYPE_CHECKING:
    from pybroker.config.broker import BrokerConfig

__all__ = ["StartError", "run"]

logger = logging.getLogger(__name__)


def run(config: BrokerConfig, lifecycle: Lifecycle | None = None) -> int:
    """Run a broker until SIGTERM or SIGINT. Returns the exit code."""
    try:
        import uvloop  # noqa: PLC0415  not there on every system
    except ImportError:
        loop_factory = asyncio.new_event_loop
    else:
        loop_factory = uvloop.new_event_loop
    logger.info("%s", native.summary())
    descriptors.allow_many()
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        broker, code = runner.run(_serve(config, lifecycle or Lifecycle()))
        if broker.disks.has_hung:  # an ordinary exit would wait for the threads that wait for the disk
            logging.shutdown()
            os._exit(1)
        return code


async def _serve(config: BrokerConfig, lifecycle: Lifecycle) -> tuple[BrokerServer, int]:
    broker = BrokerServer(config, lifecycle=lifecycle)
    bound = await broker.start()
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for name in (signal.SIGTERM, signal.SIGINT):
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
    lifecycle.stopping()
    await broker.stop()
    logger.info("Stopped after %.2f s", loop.time() - began)
    if bug is not None:
        raise bug
    return broker, 1 if broker.failed.is_set() else 0
