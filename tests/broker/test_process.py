"""The process of a broker: what it sets before its loop runs, and its exit code."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker.broker import process
from pybroker.config.broker import BrokerConfig
from pybroker.sharing.turns.watchdog import SWITCH, Watchdog, current


@pytest.fixture(autouse=True)
def _switch_interval() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


def run_with(monkeypatch: pytest.MonkeyPatch, turn_ms: int) -> tuple[int, dict[str, Any]]:
    """Run the process with a broker that does nothing but one turn of this length; return its code and what the turn saw."""
    seen: dict[str, Any] = {}

    async def serve(_config: object, _lifecycle: object, watchdog: Watchdog, *_: object) -> tuple[Any, int]:
        seen["interval_s"], seen["is_watched"] = sys.getswitchinterval(), current() is watchdog
        watchdog.watch.apart("work", turn_ms * 1_000_000, 0)
        await asyncio.sleep(0)
        return SimpleNamespace(disks=SimpleNamespace(has_hung=False)), 0

    monkeypatch.setattr(process, "_serve", serve)
    return process.run(BrokerConfig(node_id=1)), seen


def test_the_loop_is_watched_and_gets_the_interpreter_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_with(monkeypatch, turn_ms=0) == (0, {"interval_s": process.SWITCH_INTERVAL_S, "is_watched": True})


@pytest.mark.parametrize(("asked", "code"), [("", 0), ("fail", 1), ("fail:100", 0)])
def test_a_long_turn_is_an_error_where_the_environment_asks_for_it(
    asked: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(SWITCH, asked)
    assert run_with(monkeypatch, turn_ms=30)[0] == code
