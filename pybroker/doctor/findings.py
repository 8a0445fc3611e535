"""The findings at an address, as plain data: `look` fills it, `advice` puts it into words."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from pybroker.network.limits import host_and_port

if TYPE_CHECKING:
    from pybroker.model import BrokerId, TopicPartition


class Instead(Enum):
    """The thing at a port that sends no response in Kafka's protocol; the text continues "there is"."""

    TLS = "a server that speaks TLS"
    HTTP = "a web server"
    LOGIN = "a broker that wants a login (SASL)"
    CLOSED = "something that closes the connection at once"
    SILENT = "something that takes the connection and sends nothing"
    OTHER = "a server that does not speak Kafka's protocol"


class Failure(Enum):
    """The reason why there is no connection; the text follows the address."""

    REFUSED = "refuses the connection"
    TIMEOUT = "gives no response"
    UNREACHABLE = "cannot be reached"


class Software(Enum):
    """The software of a broker, recognized by the settings that it has."""

    PYBROKER = "pybroker"
    KAFKA = "Apache Kafka"
    UNKNOWN = "a broker with Kafka's protocol"


@dataclass(slots=True, frozen=True)
class Broker:
    """A broker as the cluster advertises it."""

    node_id: BrokerId
    host: str
    port: int

    def __str__(self) -> str:
        return host_and_port(self.host, self.port)


@dataclass(slots=True, frozen=True)
class Partitions:
    """How many partitions a cluster has, and those that lack something, in their order.

    Attributes:
        under_min_isr: those with a leader that has fewer replicas in sync than acks=all needs.
        missing: the brokers that have replicas and are not live.
    """

    count: int
    without_leader: tuple[TopicPartition, ...] = ()
    under_min_isr: tuple[TopicPartition, ...] = ()
    under_replicated: tuple[TopicPartition, ...] = ()
    missing: tuple[BrokerId, ...] = ()


@dataclass(slots=True, frozen=True)
class BrokerResponse:
    """A broker's report about itself and its cluster.

    Attributes:
        node_id: id of the broker that responded, None where it does not report it.
        cluster_id: None where it has none: Kafka before 0.10.1.
        apis: how many APIs it serves.
        has_advertised: whether advertised.listeners is set.
        is_in_container: whether pybroker's entry command of an image has started it.
        partitions: None where it was not asked.
    """

    software: Software
    cluster_id: str | None
    node_id: BrokerId | None
    apis: int
    brokers: tuple[Broker, ...]
    has_advertised: bool = False
    is_in_container: bool = False
    partitions: Partitions | None = None


@dataclass(slots=True)
class Look:
    """The findings at host:port.

    Attributes:
        unresolved: why the name has no address, empty when it has one.
        attempts: each of its addresses with why there is no connection, None when there is one.
        response: the response of the first address with a connection.
        instead: what is there, where there is no response.
        mechanisms: the mechanisms of the login that is wanted.
        refusal: why TLS, or the login, of this client fails there; empty where it does not.
    """

    host: str
    port: int
    unresolved: str = ""
    attempts: list[tuple[str, Failure | None]] = field(default_factory=list)
    response: BrokerResponse | None = None
    instead: Instead | None = None
    mechanisms: tuple[str, ...] = ()
    refusal: str = ""

    @property
    def connects(self) -> bool:
        """Whether one of the addresses connects."""
        return any(failure is None for _, failure in self.attempts)

    def __str__(self) -> str:
        return host_and_port(self.host, self.port)
