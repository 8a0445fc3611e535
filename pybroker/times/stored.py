"""Time that a test moves, over several lives of a process: what has passed is in a file beside the data."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pybroker.times.lanes import PARTS, Lanes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

NAME: Final = "virtual-time.json"


class StoredTimeError(ValueError):
    """A file that is damaged. The text names it."""


def stored_lanes(directory: Path) -> Lanes:
    """Return the time that continues what a data directory has, and is kept there. Raises OSError, and StoredTimeError."""
    path = directory / NAME

    def keep(offsets_ms: Mapping[str, int]) -> None:
        write_offsets_ms(path, offsets_ms)

    return Lanes(offsets_ms_of(path), keep=keep)


def offsets_ms_of(path: Path) -> dict[str, int]:
    """Return how much more time has passed for each part than for the machine. Raises OSError, and StoredTimeError."""
    try:
        found = json.loads(path.read_text())
    except FileNotFoundError:
        return dict.fromkeys(PARTS, 0)
    except ValueError as error:
        raise StoredTimeError(f"{path}: it is not JSON: {error}") from error
    if not isinstance(found, dict) or any(type(found.get(part)) is not int for part in PARTS):
        raise StoredTimeError(f"{path}: it must have a number of ms for each of {', '.join(PARTS)}")
    return {part: found[part] for part in PARTS}


def write_offsets_ms(path: Path, offsets_ms: Mapping[str, int]) -> None:
    """Write the file as a whole. Raises OSError."""
    new = path.with_suffix(".tmp")
    new.write_text(json.dumps(dict(offsets_ms)))
    new.replace(path)
