"""Many cases of one property in one test: a case costs what it does, and not what pytest does for a test, which is often more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")
Test = Callable[[], None]


@contextmanager
def in_case(name: object) -> Iterator[None]:
    """Let an error that leaves the block name the case."""
    try:
        yield
    except BaseException as error:
        error.add_note(f"in the case {name}")
        raise


def for_each_case(cases: Iterable[T], name_of: Callable[[T], object] = repr) -> Callable[[Callable[[T], None]], Test]:
    """Make one test of a check of a case. The first case that fails ends the test."""
    listed = [*cases]

    def decorate(check: Callable[[T], None]) -> Test:
        def test() -> None:
            assert listed, "no case"
            for case in listed:
                with in_case(name_of(case)):
                    check(case)

        test.__name__, test.__qualname__, test.__doc__ = check.__name__, check.__qualname__, check.__doc__
        test.__module__ = check.__module__
        return test

    return decorate
