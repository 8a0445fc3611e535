"""Runs the broker without some of the special cases of its hot paths, so that each can be measured alone.

    python -m benchmarks.without accept_batch,maker start --port 9092 ...

The general way behind a special case takes its place, so the broker does the same without it.
"""

# ruff: noqa: PLC0415  (what a case patches is imported with it, some of it before everything else)

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

CASES: dict[str, tuple[str, Callable[[], None]]] = {}
"""A sentence about each case and the function that takes it away, by the case's name."""


def case(about: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    def add(take_away: Callable[[], None]) -> Callable[[], None]:
        CASES[take_away.__name__] = about, take_away
        return take_away

    return add


def _put(owner: Any, name: str, value: Any) -> None:
    assert hasattr(owner, name)
    setattr(owner, name, value)


def _nothing(*_: Any) -> None:
    """Return None, as a special case does that finds nothing special."""


@case("a message is made by position")
def maker() -> None:
    from pybroker.protocol import codec

    def by_name(cls: Any, *names: str) -> Callable[..., Any]:
        return lambda *values: cls(**dict(zip(names, values, strict=True)))

    _put(codec, "maker", by_name)


def _uncompiled(*places: str) -> None:
    from pybroker import native

    whole = native.extension
    _put(native, "extension", lambda name: None if name.startswith(places) else whole(name))


LEADING = ("pybroker.replication._leading", "pybroker.api.produce._one_partition")
"""The leader's part of an append, and the part that calls it in C."""


@case("the straight way through the dispatcher is compiled")
def dispatch() -> None:
    _uncompiled("pybroker.api._dispatch")


@case("the network's receiver, sender, connection and counters are compiled")
def network() -> None:
    _uncompiled("pybroker.network.", "pybroker.api._dispatch")  # it has the types of the compiled state of a connection


@case("a produce of one partition goes without the dicts and lists that several need")
def one_partition() -> None:
    from pybroker.api.handlers import produce

    _put(produce, "produce_one", _nothing)


@case("a produce like the connection's one before is not decoded")
def repeats() -> None:
    from pybroker.api.handlers import produce

    _put(produce, "REPEATS", None)


@case("the way of a produce of one partition is compiled")
def one_partition_compiled() -> None:
    _uncompiled("pybroker.api.produce._one_partition")


@case("one call of the tail writes and notes a batch that begins nothing")
def append_usual() -> None:
    from pybroker.log import tail
    from pybroker.log.segments import segment

    class Stepwise(tail.SegmentTail):
        """A tail that takes no batches at once."""

        __slots__ = ()

        def append(self, *_: Any) -> bool:
            return False

    _put(segment, "SegmentTail", Stepwise)


@case("the leader's part of an append is compiled")
def leading() -> None:
    _uncompiled(*LEADING)


@case("the end of a log is compiled")
def log_end() -> None:
    _uncompiled("pybroker.log._end", *LEADING)  # they call it in C


@case("the tail of a segment is compiled")
def tail() -> None:
    from pybroker.log import _tail_python
    from pybroker.log.segments import segment

    _put(segment, "SegmentTail", _tail_python.SegmentTail)


@case("one native call checks a batch of the usual form")
def accept_batch() -> None:
    from pybroker.records import kernels

    _put(kernels, "accept_batch", _nothing)


@case("one native call reads a fetch without a session")
def read_all_usual() -> None:
    from pybroker.replication import reading

    _put(reading, "read_all_usual", _nothing)


@case("what a fetch wants is found out in C")
def wanted_partitions() -> None:
    from pybroker.replication import _reading_python, reading

    _put(reading, "wanted_partitions", _reading_python.wanted_partitions)


@case("partitions are read in C where they are usual")
def read_usual() -> None:
    from pybroker.replication import reading

    _put(reading, "read_usual", _nothing)
    _put(reading, "read_all_usual", _nothing)


@case("small slices of a log are copied into the response")
def copied() -> None:
    from pybroker.log.segments.file_records import FileRecords

    _put(FileRecords, "copied", _nothing)


@case("the places of the batches just written are remembered")
def remember() -> None:
    from pybroker.log import tail
    from pybroker.log.segments import segment

    class Forgetful(tail.SegmentTail):
        """A tail that finds no batch that it remembers."""

        __slots__ = ()

        def recent_place(self, *_: Any) -> None:
            """Return None."""

    _put(segment, "SegmentTail", Forgetful)


@case("times are counted in C")
def observe_request() -> None:
    from pybroker.metrics import _counts_python, counts

    # they have the types of the compiled counters, or of parts that have
    _uncompiled("pybroker.api._dispatch", "pybroker.sharing.turns._watch", "pybroker.network._connection", *LEADING)
    _put(counts, "observe_request", _counts_python.observe_request)
    _put(counts, "Counts", _counts_python.Counts)
    _put(counts, "RequestCounts", _counts_python.RequestCounts)


@case("a request's header is read in C")
def usual_request_header() -> None:
    from pybroker.protocol import codec

    _put(codec, "usual_request_header", _nothing)


def main() -> None:
    names = sys.argv.pop(1).split(",")
    for name, (_, take_away) in CASES.items():
        if name in names:
            take_away()
    from pybroker.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
