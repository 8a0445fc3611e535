"""The whole table of broker properties, by section."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pybroker.config.acl_settings import ACL_SETTINGS
from pybroker.config.group_settings import FAMILIES, GROUP_SETTINGS, Family
from pybroker.config.log_settings import LOG_SETTINGS
from pybroker.config.quota_settings import QUOTA_SETTINGS
from pybroker.config.sasl_settings import SASL_SETTINGS
from pybroker.config.server_settings import SERVER_SETTINGS
from pybroker.config.tls_settings import TLS_SETTINGS
from pybroker.config.token_settings import TOKEN_SETTINGS

if TYPE_CHECKING:
    from pybroker.config.setting import Setting

SECTIONS: Final[tuple[tuple[str, tuple[Setting, ...]], ...]] = (
    ("The server, its sockets, topics and replication", SERVER_SETTINGS),
    ("The log", LOG_SETTINGS),
    ("Groups, offsets and transactions", GROUP_SETTINGS),
    ("Logins", SASL_SETTINGS),
    ("Delegation tokens", TOKEN_SETTINGS),
    ("Authorization", ACL_SETTINGS),
    ("TLS", TLS_SETTINGS),
    ("Quotas", QUOTA_SETTINGS),
)
BROKER_SETTINGS: Final = {setting.name: setting for _, settings in SECTIONS for setting in settings}


def family_of(name: str) -> Family | None:
    """Return the family of a name that has no row, or None for an unknown name."""
    for family in FAMILIES:
        if name == family.prefix or (family.prefix.endswith(".") and name.startswith(family.prefix)):
            return family
    return None
