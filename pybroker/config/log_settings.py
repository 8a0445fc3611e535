"""The table of broker properties, second part: the log, whose rows are mostly the defaults of topic properties.

Source: ServerLogConfigs, CleanerConfig.
"""

from __future__ import annotations

from typing import Final

from pybroker.config.setting import LONG_MAX, Effect, Kind, Setting, Update, at_least
from pybroker.config.topic_settings import (
    MESSAGE_FORMAT_VERSION,
    of_topics,
)

_B, _I, _L, _D, _S = Kind.BOOLEAN, Kind.INT, Kind.LONG, Kind.DOUBLE, Kind.STRING
_YES, _LATER, _NEVER = Effect.YES, Effect.LATER, Effect.NEVER
_ALL = Update.CLUSTER_WIDE
_ANY_RATE: Final = 1.7976931348623157e308

LOG_SETTINGS: Final = (
    # segments
    of_topics("log.segment.bytes"),
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
    of_topics("log.preallocate"),
    of_topics("log.segment.delete.delay.ms"),
    of_topics("log.index.size.max.bytes"),
    of_topics("log.index.interval.bytes"),
    # retention
    of_topics("log.cleanup.policy"),
    Setting(
        "log.retention.ms", _L, None,
        "Age at which records are deleted, in ms (log.retention.granularity decides how); -1 is never; when not set, "
        "log.retention.minutes.", None, _YES, _ALL,
    ),
    Setting(
        "log.retention.minutes", _I, None, "Age at which records are deleted, in minutes; when not set, log.retention.hours.",
    ),
    Setting("log.retention.hours", _I, 168, "Age at which records are deleted, in hours; -1 is never."),
    of_topics("log.retention.bytes"),
    of_topics("log.retention.granularity"),
    Setting("log.retention.check.interval.ms", _L, 300_000, "How often to look for segments to delete, in ms.", at_least(1)),
    of_topics("log.local.retention.ms"),
    of_topics("log.local.retention.bytes"),
    # flushing
    of_topics("log.flush.interval.messages"),
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
    of_topics("log.message.downconversion.enable"),
    of_topics("log.message.timestamp.type"),
    of_topics("log.message.timestamp.before.max.ms"),
    of_topics("log.message.timestamp.after.max.ms"),
    of_topics("log.message.timestamp.difference.max.ms"),
    Setting(
        "log.message.format.version", _S,
        "3.0-IV1", "Accepted and ignored: batches are stored in format 2.", MESSAGE_FORMAT_VERSION, _NEVER,
    ),
    of_topics("compression.type"),
    of_topics("compression.gzip.level"),
    of_topics("compression.lz4.level"),
    of_topics("compression.zstd.level"),
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
    of_topics("log.cleaner.min.cleanable.ratio"),
    of_topics("log.cleaner.delete.retention.ms"),
    of_topics("log.cleaner.min.compaction.lag.ms"),
    of_topics("log.cleaner.max.compaction.lag.ms"),
)  # fmt: skip
