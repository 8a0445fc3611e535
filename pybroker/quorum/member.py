"""Runs this process' member of etcd: it starts before the broker, is started again when it ends, and stops after the broker.

It ends with this process, whatever ends that. Its errors come in this process' log, its warnings at debug.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import signal
import sys
import uuid
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pybroker.metadata.store.etcd import messages
from pybroker.metadata.store.etcd.address import parse
from pybroker.metadata.store.etcd.gateway import Gateway, LostError, NotSentError, RefusedError
from pybroker.network.binding import why_not_listen
from pybroker.network.limits import host_and_port
from pybroker.quorum.etcd_command import MISSING, command, executable, logged
from pybroker.quorum.members import CLIENT_PORT_ABOVE
from pybroker.quorum.replacement import is_joining

if TYPE_CHECKING:
    from pybroker.quorum.members import Quorum, Voter

logger = logging.getLogger(__name__)

STOP_S: Final = 1.5
"""A leader of etcd hands over to another member in less. Without a majority it would try for seven seconds, so it is killed: what
it has acknowledged is on its disk.
"""
BACK_OFF_S: Final = (0.2, 1.0, 5.0)
"""The pauses before the first restarts of a member that ends again and again; the last one holds from then on."""
STEADY_S: Final = 30.0
"""A member that ran for so long is restarted as if it had never ended before."""
LOOK_S: Final = 0.1
PORTS_S: Final = 10.0
REMIND_S: Final = 30.0
KEPT_LINES: Final = 3
REMOVED: Final = "removed from the cluster"
"""In the line of etcd 3.4 and newer when it ends because it is no member any more ("the member has been permanently ...")."""
_PR_SET_PDEATHSIG: Final = 1


class QuorumError(Exception):
    """The member cannot be run; the text gives the reason, for a person."""


class Member:
    """The member of etcd beside this process. Use `start` and `stop` once each, on a running loop."""

    def __init__(self, quorum: Quorum, folder: str, token: str) -> None:
        self._quorum, self._folder, self._token = quorum, folder, token
        self._running: asyncio.Task[None] | None = None
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Start the member if this process has one, and wait until a majority of all members serves. Raises QuorumError.

        The wait has no limit, because the other machines may start later.
        """
        if (own := self._quorum.own) is not None:
            program = executable()
            if program is None:
                raise QuorumError(MISSING)
            await self._wait_for_ports(own)  # before the others hear anything: a second process is no new member
            try:
                arguments = await self._arguments(program, own)
            except OSError as error:
                raise QuorumError(f"{self._quorum.listen_host}: {error.strerror}") from error
            self._running = asyncio.create_task(self._keep_running(program, own, arguments))
        await self._majority()

    async def _arguments(self, program: str, own: Voter) -> list[str]:
        """Return the command line, after the others have taken a new member if this one has no data. Raises OSError."""
        joins = not self._has_data() and await is_joining(self._quorum, own)
        return command(program, self._quorum, self._folder, self._token, is_joining=joins)

    async def _wait_for_ports(self, own: Voter) -> None:
        """Wait until the ports are free: the etcd of a broker that was killed still ends. Raises QuorumError if they are not."""
        loop = asyncio.get_running_loop()
        end = loop.time() + PORTS_S
        for number, whom in ((own.port, "the other controllers"), (own.port + CLIENT_PORT_ABOVE, "brokers")):
            while (reason := await why_not_listen(self._quorum.listen_host, number)) is not None:
                if loop.time() > end:
                    address = host_and_port(self._quorum.listen_host, number)
                    raise QuorumError(
                        f"listeners: controller {own.name} cannot listen at {address} for {whom}: {reason}. Another program "
                        "listens there, or this node runs already: stop it, or give the controller another port in listeners and "
                        f"in the list of the controllers (it takes that port, and the one {CLIENT_PORT_ABOVE} above)"
                    )
                await asyncio.sleep(LOOK_S)

    def _has_data(self) -> bool:
        return Path(self._folder, "member").exists()

    async def stop(self) -> None:
        """Stop the member, and wait for its end; idempotent."""
        if self._running is not None:
            self._running.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._running
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_S)
        except TimeoutError:
            logger.debug("The controller's etcd has not stopped in %g s, and is killed", STOP_S)
            process.kill()
            await process.wait()

    async def _keep_running(self, program: str, own: Voter, arguments: list[str]) -> None:
        loop, ends = asyncio.get_running_loop(), 0
        while True:
            began, is_removed = loop.time(), False
            try:
                self._process = process = await asyncio.create_subprocess_exec(
                    *arguments,
                    stdout=asyncio.subprocess.DEVNULL,
                    stderr=asyncio.subprocess.PIPE,
                    preexec_fn=_end_with_parent,
                    start_new_session=True,  # Ctrl-C at a terminal stops the broker, which then stops it
                )
            except OSError as error:
                reason = error.strerror or str(error)
            else:
                logger.info(
                    "Controller %s runs etcd as process %d, at %s for the other controllers and at port %d for brokers",
                    own.name,
                    process.pid,
                    host_and_port(self._quorum.listen_host, own.port),
                    own.port + CLIENT_PORT_ABOVE,
                )
                last, is_removed = await _forward(process)
                reason = f"exit code {await process.wait()}{last}"
            ends = 0 if loop.time() - began > STEADY_S else ends
            pause_s = BACK_OFF_S[min(ends, len(BACK_OFF_S) - 1)]
            ends += 1
            logger.error("The etcd of controller %s has ended, and is started again in %.1f s: %s", own.name, pause_s, reason)
            await asyncio.sleep(pause_s)
            if is_removed:
                try:
                    arguments = await self._begin_again(program, own)
                except OSError as error:
                    logger.error("The data of controller %s cannot be set aside, which is tried again: %s", own.name, error)  # noqa: TRY400

    async def _begin_again(self, program: str, own: Voter) -> list[str]:
        """Join as a new member, because the others have taken another one in place of this one, and etcd knows no way back."""
        aside = self._set_aside()
        logger.warning(
            "The other controllers have removed controller %s: a process without its data was started in its place. It joins "
            "them as a new member, and its old data is kept in %s",
            own.name,
            aside,
        )
        return await self._arguments(program, own)

    def _set_aside(self) -> Path:
        """Keep the data of a former member under another name, and return that. Raises OSError."""
        return Path(self._folder, "member").rename(Path(self._folder, f"removed-{uuid.uuid4().hex[:8]}"))

    async def _majority(self) -> None:
        gateway = Gateway(parse(self._quorum.metadata_store.removeprefix("etcd:")).endpoints)
        loop = asyncio.get_running_loop()
        remind_at = loop.time() + 2.0
        voters = ", ".join(f"{voter.name} at {voter.host}:{voter.port}" for voter in self._quorum.voters)
        try:
            while True:
                try:
                    await gateway.call(messages.RANGE, messages.read("pybroker"))
                except (NotSentError, LostError, RefusedError) as error:
                    reason = str(error)
                else:
                    break
                if loop.time() >= remind_at:
                    remind_at = loop.time() + REMIND_S
                    logger.warning(
                        "Waiting for a majority of the controllers (%s), without which no broker starts: %s. Members: %s",
                        voters,
                        reason,
                        await gateway.described(),
                    )
                await asyncio.sleep(LOOK_S)
        finally:
            gateway.close()
        logger.info("A majority of the controllers serves: %s", voters)


async def _forward(process: asyncio.subprocess.Process) -> tuple[str, bool]:
    """Log what a member logs until it ends. Return its last lines, to be shown as the reason of its end, and whether it ended
    because the others have removed it.
    """
    assert process.stderr is not None
    last: deque[str] = deque(maxlen=KEPT_LINES)
    is_removed = False
    while line := await process.stderr.readline():
        level, text = logged(line)
        logger.log(level, "etcd: %s", text)
        last.append(text)
        is_removed = is_removed or REMOVED in text
    return "".join(f"; {text}" for text in last), is_removed


def _end_with_parent() -> None:
    """Let the kernel end this process when its parent ends. Runs in the child, before etcd."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
