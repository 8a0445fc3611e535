"""Values from elsewhere: `${PROVIDER:PATH:KEY}` and `${PROVIDER:KEY}` in properties, by Kafka's config providers.

    config.providers=file,env
    config.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider
    config.providers.env.class=org.apache.kafka.common.config.provider.EnvVarConfigProvider
    ssl.key.password=${file:/run/secrets/broker.properties:key}

A properties file, a directory with a file for each key, or the environment. Their parameters are not read: a broker takes such
values from its own sources only, never from a client. Without `config.providers`, the text is what it is.

Source: ConfigTransformer, FileConfigProvider, DirectoryConfigProvider, EnvVarConfigProvider; KIP-297, KIP-421.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pybroker.config.properties import PropertiesError, parse_properties
from pybroker.config.setting import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping

KEY: Final = "config.providers"
_CLASSES: Final = "org.apache.kafka.common.config.provider."
_REFERENCE: Final = re.compile(r"\$\{([^}:]+):(?:([^}]*?):)?([^}:]*)\}")


def resolved(texts: Mapping[str, tuple[str, str]], providers: Mapping[str, tuple[str, str]]) -> dict[str, tuple[str, str]]:
    """Return properties with their values from elsewhere, each with where it was set; `providers` are those of all sources.

    Raises ConfigError, without a value from elsewhere.
    """
    names = [name.strip() for name in providers.get(KEY, ("", ""))[1].split(",") if name.strip()]
    kinds = {name: _kind(name, providers) for name in names}
    if not kinds:
        return dict(texts)
    return {name: _resolved(name, origin, text, kinds) for name, (origin, text) in texts.items()}


def _kind(name: str, providers: Mapping[str, tuple[str, str]]) -> str:
    key = f"{KEY}.{name}.class"
    text = providers.get(key, ("", ""))[1].strip()
    kind = text.removeprefix(_CLASSES)
    if kind not in _READ:
        raise ConfigError(key, text, f"must be one of {', '.join(_CLASSES + known for known in _READ)}")
    return kind


def _resolved(name: str, origin: str, text: str, kinds: Mapping[str, str]) -> tuple[str, str]:
    parts, end = [], 0
    for match in _REFERENCE.finditer(text):
        provider, path, key = match.groups()
        if provider not in kinds:
            continue
        try:
            origin, value = _READ[kinds[provider]](path or "", key)
        except KeyError:
            raise ConfigError(name, match[0], f"there is no {key}") from None
        except (OSError, PropertiesError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", str(error))
            raise ConfigError(name, match[0], f"cannot be read: {reason}") from None
        parts += [text[end : match.start()], value]
        end = match.end()
    return origin, "".join((*parts, text[end:]))


def _of_file(path: str, key: str) -> tuple[str, str]:
    return path, parse_properties(Path(path).read_text(encoding="utf-8"))[key]


def _of_directory(path: str, key: str) -> tuple[str, str]:
    return str(Path(path, key)), Path(path, key).read_text(encoding="utf-8")


def _of_environment(_path: str, key: str) -> tuple[str, str]:
    return key, os.environ[key]


_READ: Final = {
    "FileConfigProvider": _of_file,
    "DirectoryConfigProvider": _of_directory,
    "EnvVarConfigProvider": _of_environment,
}
