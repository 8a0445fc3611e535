"""Which cluster a command means: an address, and the settings of the client by the names of Kafka's clients.

They come from the command line, from variables, or from a file of profiles, whose tables have Kafka's names:

    default = "local"

    [local]
    bootstrap.servers = "localhost:9092"

    [test]
    bootstrap.servers = "kafka.example:9093"
    security.protocol = "SSL"
    ssl.truststore.location = "/etc/kafka/ca.pem"
    ssl.truststore.type = "PEM"

The first of these that names a cluster decides: the options, the variables, the `default` of the file, and then localhost:9092.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from pybroker.tools.connection import servers
from pybroker.tools.errors import NOT_SUPPORTED, CommandError
from pybroker.tools.target import BOOTSTRAP_VARIABLE, Target, properties_of

PROFILE_VARIABLE: Final = "PYBROKER_PROFILE"
FILE_VARIABLE: Final = "PYBROKER_PROFILES"
DEFAULT_BOOTSTRAP: Final = "localhost:9092"
DEFAULT: Final = "default"
BOOTSTRAP: Final = "bootstrap.servers"
WAIT: Final = "default.api.timeout.ms"
RESPONSE: Final = "request.timeout.ms"


def profiles_file(environment: Mapping[str, str]) -> Path:
    """Return where the file of profiles is, whether there is one or not."""
    if (named := environment.get(FILE_VARIABLE)) is not None:
        return Path(named)
    base = environment.get("XDG_CONFIG_HOME") or Path(environment.get("HOME", "~")).expanduser() / ".config"
    return Path(base) / "pybroker" / "profiles.toml"


def target_of(
    environment: Mapping[str, str],
    *,
    bootstrap: str | None = None,
    profile: str | None = None,
    command_config: str | None = None,
    timeout_s: float | None = None,
) -> Target:
    """Return the cluster that the options, the variables or the file name. Raises CommandError.

    A command tries once to connect, unless the settings have `default.api.timeout.ms`.
    """
    origin, properties = "", dict[str, str]()
    if bootstrap is None and profile is None:
        bootstrap, profile = environment.get(BOOTSTRAP_VARIABLE) or None, environment.get(PROFILE_VARIABLE) or None
        origin = f"{BOOTSTRAP_VARIABLE}: "
    where: str | None = None
    if bootstrap is None or profile is not None:
        where, properties = _profile(environment, profile)
    if command_config is not None:
        given = properties_of(command_config)
        where = command_config if BOOTSTRAP in given else where
        properties |= given
    if timeout_s is not None:
        properties[RESPONSE] = str(round(timeout_s * 1000))
    properties.setdefault(WAIT, "0")
    if bootstrap is None and where is not None:
        if BOOTSTRAP not in properties:
            raise CommandError(f"{where} has no {BOOTSTRAP}", NOT_SUPPORTED)
        bootstrap, origin = properties[BOOTSTRAP], f"{where}: {BOOTSTRAP}: "
    return Target(DEFAULT_BOOTSTRAP if bootstrap is None else _addresses(bootstrap, origin), properties)


def address_or_profile(text: str | None) -> tuple[str | None, str | None]:
    """Return the `bootstrap` and the `profile` of `target_of` for a text that is either: an address has a colon."""
    return (text, None) if text is not None and ":" in text else (None, text)


def _addresses(bootstrap: str, origin: str) -> str:
    """Return addresses that are HOST:PORT each. Raises CommandError, which begins with `origin`."""
    for one in bootstrap.split(","):
        try:
            servers(one)
        except CommandError:
            raise CommandError(f"{origin}{one.strip() or repr(one)}: must be HOST:PORT", NOT_SUPPORTED) from None
    return bootstrap


def _profile(environment: Mapping[str, str], name: str | None) -> tuple[str | None, dict[str, str]]:
    """Return how errors name a profile, and its settings: without a name, the default one, if any. Raises CommandError."""
    path = profiles_file(environment)
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if name is None and FILE_VARIABLE not in environment:
            return None, {}
        what = FILE_VARIABLE if name is None else f"profile {name}"
        raise CommandError(f"{what}: there is no file {path}", NOT_SUPPORTED) from None
    except OSError as error:
        raise CommandError(f"{path}: {error.strerror}", NOT_SUPPORTED) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{path}: {error}", NOT_SUPPORTED) from error
    name = content.get(DEFAULT) if name is None else name
    if name is None:
        return None, {}
    tables = {key: table for key, table in content.items() if isinstance(table, dict)}
    if name not in tables:
        there = f"it has {', '.join(tables)}" if tables else "it has none"
        raise CommandError(f"{path} has no profile {name}: {there}", NOT_SUPPORTED)
    return f"{path}: profile {name}", dict(_flat(tables[name]))


def _flat(table: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    """Return the values by whole names: TOML reads a name with dots as tables in tables."""
    found = []
    for key, value in table.items():
        if isinstance(value, dict):
            found += _flat(value, f"{prefix}{key}.")
        else:
            found.append((f"{prefix}{key}", str(value).lower() if isinstance(value, bool) else str(value)))
    return found
