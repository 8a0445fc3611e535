"""The table of topic properties: Kafka's names, types, defaults and checks, and the broker properties that are their defaults.

Defaults and limits are those of Kafka 3.9, the last release that still converts for old clients.

Source: TopicConfig, LogConfig, ServerTopicConfigSynonyms.
"""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

from pybroker.config.setting import LONG_MAX, Check, Effect, Kind, Setting, Update, all_of, at_least, between, between_or, one_of

COMPRESSION_TYPES: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
CLEANUP_POLICIES: Final = ("compact", "delete")
RETENTION_GRANULARITIES: Final = ("record", "segment")
_VERSION: Final = re.compile(r"(0\.(8\.[0-2]|9\.0|10\.[0-2]|11\.0)|1\.[01]|2\.[0-8]|3\.[0-9]|4\.0)(\.[0-9]+)?(-IV[0-9]+)?")
MESSAGE_FORMAT_VERSION: Final = Check(
    "a Kafka version such as 3.0-IV1",
    lambda value: _VERSION.fullmatch(value) is not None,
    lambda value: f"Version {value} is not a valid version",
)


def _is_replica_list(value: Any) -> bool:
    return value == ("*",) or all(re.fullmatch(r"[0-9]+:[0-9]+", entry) for entry in value)


THROTTLED_REPLICAS: Final = Check(
    "* or a list of partition:broker",
    _is_replica_list,
    lambda _: (
        "{name} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    ),
)


class Synonym(NamedTuple):
    """A broker property that applies where a topic has none; its value times `factor` is the topic's value."""

    name: str
    factor: int = 1


_MINUTE_MS: Final = 60_000
_HOUR_MS: Final = 60 * _MINUTE_MS


def _topic(
    name: str,
    kind: Kind,
    default: Any,
    doc: str,
    check: Check | None = None,
    *synonyms: Synonym | str,
    effect: Effect = Effect.YES,
) -> tuple[Setting, tuple[Synonym, ...]]:
    setting = Setting(name, kind, default, doc, check, effect, Update.CLUSTER_WIDE)
    return setting, tuple(Synonym(s) if isinstance(s, str) else s for s in synonyms)


_TABLE: Final = (
    _topic(
        "cleanup.policy", Kind.LIST, ("delete",),
        "What happens to old data: delete removes records by age and size; compact requires keys, and keeps the newest "
        "record of each key.",
        all_of(*CLEANUP_POLICIES), "log.cleanup.policy",
    ),
    _topic(
        "compression.gzip.level", Kind.INT, -1,
        "Level of a batch that the broker compresses with gzip; -1 is the library's default.",
        between_or(1, 9, -1), "compression.gzip.level",
    ),
    _topic(
        "compression.lz4.level", Kind.INT, 9, "Level of a batch that the broker compresses with lz4.",
        between(1, 17), "compression.lz4.level",
    ),
    _topic(
        "compression.type", Kind.STRING, "producer",
        "Compression of batches on disk; producer keeps the producer's choice, any other value recompresses batches that differ.",
        one_of(*COMPRESSION_TYPES), "compression.type",
    ),
    _topic(
        "compression.zstd.level", Kind.INT, 3, "Level of a batch that the broker compresses with zstd.",
        between(-131072, 22), "compression.zstd.level",
    ),
    _topic(
        "delete.retention.ms", Kind.LONG, 86_400_000,
        "How long a compacted topic keeps tombstones and transaction markers, in ms.",
        at_least(0), "log.cleaner.delete.retention.ms",
    ),
    _topic(
        "file.delete.delay.ms", Kind.LONG, 60_000,
        "How long a deleted segment's files stay on disk for readers that have begun, in ms.",
        at_least(0), "log.segment.delete.delay.ms",
    ),
    _topic(
        "flush.messages", Kind.LONG, LONG_MAX,
        "Force data to disk after this many records. The response to the batch that completes them waits for that, and so do its "
        "readers. By default the operating system decides.",
        at_least(1), "log.flush.interval.messages",
    ),
    _topic(
        "flush.ms", Kind.LONG, LONG_MAX,
        "Force data to disk this long after the last time, in ms; checked every log.flush.scheduler.interval.ms.",
        at_least(0), "log.flush.interval.ms", "log.flush.scheduler.interval.ms",
    ),
    _topic(
        "follower.replication.throttled.replicas", Kind.LIST, (),
        "Replicas whose replication is throttled on the follower's side.",
        THROTTLED_REPLICAS, effect=Effect.LATER,
    ),
    _topic(
        "index.interval.bytes", Kind.INT, 4096, "Bytes of log between two entries of the offset and time indexes.",
        at_least(0), "log.index.interval.bytes",
    ),
    _topic(
        "leader.replication.throttled.replicas", Kind.LIST, (), "Replicas whose replication is throttled on the leader's side.",
        THROTTLED_REPLICAS, effect=Effect.LATER,
    ),
    _topic(
        "local.retention.bytes", Kind.LONG, -2,
        "Bytes to keep on the local disk once segments are in remote storage; -2 is retention.bytes.",
        at_least(-2), "log.local.retention.bytes", effect=Effect.LATER,
    ),
    _topic(
        "local.retention.ms", Kind.LONG, -2,
        "Time to keep segments on the local disk once they are in remote storage; -2 is retention.ms.",
        at_least(-2), "log.local.retention.ms", effect=Effect.LATER,
    ),
    _topic(
        "max.compaction.lag.ms", Kind.LONG, LONG_MAX, "Longest time that a record stays out of compaction, in ms.",
        at_least(1), "log.cleaner.max.compaction.lag.ms",
    ),
    _topic(
        "max.message.bytes", Kind.INT, 1_048_588,
        "Largest batch that the topic accepts, in bytes: its compressed size with the header.",
        at_least(0), "message.max.bytes",
    ),
    _topic(
        "message.downconversion.enable", Kind.BOOLEAN, True,
        "Convert batches for consumers that cannot read format 2; otherwise they get UNSUPPORTED_VERSION for the partition.",
        None, "log.message.downconversion.enable",
    ),
    _topic(
        "message.format.version", Kind.STRING,
        "3.0-IV1", "Accepted for old scripts and ignored: batches are always stored in format 2.",
        MESSAGE_FORMAT_VERSION, "log.message.format.version", effect=Effect.NEVER,
    ),
    _topic(
        "message.timestamp.after.max.ms", Kind.LONG, LONG_MAX,
        "How far a record's CreateTime may lie after the broker's clock, in ms.",
        at_least(0), "log.message.timestamp.after.max.ms",
    ),
    _topic(
        "message.timestamp.before.max.ms", Kind.LONG, LONG_MAX,
        "How far a record's CreateTime may lie before the broker's clock, in ms.",
        at_least(0), "log.message.timestamp.before.max.ms",
    ),
    _topic(
        "message.timestamp.difference.max.ms", Kind.LONG, LONG_MAX,
        "The older single name for both timestamp limits; it applies where the limit before or after has its default.",
        at_least(0), "log.message.timestamp.difference.max.ms",
    ),
    _topic(
        "message.timestamp.type", Kind.STRING,
        "CreateTime", "Whose clock a record's timestamp is: the producer's or the broker's.",
        one_of(*TIMESTAMP_TYPES), "log.message.timestamp.type",
    ),
    _topic(
        "min.cleanable.dirty.ratio", Kind.DOUBLE, 0.5, "Share of a compacted log that must be uncompacted before it is cleaned.",
        between(0, 1), "log.cleaner.min.cleanable.ratio",
    ),
    _topic(
        "min.compaction.lag.ms", Kind.LONG, 0, "Shortest time that a record stays out of compaction, in ms.",
        at_least(0), "log.cleaner.min.compaction.lag.ms",
    ),
    _topic(
        "min.insync.replicas", Kind.INT, 1, "Replicas that must be in sync for a produce request with acks=all to be accepted.",
        at_least(1), "min.insync.replicas",
    ),
    _topic(
        "preallocate", Kind.BOOLEAN, False, "Create a new segment's file at its full size at once.", None, "log.preallocate",
        effect=Effect.LATER,
    ),
    _topic(
        "remote.log.copy.disable", Kind.BOOLEAN, False, "Stop copying segments of a tiered topic to remote storage.", None,
        effect=Effect.LATER,
    ),
    _topic(
        "remote.log.delete.on.disable", Kind.BOOLEAN, False,
        "Delete the remote data of a topic when its tiering is switched off.", None,
        effect=Effect.LATER,
    ),
    _topic(
        "remote.storage.enable", Kind.BOOLEAN, False,
        "Keep old segments of the topic in remote storage; true is refused, as in a Kafka without remote storage.", None,
        effect=Effect.LATER,
    ),
    _topic(
        "retention.bytes", Kind.LONG, -1,
        "Size of a partition above which its oldest records are deleted, in bytes (retention.granularity decides how); -1 is no "
        "limit.",
        None, "log.retention.bytes",
    ),
    _topic(
        "retention.granularity", Kind.STRING, "record",
        "What retention deletes: record (the records that are due, of any segment) or segment (whole segments, as Kafka).",
        one_of(*RETENTION_GRANULARITIES), "log.retention.granularity",
    ),
    _topic(
        "retention.ms", Kind.LONG, 604_800_000,
        "Age at which records are deleted, in ms (retention.granularity decides how); -1 is no limit.",
        at_least(-1), "log.retention.ms", Synonym("log.retention.minutes", _MINUTE_MS), Synonym("log.retention.hours", _HOUR_MS),
    ),
    _topic(
        "segment.bytes", Kind.INT, 1_073_741_824,
        "Size at which a new segment is begun, in bytes.", at_least(14), "log.segment.bytes",
    ),
    _topic(
        "segment.index.bytes", Kind.INT, 10_485_760,
        "Largest size of an index file, in bytes; a full index begins a new segment.",
        at_least(4), "log.index.size.max.bytes",
    ),
    _topic(
        "segment.jitter.ms", Kind.LONG, 0,
        "Random time by which segments begin earlier, in ms, so that they do not all begin at once.",
        at_least(0), "log.roll.jitter.ms", Synonym("log.roll.jitter.hours", _HOUR_MS),
    ),
    _topic(
        "segment.ms", Kind.LONG, 604_800_000, "Age of a segment's first record at which a new segment is begun, in ms.",
        at_least(1), "log.roll.ms", Synonym("log.roll.hours", _HOUR_MS),
    ),
    _topic(
        "unclean.leader.election.enable", Kind.BOOLEAN, False,
        "Let a replica that lags behind become leader when no other is left.",
        None, "unclean.leader.election.enable",
    ),
)  # fmt: skip

TOPIC_SETTINGS: Final = {setting.name: setting for setting, _ in _TABLE}
SYNONYMS: Final = {setting.name: synonyms for setting, synonyms in _TABLE}
"""The broker properties that give each topic property its default: the first that is set counts."""

_FIRST: Final = {synonyms[0].name: setting for setting, synonyms in _TABLE if synonyms}


def of_topics(name: str) -> Setting:
    """Return the row of a broker property that gives topics their default, and has the type, default and check of theirs."""
    return _FIRST[name]._replace(name=name)
