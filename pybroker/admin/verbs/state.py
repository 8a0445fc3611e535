"""Shows whether a broker lives, its cluster, its memory and its clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker import __version__
from pybroker.admin import returned, topics
from pybroker.admin.calls import UNAVAILABLE, AdminError
from pybroker.admin.route import Route
from pybroker.http_server import NOT_ALIVE, is_alive
from pybroker.security.acl.binding import AclOperation

if TYPE_CHECKING:
    from pybroker.admin.calls import Call, Json
    from pybroker.admin.subject import Subject


async def show_life(subject: Subject, _call: Call) -> Json:
    """Return whether the broker's event loop runs."""
    return _state(None if await is_alive(subject.loop) else NOT_ALIVE)


async def show_readiness(subject: Subject, _call: Call) -> Json:
    """Return whether the broker is ready for clients."""
    return _state(subject.why_not_ready())


async def show_cluster(subject: Subject, _call: Call) -> Json:
    """Return the brokers, how many partitions lack replicas, and what this broker has in work."""
    found = await subject.carry_out(topics.cluster(None))
    partitions = [one for topic in found.topics for one in topic.partitions]
    return {
        "version": __version__,
        "node_id": subject.parts.node_id,
        "cluster_id": found.cluster_id,
        "controller_id": found.controller_id,
        "brokers": [
            {"node_id": one.node_id, "host": one.host, "port": one.port, "rack": one.rack}
            for one in sorted(found.brokers, key=lambda one: one.node_id)
        ],
        "topic_count": sum(not topic.is_internal for topic in found.topics),
        "partition_count": len(partitions),
        "under_replicated_count": sum(len(one.isr_nodes) < len(one.replica_nodes) for one in partitions),
        "offline_count": sum(one.leader_id < 0 for one in partitions),
        "broker": (await subject.in_loop(subject.parts.state())).as_data(),
    }


async def list_clients(subject: Subject, _call: Call) -> Json:
    """Return what each client has used, the one that was seen last at the end."""
    return {"clients": [one.as_data() for one in await subject.in_loop(subject.parts.clients.seen())]}


def _state(reason: str | None) -> Json:
    if reason is not None:
        raise AdminError(UNAVAILABLE, reason)
    return {"status": "ok"}


DESCRIBE: Final = AclOperation.DESCRIBE
ROUTES: Final = (
    Route("GET", "/livez", show_life, "Whether the broker's event loop runs.", returned.STATUS),
    Route("GET", "/readyz", show_readiness, "Whether the broker is ready for clients.", returned.STATUS),
    Route(
        "GET",
        "/v1/cluster",
        show_cluster,
        "The brokers, and what this one has in work.",
        returned.CLUSTER,
        needs=DESCRIBE,
    ),
    Route("GET", "/v1/clients", list_clients, "What each client has used, connected or not.", returned.CLIENTS, needs=DESCRIBE),
)
