"""How a stock client gets in at a listener, in the settings of each client."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Final

STORE_PASSWORD: Final = "store password"


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
            settings |= {"sasl_plain_username": self.user, "sasl_plain_password": self.password}
        return settings

    def of_librdkafka(self) -> dict[str, Any]:
        settings = {
            "bootstrap.servers": self.bootstrap, "security.protocol": self.protocol, "sasl.mechanism": self.mechanism,
            "sasl.username": self.user, "sasl.password": self.password, "ssl.ca.location": self.ca,
            "ssl.certificate.location": self.certificate, "ssl.key.location": self.key,
        }  # fmt: skip
        return {name: value for name, value in settings.items() if value}

    def of_old_java(self) -> dict[str, str]:
        """Return the settings of a release that reads no PEM: beside each file is a store, with STORE_PASSWORD.

        The login is in a file of its own.
        """
        settings = {"bootstrap.servers": self.bootstrap, "security.protocol": self.protocol}
        if self.mechanism:
            settings["sasl.mechanism"] = self.mechanism
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
        return settings

    def login_module(self) -> str:
        """Return the login as Java has it."""
        module = "scram.ScramLoginModule" if self.mechanism.startswith("SCRAM") else "plain.PlainLoginModule"
        return f'org.apache.kafka.common.security.{module} required username="{self.user}" password="{self.password}";'
