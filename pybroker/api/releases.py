"""Releases of Kafka as a client sees them: which versions of which APIs each of them accepts and announces.

`releases.json` beside this module has the ranges, as the releases' own classes declare them; `python -m testing.process.releases`
makes it again. A broker that is started with `pybroker.as.version` serves what the release and pybroker have in common.

Source: ApiKeys, Protocol, ApiVersionsResponse of each release; for features the responses of its brokers.
"""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pybroker.api.registry import APIS
from pybroker.metadata.features import METADATA_VERSION, SUPPORTED, Levels
from pybroker.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from collections.abc import Mapping

    Ranges = Mapping[int, tuple[int, int]]

NEWEST: Final = "4.3"
"""The release of Kafka 4 by which clients are judged."""

_FILE: Final = Path(__file__).with_name("releases.json")
_FEATURES: Final[Mapping[str, Mapping[str, Levels]]] = {"3.9": {METADATA_VERSION: Levels(1, 21)}, NEWEST: SUPPORTED}
_SILENT: Final = "0.9"
_OWN_RANGE_SINCE: Final = 3
"""The version of ApiVersions with which its own range came into the response to an unknown version (KIP-511)."""


@dataclass(slots=True, frozen=True, eq=False)
class Release:
    """A release, without what pybroker lacks of it.

    Attributes:
        accepted, announced: the lowest and the highest version by the key of an API. They differ: Kafka 4 announces Produce from
            v0 on and accepts it from v3 on, and a broker without a plugin for telemetry does not announce its APIs. A release
            that has no ApiVersions announces nothing.
        features: the levels that are announced as supported.
        is_silent: whether a request that the broker does not know gets no response at all, on a connection that stays open, as
            from Kafka 0.9. The other releases close the connection.
    """

    name: str
    accepted: Ranges
    announced: Ranges
    features: Mapping[str, Levels]
    is_silent: bool

    @property
    def names_own_range(self) -> bool:
        """Whether the response to an unknown version of ApiVersions has the range that it is known in."""
        return self.accepted[ApiKey.API_VERSIONS][1] >= _OWN_RANGE_SINCE


@functools.cache
def release(name: str) -> Release:
    """Return a release by its name in the setting `pybroker.as.version`."""
    ranges = declared(name)
    own = {key: (api.lowest, api.highest) for key, api in APIS.items()}
    features = _FEATURES.get(name, {})
    common = {feature: _common(levels, SUPPORTED[feature]) for feature, levels in features.items()}
    return Release(
        name,
        accepted=_in_both(ranges["accepted"], own),
        announced=_in_both(ranges["announced"], own),
        features={feature: Levels(*levels) for feature, levels in common.items() if levels is not None},
        is_silent=name == _SILENT,
    )


@functools.cache
def declared(name: str) -> Mapping[str, Ranges]:
    """Return what a release accepts and announces by itself, under these two words."""
    one = json.loads(_FILE.read_text())[name]
    return {word: {int(key): (low, high) for key, (low, high) in one[word].items()} for word in ("accepted", "announced")}


def _in_both(theirs: Ranges, ours: Ranges) -> Ranges:
    ranges = ((key, _common(one, ours[key])) for key, one in theirs.items() if key in ours)
    return {key: common for key, common in ranges if common is not None}


def _common(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int] | None:
    low, high = max(one[0], other[0]), min(one[1], other[1])
    return (low, high) if low <= high else None
