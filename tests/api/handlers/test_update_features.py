"""Levels of features change as in Kafka's controller, are reported, and take effect."""

from __future__ import annotations

from pathlib import Path

import pytest

from pybroker.protocol.codec import message_versions
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages.api_versions import ApiVersionsRequest
from pybroker.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from pybroker.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from testing.scenes.api.whole import Whole

VERSIONS = range(message_versions(57)[1] + 1)
UPGRADE, SAFE, UNSAFE = 1, 2, 3
REFUSED = ErrorCode.INVALID_UPDATE_VERSION


def update(version: int, feature: str, level: int, kind: int = UPGRADE) -> FeatureUpdateKey:
    if version == 0:
        return FeatureUpdateKey(feature=feature, max_version_level=level, allow_downgrade=kind != UPGRADE)
    return FeatureUpdateKey(feature=feature, max_version_level=level, upgrade_type=kind)


async def ask(whole: Whole, version: int, *updates: FeatureUpdateKey, validate_only: bool = False) -> tuple[list[int], str]:
    """Return the code of each feature (from v2 on, the code of the request) and the first message."""
    request = UpdateFeaturesRequest(feature_updates=list(updates), validate_only=validate_only)
    response = await whole.ask(request, version)
    if version >= 2 or response.error_code:
        return [response.error_code], response.error_message or ""
    assert [one.feature for one in response.results] == [one.feature for one in updates]
    return [one.error_code for one in response.results], next(
        (one.error_message for one in response.results if one.error_code), ""
    )


async def levels(whole: Whole) -> dict[str, int]:
    response = await whole.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 4)
    return {one.name: one.max_version_level for one in response.finalized_features}


@pytest.mark.parametrize("version", VERSIONS)
async def test_levels_change_and_are_returned(tmp_path: Path, version: int) -> None:
    whole = await Whole(tmp_path).start()
    assert await levels(whole) == {"group.version": 1, "metadata.version": 30, "transaction.version": 2}
    assert await ask(whole, version, update(version, "group.version", 0, SAFE)) == ([0], "")
    assert await levels(whole) == {"metadata.version": 30, "transaction.version": 2}
    assert await ask(whole, version, update(version, "group.version", 1)) == ([0], "")
    assert await ask(whole, version, update(version, "metadata.version", 30)) == ([0], "")
    assert await levels(whole) == {"group.version": 1, "metadata.version": 30, "transaction.version": 2}


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("feature", "level", "kind", "text"),
    [
        ("group.version", 2, UPGRADE, "Local controller 1 only supports versions 0-1."),
        ("group.version", -1, SAFE, "A feature version cannot be less than 0."),
        ("group.version", 0, UPGRADE, "Can't downgrade the version of this feature"),
        ("metadata.version", 29, SAFE, "might delete metadata information"),
        ("metadata.version", 6, SAFE, "Local controller 1 only supports versions 7-30."),
        ("metadata.version", 31, UPGRADE, "Local controller 1 only supports versions 7-30."),
        ("nonsense", 1, UPGRADE, "Local controller 1 does not support this feature."),
    ],
)
async def test_levels_that_cannot_be(tmp_path: Path, version: int, feature: str, level: int, kind: int, text: str) -> None:
    whole = await Whole(tmp_path).start()
    before = whole.controller.image
    codes, message = await ask(whole, version, update(version, feature, level, kind))
    assert codes == [REFUSED]
    assert text in message
    assert whole.controller.image is before


async def test_kinds_of_downgrade_are_not_upgrades(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    await ask(whole, 1, update(1, "group.version", 0, SAFE))
    codes, message = await ask(whole, 1, update(1, "group.version", 1, SAFE))
    assert (codes, "Can't downgrade to a newer version." in message) == ([REFUSED], True)
    codes, message = await ask(whole, 1, update(1, "group.version", 1, 9))
    assert (codes, "does not support the given upgrade type" in message) == ([REFUSED], True)
    codes, message = await ask(whole, 1, update(1, "metadata.version", 28, UNSAFE))
    assert (codes, "Unsafe metadata downgrade is not supported" in message) == ([REFUSED], True)
    assert await levels(whole) == {"metadata.version": 30, "transaction.version": 2}


@pytest.mark.parametrize("version", VERSIONS)
async def test_one_error_and_the_others(tmp_path: Path, version: int) -> None:
    """The broker changes all features or none from v2 on; before, it changes those that it can."""
    whole = await Whole(tmp_path).start()
    codes, _ = await ask(whole, version, update(version, "group.version", 0, SAFE), update(version, "nonsense", 1))
    assert codes == ([REFUSED] if version >= 2 else [0, REFUSED])
    assert ("group.version" in await levels(whole)) is (version >= 2)
    codes, message = await ask(whole, version, update(version, "nonsense", 0, SAFE))
    assert codes == ([REFUSED] if version >= 2 else [0])
    assert ("Feature nonsense not found." in message) is (version >= 2)


@pytest.mark.parametrize("version", VERSIONS)
async def test_a_feature_comes_once(tmp_path: Path, version: int) -> None:
    whole = await Whole(tmp_path).start()
    twice = [update(version, "group.version", 0, SAFE)] * 2
    assert (await ask(whole, version, *twice))[0] == [ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize("version", VERSIONS[1:])
async def test_only_validated(tmp_path: Path, version: int) -> None:
    whole = await Whole(tmp_path).start()
    before = whole.controller.image
    assert await ask(whole, version, update(version, "group.version", 0, SAFE), validate_only=True) == ([0], "")
    assert whole.controller.image is before


async def test_group_version_0_refuses_members_of_new_groups(tmp_path: Path) -> None:
    whole = await Whole(tmp_path).start()
    request = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id="m", member_epoch=0, rebalance_timeout_ms=1000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    await ask(whole, 1, update(1, "group.version", 0, SAFE))
    assert (await whole.ask(request, 1)).error_code == ErrorCode.UNSUPPORTED_VERSION
    await ask(whole, 1, update(1, "group.version", 1))
    assert (await whole.ask(request, 1)).error_code != ErrorCode.UNSUPPORTED_VERSION
