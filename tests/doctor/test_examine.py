"""The doctor's text for each finding; each case has its own cluster, described by the looks at its addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pybroker.doctor.advice import attempt, outcome
from pybroker.doctor.examine import examine
from pybroker.doctor.findings import Broker, BrokerResponse, Failure, Instead, Look, Partitions, Software
from pybroker.model import BrokerId, TopicPartition

if TYPE_CHECKING:
    from collections.abc import Callable


CLUSTER = "wn5OPu3oTQSRIInEHe2aBQ"


def response(
    *brokers: Broker,
    software: Software = Software.PYBROKER,
    cluster_id: str = CLUSTER,
    node_id: int | None = 1,
    has_advertised: bool = False,
    partitions: Partitions | None = None,
) -> BrokerResponse:
    return BrokerResponse(
        software=software,
        cluster_id=cluster_id,
        node_id=None if node_id is None else BrokerId(node_id),
        apis=39,
        brokers=brokers,
        has_advertised=has_advertised,
        is_in_container=software is Software.PYBROKER,
        partitions=partitions,
    )


def fine(host: str, port: int, *brokers: Broker, **of: object) -> Look:
    return Look(host, port, attempts=[("10.0.0.7", None)], response=response(*brokers, **of))  # type: ignore[arg-type]


def failing(host: str, port: int, failure: Failure) -> Look:
    return Look(host, port, attempts=[("10.0.0.7", failure)])


class Machine:
    """A machine whose looks at addresses are prepared, by host and port."""

    def __init__(self, *looks: Look) -> None:
        self._looks = {(look.host, look.port): look for look in looks}
        self.lines: list[str] = []

    def examine(self, host: str = "localhost", port: int = 9092) -> bool:
        return not any(one.problem for one in examine(host, port, self._look, self.lines.append, 5.0))

    def _look(self, host: str, port: int, report: Callable[[str], None]) -> Look:
        found = self._looks[host, port]
        for line in (*(attempt(*one) for one in found.attempts), *outcome(found)):
            report(line)
        return found

    @property
    def verdict(self) -> list[str]:
        return self.lines[self.lines.index("") + 1 :]


LOCAL = Broker(BrokerId(1), "localhost", 9092)


def test_a_cluster_that_works() -> None:
    machine = Machine(fine("localhost", 9092, LOCAL))
    assert machine.examine()
    assert machine.lines == [
        "Bootstrap localhost:9092 (each step takes 5 s at most)",
        "  10.0.0.7 connects",
        f"  pybroker responds: cluster {CLUSTER}, broker 1, 39 APIs",
        "Broker 1 is advertised as localhost:9092",
        "  10.0.0.7 connects",
        f"  pybroker responds: cluster {CLUSTER}, broker 1, 39 APIs",
        "",
        "A client on this machine works with localhost:9092.",
    ]


def test_an_address_that_refuses_beside_one_that_connects_is_no_problem() -> None:
    found = fine("localhost", 9092, LOCAL)
    found.attempts = [("::1", Failure.REFUSED), ("127.0.0.1", None)]
    machine = Machine(found)
    assert machine.examine()
    assert machine.lines[1:3] == ["  ::1 refuses the connection", "  127.0.0.1 connects"]


def test_a_broker_that_does_not_identify_itself_may_be_the_right_one() -> None:
    found = fine("localhost", 9092, LOCAL, software=Software.UNKNOWN, node_id=None)
    machine = Machine(found)
    assert machine.examine()
    assert machine.lines[2] == f"  a broker with Kafka's protocol responds: cluster {CLUSTER}, 39 APIs"


PUBLISHED = fine("localhost", 19092, LOCAL)
NAMED = Broker(BrokerId(1), "kafka", 9092)
OURS = (
    "Set PYBROKER_ADVERTISED=localhost:19092, which works from here, for the broker's container;"
    " or run the client on the container's network."
)
NAMED_OURS = (
    "Put localhost:19092, which works from here, into KAFKA_ADVERTISED_LISTENERS of the broker's container, or set"
    " PYBROKER_ADVERTISED=localhost:19092 there instead of it; or run the client on the container's network."
)
KAFKAS = (
    "Set localhost:19092, which works from here, in the broker's advertised.listeners;"
    " or run the client where the advertised address works."
)


@pytest.mark.parametrize(
    ("looks", "verdict"),
    [
        (
            [PUBLISHED, failing("localhost", 9092, Failure.REFUSED)],
            f"The broker advertises localhost:9092, and that refuses the connection. {OURS}",
        ),
        (
            [
                fine("localhost", 19092, NAMED, has_advertised=True),
                Look("kafka", 9092, unresolved="Name or service not known"),
            ],
            "The broker advertises kafka:9092, and the name kafka does not resolve on this machine. " + NAMED_OURS,
        ),
        (
            [
                fine("localhost", 19092, NAMED, software=Software.KAFKA),
                Look("kafka", 9092, unresolved="Name or service not known"),
            ],
            "The broker advertises kafka:9092, and the name kafka does not resolve on this machine. " + KAFKAS,
        ),
        (
            [fine("localhost", 19092, NAMED), failing("kafka", 9092, Failure.TIMEOUT)],
            f"The broker advertises kafka:9092, and that gives no response. {OURS}",
        ),
        (
            [PUBLISHED, fine("localhost", 9092, LOCAL, cluster_id="another")],
            (
                "The broker advertises localhost:9092, but another cluster responds there"
                f" (another, not {CLUSTER}): clients would use that one. {OURS}"
            ),
        ),
        (
            [PUBLISHED, Look("localhost", 9092, attempts=[("127.0.0.1", None)], instead=Instead.HTTP)],
            f"The broker advertises localhost:9092, and there is a web server. {OURS}",
        ),
    ],
)
def test_an_advertised_address_that_does_not_work(looks: list[Look], verdict: str) -> None:
    machine = Machine(*looks)
    assert not machine.examine(port=19092)
    assert machine.verdict == [verdict]


def test_each_of_several_brokers_is_looked_at() -> None:
    one, two, three = Broker(BrokerId(1), "a", 9092), Broker(BrokerId(2), "b", 9092), Broker(BrokerId(3), "c", 9092)
    brokers = (one, two, three)
    machine = Machine(fine("a", 9092, *brokers), fine("b", 9092, *brokers, node_id=1), failing("c", 9092, Failure.UNREACHABLE))
    assert not machine.examine("a")
    remedy = (
        "Set PYBROKER_ADVERTISED=HOST:PORT, an address by which this machine reaches it, for the broker's container;"
        " or run the client on the container's network."
    )
    assert machine.verdict == [
        f"Broker 2 is b:9092, but broker 1 responds there: each broker needs an address of its own. {remedy}",
        f"Broker 3 is c:9092, and that cannot be reached. Start broker 3; if it runs, set{remedy.removeprefix('Set')}",
    ]
    machine = Machine(*(fine(broker.host, 9092, *brokers, node_id=broker.node_id) for broker in brokers))
    assert machine.examine("a")
    assert machine.verdict == ["A client on this machine works with a:9092 and all 3 live brokers."]


def orders(*numbers: int) -> tuple[TopicPartition, ...]:
    return tuple(TopicPartition("orders", number) for number in numbers)


def test_partitions_that_lack_a_leader_or_replicas_and_missing_brokers_are_named() -> None:
    broker = Broker(BrokerId(1), "a", 9092)
    partitions = Partitions(
        count=50,
        without_leader=orders(2, 3),
        under_min_isr=orders(4),
        under_replicated=orders(*range(2, 14)),
        missing=(BrokerId(3),),
    )
    machine = Machine(fine("a", 9092, broker, partitions=partitions))
    assert not machine.examine("a"), "the cluster is ill, although a client works with the others"
    assert machine.verdict == [
        "A client on this machine works with a:9092.",
        "Broker 3 is not live, and partitions have replicas there: start what has stopped.",
        "2 of 50 partitions have no leader: no client can write or read there (orders-2, orders-3).",
        ("1 of 50 partitions has fewer replicas in sync than min.insync.replicas: the broker refuses acks=all there (orders-4)."),
        (
            "12 of 50 partitions have replicas that are not in sync (orders-2, orders-3, orders-4, orders-5, orders-6, orders-7,"
            " orders-8, orders-9, orders-10, orders-11 and 2 more)."
        ),
    ]


def test_several_missing_brokers_are_one_line() -> None:
    partitions = Partitions(count=1, missing=tuple(map(BrokerId, range(2, 14))))
    machine = Machine(fine("a", 9092, Broker(BrokerId(1), "a", 9092), partitions=partitions))
    assert not machine.examine("a")
    assert machine.verdict[1] == (
        "Brokers 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 2 more are not live, and partitions have replicas there: start what has"
        " stopped."
    )


def test_a_cluster_that_lacks_nothing_is_well() -> None:
    machine = Machine(fine("a", 9092, Broker(BrokerId(1), "a", 9092), partitions=Partitions(count=50)))
    assert machine.examine("a")


@pytest.mark.parametrize(
    ("look", "beginning"),
    [
        (
            Look("localhost", 9092, unresolved="No address"),
            "The name localhost does not resolve on this machine. A container's name",
        ),
        (failing("localhost", 9092, Failure.REFUSED), "localhost:9092 refuses the connection. Nothing listens at that port"),
        (failing("localhost", 9092, Failure.TIMEOUT), "localhost:9092 gives no response. A firewall is in the way"),
        (failing("localhost", 9092, Failure.UNREACHABLE), "localhost:9092 cannot be reached. There is no route"),
        (fine("localhost", 9092), "The broker at localhost:9092 lists no brokers"),
        *(
            (
                Look("localhost", 9092, attempts=[("127.0.0.1", None)], instead=instead),
                f"There is {instead.value} at localhost:9092.",
            )
            for instead in Instead
        ),
    ],
)
def test_a_bootstrap_address_that_does_not_work(look: Look, beginning: str) -> None:
    machine = Machine(look)
    assert not machine.examine()
    [verdict] = machine.verdict
    assert verdict.startswith(beginning)


def test_the_failure_that_explains_most_is_named() -> None:
    found = Look("localhost", 9092, attempts=[("::1", Failure.UNREACHABLE), ("127.0.0.1", Failure.REFUSED)])
    machine = Machine(found)
    assert not machine.examine()
    assert machine.verdict[0].startswith("localhost:9092 refuses the connection.")


def test_the_mechanisms_of_a_login_are_named() -> None:
    found = Look("h", 1, attempts=[("10.0.0.7", None)], instead=Instead.LOGIN, mechanisms=("PLAIN", "SCRAM-SHA-512"))
    machine = Machine(found)
    assert not machine.examine("h", 1)
    assert "  there is a broker that wants a login (SASL): PLAIN, SCRAM-SHA-512" in machine.lines
