"""The state that an incremental audit keeps from one pass to the next: how far it has read, and up to when buckets are closed.

It is in the folder of the result, beside the counts of the records of buckets that can still change:

    state/state.json     this state
    state/words          records, counted by 64 numbers
    state/counts         what producers counted
    state/sessions       incarnations
    state/done           chunks of 4096 numbers that are no longer compared: records of them come too late

The folder is replaced as a whole, so result and state are always of the same pass, and a record is counted once.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from typing import TYPE_CHECKING, Any, Final

from pybroker.model import Offset
from pybroker.spark.cluster import Extent
from pybroker.spark.errors import PipelineError

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Final = 1
STATE: Final = "state"
WORDS, COUNTS, SESSIONS, DONE = (f"{STATE}/{name}" for name in ("words", "counts", "sessions", "done"))
_FILE: Final = f"{STATE}/state.json"

Place = tuple[str, int]
"""The name of a topic in its tier, and a partition."""


@dataclass(frozen=True, slots=True)
class Position:
    """How far a partition is read."""

    following: Offset
    """The next offset to read."""
    high_ms: int | None = None
    """The newest timestamp before that offset; None when there is no record before it."""
    reached_ms: int | None = None
    """Up to when the partition is read, by the timestamps of the last records before that offset; None if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state after a pass; `number` 0 is the state before the first."""

    identity: dict[str, Any]
    """The subject of an audit: the options that must be the same in every pass."""
    number: int = 0
    closed_ms: int = 0
    """Buckets that end at this time or before are closed."""
    final_ms: int = 0
    """Buckets before this one are no longer compared."""
    done_ms: int = 0
    """The time up to which chunks have been dropped."""
    next_close_ms: int | None = None
    """The end of the first open bucket that has records."""
    too_late: int = 0
    """How many records came for buckets that were no longer compared."""
    too_late_counts: int = 0
    """How many counts of producers came for such buckets."""
    lost: int = 0
    """How many records were deleted before they could be read."""
    positions: dict[str, dict[Place, Position]] = field(default_factory=dict)
    """The positions of partitions, by the name of the tier."""
    horizons: dict[str, dict[str, int]] = field(default_factory=dict)
    """By the name of the tier and the producers' name of the topic: the time up to which records may have been deleted unread."""
    topic_ids: dict[str, dict[str, str]] = field(default_factory=dict)

    def following(self, tier: str) -> dict[Place, Offset]:
        """Return the next offsets to read of a tier's partitions."""
        return {place: position.following for place, position in self.positions.get(tier, {}).items()}

    def write(self, folder: Path) -> None:
        """Write the state into the folder of a result. This is the last file of the state."""
        content = {
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
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())

    @classmethod
    def read(cls, folder: Path) -> State | None:
        """Read the state in the folder of a result, None if it has none. Raises PipelineError, also if files are missing."""
        path = folder / _FILE
        if not (folder / STATE).exists():
            return None
        try:
            content = json.loads(path.read_text())
            if content["format"] != FORMAT:
                raise PipelineError(f"{path} has format {content['format']!r}, but this version reads format {FORMAT}")
            positions = {
                tier: {(topic, partition): Position(*position) for topic, partition, *position in found}
                for tier, found in content["positions"].items()
            }
            state = cls(**{name: content[name] for name in _PLAIN}, positions=positions)
            missing = sorted(content["files"].items() - _files(folder).items())
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise PipelineError(f"{path} is not the state of an audit: start again in another folder") from error
        if missing:
            raise PipelineError(f"{folder / missing[0][0]} is missing or changed: start again in another folder")
        return state


def _files(folder: Path) -> dict[str, int]:
    """Return the files of tables, and their sizes."""
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
    """Check that the state belongs to the same audit. Raises PipelineError."""
    for name, value in now.items():
        if before.get(name) != value:
            known = _in_words(before.get(name))
            raise PipelineError(f"{path} is an audit with {name} {known}, not {_in_words(value)}: give another folder")


def _in_words(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(" ".join(map(str, one)) if isinstance(one, list) else str(one) for one in value)
    return "none" if value is None else str(value)


def next_extents(extents: Mapping[Place, Extent], following: Mapping[Place, Offset]) -> tuple[dict[Place, Extent], int, str]:
    """Return what is new, how many records are gone unread, and that in words.

    Raises PipelineError when a log ends before the offset up to which it was read.
    """
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
    """Return the first part of each extent, about `most` offsets in all.

    It is the same share of each, so that all partitions are read up to about the same time.
    """
    wanted = sum(extent.end - extent.start for found in tiers.values() for extent in found.values())
    if wanted <= most:
        return {tier: dict(found) for tier, found in tiers.items()}
    return {
        tier: {
            place: Extent(extent.start, Offset(extent.start - -(extent.end - extent.start) * most // wanted))
            for place, extent in found.items()
        }
        for tier, found in tiers.items()
    }


def watermark(reached: Iterable[tuple[bool, int | None]], now_ms: int) -> int:
    """Return the time up to which everything is read: the least time of all partitions.

    `reached` has, for each partition, whether it is read to its end, and its `reached_ms`. The time of a partition that is read
    to its end is `now_ms`, when the ends were looked up; otherwise it is `reached_ms`. So an idle partition holds nothing up,
    and a partition that lags behind does.
    """
    return min((now_ms if is_at_end else min(now_ms, at_ms or 0) for is_at_end, at_ms in reached), default=now_ms)
