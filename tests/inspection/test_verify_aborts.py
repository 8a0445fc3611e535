"""The reports of `pybroker log verify` where a transaction index has forgotten an aborted transaction."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker.inspection.findings import Findings, Problem
from pybroker.inspection.verify import verify
from pybroker.log.indexes.transaction_index import ENTRY
from pybroker.model import ProducerEpoch, ProducerId
from testing.scenes.data_directories import TP, DataDirectory

ABORTED = [2, 11]
"""The offsets of the markers of the transactions that had records and were aborted."""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Return a data directory with transactions: aborted, committed, aborted without records, aborted."""
    directory = DataDirectory(tmp_path / "data")

    def write(base_sequence: int) -> None:
        directory.append(
            2, producer_id=ProducerId(8), producer_epoch=ProducerEpoch(0), base_sequence=base_sequence, is_transactional=True
        )

    write(0)
    directory.end_transaction(8, commit=False)
    write(2)
    directory.end_transaction(8, commit=True)
    directory.end_transaction(8, commit=False)
    directory.append(2)
    write(4)
    directory.end_transaction(8, commit=False)
    directory.append(1)
    directory.flush()
    directory.logs[TP].close()
    return directory.path


def problems(path: Path) -> list[Problem]:
    findings = Findings()
    verify(findings, path)
    return findings.problems


def index_of(data: Path) -> Path:
    (path,) = [one for one in (data / str(TP)).glob("*.txnindex") if one.stat().st_size]
    return path


def test_an_index_with_all_aborted_transactions_is_sound(data: Path) -> None:
    assert len(index_of(data).read_bytes()) == len(ABORTED) * ENTRY.size
    assert not problems(data)


@pytest.mark.parametrize(
    ("spoil", "missing"),
    [
        (lambda path: path.unlink(), ABORTED),
        (lambda path: path.write_bytes(b""), ABORTED),
        (lambda path: path.write_bytes(path.read_bytes()[: ENTRY.size]), ABORTED[1:]),
        (lambda path: path.write_bytes(path.read_bytes()[ENTRY.size :]), ABORTED[:1]),
    ],
    ids=["removed", "emptied", "cut", "without the first"],
)
def test_each_aborted_transaction_that_the_index_lacks_is_named(
    data: Path, spoil: Callable[[Path], object], missing: list[int]
) -> None:
    path = index_of(data)
    spoil(path)
    found = problems(data)
    assert [(one.path, one.kind, one.offset) for one in found] == [(path, "transaction index", offset) for offset in missing]
    first = missing[0] - 2
    expected = f"the transaction of producer 8 from offset {first} was aborted at {missing[0]}, but has no entry"
    assert found[0].text == expected


def test_damage_before_a_marker_asks_for_no_entry(data: Path) -> None:
    """The damaged batch may be the records of the transaction, or the end of it."""
    path = index_of(data)
    path.write_bytes(path.read_bytes()[ENTRY.size :])
    log = path.with_suffix(".log")
    content = bytearray(log.read_bytes())
    content[70] ^= 1
    log.write_bytes(content)
    assert {one.kind for one in problems(data)} == {"crc"}
