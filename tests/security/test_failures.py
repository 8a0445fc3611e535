"""How many lines failures have."""

from __future__ import annotations

import pytest

from pybroker.clock import ManualClock
from pybroker.security.failures import ADDRESSES_MAX, LINES_MAX, WINDOW_MS, FailureLog


def test_each_address_has_its_lines_and_a_flood_has_few(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    clock = ManualClock(WINDOW_MS)
    failures = FailureLog(clock.monotonic_ms)
    for _ in range(LINES_MAX + 5):
        failures.add("10.0.0.1", "no")
    failures.add("10.0.0.2", "no")
    assert len(caplog.messages) == LINES_MAX + 1
    assert caplog.messages[0] == "no"
    clock.advance(WINDOW_MS)
    failures.add("10.0.0.1", "no")
    assert caplog.messages[-1].endswith("no (the failures of this address before had 5 lines more)")
    assert failures.failed == LINES_MAX + 7


def test_addresses_take_bounded_memory() -> None:
    failures = FailureLog(lambda: WINDOW_MS)
    for number in range(2 * ADDRESSES_MAX):
        failures.add(str(number), "no")
    assert len(failures._lines) == ADDRESSES_MAX
