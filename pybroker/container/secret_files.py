"""The variables of Confluent's and Apache's images for stores and their passwords: names of files in /etc/kafka/secrets.

    KAFKA_SSL_KEYSTORE_FILENAME, KAFKA_SSL_TRUSTSTORE_FILENAME                                        the stores
    KAFKA_SSL_KEYSTORE_CREDENTIALS, KAFKA_SSL_TRUSTSTORE_CREDENTIALS, KAFKA_SSL_KEY_CREDENTIALS       files with a password each

Source: `configure` of confluentinc's images and of Apache Kafka's.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from pybroker.config.setting import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER: Final = "etc/kafka/secrets"
_STORES: Final = {
    "KAFKA_SSL_KEYSTORE_FILENAME": "ssl.keystore.location",
    "KAFKA_SSL_TRUSTSTORE_FILENAME": "ssl.truststore.location",
}
_PASSWORDS: Final = {
    "KAFKA_SSL_KEYSTORE_CREDENTIALS": "ssl.keystore.password",
    "KAFKA_SSL_TRUSTSTORE_CREDENTIALS": "ssl.truststore.password",
    "KAFKA_SSL_KEY_CREDENTIALS": "ssl.key.password",
}


def properties_of_files(environment: Mapping[str, str], root: str = "/") -> dict[str, tuple[str, str]]:
    """Return the properties that these variables stand for, each with its variable and its text. Raises ConfigError."""
    folder = Path(root, FOLDER)
    found = {
        name: (variable, str(folder / environment[variable])) for variable, name in _STORES.items() if environment.get(variable)
    }
    for variable, name in _PASSWORDS.items():
        if not (file := environment.get(variable)):
            continue
        try:
            found[name] = variable, (folder / file).read_text(encoding="utf-8").rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise ConfigError(variable, file, f"the password cannot be read from {folder / file}: {reason}") from None
    return found
