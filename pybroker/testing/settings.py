"""The settings of a broker for tests: Kafka's, but for those that make a single test wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.admin.topics import text_of
from pybroker.config.load import load_texts
from pybroker.config.setting import ConfigError
from pybroker.config.table import BROKER_SETTINGS, family_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from pybroker.admin.topics import Setting
    from pybroker.config.broker import BrokerConfig

LOOPBACK: Final = "127.0.0.1"
ORIGIN: Final = "the test"
AS_VERSION: Final = "pybroker.as.version"

_OF_DATA: Final = "the data of a test's broker is in a directory of its own"
OWN: Final = {
    "log.dirs": _OF_DATA,
    "log.dir": _OF_DATA,
    "metadata.store": _OF_DATA,
    "pybroker.virtual.time": "the broker is made with virtual_time=True",
}
"""Settings that a test cannot set, and why."""

DEFAULTS: Final = {
    "group.initial.rebalance.delay.ms": "0",  # else the first member of each group waits three seconds for others
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.heartbeat.interval.ms": "100",  # a member of the new protocol learns with a heartbeat what it is assigned
    "offsets.topic.num.partitions": "1",  # one file each is enough for a test, and quicker to load and to remove than fifty
    "transaction.state.log.num.partitions": "1",
    "max.incremental.fetch.session.cache.slots": "0",  # so each Fetch names its partitions, and a test can look at them
    "log.segment.delete.delay.ms": "1000",  # else the files of deleted topics take memory for a minute
}
"""Weaker than the settings of the test."""


def texts_of(settings: Mapping[str, Setting] | None, as_version: str | None = None) -> dict[str, str]:
    """Return settings as texts, in Kafka's form. Raises ConfigError for an unknown name, which is a mistake, and for OWN."""
    if not isinstance(as_version, str | None):
        raise ConfigError(AS_VERSION, as_version, 'it is a text, as "0.10.2"')
    texts = {} if as_version is None else {AS_VERSION: as_version}
    for name, value in (settings or {}).items():
        if name in OWN:
            raise ConfigError(name, value, OWN[name])
        if name not in BROKER_SETTINGS and family_of(name) is None:
            raise ConfigError(name, value, "no setting has this name; `pybroker config list` prints all of them")
        texts[name] = text_of(value)
    return texts


def config_of(texts: Mapping[str, str], directory: Path, *, port: int = 0) -> BrokerConfig:
    """Return the configuration of a broker whose data is in `directory`. Nothing is read from the environment.

    `port` is that of the first listener; 0 means any free one, or the one that the settings name. Raises ConfigError.
    """
    properties = {name: (ORIGIN, text) for name, text in properties_of(texts, directory).items()}
    if "listeners" in texts:
        return load_texts([properties], port=port or None).config
    return load_texts([properties], host=LOOPBACK, port=port).config


def properties_of(texts: Mapping[str, str], directory: Path) -> dict[str, str]:
    """Return the properties of a broker whose data is in `directory`."""
    return {**DEFAULTS, "log.dirs": str(directory / "data"), **texts}
