"""Work that no caller waits for any more runs to its end, and its failure is one line in the log."""

from __future__ import annotations

import asyncio

import pytest

from pybroker.metadata.uninterrupted import Uninterrupted


def test_work_that_fails_after_its_caller_was_cancelled_has_one_line(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        unhandled: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unhandled.append(context))
        may_end = asyncio.Event()

        async def work() -> None:
            await may_end.wait()
            raise ValueError("no response")

        uninterrupted = Uninterrupted()
        waiting = asyncio.ensure_future(uninterrupted.run(work()))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        may_end.set()
        for _ in range(3):
            await asyncio.sleep(0)
        assert not unhandled

    asyncio.run(scenario())
    (line,) = caplog.messages
    assert line == "A change of the metadata failed; the request that asked for it was given up before: no response"
