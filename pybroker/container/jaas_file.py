"""The login modules of a file that KAFKA_OPTS names, as Kafka's images take it: -Djava.security.auth.login.config=FILE.

A listener has those of the section `LISTENER.KafkaServer`, with its name in lower case, or else of `KafkaServer`. A property
`listener.name.LISTENER.MECHANISM.sasl.jaas.config` is stronger.

Source: JaasContext.loadServerContext.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pybroker.config.listener_settings import key_of
from pybroker.config.listeners import has_logins
from pybroker.config.setting import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pybroker.config.listeners import Endpoint

JAVA_OPTIONS: Final = "KAFKA_OPTS"
_FILE: Final = re.compile(r"-Djava\.security\.auth\.login\.config=(?:\"([^\"]+)\"|'([^']+)'|(\S+))")
_SECTION: Final = "KafkaServer"


def file_of(environment: Mapping[str, str]) -> str | None:
    """Return the file that KAFKA_OPTS names; None if it names none."""
    match = _FILE.search(environment.get(JAVA_OPTIONS, ""))
    return None if match is None else (match[1] or match[2] or match[3]).removeprefix("file:")


def login_modules(
    environment: Mapping[str, str], endpoints: Iterable[Endpoint], properties: Mapping[str, object]
) -> dict[str, tuple[str, str]]:
    """Return the properties for the login modules of SASL listeners that `properties` lack. Raises ConfigError."""
    file, listeners = file_of(environment), [one.listener_name for one in endpoints if has_logins(one.security_protocol)]
    if file is None or not listeners:
        return {}
    from pybroker.security.sasl.jaas import JaasError, parse_sections  # noqa: PLC0415  only where clients log in
    from pybroker.security.sasl.offers import JAAS, MODULES  # noqa: PLC0415

    try:
        sections = parse_sections(Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, JaasError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ConfigError(JAVA_OPTIONS, file, f"the login modules cannot be read: {reason}") from None
    found = {}
    for listener in listeners:
        modules = sections.get(f"{listener.lower()}.{_SECTION}", sections.get(_SECTION, []))
        for mechanism, name in MODULES.items():
            key = key_of(listener, JAAS, mechanism)
            for module in modules:
                if module.name == name and key not in properties:
                    found[key] = JAVA_OPTIONS, module.text()
    return found
