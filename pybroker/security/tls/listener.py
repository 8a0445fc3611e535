"""The TLS of one listener: the context of its next connections, and the principals of its clients."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pybroker.security.principal import ANONYMOUS, user
from pybroker.security.tls.contexts import client_context, server_context
from pybroker.security.tls.distinguished_name import subject_of
from pybroker.security.tls.mapping_rules import MappingRules

if TYPE_CHECKING:
    from ssl import SSLContext

    from pybroker.security.tls.settings import TlsSettings

_RULES = "ssl.principal.mapping.rules"


class ListenerTls:
    """The context and the rules of a listener, which are replaced together. Belongs to the loop."""

    __slots__ = ("_is_for_brokers", "_rules", "client_context", "context", "settings")

    def __init__(self, settings: TlsSettings, *, is_for_brokers: bool = False) -> None:
        """Read the stores. `is_for_brokers`: this broker connects to the others with the same settings. Raises ConfigError."""
        self._is_for_brokers = is_for_brokers
        self.settings: TlsSettings
        self.context: SSLContext
        self.client_context: SSLContext | None = None
        self.load(settings)

    def load(self, settings: TlsSettings) -> None:
        """Read the stores again; connections that come later have them. Raises ConfigError, and then nothing has changed."""
        try:
            rules = MappingRules(settings[_RULES])
        except ValueError as error:
            raise settings.error(_RULES, str(error)) from None
        context = server_context(settings)
        if self._is_for_brokers:
            self.client_context = client_context(settings)
        self.settings, self.context, self._rules = settings, context, rules

    def principal_of(self, ssl_object: Any) -> str:
        """Return the principal of a client after the handshake. Raises ValueError and NoRuleError for one that has none."""
        certificate = ssl_object.getpeercert(binary_form=True)
        return ANONYMOUS if certificate is None else user(self._rules.user_name(subject_of(certificate)))
