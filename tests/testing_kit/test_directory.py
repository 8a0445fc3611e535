"""The data of a test's broker is removed, whatever has ended its process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pybroker.testing import directory
from pybroker.testing.directory import MEMORY, PREFIX, Directory


@pytest.fixture(autouse=True)
def _base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory, "_base", lambda: tmp_path)


def test_a_directory_is_empty_and_is_removed_with_everything_in_it(tmp_path: Path) -> None:
    one = Directory()
    assert one.path.parent == tmp_path
    assert [*one.path.iterdir()] == []
    (one.path / "data").mkdir()
    one.remove()
    one.remove()
    assert [*tmp_path.iterdir()] == []


def test_what_a_killed_process_left_is_removed_by_the_next_start(tmp_path: Path) -> None:
    left, other = tmp_path / f"{PREFIX}left", tmp_path / "other"
    for path in (left, other):
        path.mkdir()
        (path / "file").touch()
    one = Directory()
    assert {*tmp_path.iterdir()} == {other, one.path}
    one.remove()


def test_a_directory_in_use_stays() -> None:
    one = Directory()
    other = Directory()
    assert one.path.exists()
    for left in (one, other):
        left.remove()


def test_a_child_that_has_the_descriptor_keeps_the_directory() -> None:
    one = Directory()
    inherited = os.dup(one.descriptor)
    os.close(one.descriptor)
    another = Directory()
    assert one.path.exists()
    os.close(inherited)
    a_third = Directory()
    assert not one.path.exists()
    for left in (another, a_third):
        left.remove()


def test_data_is_in_memory_where_there_is_room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    monkeypatch.delenv("TMPDIR", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    if MEMORY.exists():
        monkeypatch.setattr(directory, "MEMORY_FREE_BYTES_MIN", 0)
        assert directory._base() == MEMORY
    monkeypatch.setattr(directory, "MEMORY_FREE_BYTES_MIN", 1 << 60)
    assert directory._base() == tmp_path


def test_a_place_that_the_environment_names_is_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    assert directory._base() == tmp_path
