"""A broker with an authorizer, and things whose names no client may learn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pybroker.config.acl_settings import AUTHORIZERS
from pybroker.metadata.acl_changes import create_acls
from pybroker.protocol.messages.find_coordinator import FindCoordinatorRequest
from pybroker.security.acl.binding import (
    CLUSTER_NAME,
    Acl,
    AclOperation,
    PatternType,
    PermissionType,
    ResourcePattern,
    ResourceType,
)
from testing.scenes.api.groups import commit_request
from testing.scenes.api.whole import Whole
from tests.api.transactions import Producer

ADMIN, BOB = "User:admin", "User:bob"
SECRET = "secret"


async def guarded(folder: Path, **config: Any) -> Whole:
    """Start a broker whose super user is ADMIN, the principal of the connection."""
    whole = Whole(
        folder,
        authorizer_class_name=AUTHORIZERS[0],
        super_users=ADMIN,
        offsets_topic_num_partitions=1,
        transaction_state_log_num_partitions=1,
        **config,
    )
    connection = whole.connection
    connection.principal, connection.peer_host, connection.security_protocol = ADMIN, "10.0.0.1", "SASL_PLAINTEXT"
    return await whole.start()


async def with_secrets(folder: Path) -> Whole:
    """Start such a broker with a topic, a group and a transactional id of the name SECRET. The asker has no permission."""
    whole = await guarded(folder)
    await whole.create(SECRET)
    for key_type in (0, 1):
        await whole.ask(FindCoordinatorRequest(key=SECRET, key_type=key_type), 1)
    await whole.ask(commit_request(SECRET, group_id=SECRET), 0)
    producer = Producer(whole, tid=SECRET)
    await producer.init()
    assert await producer.add(0, topic=SECRET) == [0]
    await allow(whole, ResourceType.TOPIC, SECRET, AclOperation.ALL, principal="User:other")
    whole.connection.principal = BOB
    return whole


async def allow(
    whole: Whole,
    resource_type: ResourceType,
    name: str = CLUSTER_NAME,
    *operations: AclOperation,
    principal: str = BOB,
    permission: PermissionType = PermissionType.ALLOW,
    pattern: PatternType = PatternType.LITERAL,
) -> None:
    """Create ACLs."""
    acls = [Acl(ResourcePattern(resource_type, name, pattern), principal, "*", one, permission) for one in operations]
    assert await create_acls(whole.controller, acls) == [None] * len(acls)
