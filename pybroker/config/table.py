"""The whole table of broker properties, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.config.group_settings import FAMILIES, GROUP_SETTINGS, Family
from pybroker.config.log_settings import LOG_SETTINGS
from pybroker.config.server_settings import SERVER_SETTINGS

if TYPE_CHECKING:
    from pybroker.config.setting import Setting

BROKER_SETTINGS: Final[dict[str, Setting]] = {s.name: s for s in (*SERVER_SETTINGS, *LOG_SETTINGS, *GROUP_SETTINGS)}


def family_of(name: str) -> Family | None:
    """The family of a name that has no row; None for an unknown name."""
    for family in FAMILIES:
        if name == family.prefix or (family.prefix.endswith(".") and name.startswith(family.prefix)):
            return family
    return None
