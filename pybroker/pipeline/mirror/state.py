"""The folder of a mirror: what goes where, and the offset maps.

mirror.json                     which clusters, which topics, the producer id
offsets/TOPIC/PARTITION.map     by the source's names
"""

from __future__ import annotations

import fcntl
import json
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, final

from pybroker.pipeline.errors import PipelineError
from pybroker.pipeline.mirror.offset_map import OffsetMap, Run
from pybroker.pipeline.mirror.outgoing import Producer

if TYPE_CHECKING:
    from pathlib import Path

_KIND: Final = "a mirror of pybroker, 1"


@dataclass(frozen=True, slots=True)
class Pair:
    """A topic and its copy. The identities are hexadecimal."""

    target: str
    source_id: str
    target_id: str


@dataclass(frozen=True, slots=True)
class Identity:
    """What a mirror is of, and where it goes."""

    source_cluster: str
    target_cluster: str
    producer: Producer
    topics: dict[str, Pair] = field(default_factory=dict)
    """By their names in the source."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a record of the target comes from."""

    topic: str
    partition: int
    offset: int


@final
class State:
    """The folder of one mirror."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock: int | None = None

    @classmethod
    def write(cls, path: Path) -> State:
        """Open or make it, for this process alone. Raises PipelineError."""
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
        """The folder of a mirror that was run. Raises PipelineError when it is none."""
        state = cls(path)
        if state.identity() is None:
            raise PipelineError(f"{path} is not the folder of a mirror")
        return state

    def close(self) -> None:
        """Give the folder free."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def identity(self) -> Identity | None:
        """What is mirrored; None before the first time. Raises PipelineError when the file is another's."""
        path = self._path / "mirror.json"
        try:
            said: dict[str, Any] = json.loads(path.read_text())
            if said.pop("kind") != _KIND:
                raise PipelineError(f"{path} is of another version of pybroker, or not the state of a mirror")
            topics = {topic: Pair(**pair) for topic, pair in said.pop("topics").items()}
            return Identity(producer=Producer(**said.pop("producer")), topics=topics, **said)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise PipelineError(f"{path}: {error.strerror}") from error
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise PipelineError(f"{path} is not the state of a mirror") from error

    def identify(self, identity: Identity) -> None:
        """Write down what is mirrored; whole or not at all."""
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
        """The offset map of a partition, by its name in the source."""
        return self._path / "offsets" / topic / f"{partition}.map"

    def maps(self) -> dict[tuple[str, int], Path]:
        """All that there are, by topic and partition of the source."""
        found = {}
        for path in (self._path / "offsets").glob("*/*.map"):
            if path.stem.isdigit():
                found[path.parent.name, int(path.stem)] = path
        return dict(sorted(found.items()))

    # --- For the audit ----------------------------------------------------------------------------------------------------------

    def origin(self, target_topic: str, partition: int, offset: int) -> Origin:
        """Where the record at this place of the target comes from. Raises PipelineError when it did not come by this mirror."""
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
        """Which offsets of the source are which in the target, by partition: all that have arrived. Raises PipelineError."""
        topic = self._source_topic(target_topic)
        return {partition: list(OffsetMap.read(path).runs()) for (name, partition), path in self.maps().items() if name == topic}

    def _source_topic(self, target_topic: str) -> str:
        identity = self.identity()
        for topic, pair in ({} if identity is None else identity.topics).items():
            if pair.target == target_topic:
                return topic
        raise PipelineError(f"{self._path} does not mirror anything to topic {target_topic}")
