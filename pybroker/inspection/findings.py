"""The findings of a verification: what is wrong, and what was checked."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pybroker.model import Offset

PROBLEMS_MAX: Final = 100
"""This many problems of one file are reported; more are counted."""

_NOUNS: Final = (
    ("partitions", "partition", "partitions"),
    ("segments", "segment", "segments"),
    ("batches", "batch", "batches"),
    ("records", "record", "records"),
    ("bytes", "byte of data", "bytes of data"),
    ("index entries", "index entry", "index entries"),
    ("aborted transactions", "aborted transaction", "aborted transactions"),
    ("producer snapshots", "producer snapshot", "producer snapshots"),
    ("leader epochs", "leader epoch", "leader epochs"),
    ("checkpoint entries", "checkpoint entry", "checkpoint entries"),
    ("infos", "thing that is no file of a log", "things that are no files of a log"),
    ("batches without their records", "batch too large to look at its records", "batches too large to look at their records"),
)
COUNTED: Final = tuple(name for name, _, _ in _NOUNS)


class Problem(NamedTuple):
    """One thing that is wrong, and where: the byte of the file and the offset of the log, if there is one."""

    path: Path
    kind: str
    text: str
    position: int | None = None
    offset: Offset | None = None

    def line(self) -> str:
        """Return one line for a person."""
        where = "".join(
            f"{name} {number}: " for name, number in (("byte", self.position), ("offset", self.offset)) if number is not None
        )
        return f"{self.path}: {where}{self.kind}: {self.text}"

    def as_json(self) -> dict[str, object]:
        """Return the object for `--json`."""
        return {
            "type": "problem",
            "file": str(self.path),
            "kind": self.kind,
            "position": self.position,
            "offset": self.offset,
            "text": self.text,
        }


class Info(NamedTuple):
    """Something that is worth a line and no fault."""

    path: Path
    text: str

    def line(self) -> str:
        """Return one line for a person."""
        return f"{self.path}: info: {self.text}"

    def as_json(self) -> dict[str, object]:
        """Return the object for `--json`."""
        return {"type": "info", "file": str(self.path), "text": self.text}


class Findings:
    """Gathers problems and counts. A part of a log that has to be looked at again gets findings of its own, which are
    added when they are final.
    """

    def __init__(self, emit: Callable[[Problem | Info], None] | None = None) -> None:
        """Give each problem and info to `emit` when it is found; without it, keep them."""
        self._emit = emit
        self.problems: list[Problem] = []
        self.infos: list[Info] = []
        self.counts: Counter[str] = Counter()
        self._found: Counter[tuple[Path, str]] = Counter()

    def add(self, path: Path, kind: str, text: str, *, position: int | None = None, offset: Offset | None = None) -> None:
        """Note a problem."""
        self._found[path, kind] += 1
        if self.per_file[path] <= PROBLEMS_MAX:
            self._note(Problem(path, kind, text, position, offset))

    def inform(self, path: Path, text: str) -> None:
        """Note something that is no problem."""
        info = Info(path, text)
        self.counts["infos"] += 1
        if self._emit is None:
            self.infos.append(info)
        else:
            self._emit(info)

    def forget(self, kind: str) -> None:
        """Drop the problems of this kind, which turned out to be none."""
        self.problems = [one for one in self.problems if one.kind != kind]
        self._found = Counter({key: count for key, count in self._found.items() if key[1] != kind})

    def _note(self, problem: Problem) -> None:
        if self._emit is None:
            self.problems.append(problem)
        else:
            self._emit(problem)

    def merge(self, other: Findings) -> None:
        """Add what other findings hold."""
        for problem in other.problems:
            self._note(problem)
        for info in other.infos:
            self.infos.append(info) if self._emit is None else self._emit(info)
        self.counts += other.counts
        self._found += other._found

    @property
    def per_file(self) -> Counter[Path]:
        """The number of problems of each file that has some, those that were not reported included."""
        found: Counter[Path] = Counter()
        for (path, _), count in self._found.items():
            found[path] += count
        return found

    @property
    def problem_count(self) -> int:
        """The number of problems, those that were not reported included."""
        return self._found.total()

    def summary(self) -> str:
        """Return one line: what was checked, and how much of it is wrong."""
        words = [
            f"{self.counts[name]} {one if self.counts[name] == 1 else many}" for name, one, many in _NOUNS if self.counts[name]
        ]
        checked = ", ".join(words) or "nothing"
        if not self.problem_count:
            return f"No problem found; checked: {checked}"
        hidden = sum(count - PROBLEMS_MAX for count in self.per_file.values() if count > PROBLEMS_MAX)
        tail = f" ({hidden} of them not listed, only the first {PROBLEMS_MAX} of each file are)" if hidden else ""
        noun = "problem" if self.problem_count == 1 else "problems"
        files = "1 file" if len(self.per_file) == 1 else f"{len(self.per_file)} files"
        return f"{self.problem_count} {noun} in {files}{tail}; checked: {checked}"

    def as_json(self) -> dict[str, object]:
        """Return the last object for `--json`."""
        counts = {"".join(w.capitalize() if i else w for i, w in enumerate(name.split())): self.counts[name] for name in COUNTED}
        return {"type": "summary", "problems": self.problem_count, "checked": counts}
