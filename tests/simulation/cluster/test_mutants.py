"""Histories find the faults that are planted in a broker, and nothing without them; `test_store` finds that of the store.

Each fault has a seed that finds it. With other orders of sets, as `make random` has them, and after a change of the simulation,
another one does.
"""

from __future__ import annotations

import pytest

from testing.simulation.cluster.history import FailedHistoryError, History
from testing.simulation.cluster.mutants import planted

FURTHER_SEEDS = 60
SEEDS = {
    "elects outside of the ISR": 0,
    "elects in an old epoch": 1,
    "truncates by the high watermark": 0,
    "never truncates": 1,
    "counts only the leader": 2,
    "counts the committed ISR": 49,
    "takes in a follower that is behind": 31,
    "appends what an older leader sent": 6,
    "leads after its session": 8,
    "leads by an election before the end of its session": 1005,
    "takes every log as complete": 22,
}


def is_found(name: str, seed: int) -> bool:
    try:
        with planted(name):
            History(seed).run()
    except FailedHistoryError:
        return True
    return False


@pytest.mark.parametrize(("name", "seed"), SEEDS.items())
def test_a_planted_fault_is_found(name: str, seed: int) -> None:
    found = next((one for one in (seed, *range(FURTHER_SEEDS)) if is_found(name, one)), None)
    assert found is not None
    History(found).run()
