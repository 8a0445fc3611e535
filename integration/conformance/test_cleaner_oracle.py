"""Apache Kafka's own cleaner, called on copies of the same logs, keeps the same batches and records as ours.

The times are given, so the test waits for nothing. `python -m integration.conformance.cleaner_oracle` runs any number of cases.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from integration.conformance.cleaner_oracle import Case, KafkaCleaner, differences, offsets_and_keys

pytestmark = pytest.mark.skipif(
    shutil.which("javac") is None or shutil.which("mvn") is None, reason="needs a Java compiler, and Maven for the jars"
)
SEEDS = range(1, 19)
CUT_SEEDS = range(1, 21)


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCleaner]:
    cleaner = KafkaCleaner()
    yield cleaner
    cleaner.close()


def test_both_cleaners_keep_the_same(tmp_path: Path, kafka: KafkaCleaner) -> None:
    """Keys, tombstones, transactions, producers, codecs and times are all random, and the same in every run."""
    records = markers = empty = horizons = 0
    for seed in SEEDS:
        case = Case(seed, tmp_path / f"{seed}")
        before = case.record_count
        for number, one in enumerate(case.passes(kafka), 1):
            assert list(differences(one)) == [], f"seed {seed}, pass {number}"
            records += before - len(offsets_and_keys(one.ours))
            empty += sum(not batch.records for batch in one.ours)
            markers += case.marker_count - sum(batch.is_control for batch in one.ours)
            horizons += sum(batch.delete_horizon_ms is not None for batch in one.ours)
        case.close()
    assert min(records, markers, empty, horizons) > 10, "some of each have to occur"


def test_both_cleaners_keep_the_same_of_a_log_whose_head_was_cut(tmp_path: Path, kafka: KafkaCleaner) -> None:
    """Retention cuts in the middle of a segment, and both cleaners clean what is left of it, from its start offset on."""
    cuts = cleaned = horizons = 0
    for seed in CUT_SEEDS:
        case = Case(seed, tmp_path / f"{seed}", is_cut=True)
        before: set[int] = set()
        for number, one in enumerate(case.passes(kafka), 1):
            assert list(differences(one)) == [], f"seed {seed}, pass {number}"
            kept = {offset for offset, _ in offsets_and_keys(one.ours)}
            cleaned += sum(offset > min(kept) for offset in before - kept)
            horizons += sum(batch.delete_horizon_ms is not None for batch in one.ours)
            before = kept
        cuts += case.cuts
        case.close()
    assert min(cuts, cleaned, horizons) > 10, (cuts, cleaned, horizons)
