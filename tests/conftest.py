"""Code that the unit tests have in common.

Ids that a unit test's broker makes up are the same in every run, because member ids decide the assignment of partitions.

Work in slices gives the loop back when it has to wait, and not when a slice is over, because how far a test's work comes within
5 ms is up to the machine. A test of slices sets their length, and a test that judges time has those of a broker.

The tests' files are in memory, where there is room for them: no unit test loses power for real, and on a disk the kernel works
longer for the file system's journal than all tests do. TMPDIR or `--basetemp` chooses another place.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import uuid
from pathlib import Path
from typing import Final

import pytest

from pybroker.sharing import work as long_work

MEMORY: Final = "/dev/shm"  # pytest makes a folder of its own there
MEMORY_FREE_BYTES_MIN: Final = 2 << 30
UNIT_TESTS: Final = Path(__file__).parent
TIDY: Final = UNIT_TESTS / "tidy"
SLICE_S: Final = long_work.SLICE_S
ENDLESS_S: Final = 3600.0


def pytest_configure(config: pytest.Config) -> None:
    patch = pytest.MonkeyPatch()
    patch.setattr(uuid, "uuid4", lambda: uuid.UUID(bytes=random.randbytes(16), version=4))
    if "TMPDIR" not in os.environ and _are_unit_tests(config.args) and _has_room():
        patch.setenv("TMPDIR", MEMORY)
        patch.setattr(tempfile, "tempdir", MEMORY)
    config.add_cleanup(patch.undo)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the tests that read sources come first: one worker gets them together, and alone takes each source apart.

    The first that pytest-xdist sends to a worker is a run of tests in this order; at the end workers take tests from each other.
    """
    items.sort(key=lambda item: not item.path.is_relative_to(TIDY))


def pytest_runtest_setup(item: pytest.Item) -> None:
    long_work.SLICE_S = SLICE_S if item.get_closest_marker("judges_time") else ENDLESS_S  # type: ignore[misc]


def _are_unit_tests(names: list[str]) -> bool:
    """Return whether no integration test is named, whose files may be larger."""
    return all(Path(name.partition("::")[0]).resolve().is_relative_to(UNIT_TESTS) for name in names)


def _has_room() -> bool:
    """Return whether the folder in memory is there, and large enough, and may contain programs, which a container's may not."""
    return (
        os.access(MEMORY, os.W_OK)
        and shutil.disk_usage(MEMORY).free >= MEMORY_FREE_BYTES_MIN
        and not os.statvfs(MEMORY).f_flag & os.ST_NOEXEC
    )
