"""A short run of the fuzzer's targets, without coverage: the same mutations of the seeds every time."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.fuzz.seeds import corpus, mutated, seeds
from tests.fuzz.targets import TARGETS, FoundError, record_batches

COUNTS = {"frames": 4000, "batches": 1500, "segments": 250}


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_but_what_is_meant(target: str) -> None:
    run: Callable[[bytes], None] = TARGETS[target]
    rng, begun = random.Random(COUNTS[target]), seeds(target)
    assert begun
    chosen = begun if target != "segments" else [*begun[::7], *corpus(target)]
    for data in chosen:
        run(data)
    for _ in range(COUNTS[target]):
        run(mutated(rng.choice(begun), rng))


def test_twins_that_disagree_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from pybroker.records import _kernels_python  # noqa: PLC0415
    from tests.fuzz import targets  # noqa: PLC0415

    if targets._kernels_native is None:
        pytest.skip("there is only one of each")
    monkeypatch.setattr(_kernels_python, "retain_records", lambda *_: (b"", 0, 0, 0))
    with pytest.raises(FoundError, match="retain_records"):
        record_batches(seeds("batches")[0])
