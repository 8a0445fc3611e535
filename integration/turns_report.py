"""The longest turns of all brokers that a run of the tests has started, listed at its end."""

from __future__ import annotations

from typing import Any, Final

import pytest

from testing.process.broker import longest_turns

LISTED_MAX: Final = 10
_KEY: Final = "longest turns"


class TurnsReport:
    """A plugin: a worker hands in its turns when it ends, and the process that began the run lists those of all."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._longest: dict[str, float] = {}

    def _add(self, turns: dict[str, float]) -> None:
        for what, held_ms in turns.items():
            self._longest[what] = max(self._longest.get(what, 0.0), held_ms)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        """Hand in the turns of this process."""
        output = getattr(self._config, "workeroutput", None)
        if output is not None:
            output[_KEY] = dict(longest_turns)
        else:
            self._add(longest_turns)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take the turns of a worker that has ended; one that died has none."""
        self._add(getattr(node, "workeroutput", {}).get(_KEY, {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """List the longest turns, which the watchdogs of the brokers have logged."""
        if self._longest:
            terminalreporter.section("longest turns of the brokers")
            for what, held_ms in sorted(self._longest.items(), key=lambda item: -item[1])[:LISTED_MAX]:
                terminalreporter.line(f"{held_ms:7.1f} ms  {what}")
