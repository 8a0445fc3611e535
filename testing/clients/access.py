"""How a stock client gets in at a listener, in the settings of each client."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

STORE_PASSWORD: Final = "store password"
MODULES: Final = {"P": "plain.PlainLoginModule", "S": "scram.ScramLoginModule", "O": "oauthbearer.OAuthBearerLoginModule"}
"""Java's classes for a login, by the first letter of the mechanism."""
TOKEN_HANDLER: Final = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler"
TOKEN_LIVES_S: Final = 600


@dataclass(frozen=True)
class Access:
    """Where the broker is, and what the client shows and trusts. Files are in PEM; an empty text is none."""

    bootstrap: str
    protocol: str = "PLAINTEXT"
    mechanism: str = ""
    user: str = ""
    password: str = ""
    ca: str = ""
    certificate: str = ""
    key: str = ""
    both: str = ""
    """The file of the key and the certificate, as Java has them."""
    token: str = ""
    """The file of the token of OAUTHBEARER, which Python's clients get from a provider that the caller adds."""

    def as_dict(self) -> dict[str, str]:
        return asdict(self)

    def of_kafka_python(self) -> dict[str, Any]:
        files = {"ssl_cafile": self.ca, "ssl_certfile": self.certificate, "ssl_keyfile": self.key}
        return self._of_python() | {name: file for name, file in files.items() if file}

    def of_aiokafka(self, create_ssl_context: Callable[..., Any]) -> dict[str, Any]:
        settings = self._of_python()
        if self.ca:
            files = {"cafile": self.ca, "certfile": self.certificate or None, "keyfile": self.key or None}
            settings["ssl_context"] = create_ssl_context(**files)
        return settings

    def _of_python(self) -> dict[str, Any]:
        settings = {"bootstrap_servers": self.bootstrap, "security_protocol": self.protocol}
        if self.mechanism:
            settings["sasl_mechanism"] = self.mechanism
        if self.user:
            settings |= {"sasl_plain_username": self.user, "sasl_plain_password": self.password}
        return settings

    def of_librdkafka(self) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "bootstrap.servers": self.bootstrap, "security.protocol": self.protocol, "sasl.mechanism": self.mechanism,
            "sasl.username": self.user, "sasl.password": self.password, "ssl.ca.location": self.ca,
            "ssl.certificate.location": self.certificate, "ssl.key.location": self.key,
        }  # fmt: skip
        if self.token:
            settings["oauth_cb"] = lambda _: (Path(self.token).read_text(), time.time() + TOKEN_LIVES_S)
        return {name: value for name, value in settings.items() if value}

    def of_old_java(self) -> dict[str, str]:
        """Return the settings of a release that reads no PEM: beside each file is a store, with STORE_PASSWORD.

        Releases before 0.10.2 have the login in a file of its own.
        """
        settings = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if self.mechanism:
            settings |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": self.login_module()}
        for kind, file in (("truststore", self.ca), ("keystore", self.both)):
            if file:
                settings[f"ssl.{kind}.location"] = file.replace(".pem", ".p12")
                settings |= {f"ssl.{kind}.type": "PKCS12", f"ssl.{kind}.password": STORE_PASSWORD}
        return settings

    def of_java(self) -> dict[str, str]:
        settings = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if self.ca:
            settings |= {"ssl.truststore.type": "PEM", "ssl.truststore.location": self.ca}
        if self.both:
            settings |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": self.both}
        if self.mechanism:
            settings |= {"sasl.mechanism": self.mechanism, "sasl.jaas.config": self.login_module()}
        if self.token:
            settings["sasl.login.callback.handler.class"] = TOKEN_HANDLER
            settings["sasl.oauthbearer.token.endpoint.url"] = f"file://{self.token}"
        return settings

    def login_module(self) -> str:
        """Return the login as Java has it."""
        options = f' username="{self.user}" password="{self.password}"' if self.user else ""
        return f"org.apache.kafka.common.security.{MODULES[self.mechanism[0]]} required{options};"
