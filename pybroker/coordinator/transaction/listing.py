"""Describes and lists transactional ids for administrators: one of them by name, or all that pass filters.

Source: TransactionStateManager.listTransactionStates, TransactionCoordinator.handleDescribeTransactions; KIP-664, KIP-994,
KIP-1152.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.coordinator.consumer.patterns.re2_syntax import PatternError
from pybroker.coordinator.consumer.patterns.topic_pattern import TopicPattern
from pybroker.coordinator.transaction.state import PREPARED, State, Transaction
from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from pybroker.coordinator.transaction.shard import TransactionShard
    from pybroker.sharing.work import Pausing

NAMES: Final = {state: "".join(word.capitalize() for word in state.name.split("_")) for state in State}
"""The states by the names that requests and responses have."""

KNOWN_NAMES: Final = frozenset(NAMES.values()) | {"Dead", "PrepareEpochFence"}
"""The names that a filter may have. The last two are states of Kafka's in which no id is here."""


@dataclass(slots=True, frozen=True, kw_only=True)
class Filters:
    """The filters that a listed id passes, all of them; an empty filter lets all pass."""

    states: frozenset[str] | None = None
    """Names of states; none of them passes no id, and None passes all."""
    producer_ids: Collection[int] = ()
    duration_ms: int = -1
    """Passes ids whose transaction began longer ago than this. Those that have had no transaction count as begun at -1."""
    pattern: str | None = None
    """A regular expression of RE2 that the whole id matches."""


def split_states(names: Sequence[str]) -> tuple[frozenset[str] | None, list[str]]:
    """Return the filter of states with these names, and the names that are no states, each once."""
    unknown = [name for name in dict.fromkeys(names) if name not in KNOWN_NAMES]
    return KNOWN_NAMES.intersection(names) if names else None, unknown


class OpenTransactions(NamedTuple):
    """How many transactions are open, how many end, and the age of the oldest of both."""

    open_count: int
    ending_count: int
    oldest_age_ms: int


def open_transactions(shards: Iterable[TransactionShard], now_ms: int) -> OpenTransactions:
    """Count transactions. Another thread may call it: each dictionary is copied as a whole."""
    counts: Counter[State] = Counter()
    oldest_ms = now_ms
    for shard in shards:
        for one in tuple(shard.transactions.values()):
            if one.state is State.ONGOING or one.state in PREPARED:
                counts[one.state] += 1
                oldest_ms = min(oldest_ms, one.start_ms)
    return OpenTransactions(counts[State.ONGOING], sum(counts[one] for one in PREPARED), now_ms - oldest_ms)


def describe(shard: TransactionShard, transactional_id: str) -> Transaction | ErrorCode:
    """Return the state of an id, INVALID_REQUEST for the empty id, or TRANSACTIONAL_ID_NOT_FOUND."""
    if not transactional_id:
        return ErrorCode.INVALID_REQUEST
    return shard.transactions.get(transactional_id, ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)


def matching(shards: Iterable[TransactionShard], filters: Filters, now_ms: int) -> Pausing[list[tuple[str, Transaction]]]:
    """Find the ids that pass the filters; yield between ids, which may change meanwhile.

    Raises KafkaError with INVALID_REGULAR_EXPRESSION.
    """
    found: list[tuple[str, Transaction]] = []
    try:
        pattern = TopicPattern(filters.pattern) if filters.pattern else None
        if pattern is not None:
            pattern.begin()
        for shard in tuple(shards):
            for transactional_id, one in tuple(shard.transactions.items()):
                if _passes(one, filters, now_ms) and (pattern is None or pattern.matches(transactional_id)):
                    found.append((transactional_id, one))
                yield
    except PatternError as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, f"`{filters.pattern}` is not valid: {error}") from error
    return found


def _passes(one: Transaction, filters: Filters, now_ms: int) -> bool:
    return (
        (not filters.producer_ids or one.producer_id in filters.producer_ids)
        and (filters.states is None or NAMES[one.state] in filters.states)
        and (filters.duration_ms < 0 or now_ms - one.start_ms > filters.duration_ms)
    )
