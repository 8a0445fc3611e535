"""Histories find the faults that are planted in a broker, and find nothing without them; `test_store` has that of the store.

Each seed is one that finds its fault. After a change of the simulation, another one may.
"""

from __future__ import annotations

import pytest

from testing.simulation.cluster.history import FailedHistoryError, History
from testing.simulation.cluster.mutants import planted

SEEDS = {
    "elects outside of the ISR": 0,
    "elects in an old epoch": 4,
    "truncates by the high watermark": 0,
    "never truncates": 4,
    "counts only the leader": 5,
    "counts the committed ISR": 38,
}


@pytest.mark.parametrize(("name", "seed"), SEEDS.items())
def test_a_planted_fault_is_found(name: str, seed: int) -> None:
    with planted(name), pytest.raises(FailedHistoryError):
        History(seed).run()
    History(seed).run()
