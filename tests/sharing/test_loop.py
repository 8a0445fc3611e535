"""Long work of one request gives the loop back."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pybroker.sharing import loop

if TYPE_CHECKING:
    from collections.abc import Generator


@pytest.fixture
def step_s(monkeypatch: pytest.MonkeyPatch) -> float:
    """Let each step take two fifths of a slice."""
    monkeypatch.setattr("pybroker.sharing.work.SLICE_S", 1.0)
    step_s, now_s = 0.4, 0.0

    def perf_counter() -> float:
        nonlocal now_s
        now_s += step_s
        return now_s

    monkeypatch.setattr("pybroker.sharing.work.perf_counter", perf_counter)
    return step_s


def work(steps: int, seen: list[str], end: Exception | str = "done") -> Generator[None, None, str]:
    try:
        for step in range(steps):
            seen.append(f"step {step}")
            yield
    finally:
        seen.append("closed")
    if isinstance(end, Exception):
        raise end
    return end


@pytest.mark.usefixtures("step_s")
def test_short_work_needs_no_loop() -> None:
    assert loop.in_slices(work(2, [])) == "done"
    with pytest.raises(ValueError, match="no"):
        loop.in_slices(work(1, [], ValueError("no")))


@pytest.mark.usefixtures("step_s")
async def test_others_get_their_turn_between_slices() -> None:
    seen: list[str] = []
    response = loop.in_slices(work(7, seen))
    assert isinstance(response, asyncio.Future)
    asyncio.get_running_loop().call_soon(seen.append, "another")
    assert await response == "done"
    assert seen == ["step 0", "step 1", "step 2", "step 3", "step 4", "step 5", "another", "step 6", "closed"]


@pytest.mark.usefixtures("step_s")
async def test_an_error_in_a_later_slice_goes_into_the_future() -> None:
    response = loop.in_slices(work(7, [], ValueError("no")))
    assert isinstance(response, asyncio.Future)
    with pytest.raises(ValueError, match="no"):
        await response


@pytest.mark.usefixtures("step_s")
async def test_work_ends_when_its_connection_closes() -> None:
    seen: list[str] = []
    response = loop.in_slices(work(100, seen))
    assert isinstance(response, asyncio.Future)
    response.cancel()
    turn = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(turn.set_result, None)
    await turn
    assert seen == ["step 0", "step 1", "step 2", "closed"]
