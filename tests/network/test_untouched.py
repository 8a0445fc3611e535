"""Memory that is not written to, with ctypes and without."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from pybroker.network import untouched as module

LARGE = 200 * 1024 * 1024

Functions = tuple[Callable[[int], bytearray], Callable[[bytearray, int], None]]


@pytest.fixture(params=["ctypes", "zeros"])
def functions(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Functions:
    if request.param == "zeros":
        monkeypatch.setitem(sys.modules, "ctypes", None)
    return module._functions()


@pytest.mark.parametrize("size", [0, 1, module.SMALL_BYTES, module.SMALL_BYTES + 1, 1_000_000])
def test_memory_has_its_size_and_can_be_written(functions: Functions, size: int) -> None:
    make, resize = functions
    memory = make(size)
    assert (type(memory), len(memory)) == (bytearray, size)
    memory[:] = b"x" * size
    for other in (2 * size, size // 2, 3 * size):
        resize(memory, other)
        assert len(memory) == other
        kept = min(size // 2 if other == 3 * size else size, other)
        assert memory[:kept] == b"x" * kept


def test_what_cannot_be_had_changes_nothing(functions: Functions) -> None:
    make, resize = functions
    with pytest.raises(MemoryError):
        make(sys.maxsize - 100)
    memory = make(3)
    memory[:] = b"abc"
    with pytest.raises(MemoryError):
        resize(memory, sys.maxsize - 100)
    with memoryview(memory), pytest.raises(BufferError):
        resize(memory, 10)
    assert memory == b"abc"


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_large_memory_is_taken_only_where_it_is_written() -> None:
    def resident() -> int:
        line = next(one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("RssAnon"))
        return int(line.split()[1]) * 1024

    before = resident()
    memory = module.untouched(LARGE)
    memory[:1000] = bytes(1000)
    module.resize(memory, 2 * LARGE)
    assert resident() - before < LARGE // 10
