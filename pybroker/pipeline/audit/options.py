"""What an audit is asked, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pybroker.pipeline.audit.trail import COUNTS_TOPIC
from pybroker.pipeline.errors import PipelineError

if TYPE_CHECKING:
    from pathlib import Path

    from pybroker.pipeline.audit.sources import Tier
    from pybroker.pipeline.audit.summary import Summary


@dataclass(frozen=True, slots=True, kw_only=True)
class Incremental:
    """How passes follow each other, each of which reads only what is new."""

    interval_s: float | None = None
    """Seconds between them; None ends when all is read that was there at the start."""
    keep_s: float = 3600.0
    """So long after a bucket was closed, records of it are still compared."""
    pass_records: int = 10_000_000
    """At most so many in a pass, whose work a kill undoes."""
    is_loss_allowed: bool = False
    """Go on when records were deleted before they could be read."""

    def __post_init__(self) -> None:
        if self.keep_s < 0 or self.pass_records < 1:
            raise PipelineError("keep_s must not be negative, and pass_records must be at least 1")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """What to compare with what."""

    path: Path
    """The folder of the result."""
    tiers: tuple[Tier, ...]
    """In the order in which records pass through them."""
    topics: tuple[str, ...] = ()
    """As their producers call them."""
    pattern: str | None = None
    """Instead: all topics of the first tier, which must be a cluster that renames nothing, whose whole name matches."""
    counts: str | None = None
    """The cluster with the producers' own counts; None compares the tiers with each other only."""
    counts_topic: str = COUNTS_TOPIC
    bucket_s: int = 60
    grace_s: float = 120.0
    """A bucket is closed when so much time has passed since its end."""
    is_all_closed: bool = False
    """The producers have ended: what is not there now is lost."""
    from_ms: int | None = None
    to_ms: int | None = None
    """Only buckets from the first to before the second."""
    now_ms: int | None = None
    """The time of the audit, if not now."""
    retry_s: float = 60.0
    """How long to wait for a cluster that went away."""
    incremental: Incremental | None = None

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
        """Of a bucket."""
        return self.bucket_s * 1000

    @property
    def grace_ms(self) -> int:
        """From the end of a bucket until it is closed."""
        return int(self.grace_s * 1000)

    @property
    def margin_ms(self) -> int:
        """What a pass over a part of the time reads on both sides of it: a tier's own times may be others."""
        return self.grace_ms + self.width_ms


@dataclass(frozen=True, slots=True)
class AuditResult:
    """What was found."""

    summary: Summary
    seconds: float
    records: int
    """That were read, about."""

    @property
    def is_good(self) -> bool:
        """Whether nothing is lost or doubled."""
        return self.summary.is_good
