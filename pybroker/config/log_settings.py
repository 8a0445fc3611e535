"""The table of broker properties, second part: the log, whose rows are mostly the defaults of topic properties.

Source: ServerLogConfigs, CleanerConfig.
"""

from __future__ import annotations

from typing import Final

from pybroker.config.setting import LONG_MAX, Effect, Kind, Setting, Update, all_of, at_least, between, between_or, one_of
from pybroker.config.topic_settings import (
    CLEANUP_POLICIES,
    COMPRESSION_TYPES,
    MESSAGE_FORMAT_VERSION,
    RETENTION_GRANULARITIES,
    TIMESTAMP_TYPES,
)

_B, _I, _L, _D, _S = Kind.BOOLEAN, Kind.INT, Kind.LONG, Kind.DOUBLE, Kind.STRING
_YES, _LATER, _NEVER = Effect.YES, Effect.LATER, Effect.NEVER
_ALL = Update.CLUSTER_WIDE
_ANY_RATE: Final = 1.7976931348623157e308

LOG_SETTINGS: Final = (
    # segments
    Setting("log.segment.bytes", _I, 1_073_741_824, "Size at which a new segment is begun, in bytes.", at_least(14), _YES, _ALL),
    Setting(
        "log.roll.ms", _L, None,
        "Age at which a new segment is begun, in ms; when not set, log.roll.hours.", at_least(1), _YES, _ALL,
    ),
    Setting("log.roll.hours", _I, 168, "Age at which a new segment is begun, in hours.", at_least(1)),
    Setting(
        "log.roll.jitter.ms", _L, None,
        "Random time by which segments begin earlier, in ms; when not set, log.roll.jitter.hours.", at_least(0), _YES, _ALL,
    ),
    Setting("log.roll.jitter.hours", _I, 0, "Random time by which segments begin earlier, in hours.", at_least(0)),
    Setting("log.preallocate", _B, False, "Create a new segment's file at its full size at once.", None, _LATER, _ALL),
    Setting(
        "log.segment.delete.delay.ms", _L, 60_000,
        "How long a deleted segment's files stay on disk, in ms.", at_least(0), _YES, _ALL,
    ),
    Setting("log.index.size.max.bytes", _I, 10_485_760, "Largest size of an index file, in bytes.", at_least(4), _YES, _ALL),
    Setting("log.index.interval.bytes", _I, 4096, "Bytes of log between two index entries.", at_least(0), _YES, _ALL),
    # retention
    Setting(
        "log.cleanup.policy", Kind.LIST, ("delete",),
        "What happens to old data: delete, compact, or both.", all_of(*CLEANUP_POLICIES), _YES, _ALL,
    ),
    Setting(
        "log.retention.ms", _L, None,
        "Age at which records are deleted, in ms (log.retention.granularity decides how); -1 is never; when not set, "
        "log.retention.minutes.", None, _YES, _ALL,
    ),
    Setting(
        "log.retention.minutes", _I, None, "Age at which records are deleted, in minutes; when not set, log.retention.hours.",
    ),
    Setting("log.retention.hours", _I, 168, "Age at which records are deleted, in hours; -1 is never."),
    Setting(
        "log.retention.bytes", _L, -1,
        "Size of a partition above which its oldest records are deleted (log.retention.granularity decides how); -1 is no limit.",
        None, _YES, _ALL,
    ),
    Setting(
        "log.retention.granularity", _S, "record",
        "What retention deletes: record (the records that are due, of any segment) or segment (whole segments, as Kafka).",
        one_of(*RETENTION_GRANULARITIES), _YES, _ALL,
    ),
    Setting("log.retention.check.interval.ms", _L, 300_000, "How often to look for segments to delete, in ms.", at_least(1)),
    Setting(
        "log.local.retention.ms", _L, -2,
        "Time to keep a tiered topic's segments on the local disk.", at_least(-2), _LATER, _ALL,
    ),
    Setting(
        "log.local.retention.bytes", _L, -2,
        "Bytes of a tiered topic to keep on the local disk.", at_least(-2), _LATER, _ALL,
    ),
    # flushing
    Setting(
        "log.flush.interval.messages", _L, LONG_MAX,
        "Force data to disk after this many records. The response to the batch that completes them waits, and so do its readers.",
        at_least(1), _YES, _ALL,
    ),
    Setting(
        "log.flush.interval.ms", _L, None,
        "Force data to disk at this age, in ms; when not set, log.flush.scheduler.interval.ms. No response waits for this.",
        None, _YES, _ALL,
    ),
    Setting("log.flush.scheduler.interval.ms", _L, LONG_MAX, "How often to look for logs to flush, in ms; by default never."),
    Setting("log.flush.offset.checkpoint.interval.ms", _I, 60_000, "How often recovery points are written, in ms.", at_least(0)),
    Setting(
        "log.flush.start.offset.checkpoint.interval.ms", _I, 60_000,
        "How often log start offsets are written, in ms.", at_least(0),
    ),
    Setting(
        "log.initial.task.delay.ms", _L, 30_000,
        "Time before the first background pass over the logs, in ms; flushes begin earlier if their interval is shorter.",
        at_least(0),
    ),
    Setting(
        "log.dir.failure.timeout.ms", _L, 30_000,
        "Time to report a failed data directory before the broker stops, in ms.", at_least(1), _LATER,
    ),
    # messages
    Setting(
        "log.message.downconversion.enable", _B, True,
        "Convert batches for consumers that cannot read format 2.", None, _YES, _ALL,
    ),
    Setting(
        "log.message.timestamp.type", _S,
        "CreateTime", "Whose clock a record's timestamp is.", one_of(*TIMESTAMP_TYPES), _YES, _ALL,
    ),
    Setting(
        "log.message.timestamp.before.max.ms", _L, LONG_MAX,
        "How far a CreateTime may lie before the broker's clock, in ms.", at_least(0), _YES, _ALL,
    ),
    Setting(
        "log.message.timestamp.after.max.ms", _L, LONG_MAX,
        "How far a CreateTime may lie after the broker's clock, in ms.", at_least(0), _YES, _ALL,
    ),
    Setting(
        "log.message.timestamp.difference.max.ms", _L, LONG_MAX,
        "The older single name for both limits.", at_least(0), _YES, _ALL,
    ),
    Setting(
        "log.message.format.version", _S,
        "3.0-IV1", "Accepted and ignored: batches are stored in format 2.", MESSAGE_FORMAT_VERSION, _NEVER,
    ),
    Setting(
        "compression.type", _S,
        "producer",
        "Compression of batches on disk; producer keeps the producer's choice.", one_of(*COMPRESSION_TYPES), _YES, _ALL,
    ),
    Setting("compression.gzip.level", _I, -1, "Level of gzip; -1 is the library's default.", between_or(1, 9, -1), _YES, _ALL),
    Setting("compression.lz4.level", _I, 9, "Level of lz4.", between(1, 17), _YES, _ALL),
    Setting("compression.zstd.level", _I, 3, "Level of zstd.", between(-131072, 22), _YES, _ALL),
    # compaction
    Setting("log.cleaner.enable", _B, True, "Compact the topics whose cleanup.policy includes compact.", None, _YES),
    Setting(
        "log.cleaner.threads", _I, 1,
        "Logs that are compacted at once, in turns of the loop; with 0, at the start only, none is. A change at run time is to "
        "at least 1, at least half and at most double the number.", at_least(0), _YES, _ALL,
    ),
    Setting(
        "log.cleaner.io.max.bytes.per.second", _D, _ANY_RATE,
        "Bytes per second that compaction may read and write.", None, _YES, _ALL,
    ),
    Setting(
        "log.cleaner.dedupe.buffer.size", _L, 134_217_728,
        "Memory for keys in a compaction, in bytes; a log with more keys takes several passes.", None, _YES, _ALL,
    ),
    Setting(
        "log.cleaner.io.buffer.size", _I, 524_288,
        "Memory for reading and writing in compactions, in bytes.", at_least(0), _NEVER, _ALL,
    ),
    Setting("log.cleaner.io.buffer.load.factor", _D, 0.9, "How full the table of keys may become.", None, _NEVER, _ALL),
    Setting("log.cleaner.backoff.ms", _L, 15_000, "Pause when there is nothing to compact, in ms.", at_least(0), _YES, _ALL),
    Setting(
        "log.cleaner.min.cleanable.ratio", _D, 0.5,
        "Share of a log that must be uncompacted before it is compacted.", between(0, 1), _YES, _ALL,
    ),
    Setting("log.cleaner.delete.retention.ms", _L, 86_400_000, "How long tombstones are kept, in ms.", at_least(0), _YES, _ALL),
    Setting(
        "log.cleaner.min.compaction.lag.ms", _L, 0,
        "Shortest time that a record stays out of compaction, in ms.", at_least(0), _YES, _ALL,
    ),
    Setting(
        "log.cleaner.max.compaction.lag.ms", _L, LONG_MAX,
        "Longest time that a record stays out of compaction, in ms.", at_least(1), _YES, _ALL,
    ),
)  # fmt: skip
