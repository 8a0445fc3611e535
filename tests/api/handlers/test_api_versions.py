"""ApiVersions lists the registry and remembers the client's software; wrong names, clusters and versions are refused."""

from __future__ import annotations

import pkgutil

import pytest

from pybroker.api import handlers
from pybroker.api.handlers import api_versions
from pybroker.api.registry import APIS
from pybroker.metadata.features import SAFE_DOWNGRADE, FeatureUpdate
from pybroker.protocol.api_keys import ApiKey
from pybroker.protocol.codec import encode_response, message_versions
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.api_versions import ApiVersionsRequest
from testing.scenes.api.cluster import ClusterScene

VERSIONS = range(message_versions(ApiKey.API_VERSIONS)[1] + 1)


def client(name: str = "apache-kafka-java", version: str = "3.9.2") -> ApiVersionsRequest:
    return ApiVersionsRequest(client_software_name=name, client_software_version=version)


@pytest.mark.parametrize("version", VERSIONS)
async def test_the_list_is_the_registry(version: int) -> None:
    cluster = await ClusterScene().start()
    context = cluster.context(version)
    response = await cluster.ask(api_versions.handle, version, client(), context)
    assert response.error_code == 0
    served = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    assert served == {key: (api.lowest, api.highest) for key, api in APIS.items()}
    assert served[18] == (0, 5)
    supported = {one.name: (one.min_version, one.max_version) for one in response.supported_features}
    finalized = {one.name: (one.min_version_level, one.max_version_level) for one in response.finalized_features}
    metadata, group = {"metadata.version": (7, 30)}, {"group.version": (0, 1), "transaction.version": (0, 2)}
    assert supported == ({} if version < 3 else metadata if version == 3 else metadata | group)
    assert finalized == (
        {} if version < 3 else {"metadata.version": (30, 30), "group.version": (1, 1), "transaction.version": (2, 2)}
    )
    assert response.finalized_features_epoch == (cluster.controller.image.revision if version >= 3 else -1)
    noted = (context.connection.client_software_name, context.connection.client_software_version)
    assert noted == (("apache-kafka-java", "3.9.2") if version >= 3 else ("", ""))


async def test_a_response_that_was_kept_has_the_id_of_its_request_and_the_features_of_now() -> None:
    cluster = await ClusterScene().start()
    for correlation_id in (3, -4):
        context = cluster.context(4)._replace(correlation_id=correlation_id)
        sent = api_versions.handle(cluster.broker, context, client())
        assert isinstance(sent, bytes)
        assert int.from_bytes(sent[4:8], signed=True) == correlation_id
    before = await cluster.ask(api_versions.handle, 4, client())
    await cluster.controller.update_features([FeatureUpdate("group.version", 0, SAFE_DOWNGRADE)], all_or_none=True)
    after = await cluster.ask(api_versions.handle, 4, client())
    assert [one.name for one in before.finalized_features if one not in after.finalized_features] == ["group.version"]
    assert after.finalized_features_epoch > before.finalized_features_epoch


def test_the_folder_of_the_handlers_lists_what_is_served() -> None:
    modules = {module.name.upper() for module in pkgutil.iter_modules(handlers.__path__)}
    assert modules == {api.key.name for api in APIS.values()}


@pytest.mark.parametrize("version", range(3, VERSIONS.stop))
@pytest.mark.parametrize(
    ("name", "ok"),
    [("a", True), ("A-b.c9", True), ("", False), ("-a", False), ("a.", False), ("a b", False), ("ä", False), ("a\n", False)],
)
async def test_names_of_software(version: int, name: str, ok: bool) -> None:
    cluster = await ClusterScene().start()
    for request in [client(name=name), client(version=name)]:
        context = cluster.context(version)
        response = await cluster.ask(api_versions.handle, version, request, context)
        assert response.error_code == (ErrorCode.NONE if ok else ErrorCode.INVALID_REQUEST)
        assert bool(response.api_keys) is ok
        assert bool(context.connection.client_software_name) is ok


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "code"),
    [
        (None, -1, ErrorCode.NONE),
        (None, 9, ErrorCode.NONE),
        ("cluster-id", 1, ErrorCode.NONE),
        ("cluster-id", 2, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("cluster-id", -1, ErrorCode.REBOOTSTRAP_REQUIRED),
        ("another", 1, ErrorCode.REBOOTSTRAP_REQUIRED),
    ],
)
async def test_a_client_that_is_in_the_wrong_place(cluster_id: str | None, node_id: int, code: ErrorCode) -> None:
    cluster = await ClusterScene().start()
    request = client()
    request.cluster_id, request.node_id = cluster_id, node_id
    assert (await cluster.ask(api_versions.handle, 5, request)).error_code == code


def test_an_unknown_version_gets_the_known_ones_in_v0() -> None:
    (frame,) = encode_response(api_versions.unsupported_version_response(), 0, 7)
    assert isinstance(frame, bytes)
    assert frame.hex(" ", 2) == "0000 0010 0000 0007 0023 0000 0001 0012 0000 0005"
