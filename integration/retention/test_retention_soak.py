"""A short story of `retention_soak.py`, and that its model finds a broker that keeps too much or too little."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import pytest

from integration.durability.soak_model import DifferenceError
from integration.retention.retention_model import RetentionModel
from integration.retention.retention_soak import NAMES, RetentionSoak, now_ms
from testing.process.broker import is_kafka

pytestmark = pytest.mark.skipif(is_kafka(), reason="Kafka deletes whole segments")

STEPS = 60


@pytest.fixture
def soak(tmp_path: Path) -> Iterator[RetentionSoak]:
    soak = RetentionSoak(tmp_path, seed=7)
    try:
        yield soak
    finally:
        soak.close()


def test_exactly_the_records_that_are_due_are_gone(soak: RetentionSoak) -> None:
    for _ in range(STEPS):
        soak.step()
    soak.kill()
    assert soak.exact_checks > len(NAMES)


def keeps_too_much(model: RetentionModel) -> None:
    model.lower = model.end


def keeps_too_little(model: RetentionModel) -> None:
    model.upper -= 1


def has_another_value(model: RetentionModel) -> None:
    model.values[-1] = b"other"


def has_another_time(model: RetentionModel) -> None:
    model.timestamps[-1] = now_ms() + 3_600_000


def test_a_difference_is_found(soak: RetentionSoak) -> None:
    name = NAMES[0]
    for _ in range(3):
        soak.produce(name)
    soak.wire.delete_records(name, 0, 2)
    soak.models[name].lower = soak.models[name].upper = 2
    soak.settle(name)
    right = soak.models[name]
    for spoil in (keeps_too_much, keeps_too_little, has_another_value, has_another_time):
        soak.models[name] = deepcopy(right)
        spoil(soak.models[name])
        with pytest.raises(DifferenceError, match=name):
            soak._compare(name)
    soak.models[name] = right
    soak.settle(name)
