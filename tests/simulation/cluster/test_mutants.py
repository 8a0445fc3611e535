"""Histories find the faults that are planted in a broker; `test_store` has that of the store.

No seed up to 70 finds three of `MUTANTS`: each needs a second event within some ms, which chance has not drawn yet.
"""

from __future__ import annotations

import pytest

from testing.simulation.cluster.history import FailedHistoryError, History
from testing.simulation.cluster.mutants import planted

SEEDS = {
    "elects outside of the ISR": range(20),
    "elects in an old epoch": range(20),
    "truncates by the high watermark": range(20),
    "never truncates": range(20),
    "counts only the leader": range(10, 30),
    "counts the committed ISR": range(5, 25),
}


def is_found(seed: int) -> bool:
    try:
        History(seed).run()
    except FailedHistoryError:
        return True
    return False


@pytest.mark.parametrize("name", SEEDS)
def test_a_planted_fault_is_found(name: str) -> None:
    with planted(name):
        assert any(is_found(seed) for seed in SEEDS[name])
