"""Runs a story of drawn steps for the minutes of a command line, and keeps the data when the broker differs from the model."""

from __future__ import annotations

import argparse
import random
import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from integration.durability.soak_model import DifferenceError
from testing.wire.one_request import LostError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Story(Protocol):
    """Steps that are drawn from a seed."""

    @property
    def lines(self) -> Iterable[str]:
        """The last steps, for a person."""
        ...

    def step(self) -> None:
        """Take the next step. Raises DifferenceError."""
        ...

    def finish(self) -> str:
        """Check once more what only the end shows. Returns counts for the closing line, or an empty text."""
        ...

    def close(self) -> None:
        """End the broker."""
        ...


def run(name: str, description: str | None, begin: Callable[[Path, int], Story]) -> int:
    """Run the story that `begin` makes from a folder and a seed. Returns 1 when the broker differs from the model."""
    parser = argparse.ArgumentParser(prog=f"python -m integration.{name}", description=(description or "").splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    asked = parser.parse_args()
    folder, end, steps = Path(tempfile.mkdtemp(prefix=f"{name}-")), time.monotonic() + 60 * asked.minutes, 0
    story = begin(folder, asked.seed)
    try:
        while time.monotonic() < end:
            story.step()
            steps += 1
        counts = story.finish()
    except (DifferenceError, LostError, AssertionError, RuntimeError) as error:
        print(*story.lines, sep="\n")
        print(f"seed {asked.seed}, step {steps}: {type(error).__name__}: {error}\nthe data and the broker's log: {folder}")
        return 1
    finally:
        story.close()
    shutil.rmtree(folder)
    print(", ".join(filter(None, (f"seed {asked.seed}: {steps} steps in {asked.minutes:g} minutes", counts, "no difference"))))
    return 0
