"""Some stories, the same in each run. More of them: `python -m tests.transactions.run --minutes 10`."""

from __future__ import annotations

import pytest

from testing.transactions.history import Outcome
from tests.transactions.story import PLANS, Story

SEEDS = (1, 2)


@pytest.mark.parametrize("name", sorted(PLANS))
def test_transactions_are_exact_whenever_the_broker_ends(name: str) -> None:
    outcomes: set[Outcome] = set()
    seen = 0
    for seed in SEEDS:
        story = Story(seed, PLANS[name])
        assert story.run() == [], "\n".join([f"seed {seed}", *story.notes])
        outcomes |= {written.outcome for written in story.history.transactions}
        seen += sum(len(reading.records) for reading in story.history.readings)
    assert outcomes >= {Outcome.COMMITTED, Outcome.ABORTED}
    assert seen > 50, "the readers read"


def test_a_seed_is_one_story() -> None:
    first, second = (Story(3, PLANS["kills"]) for _ in range(2))
    assert first.run() == second.run()
    assert first.history.transactions == second.history.transactions
    assert first.history.stable_offsets == second.history.stable_offsets
    assert first.history.last == second.history.last
