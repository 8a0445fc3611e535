"""Long work of one change of the cluster, done in slices, between which the loop serves others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from pybroker.slicing import run_slice

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

Item = TypeVar("Item")
Result = TypeVar("Result")


async def finish(work: Generator[None, None, Result]) -> Result:
    """Run `work`, and return its result. What `work` reads may change wherever it yields. Raises what `work` raises."""
    while True:
        ended, result = run_slice(work)
        if ended:
            return result  # type: ignore[return-value]  # what `work` returned
        await asyncio.sleep(0)


async def mapped(function: Callable[[Item], Result], items: Iterable[Item]) -> list[Result]:
    """Return what `function` returns for each of `items`, as `finish` does it."""

    def results() -> Generator[None, None, list[Result]]:
        made = []
        for item in items:
            made.append(function(item))
            yield
        return made

    return await finish(results())
