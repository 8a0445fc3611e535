"""Features of the cluster and their levels (KIP-584): the supported levels, the levels in force, and changes of them.

    group.version      0: groups of the classic protocol only; 1: those of KIP-848 too
    metadata.version   the level of the Kafka release whose behaviour this broker has. Tools can read it, and it changes
                       nothing, because no metadata is kept in Kafka's form. A downgrade is refused if Kafka would
                       lose
                       something by it.
    transaction.version  0, 1: transactions as before KIP-890; 2: Produce adds partitions, and each end gives a new epoch.
                       From 1 on the records of `__transaction_state` have fields that a Kafka before 4.0 cannot read.

A new cluster has the highest level of each feature. The store keeps all levels that were changed in one entry.

Source: FeatureControlManager, QuorumFeatures, MetadataVersion, GroupVersion; KIP-584, KIP-778, KIP-1022.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from pybroker.metadata.image import ConfigResource
from pybroker.metadata.plan import Plan
from pybroker.protocol.error_codes import ErrorCode, KafkaError

if TYPE_CHECKING:
    from pybroker.metadata.image import ClusterImage
    from pybroker.sharing.work import Pausing

GROUP_VERSION: Final = "group.version"
METADATA_VERSION: Final = "metadata.version"
TRANSACTION_VERSION: Final = "transaction.version"
_FEATURES: Final = ConfigResource("feature", "")

UPGRADE: Final = 1
SAFE_DOWNGRADE: Final = 2
UNSAFE_DOWNGRADE: Final = 3


class Levels(NamedTuple):
    """The levels of a feature that this broker can have, both ends included."""

    lowest: int
    highest: int


SUPPORTED: Final[Mapping[str, Levels]] = {
    GROUP_VERSION: Levels(0, 1),
    METADATA_VERSION: Levels(7, 30),
    TRANSACTION_VERSION: Levels(0, 2),
}
"""metadata.version: 7 is 3.3-IV3, the lowest of Kafka 4; 30 is 4.3-IV0."""
_WITH_OTHER_RECORDS: Final = frozenset({8, 11, 13, 14, 15, 17, 23, 30})
"""The levels of metadata.version with which Kafka began to keep other metadata than with the level before."""


class FeatureUpdate(NamedTuple):
    """A feature's new level. `upgrade_type` is Kafka's number, one of those above if it is known."""

    feature: str
    level: int
    upgrade_type: int = UPGRADE


def levels_in_force(image: ClusterImage) -> dict[str, int]:
    """Return the level of each feature that is supported."""
    changed = image.configs_of(*_FEATURES)
    return {name: int(changed.get(name, levels.highest)) for name, levels in SUPPORTED.items()}


def serves_consumer_groups(image: ClusterImage) -> bool:
    """Return whether groups of KIP-848 may be used."""
    return levels_in_force(image)[GROUP_VERSION] > 0


def transaction_version(image: ClusterImage) -> int:
    """Return the level of transaction.version in force."""
    return levels_in_force(image)[TRANSACTION_VERSION]


def plan_feature_updates(image: ClusterImage, updates: Sequence[FeatureUpdate], *, all_or_none: bool) -> Pausing[Plan]:
    """Make a plan with an error or None for each of `updates`, whose features must be distinct. It yields between them.

    With `all_or_none` one error keeps all features unchanged, and setting an unknown feature to level 0, which is the
    level it has, is an error too. That is how Kafka 4 responds; Kafka 3.9 changed the features that it could change.
    """
    plan = Plan()
    levels = levels_in_force(image)
    for update in updates:
        error = _refusal(image, update, levels.get(update.feature, 0), is_known_needed=all_or_none)
        plan.errors.append(error)
        if error is None and update.feature in levels and levels[update.feature] != update.level:
            plan.notes.append(f"Feature {update.feature} is at level {update.level} now")
            levels[update.feature] = update.level
        yield
    if plan.notes and not (all_or_none and any(plan.errors)):
        plan.change_configs(image, _FEATURES, {name: str(level) for name, level in levels.items()})
    return plan


def _refusal(image: ClusterImage, update: FeatureUpdate, now: int, *, is_known_needed: bool) -> KafkaError | None:
    name, level, upgrade_type = update
    lowest, highest = SUPPORTED.get(name, Levels(0, 0))
    if upgrade_type not in (UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE):
        reason = "The controller does not support the given upgrade type."
    elif level < 0:
        reason = "A feature version cannot be less than 0."
    elif not lowest <= level <= highest:
        known = f"only supports versions {lowest}-{highest}" if name in SUPPORTED else "does not support this feature"
        reason = f"Local controller {image.controller_id} {known}."
    elif level < now and upgrade_type == UPGRADE:
        reason = (
            "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade."
        )
    elif level > now and upgrade_type != UPGRADE:
        reason = "Can't downgrade to a newer version."
    elif name == METADATA_VERSION:
        return _metadata_refusal(level, now=now, is_unsafe=upgrade_type == UNSAFE_DOWNGRADE)
    elif is_known_needed and name not in SUPPORTED:
        reason = f"Feature {name} not found."
    else:
        return None
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"Invalid update version {level} for feature {name}. {reason}")


def _metadata_refusal(level: int, *, now: int, is_unsafe: bool) -> KafkaError | None:
    if not any(level < one <= now for one in _WITH_OTHER_RECORDS):
        return None
    reason = (
        "Unsafe metadata downgrade is not supported in this version."
        if is_unsafe
        else "Refusing to perform the requested downgrade because it might delete metadata information."
    )
    return KafkaError(ErrorCode.INVALID_UPDATE_VERSION, f"Unsupported metadata.version downgrade from {now} to {level}. {reason}")
