"""The options of `spark.read.format("pybroker")` and `spark.readStream.format("pybroker")`, read once.

path                  the data directory; several (log.dirs) separated by commas, or load([...])
topic                 names separated by commas
topicPattern          a regular expression that matches whole names; without `topic` and `topicPattern`, a query reads
                      every topic but Kafka's own
partitions            numbers separated by commas
columns               names of columns, separated by commas; a schema given to the reader has the same effect
isolation.level       read_committed (default) | read_uncommitted; `kafka.isolation.level`, the name of the Kafka connector's
                      option, and `isolation` are the same
until                 highWatermark (default): as the broker last wrote it to its checkpoint, every
                      `replica.high.watermark.checkpoint.interval.ms` | logEnd: the last whole batch, for a single replica
startingOffsets       earliest (default) | latest | {"topic": {"0": 5, "1": -2}}, where -2 is earliest and -1 latest
endingOffsets         latest (default) | the same JSON; batch reads only
startingTimestamp     only records of this time (ms) or later
endingTimestamp       only records before this time (ms)
pushFilters           false (default) | true: Spark hands over the filters of a query. Spark 4.2.0 keeps them with the
                      DataFrame, so a second query of the frame gets the rows of the first: use a frame for one query only
failOnDataLoss        true (default): offsets that are gone fail the job | false: it continues without them and logs it
checkCrcs             true (default) | false: do not check the checksums of batches
splitBytes            about how many bytes of a segment one Spark task reads (64 MB)
maxOffsetsPerTrigger  the maximum number of offsets in a micro-batch
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from pybroker.model import Offset, TopicPartition
from pybroker.spark.errors import PipelineError
from pybroker.spark.isolation import Isolation

EARLIEST: Final = Offset(-2)
LATEST: Final = Offset(-1)
_ISOLATION: Final = ("isolation.level", "kafka.isolation.level", "isolation")
"""The names of one option: Kafka's, the Kafka connector's, and a short one."""
SPLIT_BYTES: Final = 64 << 20
INTERNAL_TOPICS: Final = frozenset({"__cluster_metadata", "__consumer_offsets", "__share_group_state", "__transaction_state"})

_NAMES: Final = (
    "path",
    "paths",
    "topic",
    "topicPattern",
    "partitions",
    "columns",
    *_ISOLATION,
    "until",
    "startingOffsets",
    "endingOffsets",
    "startingTimestamp",
    "endingTimestamp",
    "pushFilters",
    "failOnDataLoss",
    "checkCrcs",
    "splitBytes",
    "maxOffsetsPerTrigger",
)


@dataclass(frozen=True, slots=True)
class Bound:
    """The offsets at which to start or to end: of the named partitions, and of all others."""

    default: Offset
    offsets: Mapping[TopicPartition, Offset]

    def of(self, tp: TopicPartition) -> Offset:
        """Return an offset, EARLIEST or LATEST."""
        return self.offsets.get(tp, self.default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a query, checked."""

    directories: tuple[str, ...]
    topics: frozenset[str] | None
    topic_pattern: re.Pattern[str] | None
    partitions: frozenset[int] | None
    columns: tuple[str, ...] | None
    isolation: Isolation
    is_until_log_end: bool
    starting: Bound
    ending: Bound
    first_timestamp: int | None
    end_timestamp: int | None
    is_pushing: bool
    is_data_loss_failure: bool
    are_checksums_checked: bool
    split_bytes: int
    offsets_per_trigger_max: int | None

    def takes(self, tp: TopicPartition) -> bool:
        """Return whether the options choose this partition."""
        return (self.partitions is None or tp.partition in self.partitions) and self._takes_topic(tp.topic)

    def _takes_topic(self, topic: str) -> bool:
        if self.topics is not None:
            return topic in self.topics
        if self.topic_pattern is not None:
            return self.topic_pattern.fullmatch(topic) is not None
        return topic not in INTERNAL_TOPICS


def parse(given: Mapping[str, str]) -> Options:
    """Check the options and return them. Their names may be in any case. Raises PipelineError."""
    values = {name.lower(): value for name, value in given.items()}
    unknown = sorted(set(values) - {name.lower() for name in _NAMES})
    if unknown:
        raise PipelineError(f"pybroker has no option {', '.join(unknown)}; the options are {', '.join(_NAMES)}")
    topics, pattern = values.get("topic"), values.get("topicpattern")
    if topics is not None and pattern is not None:
        raise PipelineError("give either topic or topicPattern, not both")
    return Options(
        directories=_directories(values),
        topics=None if topics is None else frozenset(_words(topics)),
        topic_pattern=None if pattern is None else _pattern(pattern),
        partitions=_partitions(values),
        columns=tuple(_words(values["columns"])) if "columns" in values else None,
        isolation=_isolation(values),
        is_until_log_end=not _choice(values, "until", "highWatermark", "logEnd"),
        starting=_bound("startingOffsets", values.get("startingoffsets", "earliest")),
        ending=_bound("endingOffsets", values.get("endingoffsets", "latest")),
        first_timestamp=_number(values, "startingTimestamp", None),
        end_timestamp=_number(values, "endingTimestamp", None),
        is_pushing=not _choice(values, "pushFilters", "false", "true"),
        is_data_loss_failure=_choice(values, "failOnDataLoss", "true", "false"),
        are_checksums_checked=_choice(values, "checkCrcs", "true", "false"),
        split_bytes=_number(values, "splitBytes", SPLIT_BYTES) or SPLIT_BYTES,
        offsets_per_trigger_max=_number(values, "maxOffsetsPerTrigger", None),
    )


def parse_offsets(text: str) -> dict[TopicPartition, Offset]:
    """Return offsets by partition from {"topic": {"0": 5}}. Raises PipelineError."""
    try:
        return {
            TopicPartition(topic, int(partition)): Offset(int(offset))
            for topic, offsets in json.loads(text).items()
            for partition, offset in offsets.items()
        }
    except (ValueError, TypeError, AttributeError) as error:
        raise PipelineError(f'offsets must be written as {{"topic": {{"0": 5}}}}, not as {text}') from error


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]


def _directories(values: Mapping[str, str]) -> tuple[str, ...]:
    try:
        paths = json.loads(values["paths"]) if "paths" in values else []
    except ValueError as error:
        raise PipelineError(f"paths must be a JSON list, not {values['paths']}") from error
    paths = [*paths, *_words(values.get("path", ""))]
    if not paths:
        raise PipelineError('no data directory is given: spark.read.format("pybroker").load("/var/lib/pybroker")')
    return tuple(path.removeprefix("file://").removeprefix("file:").rstrip("/") or "/" for path in paths)


def _partitions(values: Mapping[str, str]) -> frozenset[int] | None:
    if "partitions" not in values:
        return None
    words = _words(values["partitions"])
    if not words or not all(word.isascii() and word.isdigit() for word in words):
        raise PipelineError(f"partitions must be numbers separated by commas, not {values['partitions']}")
    return frozenset(map(int, words))


def _pattern(text: str) -> re.Pattern[str]:
    try:
        return re.compile(text)
    except re.error as error:
        raise PipelineError(f"topicPattern {text} is not a regular expression: {error}") from error


def _choice(values: Mapping[str, str], name: str, default: str, other: str) -> bool:
    """Return whether the option has its default value."""
    value = values.get(name.lower(), default)
    if value.lower() not in {default.lower(), other.lower()}:
        raise PipelineError(f"{name} must be {default} or {other}, not {value}")
    return value.lower() == default.lower()


def _isolation(values: Mapping[str, str]) -> Isolation:
    given = [name for name in _ISOLATION if name in values]
    if len({values[name].lower() for name in given}) > 1:
        raise PipelineError(f"{' and '.join(given)} are the same option, with different values")
    name = given[0] if given else _ISOLATION[0]
    is_committed = _choice(values, name, Isolation.READ_COMMITTED, Isolation.READ_UNCOMMITTED)
    return Isolation.READ_COMMITTED if is_committed else Isolation.READ_UNCOMMITTED


def _number(values: Mapping[str, str], name: str, default: int | None) -> int | None:
    text = values.get(name.lower())
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise PipelineError(f"{name} must be a whole number above 0, not {text}")
    return int(text)


def _bound(name: str, text: str) -> Bound:
    words = {"earliest": EARLIEST, "latest": LATEST}
    if text.lower() in words:
        if name == "endingOffsets" and words[text.lower()] == EARLIEST:
            raise PipelineError("endingOffsets cannot be earliest")
        return Bound(words[text.lower()], {})
    offsets = parse_offsets(text)
    if any(offset < EARLIEST for offset in offsets.values()):
        raise PipelineError(f"{name} has an offset below -2: {text}")
    return Bound(EARLIEST if name == "startingOffsets" else LATEST, offsets)
