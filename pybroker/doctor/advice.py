"""Puts findings into words: a line for each fact, then what to change, and whether a client would work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.doctor.findings import Failure, Instead

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pybroker.doctor.findings import Broker, BrokerResponse, Look

_NAMED_MAX: Final = 10
"""The partitions, or brokers, of a line that are named."""


def attempt(address: str, failure: Failure | None) -> str:
    """Return how an attempt to connect ended."""
    return f"{address} connects" if failure is None else f"{address} {failure.value}"


def outcome(found: Look) -> Iterator[str]:
    """Yield what responds at an address, or what is there instead."""
    if found.refusal:
        yield f"does not let this client in: {found.refusal}"
    if found.instead is not None:
        login = f": {', '.join(found.mechanisms)}" if found.mechanisms else ""
        yield f"there is {found.instead.value}{login}"
    if (response := found.response) is not None:
        node = "" if response.node_id is None else f", broker {response.node_id}"
        yield f"{response.software.value} responds: cluster {response.cluster_id or 'without an id'}{node}, {response.apis} APIs"


def bootstrap_problem(found: Look) -> str | None:
    """Return why a client gets no metadata there, and what to do; None when it does."""
    if found.unresolved:
        return f"The name {found.host} does not resolve on this machine. {_OWN_NAMES}"
    if not found.connects:
        return f"{found} {_why(found)}. {_NO_CONNECTION[_failure(found)]}"
    if found.refusal:
        return f"The broker at {found} does not let this client in: {found.refusal}."
    if found.instead is not None:
        return f"There is {found.instead.value} at {found}. {_THERE_IS[found.instead]}"
    assert found.response is not None
    if not found.response.brokers:
        return f"The broker at {found} lists no brokers that its clients can reach: it may still be starting."
    return None


def broker_problem(bootstrap: Look, broker: Broker, found: Look) -> str | None:
    """Return why a client cannot use an advertised broker, and what to change; None when it can."""
    response = bootstrap.response
    assert response is not None
    wrong = _wrong(response, broker, found)
    if wrong is None:
        return None
    advertised = f"The broker advertises {broker}" if len(response.brokers) == 1 else f"Broker {broker.node_id} is {broker}"
    remedy = _remedy(bootstrap, broker, response)
    if len(response.brokers) > 1 and found.attempts and not found.connects:  # it may have stopped since the cluster listed it
        remedy = f"Start broker {broker.node_id}; if it runs, {remedy[0].lower()}{remedy[1:]}"
    return f"{advertised}, {wrong}. {remedy}"


def ailments(bootstrap: Look) -> Iterator[str]:
    """Yield what the cluster lacks, although clients may work: brokers, leaders, replicas in sync."""
    found = None if bootstrap.response is None else bootstrap.response.partitions
    if found is None:
        return
    if found.missing:
        names = _listed(found.missing)
        are = f"Brokers {names} are" if len(found.missing) > 1 else f"Broker {names} is"
        yield f"{are} not live, and partitions have replicas there: start what has stopped."
    for some, lack in (
        (found.without_leader, "no leader: no client can write or read there"),
        (found.under_min_isr, "fewer replicas in sync than min.insync.replicas: the broker refuses acks=all there"),
        (found.under_replicated, "replicas that are not in sync"),
    ):
        if some:
            have = "has" if len(some) == 1 else "have"
            yield f"{len(some)} of {found.count} partitions {have} {lack} ({_listed(some)})."


def verdict(bootstrap: Look, problems: Sequence[str]) -> Iterator[str]:
    """Yield what to change, or that a client works; then what the cluster lacks."""
    yield from problems
    if not problems:
        assert bootstrap.response is not None
        several = f" and all {len(bootstrap.response.brokers)} live brokers" if len(bootstrap.response.brokers) > 1 else ""
        yield f"A client on this machine works with {bootstrap}{several}."
    yield from ailments(bootstrap)


def _listed(found: Sequence[object]) -> str:
    """Return the first names of a list, and how many more there are."""
    more = f" and {len(found) - _NAMED_MAX} more" if len(found) > _NAMED_MAX else ""
    return f"{', '.join(map(str, found[:_NAMED_MAX]))}{more}"


def _wrong(response: BrokerResponse, broker: Broker, found: Look) -> str | None:
    """Return what is wrong with an advertised address, as a clause that follows the address."""
    if found.unresolved:
        return f"and the name {found.host} does not resolve on this machine"
    if not found.connects:
        return f"and that {_why(found)}"
    if found.refusal:
        return f"and it does not let this client in: {found.refusal}"
    if found.instead is not None:
        return f"and there is {found.instead.value}"
    there = found.response
    assert there is not None
    if there.cluster_id != response.cluster_id:
        return f"but another cluster responds there ({there.cluster_id}, not {response.cluster_id}): clients would use that one"
    if there.node_id is not None and there.node_id != broker.node_id:
        return f"but broker {there.node_id} responds there: each broker needs an address of its own"
    return None


def _remedy(bootstrap: Look, broker: Broker, response: BrokerResponse) -> str:
    is_same = (bootstrap.host, bootstrap.port) == (broker.host, broker.port)
    if is_same or len(response.brokers) > 1:
        value, known = "HOST:PORT", ", an address by which this machine reaches it"
    else:
        value, known = str(bootstrap), ", which works from here"
    if not response.is_in_container:
        return f"Set {value}{known}, in the broker's advertised.listeners; or run the client where the advertised address works."
    if response.has_advertised:
        return (
            f"Put {value}{known}, into KAFKA_ADVERTISED_LISTENERS of the broker's container, or set PYBROKER_ADVERTISED={value}"
            " there instead of it; or run the client on the container's network."
        )
    return f"Set PYBROKER_ADVERTISED={value}{known}, for the broker's container; or run the client on the container's network."


def _failure(found: Look) -> Failure:
    """Return the failure that shows most: a machine that refuses a connection exists."""
    failures = [failure for _, failure in found.attempts if failure is not None]
    return min(failures, key=list(Failure).index)


def _why(found: Look) -> str:
    return _failure(found).value


_OWN_NAMES = (
    "A container's name is known only in the networks of that container: from the host use localhost and the published port."
)

_NO_CONNECTION = {
    Failure.REFUSED: (
        "Nothing listens at that port: start the broker, or, if it runs in a container, publish its port (-p 9092:9092) and"
        " let it listen at more than localhost."
    ),
    Failure.TIMEOUT: "A firewall is in the way, or the address is one of a network that this machine is not on.",
    Failure.UNREACHABLE: "There is no route from this machine to that address.",
}

_THERE_IS = {
    Instead.TLS: "Set security.protocol=SSL in the client, or use a listener with PLAINTEXT.",
    Instead.HTTP: "Use the broker's port instead; it is 9092 unless it was changed.",
    Instead.LOGIN: "Set security.protocol=SASL_PLAINTEXT and a login in the client, or use a listener with PLAINTEXT.",
    Instead.CLOSED: (
        "If the port is a container's, the engine has taken the connection and nothing listens inside: the broker is not up yet,"
        " or another port of it was published."
    ),
    Instead.SILENT: "It may be a broker that is overloaded or still starting, or no broker at all.",
    Instead.OTHER: "Use the broker's port instead; it is 9092 unless it was changed.",
}
