"""The job `audit` pass after pass: each pass reads only what is new.

A pass counts what is new, adds it to the counts of buckets that can still change, and compares these again. So a late record
turns *lost* into *present*. A bucket closes when the watermark (`state.watermark`) less the grace passes its end. `keep_s` later
it is final, and its rows never change again. Chunks of numbers that are wholly final are dropped. The state is bounded: it has
what the records of that time need, and a row for each dropped chunk of 4096 numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any, Final

from pybroker.model import Offset
from pybroker.spark.audit import counting
from pybroker.spark.audit.compare import Parameters
from pybroker.spark.audit.folder import TABLE, mended, replacing
from pybroker.spark.audit.options import AuditOptions, AuditResult, Incremental
from pybroker.spark.audit.passes import Watch, chosen_topics, closed_until, look_at, prepared, tried
from pybroker.spark.audit.report import write_report
from pybroker.spark.audit.sources import Piece, Tier, messages, records, survey
from pybroker.spark.audit.state import (
    COUNTS,
    DONE,
    SESSIONS,
    WORDS,
    Place,
    Position,
    State,
    check_identity,
    next_extents,
    shortened,
    watermark,
)
from pybroker.spark.audit.summary import Header, summarize
from pybroker.spark.cluster import Cluster
from pybroker.spark.errors import PipelineError
from pybroker.spark.isolation import Isolation
from pybroker.spark.progress import Progress

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from pybroker.spark.audit.summary import Summary

_OF_COUNTS: Final = "producer"
"""The name under which positions in the topic of counts are kept; no tier can have this name."""
_UNWRITTEN: Final = {"isolation-level": Isolation.READ_COMMITTED}
"""The options that states of earlier versions do not name, because they always were so."""
_SCHEMAS: Final = {
    WORDS: counting.WORDS_SCHEMA,
    COUNTS: counting.COUNTS_SCHEMA,
    SESSIONS: counting.SESSIONS_SCHEMA,
    DONE: counting.DONE_SCHEMA,
    TABLE: counting.TABLE_SCHEMA,
}
"""The schemas of the tables; with them, Spark need not look into the files first."""


@dataclass(frozen=True, slots=True)
class Passed:
    """A pass that found something new."""

    result: AuditResult
    closed_ms: int
    is_behind: bool
    """Whether there is more to read without waiting."""


@dataclass(frozen=True, slots=True)
class _Work:
    """A pass, with what was there when it began."""

    spark: SparkSession
    options: AuditOptions
    before: State
    now_ms: int
    topics: tuple[str, ...]
    pieces: dict[str, Piece]
    """The offsets that the pass reads of each tier, with the topic of counts last."""
    ends: dict[str, dict[Place, Offset]]
    """The ends of the logs."""

    @property
    def total(self) -> int:
        """The number of offsets that are new."""
        return sum(extent.end - extent.start for piece in self.pieces.values() for extent in piece.extents.values())

    @property
    def is_behind(self) -> bool:
        """Whether the pass leaves something unread."""
        return any(
            extent.end < self.ends[tier][place] for tier, piece in self.pieces.items() for place, extent in piece.extents.items()
        )


def run(spark: SparkSession, options: AuditOptions, on_pass: Callable[[Passed], None] | None = None) -> AuditResult:
    """Run passes until everything is read, or forever. Raises PipelineError; then the result is that of the previous pass."""
    session, how = prepared(spark), options.incremental or Incremental()
    is_first = True
    while True:
        passed = tried(options, partial(_pass, session, options, is_needed=is_first), was_there=not is_first)
        if passed is not None:
            is_first = False
            if on_pass is not None:
                on_pass(passed)
            if passed.is_behind:
                continue
            if how.interval_s is None:
                return passed.result
        time.sleep(how.interval_s or 0)


def _pass(spark: SparkSession, options: AuditOptions, *, is_needed: bool) -> Passed | None:
    """Run a pass. Return None if it would change nothing."""
    began = time.monotonic()
    mended(options.path)
    work = _begin(spark, options)
    if not is_needed and not work.total and not _closes(work):
        return None
    with replacing(options.path) as staging:
        with Progress("audit", Watch(spark, work.total).look):
            state, summary = _follow(work, staging)
        now = State.read(options.path)
        if (now.number if now is not None else 0) != work.before.number:
            raise PipelineError(f"another audit is writing to {options.path}")
    return Passed(AuditResult(summary, time.monotonic() - began, work.total), state.closed_ms, work.is_behind)


def _begin(spark: SparkSession, options: AuditOptions) -> _Work:
    """Take the time, and then look up what there is.

    Raises PipelineError when the state belongs to another audit, or when records or topics are gone.
    """
    how, identity = options.incremental or Incremental(), _identify(options)
    before = State.read(options.path) or State(identity=identity)
    check_identity(options.path, _UNWRITTEN | before.identity, identity)
    now_ms = time.time_ns() // 1_000_000 if options.now_ms is None else options.now_ms
    topics = chosen_topics(options)
    sources = [(tier.name, tier, topics) for tier in options.tiers]
    if options.counts is not None:
        sources.append((_OF_COUNTS, Tier("counts", options.counts), (options.counts_topic,)))
    pieces, ids, lost, losses = {}, {}, 0, []
    for name, tier, names in sources:
        following = before.following(name)
        isolation = Isolation.READ_COMMITTED if name == _OF_COUNTS else options.isolation
        may_lack = options.pattern is not None and name not in {options.tiers[0].name, _OF_COUNTS}
        piece = survey(tier, names, now_ms, following, may_lack=may_lack, isolation=isolation)
        ids[name] = _same_topics(tier, piece, before.topic_ids.get(name, {}))
        extents, gone, text = next_extents(piece.extents, following)
        pieces[name] = replace(piece, extents=extents)
        lost += gone
        if gone:
            losses.append(text)
    if lost and not how.is_loss_allowed:
        raise PipelineError(f"{'; '.join(losses)}; --allow-loss continues without them")
    ends = {name: {place: extent.end for place, extent in piece.extents.items()} for name, piece in pieces.items()}
    parts = shortened({tier.name: pieces[tier.name].extents for tier in options.tiers}, how.pass_records)
    pieces |= {name: replace(pieces[name], extents=part) for name, part in parts.items()}
    return _Work(spark, options, replace(before, lost=before.lost + lost, topic_ids=ids), now_ms, topics, pieces, ends)


def _identify(options: AuditOptions) -> dict[str, Any]:
    """Return what has to be the same in every pass, by the names of the options."""
    tiers = [
        [tier.name, Cluster(tier.source).id() if tier.folder is None else str(tier.folder.resolve()), tier.rename]
        for tier in options.tiers
    ]
    return {
        "topics": sorted(options.topics),
        "pattern": options.pattern,
        "tiers": tiers,
        "counts": None if options.counts is None else Cluster(options.counts).id(),
        "counts-topic": options.counts_topic,
        "bucket-s": options.bucket_s,
        "isolation-level": options.isolation,
    }


def _same_topics(tier: Tier, piece: Piece, known: Mapping[str, str]) -> dict[str, str]:
    """Return the ids of a tier's topics. Raises PipelineError when a topic was deleted and created again."""
    if tier.folder is not None:
        return {}  # the archive job checks this itself
    ids = Cluster(tier.source).topic_ids({topic for topic, _ in piece.extents})
    for topic, found in ids.items():
        if known.get(topic, found) != found:
            raise PipelineError(f"topic {topic} at {tier.source} was deleted and created again since it was read")
    return {**known, **ids}


def _closes(work: _Work) -> bool:
    """Return whether a bucket can be closed although there are no new records."""
    end_ms, closed_ms = work.before.next_close_ms, closed_until(work.options, work.now_ms, work.pieces.values())
    return end_ms is not None and (closed_ms is None or end_ms <= closed_ms)


def _follow(work: _Work, staging: Path) -> tuple[State, Summary]:
    """Count and compare, and write both the result and the state."""
    options, final_ms = work.options, work.before.final_ms
    finished = _finished(work, staging)
    new = counting.marked(_together(_new_words(work)), finished, "word >> 6").persist()
    reported = counting.reports(messages(work.spark, work.pieces[_OF_COUNTS])).persist() if _OF_COUNTS in work.pieces else None
    try:
        state = _moved(work, new)
        fresh = new.where(f"kind != {counting.POSITION} and not is_done").drop("is_done")
        kept = [
            counting.marked(old, finished, "word >> 6")
            .where(f"not is_done and (kind = {counting.TAGGED} or bucket >= {final_ms - options.margin_ms})")
            .drop("is_done")
            for old in _kept(work, WORDS)
        ]
        counting.joined([fresh, *kept]).write.parquet(str(staging / WORDS))
        counts = whole = None
        if reported is not None:
            state = replace(state, too_late_counts=state.too_late_counts + _add_counts(work, staging, reported, finished))
            counts, whole = (_written(work, staging, name) for name in (COUNTS, SESSIONS))
        unread, unfinished = (0, None) if whole is None else look_at(whole, options)
        _compare(work, state, staging, counts, whole)
    finally:
        new.unpersist()
        if reported is not None:
            reported.unpersist()
    names = tuple(tier.name for tier in options.tiers)
    late = state.too_late, state.too_late_counts
    header = Header(work.topics, names, options.bucket_s, unread, unfinished, *late, state.lost)
    summary, cells = summarize(work.spark, staging, header)
    write_report(staging, summary, cells)
    replace(state, next_close_ms=_next_close_ms(work, staging), done_ms=final_ms).write(staging)
    return state, summary


def _finished(work: _Work, staging: Path) -> DataFrame | None:
    """Return the chunks that are no longer compared, including those that become so now; None before there are any.

    A chunk is kept whole until all of it is final, because a remaining part would be compared with nothing.
    """
    before, options = work.before, work.options
    known = _kept(work, DONE)
    if before.final_ms > before.done_ms:
        counts = _kept(work, COUNTS)
        until_ms = before.final_ms - options.margin_ms
        known += [counting.done(words, counts[0] if counts else None, until_ms) for words in _kept(work, WORDS)]
    if not known:
        return None
    _together(known).write.parquet(str(staging / DONE))
    return _written(work, staging, DONE)


def _add_counts(work: _Work, staging: Path, reported: DataFrame, finished: DataFrame | None) -> int:
    """Write the producers' counts and their incarnations. Return how many counts came too late."""
    # Counts of all topics are kept, because producers may have counted a topic that a pattern finds only in the next pass.
    new = counting.marked(counting.counts(reported, work.options.width_ms), finished, "chunk")
    kept = [counting.marked(old, finished, "chunk") for old in _kept(work, COUNTS)]
    _together([new, *kept]).where("not is_done").drop("is_done").write.parquet(str(staging / COUNTS))
    counting.ended([counting.ends(reported), *_kept(work, SESSIONS)]).write.parquet(str(staging / SESSIONS))
    final_ms = work.before.final_ms
    return new.where(f"is_done or bucket < {final_ms}").count() if final_ms else 0


def _compare(work: _Work, state: State, staging: Path, counts: DataFrame | None, whole: DataFrame | None) -> None:
    """Write the table: the rows of final buckets as they were, all others from the new comparison."""
    options, before = work.options, work.before
    parameters = Parameters(
        tiers=len(options.tiers),
        width_ms=options.width_ms,
        closed_ms=None if closed_until(options, state.closed_ms, work.pieces.values()) is None else state.closed_ms,
        has_counts=counts is not None,
        from_ms=before.final_ms,
        horizons={
            (number, topic): at - at % options.width_ms
            for number, tier in enumerate(options.tiers)
            for topic, at in state.horizons.get(tier.name, {}).items()
        },
    )
    words = _written(work, staging, WORDS)
    # A gap that no count has cannot be seen, because the numbers before it are no longer known.
    topic_counts = None if counts is None else counting.of_topics(counts, work.topics)
    found = counting.compared(counting.chunks(words, topic_counts, whole, has_gaps=False), parameters)
    table = counting.table(found, words, [tier.name for tier in options.tiers], parameters)
    final = [kept.where(f"unix_millis(bucket) < {before.final_ms}") for kept in _kept(work, TABLE)]
    _together([table, *final]).write.parquet(str(staging / TABLE))


def _new_words(work: _Work) -> Iterator[DataFrame]:
    """Count the new records of each tier, and find the newest timestamp of each partition."""
    from pyspark.sql import functions as f

    options = work.options
    for number, tier in enumerate(options.tiers):
        piece = work.pieces[tier.name]
        known = work.before.positions.get(tier.name, {})
        bounds = work.spark.createDataFrame(
            [
                (
                    piece.names[topic],
                    partition,
                    extent.start,
                    extent.end,
                    known.get((topic, partition), Position(Offset(0))).high_ms,
                )
                for (topic, partition), extent in piece.extents.items()
            ],
            "topic string, partition int, start bigint, end bigint, high bigint",
        )
        found = counting.tagged(records(work.spark, piece)).join(f.broadcast(bounds), ["topic", "partition"])
        found = found.where("offset >= start and offset < end")
        followed = counting.with_positions(
            counting.with_lateness(found, width_ms=options.width_ms, grace_ms=options.grace_ms, prior="high"), "high"
        )
        yield counting.words(followed, number, width_ms=options.width_ms)


def _moved(work: _Work, new: DataFrame) -> State:
    """Return the state after the pass."""
    options, before = work.options, work.before
    ends = new.where(f"kind = {counting.POSITION}").select("tier", "topic", "session", "word", "bucket").collect()
    found = {(row.tier, row.topic, int(row.session)): (row.word, row.bucket or None) for row in ends}
    too_late = 0
    if before.final_ms:
        late = new.where(f"kind = {counting.TAGGED} and (is_done or bucket < {before.final_ms})").agg({"count": "sum"}).head()
        too_late = late[0] or 0 if late is not None else 0
    numbers = {_OF_COUNTS: len(options.tiers)} | {tier.name: number for number, tier in enumerate(options.tiers)}
    positions: dict[str, dict[Place, Position]] = {}
    reached = []
    for tier, piece in work.pieces.items():
        known = before.positions.get(tier, {})
        positions[tier] = dict(known)
        for (topic, partition), extent in piece.extents.items():
            was = known.get((topic, partition), Position(Offset(0)))
            high_ms, reached_ms = found.get((numbers[tier], piece.names[topic], partition), (None, None))
            now = Position(extent.end, was.high_ms if high_ms is None else high_ms, reached_ms or was.reached_ms)
            positions[tier][topic, partition] = now
            reached.append((extent.end >= work.ends[tier][topic, partition], now.reached_ms))
    closed_ms = closed_until(options, watermark(reached, work.now_ms), work.pieces.values())
    closed_ms = max(before.closed_ms, work.now_ms if closed_ms is None else closed_ms)
    keep_ms = int((options.incremental or Incremental()).keep_s * 1000)
    final_ms = closed_ms - keep_ms - (closed_ms - keep_ms) % options.width_ms
    return replace(
        before,
        number=before.number + 1,
        closed_ms=closed_ms,
        final_ms=max(before.final_ms, final_ms),
        too_late=before.too_late + too_late,
        positions=positions,
        horizons={tier: before.horizons.get(tier, {}) | piece.horizons for tier, piece in work.pieces.items()},
    )


def _kept(work: _Work, name: str) -> list[DataFrame]:
    """Return the table that the previous pass has left, if there was a pass and if it has left one."""
    folder = work.options.path
    return [_written(work, folder, name)] if work.before.number and (folder / name).is_dir() else []


def _written(work: _Work, folder: Path, name: str) -> DataFrame:
    return work.spark.read.schema(_SCHEMAS[name]).parquet(str(folder / name))


def _together(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.unionByName(other), frames)


def _next_close_ms(work: _Work, staging: Path) -> int | None:
    table = _written(work, staging, TABLE).where("state = 'open'")
    found = table.selectExpr(f"min(unix_millis(bucket)) + {work.options.width_ms}").head()
    assert found is not None
    return None if found[0] is None else int(found[0])
