"""The data source reads a directory that Apache Kafka 3.9.2 wrote as its consumers do. `make_kafka_logs` makes it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from pybroker.spark.columns import OFFSET
from pybroker.spark.datasource.reading import RangeReader
from testing.scenes.data_directories import ALL, parsed, plan, read_all, records_of

KAFKA = Path(__file__).parent / "kafka-3.9.2"
EXPECTED: dict[str, list[list[Any]]] = json.loads((KAFKA / "expected.json").read_text())


def text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("latin-1")


def rows(path: Path = KAFKA, **options: Any) -> list[list[Any]]:
    """Return rows in the form that `expected.json` has."""
    found = []
    for one in plan(path, **options):
        for read in RangeReader(ALL, parsed(path, **options)).read(one):
            kinds = [run.timestamp_type for run in read.runs for _ in range(run.rows)]
            for record, kind in zip(records_of(read), kinds, strict=True):
                headers = [[key, text(value)] for key, value in record.headers]
                found.append([*one.tp, record.offset, record.timestamp, kind, text(record.key), text(record.value), headers])
    return found


@pytest.mark.parametrize("isolation", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("split", ["1", "400", "67108864"])
def test_every_record_is_what_a_consumer_got(isolation: str, split: str) -> None:
    assert rows(isolation=isolation, splitBytes=split) == EXPECTED[isolation]


def test_the_directory_has_the_hard_cases() -> None:
    """The directory has aborted and open transactions, gaps by the cleaner, a start inside a segment, five codecs, both times."""
    committed, all_ = ([row[:3] for row in EXPECTED[level]] for level in ("read_committed", "read_uncommitted"))
    assert len(committed) < len(all_)
    assert ["undecided", 0, 1] in all_
    assert [row for row in committed if row[0] == "undecided"] == [["undecided", 0, 0]]
    compacted = [offset for topic, _, offset in committed if topic == "compacted"]
    assert len(compacted) < compacted[-1] - compacted[0]
    assert min(offset for topic, _, offset in committed if topic == "shortened") == 25
    assert {row[4] for row in EXPECTED["read_committed"]} == {0, 1}
    reads = [read for one in plan(KAFKA, topic="codecs") for read in RangeReader(ALL, parsed(KAFKA)).read(one)]
    assert {run.codec for read in reads for run in read.runs} == {"none", "gzip", "snappy", "lz4", "zstd"}


def test_offsets_from_headers_are_the_same() -> None:
    for isolation, expected in EXPECTED.items():
        options: dict[str, Any] = {"isolation": isolation}
        offsets = [record.offset for record in read_all(plan(KAFKA, **options), OFFSET, parsed(KAFKA, **options))]
        assert offsets == [row[2] for row in expected]


def test_a_directory_of_a_killed_kafka_is_read(tmp_path: Path) -> None:
    """Indexes of active segments are preallocated, and there is no producer snapshot of the end."""
    path = shutil.copytree(KAFKA, tmp_path / "killed")
    for folder in path.glob("*-*/"):
        active = max(folder.glob("*.log")).stem
        for suffix in (".index", ".timeindex"):
            with (folder / (active + suffix)).open("r+b") as file:
                file.truncate(10_485_756)
        for snapshot in folder.glob("*.snapshot"):
            if snapshot.stem > active:
                snapshot.unlink()
    assert rows(path) == EXPECTED["read_committed"]
    assert rows(path, until="logEnd") == EXPECTED["read_committed"]


def test_without_anything_but_the_data(tmp_path: Path) -> None:
    path = shutil.copytree(KAFKA, tmp_path / "bare", ignore=shutil.ignore_patterns("*index", "*.snapshot", "replication*"))
    assert rows(path, until="logEnd") == EXPECTED["read_committed"]
    assert rows(path, until="logEnd", isolation="read_uncommitted") == EXPECTED["read_uncommitted"]
