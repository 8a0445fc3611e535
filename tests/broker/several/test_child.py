"""The process of one of several brokers: when it is ready, when it is started again, and how it stops."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Sequence

import pytest

from pybroker.broker.several import child as child_module
from pybroker.broker.several.child import Child, FailedStartError
from testing.waiting import LONG_WAIT_S

SERVES = (
    "import signal, sys; signal.signal(15, lambda *_: sys.exit(0)); print('READY 127.0.0.1:4711', flush=True); signal.pause()"
)
DOES_NOT_STOP = (
    "import signal; signal.signal(15, signal.SIG_IGN); print('READY 127.0.0.1:4711', flush=True)\nwhile 1: signal.pause()"
)
FAILS = "import sys; sys.exit(3)"


class Scene:
    """A child whose starts run these programs, the last one again and again."""

    def __init__(self, *programs: str) -> None:
        self.programs, self.ports = list(programs), list[int | None]()
        self.changed = asyncio.Event()
        self.child = Child(2, self.command_of, self.changed.set)

    def command_of(self, port: int | None) -> Sequence[str]:
        self.ports.append(port)
        return [sys.executable, "-c", self.programs.pop(0) if len(self.programs) > 1 else self.programs[0]]

    async def address_changes(self) -> str | None:
        await asyncio.wait_for(self.changed.wait(), LONG_WAIT_S)
        self.changed.clear()
        return self.child.address


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "PAUSE_S", 0.001)


async def test_a_broker_that_was_killed_is_started_again_on_its_port_and_stops_cleanly() -> None:
    scene = Scene(SERVES)
    running = asyncio.create_task(scene.child.run())
    assert await scene.address_changes() == "127.0.0.1:4711"
    pid = scene.child.pid
    os.kill(pid, signal.SIGKILL)
    assert await scene.address_changes() is None
    assert await scene.address_changes() == "127.0.0.1:4711"
    assert scene.child.pid != pid
    assert scene.ports == [None, 4711]
    scene.child.stop()
    assert await asyncio.wait_for(running, LONG_WAIT_S)
    assert scene.child.address is None


async def test_a_first_start_that_fails_is_an_error_and_a_later_one_is_repeated() -> None:
    with pytest.raises(FailedStartError, match="Broker 2 did not start"):
        await Scene(FAILS).child.run()
    scene = Scene(SERVES, FAILS, FAILS, SERVES)
    running = asyncio.create_task(scene.child.run())
    assert await scene.address_changes() is not None
    os.kill(scene.child.pid, signal.SIGKILL)
    assert await scene.address_changes() is None
    assert await scene.address_changes() is not None
    assert len(scene.ports) == 4
    scene.child.stop()
    assert await asyncio.wait_for(running, LONG_WAIT_S)


@pytest.mark.parametrize(("steady_s", "pauses_ms"), [(LONG_WAIT_S, [1, 2, 4]), (0.0, [1, 1, 1])])
async def test_the_pause_grows_while_a_broker_ends_soon_after_it_was_ready(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, steady_s: float, pauses_ms: list[int]
) -> None:
    monkeypatch.setattr(child_module, "STEADY_S", steady_s)
    scene = Scene(SERVES)
    running = asyncio.create_task(scene.child.run())
    for _ in pauses_ms:
        assert await scene.address_changes() is not None
        os.kill(scene.child.pid, signal.SIGKILL)
        assert await scene.address_changes() is None
    assert await scene.address_changes() is not None
    scene.child.stop()
    assert await asyncio.wait_for(running, LONG_WAIT_S)
    lines = [record.args for record in caplog.records if "is started again" in record.getMessage()]
    assert [round(args[2] * 1000) for args in lines if isinstance(args, tuple)] == pauses_ms  # type: ignore[operator]


async def test_a_broker_that_is_stopped_between_two_starts_is_not_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "PAUSE_S", LONG_WAIT_S)
    scene = Scene(SERVES)
    running = asyncio.create_task(scene.child.run())
    assert await scene.address_changes() is not None
    os.kill(scene.child.pid, signal.SIGKILL)
    assert await scene.address_changes() is None
    await asyncio.sleep(0)
    scene.child.stop()
    assert await running
    assert len(scene.ports) == 1


async def test_a_broker_that_does_not_stop_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "STOP_S_MAX", 0.05)
    scene = Scene(DOES_NOT_STOP)
    running = asyncio.create_task(scene.child.run())
    assert await scene.address_changes() is not None
    scene.child.stop()
    assert not await asyncio.wait_for(running, LONG_WAIT_S)
    with contextlib.suppress(ProcessLookupError):
        os.kill(scene.child.pid, 0)
        pytest.fail("the process is still there")
