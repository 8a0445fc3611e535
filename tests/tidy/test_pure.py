"""`make pure` runs tests of each room that has a native part, and names tests that are there."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from pybroker.native import PARTS
from testing.places import ROOT

ADDED = re.compile(r"\$\(addprefix (\S+),([^)]*)\)")


def pure_tests(makefile: str) -> set[PurePosixPath]:
    """Return the folders and files of the variable PURE."""
    lines = makefile.replace("\\\n", " ").splitlines()
    (text,) = (line.partition("=")[2] for line in lines if line.startswith("PURE ?="))
    text = ADDED.sub(lambda found: " ".join(found[1] + end for end in found[2].split()), text)
    return {PurePosixPath(name) for name in text.split()}


PURE = pure_tests((ROOT / "Makefile").read_text())


def test_the_tests_exist() -> None:
    assert [path for path in PURE if not (ROOT / path).exists()] == []


def test_each_room_with_a_native_part_is_tested() -> None:
    rooms = {PurePosixPath("tests", *part.split(".")[:-1]) for part in PARTS}
    tested = {folder for path in PURE for folder in (path, *path.parents)}
    assert {room for room in rooms if room not in tested and PURE.isdisjoint(room.parents)} == set()
