"""The rounds of an event loop: a round has a budget as a turn has, and what the budget does not allow waits for a later round.

The loop handles all that is there before it looks for more, so a thousand short turns in one round hold it as one long turn does.

The rule
    In a round, requests that come have BUDGET_NS, and so have the pieces of large requests and the encoding of their responses.
    Requests and pieces that come after that put themselves off. In each round, the loop then does turns of connections that were
    put off for BUDGET_NS, and pieces that were put off for BUDGET_NS. So both make progress in each round, whatever comes.
    Pieces come in the order in which they were put off. A turn waits behind turns that probably take about as long as it does:
    there is a queue for each power of two of that time, and the queues that are not empty share the time. So a client with small
    requests is served beside all that waits, and each queue moves on in each round. A short step of work that has begun, such as
    a response to a request that was parked, is not put off.

How a round is measured
    No hook of the loop shows where a round begins. The turns are added up, over several rounds if these are short, until they
    have taken MARK_NS. Then a callback is due, which the loop calls in its next round: it ends the round. So short rounds
    cost an addition for each turn.

`sharing/turns/loop.py` sets `call_soon`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from time import monotonic_ns
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.metrics.histogram import Histogram

if TYPE_CHECKING:
    from pybroker.sharing.turns.watch import Watch

BUDGET_NS: Final = 5_000_000
UNKNOWN_NS: Final = 20_000_000
"""The first turn of a connection is taken to be as long as a turn may be."""
SHORT_NS: Final = 100_000
"""Turns that probably take less are in the first queue of those that were put off."""
QUEUES: Final = (UNKNOWN_NS // SHORT_NS).bit_length() + 1
LIMIT_NS: Final = 50_000_000
"""A longer round is counted and has a line in the log: the longest turn has 20 ms, and others are beside it."""

_KINDS: Final = 3
_NS_PER_MS: Final = 1_000_000

Later = Callable[[], object]
"""A piece that was put off. If it returns True, what it has begun runs in the next round, and the other pieces wait for that."""


class Kind(NamedTuple):
    """The turns of a round that had the same name: how many they were, and what they took."""

    name: str
    turns: int
    length_ns: int

    def __str__(self) -> str:
        return f"{self.name} ({self.turns} turns, {self.length_ns / _NS_PER_MS:.1f} ms)"


class LongRound(NamedTuple):
    """A round beyond LIMIT_NS. `held_ns` has no time in which the thread waited for a core. `turns_ns` is what its turns took:
    between them, the loop works for its sockets. `kinds` took the most time.
    """

    held_ns: int
    waited_ns: int
    turns: int
    turns_ns: int
    kinds: list[Kind]

    def __str__(self) -> str:
        held, waited, turns = (ns / _NS_PER_MS for ns in (self.held_ns, self.waited_ns, self.turns_ns))
        return (
            f"it held the loop for {held:.1f} ms, and waited {waited:.1f} ms for a core; its {self.turns} turns took "
            f"{turns:.1f} ms, the most {', '.join(map(str, self.kinds))}"
        )


class Rounds:
    """The rounds of one loop. Belongs to the loop's thread; other threads may read `lengths`.

    Args:
        watch: times the turns, and calls `noted`.
        name_of: returns the name of what ran in a turn.
        on_long: called with each round beyond LIMIT_NS.

    Attributes:
        call_soon: runs its argument in the loop's next round; None while there is no loop.
        lengths: the histogram of the rounds of MARK_NS or more.
    """

    __slots__ = (
        "_begun_ns", "_end_ns", "_is_due", "_kinds", "_name_of", "_on_long", "_pieces", "_turns", "_waited_ns", "_watch",
        "call_soon", "lengths", "now_ns",
    )  # fmt: skip

    def __init__(self, watch: Watch, name_of: Callable[[object], str], on_long: Callable[[LongRound], None]) -> None:
        self._watch = watch
        self._name_of = name_of
        self._on_long = on_long
        self.now_ns = monotonic_ns
        self.call_soon: Callable[[Callable[[], None]], object] | None = None
        self.lengths = Histogram()
        self._pieces: deque[Later] = deque()
        self._turns: list[deque[Later]] = [deque() for _ in range(QUEUES)]
        self._end_ns = 0  # of the budget for pieces, while `_is_due`
        self._is_due = False  # `_next` will be called in the next round
        self._kinds: dict[object, list[int]] = {}  # turns and their lengths, since the round has taken MARK_NS
        self._begun_ns = self._waited_ns = 0

    def __len__(self) -> int:
        """Return how many turns and pieces were put off, and wait."""
        return len(self._pieces) + sum(map(len, self._turns))

    @property
    def is_over(self) -> bool:
        """Whether the pieces of large requests have used their budget up."""
        return self._is_due and self.now_ns() > self._end_ns

    def later(self, piece: Later) -> None:
        """Run `piece` in a later round, behind the pieces that were put off before."""
        self._pieces.append(piece)
        if not self._is_due:
            self._due()

    def turn_later(self, turn: Later, probably_ns: int) -> None:
        """Run a turn of a connection, which probably takes `probably_ns`, in a later round."""
        self._turns[min(probably_ns // SHORT_NS, UNKNOWN_NS // SHORT_NS).bit_length()].append(turn)
        if not self._is_due:
            self._due()

    def noted(self, what: object, length_ns: int) -> None:
        """Note a turn of a round that has taken MARK_NS with it."""
        kinds = self._kinds
        if not kinds:
            if self.call_soon is None:
                return
            self._begun_ns = self.now_ns() - self._watch.round_ns
            self._waited_ns = self._watch.waited_ns()
            if not self._is_due:
                self._due()
        kind = kinds.get(what)
        if kind is None:
            kinds[what] = [1, length_ns]
        else:
            kind[0] += 1
            kind[1] += length_ns

    def _due(self) -> None:
        assert self.call_soon is not None
        self._is_due = True
        self._end_ns = self.now_ns() + BUDGET_NS
        self.call_soon(self._next)

    def _next(self) -> None:
        """End the round before, and do what was put off; of what is put off meanwhile, nothing."""
        self._end()
        turns = [(queue, len(queue)) for queue in self._turns if queue]
        pieces, pieces_count = self._pieces, len(self._pieces)
        if not turns and not pieces:
            self._is_due = False
            return
        self._due()  # first, because a callback may raise
        for queue, count in turns:
            self._run(queue, count=count, budget_ns=BUDGET_NS // len(turns))
        self._run(pieces, count=pieces_count, budget_ns=BUDGET_NS)
        self._end_ns = self.now_ns() + BUDGET_NS

    def _run(self, queue: deque[Later], *, count: int, budget_ns: int) -> None:
        end_ns = self.now_ns() + budget_ns
        for _ in range(count):
            if queue.popleft()() is True or self.now_ns() >= end_ns:
                break

    def _end(self) -> None:
        turns_ns = self._watch.round_ns
        turns = self._watch.end_round()
        kinds = self._kinds
        if not kinds:
            return
        self._kinds = {}
        length_ns = max(self.now_ns() - self._begun_ns, 0)
        if length_ns > LIMIT_NS:
            waited_ns = min(self._watch.waited_ns() - self._waited_ns, length_ns)
            length_ns -= waited_ns
            if length_ns > LIMIT_NS:
                self._on_long(LongRound(length_ns, waited_ns, turns, turns_ns, self._largest(kinds)))
        self.lengths.observe(length_ns)

    def _largest(self, kinds: dict[object, list[int]]) -> list[Kind]:
        named: dict[str, list[int]] = {}
        for what, (turns, length_ns) in kinds.items():
            of_name = named.setdefault(self._name_of(what), [0, 0])
            of_name[0] += turns
            of_name[1] += length_ns
        found = [Kind(name, *numbers) for name, numbers in named.items()]
        return sorted(found, key=lambda kind: -kind.length_ns)[:_KINDS]
