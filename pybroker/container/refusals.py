"""Refuses listeners that an image's scripts would have made: nothing here runs a command for a host.

`several_brokers` looks for signs of several brokers, `access_control` for other access control.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.container.several_brokers import refusal, text_of

if TYPE_CHECKING:
    from pybroker.config.load import Texts

_LISTENERS: Final = (
    "advertised.listeners",
    "listeners",
)  # the second may be derived from the first, without being written by the user


def check(properties: Texts) -> None:
    """Refuse listeners that cannot be. Raises ConfigError. `properties` include those of other images' own variables."""
    for name in _LISTENERS:
        if "_{" in text_of(properties, name):  # as in wurstmeister's image, whose scripts run HOSTNAME_COMMAND for it
            raise refusal(properties, name, "has a place for a command's output, but no command is run: write the host itself")
