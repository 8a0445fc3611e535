"""The watches of a store in this process."""

from __future__ import annotations

from collections.abc import Sequence

from pybroker.metadata.store.base import Change, Watch, WatchCallback


class _PrefixWatch(Watch):
    __slots__ = ("_watches", "callback", "prefix")

    def __init__(self, prefix: str, callback: WatchCallback, watches: list[_PrefixWatch]) -> None:
        self.prefix, self.callback, self._watches = prefix, callback, watches
        watches.append(self)

    def cancel(self) -> None:
        if self in self._watches:
            self._watches.remove(self)


class Watches:
    """The watches, which are called in the order in which they were added."""

    __slots__ = ("_watches",)

    def __init__(self) -> None:
        self._watches: list[_PrefixWatch] = []

    def add(self, prefix: str, callback: WatchCallback) -> Watch:
        """Call `callback` for every later change of a key that starts with `prefix`."""
        return _PrefixWatch(prefix, callback, self._watches)

    def call(self, changes: Sequence[Change]) -> None:
        """Call every watch for which some of the changes are."""
        for watch in tuple(self._watches):
            matching = [change for change in changes if change.key.startswith(watch.prefix)]
            if matching:
                watch.callback(matching)
