"""Arbitrary bytes in every kind of file: both commands end, name what they found, and take little memory."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pybroker.inspection import search
from pybroker.inspection.dump import Choice, objects_in
from pybroker.inspection.findings import Findings
from pybroker.inspection.lines import line_of
from pybroker.inspection.verify import verify
from pybroker.model import Offset
from pybroker.records.batch import Record
from pybroker.records.build import build_batch, build_message_set
from pybroker.records.compression import CompressionType
from testing.scenes.logs import START_MS

ZERO = f"{0:020d}"
NAMES = [
    f"{ZERO}.log", f"{ZERO}.index", f"{ZERO}.timeindex", f"{ZERO}.txnindex", f"{ZERO}.snapshot", f"{ZERO}-0000000000.checkpoint",
    "leader-epoch-checkpoint", "partition.metadata", "recovery-point-offset-checkpoint", "cleaner-offset-checkpoint.topic-ids",
]  # fmt: skip
RECORDS = [Record(Offset(i), START_MS + i, b"k%d" % i, b"v" * 9) for i in range(3)]
PIECES = [
    *(bytes(build_batch(RECORDS, compression=codec)) for codec in CompressionType),
    *(build_message_set(RECORDS, magic=magic, compression=codec) for magic in (0, 1) for codec in list(CompressionType)[:4]),
    b"0\n1\n0 0\n",
    b"0\n1\nevents 0 3\n",
]
pieces = st.lists(st.binary(max_size=80) | st.sampled_from(PIECES) | st.sampled_from([bytes(70), b"\xff" * 70]), max_size=5)
MEMORY_MAX = 24 << 20


def look_at(path: Path) -> int:
    """Run both commands on a path, and return the number of problems."""
    findings = Findings()
    verify(findings, path)
    assert findings.summary()
    assert all(one.line() for one in findings.problems)
    for fields in objects_in(path, Choice(has_records=True, decoder="offsets" if path.name.startswith("0") else None)):
        assert line_of(fields)
    return findings.problem_count


@pytest.fixture
def little_memory() -> Iterator[None]:
    tracemalloc.start()
    yield
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < MEMORY_MAX


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(parts=pieces, name=st.sampled_from(NAMES), flips=st.lists(st.tuples(st.integers(0, 400), st.integers(1, 255)), max_size=3))
def test_a_file_may_hold_anything(tmp_path: Path, parts: list[bytes], name: str, flips: list[tuple[int, int]]) -> None:
    data = bytearray(b"".join(parts))
    for position, mask in flips:
        if position < len(data):
            data[position] ^= mask
    folder = tmp_path / "events-0"
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    look_at(folder / name)
    (folder / name).unlink()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files=st.dictionaries(st.sampled_from(NAMES), pieces, min_size=1))
def test_a_partition_may_hold_anything(tmp_path: Path, files: dict[str, list[bytes]]) -> None:
    folder = tmp_path / "events-0"
    folder.mkdir(exist_ok=True)
    for name, parts in files.items():
        (folder / name).write_bytes(b"".join(parts))
    look_at(folder)
    look_at(tmp_path)
    for name in files:
        (folder / name).unlink()


def of(folder: Path, *, data: bytes = b"", size: int = 0, name: str = f"{ZERO}.log") -> Path:
    path = folder / name
    with path.open("wb") as file:
        file.write(data)
        file.truncate(max(size, len(data)))
    return path


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize(
    ("name", "size"), [(NAMES[0], 64 << 20), (NAMES[1], 64 << 20), (NAMES[2], 64 << 20), (NAMES[3], 1 << 20)]
)
def test_a_large_file_takes_little_memory(tmp_path: Path, name: str, size: int) -> None:
    look_at(of(tmp_path, size=size, name=name))


@pytest.mark.usefixtures("little_memory")
def test_a_batch_that_claims_the_whole_file_takes_little_memory(tmp_path: Path) -> None:
    size = 200 << 20
    head = bytearray(build_batch(RECORDS))
    head[8:12] = (size - 12).to_bytes(4)
    assert look_at(of(tmp_path, data=bytes(head), size=size)) == 1


def test_bytes_that_look_like_many_large_batches_end_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "CANDIDATES_MAX", 50)
    head = bytearray(build_batch(RECORDS)[:61])
    head[8:12] = (50_000).to_bytes(4)
    head[17] ^= 1
    path = of(tmp_path, data=bytes(head) * 3000)
    findings = Findings()
    verify(findings, path)
    assert "the search for the next one ended" in findings.problems[-1].text


@pytest.mark.usefixtures("little_memory")
def test_compressed_records_that_expand_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = Record(Offset(0), START_MS, b"k", bytes(64 << 20))
    tracemalloc.stop()
    data = bytes(build_batch([record], compression=CompressionType.ZSTD))
    tracemalloc.start()
    monkeypatch.setattr("pybroker.inspection.contents.EXPANDED_BYTES_MAX", 1 << 20)
    assert look_at(of(tmp_path, data=data)) == 1
