"""A test process has a memory limit, and draws the same random numbers every time."""

from __future__ import annotations

import random
import subprocess
import sys
import uuid

import pytest
from hypothesis import settings

import conftest

DRAWN: list[tuple[int, uuid.UUID]] = []


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux enforces the limit for all memory")
@pytest.mark.skipif(not conftest.MEMORY_BYTES_MAX, reason="the limit is switched off")
def test_more_memory_than_the_limit_is_a_memory_error() -> None:
    with pytest.raises(MemoryError):
        bytearray(conftest.MEMORY_BYTES_MAX)


def test_a_child_has_no_limit() -> None:
    code = "import resource; print(resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.getrlimit(resource.RLIMIT_DATA)[1])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


def test_random_tests_draw_the_same_every_time(request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--hypothesis-profile") != "random":
        assert settings().derandomize
        assert settings().database is None


@pytest.mark.parametrize("turn", [0, 1])
def test_every_test_begins_at_its_own_seed(turn: int, request: pytest.FixtureRequest) -> None:
    drawn = random.getrandbits(64), uuid.uuid4()
    random.seed(f"{request.node.nodeid} {request.config.getoption('--hypothesis-seed')}")
    assert (random.getrandbits(64), uuid.uuid4()) == drawn
