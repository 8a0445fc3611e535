"""The part of a topic's configuration that the validation of records needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from pybroker.records.compression import CompressionType

if TYPE_CHECKING:
    from pybroker.config.topic import TopicConfig

INFLATION_MAX: Final = 1100
"""The default of `pybroker.produce.inflation.max`: a little more than the 1,032 to 1 of gzip, which zeros reach."""
USUAL_BYTES_MAX: Final = 2 << 20
"""A larger batch without a codec is checked in a thread."""

_ALL_CODECS: Final = sum(1 << codec for codec in CompressionType)


@dataclass(slots=True, frozen=True, kw_only=True)
class ValidationRules:
    """The rules of one topic; made once per configuration. Times are in ms.

    If `compression` is None, the producer's codec is kept; `level` is that codec's, None for its default.
    """

    max_message_bytes: int
    compression: CompressionType | None = None
    level: int | None = None
    is_compacted: bool = False
    is_log_append_time: bool = False
    timestamp_before_max_ms: int = (1 << 63) - 1
    timestamp_after_max_ms: int = (1 << 63) - 1
    inflation_max: int = INFLATION_MAX

    kept_codecs: int = field(init=False)
    """Bit N is set if a good batch in codec N is kept as it is."""
    usual_bytes_max: int = field(init=False)
    """The size up to which such a batch is checked where it is, at once."""
    inflated_bytes_max: int = field(init=False)
    """The bytes to which the records of one request may inflate, by sum."""

    def __post_init__(self) -> None:
        kept = _ALL_CODECS if self.compression is None else 1 << self.compression
        object.__setattr__(self, "kept_codecs", 0 if self.is_log_append_time else kept)
        object.__setattr__(self, "usual_bytes_max", min(self.max_message_bytes, USUAL_BYTES_MAX))
        object.__setattr__(self, "inflated_bytes_max", self.max_message_bytes * self.inflation_max)

    @classmethod
    def of(cls, config: TopicConfig, inflation_max: int = INFLATION_MAX) -> ValidationRules:
        """Return the rules of a topic with this configuration."""
        compression = CompressionType.of_config(config.compression_type)
        levels = {
            CompressionType.GZIP: config.compression_gzip_level,
            CompressionType.LZ4: config.compression_lz4_level,
            CompressionType.ZSTD: config.compression_zstd_level,
        }
        return cls(
            max_message_bytes=config.max_message_bytes,
            compression=compression,
            level=None if compression is None else levels.get(compression),
            is_compacted="compact" in config.cleanup_policy,
            is_log_append_time=config.message_timestamp_type == "LogAppendTime",
            timestamp_before_max_ms=config.message_timestamp_before_max_ms,
            timestamp_after_max_ms=config.message_timestamp_after_max_ms,
            inflation_max=inflation_max,
        )
