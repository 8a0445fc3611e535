"""Hostile clients in each state of a connection, for some seconds: `python -m benchmarks.hostile_strangers` is the long form."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testing.hostile.campaign import STATES, run, run_slow
from testing.hostile.target import Target

SEED, FRAMES, HANDSHAKES = 40, 250, 100


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    made = Target(tmp_path_factory.mktemp("target"))
    yield made
    made.close()


@pytest.mark.parametrize("state", STATES)
def test_bad_frames_neither_harm_nor_reveal_nor_change(target: Target, state: str) -> None:
    assert run(target, state, FRAMES, SEED).faults == []


def test_slow_handshakes_keep_no_client_waiting_and_learn_nothing(target: Target) -> None:
    assert run_slow(target, HANDSHAKES, 0).faults == []
