"""The simulated disk without any crash is what the operating system is: the same calls on both, and the same outcome of each."""

from __future__ import annotations

import ast
import inspect
import shutil
import tempfile
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pybroker.clock import ManualClock
from pybroker.log.files.filesystem import Filesystem
from testing.simulation.disk import SimulatedDisk

NAMES = ("a", "b", "c", "d/x", "d/y", "d", "e/f/z", "e/f", "e", "n" * 256, "a/under")
PATHS = st.sampled_from(NAMES)
DATA = st.binary(max_size=40)


class BothDisks(RuleBasedStateMachine):
    """Every operation is done on a real directory and on a simulated disk; results and error numbers must be the same."""

    @initialize()
    def begin(self) -> None:
        self.real, self.simulated = Filesystem(), SimulatedDisk(ManualClock(1_700_000_000_000))
        self.root = tempfile.mkdtemp()
        self.simulated.make_directory(self.root)
        self.files: list[tuple[int, int, bool]] = []

    def teardown(self) -> None:
        if hasattr(self, "root"):
            for real, _, _ in self.files:
                self.real.close(real)
            shutil.rmtree(self.root)

    def both(self, call: Callable[[Filesystem], Any], *, is_loose: bool = False) -> tuple[Any, Any] | None:
        """Return the results of the call on both disks; None when both raised the same error or, with `is_loose`, any errors."""
        outcomes: list[Any] = []
        for disk in (self.real, self.simulated):
            try:
                outcomes.append(call(disk))
            except OSError as error:
                outcomes.append(error)
        first, second = outcomes
        if isinstance(first, OSError) and isinstance(second, OSError):
            assert is_loose or first.errno == second.errno, (first, second)
            return None
        assert not isinstance(first, OSError) and not isinstance(second, OSError), (first, second)  # noqa: PT018
        return first, second

    def is_directory(self, name: str) -> bool:
        return (Path(self.root) / name).is_dir() if len(name) < 256 else False

    def same(self, call: Callable[[Filesystem], Any], *, is_loose: bool = False) -> None:
        outcome = self.both(call, is_loose=is_loose)
        assert outcome is None or outcome[0] == outcome[1]

    @rule(name=PATHS, writable=st.booleans(), create=st.booleans())
    def open(self, name: str, *, writable: bool, create: bool) -> None:
        if not writable and self.is_directory(name):
            return  # the system opens directories for reading; the log never asks for that
        opened = self.both(lambda disk: disk.open(f"{self.root}/{name}", writable=writable, create=create))
        if opened is not None:
            self.files.append((*opened, writable))

    @rule(share=st.floats(0, 0.999), data=DATA, position=st.integers(0, 60))
    def pwrite(self, share: float, data: bytes, position: int) -> None:
        self.on_file(share, lambda disk, fd: disk.pwrite(fd, data, position))

    @rule(share=st.floats(0, 0.999), data=DATA, position=st.integers(0, 60))
    def write_fully(self, share: float, data: bytes, position: int) -> None:
        if data:
            self.on_file(share, lambda disk, fd: disk.write_fully(fd, data, position))

    @rule(share=st.floats(0, 0.999), length=st.integers(0, 60), position=st.integers(0, 60))
    def pread(self, share: float, length: int, position: int) -> None:
        self.on_file(share, lambda disk, fd: disk.pread(fd, length, position))

    @rule(share=st.floats(0, 0.999), size=st.integers(0, 60))
    def truncate(self, share: float, size: int) -> None:
        self.on_file(share, lambda disk, fd: disk.truncate(fd, size))

    @rule(name=PATHS, size=st.integers(1, 60))
    def allocate(self, name: str, size: int) -> None:
        self.same(lambda disk: disk.allocate(f"{self.root}/{name}", size))

    @rule(share=st.floats(0, 0.999))
    def size_and_map(self, share: float) -> None:
        self.on_file(share, lambda disk, fd: disk.size(fd))
        self.on_file(share, lambda disk, fd: disk.size(fd) and bytes(disk.map(fd, disk.size(fd))))
        self.on_file(share, lambda disk, fd: disk.sync(fd))
        self.on_file(share, lambda disk, fd: disk.is_resident(fd, 0) or True)

    @rule(share=st.floats(0, 0.999))
    def close(self, share: float) -> None:
        if self.files:
            real, simulated, _ = self.files.pop(int(share * len(self.files)))
            self.real.close(real)
            self.simulated.close(simulated)

    def on_file(self, share: float, call: Callable[[Filesystem, int], Any]) -> None:
        if self.files:
            real, simulated, _ = self.files[int(share * len(self.files))]
            self.same(lambda disk: call(disk, real if disk is self.real else simulated))

    @rule(name=PATHS)
    def look(self, name: str) -> None:
        path = f"{self.root}/{name}"
        self.same(lambda disk: disk.exists(path))
        self.same(lambda disk: disk.read_file(path))
        listed = self.both(lambda disk: [(e.name, e.path, e.is_dir(), e.is_file()) for e in disk.list(path)])
        assert listed is None or listed[0] == listed[1]
        if not self.is_directory(name):
            self.same(lambda disk: disk.file_size(path))

    @rule(name=PATHS, time_ms=st.integers(0, 2_000_000_000_000))
    def times(self, name: str, time_ms: int) -> None:
        path = f"{self.root}/{name}"
        if self.both(lambda disk: disk.set_modified_ms(path, time_ms)) is not None and not self.is_directory(name):
            self.same(lambda disk: disk.modified_ms(path))

    @rule(name=PATHS)
    def make_directory(self, name: str) -> None:
        self.same(lambda disk: disk.make_directory(f"{self.root}/{name}"))

    @rule(name=PATHS)
    def create_empty(self, name: str) -> None:
        self.same(lambda disk: disk.create_empty(f"{self.root}/{name}"))

    @rule(name=PATHS, data=DATA, sync=st.booleans())
    def write_and_replace(self, name: str, data: bytes, *, sync: bool) -> None:
        self.same(lambda disk: disk.write_file(f"{self.root}/{name}", data, sync=sync))
        self.same(lambda disk: disk.replace_file(f"{self.root}/{name}", data, sync=sync))

    @rule(source=PATHS, goal=PATHS)
    def rename(self, source: str, goal: str) -> None:
        self.same(lambda disk: disk.rename(f"{self.root}/{source}", f"{self.root}/{goal}"), is_loose=True)

    @rule(name=PATHS)
    def remove(self, name: str) -> None:
        self.same(lambda disk: disk.remove(f"{self.root}/{name}"))

    @rule(name=PATHS)
    def remove_tree(self, name: str) -> None:
        self.same(lambda disk: disk.remove_tree(f"{self.root}/{name}"))

    @rule(name=PATHS)
    def sync_names(self, name: str) -> None:
        self.same(lambda disk: disk.sync_directory(f"{self.root}/{name}"))
        if not self.is_directory(name):
            self.same(lambda disk: disk.sync_path(f"{self.root}/{name}"))

    @rule(name=PATHS)
    def lock(self, name: str) -> None:
        locks = self.both(lambda disk: disk.lock(f"{self.root}/{name}"))
        if locks is not None:
            self.files.append((*locks, True))

    @invariant()
    def trees_are_equal(self) -> None:
        if not hasattr(self, "root"):
            return

        def tree(disk: Filesystem, path: str) -> dict[str, Any]:
            found: dict[str, Any] = {}
            for entry in disk.list(path):
                found[entry.name] = tree(disk, entry.path) if entry.is_dir() else disk.read_file(entry.path)
            return found

        self.same(lambda disk: tree(disk, self.root))


BothDisks.TestCase.settings = settings(max_examples=30, stateful_step_count=40)
TestBothDisks = BothDisks.TestCase

PUBLIC = sorted(name for name in vars(Filesystem) if not name.startswith("_"))


@pytest.mark.parametrize("name", PUBLIC)
def test_every_method_is_simulated_or_made_of_such(name: str) -> None:
    if name in vars(SimulatedDisk):
        return
    source = ast.parse(textwrap.dedent(inspect.getsource(getattr(Filesystem, name))))
    touched = {node.id for node in ast.walk(source) if isinstance(node, ast.Name)} & {"os", "mmap", "shutil", "fcntl", "open"}
    touched -= {"os"} if _uses_only_paths_of_os(source) else set()
    assert not touched, f"Filesystem.{name} touches the machine by {touched}: teach it to the simulated disk"


def _uses_only_paths_of_os(source: ast.AST) -> bool:
    """Return whether the source uses `os` only as `os.path`, and calls such as `os.dup` not at all."""
    uses = [
        node.attr
        for node in ast.walk(source)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "os"
    ]
    return set(uses) <= {"path"}
