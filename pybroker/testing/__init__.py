"""Brokers for the tests of programs that use Kafka: `docs/testing.md` has them by task.

    from pybroker.testing import Broker

    async with Broker() as broker:               # in the event loop of the test
    with Broker.in_thread() as broker:           # in a thread with an event loop of its own, for clients that block
    with Broker.subprocess() as broker:          # a process, for clients in other languages

A broker in the process of a test changes nothing of that process: no signal handler, no handler of logs, no policy of event
loops, no limit, nothing of the garbage collector. Each broker has its own port, directory, metadata and metrics.

broker          a broker in the running event loop
cluster         several brokers that are one cluster
blocking        a broker or a cluster in a thread
process         a broker that is a process
remote          its faults, clock and requests, by its API
child           the program of the broker that is a process
plugin          the fixtures for pytest
verbs           the methods that work on what is in a broker
faults          the rules of faults, under a name for programs of users
clock           the time of a broker elsewhere
topics_file     topics in a file
leaks           what a test has left behind
snapshot        a copy of all files of a broker
server          the broker's server, with what differs inside of another program
settings        the settings of a broker for tests
place           where a broker is: its address and its directory
directory       the directory of a broker's data, which ends with its process
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pybroker.protocol.error_codes import KafkaError
    from pybroker.testing.blocking import ThreadBroker, ThreadCluster
    from pybroker.testing.broker import Broker
    from pybroker.testing.cluster import Cluster
    from pybroker.testing.process import ProcessBroker
    from pybroker.times.clock import RealClockError

__all__ = ["Broker", "Cluster", "KafkaError", "ProcessBroker", "RealClockError", "ThreadBroker", "ThreadCluster"]

_PLACES: Final = {
    "Rule": "pybroker.faults.rule",
    "RuleError": "pybroker.faults.rule",
    "Broker": "pybroker.testing.broker",
    "Cluster": "pybroker.testing.cluster",
    "KafkaError": "pybroker.protocol.error_codes",
    "ProcessBroker": "pybroker.testing.process",
    "RealClockError": "pybroker.times.clock",
    "ThreadBroker": "pybroker.testing.blocking",
    "ThreadCluster": "pybroker.testing.blocking",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: pytest imports this package in each run, also in those whose tests use no broker."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415  only with a broker

    return getattr(import_module(_PLACES[name]), name)
