"""The options of an audit, and its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pybroker.spark.audit.trail import COUNTS_TOPIC
from pybroker.spark.errors import PipelineError
from pybroker.spark.isolation import Isolation

if TYPE_CHECKING:
    from pathlib import Path

    from pybroker.spark.audit.sources import Tier
    from pybroker.spark.audit.summary import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Incremental:
    """The options of an incremental audit, in which each pass reads only what is new."""

    interval_s: float | None = None
    """Seconds between passes; None ends when everything is read that was there at the start."""
    keep_s: float = 3600.0
    """How many seconds after a bucket was closed its records are still compared."""
    pass_records: int = 10_000_000
    """The maximum number of records in a pass; a kill undoes the work of a pass."""
    is_loss_allowed: bool = False
    """Continue when records were deleted before they could be read."""

    def __post_init__(self) -> None:
        if self.keep_s < 0 or self.pass_records < 1:
            raise PipelineError("keep_s must not be negative, and pass_records must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """The tiers to compare."""

    path: Path
    """The folder of the result."""
    tiers: tuple[Tier, ...]
    """The tiers, in the order in which records pass them."""
    topics: tuple[str, ...] = ()
    """The topics, by the names that their producers use."""
    pattern: str | None = None
    """A regular expression that whole names of the first tier's topics match, instead of `topics`. That tier must be a cluster
    that renames nothing."""
    counts: str | None = None
    """The cluster with the producers' counts; None compares the tiers only with each other."""
    counts_topic: str = COUNTS_TOPIC
    bucket_s: int = 60
    grace_s: float = 120.0
    """Seconds after its end at which a bucket closes."""
    is_all_closed: bool = False
    """Whether all buckets are closed, because the producers have ended: what is missing now is lost."""
    from_ms: int | None = None
    to_ms: int | None = None
    """The audit is about the buckets from `from_ms` to before `to_ms`; None is no bound."""
    now_ms: int | None = None
    """The time of the audit, if it is not the present."""
    retry_s: float = 60.0
    """How many seconds to wait for a cluster that went away."""
    incremental: Incremental | None = None
    isolation: Isolation = Isolation.READ_COMMITTED
    """Which records of the tiers that are clusters count."""

    def __post_init__(self) -> None:
        if not self.tiers:
            raise PipelineError("an audit needs at least one tier")
        names = [tier.name for tier in self.tiers]
        if len(set(names)) < len(names):
            raise PipelineError(f"two tiers have the same name: {', '.join(names)}")
        if bool(self.topics) == (self.pattern is not None):
            raise PipelineError("either topics or a pattern must be given")
        if self.pattern is not None and self.tiers[0].folder is not None:
            raise PipelineError("with a pattern, the first tier must be a cluster, because the topics are its topics")
        if len(self.topics) > 1 and any("{topic}" not in tier.rename for tier in self.tiers):
            raise PipelineError("several topics cannot have the same name in a tier: use {topic} in the names of its topics")
        if self.bucket_s < 1 or self.grace_s < 0:
            raise PipelineError("bucket_s must be at least 1, and grace_s must not be negative")
        if self.incremental is not None and (self.from_ms is not None or self.to_ms is not None):
            raise PipelineError("an incremental audit takes neither from_ms nor to_ms")

    @property
    def width_ms(self) -> int:
        """The width of a bucket."""
        return self.bucket_s * 1000

    @property
    def grace_ms(self) -> int:
        """The time from the end of a bucket until it closes."""
        return int(self.grace_s * 1000)

    @property
    def margin_ms(self) -> int:
        """The margin that a pass over a part of the time reads on both sides of it, because a tier's own times may differ."""
        return self.grace_ms + self.width_ms


@dataclass(frozen=True, slots=True)
class AuditResult:
    """The result of an audit."""

    summary: Summary
    seconds: float
    records: int
    """About how many records were read."""

    @property
    def is_good(self) -> bool:
        """Whether nothing is lost or doubled."""
        return self.summary.is_good
