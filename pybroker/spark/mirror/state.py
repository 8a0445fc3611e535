"""The folder of a mirror: what it copies to where, and the offset maps.

mirror.json                     the clusters, the topics, the producer id
offsets/TOPIC/PARTITION.map     the offset maps, by the names in the source
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, final

from pybroker.spark.errors import PipelineError
from pybroker.spark.mirror.offset_map import OffsetMap, Run
from pybroker.spark.mirror.outgoing import Producer

if TYPE_CHECKING:
    from pathlib import Path

    from pybroker.model import Offset

_KIND: Final = "a mirror of pybroker, 1"


@dataclass(frozen=True, slots=True)
class Pair:
    """A topic and its copy. The topic ids are hexadecimal."""

    target: str
    source_id: str
    target_id: str


@dataclass(frozen=True, slots=True)
class Identity:
    """The clusters and topics that a mirror copies from and to, and its producer."""

    source_cluster: str
    target_cluster: str
    producer: Producer
    topics: dict[str, Pair] = field(default_factory=dict)
    """The pairs of topics, by their names in the source."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a record of the target comes from."""

    topic: str
    partition: int
    offset: Offset


@final
class State:
    """The folder of one mirror."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: int | None = None

    @classmethod
    def write(cls, path: Path) -> State:
        """Open or create the folder, for this process alone. Raises PipelineError."""
        state = cls(path)
        try:
            path.mkdir(parents=True, exist_ok=True)
            if not (path / "mirror.json").exists() and any(one.name != "lock" for one in path.iterdir()):
                raise PipelineError(f"{path} is not empty and is not the folder of a mirror")
            descriptor = os.open(path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise PipelineError(f"{path}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            os.close(descriptor)
            raise PipelineError(f"{path} is in use: another mirror is running") from error
        state._lock = descriptor
        return state

    @classmethod
    def read(cls, path: Path) -> State:
        """Open the folder of a mirror that has run. Raises PipelineError when it is not one."""
        state = cls(path)
        if state.identity() is None:
            raise PipelineError(f"{path} is not the folder of a mirror")
        return state

    def close(self) -> None:
        """Release the folder."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def identity(self) -> Identity | None:
        """Return what is mirrored, or None before the first run. Raises PipelineError when the file is not a mirror's."""
        path = self._path / "mirror.json"
        try:
            content: dict[str, Any] = json.loads(path.read_text())
            if content.pop("kind") != _KIND:
                raise PipelineError(f"{path} is of another version of pybroker, or not the state of a mirror")
            topics = {topic: Pair(**pair) for topic, pair in content.pop("topics").items()}
            return Identity(producer=Producer(**content.pop("producer")), topics=topics, **content)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise PipelineError(f"{path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise PipelineError(f"{path} is not the state of a mirror") from error

    def identify(self, identity: Identity) -> None:
        """Write down what is mirrored: the whole file or nothing."""
        path, fresh = self._path / "mirror.json", self._path / "mirror.json.new"
        try:
            with fresh.open("w") as file:
                json.dump({"kind": _KIND, **asdict(identity)}, file, indent=1)
                file.flush()
                os.fsync(file.fileno())
            fresh.replace(path)
        except OSError as error:
            raise PipelineError(f"{path}: {error.strerror}") from error

    def map_path(self, topic: str, partition: int) -> Path:
        """Return the path of a partition's offset map; `topic` is the name in the source."""
        return self._path / "offsets" / topic / f"{partition}.map"

    def maps(self) -> dict[tuple[str, int], Path]:
        """Return the paths of all offset maps, by topic and partition of the source."""
        found = {}
        for path in (self._path / "offsets").glob("*/*.map"):
            if path.stem.isdigit():
                found[path.parent.name, int(path.stem)] = path
        return dict(sorted(found.items()))

    # --- For the audit ----------------------------------------------------------------------------------------------------------

    def origin(self, target_topic: str, partition: int, *, offset: Offset) -> Origin:
        """Return where this record of the target comes from. Raises PipelineError when this mirror did not write it."""
        topic = self._source_topic(target_topic)
        path = self.map_path(topic, partition)
        if not path.exists():
            raise PipelineError(f"partition {partition} of topic {target_topic} was not mirrored")
        offsets = OffsetMap.read(path)
        arrived = 0 if offsets.arrived is None else offsets.arrived.target
        if offset >= arrived:
            raise PipelineError(
                f"{target_topic}-{partition} is mirrored up to offset {arrived - 1}; offset {offset} is not mirrored yet"
            )
        return Origin(topic, partition, offsets.source_of(offset))

    def runs(self, target_topic: str) -> dict[int, list[Run]]:
        """Return how source offsets map to target offsets, by partition, for all that has arrived. Raises PipelineError."""
        topic = self._source_topic(target_topic)
        return {partition: list(OffsetMap.read(path).runs()) for (name, partition), path in self.maps().items() if name == topic}

    def _source_topic(self, target_topic: str) -> str:
        identity = self.identity()
        for topic, pair in ({} if identity is None else identity.topics).items():
            if pair.target == target_topic:
                return topic
        raise PipelineError(f"{self._path} does not mirror anything to topic {target_topic}")
