"""The folder of an archive and its manifest, kept so that a kill at any moment leaves the archive whole.

    topic=T/date=D/*.parquet       the records; only whole files that a commit names
    _pybroker/identity.json        the format, the cluster and the topics
    _pybroker/manifest.json        all files and, of each partition, first and last offset, count and checksum, up to a commit
    _pybroker/commits/N.json       what each later commit added and removed
    _pybroker/staging/             files that are being written
    _pybroker/checkpoint/          Spark's checkpoint: which offsets belong to which batch

A commit is one file that appears whole. The files that it names are moved to their place after it. Opening an archive for writing
finishes the moves that were cut short, and deletes what no commit names. A batch is committed once: if a kill came between this
commit and Spark's own, Spark repeats the batch, and the archive recognises its number.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import uuid
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, final

from pybroker.spark.archive.files import ArchivedFile, joined, name_of
from pybroker.spark.errors import PipelineError
from pybroker.spark.isolation import Isolation

if TYPE_CHECKING:
    from pathlib import Path

FORMAT: Final = 1
_SNAPSHOT_EVERY: Final = 100
_MIXED: Final = "topic=*/date=*/*.parquet"


@dataclass(frozen=True, slots=True)
class Identity:
    """The cluster and the topics whose records an archive holds."""

    cluster: str
    topics: tuple[str, ...]
    """The names that were given; empty with a pattern."""
    pattern: str | None
    topic_ids: dict[str, str]
    partitions: dict[str, int] = field(default_factory=dict)
    """How many partitions each topic had in the last run."""
    isolation: Isolation = Isolation.READ_COMMITTED


@dataclass(slots=True)
class Contents:
    """The contents that all commits together have put into the archive."""

    files: dict[str, ArchivedFile] = field(default_factory=dict)
    batch: int = -1
    """The number of the last batch of Spark that is in the archive."""
    commit: int = -1

    def partitions(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Return first and last offset, count and checksum of each partition of each topic."""
        grouped: dict[tuple[str, int], list[ArchivedFile]] = {}
        for file in self.files.values():
            grouped.setdefault((file.topic, file.partition), []).append(file)
        totals: dict[str, dict[str, dict[str, Any]]] = {}
        for (topic, partition), files in sorted(grouped.items()):
            totals.setdefault(topic, {})[str(partition)] = {
                "first": min(file.first for file in files),
                "last": max(file.last for file in files),
                "count": sum(file.count for file in files),
                "checksum": joined(file.checksum for file in files),
            }
        return totals


@final
class Archive:
    """A folder with an archive. `read` opens it for reading, `write` for writing, which one process at a time can do."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.hidden = self.root / "_pybroker"
        self.checkpoint = self.hidden / "checkpoint"
        self.contents = Contents()
        self._commits = self.hidden / "commits"
        self._staging = self.hidden / "staging"
        self._lock: int | None = None

    @classmethod
    def write(cls, root: Path) -> Archive:
        """Open or create an archive for writing, and repair what a kill has left. Raises PipelineError."""
        archive = cls(root)
        if root.is_dir() and not archive.hidden.exists() and any(root.iterdir()):
            raise PipelineError(f"{root} is not empty and is not an archive: its manifest is missing")
        try:
            archive._commits.mkdir(parents=True, exist_ok=True)
            archive._lock = os.open(archive.hidden / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            raise PipelineError(f"{root}: {error.strerror}") from error
        try:
            fcntl.flock(archive._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            archive.close()
            raise PipelineError(f"another job is writing to {root}") from error
        archive.contents = archive._load()
        archive.mend()
        return archive

    @classmethod
    def read(cls, root: Path) -> Archive:
        """Open an archive for reading. Raises PipelineError when there is none or when it has another format."""
        archive = cls(root)
        if not root.is_dir():
            raise PipelineError(f"{root}: no such directory")
        if not archive.hidden.is_dir():
            raise PipelineError(f"{root} is not an archive: its manifest is missing")
        archive.contents = archive._load()
        archive.identity()
        for file in archive.contents.files.values():
            if not (archive.root / file.path).exists():
                raise PipelineError(f"{root / file.path} is missing, though the manifest names it")
        return archive

    def close(self) -> None:
        """Let other processes write."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def identity(self) -> Identity | None:
        """Return whose records these are, or None in a new archive. Raises PipelineError when it has another format."""
        path = self.hidden / "identity.json"
        if not path.exists():
            return None
        stored = _json(path)
        if stored.get("format") != FORMAT:
            raise PipelineError(f"{self.root} has format {stored.get('format')!r}, but this version reads format {FORMAT}")
        try:
            topics, ids = tuple(stored["topics"]), dict(stored["topic_ids"])
            isolation = Isolation(stored.get("isolation_level", Isolation.READ_COMMITTED))
            return Identity(stored["cluster"], topics, stored["pattern"], ids, dict(stored["partitions"]), isolation)
        except (KeyError, TypeError, ValueError) as error:
            raise PipelineError(f"{path} is not the identity file of an archive of this version") from error

    def identify(self, identity: Identity) -> None:
        """Write down whose records these are."""
        stored = {
            "format": FORMAT,
            "cluster": identity.cluster,
            "topics": list(identity.topics),
            "pattern": identity.pattern,
            "topic_ids": identity.topic_ids,
            "partitions": identity.partitions,
            "isolation_level": identity.isolation,
        }
        _write_json(self.hidden / "identity.json", stored)

    def new_staging(self) -> Path:
        """Return the path of a new folder for files that the next commit adds."""
        self._staging.mkdir(exist_ok=True)
        return self._staging / uuid.uuid4().hex

    def commit(self, staging: Path, added: Sequence[ArchivedFile], removed: Iterable[str] = (), batch: int | None = None) -> None:
        """Make staged files part of the archive, in one step. The paths of `added` are relative to `staging`."""
        number = self.contents.commit + 1
        moves, files = {}, []
        for file in added:
            placed = ArchivedFile(**{**file.to_json(), "path": name_of(file, number)})
            moves[placed.path] = str((staging / file.path).relative_to(self.hidden))
            files.append(placed)
        stored = {"batch": batch, "added": [file.to_json() for file in files], "removed": list(removed), "moves": moves}
        _write_json(self._commits / f"{number:012}.json", stored)
        self._apply(stored, number)
        self._move(stored)
        shutil.rmtree(staging, ignore_errors=True)
        if (number + 1) % _SNAPSHOT_EVERY == 0:
            self.snapshot()

    def snapshot(self) -> None:
        """Write a new manifest, and delete the commits that it covers."""
        contents = self.contents
        stored = {
            "format": FORMAT,
            "commit": contents.commit,
            "batch": contents.batch,
            "partitions": contents.partitions(),
            "files": [file.to_json() for file in contents.files.values()],
        }
        _write_json(self.hidden / "manifest.json", stored)
        for path in self._numbered():
            if int(path.stem) <= contents.commit:
                path.unlink()

    def mend(self) -> None:
        """Finish the moves of commits, and delete what no commit names."""
        for path in self._numbered():
            self._move(_json(path))
        for path in self.root.glob(_MIXED):
            if str(path.relative_to(self.root)) not in self.contents.files:
                path.unlink()
        shutil.rmtree(self._staging, ignore_errors=True)

    def _load(self) -> Contents:
        contents, path = Contents(), self.hidden / "manifest.json"
        if path.exists():
            stored = _json(path)
            if stored.get("format") != FORMAT:
                raise PipelineError(f"{path} has format {stored.get('format')!r}, but this version reads format {FORMAT}")
            try:
                contents.files = {file["path"]: ArchivedFile(**file) for file in stored["files"]}
                contents.batch, contents.commit = stored["batch"], stored["commit"]
            except (KeyError, TypeError) as error:
                raise PipelineError(f"{path} is not a manifest of this version") from error
        self.contents = contents
        for path in self._numbered():
            if int(path.stem) > contents.commit:
                self._apply(_json(path), int(path.stem))
        return contents

    def _apply(self, stored: Mapping[str, Any], number: int) -> None:
        for file in stored["added"]:
            self.contents.files[file["path"]] = ArchivedFile(**file)
        for path in stored["removed"]:
            self.contents.files.pop(path, None)
        if stored["batch"] is not None:
            self.contents.batch = stored["batch"]
        self.contents.commit = number

    def _move(self, stored: Mapping[str, Any]) -> None:
        for path, staged in stored["moves"].items():
            target = self.root / path
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # the file is in its place already
                (self.hidden / staged).rename(target)
        for path in stored["removed"]:
            (self.root / path).unlink(missing_ok=True)

    def _numbered(self) -> list[Path]:
        return sorted(path for path in self._commits.glob("*.json") if path.stem.isdigit())


def _json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise PipelineError(f"{path} cannot be read: {error}") from error
    if not isinstance(content, dict):
        raise PipelineError(f"{path} is not a JSON object")
    return content


def _write_json(path: Path, content: object) -> None:
    """Write a file whole or not at all, also when the machine goes down."""
    fresh = path.with_name(f".{path.name}.new")
    with fresh.open("w") as file:
        json.dump(content, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
