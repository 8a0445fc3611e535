"""Times the turns of an event loop, in Python: the contract, and the code that runs where the native part was not built.

A turn is what the loop runs between two looks for the next thing to do: everything between `begin` and the `end` that belongs to
it. A part that begins inside a turn belongs to that turn.

The lengths of turns are added up to those of rounds (see rounds.py).

Cost: two readings of the monotonic clock per turn. Only a turn that takes `look_ns` or longer is looked at, by a function of the
owner. The kernel's account of the time spent waiting for a core is read at most once per BASE_NS, and for turns that are looked
at.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from pybroker.metrics.counts import Counts
    from pybroker.sharing.turns.run_delay import RunDelay

__all__ = ["Entry", "Watch"]

BASE_NS: Final = 10_000_000
MARK_NS: Final = 2_500_000
_OLDEST: Final = 2  # the generation whose collection looks at all objects


class Look(Protocol):
    """A function that is called with a turn that was not short."""

    def __call__(self, what: object, length_ns: int, *, waited_ns: int) -> int:
        """Return the length to count."""


class Watch:
    """The turns of one loop. Belongs to the loop's thread, and other threads may read its attributes.

    Args:
        lengths: counts the lengths of turns.
        look_ns: turns of this length or longer are looked at.
        look: called with what ran, the length of the turn in ns without what is counted apart, and the time in ns that
            the thread has waited for a core since shortly before the turn began. Returns the length to count.

    Attributes:
        begun_ns: when the turn under way, or the last one, began.
        is_open: whether a turn is under way.
        noted: called with what ran and the length in ns, for each turn of a round that has taken MARK_NS with it; or None.
        round_ns: the length of all turns since the last call of `end_round`.
        input_ns: what connections took that did not wait for a later round, since the last call of `end_round`.
    """

    __slots__ = (
        "_apart_ns",
        "_apart_waited_ns",
        "_base_ns",
        "_base_waited_ns",
        "_collection_ns",
        "_collection_waited_ns",
        "_delay",
        "_depth",
        "_lengths",
        "_look",
        "_look_ns",
        "_round_turns",
        "_thread",
        "begun_ns",
        "input_ns",
        "noted",
        "round_ns",
    )

    def __init__(self, lengths: Counts, look_ns: int, look: Look) -> None:
        self._lengths = lengths
        self._look_ns = look_ns
        self._look = look
        self._depth = 0
        self.begun_ns = 0
        self._apart_ns = self._apart_waited_ns = 0  # of the turn under way: what is counted as turns of their own
        self._collection_ns = self._collection_waited_ns = 0  # when the collection under way began
        self._delay: RunDelay | None = None
        self._base_ns = self._base_waited_ns = 0
        self._thread = 0
        self.round_ns = self.input_ns = self._round_turns = 0
        self.noted: Callable[[object, int], None] | None = None

    @property
    def is_open(self) -> bool:
        """Whether a turn is under way."""
        return self._depth > 0

    def bind(self, delay: RunDelay) -> None:
        """Watch the calling thread from now on. `delay` has the time that this thread waits for a core."""
        self._thread = threading.get_ident()
        self._delay = delay
        self._depth = 0
        self._refresh(monotonic_ns())

    def begin(self) -> None:
        """Begin a turn, or a part of the turn under way."""
        if not self._depth:
            self.begun_ns = now_ns = monotonic_ns()
            self._apart_ns = self._apart_waited_ns = 0
            if now_ns - self._base_ns > BASE_NS:
                self._refresh(now_ns)
        self._depth += 1

    def end(self, what: object) -> None:
        """End what the last `begin` began. `what` is a text, or the function that ran."""
        self._depth -= 1
        if not self._depth:
            length_ns = max(monotonic_ns() - self.begun_ns - self._apart_ns, 0)
            if length_ns >= self._look_ns:
                length_ns = self._looked_at(what, length_ns)
            self._lengths.observe(length_ns)
            self._round_turns += 1
            self.round_ns += length_ns
            if self.round_ns >= MARK_NS and self.noted is not None:
                self.noted(what, length_ns)

    def end_round(self) -> int:
        """Begin to add up the turns of the next round, and return how many the last one had."""
        turns, self._round_turns = self._round_turns, 0
        self.round_ns = self.input_ns = 0
        return turns

    def collection(self, phase: str, info: Mapping[str, int]) -> None:
        """Time a garbage collection, as a turn of its own; an entry of `gc.callbacks`.

        Young collections are frequent and short, so the time waited is not read when one begins. If it was long, all that the
        thread has waited for since the account was last read counts as waited in it, as for turns.
        """
        is_full = info["generation"] == _OLDEST
        if phase == "start":
            self._collection_ns = monotonic_ns()
            self._collection_waited_ns = self.waited_ns() if is_full else 0
            return
        length_ns = monotonic_ns() - self._collection_ns
        if length_ns < self._look_ns:
            self.apart("", length_ns, 0)
            return
        before_ns = self._collection_waited_ns if is_full else self._base_waited_ns + self._apart_waited_ns
        waited_ns = min(self.waited_ns() - before_ns, length_ns)
        self.apart(f"garbage collection of generation {info['generation']}", length_ns, waited_ns)

    def apart(self, what: str, length_ns: int, waited_ns: int) -> None:
        """Count what ran up to now as a turn of its own, and not as a part of the turn under way.

        It took `length_ns`, in which the thread waited for a core for `waited_ns`.
        """
        if threading.get_ident() == self._thread:
            self._apart_ns += length_ns
            self._apart_waited_ns += waited_ns
        if length_ns >= self._look_ns:
            length_ns = self._look(what, length_ns, waited_ns=waited_ns)
        self._lengths.observe(length_ns)

    def waited_ns(self) -> int:
        """Return how long the thread has waited for a core since it began; 0 where that is unknown."""
        return 0 if self._delay is None else self._delay.waited_ns()

    def _looked_at(self, what: object, length_ns: int) -> int:
        before_ns = self._base_waited_ns + self._apart_waited_ns
        self._refresh(monotonic_ns())
        return self._look(what, length_ns, waited_ns=self._base_waited_ns - before_ns)

    def _refresh(self, now_ns: int) -> None:
        self._base_ns = now_ns
        self._base_waited_ns = self.waited_ns()


class Entry:
    """A callback as a turn of its own: a call of the entry calls it, between `begin` and `end`."""

    __slots__ = ("_watch", "callback")

    def __init__(self, watch: Watch, callback: Callable[..., Any]) -> None:
        self._watch = watch
        self.callback = callback

    def __call__(self, *args: Any) -> Any:
        self._watch.begin()
        try:
            return self.callback(*args)
        finally:
            self._watch.end(self.callback)

    def __repr__(self) -> str:
        return f"<turn of {self.callback!r}>"
