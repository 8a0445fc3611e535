"""ACLs in the metadata store: created and deleted in one commit, in an order, and read again."""

from __future__ import annotations

import asyncio

import pytest

from pybroker.config.broker import BrokerConfig
from pybroker.metadata.acl_changes import create_acls, delete_acls
from pybroker.metadata.acl_entries import decode_acl, encode_acl
from pybroker.metadata.controller import Controller
from pybroker.metadata.entries import ACL_PREFIX
from pybroker.metadata.store.base import StoreError
from pybroker.metadata.store.memory import MemoryStore
from pybroker.model import BrokerId
from pybroker.protocol.error_codes import ErrorCode, KafkaError
from pybroker.security.acl.binding import Acl, AclOperation, PatternType, PermissionType, ResourcePattern, ResourceType
from pybroker.security.acl.filters import AclFilter

BOB = Acl(ResourcePattern(ResourceType.TOPIC, "a"), "User:bob", "*", AclOperation.READ, PermissionType.ALLOW)
AL = BOB._replace(principal="User:al")


async def controller_of(store: MemoryStore, broker_id: int = 1) -> Controller:
    controller = Controller(store, BrokerConfig(node_id=broker_id), broker_id=BrokerId(broker_id))
    await controller.start("cluster-id")
    return controller


async def test_acls_are_created_once_and_read_again() -> None:
    store = MemoryStore()
    controller = await controller_of(store)
    assert await create_acls(controller, [BOB, AL, BOB]) == [None, None, None]
    assert set(controller.image.acls) == {BOB, AL}
    revision = controller.image.revision
    assert await create_acls(controller, [BOB]) == [None]
    assert controller.image.revision == revision, "it is there"
    assert set((await controller_of(store)).image.acls) == {BOB, AL}


async def test_a_change_is_one_commit() -> None:
    controller = await controller_of(MemoryStore())
    changes: list[bool] = []
    controller.subscribe(lambda _old, _new, delta: changes.append(delta.acls_changed))
    await create_acls(controller, [BOB, AL])
    everything = AclFilter()
    all_of_them, one = await delete_acls(controller, [everything, AclFilter(principal="User:al")])
    assert isinstance(all_of_them, list)
    assert (set(all_of_them), one) == ({BOB, AL}, [AL])
    assert changes == [True, True]
    assert not len(controller.image.acls)


@pytest.mark.parametrize(
    ("acl", "reason"),
    [
        (
            BOB._replace(pattern=ResourcePattern(ResourceType.CLUSTER, "a")),
            "The only valid name for the CLUSTER resource is kafka-cluster",
        ),
        (BOB._replace(pattern=ResourcePattern(ResourceType.TOPIC, "")), "Invalid empty resource name"),
        (BOB._replace(pattern=ResourcePattern(ResourceType.ANY, "a")), "Invalid resourceType ANY"),
        (BOB._replace(pattern=ResourcePattern(ResourceType.TOPIC, "a", PatternType.MATCH)), "Invalid patternType MATCH"),
        (BOB._replace(operation=AclOperation.ANY), "Invalid operation ANY"),
        (BOB._replace(permission=PermissionType.UNKNOWN), "Invalid permissionType UNKNOWN"),
        (
            BOB._replace(principal="bob"),
            "Could not parse principal from `bob` (no colon is present separating the principal type from the principal name)",
        ),
    ],
)
async def test_an_acl_that_makes_no_sense_is_refused_and_others_are_created(acl: Acl, reason: str) -> None:
    controller = await controller_of(MemoryStore())
    refused, created = await create_acls(controller, [acl, AL])
    assert isinstance(refused, KafkaError)
    assert (refused.code, refused.message, created) == (ErrorCode.INVALID_REQUEST, reason, None)
    assert set(controller.image.acls) == {AL}


async def test_a_filter_that_makes_no_sense_deletes_nothing() -> None:
    controller = await controller_of(MemoryStore())
    await create_acls(controller, [BOB])
    refused, deleted = await delete_acls(controller, [AclFilter(operation=AclOperation.UNKNOWN), AclFilter(principal="User:al")])
    assert isinstance(refused, KafkaError)
    assert (refused.code, refused.message, deleted) == (ErrorCode.INVALID_REQUEST, "Unknown entryFilter.", [])
    assert set(controller.image.acls) == {BOB}


async def test_a_deletion_sees_each_acl_that_another_broker_has_created() -> None:
    store = MemoryStore()
    one, other = await controller_of(store, 1), await controller_of(store, 2)
    await create_acls(one, [BOB])
    results = await asyncio.gather(delete_acls(other, [AclFilter()]), create_acls(one, [AL]), delete_acls(one, [AclFilter()]))
    assert set(one.image.acls) == set(other.image.acls) <= {AL}
    assert results[1] == [None]


def test_an_entry_in_another_form_is_an_error() -> None:
    assert decode_acl(ACL_PREFIX, encode_acl(BOB)) == BOB
    with pytest.raises(StoreError, match="cannot be read"):
        decode_acl(ACL_PREFIX + "x", encode_acl(BOB).replace(b"READ", b"SING"))
