"""Looks up the aborted transactions of a range: at once if that is quick, and otherwise in a thread.

Idea
    A read-committed fetch needs the entries of the transaction indexes that touch what it reads. They are many if a long
    transaction was open beside many that were aborted, or if a large piece has many short ones: about 0.15 us for each entry
    that is looked at. And a window of an index may have to be read from the disk. So the loop looks at a bounded number of
    entries that are in memory. For all else, a thread makes the same lookup, with files of its own.

The findings of a thread are the result, unless segments were taken out, renamed or cut meanwhile. Transactions that are aborted
later count for nothing: they begin at or after the last stable offset, where the range ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.log.indexes.entry_file import CorruptIndexError, NotInMemoryError
from pybroker.log.indexes.transaction_index import TransactionIndex

if TYPE_CHECKING:
    from pybroker.log.log_state import LogState
    from pybroker.log.results import AbortedTransactions
    from pybroker.model import Offset

PIECE_ENTRIES: Final = 120
"""About the entries of a window, which are looked at together."""

SEGMENT_ENTRIES: Final = 4
"""About the entries that take as long as a segment without any: a log may have very many such segments."""


def look_up_in_memory(
    log: LogState, *, fetch_offset: Offset, upper_offset: Offset, entries_max: int
) -> tuple[AbortedTransactions | None, int]:
    """Return the aborted transactions that touch a range, and about how many entries were looked at.

    Returns None if that needs a thread. Raises KafkaError.
    """
    log.check_usable()
    found: AbortedTransactions = []
    looked_at = 0
    for segment in log.segments.starting_with(fetch_offset):
        index = segment.transaction_index
        if index.is_loaded and not index.count:
            looked_at += SEGMENT_ENTRIES
            if looked_at > entries_max:
                return None, looked_at
            continue
        index.may_read = False
        try:
            pieces = index.collect(fetch_offset=fetch_offset, upper_offset=upper_offset)
            while True:
                found += next(pieces)
                looked_at += PIECE_ENTRIES
                if looked_at > entries_max:
                    return None, looked_at
        except StopIteration as end:
            if end.value:
                break
        except (CorruptIndexError, NotInMemoryError, OSError):  # the loop meets the same error after the thread
            return None, looked_at
        finally:
            index.may_read = True
    return found, looked_at


class AbortedLookup:
    """One lookup, which any thread makes. `found` is None until then, and if the thread met an error."""

    __slots__ = ("_fetch_offset", "_filesystem", "_indexes", "_known", "_upper_offset", "found")

    def __init__(self, log: LogState, *, fetch_offset: Offset, upper_offset: Offset) -> None:
        self._filesystem = log.filesystem
        self._fetch_offset = fetch_offset
        self._upper_offset = upper_offset
        self._known = (log, log.segments.removals, log.truncations)
        self._indexes = [self._place(segment.transaction_index) for segment in log.segments.starting_with(fetch_offset)]
        self.found: AbortedTransactions | None = None

    @staticmethod
    def _place(index: TransactionIndex) -> tuple[str, Offset, int]:
        """Return where an index is, and how many entries it has at least."""
        return index.path, index.base_offset, index.count if index.is_loaded else 0

    def __call__(self) -> None:
        """Look through copies of the indexes, in any thread. Raises OSError."""
        found: AbortedTransactions = []
        for path, base_offset, count_min in self._indexes:
            index = TransactionIndex(self._filesystem, path, base_offset)
            try:
                index.load()
                if index.count < count_min:  # some entries are in memory only, or the file was renamed
                    return
                pieces = index.collect(fetch_offset=self._fetch_offset, upper_offset=self._upper_offset)
                while True:
                    found += next(pieces)
            except StopIteration as end:
                if end.value:
                    break
            except CorruptIndexError:
                return
            finally:
                index.release()
        self.found = found

    def result(self, log: LogState, *, fetch_offset: Offset, upper_offset: Offset) -> AbortedTransactions | None:
        """Return what was found if it is what a lookup finds now; None if that is not known."""
        is_same = (
            (fetch_offset, upper_offset) == (self._fetch_offset, self._upper_offset)
            and (log, log.segments.removals, log.truncations) == self._known
            and all(
                segment.transaction_index.path == path
                for segment, (path, _, _) in zip(log.segments.starting_with(fetch_offset), self._indexes, strict=False)
            )
        )
        return self.found if is_same else None
