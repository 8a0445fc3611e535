from __future__ import annotations

import dataclasses
import threading
from dataclasses import KW_ONLY, FrozenInstanceError, field, replace
from typing import Any, ClassVar

import pytest

from pybroker import dataclass as module
from pybroker.dataclass import dataclass


def made_and_usual(**options: bool) -> list[Any]:
    """Return a class of these options, made by each decorator."""
    classes: list[Any] = []
    for decorator in (dataclass, dataclasses.dataclass):

        @decorator(slots=True, **options)
        class Point:
            LIMIT: ClassVar[int] = 9

            x: int
            y: int = 2
            names: list[str] = field(default_factory=list)
            size: int = field(default=0, init=False)

            def __post_init__(self) -> None:
                object.__setattr__(self, "size", self.x * self.y)

        classes.append(Point)
    return classes


@pytest.mark.parametrize("options", [{}, {"frozen": True}, {"kw_only": True}, {"frozen": True, "kw_only": True}])
def test_objects_are_as_those_of_the_standard_library(options: dict[str, bool]) -> None:
    ours, usual = made_and_usual(**options)
    for cls in (ours, usual):
        assert (cls.LIMIT, cls.__slots__) == (9, ("x", "y", "names", "size"))
    one, other = ours(x=3), usual(x=3)
    assert repr(one) == repr(other)
    assert (one.x, one.y, one.names, one.size) == (3, 2, [], 6)
    assert one == ours(x=3, y=2) != replace(one, y=4)
    assert dataclasses.asdict(one) == dataclasses.asdict(other)
    assert (ours.__hash__ is None) == (usual.__hash__ is None)
    assert ours.__match_args__ == usual.__match_args__
    assert one.names is not ours(x=3).names
    assert not hasattr(one, "__dict__")
    with pytest.raises(TypeError):
        ours(z=1)
    if options.get("frozen"):
        with pytest.raises(FrozenInstanceError):
            one.x = 4
    if not options.get("kw_only"):
        assert ours(5, 6).size == 30


@dataclass(slots=True)
class Base:
    x: int = 1


@dataclass(slots=True)
class Derived(Base):
    _: KW_ONLY
    y: int = 2


def test_the_methods_are_made_with_the_first_object_and_those_of_bases_before() -> None:
    assert not dataclasses.is_dataclass(Derived)
    assert Derived(y=3) == Derived(1, y=3)
    assert (Derived.__slots__, [one.name for one in dataclasses.fields(Derived)]) == (("y",), ["x", "y"])
    assert dataclasses.is_dataclass(Base)


def test_threads_that_make_the_first_objects_at_once_get_whole_ones() -> None:
    for _ in range(20):
        (cls, _usual), found = made_and_usual(), list[object]()
        barrier = threading.Barrier(4)

        def make(cls: Any = cls, found: list[object] = found, barrier: threading.Barrier = barrier) -> None:
            barrier.wait()
            found.append(cls(3))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert found == [cls(3)] * 4
        assert cls not in module.UNMADE
