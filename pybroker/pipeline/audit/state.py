"""What an incremental audit knows from one pass to the next: how far it has read, and until when buckets are closed.

It lies in the folder of the result, beside the counts of the records of buckets that may change yet:

    state/state.json     this
    state/words          records, counted by 64 numbers
    state/counts         what producers counted
    state/sessions       incarnations
    state/done           chunks of 4096 numbers that are not compared any more: what comes of them is too late

The folder is replaced as a whole, so result and state are always of the same pass, and a record is counted once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pybroker.pipeline.cluster import Extent
from pybroker.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Final = 1
STATE: Final = "state"
WORDS, COUNTS, SESSIONS, DONE = (f"{STATE}/{name}" for name in ("words", "counts", "sessions", "done"))
_FILE: Final = f"{STATE}/state.json"

Place = tuple[str, int]
"""A topic, as it is called in its tier, and a partition."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far a partition is read."""

    following: int
    """The offset that is read next."""
    high_ms: int | None = None
    """The newest timestamp before it; None when there is no record before it."""
    reached_ms: int | None = None
    """Up to when it is read, by the timestamps of the last records before it; None when that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """After a pass; `number` 0 is before the first."""

    identity: dict[str, Any]
    """What is audited, by `identify`."""
    number: int = 0
    closed_ms: int = 0
    """Buckets that end by then are closed."""
    final_ms: int = 0
    """Buckets before this one are not compared any more."""
    done_ms: int = 0
    """Up to when chunks have been dropped."""
    next_close_ms: int | None = None
    """The end of the first bucket that is open and has records."""
    too_late: int = 0
    """Records of buckets that were not compared any more."""
    too_late_counts: int = 0
    """The same of what producers counted."""
    lost: int = 0
    """Records that were deleted before they could be read."""
    positions: dict[str, dict[Place, Position]] = field(default_factory=dict)
    """By the name of the tier."""
    horizons: dict[str, dict[str, int]] = field(default_factory=dict)
    """By the name of the tier and the topic as its producers call it: until when records may have been deleted unread."""
    topic_ids: dict[str, dict[str, str]] = field(default_factory=dict)

    def following(self, tier: str) -> dict[Place, int]:
        """What is read next of a tier's partitions."""
        return {place: position.following for place, position in self.positions.get(tier, {}).items()}

    def write(self, folder: Path) -> None:
        """Into the folder of a result, as the last of the state."""
        said = {
            "format": FORMAT,
            **{name: getattr(self, name) for name in _PLAIN},
            "positions": {
                tier: [[*place, *astuple(position)] for place, position in sorted(found.items())]
                for tier, found in self.positions.items()
            },
            "files": _files(folder),
        }
        path = folder / _FILE
        path.parent.mkdir(exist_ok=True)
        with path.open("w") as file:
            json.dump(said, file, indent=1)
            file.flush()
            os.fsync(file.fileno())

    @classmethod
    def read(cls, folder: Path) -> State | None:
        """Of the folder of a result; None when it has none. Raises PipelineError, also when files of it are missing."""
        path = folder / _FILE
        if not (folder / STATE).exists():
            return None
        try:
            said = json.loads(path.read_text())
            if said["format"] != FORMAT:
                raise PipelineError(f"{path} has format {said['format']!r}, but this version reads format {FORMAT}")
            positions = {
                tier: {(topic, partition): Position(*position) for topic, partition, *position in found}
                for tier, found in said["positions"].items()
            }
            state = cls(**{name: said[name] for name in _PLAIN}, positions=positions)
            missing = sorted(said["files"].items() - _files(folder).items())
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise PipelineError(f"{path} is not the state of an audit: start again in another folder") from error
        if missing:
            raise PipelineError(f"{folder / missing[0][0]} is missing or changed: start again in another folder")
        return state


def _files(folder: Path) -> dict[str, int]:
    """The files of tables, and their sizes."""
    return {str(path.relative_to(folder)): path.stat().st_size for path in folder.glob("**/*.parquet")}


_PLAIN: Final = (
    "identity",
    "number",
    "closed_ms",
    "final_ms",
    "done_ms",
    "next_close_ms",
    "too_late",
    "too_late_counts",
    "lost",
    "horizons",
    "topic_ids",
)


def check_identity(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Whether the state is of the same audit. Raises PipelineError."""
    for name, value in now.items():
        if before.get(name) != value:
            there = _said(before.get(name))
            raise PipelineError(f"{path} is an audit with {name} {there}, not {_said(value)}: give another folder")


def _said(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(" ".join(map(str, one)) if isinstance(one, list) else str(one) for one in value)
    return "none" if value is None else str(value)


def next_extents(extents: Mapping[Place, Extent], following: Mapping[Place, int]) -> tuple[dict[Place, Extent], int, str]:
    """What is new, how many records are gone unread, and that in words. Raises PipelineError when a log is another one."""
    new, lost, where = {}, 0, []
    for (topic, partition), extent in sorted(extents.items()):
        wanted = following.get((topic, partition), extent.start)
        if extent.end < wanted:
            raise PipelineError(f"{topic}-{partition} ends at offset {extent.end}, but was read to {wanted}: it is another log")
        if extent.start > wanted:
            lost += extent.start - wanted
            where.append(f"{topic}-{partition} from {wanted} to {extent.start - 1}")
        new[topic, partition] = Extent(max(wanted, extent.start), extent.end)
    return new, lost, f"{lost} records were deleted before they were read: {', '.join(where)}"


def shortened(tiers: Mapping[str, Mapping[Place, Extent]], most: int) -> dict[str, dict[Place, Extent]]:
    """The first part of each extent, about `most` in all: the same share of each, so that all come about as far in time."""
    wanted = sum(extent.end - extent.start for found in tiers.values() for extent in found.values())
    if wanted <= most:
        return {tier: dict(found) for tier, found in tiers.items()}
    return {
        tier: {
            place: Extent(extent.start, extent.start - -(extent.end - extent.start) * most // wanted)
            for place, extent in found.items()
        }
        for tier, found in tiers.items()
    }


def watermark(reached: Iterable[tuple[bool, int | None]], now_ms: int) -> int:
    """Up to when everything is read: the least of all partitions.

    Of each it is told whether it is read to its end, and then it is the time when that was looked up, or else `reached_ms`.
    So a partition in which nothing happens holds nothing up, and one that is behind does.
    """
    return min((now_ms if is_at_end else min(now_ms, at_ms or 0) for is_at_end, at_ms in reached), default=now_ms)
