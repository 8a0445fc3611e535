"""A history of each kind, the same in each run. More of them: `python -m tests.crash.run --minutes 10`."""

from __future__ import annotations

import dataclasses

import pytest

from tests.crash.histories import PLANS
from tests.crash.history import History

SEED = 1


@pytest.mark.parametrize("name", sorted(PLANS))
def test_every_operation_can_be_the_last(name: str) -> None:
    history = History(SEED, dataclasses.replace(PLANS[name], share=PLANS[name].share / 2))
    history.run()
    assert history.checked >= 3 * history.plan.legs


def test_every_single_operation_of_a_short_history() -> None:
    history = History(101, dataclasses.replace(PLANS["all"], legs=1, actions=8, share=1.0))
    history.run()
    assert history.checked > 50
